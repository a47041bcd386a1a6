#include "branches/store.h"
#include "branches/store_internal.h"

#include <assert.h>
#include <string.h>

/* ---- statistics ---------------------------------------------------------- */

/* Chunks below @item that nobody reaches but through it. */
static uint64_t count_private(const struct pool_item *item)
{
    const struct page_node *node = (const struct page_node *)item;
    uint64_t n = 0;

    if (!item || item->refs > 1)
        return 0;
    for (unsigned i = 0; i < PAGES_FANOUT; i++) {
        const struct pool_item *child = node->child[i];

        if (node->level > 0)
            n += count_private(child);
        else
            n += child && child->refs == 1;
    }
    return n;
}

static uint64_t chunks_in_use(const struct store *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->pool.classes; i++)
        n += s->pool.class[i].block_bytes ? s->pool.class[i].used : 0;
    return n;
}

static uint64_t block_bytes(const struct store *s, size_t table)
{
    return s->pool.class[s->table[table].from.chunk].block_bytes;
}

/* All chunks but the initial ones, which a store has once it has started. */
static uint64_t held_once(const struct store *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->pool.classes; i++)
        n += s->pool.class[i].block_bytes * s->pool.class[i].used;
    for (size_t t = 0; t < s->tables && s->started; t++)
        n -= block_bytes(s, t);
    return n;
}

void store_stats(const struct store *s, struct store_stats *out)
{
    *out = (struct store_stats){
        .limit_bytes = s->limit_bytes,
        .reserved_bytes =
            s->started ? s->fixed_bytes + s->units * s->unit_bytes : 0,
        .in_use_bytes = pool_used_bytes(&s->pool),
        .held_bytes = held_once(s),
        .pool_bytes = s->pool.bytes,
        .chunks_in_use = chunks_in_use(s),
        .chunks_copied = s->chunks_copied,
        .bytes_copied = s->bytes_copied,
        .forks = s->forks,
        .branches = s->branches,
    };
    for (const struct version *v = s->versions; v; v = v->next) {
        for (size_t t = 0; t < s->tables && version_private(v); t++)
            out->chunks_private += count_private(v->root[t]);
    }
    out->chunks_shared = out->chunks_in_use - out->chunks_private;
}

/* Chunks below @item; @own: nobody else reaches it. */
static void count_held(const struct pool_item *item, bool own, uint64_t *shared,
                       uint64_t *private)
{
    const struct page_node *node = (const struct page_node *)item;

    own = own && item->refs == 1;
    for (unsigned i = 0; i < PAGES_FANOUT; i++) {
        const struct pool_item *child = node->child[i];

        if (!child)
            continue;
        if (node->level > 0)
            count_held(child, own, shared, private);
        else if (own && child->refs == 1)
            ++*private;
        else
            ++*shared;
    }
}

struct store_held store_held(const struct store *s, branch_id id)
{
    const struct branch_slot *slot = store_slot(s, id);
    struct store_held held = {0};

    for (size_t t = 0; slot && t < s->tables; t++) {
        const struct version *v = slot->version;
        uint64_t shared = 0, private = 0;

        if (v->root[t])
            count_held(v->root[t], version_private(v), &shared, &private);
        held.shared_bytes += shared * block_bytes(s, t);
        held.private_bytes += private * block_bytes(s, t);
    }
    return held;
}

/* ---- recounting ---------------------------------------------------------- */

/* Counts @item as referred to once more; true the first time. */
static bool see(struct pool_item *item)
{
    return item->seen++ == 0;
}

static void see_tree(struct pool_item *item, uint64_t *nodes, uint64_t *chunks)
{
    struct page_node *node = (struct page_node *)item;

    if (!item || !see(item))
        return;
    ++*nodes;
    for (unsigned i = 0; i < PAGES_FANOUT; i++) {
        if (!node->child[i])
            continue;
        if (node->level > 0)
            see_tree(node->child[i], nodes, chunks);
        else
            *chunks += see(node->child[i]);
    }
}

/* Asserts what see_tree counted and sets the counts back. */
static void check_tree(struct pool_item *item)
{
    struct page_node *node = (struct page_node *)item;

    if (!item || item->seen == 0)
        return;
    assert(item->refs == item->seen);
    item->seen = 0;
    for (unsigned i = 0; i < PAGES_FANOUT; i++) {
        struct pool_item *child = node->child[i];

        if (child && node->level > 0)
            check_tree(child);
        if (child && node->level == 0 && child->seen > 0) {
            assert(child->refs == child->seen);
            child->seen = 0;
        }
    }
}

/* Checks what the branches say about their versions. */
static void check_branches(const struct store *s)
{
    uint64_t branches = 0, units = 0;

    for (size_t i = 0; i < STORE_BRANCHES_MAX; i++) {
        const struct branch_slot *slot = &s->slot[i];

        assert((slot->version == NULL) ==
               (atomic_load(&slot->id) == BRANCH_NONE));
        if (!slot->version)
            continue;
        branches++;
        units += slot->type != BRANCH_KEPT;
        see(&slot->version->item);
    }
    for (struct version *v = s->versions; v; v = v->next) {
        assert(v->item.refs == v->item.seen);
        assert(v->item.refs == v->writers + v->keepers);
        v->item.seen = 0;
        units += v->keepers > 0;
    }
    assert(branches == s->branches);
    assert(units == s->units && units <= s->capacity);
}

static void check_trees(const struct store *s)
{
    uint64_t versions = 0, nodes = 0, chunks = s->tables;

    for (struct version *v = s->versions; v; v = v->next) {
        versions++;
        for (size_t t = 0; t < s->tables; t++)
            see_tree(v->root[t], &nodes, &chunks);
    }
    for (struct version *v = s->versions; v; v = v->next)
        for (size_t t = 0; t < s->tables; t++)
            check_tree(v->root[t]);
    assert(versions == s->pool.class[s->version_class].used);
    assert(nodes == s->pool.class[s->node_class].used);
    assert(chunks == chunks_in_use(s));
}

/* Is chunk @c of the tree reached by this branch alone? */
static bool path_private(const struct version *v, size_t table, uint64_t c)
{
    const struct pool_item *item = v->root[table];

    if (!version_private(v) || !item || item->refs > 1)
        return false;
    for (unsigned level = ((const struct page_node *)item)->level + 1;
         level-- > 0;) {
        const struct page_node *node = (const struct page_node *)item;

        item = node->child[(c >> (level * PAGES_FANOUT_BITS)) &
                           (PAGES_FANOUT - 1)];
        if (!item || item->refs > 1)
            return false;
    }
    return true;
}

static void check_map(const struct store *s, size_t table)
{
    const struct stored_table *t = &s->table[table];
    const struct version *v = s->active->version;

    for (uint64_t c = 0; c < t->map.chunks; c++) {
        const struct pool_block *block = pages_find(v->root[table], c);
        bool own = store_map_owns(&t->map, c);

        assert(atomic_load(&t->map.chunk[c]) ==
               (block ? block : t->initial)->bytes);
        assert(!own ||
               (s->active->type != BRANCH_KEPT && path_private(v, table, c)));
        assert(!own || (t->owns && s->owns));
        assert(t->spare_dirty || !atomic_load(&t->spare[c / 64]));
    }
}

void store_check(const struct store *s)
{
    uint64_t fixed = 0;

    pool_check(&s->pool);
    if (!s->started)
        return;
    check_branches(s);
    check_trees(s);
    for (size_t t = 0; t < s->tables; t++) {
        fixed += pool_class_bytes(&s->pool, s->table[t].from.chunk);
        if (s->active)
            check_map(s, t);
    }
    assert(fixed == s->fixed_bytes);
    assert(pool_used_bytes(&s->pool) <= fixed + s->units * s->unit_bytes);
    assert(s->pool.bytes <= s->limit_bytes);
}
