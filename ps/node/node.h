/* The training node's side of the control protocol: a pure state machine.
 *
 * Messages of the tuner go in and are checked against what the branches will be
 * when everything queued has been carried out; operations come out one by one,
 * in their order, for the shell to carry out; its results go in; messages to
 * the tuner come out. A message that cannot be granted is answered `failed` and
 * changes nothing.
 *
 *   node_receive ──► queue ──► node_take ──► the shell ──► node_finish
 *        │                                                    │
 *        └──── forked, failed ──► node_pop ◄── done, failed ──┘
 *
 * Memory is a ledger in complete branches: a branch that may write costs one,
 * kept branches that hold the same state together one. It runs ahead of the
 * stores, which count the same or less (branches/store_internal.h), so a fork
 * that was granted here succeeds there.
 *
 * A branch whose slice failed is *broken*, and so are its forks: they can be
 * freed, nothing else. One owner thread. Messages are numbered by the tuner;
 * see docs/protocol.md.
 */
#ifndef PS_NODE_H
#define PS_NODE_H

#include "base/fault.h"
#include "base/proto/proto.h"
#include "ps/node/node_setting.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NODE_QUEUE_MAX = 1024,    /* operations; more are refused, ERR_LIMIT */
    NODE_BRANCHES_MAX = 4000, /* live at one time */
    NODE_BEATS_WAIT_MAX = 16  /* messages not sent yet; then beats are left out
                               */
};

/* A number that no tuner gives: of what the node itself forks. */
#define NODE_OWN_BRANCH ((branch_id)(BRANCH_NONE - 1))

enum node_phase {
    NODE_WAITING, /* for the configuration */
    NODE_LOADING,
    NODE_SERVING,
    NODE_STOPPED /* nothing more is taken in or out but what waits */
};

/* Facts that are known once the application is loaded. */
struct node_model {
    struct msg_ready ready; /* transferred to node_loaded */
    unsigned branches_max;  /* complete branches that fit, branch 0 included */
    bool many;              /* one of several nodes: slices are cut by all */
    struct node_setting defaults;
    const char *const *tunables; /* of the application; borrowed for the life
                                  * of the node */
};

/* An operation to carry out. Borrowed until the next call that changes the
 * node.
 */
struct node_task {
    const struct msg *msg;              /* NULL: none is due */
    enum branch_type type;              /* of the branch it concerns */
    const struct node_setting *setting; /* of that branch; never NULL of what
                                         * has clocks or takes increments */
};

/* Bytes that a slice sent to other nodes, and how fresh the rows were that it
 * read: reads whose staleness is known, and its mean; 0 without any. */
struct node_wire {
    uint64_t bytes, reads;
    double staleness;
};

/* The result of an operation. */
struct node_result {
    struct fault fault;    /* code ERR_OK: carried out */
    bool broken;           /* a slice that failed in its midst */
    uint64_t clocks;       /* schedule */
    double switch_s;       /* schedule */
    struct node_wire wire; /* schedule */
    uint64_t bytes;        /* snapshot, save */
    json_t *data;          /* rows, save; transferred */
};

struct node;

/* A node that says @hello first and waits for its configuration. Errors:
 * ERR_NOMEM. */
enum err node_new(const struct msg_hello *hello, struct node **out);
void node_free(struct node *n);

enum node_phase node_phase(const struct node *n);

/* Takes @m in; its members are transferred, whatever comes of it. Errors:
 * ERR_PROTO for a message that a node is never sent (ignored, reason in @f);
 * ERR_NOMEM (nothing changed). */
enum err node_receive(struct node *n, struct msg *m, struct fault *f);

/* The next operation, in order; out->msg is NULL while one is being carried
 * out, or none waits. What is to be loaded comes first, as the `config`
 * message. */
void node_take(struct node *n, struct node_task *out);

/* While a slice runs: a read of rows that need not wait for its turn; its
 * branch exists, and nothing that waits before it adds to that. One at a time:
 * it is to be finished, or left to its turn before that comes
 * (node_leave_read). */
void node_take_read(struct node *n, struct node_task *out);
void node_leave_read(struct node *n, op_id op);

/* The result of loading: the second answers the configuration with `failed`,
 * and the node stops. Errors of the first: ERR_NOMEM. */
enum err node_loaded(struct node *n, struct node_model *model);
void node_load_failed(struct node *n, const struct fault *fault);

/* The snapshot taken last goes on in the background: the next operation may be
 * taken. */
void node_detach(struct node *n);

/* Operation @op, taken before, has been carried out or failed. */
void node_finish(struct node *n, op_id op, struct node_result *result);

/* Complete windows of the slice that runs, in order: @count >= 1 more. Errors:
 * ERR_NOMEM (nothing changed). */
enum err node_report(struct node *n, const struct progress_window *windows,
                     uint32_t count);

/* The slice that runs is to be cut: true once for each. One that was cut while
 * it waited ends without having been taken, where there is one node; of several
 * all must begin it, so that all end it after the same clock. */
bool node_cut_due(struct node *n);

/* Once a second. */
void node_beat(struct node *n, const struct msg_beat *beat);

/* The next message to send; false when none waits. It stays the node's, until
 * the next call, with node_peek; it is transferred with node_pop. */
bool node_peek(const struct node *n, struct msg *out);
bool node_pop(struct node *n, struct msg *out);

/* Operations that wait or are being carried out. */
size_t node_waiting(const struct node *n);

/* Branches that will be live once the queue is empty, and the complete branches
 * that they cost. */
uint32_t node_branches(const struct node *n);
uint32_t node_units(const struct node *n);

#endif
