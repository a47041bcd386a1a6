/* Resume: a run goes on from its newest snapshot that can be read.
 *
 * When the training system is ready the folders of a snapshot are restored as
 * kept branches, get the numbers of their lineages back, and are handed to the
 * strategy with what it saved; searches that cannot go on are ended as
 * interrupted. A snapshot that is damaged or gone is passed over for the one
 * before, in the end for the beginning of the run. Each attempt is a
 * `run_resumed` record, so that the history is the fold of the journal as ever.
 * Inside tuner/ only; pure. docs/architecture.md, "What is on disk when".
 */
#ifndef TUNER_RESUME_H
#define TUNER_RESUME_H

#include "tuner/board/board.h"

/* What goes into a snapshot's record beside the folders: what the strategy
 * @saved, the lineages of @main and @best (NULL: none), the outcome of the best
 * model. A new object; NULL: out of memory. */
json_t *resume_state(const struct board *c, json_t *saved,
                     const struct branch *main, const struct branch *best,
                     const struct best *outcome);

/* Numbers and counts go on where options.resume ends. */
void resume_init(struct board *c);

/* The training system is ready: restores. False: this is a new run. */
bool resume_begin(struct board *c);

/* Goes on; true when the strategy may (always, in a new run). */
bool resume_advance(struct board *c);

#endif
