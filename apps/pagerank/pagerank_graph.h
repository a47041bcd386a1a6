/* A graph as PageRank reads it: of each node those that point to it.
 *
 * Pure functions.
 */
#ifndef APPS_PAGERANK_GRAPH_H
#define APPS_PAGERANK_GRAPH_H

#include "apps/formats/data_edges.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: empty. An edge that occurs twice counts twice. */
struct pagerank_graph {
    uint32_t nodes;
    uint64_t edges;
    uint64_t *begin; /* [nodes + 1] first in-edge of each node: owned */
    uint32_t *from;  /* [edges] where it comes from: owned */
    uint32_t *out;   /* [nodes] edges away; 0: a dangling node: owned */
};

void pagerank_graph_deinit(struct pagerank_graph *g);

/* Of the edges @e; @both: each in both directions, those of a node to itself
 * once. Errors: ERR_NOMEM. */
enum err pagerank_graph_init(struct pagerank_graph *g, const struct edges *e,
                             bool both);

#endif
