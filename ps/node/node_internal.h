/* The node's own state: for its two files alone, what it does (node.c) and what
 * it refuses (node_check.c). Pure.
 */
#ifndef PS_NODE_INTERNAL_H
#define PS_NODE_INTERNAL_H

#include "ps/node/node.h"
#include "ps/node/node_ledger.h"

/* An operation of the queue. */
struct entry {
    struct msg msg;
    bool cut;
};

struct node {
    enum node_phase phase;
    struct node_model model; /* ready is sent and gone */
    uint64_t validation_samples;
    op_id last_op;
    clock_no next_clock; /* lowest that a schedule may begin with */

    struct node_ledger ledger; /* the branches once the queue is empty */

    struct entry *queue; /* ring of [queue_room] */
    size_t queue_first, queue_len, queue_room;
    bool running; /* the first of the queue is being carried out */
    bool cut_due;
    op_id read_op;     /* that waits, and is being read all the same; 0: none */
    uint64_t reported; /* clocks of the running slice */

    bool snapshot_asked; /* one waits, or is being written */
    uint32_t snapshot_group;
    struct entry snapshot; /* in the background; kind SNAPSHOT, op > 0 */

    struct msg *out; /* ring of [out_room] */
    size_t out_first, out_len, out_room;
};

/* May request @m be taken, once the queue is empty? Nothing changes. @setting:
 * becomes that of the branch that is forked; NULL of one that is kept, and of
 * other requests. Errors: those that the tuner is told, in words in @f. */
enum err node_check(const struct node *n, const struct msg *m,
                    struct node_setting *setting, struct fault *f);

#endif
