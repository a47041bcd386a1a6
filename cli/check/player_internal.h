/* The player from inside: what its files share. Only cli/check/player*.c.
 *
 *   player.c       life, what is to be done, verdicts, ends of programs
 *   player_ask.c   settings, epochs, requests
 *   player_step.c  steps of scripts
 *   player_take.c  what the program says
 */
#ifndef CLI_PLAYER_INTERNAL_H
#define CLI_PLAYER_INTERNAL_H

#include "cli/check/player.h"
#include "cli/check/series.h"

enum {
    ASKED_MAX = 32,
    ACTS_MAX = 64,
    CHECKS_MAX = 64,
    FILLED_MAX = 4000, /* branches, whatever memory there is */
    BURST = 16,        /* requests that wait where there are thousands */
    UNKNOWN_BRANCH = 4000000,
};

struct player_slot {
    bool live;
    branch_id id;
    enum branch_type type;
    enum check_setting setting;
    uint64_t at, plan; /* in the epoch: samples, or parts; plan: when all that
                        * was scheduled has run */
    uint64_t samples;  /* of this epoch, where @whole */
    bool whole;
    bool broken; /* a slice of it has failed */
};

/* A request that is not answered. */
struct player_ask {
    op_id op;
    enum msg_kind kind;
    branch_id branch;
    int slot, series;
    const struct refusal_info *refused; /* it is to fail so */
    bool fills;                         /* a fork that may find no room */
    bool may_fail;                      /* a slice */
    clock_no first;
    uint64_t count, every, clocks, windows;
    double asked_at_s, cut_at_s; /* INFINITY: not cut */
    op_id cut;                   /* request that ended it; 0: none */
    double clock_s;              /* the longest so far */
    bool short_end;              /* its last window has come */
    bool wild;                   /* a sum is not finite */
};

enum player_phase {
    PHASE_IDLE,    /* no program runs */
    PHASE_HELLO,   /* started */
    PHASE_LOADING, /* has its configuration */
    PHASE_PLAYING,
    PHASE_ENDING, /* it is to end, as @end says */
    PHASE_OVER
};

/* Ways in which a program is made to end. */
enum player_end { END_STOPPED, END_LOST, END_UNLOADED, END_SIGNALLED };

struct player {
    struct player_options o;
    enum player_phase phase;
    enum player_end end;
    int signal; /* of END_SIGNALLED */
    double phase_at_s, step_at_s;
    uint32_t hellos;
    double *heard_at_s; /* [nodes] INFINITY: not yet */
    struct msg ready;   /* kind READY, or BEAT */
    json_t *no_memory;  /* the configuration, with a limit of one byte */
    bool unloadable;    /* the process has got that one */
    op_id next_op;
    branch_id next_branch;
    clock_no next_clock;
    uint64_t seen;   /* samples of the largest clock */
    json_t *looking; /* data of the answer that is being looked into */
    bool looks;      /* an ACT_LOOK is not answered */
    double now_s;

    int check;                     /* number of it */
    const struct check_step *step; /* NULL: it has not begun */
    bool begun;                    /* the step waits for something */
    bool reported;                 /* since the step began */
    uint64_t run_left;
    bool run_to_end;
    bool judged; /* the check has its result */
    struct player_slot slot[SLOTS_MAX];
    struct check_series series[SERIES_MAX];
    struct player_slot
        written[SLOTS_MAX];   /* snapshots, by the folder's number */
    branch_id filled_first;   /* STEP_FILL: numbers follow each other */
    uint64_t filled, to_keep; /* STEP_EMPTY: so many stay */
    bool full;                /* one was refused */
    struct player_ask asked[ASKED_MAX];
    size_t asked_len;

    struct player_act act[ACTS_MAX];
    size_t acts;
    struct check_result result[CHECKS_MAX];
    size_t results;
};

/* ---- player.c ---- */

/* One more thing to do, at the end; to be filled. */
struct player_act *player_add_act(struct player *p, enum player_act_kind kind);

/* The program as its `ready` described it; not to be used before that. */
const struct msg_ready *player_ready(const struct player *p);

/* The check under way, and the rule that a failure without a better one breaks.
 */
const struct trainer_check *player_check(const struct player *p);
enum rule player_rule(const struct player *p);

/* The check has failed: the program is killed, the next check begins. */
void player_fail(struct player *p, enum rule rule, const char *expected,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The check has nothing to say; it only cleans up. */
void player_not_made(struct player *p, const char *why);

/* The check is over; it has passed unless it has a result. */
void player_end_check(struct player *p);

void player_start_program(struct player *p);

/* The program is to end from here on, and how. */
void player_expect_end(struct player *p, enum player_end how);

/* Several processes that leave it to the tuner where a slice ends (M2, M3). */
bool player_agrees(const struct player *p);

/* ---- player_ask.c ---- */

bool player_has_tunable(const struct player *p, const char *name);

/* Samples of a clock by the setting; 0: there is no such tunable. */
uint64_t player_batch(const struct player *p, enum check_setting setting);

/* Length of an epoch: samples, or parts. */
uint64_t player_epoch(const struct player *p);

/* The request with that number that waits, or NULL; forgets one. */
struct player_ask *player_asked(struct player *p, op_id op);
void player_forget(struct player *p, struct player_ask *a);

void player_ask_config(struct player *p);
void player_ask_fork(struct player *p, const struct check_step *step);
void player_ask_free(struct player *p, int slot);
void player_ask_slice(struct player *p, const struct check_step *step,
                      uint64_t count);

/* The next slice of a STEP_RUN or STEP_EPOCH, if there is one. */
void player_go_on_running(struct player *p);

/* A snapshot, a restore, a save; and their folder. */
void player_ask_path(struct player *p, const struct check_step *step,
                     enum msg_kind kind);
void player_path(const struct player *p, const struct check_step *step,
                 char *out);

/* Ends the slice @slice; one that was cut, or NULL, is left alone. */
void player_ask_cut(struct player *p, struct player_ask *slice);
struct player_ask *player_last_slice(struct player *p);

/* A request that cannot be granted: nothing in the slots changes. */
void player_ask_refused(struct player *p, const struct check_step *step);

/* Forks from slot @from that fill memory; frees of the last of them: as many as
 * may wait. */
void player_ask_fill(struct player *p, int from);
void player_ask_empty(struct player *p);

void player_ask_stop(struct player *p);

/* ---- player_step.c ---- */

void player_begin_check(struct player *p);

/* Steps, as far as they go by themselves. */
void player_play(struct player *p);

#endif
