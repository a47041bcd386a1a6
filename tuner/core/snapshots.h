/* Snapshots: what a run can go on from after its processes are gone.
 *
 * Each is two folders, the branch that the run goes on from and the best model
 * so far (that one only where it is not on disk already), and a record with
 * what board and strategy know beside, all as of one moment. It counts once the
 * record is journaled. Part of the core (tuner/core/parts.h); pure.
 */
#ifndef TUNER_SNAPSHOTS_H
#define TUNER_SNAPSHOTS_H

#include "tuner/board/board.h"

/* Folders and their numbers go on where options.resume ends. Errors:
 * ERR_NOMEM. */
enum err snapshots_init(struct board *c);
void snapshots_deinit(struct board *c);

/* One is written as soon as it can be: see lifecycle_want_snapshot. */
void snapshots_want(struct board *c);

/* What is wanted is not begun any more: the training system writes the model
 * now. None is under way. */
void snapshots_want_none(struct board *c);

/* Whether one is wanted or under way; is under way. */
bool snapshots_wanted(const struct board *c);
bool snapshots_busy(const struct board *c);

/* Takes the time: one may be due; and when the next one is. */
void snapshots_tick(struct board *c);
double snapshots_due_at(const struct board *c);

/* Goes on with what is wanted. */
void snapshots_advance(struct board *c);

/* Settles what the next one is of: strategy's state, its branch, the best
 * model. False: not now. */
bool snapshots_take(struct board *c);

/* The run ends so: what is taken from now on says it, and who goes on from
 * there has only the model to write. */
void snapshots_end(struct board *c, const struct tuner_finish *end);

/* The next one is of that end alone: of the kept branch @model, without the
 * strategy's state. None may be taken or under way. */
void snapshots_take_end(struct board *c, branch_id model);

/* Snapshot @number cannot be used: it counts as none of those that are kept. */
void snapshots_pass_over(struct board *c, uint32_t number);

/* Whether one that says how the run ends is on the disk. */
bool snapshots_end_written(const struct board *c);

/* Whether a snapshot that is settled or under way is of this branch. */
bool snapshots_need(const struct board *c, branch_id id);

/* A folder was written, or was not. */
void snapshots_written(struct board *c, const struct msg_done *m);
void snapshots_not_written(struct board *c, const char *reason);

/* ---- of a run that is resumed -------------------------------------------- */

/* @best was read from the folder of snapshot @number: it is on disk.
 * BRANCH_NONE: it is not after all. */
void snapshots_restored(struct board *c, branch_id best, uint32_t number);

/* The one that the run goes on from says how it ends: none follows it, since
 * there is no strategy any more whose state it could have. */
void snapshots_end_restored(struct board *c);

/* The run goes on: the time to the next one begins. */
void snapshots_begin(struct board *c);

#endif
