/* Snapshots: what a run can go on from after its processes are gone.
 *
 * Each is two folders, the branch that the run goes on from and the best model
 * so far (that one only where it is not on disk already), and a record with
 * what board and strategy know beside, all as of one moment. It counts once the
 * record is journaled. Inside tuner/ only; pure.
 */
#ifndef TUNER_SNAPSHOTS_H
#define TUNER_SNAPSHOTS_H

#include "tuner/board/board.h"

/* Writes one as soon as it can be, where one is wanted (snapshot.wanted). */
void snapshots_advance(struct board *c);

/* Settles what the next one is of: strategy's state, its branch, the best
 * model. False: not now. */
bool snapshots_take(struct board *c);

/* Whether a snapshot that is settled or under way is of this branch. */
bool snapshots_need(const struct board *c, branch_id id);

/* A folder was written, or was not. */
void snapshots_written(struct board *c, const struct msg_done *m);
void snapshots_not_written(struct board *c, const char *reason);

#endif
