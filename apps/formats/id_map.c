#include "apps/formats/id_map.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { DIRECT_FIRST = 64, DIRECT_SPARSE = 16, SLOTS_FIRST = 16 };

void id_map_deinit(struct id_map *m)
{
    mem_free(m->direct);
    mem_free(m->slot);
    mem_free(m->id);
    memset(m, 0, sizeof(*m));
}

uint64_t id_map_bytes(const struct id_map *m)
{
    return m->direct_len * sizeof(*m->direct) +
           m->slot_count * sizeof(*m->slot) + m->capacity * sizeof(*m->id);
}

static bool has_room(const struct id_map *m, uint64_t more_bytes)
{
    return m->room == 0 || id_map_bytes(m) + more_bytes <= m->room;
}

/* The slot that holds @id or, where it is absent, the free one it belongs in.
 */
static size_t probe(const struct id_map *m, int64_t id)
{
    size_t mask = m->slot_count - 1;
    size_t i = (size_t)rng_mix((uint64_t)id, 0) & mask;

    while (m->slot[i] != ID_NONE && m->id[m->slot[i]] != id)
        i = (i + 1) & mask;
    return i;
}

/* Whether the array may reach @id: it has at most so many places for each id
 * that one large id in a short file costs little. */
static bool is_near(const struct id_map *m, int64_t id)
{
    return id < ID_MAP_DIRECT_MAX &&
           (uint64_t)id < DIRECT_FIRST + DIRECT_SPARSE * (uint64_t)m->count;
}

/* The array takes over the ids in its reach. */
static enum err grow_direct(struct id_map *m, size_t need)
{
    size_t old = m->direct_len;
    size_t len = old ? old : DIRECT_FIRST;
    uint32_t *p;

    while (len < need)
        len *= 2;
    if (!has_room(m, (len - old) * sizeof(*p)))
        return ERR_LIMIT;
    p = mem_realloc(m->direct, len * sizeof(*p));
    if (!p)
        return ERR_NOMEM;
    memset(p + old, 0xff, (len - old) * sizeof(*p));
    m->direct = p;
    m->direct_len = len;
    for (size_t i = 0; m->hashed && i < m->count; i++)
        if ((uint64_t)m->id[i] >= old && (uint64_t)m->id[i] < len)
            p[m->id[i]] = (uint32_t)i;
    return ERR_OK;
}

/* Doubles the table; at most half of its slots are in use. */
static enum err grow_slots(struct id_map *m)
{
    size_t count = m->slot_count ? 2 * m->slot_count : SLOTS_FIRST;
    uint32_t *old = m->slot;
    size_t old_count = m->slot_count;
    uint32_t *slot;
    size_t i;

    if (!has_room(m, count * sizeof(*slot))) /* beside the old one */
        return ERR_LIMIT;
    slot = mem_alloc(count * sizeof(*slot));
    if (!slot)
        return ERR_NOMEM;
    memset(slot, 0xff, count * sizeof(*slot));
    m->slot = slot;
    m->slot_count = count;
    for (i = 0; i < old_count; i++) {
        if (old[i] != ID_NONE)
            slot[probe(m, m->id[old[i]])] = old[i];
    }
    mem_free(old);
    return ERR_OK;
}

static enum err append(struct id_map *m, int64_t id, uint32_t *out)
{
    if (m->count == ID_NONE)
        return ERR_LIMIT;
    if (m->count == m->capacity &&
        !has_room(m, (m->capacity + 8) * sizeof(*m->id)))
        return ERR_LIMIT;
    if (mem_grow((void **)&m->id, &m->capacity, sizeof(*m->id), m->count + 1))
        return ERR_NOMEM;
    m->id[m->count] = id;
    *out = (uint32_t)m->count++;
    return ERR_OK;
}

static enum err add_hashed(struct id_map *m, int64_t id, uint32_t *out)
{
    enum err err;
    size_t i;

    if (2 * (m->hashed + 1) > m->slot_count) {
        err = grow_slots(m);
        if (err)
            return err;
    }
    i = probe(m, id);
    if (m->slot[i] != ID_NONE) {
        *out = m->slot[i];
        return ERR_OK;
    }
    err = append(m, id, out);
    if (err)
        return err;
    m->slot[i] = *out;
    m->hashed++;
    return ERR_OK;
}

enum err id_map_add(struct id_map *m, int64_t id, uint32_t *out)
{
    enum err err;

    assert(id >= 0);
    if ((uint64_t)id >= m->direct_len) {
        if (!is_near(m, id))
            return add_hashed(m, id, out);
        err = grow_direct(m, (size_t)id + 1);
        if (err)
            return err;
    }
    if (m->direct[id] == ID_NONE) {
        err = append(m, id, &m->direct[id]);
        if (err)
            return err;
    }
    *out = m->direct[id];
    return ERR_OK;
}

uint32_t id_map_find(const struct id_map *m, int64_t id)
{
    if (id < 0)
        return ID_NONE;
    if ((uint64_t)id < m->direct_len)
        return m->direct[id];
    return m->slot_count ? m->slot[probe(m, id)] : ID_NONE;
}

enum err id_map_init(struct id_map *m, const int64_t ids[], size_t n)
{
    struct id_map made = {0};
    enum err err = ERR_OK;
    uint32_t number;
    size_t i;

    for (i = 0; i < n && !err; i++) {
        err = ids[i] < 0 ? ERR_INVAL : id_map_add(&made, ids[i], &number);
        if (!err && number != i)
            err = ERR_EXIST;
    }
    if (err) {
        id_map_deinit(&made);
        return err;
    }
    *m = made;
    return ERR_OK;
}
