/* A contest within its search, in snapshots: all that its next decisions rest
 * on, and which trials have branches. Inside tuner/ only.
 */
#ifndef TUNER_CONTEST_SAVED_H
#define TUNER_CONTEST_SAVED_H

#include "tuner/board/strategy.h"
#include "tuner/strategies/contest.h"

/* As strategy_ops.save, of a contest that is searching: *@branch is the
 * leader's. Errors: ERR_AGAIN, ERR_NOMEM. */
enum err contest_save_search(const struct contest *ct, branch_id *branch,
                             json_t **out);

/* Whether @saved is of a contest within its search. */
bool contest_saved_search(const json_t *saved);

/* As strategy_ops.waiting. */
void contest_waiting(const struct contest *ct, struct strategy_waiting *out);

/* As strategy_ops.restore, of what contest_save_search made, in a contest that
 * was not started; the branches are forked by contest_restored. Errors:
 * ERR_FORMAT, ERR_NOMEM; nothing changed. */
enum err contest_restore_search(struct contest *ct, const json_t *saved,
                                branch_id branch);

/* The contest is again as it was before contest_restore_search, for what else
 * was saved does not fit. */
void contest_forget_search(struct contest *ct);

/* Whether @number is a trial of the search, or 0: none. */
bool contest_has(const struct contest *ct, uint32_t number);

/* Whether all trials that were restored have their branches again. */
bool contest_restored(struct contest *ct);

#endif
