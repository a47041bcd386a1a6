/* The folders of a run's snapshots: their names, which of them are there, and
 * which may go.
 *
 * NNNNNN of a snapshot's branch, NNNNNN-best of the best model, NNNNNN-trial-K
 * of a trial that waits. A folder of the last two kinds may serve later
 * snapshots, too: it stays as long as one that is kept names it. Part of the
 * core (tuner/core/parts.h); pure.
 */
#ifndef TUNER_SNAPSHOT_FOLDERS_H
#define TUNER_SNAPSHOT_FOLDERS_H

#include "tuner/board/board.h"
#include "tuner/board/strategy.h"
#include "tuner/core/snapshot_state.h"

enum { SNAPSHOTS_MAX = 16 }; /* remembered for `keep` */

struct snapshot_folders {
    struct written {
        uint32_t number, best; /* best: number of its folder; 0: none */
        uint32_t trials;
        struct {
            uint32_t number, trial;
        } trial[STRATEGY_WAITING_MAX]; /* [trials] */
    } written[SNAPSHOTS_MAX];          /* oldest first */
    uint32_t n;
};

/* Path of snapshot @number, or of the best model that was written with it; of a
 * trial that was. */
void snapshot_folder(const struct board *c, uint32_t number, bool best,
                     char path[PROTO_PATH_MAX]);
void snapshot_folder_of_trial(const struct board *c, uint32_t number,
                              uint32_t trial, char path[PROTO_PATH_MAX]);

/* Takes in the @keep latest that the journal names. */
void snapshot_folders_recall(struct snapshot_folders *f,
                             const struct history *h, size_t keep);

/* Snapshot @number is there, with @trials, which it wrote or counts on. */
void snapshot_folders_add(struct snapshot_folders *f, uint32_t number,
                          uint32_t best, const struct snapshot_trial trial[],
                          uint32_t trials);

/* Has the oldest removed until options.snapshot_keep are left. @best: the
 * number of the best model's folder that the next one counts on. */
void snapshot_folders_trim(struct board *c, struct snapshot_folders *f,
                           uint32_t best);

/* Snapshot @number cannot be used: it counts as none of those that are kept. */
void snapshot_folders_pass_over(struct snapshot_folders *f, uint32_t number);

#endif
