#include "branches/pages.h"

#include <assert.h>
#include <string.h>

unsigned pages_level(uint64_t chunks)
{
    unsigned level = 0;

    while (chunks > PAGES_FANOUT) {
        chunks = (chunks + PAGES_FANOUT - 1) / PAGES_FANOUT;
        level++;
    }
    return level;
}

uint64_t pages_nodes(uint64_t chunks)
{
    uint64_t nodes = 0;

    while (chunks > 1) {
        chunks = (chunks + PAGES_FANOUT - 1) / PAGES_FANOUT;
        nodes += chunks;
    }
    return nodes ? nodes : chunks; /* a single chunk has a node, too */
}

static unsigned child_of(uint64_t c, unsigned level)
{
    return (unsigned)(c >> (level * PAGES_FANOUT_BITS)) & (PAGES_FANOUT - 1);
}

/* Does a tree whose root is at @level reach chunk @c? */
static int spans(unsigned level, uint64_t c)
{
    unsigned bits = (level + 1) * PAGES_FANOUT_BITS;

    return bits >= 64 || c >> bits == 0;
}

static struct page_node *node_of(struct pool_item *item)
{
    return (struct page_node *)item;
}

struct pool_block *pages_find(const struct pool_item *root, uint64_t c)
{
    const struct page_node *node = (const struct page_node *)root;

    if (!node)
        return NULL;
    assert(spans(node->level, c));
    for (unsigned level = node->level; level > 0; level--) {
        node = node_of(node->child[child_of(c, level)]);
        if (!node)
            return NULL;
    }
    return (struct pool_block *)node->child[child_of(c, 0)];
}

static struct page_node *node_new(const struct pages_classes *from,
                                  unsigned level)
{
    struct page_node *node = node_of(pool_take(from->pool, from->node));

    node->level = level;
    memset(node->child, 0, sizeof(node->child));
    return node;
}

/* The caller's reference to the shared @old becomes one to a copy of it. */
static struct page_node *node_copy(const struct pages_classes *from,
                                   struct page_node *old)
{
    struct page_node *node = node_of(pool_take(from->pool, from->node));

    node->level = old->level;
    for (unsigned i = 0; i < PAGES_FANOUT; i++) {
        node->child[i] = old->child[i];
        if (node->child[i])
            node->child[i]->refs++;
    }
    old->item.refs--;
    return node;
}

/* The node at *@at, private to the caller; made where there is none. */
static struct page_node *own_node(const struct pages_classes *from,
                                  struct pool_item **at, unsigned level)
{
    struct page_node *node = *at ? node_of(*at) : node_new(from, level);

    if (node->item.refs > 1)
        node = node_copy(from, node);
    assert(node->level == level && node->item.refs == 1);
    *at = &node->item;
    return node;
}

struct pool_item **pages_own(const struct pages_classes *from,
                             struct pool_item **root, unsigned level,
                             uint64_t c)
{
    struct pool_item **at = root;

    assert(spans(level, c));
    for (;; level--) {
        struct page_node *node = own_node(from, at, level);

        at = &node->child[child_of(c, level)];
        if (level == 0)
            return at;
    }
}

/* Backwards: the free list is a stack, and so chunks are taken again in the
 * order in which they lay before. */
void pages_release(const struct pages_classes *from, struct pool_item *root)
{
    struct page_node *node = node_of(root);

    if (!root || --root->refs > 0)
        return;
    for (unsigned i = PAGES_FANOUT; i-- > 0;) {
        struct pool_item *child = node->child[i];

        if (!child)
            continue;
        if (node->level > 0)
            pages_release(from, child);
        else if (--child->refs == 0)
            pool_give(from->pool, from->chunk, child);
    }
    pool_give(from->pool, from->node, root);
}
