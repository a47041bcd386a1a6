#include "tuner/search/ladder.h"

#include "tuner/search/finalists.h"

#include <assert.h>

bool ladder_step(const struct judge *j, const struct setting *incumbent,
                 uint32_t step, struct setting *out)
{
    static const double ladder[] = {1.0 / 3, 1.0 / 10, 3, 1.0 / 30};
    static const double finer[] = {0.55, 1.8};
    const size_t rungs = sizeof(ladder) / sizeof(ladder[0]);
    const struct space *space = &j->trials->space;
    int rate = space_find(space, "learning_rate");
    struct trial *best;
    double wanted;

    assert(step < LADDER_STEPS);
    assert(incumbent);
    if (rate < 0 || space->tunable[rate].fixed || !space->tunable[rate].acts)
        return false;
    *out = *incumbent;
    wanted = out->value[rate] * (step < rungs ? ladder[step] : 1);
    if (step >= rungs) {
        if (finalists_challengers(j, &best, 1) == 0)
            return false;
        *out = best->setting;
        wanted = out->value[rate] * finer[step - rungs];
    }
    if (wanted < space->tunable[rate].min || wanted > space->tunable[rate].max)
        return false;
    out->value[rate] = wanted;
    space_clamp(space, out);
    return true;
}
