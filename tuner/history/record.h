/* Records: everything a run decides and learns, as a stream of events.
 *
 * The tuner emits records in the order in which things happen, each before the
 * messages it leads to. They are the single source for the journal, the HTTP
 * routes, live events and `mltune show`: `struct history` folds them into the
 * state of a run, live or replayed, with the same result. A record owns its
 * JSON members only; the rest is plain data.
 *
 * Names of kinds, labels and members are stable: they are in journals.
 */
#ifndef TUNER_RECORD_H
#define TUNER_RECORD_H

#include "base/err.h"
#include "base/fault.h"
#include "base/proto/branch.h"
#include "base/proto/proto.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECORD_NAME_MAX = 64,   /* names of runs, apps, strategies, numbers */
    RECORD_TEXT_MAX = 480,  /* sentences */
    RECORD_PATH_MAX = 1024, /* folders and files */
    RECORD_POINTS_MAX = 11, /* the loss before a trial, then K = 10 windows */
    RECORD_NUMBERS_MAX = 8, /* figures a decision */
    RECORD_WINDOWS_MAX = 16 /* windows a progress record */
};

/* X(kind, its name, struct record_X and the member of the union) */
#define RECORD_LIST(X)                                                         \
    X(RUN_STARTED, run_started, run_started)                                   \
    X(RUN_STATUS, run_status, run_status)                                      \
    X(RUN_FINISHED, run_finished, run_finished)                                \
    X(RUN_RESUMED, run_resumed, run_resumed)                                   \
    X(COMMAND, command, command)                                               \
    X(SEARCH_STARTED, search_started, search_started)                          \
    X(SEARCH_DECIDED, search_decided, search_decided)                          \
    X(SEARCH_ENDED, search_ended, search_ended)                                \
    X(TRIAL_STARTED, trial_started, trial)                                     \
    X(TRIAL_UPDATED, trial_updated, trial)                                     \
    X(TRIAL_ENDED, trial_ended, trial)                                         \
    X(BRANCH_CREATED, branch_created, branch_created)                          \
    X(BRANCH_FREED, branch_freed, branch_freed)                                \
    X(USER_BRANCH, user_branch, user_branch)                                   \
    X(SUGGESTION, suggestion, suggestion)                                      \
    X(ASKING, asking, asking)                                                  \
    X(TABLES, tables, tables)                                                  \
    X(INCREMENT, increment, increment)                                         \
    X(SLICE_SCHEDULED, slice_scheduled, slice_scheduled)                       \
    X(SLICE_ENDED, slice_ended, slice_ended)                                   \
    X(PROGRESS, progress, progress)                                            \
    X(EPOCH_ENDED, epoch_ended, epoch_ended)                                   \
    X(SETTING_CHOSEN, setting_chosen, setting_chosen)                          \
    X(DECISION, decision, decision)                                            \
    X(SNAPSHOT_WRITTEN, snapshot_written, snapshot_written)                    \
    X(MODEL_SAVED, model_saved, model_saved)                                   \
    X(NODE, node, node)

enum record_kind {
#define RECORD_ENUM(name, lower, what) RECORD_##name,
    RECORD_LIST(RECORD_ENUM)
#undef RECORD_ENUM
        RECORD_KIND_COUNT
};

/* Status of a run. `waiting`: the training system is loading. */
#define RUN_STATUS_LIST(X)                                                     \
    X(WAITING, waiting)                                                        \
    X(TUNING, tuning)                                                          \
    X(TRAINING, training)                                                      \
    X(PAUSED, paused)                                                          \
    X(SAVING, saving)                                                          \
    X(FINISHED, finished)                                                      \
    X(FAILED, failed)                                                          \
    X(INTERRUPTED, interrupted)                                                \
    X(STOPPED, stopped)

enum run_status {
#define RUN_STATUS_ENUM(name, lower) RUN_##name,
    RUN_STATUS_LIST(RUN_STATUS_ENUM)
#undef RUN_STATUS_ENUM
        RUN_STATUS_COUNT
};

/* The judgement of a trial. `running` until its first summary; `failed` by the
 * application or for want of memory; `stopped` before it could tell;
 * `interrupted`: the run was, and its branch is lost. */
#define TRIAL_LABEL_LIST(X)                                                    \
    X(RUNNING, running)                                                        \
    X(CONVERGING, converging)                                                  \
    X(UNSTABLE, unstable)                                                      \
    X(DIVERGED, diverged)                                                      \
    X(FAILED, failed)                                                          \
    X(STOPPED, stopped)                                                        \
    X(INTERRUPTED, interrupted)

enum trial_label {
#define TRIAL_LABEL_ENUM(name, lower) TRIAL_##name,
    TRIAL_LABEL_LIST(TRIAL_LABEL_ENUM)
#undef TRIAL_LABEL_ENUM
        TRIAL_LABEL_COUNT
};

/* State of a suggestion. `begun` is said by the trial's own record;
 * `known`: a trial of that setting had begun already; `dropped`: see the
 * reason. */
#define SUGGESTION_STATE_LIST(X)                                               \
    X(WAITING, waiting)                                                        \
    X(BEGUN, begun)                                                            \
    X(KNOWN, known)                                                            \
    X(DROPPED, dropped)

enum suggestion_state {
#define SUGGESTION_STATE_ENUM(name, lower) SUGGESTION_##name,
    SUGGESTION_STATE_LIST(SUGGESTION_STATE_ENUM)
#undef SUGGESTION_STATE_ENUM
        SUGGESTION_STATE_COUNT
};

/* State of asking whoever suggests settings. `exhausted`: they have said that
 * nothing follows what they suggested; `silent`: a search has waited in vain;
 * `closed`: the search takes no further trial; `over`: no search follows. */
#define ASKING_LIST(X)                                                         \
    X(OPEN, open)                                                              \
    X(EXHAUSTED, exhausted)                                                    \
    X(SILENT, silent)                                                          \
    X(CLOSED, closed)                                                          \
    X(OVER, over)

enum asking {
#define ASKING_ENUM(name, lower) ASKING_##name,
    ASKING_LIST(ASKING_ENUM)
#undef ASKING_ENUM
        ASKING_COUNT
};

/* Words of a service for a run that no tuner has: it waits its turn, or is not
 * to begin before somebody says so. */
#define RUN_STATUS_QUEUED "queued"
#define RUN_STATUS_HELD "held"

/* Why a run ended; else the name of an error (base/err.h). `user`: stopped
 * before it had begun, or while it rested. */
#define RUN_REASON_LIST(X)                                                     \
    X(target)                                                                  \
    X(converged)                                                               \
    X(max_epochs)                                                              \
    X(max_time)                                                                \
    X(stopped)                                                                 \
    X(interrupted)                                                             \
    X(user)                                                                    \
    X(load_failed)                                                             \
    X(restore_failed)                                                          \
    X(changed)                                                                 \
    X(not_saved)                                                               \
    X(node_lost)                                                               \
    X(program_failed)                                                          \
    X(protocol)                                                                \
    X(stuck)                                                                   \
    X(resumed)

enum {
#define RUN_REASON_ONE(name) +1
    RUN_REASON_COUNT = 0 RUN_REASON_LIST(RUN_REASON_ONE) + ERR_COUNT - 1
#undef RUN_REASON_ONE
};

/* Limits that end a run; a user may change them while it lasts. */
struct record_limits {
    double target_loss, target_metric; /* NAN: none */
    double max_time_s;                 /* INFINITY: none */
    uint32_t plateau_epochs;
    uint32_t max_epochs; /* 0: not known, in journals that are older */
};

struct record_run_started {
    char run[RECORD_NAME_MAX], name[RECORD_NAME_MAX], app[RECORD_NAME_MAX];
    char strategy[RECORD_NAME_MAX], searcher[RECORD_NAME_MAX];
    uint64_t seed;
    double started_unix_s; /* wall time of at_s = 0; until a run_resumed */
    /* Facts of the training system, as in `ready`. */
    uint64_t samples, validation_samples, parts;
    uint32_t workers;
    char metric[33]; /* "" without one */
    bool metric_higher_better;
    struct record_limits limits;
};

struct record_run_status {
    enum run_status status;
    char reason[RECORD_TEXT_MAX]; /* "" or why */
};

/* The reason of an end, interrupted, that takes another back: the run is to go
 * on though it had failed or was stopped. */
#define RUN_REASON_RESUMED "resumed"

/* The reason of a search's end: a resume found no snapshot of it. */
#define RUN_REASON_SEARCH_GIVEN_UP "interrupted: the run went back to before it"

struct record_run_finished {
    enum run_status status;       /* FINISHED, FAILED, INTERRUPTED or STOPPED */
    char reason[RECORD_NAME_MAX]; /* "target", "converged", "max_epochs",
                                   * "max_time", "diverged", "interrupted", ...
                                   */
    char message[RECORD_TEXT_MAX]; /* a sentence for the user */
    json_t *last_words; /* owned: array of lines, the last that the training
                         * system wrote before it failed; NULL: none. The shell
                         * adds them. */
    uint32_t last_words_node; /* of several, whose they are; UINT32_MAX: of the
                               * only one */
    double waiting_s; /* of all slices, what nothing ran before them; since the
                       * last resume in journals that are older */
};

/* The run goes on from a snapshot: all branches that lived are lost, and what
 * the lineage had run since. */
struct record_run_resumed {
    branch_id from;      /* as in the snapshot's record; 0: the beginning */
    uint32_t epoch;      /* of that lineage, or of those that it was forked
                          * off; later ones did not survive */
    uint32_t best_epoch; /* whose parameters were kept; 0: none */
    branch_id best_of;   /* that ran it; BRANCH_NONE where it is not known */
    uint32_t search;     /* that goes on, its finished trials known; 0: none */
    uint32_t next_trial; /* of that search: trials of this number and higher
                          * ones are forgotten, and begin anew; 0: none does */
    uint32_t restarts;   /* of the node in a row; 0: a user resumed the run */
    double
        unix_s; /* wall time of this record: at_s has stood still meanwhile */
    char path[RECORD_PATH_MAX];   /* of the snapshot; "" the beginning */
    char reason[RECORD_TEXT_MAX]; /* a sentence */
};

/* A user's command has changed what the run is to do; all of that, as it is
 * from here on. */
struct record_command {
    char command[RECORD_NAME_MAX]; /* "pause", "continue", "retune", "limits" */
    bool
        paused; /* nothing is to run, once the slices that are out have ended */
    bool retune; /* at the next end of an epoch; until a search begins */
    struct record_limits limits;
};

/* A search: one round of trials from one parent. */
struct record_search_started {
    uint32_t search; /* from 1 */
    bool retune;     /* false: the initial one */
    branch_id parent;
    uint32_t trials_max;
    char reason[RECORD_TEXT_MAX];
    json_t *tunables; /* owned: what it may change, as in the configuration,
                       * the others fixed; NULL in journals that are older */
};

/* The length of a trial, once it has been found. */
struct record_search_decided {
    uint32_t search;
    double trial_s;  /* as in search_ended */
    double judged_s; /* of a trial's beginning that counts; 0: all */
};

struct record_search_ended {
    uint32_t search;
    uint32_t trials;
    uint32_t winner;  /* trial number; 0: none, the setting stays */
    double trial_s;   /* the trial time that was decided on (seconds, or samples
                       * with trial_clocks) */
    double seconds;   /* wall time spent, without what the winner trained */
    uint64_t clocks;  /* spent, without the winner's own */
    double waiting_s; /* of that time nothing ran: the training system waited
                       * for the tuner */
    char reason[RECORD_TEXT_MAX];
};

/* What a speed is in: the loss, or e-folds of what lies above its floor where
 * that is known, a second of the trial, or a sample (`trial_clocks`).
 * `unknown`: no speed yet, or a journal that is older than this. */
#define SPEED_UNIT_LIST(X)                                                     \
    X(UNKNOWN, unknown)                                                        \
    X(LOSS_PER_SECOND, loss_per_second)                                        \
    X(E_FOLDS_PER_SECOND, e_folds_per_second)                                  \
    X(LOSS_PER_SAMPLE, loss_per_sample)                                        \
    X(E_FOLDS_PER_SAMPLE, e_folds_per_sample)

enum speed_unit {
#define SPEED_UNIT_ENUM(name, lower) SPEED_##name,
    SPEED_UNIT_LIST(SPEED_UNIT_ENUM)
#undef SPEED_UNIT_ENUM
        SPEED_UNIT_COUNT
};

/* Figures that were measured of a trial. */
struct trial_figures {
    double speed; /* tuner/search/summary.h */
    enum speed_unit speed_unit;
    double noise, range; /* loss units; range < 0: the loss fell */
    double window_noise; /* standard deviation of a window's mean, measured */
    double seconds;      /* of its own slices */
    uint64_t samples, clocks;
    /* Of a contest's: the metric, or without one the loss, that it was tested
     * with last; is it known? */
    double result;
    bool tested;
    uint32_t points; /* 0 .. RECORD_POINTS_MAX; the first is the loss before */
    double time_s[RECORD_POINTS_MAX], loss[RECORD_POINTS_MAX];
    /* Figures by which a resumed search compares it (tuner/search/search.h); 0
     * in journals that are older than that. */
    double lead, lead_se, pace, paced, run_s;
    uint32_t pairs;
};

/* Started, updated (a summary after more training) and ended share a struct.
 * Numbers are from 1 over the whole run. */
struct record_trial {
    uint32_t trial, search;
    branch_id branch;
    json_t *setting; /* owned: object */
    bool incumbent;  /* the setting in use competes as a fresh fork */
    enum trial_label label;
    struct trial_figures figures;
    char reason[RECORD_TEXT_MAX]; /* why it ended early; "" */
    uint32_t suggestion; /* that it tries; 0: a proposal of the tuner's own */
};

struct record_branch_created {
    branch_id branch, parent;
    enum branch_type type;
    json_t *setting; /* owned: object; {} for kept */
    /* "trial", "training", "finalist", "probe", "test", "epoch", "best",
     * "parent", "snapshot", "user" */
    char role[16];
};

/* The reason of those that lived when the run ended. */
#define RECORD_FREED_AT_END "the run ends"

struct record_branch_freed {
    branch_id branch;
    char reason[RECORD_NAME_MAX];
};

/* A branch that the user has forked by hand: it exists, or is to be promoted. A
 * run that is resumed begins those again that live; one that was promoted, and
 * is in no snapshot yet, under the same setting at once. */
struct record_user_branch {
    branch_id branch;
    branch_id instead_of; /* begun again after a loss; BRANCH_NONE: new */
    bool promoted;
    uint32_t epochs; /* it is to run: to the end of so many; or */
    uint64_t clocks; /* so many clocks */
};

/* A setting that somebody outside wants to be tried: accepted, or what has
 * become of it. */
struct record_suggestion {
    uint32_t suggestion; /* from 1, over the whole run */
    enum suggestion_state state;
    uint32_t trial;                /* KNOWN: that one; else 0 */
    json_t *setting;               /* owned: object */
    char reason[RECORD_TEXT_MAX];  /* of KNOWN and DROPPED: a sentence */
    char key[RECORD_NAME_MAX + 1]; /* of the request that it came by; "" */
};

/* State of asking those outside has changed. */
struct record_asking {
    uint32_t search; /* CLOSED: of which; else 0 */
    enum asking asking;
    char reason[RECORD_TEXT_MAX]; /* a sentence; "" */
};

/* The tables of which rows can be asked for, and what the data hold, as the
 * training system says. */
struct record_tables {
    json_t *tables; /* owned: array, as in `ready`; NULL: none are told */
    json_t *data; /* owned: what its data hold, as in `ready`; NULL: not told */
};

/* A row that a user has added to. It is in every fork of the branch from then
 * on. */
struct record_increment {
    uint64_t number; /* from 1 over the whole run */
    branch_id branch;
    char table[RECORD_NAME_MAX + 1];
    uint64_t row;
    uint32_t values;
    double norm; /* Euclidean, of what was added */
};

struct record_slice_scheduled {
    branch_id branch;
    clock_no first;
    uint64_t count, report_every;
};

struct record_slice_ended {
    branch_id branch;
    clock_no first;
    uint64_t clocks; /* run: fewer than scheduled where the slice was cut */
    double switch_s;
    /* Over all nodes, as in `done`; 0 in journals that are older. */
    uint64_t data_bytes, reads;
    double staleness;
    double waiting_s; /* that nothing ran before it: the training system waited
                       * for the tuner */
};

/* Consecutive windows of one branch, at most RECORD_WINDOWS_MAX. */
struct record_progress {
    branch_id branch;
    clock_no first;        /* global clock of the first window */
    clock_no branch_clock; /* clocks the lineage had run before it */
    uint32_t windows;
    struct progress_window window[RECORD_WINDOWS_MAX];
    json_t *values; /* owned: columns of further metrics, as in a report; NULL:
                     * none */
};

struct record_epoch_ended {
    uint32_t epoch; /* from 1, along the lineage of the branch */
    branch_id branch;
    bool surviving;  /* false: a finalist that may still lose */
    json_t *setting; /* owned */
    clock_no clock;  /* global clock at its end */
    double loss;     /* mean over the epoch's samples */
    double metric;   /* NAN without validation */
    bool best;       /* the parameters at its end are kept as the best so far */
    double seconds;  /* of training, without the test */
};

/* From global clock @clock on the surviving lineage uses @setting. */
struct record_setting_chosen {
    clock_no clock;
    branch_id branch;
    json_t *setting; /* owned */
    char reason[RECORD_TEXT_MAX];
};

/* Why something was done: every decision has one. */
struct record_decision {
    char decision[RECORD_NAME_MAX]; /* "trial_time", "retune", "stop", ... */
    char text[RECORD_TEXT_MAX];     /* one sentence */
    uint32_t numbers;               /* 0 .. RECORD_NUMBERS_MAX */
    struct {
        char name[32];
        double value;
    } number[RECORD_NUMBERS_MAX];
};

struct record_snapshot_written {
    branch_id branch;
    clock_no clock;
    uint32_t epoch;
    uint64_t bytes;
    char path[RECORD_PATH_MAX];
    uint32_t best_epoch; /* of the best model by then; 0: none */
    branch_id best_of;   /* that ran it; BRANCH_NONE where it is not known */
    char best_path[RECORD_PATH_MAX]; /* where that model is; "" none */
    json_t *state; /* owned: what the tuner needs beside (tuner/core/resume.h);
                    * NULL: nothing can be resumed from it */
};

struct record_model_saved {
    branch_id branch;
    uint32_t epoch; /* whose parameters these are; 0: before the first end */
    double loss, metric;
    uint64_t bytes;
    char path[RECORD_PATH_MAX];
    json_t *data; /* owned or NULL: the application's members for model.json */
};

/* A beat of a node; the more seldom the longer the run. */
struct record_node {
    struct msg_beat beat;
};

struct record {
    enum record_kind kind;
    double at_s;    /* since the run began; >= that of the record before */
    clock_no clock; /* next global clock to be scheduled */
    union {
        struct record_run_started run_started;
        struct record_run_status run_status;
        struct record_run_finished run_finished;
        struct record_run_resumed run_resumed;
        struct record_command command;
        struct record_search_started search_started;
        struct record_search_decided search_decided;
        struct record_search_ended search_ended;
        struct record_trial trial; /* TRIAL_STARTED, _UPDATED, _ENDED */
        struct record_branch_created branch_created;
        struct record_branch_freed branch_freed;
        struct record_user_branch user_branch;
        struct record_suggestion suggestion;
        struct record_asking asking;
        struct record_tables tables;
        struct record_increment increment;
        struct record_slice_scheduled slice_scheduled;
        struct record_slice_ended slice_ended;
        struct record_progress progress;
        struct record_epoch_ended epoch_ended;
        struct record_setting_chosen setting_chosen;
        struct record_decision decision;
        struct record_snapshot_written snapshot_written;
        struct record_model_saved model_saved;
        struct record_node node;
    };
};

const char *record_kind_name(enum record_kind kind);
const char *run_status_name(enum run_status status);
const char *trial_label_name(enum trial_label label);

/* Every reason that a run's end can have, by number below RUN_REASON_COUNT; and
 * whether a word is one. */
const char *run_reason_name(unsigned number);
bool run_reason_is_known(const char *reason);

const char *suggestion_state_name(enum suggestion_state state);
const char *asking_name(enum asking asking);
const char *speed_unit_name(enum speed_unit unit);

enum speed_unit speed_unit_of(bool e_folds, bool by_samples);

/* True for FINISHED, FAILED, INTERRUPTED, STOPPED. */
bool run_status_is_end(enum run_status status);

/* Whether a status of this name is one of them; false for any other word (NULL,
 * "queued"). */
bool run_status_names_end(const char *status);

/* Whether `mltune resume` goes on with a run that ended so: interrupted and
 * stopped ones, and failed ones that have @work to go on from: a snapshot, or
 * trials (history_has_work). */
bool run_status_resumes(const char *status, bool work);

/* A record of that kind with all members zero; others of its union are left
 * as they are. */
void record_init(struct record *r, enum record_kind kind);

/* A new JSON object {"kind", "at_s", "next_clock", members}; the caller's.
 * Numbers that are not finite become the strings "nan", "inf", "-inf". NULL:
 * out of memory. */
json_t *record_to_json(const struct record *r);

/* A new JSON schema of such an object of that kind. NULL: out of memory. */
json_t *record_schema(enum record_kind kind);

/* The reverse; on success the caller owns @out's members (record_deinit).
 * Unknown members are ignored, so that old programs read newer journals.
 * Errors: ERR_FORMAT (@f names the member), ERR_NOMEM. */
enum err record_from_json(const json_t *json, struct record *out,
                          struct fault *f);

/* A record with JSON members of its own, for a copy that another thread reads:
 * jansson's counts of references are no place for two threads to meet.
 * Errors: ERR_NOMEM (@to owns nothing). */
enum err record_copy_own(struct record *to, const struct record *from);

/* Releases owned members; accepts a zeroed record. */
void record_deinit(struct record *r);

#endif
