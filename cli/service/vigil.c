#include "cli/service/vigil.h"

#include <assert.h>

enum vigil_verdict vigil_look(struct vigil *p, int64_t beat, time_ns now,
                              time_ns silence)
{
    time_ns grace = silence < VIGIL_GRACE ? silence : VIGIL_GRACE;
    time_ns step = p->looked ? now - p->looked : 0;

    assert(silence > 0);
    assert(now >= p->looked);
    p->silent += step < VIGIL_STEP_MAX ? step : VIGIL_STEP_MAX;
    p->looked = now;
    /* Once asked it ends, whatever its loop does meanwhile. */
    if (beat != p->beat && !p->asked)
        p->silent = 0;
    if (beat && p->beat && beat != p->beat)
        p->beats = true;
    p->beat = beat;
    if (!p->beats || p->silent < silence)
        return VIGIL_BEATS;
    if (!p->asked) {
        p->asked = true;
        return VIGIL_STOPPED;
    }
    return p->silent < silence + grace ? VIGIL_BEATS : VIGIL_GONE;
}
