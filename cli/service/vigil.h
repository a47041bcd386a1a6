/* A vigil over a tuner: how long it has given no sign of life.
 *
 * Pure. The time is counted by looks, each for VIGIL_STEP_MAX at most: where
 * the whole machine stood still, or the service alone, nobody was silent. Only
 * who beats can fall silent: a tuner of an older binary, taken over, does not.
 */
#ifndef CLI_VIGIL_H
#define CLI_VIGIL_H

#include "base/clock_io.h"

#include <stdbool.h>
#include <stdint.h>

static const time_ns VIGIL_STEP_MAX = 2000000000;

/* What is asked to end has so long for its snapshot, or the silence again where
 * that is less. */
static const time_ns VIGIL_GRACE = 10000000000;

enum vigil_verdict {
    VIGIL_BEATS,
    VIGIL_STOPPED, /* it is to be asked to end; said once */
    VIGIL_GONE     /* it has not ended: to be killed */
};

/* All 0: a tuner of which nothing is known. */
struct vigil {
    int64_t beat;   /* the last sign that was seen; 0: none */
    bool beats;     /* it does: known, or seen in a sign that changed */
    time_ns looked; /* when; 0: not yet */
    time_ns silent; /* since that sign */
    bool asked;     /* to end */
};

/* A look at @now, with the newest sign @beat (0: there is none yet, which is
 * not a beat). @silence > 0: what is too long.
 */
enum vigil_verdict vigil_look(struct vigil *p, int64_t beat, time_ns now,
                              time_ns silence);

#endif
