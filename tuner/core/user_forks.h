/* The user's forks: what a user tries beside the training.
 *
 * FORK makes a training branch from any that holds a state to train, with the
 * parent's setting but for what the user changes. It runs beside whatever the
 * strategy does, in turns, for as long as was asked; the ends of its epochs are
 * tested and recorded as those of a lineage that does not survive. Then it
 * waits, and holds its memory, until FREE or PROMOTE; one that diverges or
 * fails is freed, and where the strategy is refused a fork for want of memory
 * the latest of those that wait, else of all. The strategy knows nothing of it.
 *
 * PROMOTE makes it what the run trains: the strategy's search ends, what it
 * trained is freed, and it goes on from there (strategy_ops.adopt). Any other
 * branch that can be forked may be promoted, too: it is forked first.
 *
 * All is journaled (user_branch records). When the run is resumed, those that
 * lived begin again from the snapshot that it goes on from, and one that was
 * promoted since then is promoted again. Part of the core
 * (tuner/core/parts.h); pure.
 */
#ifndef TUNER_USER_FORKS_H
#define TUNER_USER_FORKS_H

#include "tuner/board/board.h"

/* Forks of before a resume come back. Errors: ERR_NOMEM. */
enum err user_forks_init(struct board *c);
void user_forks_deinit(struct board *c);

/* Commands; each is answered, FORK by a later event where the training system
 * is to answer first. */
void user_forks_fork(struct board *c, const struct command_fork *want);
void user_forks_promote(struct board *c, branch_id branch);
void user_forks_free(struct board *c, branch_id branch);

/* Goes on: once an event, before the strategy, while the training system is
 * ready and the run does not end. A paused run runs none of them. */
void user_forks_advance(struct board *c);

/* A step begins: nothing has made room in it (lifecycle_made_room). */
void user_forks_step(struct board *c);

/* A fork of the strategy's, @b, was refused: gives one of the user's up, the
 * training goes first. */
void user_forks_make_room(struct board *c, const struct branch *b);

/* The run ends: who still waits for an answer gets it. */
void user_forks_end(struct board *c);

#endif
