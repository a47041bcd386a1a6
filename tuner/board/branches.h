/* Branches: the table of those that live, and their lineages.
 *
 * Part of the board (tuner/board/parts.h), as its other parts see it;
 * strategies see what board.h declares. Pure.
 */
#ifndef TUNER_BRANCHES_H
#define TUNER_BRANCHES_H

#include "tuner/board/board.h"

/* Branch 0 is there from the beginning. Numbers go on where options.resume
 * ends. Errors: ERR_NOMEM. */
enum err branches_init(struct board *c);
void branches_deinit(struct board *c);

/* The branch that board_branch shows, to be changed. */
struct branch *branches_own(struct board *c, branch_id id);

/* The branch, also where it was told to be freed already. */
struct branch *branches_any(struct board *c, branch_id id);

/* The branch in slot @i < TUNER_BRANCHES_MAX, whatever its state; NULL: none.
 * For those who look at all: a slot changes by board_free only. */
const struct branch *branches_slot(const struct board *c, size_t i);

/* Whether a live branch has run any clock since it was forked. */
bool branches_trained(const struct board *c);

/* A new kept branch with one hold that is read from the snapshot folder @path;
 * @parent: for the record. FORKING until it is read, REFUSED where it cannot be
 * (board_failure says why). NULL when no slot is free. */
const struct branch *branches_restore(struct board *c, const char *path,
                                      branch_id parent);

/* Position of @b in its running epoch (see board_units). */
uint64_t branches_position(const struct board *c, const struct branch *b);

/* The plan is what was run: nothing is out. */
void branches_plan_reset(const struct board *c, struct branch *b);

/* ---- what the training system answers ------------------------------------ */

/* A fork or a restore was made; was not, @m says why (false: it does not matter
 * any more); a free was carried out, or there was nothing to free. */
void branches_made(struct board *c, branch_id id);
bool branches_refused(struct board *c, branch_id id,
                      const struct msg_failed *m);
void branches_freed(struct board *c, branch_id id);

/* Slice @op has ended: children that were forked at its end get the numbers of
 * their lineage. */
void branches_settle(struct board *c, op_id op);

/* A slice of @b failed: its error and why, which is board_failure from now on.
 */
void branches_failed(struct board *c, struct branch *b, enum err error,
                     const char *reason);

/* Why a restore failed: board_failure. */
void branches_note_failure(struct board *c, const char *reason);

#endif
