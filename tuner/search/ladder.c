#include "tuner/search/ladder.h"

#include "tuner/search/finalists.h"

#include <assert.h>

/* Of the incumbent's learning rate; then of the best challenger's. */
static const double rungs[] = {1.0 / 3, 1.0 / 10, 3, 1.0 / 30};
static const double finer[] = {0.55, 1.8};

enum { RUNGS = sizeof(rungs) / sizeof(rungs[0]) };

/* @base at the rate that a step makes of its. False: not in the range. */
static bool stepped(const struct space *space, const struct setting *base,
                    uint32_t step, struct setting *out)
{
    int rate = space_find(space, "learning_rate");
    double wanted;

    assert(step < LADDER_STEPS);
    if (rate < 0 || space->tunable[rate].fixed || !space->tunable[rate].acts)
        return false;
    *out = *base;
    wanted =
        out->value[rate] * (step < RUNGS ? rungs[step] : finer[step - RUNGS]);
    if (wanted < space->tunable[rate].min || wanted > space->tunable[rate].max)
        return false;
    out->value[rate] = wanted;
    space_clamp(space, out);
    return true;
}

bool ladder_step(const struct judge *j, const struct setting *incumbent,
                 uint32_t step, struct setting *out)
{
    const struct space *space = &j->trials->space;
    struct trial *best;

    assert(incumbent);
    if (step < RUNGS)
        return stepped(space, incumbent, step, out);
    return finalists_challengers(j, &best, 1) > 0 &&
           stepped(space, &best->setting, step, out);
}

/* Whether trial @i may be that step: of those before it, the best challenger at
 * the time is not known any more. */
static bool is_step(const struct trials *t, const struct setting *incumbent,
                    uint32_t step, uint32_t i)
{
    const struct setting *x = &t->list[i].setting;
    struct setting made;

    if (step < RUNGS)
        return stepped(&t->space, incumbent, step, &made) &&
               space_same(&t->space, &made, x);
    for (uint32_t k = 0; k < i; k++)
        if (stepped(&t->space, &t->list[k].setting, step, &made) &&
            space_same(&t->space, &made, x))
            return true;
    return false;
}

uint32_t ladder_taken(const struct trials *t, const struct setting *incumbent)
{
    uint32_t taken = 0;

    assert(incumbent);
    for (uint32_t i = 0; i < t->n && taken < LADDER_STEPS; i++) {
        const struct trial *x = &t->list[i];

        if (x->incumbent || x->suggestion)
            continue;
        while (taken < LADDER_STEPS && !is_step(t, incumbent, taken, i))
            taken++;
        if (taken < LADDER_STEPS)
            taken++;
    }
    return taken;
}
