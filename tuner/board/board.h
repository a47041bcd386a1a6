/* The board: branches, slices and epochs, as strategies work with them.
 *
 * It turns what a strategy wants (fork this, run that for so many clocks, free
 * it) into messages and records, in clock order, and takes answers and reports
 * in. It knows nothing about searching. Inside tuner/ only; one owner thread.
 *
 * A branch is a slot in a fixed table. Its pointer stays valid until the branch
 * is freed; strategies keep numbers and look them up.
 */
#ifndef TUNER_BOARD_H
#define TUNER_BOARD_H

#include "searchers/searcher.h"
#include "searchers/space/space.h"
#include "tuner/board/trace.h"
#include "tuner/board/tuner.h"
#include "tuner/history/nodes.h"
#include "tuner/history/record.h"

enum {
    BOARD_OPS_MAX = 256, /* operations not answered yet */
    BOARD_SWITCHES = 8,
    BOARD_EPOCHS_KEPT = 4,    /* results of epochs a branch remembers */
    BOARD_SNAPSHOTS_MAX = 16, /* remembered for `keep` */
    BOARD_ROLE_MAX = 16
};

/* FORKING: not answered yet. REFUSED: the fork failed, nothing exists (or
 * `partly`); to be forgotten with board_free. FREEING: told to be freed, not
 * answered yet; no strategy sees it any more. */
enum branch_state {
    BRANCH_FREE_SLOT,
    BRANCH_FORKING,
    BRANCH_LIVE,
    BRANCH_REFUSED,
    BRANCH_FREEING
};

/* A finished epoch of a branch's lineage. */
struct epoch_result {
    uint32_t epoch; /* from 1; 0: none */
    double loss;    /* mean over its samples */
    double seconds; /* of training */
    clock_no clock; /* global number after its last clock */
};

/* What the running epoch has gathered. */
struct epoch_sums {
    double sum, seconds;
    uint64_t samples, clocks;
};

struct byhand;
struct suggest;
struct rows;

struct branch {
    branch_id id, parent;
    enum branch_type type;
    enum branch_state state;
    char role[BOARD_ROLE_MAX];
    struct setting setting;
    json_t *json;   /* owned: the setting as the messages carry it */
    uint32_t holds; /* of kept branches: freed with the last board_drop */

    uint64_t clocks; /* run by the lineage */
    uint32_t epochs; /* finished by the lineage */
    struct epoch_sums now;
    struct epoch_result result[BOARD_EPOCHS_KEPT]; /* epoch e at e % KEPT */

    /* Since the fork. */
    clock_no first_clock; /* global, of its first slice; valid when clocks > 0
                           * or a slice is out */
    bool scheduled;       /* had a slice */
    uint64_t own_clocks, own_samples;
    double own_sum; /* of finite windows */
    struct trace trace;

    uint32_t slices; /* scheduled and not answered */
    uint64_t plan;   /* position in the epoch after them (see board_units) */
    uint32_t plan_epochs; /* epochs finished after them */

    uint64_t increments; /* number of the last one that is in it; 0: none */

    op_id after; /* the lineage's numbers follow when the parent's slice of this
                  * operation has ended; 0: they are there */

    enum err error; /* a slice failed; ERR_OK otherwise */
    bool partly;    /* REFUSED: some nodes have it all the same */
    bool nonfinite; /* reported something that is not finite */
};

struct board_op {
    op_id id;
    enum msg_kind kind;
    branch_id branch;
    clock_no first;    /* schedule */
    uint64_t count;    /* schedule */
    uint64_t reported; /* clocks in reports so far */
    double work_s;     /* schedule: what these took */
    bool idle;         /* schedule: sent when no slice was out */
    bool cut;          /* a cut was sent for it */
};

enum ending_phase {
    ENDING_NOT, /* running */
    ENDING_DRAIN,
    ENDING_SNAPSHOT,
    ENDING_MODEL,
    ENDING_OVER
};

struct board {
    struct tuner_options options; /* its text members are not used: */
    char run[RECORD_NAME_MAX], name[RECORD_NAME_MAX], app[RECORD_NAME_MAX];
    char snapshot_dir[PROTO_PATH_MAX], model_dir[PROTO_PATH_MAX];
    struct space space; /* `acts` as the training system says */
    json_t *empty;      /* owned: {} */

    bool ready;
    struct msg_ready system;         /* `tunables` is NULL */
    uint64_t samples_per_clock_seen; /* largest; 0: nothing ran */

    struct branch branch[TUNER_BRANCHES_MAX];
    struct board_op op[BOARD_OPS_MAX]; /* in order of sending */
    uint32_t ops;
    op_id next_op;
    branch_id next_branch;
    clock_no next_clock;
    uint64_t clocks_run;             /* by all branches */
    uint32_t slices;                 /* scheduled and not answered */
    double switches[BOARD_SWITCHES]; /* latest measured costs of a switch */
    uint32_t switches_len;

    double born_s;    /* first event: options.started_unix_s on the wall */
    double started_s; /* time 0 of the run; earlier for a resumed one */
    double now_s, step_s;
    bool started;
    double first_clock_s; /* when the first slice was sent; INFINITY before */
    double first_wait_s;  /* when a search first waited for a suggestion; the
                           * same */
    double slice_end_s;   /* when the last slice ended; NAN before, and after a
                           * pause */
    double beat_s[NODES_MAX]; /* of each node's latest record */
    double waited_s; /* in all, for slices that came when none was out */
    double wait_s;   /* for the latest of these; NAN: none yet */
    double retry_s;  /* a strategy lacked something: wake up then;
                      * INFINITY: nothing is lacking */
    enum run_status status;
    bool paused, retune_wanted, finished;
    double paused_s;       /* in all, in pauses that are over */
    double pause_began_s;  /* nothing runs since; NAN: no pause */
    double first_paused_s; /* of paused_s, before the first clock; and */
    double wait_paused_s;  /* before the first wait */
    enum run_status paused_from;
    char failure[PROTO_TEXT_MAX]; /* reason of the last slice that failed */

    /* The branch that is the run's present state: what an end or a snapshot
     * takes. Set by the strategy; a training or kept branch; 0 at first. */
    branch_id base;

    /* The best model so far: a kept branch, held. BRANCH_NONE before. */
    struct best {
        branch_id branch;
        uint32_t epoch;
        double loss, metric;
    } best;

    void *strategy; /* state of options.strategy: snapshots ask it */
    struct byhand
        *hand; /* the user's own forks (tuner/board/byhand.h); the tuner's */
    struct suggest *suggest; /* what others want tried; the tuner's */
    struct rows
        *rows; /* what users ask of rows (tuner/board/rows.h); the tuner's */
    uint64_t increments; /* number of the last one that was asked for */
    uint64_t ticket;     /* of the command that is taken in */

    /* A snapshot is two folders: the branch that the run goes on from, and the
     * best model, where that is not on disk already. */
    struct snapshotting {
        enum {
            SNAPSHOT_IDLE,
            SNAPSHOT_FORKING,
            SNAPSHOT_WRITING,
            SNAPSHOT_BEST
        } phase;
        bool wanted;
        double due_s;
        bool taken;          /* what follows is set */
        json_t *saved;       /* owned: by the strategy; NULL: it cannot */
        branch_id of;        /* the branch it is taken from */
        branch_id best;      /* held; BRANCH_NONE: there is none */
        struct best outcome; /* of `best` */
        branch_id branch;    /* held: what is written */
        json_t *state;       /* owned: for the record */
        uint32_t number;     /* of the last begun; names its folder */
        uint32_t epoch;
        clock_no clock;
        uint64_t bytes;
        /* Of the last one that was written: the same again is not. */
        branch_id of_written;
        clock_no clock_written;
        json_t *saved_written;  /* owned */
        branch_id best_written; /* on disk, with number best_number */
        uint32_t best_number;   /* 0: none */
        struct {
            uint32_t number, best; /* best: number of its folder; 0: none */
        } written[BOARD_SNAPSHOTS_MAX]; /* oldest first */
        uint32_t written_len;
    } snapshot;

    struct resuming {
        enum { RESUME_NOT, RESUME_READING, RESUME_HANDING, RESUME_OVER } phase;
        size_t left;          /* snapshots of the history not tried yet */
        uint32_t tried;       /* at most snapshot_keep are there */
        const json_t *state;  /* borrowed from the history; NULL: beginning */
        uint32_t number;      /* of that snapshot; 0: beginning */
        branch_id main, best; /* restored; main may be 0, best BRANCH_NONE */
        double at_s;          /* of the last record before */
        bool unpauses;        /* who resumes the paused run lets it go on */
        uint32_t search;      /* that goes on; 0: none */
        /* Numbers that were used before, for strategies that begin anew. */
        uint32_t searches, trials;
    } resume;

    struct ending {
        enum ending_phase phase;
        bool asked; /* the phase's operation is under way */
        struct tuner_finish finish;
        branch_id fork;  /* for the snapshot or the model */
        branch_id trial; /* the run's model where it has made no epoch; or
                          * BRANCH_NONE */
        double loss;     /* of that */
    } ending;

    struct tuner_actions *out; /* during a step */
};

/* ---- actions ------------------------------------------------------------- */

/* The next action; the caller fills in what @kind says. Asserts that there is
 * room: TUNER_ACTIONS_MAX. */
struct tuner_action *board_action(struct board *c, enum tuner_action_kind kind);

/* A message of @kind with a new operation number; the caller fills in its
 * members. */
struct msg *board_send(struct board *c, enum msg_kind kind, branch_id branch);

/* A record of @kind at the end of the actions, to be filled in. */
struct record *board_record(struct board *c, enum record_kind kind);

/* A decision and its reason; numbers follow with board_decision_number. */
struct record_decision *board_decision(struct board *c, const char *decision,
                                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void board_decision_number(struct record_decision *d, const char *name,
                           double value);

/* What ends the run, as it is now. */
struct record_limits board_limits(const struct board *c);

/* The time that has passed, without pauses: for what is measured over more than
 * one event. */
double board_active_s(const struct board *c);

/* Records a new status of the run if it is one. */
void board_set_status(struct board *c, enum run_status status,
                      const char *reason);

/* ---- branches ------------------------------------------------------------ */

/* NULL when there is no such branch, or it was freed. */
struct branch *board_branch(struct board *c, branch_id id);

/* Forks at the end of all slices that are out. The child's lineage continues
 * @parent's. @json: the setting's text form (shared, not consumed). Result: the
 * new branch, FORKING; or NULL when no slot is free, which is like a refusal.
 */
struct branch *board_fork(struct board *c, struct branch *parent,
                          enum branch_type type, const struct setting *setting,
                          json_t *json, const char *role);

/* A read-only fork of @parent with one hold. */
struct branch *board_keep(struct board *c, struct branch *parent,
                          const char *role);
void board_hold(struct board *c, branch_id kept);
/* BRANCH_NONE is allowed. Branch 0 is never freed by this. */
void board_drop(struct board *c, branch_id kept, const char *reason);

/* Frees a branch after the slices that are out; forgets a refused one.
 * BRANCH_NONE and branches that are gone are allowed. */
void board_free(struct board *c, branch_id id, const char *reason);

/* Live, and no slice of it is out. */
bool branch_idle(const struct branch *b);

/* Result of the lineage's epoch @epoch, one of the last BOARD_EPOCHS_KEPT. */
const struct epoch_result *branch_epoch(const struct branch *b, uint32_t epoch);

/* ---- slices -------------------------------------------------------------- */

/* Length of an epoch in units of position: clocks where the training system
 * has parts, else samples. */
uint64_t board_units(const struct board *c);

/* Samples a clock with @setting takes; 0: not known yet. */
uint64_t board_samples_per_clock(const struct board *c,
                                 const struct setting *setting);

/* Clocks until @b's epoch ends, after the slices that are out; 1 where the size
 * of a clock is not known. */
uint64_t board_clocks_left(const struct board *c, const struct branch *b);

/* Clocks of @b that are scheduled and not reported yet. */
uint64_t board_clocks_out(const struct board *c, const struct branch *b);

/* Schedules one slice of @count clocks, at most board_clocks_left and
 * PROTO_WINDOWS_MAX windows; more is cut to that. Returns the clocks. */
uint64_t board_run(struct board *c, struct branch *b, uint64_t count,
                   uint64_t report_every);

/* Schedules @count clocks of a testing branch. */
void board_test(struct board *c, struct branch *b, uint64_t count);

/* Median of the latest measured costs of a switch; 0 before there is any. */
double board_switch_cost(const struct board *c);

/* Cuts the slice that runs if it is @b's (BRANCH_NONE: whosever). */
void board_cut(struct board *c, branch_id branch);

/* ---- the rest ------------------------------------------------------------ */

/* A new kept branch with one hold that is read from the snapshot folder @path;
 * @parent: for the record. FORKING until it is read, REFUSED where it cannot be
 * (c->failure says why). NULL when no slot is free. */
struct branch *board_restore(struct board *c, const char *path,
                             branch_id parent);

/* What is planned is what was run: nothing is out. */
void board_plan_reset(const struct board *c, struct branch *b);

/* Makes @kept (held by the caller; the board takes a hold of its own) the best
 * model so far. */
void board_set_best(struct board *c, branch_id kept,
                    const struct epoch_result *e, double metric);

/* True if (@loss, @metric) of an epoch beats the best model so far. */
bool board_is_better(const struct board *c, double loss, double metric);

/* The metric as a number of which less is better; without validation the
 * loss. */
double board_score(const struct board *c, double loss, double metric);

/* The reverse: what a person calls a score. */
double board_result(const struct board *c, double score);

/* Ends the run: slices are cut, then an interrupted or stopped run writes a
 * snapshot, every run but an interrupted one the best model, then FINISH. The
 * first call counts. */
void board_end(struct board *c, enum run_status status, const char *reason,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Asks for another step in a tenth of a second: something (memory, the
 * searcher) was not to be had now. */
void board_retry(struct board *c);

/* The same, @seconds (> 0) from now at the latest. */
void board_retry_after(struct board *c, double seconds);

/* ---- called by tuner.c --------------------------------------------------- */

enum err board_init(struct board *c, const struct tuner_options *options,
                    struct fault *f);
void board_deinit(struct board *c);
/* The training system broke the protocol: it is told to stop, and FINISH. */
void board_violated(struct board *c, const char *what);
/* The training system is gone: FINISH at once. */
void board_lost(struct board *c, const char *reason);
/* Takes a message in. Errors: ERR_PROTO (@f says what did not fit). */
enum err board_message(struct board *c, const struct msg *m, struct fault *f);
/* A snapshot or the model was written, or was not. */
void board_written(struct board *c, enum msg_kind kind,
                   const struct msg_done *m);
void board_not_written(struct board *c, enum msg_kind kind,
                       const struct msg_failed *m);
/* Timers: the end of the time, snapshots. */
void board_tick(struct board *c);
/* Ends the run as interrupted with nothing written: it cannot go on now, but
 * from its snapshots at another time. */
void board_interrupted(struct board *c, const char *reason, const char *what);
/* Goes on with snapshots, and with the end where there is one. */
void board_advance(struct board *c);
double board_wake_at(const struct board *c);

#endif
