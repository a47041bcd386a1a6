/* The crew: the training nodes as the loop talks with them.
 *
 * Each says hello, is known by its process number, and gets the configuration.
 * Messages of the tuner go to all; what the nodes say is joined, so that the
 * loop hears as if of one (tuner/shell/node_group.h). What befalls them is told
 * to the keeper (keeper.h), whose decisions are the loop's to carry out. One
 * owner thread, the loop's.
 */
#ifndef TUNER_CREW_IO_H
#define TUNER_CREW_IO_H

#include "base/fault.h"
#include "tuner/shell/keeper.h"
#include "tuner/shell/launcher_io.h"
#include "tuner/shell/node_group.h"
#include "tuner/shell/socket_io.h"

#include <stdbool.h>

enum {
    CREW_GARBAGE_MAX = 1000, /* messages of no use that a program may send */
    CREW_DECODES_MAX = 10,   /* tries to read one while memory is out */
    CREW_SENDS_MAX = 10,     /* to send one, likewise */
    CREW_WORDS_MAX = 20      /* last lines, of 2 KiB in all */
};

/* All borrowed. */
struct crew_options {
    struct tuner_socket *socket;
    struct node_process *node; /* [keeper.nodes] started, numbered from 0 */
    const struct msg *config;  /* for a node that says hello */
    struct keeper_options keeper;
};

/* How often a node elsewhere was started because its host was busy, and when it
 * will be again; INFINITY: it will not. */
struct crew_start {
    unsigned tries;
    double again_s;
};

struct crew {
    struct crew_options o;
    struct keeper keeper;
    struct socket_peer peer[KEEPER_NODES_MAX]; /* len 0: has not said hello */
    struct node_group *group;                  /* NULL: one node */
    uint64_t malformed;                        /* messages of no use */
    char garbage[256];                         /* why the first one is */
    struct msg held;  /* a failure to load, while the keeper holds it */
    bool blamed;      /* a program is at fault: nothing more is heard of it */
    bool broken;      /* a grant is: nor of what comes after that */
    uint32_t culprit; /* node that the keeper's reason is about */
    struct crew_start start[KEEPER_NODES_MAX];
};

/* Errors: ERR_NOMEM. */
enum err crew_init(struct crew *w, const struct crew_options *o, double now_s);
/* The processes are to be ended before (crew_end). */
void crew_deinit(struct crew *w);

/* Sends @m to all; to none where not all are there: the tuner then hears of the
 * loss. Errors (not of a node's, which is the keeper's to know): ERR_NOMEM. */
enum err crew_send(struct crew *w, const struct msg *m, double now_s,
                   struct fault *f);

/* Gets what the crew says as one; may take members of @m. */
typedef void crew_hear(void *ctx, struct msg *m);

/* Takes the next message from the socket; @hear gets what comes of it. False:
 * none waits. */
bool crew_receive(struct crew *w, double now_s, crew_hear *hear, void *ctx);

/* The process of @node may have ended: its end_fd is readable. */
void crew_check(struct crew *w, uint32_t node, double now_s);

/* The next node that is to be started again by now (loop_hooks.again), since
 * its host was busy. False: there is none. And when there will be one;
 * INFINITY. */
bool crew_due(struct crew *w, double now_s, uint32_t *node);
double crew_due_at(const struct crew *w);

/* The end of @node's process, which has ended: "the program (pid 7) ended
 * with exit code 1". Into @out[size]. */
void crew_describe_end(const struct crew *w, uint32_t node, char *out,
                       size_t size);

/* Why the nodes are lost, for people: the keeper's reason, and what else they
 * did. Into @out[size]. */
void crew_explain(const struct crew *w, char *out, size_t size);

/* The last lines that the culprit wrote: an array, owned by the caller; NULL
 * without any, or without memory. */
json_t *crew_last_words(const struct crew *w);

/* Ends all processes within @time_ms: they are asked again (SIGTERM) at half of
 * it, and killed at its end; 0: killed at once. @hurry_fd: as launcher_stop. */
void crew_end(struct crew *w, int time_ms, int hurry_fd);

/* The process of which they are; UINT32_MAX where there is one alone. */
uint32_t crew_last_speaker(const struct crew *w);

/* Duties of the keeper: TELL, @hear gets what comes of what was held; KILL;
 * CLEAR; others were started (RESTART). Errors: ERR_NOMEM. */
void crew_tell(struct crew *w, double now_s, crew_hear *hear, void *ctx);
void crew_kill(struct crew *w, double now_s);
void crew_clear(struct crew *w);
enum err crew_begin_again(struct crew *w, double now_s);

#endif
