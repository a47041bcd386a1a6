#include "ps/rows/key_index.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum {
    SEGMENT_KEYS = 2048, /* of a full index, on average */
    ROOM_FIRST = 16
};

enum err key_index_init(struct key_index *k, uint64_t keys)
{
    k->segments = keys / SEGMENT_KEYS + 1;
    k->segment = mem_calloc(k->segments, sizeof(*k->segment));
    assert(k->segments <= UINT32_MAX);
    return k->segment ? ERR_OK : ERR_NOMEM;
}

static struct key_entry *entries(const struct key_segment *s)
{
    return atomic_load_explicit(&s->entry, memory_order_relaxed);
}

static uint32_t room_of(const struct key_segment *s)
{
    return atomic_load_explicit(&s->room, memory_order_relaxed);
}

void key_index_deinit(struct key_index *k)
{
    for (uint64_t i = 0; k->segment && i < k->segments; i++)
        mem_free(entries(&k->segment[i]));
    mem_free(k->segment);
    memset(k, 0, sizeof(*k));
}

static uint64_t room_after(uint64_t room)
{
    return room ? room + room / 5 + 4 : ROOM_FIRST;
}

static bool is_full(uint64_t used, uint64_t room)
{
    return (used + 1) * 5 > room * 4;
}

/* A segment with u keys has grown for the last time when it had r entries and
 * at least 4/5 r - 1 keys: it has at most 1.2 r + 4, r <= 5/4 (u + 1). */
uint64_t key_index_bytes(uint64_t keys)
{
    uint64_t segments = keys / SEGMENT_KEYS + 1;

    return keys * 3 / 2 * sizeof(struct key_entry) +
           segments * (sizeof(struct key_segment) +
                       ROOM_FIRST * sizeof(struct key_entry));
}

/* The entry that has @key or, if none has, the free one where it would be. */
static struct key_entry *look(struct key_entry *entry, uint32_t room,
                              uint64_t key, uint64_t hash)
{
    uint32_t i = (uint32_t)((uint64_t)(uint32_t)hash * room >> 32);

    while (entry[i].row && key_entry_key(&entry[i]) != key)
        if (++i == room)
            i = 0;
    return &entry[i];
}

bool key_index_find(const struct key_index *k, uint64_t key, uint64_t hash,
                    uint64_t *row)
{
    const struct key_segment *s = &k->segment[key_index_segment(k, hash)];
    const struct key_entry *e;

    if (!s->used)
        return false;
    e = look(entries(s), room_of(s), key, hash);
    if (!e->row)
        return false;
    *row = e->row - 1;
    return true;
}

enum err key_index_reserve(struct key_index *k, uint64_t hash)
{
    struct key_segment *s = &k->segment[key_index_segment(k, hash)];
    struct key_entry *old = entries(s), *entry;
    uint32_t was = room_of(s);
    uint64_t room = room_after(was);

    if (!is_full(s->used, was))
        return ERR_OK;
    if (room > UINT32_MAX)
        return ERR_NOMEM;
    entry = mem_calloc(room, sizeof(*entry));
    if (!entry)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < was; i++)
        if (old[i].row) {
            uint64_t key = key_entry_key(&old[i]);

            *look(entry, (uint32_t)room, key, key_hash(key)) = old[i];
        }
    atomic_store_explicit(&s->entry, entry, memory_order_relaxed);
    atomic_store_explicit(&s->room, (uint32_t)room, memory_order_relaxed);
    mem_free(old);
    return ERR_OK;
}

void key_index_add(struct key_index *k, uint64_t key, uint64_t hash,
                   uint64_t row)
{
    struct key_segment *s = &k->segment[key_index_segment(k, hash)];
    struct key_entry *e;

    assert(row < KEY_INDEX_ROWS_MAX);
    assert(!is_full(s->used, room_of(s)));
    e = look(entries(s), room_of(s), key, hash);
    assert(!e->row);
    *e = (struct key_entry){
        .row = (uint32_t)(row + 1),
        .low = (uint32_t)key,
        .high = (uint32_t)(key >> 32),
    };
    s->used++;
}

uint64_t key_index_count(const struct key_index *k)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < k->segments; i++)
        n += k->segment[i].used;
    return n;
}

uint32_t key_index_used(const struct key_index *k, uint64_t segment)
{
    assert(segment < k->segments);
    return k->segment[segment].used;
}

void key_index_copy(const struct key_index *k, uint64_t segment,
                    struct key_entry out[])
{
    const struct key_segment *s = &k->segment[segment];
    const struct key_entry *entry = entries(s);
    uint32_t n = 0;

    for (uint32_t i = 0; i < room_of(s); i++)
        if (entry[i].row)
            out[n++] = entry[i];
    assert(n == s->used);
}
