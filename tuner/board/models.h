/* Models: the run's present state, and the best model so far.
 *
 * Part of the board (tuner/board/parts.h), as its other parts see it;
 * strategies see what board.h declares. Pure.
 */
#ifndef TUNER_MODELS_H
#define TUNER_MODELS_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err models_init(struct board *c);
void models_deinit(struct board *c);

/* @base and @best (whose hold is transferred) were restored. */
void models_restore(struct board *c, branch_id base, const struct best *best);

/* The restored ones are of no use: as at the beginning of the run. */
void models_forget(struct board *c);

#endif
