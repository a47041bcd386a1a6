/* The board's inside: its state, for the files of tuner/board alone.
 *
 * Strategies see what board.h declares.
 */
#ifndef TUNER_BOARD_STATE_H
#define TUNER_BOARD_STATE_H

#include "tuner/board/board.h"

enum {
    BOARD_OPS_MAX = 256, /* operations not answered yet */
    BOARD_SWITCHES = 8,
    BOARD_SNAPSHOTS_MAX = 16 /* remembered for `keep` */
};

struct byhand;
struct suggest;
struct rows;

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

    struct best best;

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

/* ---- called by the files of tuner/board ---------------------------------- */

/* As board_branch, to be changed. */
struct branch *ledger_branch(struct board *c, branch_id id);

/* The next action; the caller fills in what @kind says. Asserts that there is
 * room: TUNER_ACTIONS_MAX. */
struct tuner_action *board_action(struct board *c, enum tuner_action_kind kind);

/* A message of @kind with a new operation number; the caller fills in its
 * members. */
struct msg *board_send(struct board *c, enum msg_kind kind, branch_id branch);

/* A new kept branch with one hold that is read from the snapshot folder @path;
 * @parent: for the record. FORKING until it is read, REFUSED where it cannot be
 * (c->failure says why). NULL when no slot is free. */
struct branch *board_restore(struct board *c, const char *path,
                             branch_id parent);

/* What is planned is what was run: nothing is out. */
void board_plan_reset(const struct board *c, struct branch *b);

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
/* Goes on with snapshots, and with the end where there is one. */
void board_advance(struct board *c);
double board_wake_at(const struct board *c);

#endif
