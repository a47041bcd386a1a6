/* Steps: what the tuner is told, and what it wants done.
 *
 * Options at the beginning; from then on an event goes in (struct tuner_event)
 * and a list of actions comes out (struct tuner_actions). tuner/core/tuner.h
 * takes the step. Plain data.
 */
#ifndef TUNER_STEP_H
#define TUNER_STEP_H

#include "base/commands/commands.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/proto/proto.h"
#include "base/proto/table_info.h"
#include "tuner/history/record.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct earlier;
struct history;
struct searcher_ops;
struct setting;
struct space;
struct strategy_ops;

enum {
    TUNER_CONFIG_OP = 1,     /* number of the shell's `config` message; those of
                              * the tuner's own messages begin above it */
    TUNER_ACTIONS_MAX = 512, /* a step; reached by none: asserted */
    TUNER_BRANCHES_MAX = 64, /* live at the same time; further forks wait or
                              * cost the slowest trial */
    TUNER_TRIALS_MAX = 16384, /* a search */
    TUNER_RETURNS_MAX = 3,    /* from divergence while training, then failed */
    TUNER_FAULTS_MAX = 16     /* of a setting, that are told at once */
};

/* Trials that cannot win: run all the same; found and told of, but run all the
 * same (to measure how often that would be wrong); stopped. */
enum tuner_trial_stops { TRIAL_STOPS_OFF, TRIAL_STOPS_WATCHED, TRIAL_STOPS_ON };

/* Everything a run is told from outside. Borrowed members must outlive the
 * tuner; the rest is copied. TUNER_OPTIONS holds the contract's defaults. */
struct tuner_options {
    const char *run;  /* id; borrowed for the call, as all text here */
    const char *name; /* "" allowed */
    const char *app;  /* name, for the record */
    bool program;     /* the app is the user's: only it knows what can act, so
                       * what it names is compared with @space in a decision */
    const struct strategy_ops *strategy; /* tuner/board/strategy.h */
    const json_t *strategy_settings;     /* borrowed; NULL: defaults */
    const struct space *space;           /* copied */
    const struct searcher_ops *searcher; /* each search opens one, over the
                                          * tunables that it may change */
    const json_t *searcher_settings;     /* borrowed for the tuner's life; NULL:
                                          * defaults */
    const struct setting *initial; /* copied; to start from instead of a first
                                    * search; NULL: search */
    const struct earlier *earlier; /* what earlier runs found
                                    * (tuner/board/earlier.h); borrowed for the
                                    * tuner's life; NULL: nothing */
    bool retune;
    uint32_t max_trials; /* of the first search; 0: 12 + 6 d */
    enum tuner_trial_stops trial_stops;
    uint64_t trial_clocks; /* fixes trial lengths; time is then samples
                            * processed; 0: lengths are found */
    const char *metric;    /* that the training system must validate; NULL:
                            * whichever */
    double target_loss;    /* NAN: none; tested on epoch means */
    double target_metric;  /* NAN: none */
    uint32_t plateau_epochs, max_epochs;
    /* Where epochs are short, so many samples without improvement at least, up
     * to 20 epochs (stops_patience in tuner/core/stops.h); 0: no matter. */
    uint64_t plateau_samples;
    bool plateau_hits;        /* that holds for shares of hits, too */
    double max_time_s;        /* INFINITY: none; from the first event, what a
                               * resumed run had before counted in */
    double snapshot_every_s;  /* INFINITY: never but on interrupt */
    uint32_t snapshot_keep;   /* >= 1 */
    bool snapshot_trials;     /* trials that wait are in snapshots, a model
                               * each; else a contest begins anew within its
                               * search */
    const char *snapshot_dir; /* absolute; snapshots are folders in it */
    const char *model_dir;    /* absolute; where the model is saved */
    uint64_t seed;
    double started_unix_s; /* wall time, for the record only */
    /* NULL: a new run. Else the fold of the run's records so far, which goes on
     * from its newest snapshot that can be read; kept up to date by the caller
     * with the records that the tuner makes; borrowed for the tuner's life. */
    const struct history *resume;
    /* Where none of the snapshots that it tries can be used, it begins anew;
     * else that interrupts the run. */
    bool from_beginning;
    const char *resume_reason; /* a sentence, for the record; borrowed */
    uint32_t restarts;         /* of the node in a row, for the record */
    double lost_s; /* seconds since its last record, or since it began, in which
                    * the run's process lived on: its time all the same */
};
#define TUNER_OPTIONS                                                          \
    {                                                                          \
        .run = "run", .name = "", .app = "", .retune = true,                   \
        .trial_stops = TRIAL_STOPS_ON, .target_loss = NAN,                     \
        .target_metric = NAN, .plateau_epochs = 5, .max_epochs = 100,          \
        .max_time_s = INFINITY, .snapshot_every_s = 300, .snapshot_keep = 2,   \
        .snapshot_trials = true, .snapshot_dir = "", .model_dir = "",          \
        .seed = 1, .resume_reason = ""                                         \
    }

/* Commands of a user (base/commands/commands.h). STOP and INTERRUPT end the run
 * after a snapshot; STOP also saves the best model and ends as `stopped`,
 * INTERRUPT ends as `interrupted` (to be resumed). A second one while the first
 * is carried out changes nothing. PAUSE cuts the running slices and starts no
 * others until CONTINUE; the time in between is not the run's. RETUNE starts a
 * search at the next end of an epoch, SNAPSHOT writes one at the next end of a
 * slice. LIMITS changes what ends the run; a target is tested at the next end
 * of an epoch. FORK, PROMOTE and FREE are about branches forked by hand
 * (tuner/core/user_forks.h), READ and ADD about rows of the parameter server
 * (tuner/core/rows.h). SUGGEST offers settings to the search that is open, or
 * the next one (tuner/core/suggest.h). Each is answered by an action
 * (tuner/core/steering.h). An interrupted run is resumed by a tuner with
 * `resume`. */

/* MESSAGE: what the training system sent: ready (once, first), forked, done,
 * failed, report, beat (only recorded). The message is borrowed for the call.
 * LOST: the training system is gone. FULL: the run takes more room than it may:
 * it ends as `interrupted: limit`, after a snapshot. */
enum tuner_event_kind {
    TUNER_EVENT_MESSAGE,
    TUNER_EVENT_LOST,
    TUNER_EVENT_FULL,
    TUNER_EVENT_COMMAND,
    TUNER_EVENT_TIMER
};

struct tuner_event {
    enum tuner_event_kind kind;
    double now_s;  /* monotonic, any origin; never goes back */
    double step_s; /* how long the step before this one took (the searcher's
                    * decision time is in it); 0: not measured */
    union {
        const struct msg *message;
        struct {
            const char *reason; /* LOST, FULL: a sentence */
            bool program;       /* the user's program is at fault */
        };
        struct {
            enum command_id command;
            const union command_args *args; /* NULL: it has none; borrowed */
            const char *key; /* again with this: the same answer; NULL, or
                              * "": none; borrowed */
            uint64_t ticket; /* comes back with the answer */
        };
    };
};

/* SEND: give the message to the training system (all its nodes). RECORD:
 * journal it before performing what follows. REMOVE: delete a snapshot folder
 * that is no longer wanted. ANSWER: tell who gave the command with that ticket;
 * exactly one a command, by the same event, but for FORK, READ and ADD: those
 * are answered when the training system has. FINISH: the run is over; the last
 * action ever; the shell ends the training system (a `stop` message was sent
 * before it, unless the training system is lost) and leaves. */
enum tuner_action_kind {
    TUNER_SEND,
    TUNER_RECORD,
    TUNER_REMOVE,
    TUNER_ANSWER,
    TUNER_FINISH
};

/* ERR_OK: done, or there was nothing to do. Else nothing has changed:
 * ERR_CANCELED the run is ending, ERR_UNSUPPORTED this run never does it,
 * ERR_AGAIN not yet, ERR_NOENT no such branch, ERR_DIVERGED its state is of no
 * use, ERR_INVAL its setting is wrong (see the faults), ERR_LIMIT no memory or
 * no place for another branch or suggestion, ERR_EXHAUSTED no search follows,
 * ERR_PROTO the training system gave no rows,
 * ERR_NOMEM. */
struct tuner_answer {
    uint64_t ticket;
    enum err err;
    bool changed;
    branch_id branch; /* that FORK has made, READ and ADD were about;
                       * BRANCH_NONE */
    double *value;    /* READ: owned, [values] row by row; else NULL */
    uint32_t values;
    uint32_t suggestion, suggestions; /* SUGGEST: number of the first accepted,
                                       * and how many, in a row; 0: none */
    char text[RECORD_TEXT_MAX];       /* a sentence */
    struct record_limits limits;      /* in effect now */
    uint32_t faults;                  /* the first ones, of ERR_INVAL */
    struct {
        char pointer[96], text[280];
    } fault[TUNER_FAULTS_MAX];
};

struct tuner_finish {
    enum run_status status;
    char reason[RECORD_NAME_MAX];
    char message[RECORD_TEXT_MAX];
};

struct tuner_action {
    enum tuner_action_kind kind;
    union {
        struct msg message;
        struct record record;
        char path[PROTO_PATH_MAX];
        struct tuner_answer answer;
        struct tuner_finish finish;
    };
};

/* Actions of one step. Zeroed is empty; memory is kept from step to step. */
struct tuner_actions {
    struct tuner_action *item; /* owned; their JSON members too */
    size_t count, capacity;
};

#endif
