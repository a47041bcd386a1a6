#include "tuner/strategies/horizon.h"

#include <assert.h>
#include <math.h>

void horizon_init(struct horizon *p)
{
    *p = (struct horizon){.epoch_s = 0, .ended_s = NAN};
}

void horizon_interrupt(struct horizon *p)
{
    p->ended_s = NAN;
}

void horizon_epoch(struct horizon *p, double at_s, double work_s)
{
    double took_s = isnan(p->ended_s) ? work_s : at_s - p->ended_s;

    assert(work_s >= 0);
    p->ended_s = at_s;
    if (took_s <= 0)
        return;
    p->epoch_s = p->epoch_s > 0 ? (p->epoch_s + took_s) / 2 : took_s;
}

void horizon_change(struct horizon *p, double work_s)
{
    assert(work_s >= 0);
    p->epoch_s = work_s;
    p->ended_s = NAN;
}

uint32_t horizon_last(const struct horizon *p, uint32_t epochs, uint32_t max,
                      double left_s)
{
    double more;

    if (p->epoch_s <= 0 || epochs >= max)
        return max > epochs ? max : epochs;
    more = floor(fmax(left_s, 0) / p->epoch_s);
    return more >= max - epochs ? max : epochs + (uint32_t)more;
}
