/* Runs as the state folder knows them: the journal replayed into a history. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "api/view/view.h"
#include "base/fault.h"
#include "cli/state/job.h"
#include "tuner/history/checkpoint_io.h"
#include "tuner/history/history.h"
#include "tuner/history/journal_io.h"
#include "tuner/shell/state_io.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Folder of the state unless --state says otherwise. */
#define STATE_DEFAULT "./.mltune"

/* The option --state of a verb that looks, into a `const char *`. */
#define STATE_OPTION(state)                                                    \
    {                                                                          \
        "state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",    \
            &(state)                                                           \
    }

/* The operand RUN, in a verb's help. */
#define RUN_OPERAND                                                            \
    "RUN is an id, the beginning of one, or a name (its newest run)."

/* What to do for more than the limits of a run that has finished allowed. */
#define REPLAY_TRAIN_LONGER                                                    \
    "to train longer, begin a new run with larger limits: with --set "         \
    "tuner.warm_start=auto its search begins with what this one found"

/* A run and what became of it. */
struct replayed {
    char id[RUN_ID_MAX + 1];
    char name[RECORD_NAME_MAX];
    int64_t began_ns, last_ns; /* wall clock, since the epoch */
    bool alive;                /* its tuner lives */
    bool ended;                /* its end is recorded */
    char status[RECORD_NAME_MAX];
    char reason[VIEW_REASON_MAX];
    json_t *config, *result;       /* owned; result NULL where there is none */
    struct checkpoint_start start; /* of its checkpoint; no run: it has none */
    /* Records that are damaged or did not fit, and what of its files is: "" */
    uint64_t passed_over;
    bool mends; /* its newest checkpoint is damaged */
    char damage[VIEW_REASON_MAX];
    bool managed; /* a service looks after it: job holds */
    struct job job;
    struct history history;
};

/* The state folder's journal, for reading. @path becomes the folder's absolute
 * name. Errors: ERR_NOENT (no runs there), and those of the journal. */
enum err replay_open(const char *state, char path[FILE_PATH_MAX],
                     struct journal **out, struct fault *f);

/* The id of run @word (as below), which has to be one that may name a folder.
 * Errors: also ERR_FORMAT. */
enum err replay_find_id(const char *state, const char *word,
                        char id[RUN_ID_MAX + 1], struct fault *f);

/* Run @word (id, name, or start of an id) as its newest checkpoint has it and
 * the records after that. Those that are damaged, or do not fit what came
 * before for want of them, are passed over, and a damaged configuration is that
 * of the checkpoint: @out says so. @state is absolute. On success the caller
 * owns @out (replayed_deinit). Errors: those of journal_find_run; ERR_FORMAT
 * there is no whole configuration. */
enum err replay_run(struct journal *j, const char *state, const char *word,
                    struct replayed *out, struct fault *f);

/* The folder of run @id. */
void replay_folder(const char *state, const char *id, char out[FILE_PATH_MAX]);

/* Reads on: records past number *@after, which becomes the last one's, are
 * given to @visit, and those that @r does not have yet are folded into its
 * history; then its status is as it is now. *@changed: there was one. @visit
 * ends it by an error, which is passed on. Errors: as replay_run's. */
enum err replay_more(struct journal *j, const char *state, struct replayed *r,
                     uint64_t *after, journal_record_visit *visit, void *ctx,
                     bool *changed, struct fault *f);

/* Whether `mltune resume` goes on with a run that ended as it did (one whose
 * tuner lives has to be ended first): not with one that is finished, nor with
 * one that failed before there was a snapshot. */
bool replay_resumable(const struct replayed *r);

/* Workers and bytes of memory (0: not limited) that a run of @config takes. */
void replay_shares(const json_t *config, unsigned *workers, uint64_t *memory);

/* Fills in @job what the run's records do not say of it, or not any more: that
 * its tuner was killed, that it waits, what a service does with it. */
void replay_told(const struct replayed *r, struct view_job *job);

/* Accepts a zeroed one. */
void replayed_deinit(struct replayed *r);

/* Help on --server of the verbs that look. */
#define REPLAY_SERVER_HELP                                                     \
    "ask this server (MLTUNE_SERVER) instead of reading the state folder"

/* Exit code of the command line for an error of this module. */
int replay_exit_code(enum err err);

#endif
