/* TensorBoard files, written while a run goes on.
 *
 * FOLDER/training and FOLDER/trials have a file of events each
 * (cli/state/scalars.h). What the history knows and the files do not have is
 * appended, whenever asked for: so what could not be written (a full disk)
 * comes the next time, and nothing is there twice. A file's end is always the
 * end of a record.
 *
 * A lineage that lost to another one, or went back to a snapshot, cannot be
 * taken out of a file that somebody reads. A new file begins then, which says
 * that what was before counts no more, says everything anew, and takes the
 * place of the old one. So it does when a run is resumed.
 *
 * FOLDER/hparams says what the tunables are, and has a folder for each of the
 * first trials (cli/state/hparams.h), which is written when the trial ends.
 *
 * Points of progress are those that the history keeps: of a branch with very
 * many, several windows are one point. One owner thread.
 */
#ifndef CLI_TENSORBOARD_H
#define CLI_TENSORBOARD_H

#include "base/file_io.h"
#include "cli/state/scalars.h"

/* Trials, by number, that have a folder of their own: of more TensorBoard gets
 * slow, and an export has all. */
enum { TENSORBOARD_SESSIONS_MAX = 1024 };

/* One of the two files. */
struct tensorboard_file {
    char path[FILE_PATH_MAX]; /* "" before there is one */
    int fd;                   /* -1: none */
    uint64_t bytes;           /* whole records so far */
};

/* How far the file of the lineage is; BRANCH_NONE: nothing yet. */
struct tensorboard_place {
    branch_id choice, epoch_of, point_of;
    clock_no choice_clock, point_clock;
    uint32_t epoch;
};

/* Zeroed: none is written. */
struct tensorboard {
    char *folder; /* owned; NULL: none */
    struct scalars scalars;
    struct tensorboard_file training, trials;
    struct tensorboard_place at;
    unsigned char *has_trial; /* owned: by number; whether the file has it */
    size_t trial_capacity;
    uint32_t trials_open;   /* all below it are in the file; from 1 */
    bool experiment;        /* is written */
    uint32_t sessions_open; /* all below it are written; from 1 */
    bool session[TENSORBOARD_SESSIONS_MAX + 1]; /* by number; is written */
    struct text events; /* that are about to be written */
};

/* The files of the run whose history is @h (borrowed, for its life), which
 * began at @began_s since 1970, in @folder (copied). Writes nothing yet.
 * Errors: ERR_NOMEM. */
enum err tensorboard_init(struct tensorboard *t, const char *folder,
                          const struct history *h, double began_s);

/* Brings the files up to the history. Where it fails they are as they were,
 * but for whole records that were added. Errors: ERR_IO, ERR_LIMIT, ERR_NOMEM.
 * Cost: of what is new; O(length of the lineage) in branches. */
enum err tensorboard_write(struct tensorboard *t, struct fault *f);

/* Accepts a zeroed one. */
void tensorboard_deinit(struct tensorboard *t);

#endif
