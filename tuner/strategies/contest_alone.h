/* The line that a contest trains alone: a branch that the user has promoted, or
 * what a resume goes on with once the search is over.
 */
#ifndef TUNER_CONTEST_ALONE_H
#define TUNER_CONTEST_ALONE_H

#include "tuner/strategies/contest.h"

/* strategy_ops.adopt: the search ends, or the winner's training. */
enum err contest_adopt(struct contest *ct, branch_id branch);

/* Trains what was adopted, or what a resume goes on with, if there is any; then
 * true, and there is nothing else to do. */
bool contest_trains_adopted(struct contest *ct);

/* strategy_ops.save and restore: once the search is over, a resume goes on with
 * what is trained. Within it that is contest_save_search's (contest_saved.h),
 * of those that have it; nothing is saved here: it begins anew. */
enum err contest_save(const struct contest *ct, branch_id *branch,
                      json_t **out);
enum err contest_restore(struct contest *ct, const json_t *saved,
                         branch_id branch);

#endif
