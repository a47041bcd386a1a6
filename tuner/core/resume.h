/* Resume: a run goes on from its newest snapshot that can be read.
 *
 * When the training system is ready the folders of a snapshot are restored as
 * kept branches, get the numbers of their lineages back, and are handed to the
 * strategy with what it saved; searches that cannot go on are ended as
 * interrupted. A snapshot that is damaged or gone is passed over for the one
 * before, in the end for the beginning of the run. Each attempt is a
 * `run_resumed` record, so that the history is the fold of the journal as ever.
 * docs/architecture.md, "What is on disk when". Part of the core
 * (tuner/core/parts.h); pure.
 */
#ifndef TUNER_RESUME_H
#define TUNER_RESUME_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err resume_init(struct board *c);
void resume_deinit(struct board *c);

/* The training system is ready: restores. False: this is a new run. */
bool resume_begin(struct board *c);

/* Goes on; the run begins (run_begun) when all is there. */
void resume_advance(struct board *c);

/* The number of the snapshot that the run goes on from; 0: the beginning. */
uint32_t resume_from(const struct board *c);

#endif
