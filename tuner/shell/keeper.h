/* The keeper: when a training node is taken for lost, and what then.
 *
 * A node is lost when its process has ended, when it does not take messages,
 * when it was silent for too long (it beats once a second, also while it
 * loads), or when something that it owes does not come: its `hello`, its
 * `ready`, the next clock of a slice, an answer. The tuner hears of a loss a
 * little later, so that last words can be read. A lost node is started again, a
 * few times in a row without progress, after a wait that doubles; then the run
 * is given up. With several nodes the loss of one is that of all.
 *
 * A user's program that fails would fail again: where it ends by itself, says
 * that it failed, or owes something for too long, the run is given up at once.
 * Signals and silence befall a machine, and are as with nodes of our own. One
 * that cannot load says so before it has printed why: the tuner hears of it
 * when the process has ended, or a little later.
 *
 * The keeper decides, the loop does: it asks keeper_take what is to be done by
 * now, and until when nothing is. Pure; one owner thread. Times are seconds on
 * any one time line.
 */
#ifndef TUNER_KEEPER_H
#define TUNER_KEEPER_H

#include "base/deadlines.h"
#include "base/proto/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEEPER_NODES_MAX = 64,
    KEEPER_OPS_MAX = 320,   /* out at a time, more than a tuner asks; the
                             * newest beyond are not missed */
    KEEPER_RESTARTS_MAX = 3 /* in a row without progress */
};

#define KEEPER_SILENCE_S (DEADLINE_SILENCE_MS * 1e-3)
/* For `ready` of a node of our own after its `hello`: 500 GB of text take that
 * long. cluster.ready_timeout is the user's. */
#define KEEPER_READY_S (DEADLINE_READY_MS * 1e-3)
/* For each clock, and each other answer, of a node of our own. */
#define KEEPER_CLOCK_S (DEADLINE_CLOCK_MS * 1e-3)
#define KEEPER_ANSWER_S (DEADLINE_ANSWER_MS * 1e-3)
/* For the clock that runs when the run is to end: of a program, of a node of
 * our own; and for any word of such a node. */
#define KEEPER_END_S (DEADLINE_PROGRAM_END_MS * 1e-3)
#define KEEPER_NODE_END_S (DEADLINE_NODE_END_MS * 1e-3)
#define KEEPER_END_SILENCE_S (DEADLINE_NODE_END_SILENCE_MS * 1e-3)
/* Before the first restart in a row; each further one waits twice as long. */
#define KEEPER_BACKOFF_S 0.5
/* A node that died may have said why: its last messages are read for so long
 * after its end. */
#define KEEPER_LAST_WORDS_S 0.2
/* A program that said that it failed has so long to end by itself: what it
 * prints on its way out says more. */
#define KEEPER_FAREWELL_S (DEADLINE_FAREWELL_MS * 1e-3)

struct keeper_options {
    uint32_t nodes;
    bool restarts;               /* lost nodes are started again at all */
    bool program;                /* they are a user's program */
    double silence_s, backoff_s; /* 0: the defaults */
    /* For `hello` (0: silence_s); for `ready` after it (0: the default); for
     * each clock or answer (0: the defaults, one for each). */
    double hello_s, ready_s, clock_s;
    /* The key with which the user may change these: "app.ready_timeout"; NULL:
     * nothing. Borrowed. */
    const char *hello_by, *ready_by, *clock_by;
};

/* The debt of a node. SILENCE: any word. END: the end of its clock, when the
 * run is to end. */
enum keeper_owed {
    KEEPER_OWES_SILENCE,
    KEEPER_OWES_HELLO,
    KEEPER_OWES_READY,
    KEEPER_OWES_CLOCK,
    KEEPER_OWES_ANSWER,
    KEEPER_OWES_END
};

/* One node. Members are the keeper's own. */
struct keeper_node {
    bool greeted, ready;
    bool slice;       /* the latest slice is not over for it */
    double heard_s;   /* when last; or when it was started */
    double greeted_s; /* when it said hello */
    double moved_s;   /* when a clock, or the oldest that it was asked, was last
                       * finished */
    uint64_t clocks;  /* as its last beat had them */
    uint32_t owed;    /* answers that it owes: of these operations, oldest
                       * first */
    op_id op[KEEPER_OPS_MAX];
};

/* Members are the keeper's own, but for reading. */
struct keeper {
    struct keeper_options o;
    struct keeper_node node[KEEPER_NODES_MAX];
    double answer_s;       /* for any answer but a clock's */
    double hurried_s;      /* when the run was to end; INFINITY: it is not */
    op_id slice_op;        /* of the latest slice; 0: none */
    enum keeper_owed late; /* KILL: what did not come, */
    uint32_t late_node;    /* from whom */
    double late_s;         /* in so many seconds */
    double lost_at_s;      /* when the loss is to be acted on; INFINITY: none */
    double told_at_s;      /* when the failure to load that is held is to be
                            * heard; INFINITY: none is */
    double restart_at_s;   /* INFINITY: no restart is planned */
    double wait_s;         /* before that restart, in all */
    bool lost;             /* it was acted on: nobody listens to the nodes */
    bool verdict;          /* how the process ended is known */
    bool stopping;     /* the nodes were told to stop: their end is no loss */
    bool leaving;      /* the user wants the end: nothing is started again */
    bool final;        /* nothing would be better for being started again */
    unsigned restarts; /* in a row without progress */
    uint32_t epochs;   /* furthest epoch that ended */
    char reason[PROTO_TEXT_MAX]; /* of the loss, a sentence */
};

void keeper_init(struct keeper *k, const struct keeper_options *options,
                 double now_s);

/* ---- what happened ------------------------------------------------------- */

/* @node has said something; it was `hello`; it was `ready`. */
void keeper_hear(struct keeper *k, uint32_t node, double now_s);
void keeper_greet(struct keeper *k, uint32_t node, double now_s);
void keeper_ready(struct keeper *k, uint32_t node, double now_s);

/* All nodes were asked operation @op, which each is to answer. @slice: it is
 * one of clocks. */
void keeper_ask(struct keeper *k, op_id op, bool slice, double now_s);

/* Whether @node owes an answer to operation @op. */
bool keeper_owes(const struct keeper *k, uint32_t node, op_id op);

/* @node has answered operation @op. */
void keeper_answer(struct keeper *k, uint32_t node, op_id op, double now_s);

/* @node has finished clocks; has done @clocks since its start, as it says in a
 * beat (0: it does not say). */
void keeper_move(struct keeper *k, uint32_t node, double now_s);
void keeper_beat(struct keeper *k, uint32_t node, uint64_t clocks,
                 double now_s);

/* The run is to end as soon as the clock that runs is over. */
void keeper_hurry(struct keeper *k, double now_s);

/* An epoch ended. One that is done again after a restart is no progress. */
void keeper_progress(struct keeper *k, uint32_t epoch);

/* The nodes were told to stop; the user wants the end. */
void keeper_stop(struct keeper *k);
void keeper_leave(struct keeper *k);

/* A node is lost, for @reason. @speaks: it may have last words. A later reason
 * is the better one: a message that cannot be sent is noticed first. True: this
 * reason counts. */
bool keeper_lose(struct keeper *k, bool speaks, double now_s,
                 const char *reason);

/* Its process has ended as @verdict says: there is no better reason.
 * @by_itself: not by a signal. */
bool keeper_end(struct keeper *k, bool by_itself, double now_s,
                const char *verdict);

/* A program is at fault, for @reason, which is the best one. @leaves: it says
 * so itself, and will end. */
bool keeper_fault(struct keeper *k, bool leaves, double now_s,
                  const char *reason);

/* Program @node has said that it cannot load; the message is held, so that what
 * it prints on its way out is there: for KEEPER_FAREWELL_S, but not beyond its
 * time to be ready. Nothing else that happens to the nodes counts meanwhile. */
void keeper_hold(struct keeper *k, uint32_t node, double now_s);
/* Its process has ended: nothing more will be printed. */
void keeper_release(struct keeper *k, double now_s);

/* Others were started. */
void keeper_restarted(struct keeper *k, double now_s);

/* ---- what is to be done -------------------------------------------------- */

/* KILL: node late_node owes something for too long; end all, and say so with
 * keeper_lose. CLEAR: the nodes are lost and will be started again at
 * restart_at_s; end what is left of them. RESTART: start them now. GIVE_UP:
 * they are lost for good; the tuner is to know why. TELL: what was held is to
 * be heard. */
enum keeper_duty {
    KEEPER_NOTHING,
    KEEPER_KILL,
    KEEPER_CLEAR,
    KEEPER_RESTART,
    KEEPER_GIVE_UP,
    KEEPER_TELL
};

/* The next duty that is due; to be asked again when it is done. */
enum keeper_duty keeper_take(struct keeper *k, double now_s);

/* When there will be one; INFINITY: only if something happens. */
double keeper_due_at(const struct keeper *k);

/* A failure to load is held. */
bool keeper_holds(const struct keeper *k);

/* All have said `ready`. */
bool keeper_all_ready(const struct keeper *k);

/* Words for people about late_node's failure, after its name: "has not said
 * hello in 60 s (app.hello_timeout)". After KILL. */
void keeper_late_text(const struct keeper *k, char *out, size_t size);

#endif
