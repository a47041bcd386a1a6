/* The keeper: when a training node is taken for lost, and what then.
 *
 * A node is lost when its process has ended, when it does not take messages, or
 * when it was silent for too long: it beats once a second, also while it loads.
 * The tuner hears of a loss a little later, so that last words can be read. A
 * lost node is started again, a few times in a row without progress, after a
 * wait that doubles; then the run is given up. With several nodes the loss of
 * one is that of all.
 *
 * The keeper decides, the loop does: it asks keeper_take what is to be done by
 * now, and until when nothing is. Pure; one owner thread. Times are seconds on
 * any one time line.
 */
#ifndef TUNER_KEEPER_H
#define TUNER_KEEPER_H

#include "base/proto/proto.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    KEEPER_NODES_MAX = 64,
    KEEPER_RESTARTS_MAX = 3 /* in a row without progress */
};

#define KEEPER_SILENCE_S 60.0
/* Before the first restart in a row; each further one waits twice as long. */
#define KEEPER_BACKOFF_S 0.5
/* A node that died may have said why: its last messages are read for so long
 * after its end. */
#define KEEPER_LAST_WORDS_S 0.2

struct keeper_options {
    uint32_t nodes;
    bool restarts;               /* lost nodes are started again at all */
    double silence_s, backoff_s; /* 0: the defaults */
};

/* Members are the keeper's own, but for reading. */
struct keeper {
    struct keeper_options o;
    double heard_s[KEEPER_NODES_MAX]; /* of each; or when it was started */
    double lost_at_s;    /* when the loss is to be acted on; INFINITY: none */
    double restart_at_s; /* INFINITY: no restart is planned */
    double wait_s;       /* before that restart, in all */
    bool lost;           /* it was acted on: nobody listens to the nodes */
    bool verdict;        /* how the process ended is known */
    bool stopping;       /* the nodes were told to stop: their end is no loss */
    bool leaving;        /* the user wants the end: nothing is started again */
    unsigned restarts;   /* in a row without progress */
    uint32_t epochs;     /* furthest epoch that ended */
    char reason[PROTO_TEXT_MAX]; /* of the loss, a sentence */
};

void keeper_init(struct keeper *k, const struct keeper_options *options,
                 double now_s);

/* ---- what happened ------------------------------------------------------- */

/* @node has said something. */
void keeper_hear(struct keeper *k, uint32_t node, double now_s);

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

/* Its process has ended as @verdict says: there is no better reason. */
bool keeper_end(struct keeper *k, double now_s, const char *verdict);

/* Others were started. */
void keeper_restarted(struct keeper *k, double now_s);

/* ---- what is to be done -------------------------------------------------- */

/* KILL: a node (keeper_most_silent) is silent for too long; end all, and say
 * so with keeper_lose. CLEAR: the nodes are lost and will be started again at
 * restart_at_s; end what is left of them. RESTART: start them now. GIVE_UP:
 * they are lost for good; the tuner is to know why. */
enum keeper_duty {
    KEEPER_NOTHING,
    KEEPER_KILL,
    KEEPER_CLEAR,
    KEEPER_RESTART,
    KEEPER_GIVE_UP
};

/* The next duty that is due; to be asked again when it is done. */
enum keeper_duty keeper_take(struct keeper *k, double now_s);

/* When there will be one; INFINITY: only if something happens. */
double keeper_due_at(const struct keeper *k);

/* The node that was not heard of for longest. */
uint32_t keeper_most_silent(const struct keeper *k);

#endif
