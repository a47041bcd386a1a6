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

/* @m leaves for all nodes. Errors: ERR_NOMEM. */
enum err node_group_ask(struct node_group *c, const struct msg *m);

/* Takes a message of node @node; its members are transferred, whatever comes of
 * it. Errors: ERR_PROTO, the nodes disagree, in words; ERR_NOMEM. The group is
 * of no use then until node_group_reset. */
enum err node_group_take(struct node_group *c, uint32_t node, struct msg *m,
                         struct fault *f);

/* The next message for the core, transferred; false when there is none. */
bool node_group_next(struct node_group *c, struct msg *out);

#endif
