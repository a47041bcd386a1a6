#include "base/mem.h"
#include "branches/store.h"
#include "branches/store_internal.h"

#include <assert.h>
#include <string.h>

/* ---- arrays -------------------------------------------------------------- */

/* Words that hold a bit a chunk. */
static uint64_t words_of(uint64_t chunks)
{
    return (chunks + 63) / 64;
}

enum err map_arrays_new(uint64_t chunks, struct map_arrays *out)
{
    *out = (struct map_arrays){NULL, NULL, NULL};
    if (chunks == 0)
        return ERR_OK;
    out->chunk = mem_calloc(chunks, sizeof(*out->chunk));
    out->own = mem_calloc(words_of(chunks), sizeof(*out->own));
    out->spare = mem_calloc(words_of(chunks), sizeof(*out->spare));
    if (out->chunk && out->own && out->spare)
        return ERR_OK;
    map_arrays_free(out);
    return ERR_NOMEM;
}

void map_arrays_free(struct map_arrays *arrays)
{
    mem_free(arrays->chunk);
    mem_free(arrays->own);
    mem_free(arrays->spare);
    *arrays = (struct map_arrays){NULL, NULL, NULL};
}

static void set_chunk(struct store_map *map, uint64_t c, unsigned char *bytes)
{
    atomic_store_explicit(&map->chunk[c], bytes, memory_order_release);
}

/* One thread writes bits, others may read them. */
static void set_own(struct store_map *map, uint64_t c, bool own)
{
    uint64_t bit = (uint64_t)1 << (c % 64);
    uint64_t word =
        atomic_load_explicit(&map->own[c / 64], memory_order_relaxed);

    atomic_store_explicit(&map->own[c / 64], own ? word | bit : word & ~bit,
                          memory_order_release);
}

/* Bits may be set from now on: the array that the last fork put aside has to be
 * clean before the next one. */
static void will_own(struct store *s, struct stored_table *t)
{
    if (t->spare_dirty)
        memset((void *)t->spare, 0,
               words_of(t->map.chunks) * sizeof(*t->spare));
    t->spare_dirty = false;
    t->owns = s->owns = true;
}

void map_disown(struct store *s)
{
    if (!s->owns)
        return;
    for (size_t i = 0; i < s->tables; i++) {
        struct stored_table *t = &s->table[i];
        _Atomic uint64_t *dirty = t->map.own;

        if (!t->owns)
            continue;
        assert(!t->spare_dirty);
        t->map.own = t->spare;
        t->spare = dirty;
        t->spare_dirty = true;
        t->owns = false;
    }
    s->owns = false;
}

static void set_initial(struct stored_table *t, uint64_t first, uint64_t end)
{
    for (uint64_t c = first; c < end; c++)
        set_chunk(&t->map, c, t->initial->bytes);
}

void map_reset(struct stored_table *t)
{
    set_initial(t, 0, t->map.chunks);
}

/* ---- activation ---------------------------------------------------------- */

/* Where the branch that was active refers to the same node as the new one, the
 * map is right already, and its flags are 0 since the node is shared. */
struct refill {
    struct store *store;
    struct stored_table *table;
    bool writes; /* the branch may write */
};

static uint64_t span_of(unsigned level)
{
    return (uint64_t)1 << ((level + 1) * PAGES_FANOUT_BITS);
}

static void refill_chunk(const struct refill *r, uint64_t c,
                         const struct pool_item *item, bool own)
{
    struct store_map *map = &r->table->map;
    const struct pool_block *block = (const struct pool_block *)item;

    if (!block)
        block = r->table->initial;
    set_chunk(map, c, block->bytes);
    own = own && item && item->refs == 1;
    if (own && !r->table->owns)
        will_own(r->store, r->table);
    set_own(map, c, own);
}

/* Nothing was written below: chunks @first .. @first + span - 1. */
static void refill_initial(const struct refill *r, uint64_t first,
                           uint64_t span)
{
    uint64_t end = r->table->map.chunks;

    if (span < end - first)
        end = first + span;
    set_initial(r->table, first, end);
    for (uint64_t c = first; c < end; c++)
        set_own(&r->table->map, c, false);
}

/* Maps what is below @item, the node of @level at chunk @first; @old is what is
 * mapped there now (NULL: not known, or nothing written), @own that the path
 * down to here is the branch's own. */
static void refill_node(const struct refill *r, const struct pool_item *item,
                        const struct pool_item *old, unsigned level,
                        uint64_t first, bool own)
{
    const struct page_node *node = (const struct page_node *)item;
    const struct page_node *was = (const struct page_node *)old;
    uint64_t step = level > 0 ? span_of(level - 1) : 1;

    if (!item) {
        refill_initial(r, first, span_of(level));
        return;
    }
    if (item == old)
        return;
    own = own && item->refs == 1;
    for (unsigned i = 0; i < PAGES_FANOUT; i++, first += step) {
        if (first >= r->table->map.chunks)
            return;
        if (level > 0)
            refill_node(r, node->child[i], was ? was->child[i] : NULL,
                        level - 1, first, own);
        else
            refill_chunk(r, first, node->child[i], own);
    }
}

static void refill(const struct refill *r, const struct pool_item *root,
                   const struct pool_item *old, bool own)
{
    unsigned level = r->table->level;

    assert(!root || ((const struct page_node *)root)->level == level);
    refill_node(r, root, old, level, 0, own);
}

enum err store_activate(struct store *s, branch_id id)
{
    struct branch_slot *slot = store_slot(s, id);
    const struct version *old = s->active ? s->active->version : NULL;
    struct version *v;
    bool own;

    if (!slot)
        return ERR_NOENT;
    v = slot->version;
    own = version_private(v) && slot->type != BRANCH_KEPT;
    for (size_t i = 0; i < s->tables && v != old; i++) {
        struct refill r = {s, &s->table[i], own};

        if (!old || old->root[i] != v->root[i])
            refill(&r, v->root[i], old ? old->root[i] : NULL, own);
    }
    s->active = slot;
    return ERR_OK;
}

const struct store_map *store_map(const struct store *s, store_table table)
{
    assert(table < s->tables);
    return &s->table[table].map;
}

/* ---- writing ------------------------------------------------------------- */

/* The version that @slot alone refers to: its own, or a copy of the shared
 * one. */
static struct version *own_version(struct store *s, struct branch_slot *slot)
{
    struct version *old = slot->version, *v;

    if (version_private(old))
        return old;
    v = version_new(s);
    for (size_t t = 0; t < s->tables; t++) {
        v->root[t] = old->root[t];
        if (v->root[t])
            v->root[t]->refs++;
    }
    version_join(v, slot->type);
    old->writers--; /* the unit that the branch pays goes with it */
    old->item.refs--;
    slot->version = v;
    return v;
}

/* The chunk at *@at, private to the caller: a copy where it is shared. */
static struct pool_block *
own_chunk(struct store *s, const struct stored_table *t, struct pool_item **at)
{
    struct pool_block *old = *at ? (struct pool_block *)*at : t->initial;
    struct pool_block *block;

    if (*at && old->item.refs == 1)
        return old;
    block = (struct pool_block *)pool_take(&s->pool, t->from.chunk);
    memcpy(block->bytes, old->bytes, t->chunk_bytes);
    if (*at)
        old->item.refs--;
    *at = &block->item;
    s->chunks_copied++;
    s->bytes_copied += t->chunk_bytes;
    return block;
}

static unsigned char *slot_privatize(struct store *s, struct branch_slot *slot,
                                     store_table table, uint64_t c)
{
    struct stored_table *t = &s->table[table];
    struct pool_block *block;
    struct version *v;

    assert(slot->type != BRANCH_KEPT);
    assert(table < s->tables && c < t->map.chunks);
    v = own_version(s, slot);
    block = own_chunk(s, t, pages_own(&t->from, &v->root[table], t->level, c));
    if (slot == s->active) {
        if (!t->owns)
            will_own(s, t);
        set_chunk(&t->map, c, block->bytes);
        set_own(&t->map, c, true);
    }
    return block->bytes;
}

unsigned char *store_privatize(struct store *s, store_table table, uint64_t c)
{
    assert(s->active != NULL);
    return slot_privatize(s, s->active, table, c);
}

unsigned char *store_chunk_write(struct store *s, branch_id id,
                                 store_table table, uint64_t c)
{
    struct branch_slot *slot = store_slot(s, id);

    assert(slot != NULL);
    return slot_privatize(s, slot, table, c);
}
