#include "ps/loop/schedule.h"

#include <assert.h>

void schedule_init(struct loop_schedule *s, const struct loop_plan *plan)
{
    s->wavefront = plan_is_wavefront(plan);
    s->ring = plan->strategy == LOOP_2D;
    s->workers = plan->workers;
    s->time_parts = plan->time_parts;
    assert(!s->ring || s->workers == 1 || s->time_parts % s->workers == 0);
}

unsigned schedule_steps(const struct loop_schedule *s)
{
    return s->wavefront ? s->time_parts + s->workers - 1 : s->time_parts;
}

int schedule_part(const struct loop_schedule *s, unsigned worker, unsigned step)
{
    unsigned each = s->time_parts / s->workers;

    assert(worker < s->workers && step < schedule_steps(s));
    if (s->ring)
        return (int)((worker * each + step) % s->time_parts);
    if (!s->wavefront)
        return (int)step;
    if (step < worker || step - worker >= s->time_parts)
        return -1;
    return (int)(step - worker);
}

unsigned schedule_needs(const struct loop_schedule *s, unsigned worker,
                        unsigned step, unsigned *other)
{
    unsigned each = s->time_parts / s->workers;

    if (s->workers == 1 || schedule_part(s, worker, step) < 0)
        return 0;
    if (s->wavefront && worker > 0) {
        *other = worker - 1;
        return step;
    }
    if (s->ring && step >= each) {
        *other = (worker + 1) % s->workers;
        return step - each + 1;
    }
    return 0;
}
