/* Runs as the state folder knows them: the journal replayed into a history. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "base/fault.h"
#include "tuner/history/history.h"
#include "tuner/history/journal_io.h"
#include "tuner/shell/state_io.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Where state is kept unless --state says otherwise. */
#define STATE_DEFAULT "./.mltune"

/* A run and what became of it. */
struct replayed {
    char id[RUN_ID_MAX + 1];
    char name[RECORD_NAME_MAX];
    int64_t began_ns, last_ns; /* wall clock, since the epoch */
    bool alive;                /* its tuner lives */
    bool ended;                /* its end is recorded */
    char status[RECORD_NAME_MAX];
    char reason[RECORD_NAME_MAX];
    json_t *config, *result; /* owned; result NULL where there is none */
    struct history history;
};

/* The state folder's journal, for reading. @path becomes the folder's absolute
 * name. Errors: ERR_NOENT (no runs there), and those of the journal. */
enum err replay_open(const char *state, char path[FILE_PATH_MAX],
                     struct journal **out, struct fault *f);

/* Run @word (id, name, or start of an id) with all its records. @state is
 * absolute. On success the caller owns @out (replayed_deinit). Errors: those of
 * journal_find_run; ERR_FORMAT a record that does not fit. */
enum err replay_run(struct journal *j, const char *state, const char *word,
                    struct replayed *out, struct fault *f);

/* What has happened in the run since: records past number *@after, which
 * becomes the last one's, are given to @visit, and those that @r does not have
 * yet are folded into its history; then its status is as it is now. *@changed:
 * there was one. @visit ends it by an error, which is passed on. Errors: as
 * replay_run's. */
enum err replay_more(struct journal *j, const char *state, struct replayed *r,
                     uint64_t *after, journal_record_visit *visit, void *ctx,
                     bool *changed, struct fault *f);

/* Whether `mltune resume` goes on with a run that ended as it did (one whose
 * tuner lives has to be ended first). */
bool replay_resumable(const struct replayed *r);

/* Accepts a zeroed one. */
void replayed_deinit(struct replayed *r);

/* "2026-11-21 03:40:12", local time. */
void replay_time(int64_t wall_ns, char *out, size_t size);

/* Help on --server of the verbs that look. */
#define REPLAY_SERVER_HELP                                                     \
    "ask this server (MLTUNE_SERVER) instead of reading the state folder"

/* Exit code of the command line for an error of this module. */
int replay_exit_code(enum err err);

#endif
