/* Node groups: several training nodes as one, to the tuner's core.
 *
 * Every request goes to all nodes; their answers are joined into one:
 *
 *   forked, done   when all have said so
 *   failed         when all have; or the first one, while they load
 *   report         window by window, when all have reported it: sums over the
 *                  nodes, in their order; the longest time of any
 *   beat           as it comes
 *
 * All nodes decide alike (ps/node/node.h), so an operation fails on all or on
 * none; but what touches a disk may fail on some, and has then failed. A branch
 * that only some could restore is said to be there `partly`: free it, which is
 * done when all have answered, whatever. Anything else on which they disagree
 * means that they are no longer the same run: all are to be started anew.
 *
 * Programs whose `ready` says cuts "agreed" cannot end a slice by themselves:
 * in each clock they wait for one another, and no two are equally far. A `cut`
 * of theirs becomes a `hold`, which each answers with the clocks that it has
 * begun. When all have answered, `cut` names the most of these as the end.
 *
 * It always comes to an end. A hold is answered on arrival, also in the midst
 * of a clock (rule M2 of docs/protocol.md), so that all answers come, whoever
 * waits for whom. From its answer on a node begins nothing until it is given
 * the end, so that the end is not below what any has begun. A clock that one
 * has begun is at or below the end: every other begins it too, once the end is
 * known, and nobody waits in it for good. No clock above the end is begun by
 * any. A slice that is not held runs to its last clock on all. A node whose
 * slice was over before the hold has run all of it, which is then the end.
 *
 * Pure; one owner thread.
 */
#ifndef TUNER_NODE_GROUP_H
#define TUNER_NODE_GROUP_H

#include "base/fault.h"
#include "base/proto/proto.h"

#include <stdbool.h>
#include <stdint.h>

struct node_group;

/* Errors: ERR_NOMEM. */
enum err node_group_new(uint32_t nodes, struct node_group **out);
void node_group_free(struct node_group *c);

/* All nodes were started anew: nothing is expected any more. */
void node_group_reset(struct node_group *c);

/* @m is to leave for all nodes. @leaves: false where something else leaves in
 * its place (node_group_post). A slice is cut once. Errors: ERR_NOMEM. */
enum err node_group_ask(struct node_group *c, const struct msg *m,
                        bool *leaves);

/* The next message of the group's own that is to leave for all nodes; false
 * when there is none. It owns nothing. Asked for after each node_group_ask and
 * node_group_take. */
bool node_group_post(struct node_group *c, struct msg *out);

/* @m, a `save` that was asked for, is kept from node 0 until all others have
 * answered: what an application adds to the model there may read the tables,
 * which are whole then. Programs, whose saving may wait for one another, are
 * all asked at once. */
void node_group_save_last(struct node_group *c, const struct msg *m);

/* The message that node 0 is to be given now; false: none. Asked for after each
 * node_group_take. */
bool node_group_save_due(struct node_group *c, struct msg *out);

/* Takes a message of node @node; its members are transferred, whatever comes of
 * it. Errors: ERR_PROTO, the nodes disagree, in words; ERR_NOMEM. The group is
 * of no use then until node_group_reset. */
enum err node_group_take(struct node_group *c, uint32_t node, struct msg *m,
                         struct fault *f);

/* The next message for the core, transferred; false when there is none. */
bool node_group_next(struct node_group *c, struct msg *out);

#endif
