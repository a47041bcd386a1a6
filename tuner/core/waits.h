/* Waits: what a run waits for between two events, and until when.
 *
 * Every state of a tuner waits for something that has a deadline, or for a user
 * who paused it. A state that waits for nobody is a mistake of ours: tuner_step
 * ends the run there instead of leaving it hanging, and the simulator
 * (tests/sim) asks after every event. Part of the core (tuner/core/parts.h);
 * pure.
 */
#ifndef TUNER_WAITS_H
#define TUNER_WAITS_H

#include "tuner/board/board.h"
#include "tuner/core/tuner.h"

/* After a step. @wake_at_s: see tuner_wake_at. */
struct tuner_wait waits_for(const struct board *c, double wake_at_s);

/* Ends the run where it waits for nobody: as interrupted, after a snapshot;
 * where its end itself does so, at once. */
void waits_check(struct board *c);

#endif
