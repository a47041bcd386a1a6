/* The fold of records into a history, in parts: what is in this header is for
 * the files history*.c alone.
 *
 * history.c takes each record and passes it on: history_branches.c keeps
 * branches, their progress and slices, history_lineage.c what survives (epochs,
 * the schedule of settings, snapshots); history_bounds.c makes room. All of
 * them look branches up in history_store.c, which calls none. Every `apply` may
 * fail by ERR_FORMAT (a record that does not fit what came before) or
 * ERR_NOMEM; then nothing has changed.
 */
#ifndef TUNER_HISTORY_FOLD_H
#define TUNER_HISTORY_FOLD_H

#include "tuner/history/history.h"

/* The branch of that number; NULL when there is none. O(log n). */
struct history_branch *history_find(const struct history *h, branch_id id);

/* Sets `on_way` of @of and of all that it was forked from to @on: asked once
 * for each of n branches, a long run's lineage would be walked n times.
 * O(length of the lineage x log n). */
void history_mark_way(struct history *h, branch_id of, bool on);

/* A reference to @json, or to @before (NULL: none) where that equals it. NULL
 * for NULL. */
json_t *history_hold(json_t *json, json_t *before);

/* Makes room for one more in an array of at most @max: the older half goes.
 * Before the array is grown, which then does not fail: nor is it ever larger.
 */
void history_drop_half(void *items, size_t *len, size_t item_size, size_t max,
                       uint64_t *dropped);

/* ---- history_bounds.c ---------------------------------------------------- */

/* What is old gives way (tuner/history/history.h) where there is no room for
 * one more, but for what is in use. */
void history_bound_searches(struct history *h);
void history_bound_trials(struct history *h);
void history_bound_epochs(struct history *h);
void history_bound_choices(struct history *h);

/* Errors: ERR_NOMEM, nothing changed. */
enum err history_bound_branches(struct history *h);

/* The oldest @searches, @trials and @choices of those that are kept whole, as
 * they were read back, are cold. Errors: ERR_FORMAT (one of them cannot be),
 * ERR_NOMEM. */
enum err history_cool(struct history *h, uint64_t searches, uint64_t trials,
                      uint64_t choices);

/* ---- history_branches.c -------------------------------------------------- */

enum err history_apply_progress(struct history *h, const struct record *r);
enum err history_apply_created(struct history *h, const struct record *r);
enum err history_apply_freed(struct history *h, const struct record *r);
enum err history_apply_user_branch(struct history *h, const struct record *r);
enum err history_apply_slice(struct history *h, const struct record *r);
enum err history_apply_slice_ended(struct history *h, const struct record *r);

/* Branches that were promoted and are in the snapshot @s need not be promoted
 * again from there on; nor are those promises kept that are in none up to that
 * of @path. */
void history_keep_promise(struct history *h,
                          const struct record_snapshot_written *s);
void history_break_promises(struct history *h, const char *path);

/* The setting of @b takes few bytes where it is freed; without memory it stays
 * as it is. */
void history_branch_cool(struct history *h, struct history_branch *b);

/* Releases what @b owns. */
void history_branch_release(struct history *h, struct history_branch *b);

/* Live branches are lost with the training system. */
void history_lose_branches(struct history *h, double at_s);

/* ---- history_lineage.c --------------------------------------------------- */

enum err history_apply_epoch(struct history *h, const struct record *r);
enum err history_apply_choice(struct history *h, const struct record *r);
enum err history_apply_snapshot(struct history *h, const struct record *r);

/* Drops the snapshots after the one of @path. */
void history_forget_snapshots(struct history *h, uint32_t number);

/* The surviving epochs are those of the lineage of branch @from up to @epoch:
 * its own, and before its first one those of the branch it was forked from. */
void history_prune_epochs(struct history *h, branch_id from, uint32_t epoch);

#endif
