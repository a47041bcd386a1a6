/* Steering: what a user's commands do to a run.
 *
 * A command that changes something leaves a `command` record, from which a
 * resumed run has it, and a decision that says so. Every command is answered:
 * done, nothing to do, or why not. Part of the core (tuner/core/parts.h);
 * pure.
 *
 * A pause cuts the slices that are out (a validation ends) and begins no other.
 * It lasts from when nothing runs any more until `continue`; that time is no
 * training time: it counts neither for the time limit nor for a search.
 */
#ifndef TUNER_STEERING_H
#define TUNER_STEERING_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err steering_init(struct board *c);
void steering_deinit(struct board *c);

/* Takes a command in: the event's. */
void steering_take(struct board *c, const struct tuner_event *event);

/* Steering goes on as it was when the run was lost, but that a run that its
 * user resumes is not paused. Called once, before any command, with the
 * strategy open: it plans by the configuration's limits, as it did the first
 * time. */
void steering_recall(struct board *c);

/* Journals that a paused run goes on because its user has resumed it, unless
 * they paused it again meanwhile. Called when the training system is ready. */
void steering_go_on(struct board *c);

/* Once an event: cuts what runs, begins the pause when nothing does. */
void steering_advance(struct board *c);

#endif
