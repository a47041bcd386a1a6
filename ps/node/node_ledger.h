/* The ledger of a node: the branches that there will be once everything queued
 * has been carried out, and the memory that they cost.
 *
 * Memory is counted in complete branches, *units*: a branch that may write
 * costs one, kept branches that hold the same state, a *group*, together one.
 * The ledger runs ahead of the stores, which count as many or less
 * (branches/store_internal.h), so a fork that was granted here succeeds there.
 *
 * Zeroed is empty. One owner. Pure.
 */
#ifndef PS_NODE_LEDGER_H
#define PS_NODE_LEDGER_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "ps/node/node_setting.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_state {
    uint32_t refs; /* branches and a snapshot being written; 0: unused */
};

struct node_branch {
    branch_id id;
    enum branch_type type;
    uint32_t group;
    bool freed;      /* `free` was received: gone once the queue is empty */
    enum err broken; /* why: a slice of it, or of its parent's, failed in its
                      * midst; ERR_OK: it is whole */
    struct node_setting *setting; /* resolved at its fork; owned; NULL: no
                                   * clock runs in it */
};

struct node_ledger {
    struct node_branch *branch; /* [branches] */
    size_t branches, branches_room;
    struct node_state *group; /* [groups] */
    size_t groups, groups_room;
    uint32_t live, units; /* once the queue is empty */
    uint32_t units_max;   /* complete branches that fit */
};

void node_ledger_deinit(struct node_ledger *l);

/* Branch @id, or NULL; also one that is to go. Valid until a branch comes or
 * goes. */
struct node_branch *node_ledger_find(const struct node_ledger *l, branch_id id);

/* Branch @id if it will be there once the queue is empty, else NULL and the
 * reason. */
struct node_branch *node_ledger_live(const struct node_ledger *l, branch_id id,
                                     struct fault *f);

/* Whether a fork of @parent costs nothing: a kept fork of a kept branch holds
 * the same state for ever. */
bool node_ledger_shares(const struct node_branch *parent,
                        enum branch_type type);

/* Whether one more unit can be granted; one more branch, which @shares a group
 * or has one of its own. Errors: ERR_LIMIT; ERR_EXIST. */
enum err node_ledger_check_units(const struct node_ledger *l, struct fault *f);
enum err node_ledger_check_room(const struct node_ledger *l, branch_id id,
                                bool shares, struct fault *f);

/* Room for one more branch and one more group. Errors: ERR_NOMEM. */
enum err node_ledger_reserve(struct node_ledger *l);

/* A group that nothing refers to; room was reserved. */
uint32_t node_ledger_group(struct node_ledger *l);

/* One more refers to a group, or one less: the first and the last count. */
void node_ledger_take(struct node_ledger *l, uint32_t group);
void node_ledger_give(struct node_ledger *l, uint32_t group);

/* Room was reserved; @setting is transferred. */
void node_ledger_add(struct node_ledger *l, branch_id id, enum branch_type type,
                     uint32_t group, struct node_setting *setting);

/* The branch no longer exists once the queue is empty; no longer exists. */
void node_ledger_end(struct node_ledger *l, struct node_branch *b);
void node_ledger_remove(struct node_ledger *l, struct node_branch *b);

#endif
