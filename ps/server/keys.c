#include "ps/server/keys.h"

#include "base/mem.h"
#include "mltune/ps.h"
#include "ps/nodes/shard.h"
#include "ps/server/stripe.h"
#include "ps/server/view.h"

#include <assert.h>
#include <string.h>

enum {
    KEYS_LOCKS = 1024,
    GROUP = 16 /* keys that are on their way from memory at one time */
};

struct key_lock {
    _Alignas(WORKER_LINE_BYTES) struct stripe stripe;
};

/* Rows of a worker's part: the first `given` have a key. */
struct key_part {
    uint64_t first, count;
    _Atomic uint64_t given;
};

struct keys {
    struct keys_place place;
    struct key_index index;
    struct key_lock *lock; /* owned [KEYS_LOCKS] */
    uint64_t *taken; /* owned; bits of rows that have a key beside those; NULL:
                      * none */
    struct key_part *part;     /* owned [workers of the node] */
    uint64_t first, count;     /* rows of the node */
    const struct table *table; /* borrowed */
};

uint64_t keys_bytes(const struct keys_place *place, const struct table *t)
{
    uint64_t first, count;

    shard_part(t, place->nodes, place->workers, place->node, &first, &count);
    return key_index_bytes(count) + sizeof(struct keys) +
           KEYS_LOCKS * sizeof(struct key_lock) +
           place->workers * sizeof(struct key_part) + count / 8;
}

enum err keys_new(const struct keys_place *place, const struct table *t,
                  struct keys **out)
{
    struct keys *k = mem_calloc(1, sizeof(*k));

    assert(table_has_keys(t));
    if (!k)
        return ERR_NOMEM;
    k->place = *place;
    k->table = t;
    shard_part(t, place->nodes, place->workers, place->node, &k->first,
               &k->count);
    k->lock = mem_aligned(WORKER_LINE_BYTES, KEYS_LOCKS * sizeof(*k->lock));
    k->part = mem_calloc(place->workers, sizeof(*k->part));
    if (!k->lock || !k->part || key_index_init(&k->index, k->count)) {
        keys_free(k);
        return ERR_NOMEM;
    }
    memset(k->lock, 0, KEYS_LOCKS * sizeof(*k->lock));
    for (unsigned i = 0; i < place->workers; i++)
        table_part(t, place->nodes * place->workers,
                   place->node * place->workers + i, &k->part[i].first,
                   &k->part[i].count);
    *out = k;
    return ERR_OK;
}

void keys_free(struct keys *k)
{
    if (!k)
        return;
    key_index_deinit(&k->index);
    mem_free(k->lock);
    mem_free(k->part);
    mem_free(k->taken);
    mem_free(k);
}

/* The node whose keys @key is among. */
static uint32_t keys_node(const struct keys *k, uint64_t key)
{
    return (uint32_t)key_share(key_hash(key), k->place.nodes);
}

/* ---- rows that are given ------------------------------------------------- */

static bool is_taken(const struct keys *k, uint64_t row)
{
    uint64_t at = row - k->first;

    return k->taken && (k->taken[at / 64] >> (at % 64) & 1);
}

/* The first row from @row on that no file of training state has given: 64 are
 * looked at at once, for a state may have given nearly all. The bits end with
 * one of no row. */
static uint64_t next_free(const struct keys *k, uint64_t row)
{
    uint64_t at = row - k->first, free;

    if (!k->taken)
        return row;
    while (!(free = ~k->taken[at / 64] >> (at % 64)))
        at = (at | 63) + 1;
    return k->first + at + (unsigned)__builtin_ctzll(free);
}

static bool take_of_part(struct keys *k, struct key_part *p, uint64_t *row)
{
    uint64_t given = atomic_load_explicit(&p->given, memory_order_relaxed);

    while (given < p->count) {
        uint64_t at = next_free(k, p->first + given) - p->first;
        uint64_t next = at < p->count ? at + 1 : p->count;

        if (!atomic_compare_exchange_weak_explicit(&p->given, &given, next,
                                                   memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        *row = p->first + at;
        return at < p->count;
    }
    return false;
}

/* The part that the hash names has its share of all keys: parts differ in size.
 * Its bits are others than those of nodes and segments. */
static unsigned part_of(const struct keys *k, uint64_t hash)
{
    uint64_t row = k->first + key_share(hash * 0x9e3779b97f4a7c15u, k->count);

    return table_owner(k->table, k->place.nodes * k->place.workers, row) -
           k->place.node * k->place.workers;
}

static bool take_row(struct keys *k, uint64_t hash, uint64_t *row)
{
    unsigned workers = k->place.workers, at;

    if (k->count == 0)
        return false;
    at = part_of(k, hash);
    for (unsigned i = 0; i < workers; i++)
        if (take_of_part(k, &k->part[(at + i) % workers], row))
            return true;
    return false;
}

/* ---- keys ---------------------------------------------------------------- */

static enum err add_key(struct keys *k, uint64_t key, uint64_t hash,
                        uint64_t *row)
{
    enum err err = key_index_reserve(&k->index, hash);

    if (!err && !take_row(k, hash, row))
        err = ERR_LIMIT;
    if (!err)
        key_index_add(&k->index, key, hash, *row);
    return err;
}

static enum err take_one(struct keys *k, bool add, uint64_t key, uint64_t hash,
                         uint64_t *row)
{
    uint64_t segment = key_index_segment(&k->index, hash);
    struct stripe *lock = &k->lock[segment % KEYS_LOCKS].stripe;
    enum err err = ERR_OK;

    stripe_lock(lock);
    if (!key_index_find(&k->index, key, hash, row)) {
        if (add)
            err = add_key(k, key, hash, row);
        if (!add || err)
            *row = MLT_NO_ROW;
    }
    stripe_unlock(lock);
    return err;
}

enum err keys_take(struct keys *k, bool add, size_t n, const uint64_t key[],
                   uint64_t row[])
{
    uint64_t hash[GROUP];
    enum err first = ERR_OK;
    size_t now;

    for (size_t done = 0; done < n; done += now) {
        now = n - done < GROUP ? n - done : GROUP;
        for (size_t i = 0; i < now; i++) {
            hash[i] = key_hash(key[done + i]);
            key_index_prefetch_segment(&k->index, hash[i]);
        }
        for (size_t i = 0; i < now; i++)
            key_index_prefetch(&k->index, hash[i]);
        for (size_t i = 0; i < now; i++) {
            enum err err =
                take_one(k, add, key[done + i], hash[i], &row[done + i]);

            first = first ? first : err;
        }
    }
    return first;
}

uint64_t keys_count(const struct keys *k)
{
    return key_index_count(&k->index);
}

/* ---- files of training state --------------------------------------------- */

uint64_t keys_segments(const struct keys *k)
{
    return k->index.segments;
}

/* It may grow while room is made. */
enum err keys_copy(struct keys *k, uint64_t segment, struct key_entry **out,
                   size_t *room, size_t *n)
{
    struct stripe *lock = &k->lock[segment % KEYS_LOCKS].stripe;

    assert(segment < k->index.segments);
    for (;;) {
        stripe_lock(lock);
        *n = key_index_used(&k->index, segment);
        if (*n <= *room)
            break;
        stripe_unlock(lock);
        if (mem_grow((void **)out, room, sizeof(**out), *n) != 0)
            return ERR_NOMEM;
    }
    key_index_copy(&k->index, segment, *out);
    stripe_unlock(lock);
    return ERR_OK;
}

static bool has_key(const struct keys *k, uint64_t row)
{
    for (unsigned i = 0; i < k->place.workers; i++) {
        const struct key_part *p = &k->part[i];

        if (row - p->first < p->count)
            return row - p->first < atomic_load(&p->given) || is_taken(k, row);
    }
    return true; /* it is none of this node's */
}

bool keys_may_put(const struct keys *k, uint64_t key, uint64_t row)
{
    uint64_t has;

    if (key_index_find(&k->index, key, key_hash(key), &has))
        return has == row;
    return keys_node(k, key) == k->place.node && !has_key(k, row);
}

/* Some thread may copy what was there, for a checkpoint: the lock is for it. */
static enum err put_locked(struct keys *k, uint64_t key, uint64_t hash,
                           uint64_t row)
{
    struct stripe *lock =
        &k->lock[key_index_segment(&k->index, hash) % KEYS_LOCKS].stripe;
    enum err err;

    stripe_lock(lock);
    err = key_index_reserve(&k->index, hash);
    if (!err)
        key_index_add(&k->index, key, hash, row);
    stripe_unlock(lock);
    return err;
}

enum err keys_put(struct keys *k, uint64_t key, uint64_t row)
{
    uint64_t hash = key_hash(key), at = row - k->first, has;
    enum err err;

    if (!keys_may_put(k, key, row))
        return ERR_EXIST;
    if (key_index_find(&k->index, key, hash, &has))
        return ERR_OK;
    if (!k->taken)
        k->taken = mem_calloc(k->count / 64 + 1, sizeof(*k->taken));
    err = k->taken ? put_locked(k, key, hash, row) : ERR_NOMEM;
    if (!err)
        k->taken[at / 64] |= (uint64_t)1 << (at % 64);
    return err;
}
