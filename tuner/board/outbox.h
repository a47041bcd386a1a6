/* The outbox: the actions of the step that is taken, in the order in which they
 * are to be done. Records are stamped with the run's time and next clock.
 *
 * Part of the board (tuner/board/parts.h); pure.
 */
#ifndef TUNER_OUTBOX_H
#define TUNER_OUTBOX_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err outbox_init(struct board *c);
void outbox_deinit(struct board *c);

/* A step begins, whose actions go to @out, which has room for
 * TUNER_ACTIONS_MAX; it is over. */
void outbox_open(struct board *c, struct tuner_actions *out);
void outbox_close(struct board *c);

/* The next action; the caller fills in what @kind says. */
struct tuner_action *outbox_add(struct board *c, enum tuner_action_kind kind);

#endif
