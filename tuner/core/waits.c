#include "tuner/core/waits.h"

#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/run.h"
#include "tuner/core/ending.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/snapshots.h"

#include <assert.h>
#include <math.h>

/* A time that passes is waited for only where somebody asked for it: that the
 * run's limit, or a snapshot, is due some time would hide that nobody acts. */
static enum tuner_wait_kind kind_of(const struct board *c)
{
    if (ending_finished(c))
        return TUNER_WAITS_NOT;
    if (!run_ready(c))
        return TUNER_WAITS_READY;
    if (operations_any(c))
        return TUNER_WAITS_ANSWER;
    if (isfinite(clockwork_retry_at(c)))
        return TUNER_WAITS_TIME;
    if (clockwork_stands_still(c) && !lifecycle_ends(c))
        return TUNER_WAITS_USER;
    return TUNER_WAITS_NOBODY;
}

struct tuner_wait waits_for(const struct board *c, double wake_at_s)
{
    struct tuner_wait w = {.kind = kind_of(c), .at_s = wake_at_s};

    assert(!isnan(wake_at_s));
    return w;
}

void waits_check(struct board *c)
{
    static const char mistake[] =
        "nothing was under way, and nothing was to come: this is a mistake of "
        "mltune itself; please report it with the run's log";

    if (kind_of(c) != TUNER_WAITS_NOBODY)
        return;
    lifecycle_end(c, RUN_INTERRUPTED, "stuck", "%s", mistake);
    ending_advance(c);
    if (kind_of(c) == TUNER_WAITS_NOBODY)
        lifecycle_interrupted(c, "stuck", mistake);
}
