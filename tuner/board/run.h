/* The run: what it was told to do, what its training system is, how it stands.
 *
 * Part of the board (tuner/board/parts.h); pure.
 */
#ifndef TUNER_RUN_H
#define TUNER_RUN_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err run_init(struct board *c, const struct tuner_options *options);
void run_deinit(struct board *c);

/* ---- what it was told ---------------------------------------------------- */

/* All of it, for the board's own parts; its limits are board_limits. */
const struct tuner_options *run_options(const struct board *c);

/* The strategy, which decides. */
const struct strategy_ops *run_strategy(const struct board *c);

/* The user changes what board_limits says. */
void run_set_limits(struct board *c, const struct record_limits *to);

/* ---- the training system ------------------------------------------------- */

/* Tells by decisions which tunables the training system does not name, and
 * which it names besides: what the user may have written wrong, or not know of.
 * After run_take_ready, where the app is the user's own; @names as in `ready`.
 */
void run_compare_tunables(struct board *c, const json_t *names);

/* The training system is ready: the space says from now on which tunables act.
 */
void run_take_ready(struct board *c, const struct msg_ready *m);
bool run_ready(const struct board *c);

/* Journals the beginning of a new run. */
void run_record_started(struct board *c);

/* The training system is ready and, of a run that is resumed, what it goes on
 * from is there: from now on it trains, and snapshots are written. */
void run_begin(struct board *c);
bool run_begun(const struct board *c);

/* Journals what a node says of itself; not each time, for that is not worth a
 * record, unless @all. */
void run_take_beat(struct board *c, const struct msg_beat *beat, bool all);

/* ---- how it stands ------------------------------------------------------- */

/* The status; while the run is paused, the one before, and as it is. */
enum run_status run_status_unpaused(const struct board *c);
enum run_status run_status(const struct board *c);

/* The run is over. There is a record of its own for that. */
void run_set_over(struct board *c, enum run_status status);

#endif
