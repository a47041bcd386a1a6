/* The state folder: where runs live on disk.
 *
 *   STATE/mltune.db            journal of all runs (journal_io.h)
 *   STATE/mltune.head          copy of its head (journal_head_io.h)
 *   STATE/token                what writes over HTTP need (api/http/token_io.h)
 *   STATE/slurm/JOB.*          of batch jobs (cli/verbs/slurm_job.h), kept
 *   STATE/mpi/JOB/             where ranks meet (ranks_io.h), while they do
 *   STATE/kubernetes/JOB/      the same of pods, by way of their tuner
 *   STATE/kubernetes/JOB.run   the id of their run, kept
 *   STATE/runs/ID/config.json  the configuration in effect
 *                 log          what the tuner logged
 *                 node-0.log   what the node wrote to stdout and stderr
 *                 session.json what else a resume needs (cli/run/session.h)
 *                 checkpoint   the same, and the history; checkpoint.old: the
 *                              one before (tuner/history/checkpoint_io.h)
 *                 url          of its HTTP server, while it lives
 *                 lock         locked as long as the run's tuner lives, touched
 *                              about once a second while its loop turns; then
 *                              how it ended, where it was not killed
 *                 model/       unless it goes elsewhere
 *                 snapshots/
 *
 * All of mode 0700 and 0600. One owner thread a run folder.
 */
#ifndef TUNER_STATE_IO_H
#define TUNER_STATE_IO_H

#include "base/fault.h"
#include "base/file_io.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_ID_MAX = 64 }; /* characters of a run's id, without the end */

/* Makes the state folder if it is missing. @out is its absolute path.
 * Errors: ERR_IO, ERR_LIMIT. */
enum err state_make(const char *dir, char out[FILE_PATH_MAX], struct fault *f);

/* Absolute path of an existing state folder. Errors: ERR_NOENT there is none
 * (no folder, or no mltune.db in it), ERR_IO. */
enum err state_find(const char *dir, char out[FILE_PATH_MAX], struct fault *f);

/* True for 1 .. RUN_ID_MAX characters of a-z, 0-9 and '-'. */
bool run_id_valid(const char *id);

struct run_folder {
    char id[RUN_ID_MAX + 1];
    char path[FILE_PATH_MAX]; /* STATE/runs/ID */
    int lock_fd;              /* owned; -1: closed */
};

/* Makes a folder for a new run and locks it. The id is @name in lower case,
 * other characters as '-', with six random characters behind it.
 * Errors: ERR_IO, ERR_LIMIT. */
enum err run_folder_new(struct run_folder *run, const char *state,
                        const char *name, struct fault *f);

/* The folder of run @id, locked. Errors: ERR_NOENT there is none, ERR_BUSY its
 * tuner lives, ERR_IO, ERR_LIMIT. */
enum err run_folder_open(struct run_folder *run, const char *state,
                         const char *id, struct fault *f);

/* Removes the folders in @dir whose names are none of @keep[n]: what was
 * written and not journaled. Of @keep the last parts count, wherever these
 * folders were when they were written; where it names none, nothing is removed.
 * @written_now: nor is what has a higher number than all of them, for it may be
 * being written. Errors are ignored. */
void snapshots_sweep(const char *dir, const char *const keep[], size_t n,
                     bool written_now);

/* The highest number N of a folder in @dir whose name is that alone; 0: there
 * is none. What goes with it (N-best, N-trial-1) may not be there yet. */
unsigned long snapshots_newest(const char *dir);

/* A sign of life, for who looks at run_folder_beaten. */
void run_folder_beat(const struct run_folder *run);

/* When the tuner of run @id gave its last sign of life, in ns of the wall
 * clock: to be compared with the one before it alone. 0: none is known. */
int64_t run_folder_beaten(const char *state, const char *id);

/* How a run ended: for whoever finds no end of it in the journal, which may be
 * locked or on a full disk. */
struct run_end {
    char status[32]; /* of an end (run_status_names_end) */
    char reason[64]; /* of a-z, 0-9 and '_'; may be "" */
};

/* Writes it behind the number in the lock's file, which needs no room on the
 * disk: the next tuner that takes the lock clears it. One that fails is not
 * told, and a word that is not one (spaces, too long) tells nothing. */
void run_folder_tell_end(const struct run_folder *run, const char *status,
                         const char *reason);

/* What the last tuner that had the lock of run @id told. False: nothing, as
 * where it lives or was killed. */
bool run_folder_told_end(const char *state, const char *id,
                         struct run_end *out);

/* Gives the lock back; the folder stays. Accepts a closed one. */
void run_folder_close(struct run_folder *run);

/* True while the tuner of run @id lives. */
bool run_folder_alive(const char *state, const char *id);

/* Its process; 0: none lives, or it is only just beginning. */
pid_t run_folder_owner(const char *state, const char *id);

/* Removes what tuners that were killed left behind: every `*.tmp` in the
 * folders of runs that are not alive. Errors are ignored. */
void state_sweep(const char *state);

#endif
