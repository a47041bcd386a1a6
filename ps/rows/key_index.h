/* Key index: 64-bit keys of a table, and the row that each has. Append-only.
 *
 * Where a key has got its row it keeps it for good: a row's number may be
 * remembered by anybody, and all branches share one index, for what differs
 * between them is what lies in the row.
 *
 * A fixed number of segments, by the key's hash, so many that each has at most
 * some 2,000 keys when the index is full. A segment is a table with linear
 * probing of 12 bytes an entry, which grows alone, by a fifth, before more than
 * four fifths of it are used: 15 to 18 bytes a key, and no growth is longer
 * than some 10 microseconds, whatever the size of the index.
 *
 * Of each segment one owner at a time: the caller locks (key_index_segment
 * tells what). key_index_prefetch alone may be called without. Pure.
 */
#ifndef PS_KEY_INDEX_H
#define PS_KEY_INDEX_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Rows are below it. */
#define KEY_INDEX_ROWS_MAX ((uint64_t)UINT32_MAX)

struct key_entry {
    uint32_t row; /* the row's number and 1; 0: there is no key */
    uint32_t low, high;
};

struct key_segment {
    _Atomic(struct key_entry *) entry; /* owned [room] */
    _Atomic uint32_t room;
    uint32_t used;
};

struct key_index {
    struct key_segment *segment; /* owned */
    uint64_t segments;
};

/* The key's hash, well spread in all its bits (Appleby 2011, MurmurHash3's
 * finaliser): a bijection. */
static inline uint64_t key_hash(uint64_t key)
{
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
    return key ^ key >> 33;
}

/* Which of @n has the key of that hash: of nodes, of parts of a table. Of keys
 * that fall to one of them, segments and entries are as well spread as of all.
 */
static inline uint64_t key_share(uint64_t hash, uint64_t n)
{
    hash *= 0x9e3779b97f4a7c15u;
    return (uint64_t)((unsigned __int128)hash * n >> 64);
}

/* Empty, for @keys keys (more are taken, and make segments longer).
 * Errors: ERR_NOMEM. */
enum err key_index_init(struct key_index *k, uint64_t keys);
void key_index_deinit(struct key_index *k);

/* Bytes that it takes with so many keys, at most. */
uint64_t key_index_bytes(uint64_t keys);

/* The segment of a key by its hash, below k->segments. */
static inline uint64_t key_index_segment(const struct key_index *k,
                                         uint64_t hash)
{
    return (hash >> 32) * k->segments >> 32;
}

/* Gets a segment, and then where a key begins to be looked for, into the cache;
 * the second after the first has come. */
static inline void key_index_prefetch_segment(const struct key_index *k,
                                              uint64_t hash)
{
    __builtin_prefetch(&k->segment[key_index_segment(k, hash)]);
}

static inline void key_index_prefetch(const struct key_index *k, uint64_t hash)
{
    const struct key_segment *s = &k->segment[key_index_segment(k, hash)];
    const struct key_entry *at =
        atomic_load_explicit(&s->entry, memory_order_relaxed);
    uint64_t room = atomic_load_explicit(&s->room, memory_order_relaxed);

    if (at) /* a segment's first entries may just be made */
        __builtin_prefetch(&at[(uint64_t)(uint32_t)hash * room >> 32]);
}

/* The row of @key, whose hash is @hash. False: it has none. */
bool key_index_find(const struct key_index *k, uint64_t key, uint64_t hash,
                    uint64_t *row);

/* Room for one more key of that hash: what key_index_add needs. Errors:
 * ERR_NOMEM; nothing changed. */
enum err key_index_reserve(struct key_index *k, uint64_t hash);

/* Gives @key, which has none, row @row < KEY_INDEX_ROWS_MAX. */
void key_index_add(struct key_index *k, uint64_t key, uint64_t hash,
                   uint64_t row);

/* Keys that it has. No segment has an owner meanwhile. Cost: one step for each
 * 2,000. */
uint64_t key_index_count(const struct key_index *k);

/* Keys of segment @segment; all of them, in no order, as they lie there. */
uint32_t key_index_used(const struct key_index *k, uint64_t segment);
void key_index_copy(const struct key_index *k, uint64_t segment,
                    struct key_entry out[]);

static inline uint64_t key_entry_key(const struct key_entry *e)
{
    return (uint64_t)e->high << 32 | e->low;
}

#endif
