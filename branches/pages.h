/* Page tables: which chunk holds what, for one table of one version.
 *
 * A tree of nodes with PAGES_FANOUT children each; the children of level 0 are
 * chunks. Every node and chunk counts the nodes (or version records) that refer
 * to it, so that a whole tree is shared by one count and a write copies one
 * path from the root down. A missing node or chunk (NULL) stands for rows that
 * nobody has written: the table's initial chunk. Trees of one table have one
 * height.
 *
 * A tree is held by its root's item (a struct page_node), NULL when empty.
 */
#ifndef BRANCHES_PAGES_H
#define BRANCHES_PAGES_H

#include "branches/pool.h"

#include <stdint.h>

enum {
    PAGES_FANOUT_BITS = 7,
    PAGES_FANOUT = 1 << PAGES_FANOUT_BITS,
};

struct page_node {
    struct pool_item item;
    uint32_t level; /* 0: the children are chunks */
    uint32_t unused;
    struct pool_item *child[PAGES_FANOUT];
};

/* Where the nodes and the chunks of one table come from. */
struct pages_classes {
    struct pool *pool; /* borrowed */
    size_t node;
    size_t chunk;
};

/* Level of the root of a tree over @chunks chunks. */
unsigned pages_level(uint64_t chunks);

/* Nodes of a full tree over @chunks chunks: the worst case. */
uint64_t pages_nodes(uint64_t chunks);

/* Chunk @c of the tree, or NULL where nothing was written. @root may be NULL.
 */
struct pool_block *pages_find(const struct pool_item *root, uint64_t c);

/* Makes the path to chunk @c the caller's alone (which must own the only
 * reference to *@root, or to what it replaces there) and returns where the
 * chunk is noted. @level is the table's. Takes at most the nodes of
 * the path; cost: a copy of each shared node. */
struct pool_item **pages_own(const struct pages_classes *from,
                             struct pool_item **root, unsigned level,
                             uint64_t c);

/* Gives up one reference to the tree; frees what nobody else refers to.
 * @root may be NULL. */
void pages_release(const struct pages_classes *from, struct pool_item *root);

#endif
