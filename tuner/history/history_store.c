#include "tuner/history/history_store.h"

#include "base/mem.h"
#include "tuner/history/history_fold.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ROOM = 1 << 20, /* bytes of addresses at least: pages that are touched
                     * alone take memory */
    DEAD_PART = 4   /* written anew once so much of it is given up */
};

/* ---- by number ----------------------------------------------------------- */

/* Branches are created in the order of their numbers. */
struct history_branch *history_find(const struct history *h, branch_id id)
{
    size_t low = 0, high = h->branches;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (h->branch[mid].branch < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < h->branches && h->branch[low].branch == id)
        return &h->branch[low];
    return NULL;
}

void history_drop_half(void *items, size_t *len, size_t item_size, size_t max,
                       uint64_t *dropped)
{
    size_t half = *len / 2;

    assert(*len <= max);
    if (*len < max)
        return;
    memmove(items, (char *)items + half * item_size, (*len - half) * item_size);
    *len -= half;
    *dropped += half;
}

void history_mark_way(struct history *h, branch_id of, bool on)
{
    struct history_branch *b;

    while ((b = history_find(h, of))) {
        b->on_way = on;
        if (b->parent >= of) /* below it in any sound journal */
            return;
        of = b->parent;
    }
}

/* ---- bytes --------------------------------------------------------------- */

static size_t points_size(size_t points)
{
    return points * sizeof(struct history_point);
}

/* Points stand at addresses that fit them. */
static size_t few_size(const struct history_branch *b)
{
    return (b->few_len + 7) / 8 * 8;
}

static size_t size_of(const struct history_branch *b)
{
    return points_size(b->capacity) + few_size(b);
}

/* @b, whose bytes are elsewhere, has them at the end of @to. */
static void put(struct history_store *to, struct history_branch *b)
{
    unsigned char *at = to->bytes + to->len;

    assert(to->bytes && to->len + size_of(b) <= to->room);
    if (b->points > 0)
        memcpy(at, b->point, points_size(b->points));
    b->point = b->points > 0 ? (struct history_point *)(void *)at : NULL;
    b->capacity = b->points;
    at += points_size(b->points);
    if (b->few)
        memcpy(at, b->few, b->few_len);
    b->few = b->few ? at : NULL;
    to->len += size_of(b);
}

/* ---- the block ----------------------------------------------------------- */

/* A block without what was given up, and with room for @more bytes. */
static enum err write_anew(struct history *h, size_t more)
{
    struct history_store *s = &h->store, old = *s;
    size_t need = old.len - old.dead + more;
    size_t room = 2 * need > ROOM ? 2 * need : ROOM;
    unsigned char *bytes = mem_reserve(room);

    if (!bytes)
        return ERR_NOMEM;
    *s = (struct history_store){.bytes = bytes, .room = room};
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].stored)
            put(s, &h->branch[i]);
    assert(s->len + more == need);
    mem_unreserve(old.bytes, old.room);
    return ERR_OK;
}

static bool make_room(struct history *h, size_t more)
{
    const struct history_store *s = &h->store;
    bool much_dead = s->dead > ROOM / 8 && s->dead > s->len / DEAD_PART;

    if (s->len + more <= s->room && !much_dead)
        return true;
    return write_anew(h, more) == ERR_OK || s->len + more <= s->room;
}

/* ---- what is freed --------------------------------------------------------
 */

static void store_one(struct history *h, struct history_branch *b)
{
    struct history_branch own = *b;

    /* Without a setting in few bytes it is tried again when that is there. */
    if (b->stored || isnan(b->freed_at_s) || !b->few ||
        !make_room(h, points_size(b->points) + few_size(b)))
        return;
    b->capacity = b->points;
    put(&h->store, b);
    b->stored = true;
    mem_free(own.point);
    mem_free(own.few);
}

void history_store_all(struct history *h)
{
    assert(h);
    if (h->branches < HISTORY_STORE_FROM)
        return;
    for (size_t i = 0; i < h->branches; i++)
        store_one(h, &h->branch[i]);
}

void history_store(struct history *h, struct history_branch *b)
{
    assert(h && b);
    if (!h->store.bytes)
        history_store_all(h);
    else
        store_one(h, b);
}

enum err history_store_take_out(struct history *h, struct history_branch *b)
{
    struct history_point *point = NULL;
    unsigned char *few = NULL;

    assert(h && b);
    if (!b->stored)
        return ERR_OK;
    point = b->points ? mem_alloc(points_size(b->points)) : NULL;
    few = mem_alloc(b->few_len);
    if ((b->points && !point) || !few) {
        mem_free(point);
        mem_free(few);
        return ERR_NOMEM;
    }
    if (b->points)
        memcpy(point, b->point, points_size(b->points));
    memcpy(few, b->few, b->few_len);
    h->store.dead += size_of(b);
    b->stored = false;
    b->point = point;
    b->capacity = b->points;
    b->few = few;
    return ERR_OK;
}

void history_store_shrunk(struct history *h, struct history_branch *b)
{
    assert(h && b && b->stored && b->points <= b->capacity);
    h->store.dead += points_size(b->capacity - b->points);
    b->capacity = b->points;
}

void history_store_release(struct history *h, struct history_branch *b)
{
    assert(h && b);
    if (b->stored) {
        h->store.dead += size_of(b);
        b->stored = false;
    } else {
        mem_free(b->point);
        mem_free(b->few);
    }
    b->point = NULL;
    b->few = NULL;
    b->points = b->capacity = 0;
}

void history_store_deinit(struct history *h)
{
    assert(h);
    mem_unreserve(h->store.bytes, h->store.room);
    h->store = (struct history_store){.bytes = NULL};
}
