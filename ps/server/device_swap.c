/* Tables that do not fit the device: two buffers, one in use while the next
 * table comes and the last one goes, each in a stream of its own. The order in
 * which a clock leases them is learned in the first (Cui et al. 2016, GeePS,
 * sections 4.3.1 and 4.3.4); where it is another one, tables come later, and
 * nothing else is different. */
#include "base/deadlines.h"
#include "base/mem.h"
#include "ps/server/device_internal.h"

#include <assert.h>
#include <string.h>

static enum err open_slot(struct device *d, struct device_slot *s,
                          uint64_t bytes, struct fault *f)
{
    enum err err = d->ops->alloc(d->space, bytes, (void **)&s->at, f);

    s->table = DEVICE_NONE;
    if (!err)
        err = d->ops->event_open(d->space, &s->loaded, f);
    if (!err)
        err = d->ops->event_open(d->space, &s->used, f);
    if (!err)
        err = d->ops->event_open(d->space, &s->saved, f);
    return err;
}

enum err device_swap_open(struct device *d, uint64_t bytes, struct fault *f)
{
    struct device_swap *w = &d->swap;
    enum err err = d->ops->stream_open(d->space, &w->in, f);

    w->slot_bytes = bytes;
    if (!err)
        err = d->ops->stream_open(d->space, &w->out, f);
    for (int i = 0; i < DEVICE_SLOTS && !err; i++)
        err = open_slot(d, &w->slot[i], bytes, f);
    return err;
}

void device_swap_close(struct device *d)
{
    struct device_swap *w = &d->swap;

    d->ops->stream_close(w->in);
    d->ops->stream_close(w->out);
    for (int i = 0; i < DEVICE_SLOTS; i++) {
        struct device_slot *s = &w->slot[i];

        if (s->loaded)
            d->ops->event_close(s->loaded);
        if (s->used)
            d->ops->event_close(s->used);
        if (s->saved)
            d->ops->event_close(s->saved);
        d->ops->free(d->space, s->at, w->slot_bytes);
    }
    mem_free(w->order);
    memset(w, 0, sizeof(*w));
}

static struct device_slot *slot_of(struct device *d, int t)
{
    for (int i = 0; i < DEVICE_SLOTS; i++)
        if (d->swap.slot[i].table == t)
            return &d->swap.slot[i];
    return NULL;
}

static void save(struct device *d, struct device_slot *s)
{
    const struct device_table *t = &d->table[s->table];

    d->ops->event_wait(d->swap.out, s->used);
    d->ops->copy(d->swap.out, d->running->home + t->at, s->at, t->bytes,
                 SPACE_TO_HOST);
    d->ops->event_record(d->swap.out, s->saved);
    s->dirty = false;
    d->traffic.out += t->bytes;
}

/* A table may have been saved from the other buffer a moment ago, so both must
 * have been. */
static void load(struct device *d, struct device_slot *s, int t)
{
    struct device_swap *w = &d->swap;

    assert(!s->held);
    if (s->dirty)
        save(d, s);
    d->ops->event_wait(w->in, s->used);
    for (int i = 0; i < DEVICE_SLOTS; i++)
        d->ops->event_wait(w->in, w->slot[i].saved);
    d->ops->copy(w->in, s->at, d->running->home + d->table[t].at,
                 d->table[t].bytes, SPACE_FROM_HOST);
    d->ops->event_record(w->in, s->loaded);
    s->table = t;
    d->traffic.in += d->table[t].bytes;
}

/* A buffer that nobody holds, other than @keep; an empty one first. */
static struct device_slot *free_slot(struct device *d,
                                     const struct device_slot *keep)
{
    struct device_slot *best = NULL;

    for (int i = 0; i < DEVICE_SLOTS; i++) {
        struct device_slot *s = &d->swap.slot[i];

        if (!s->held && s != keep && (!best || s->table == DEVICE_NONE))
            best = s;
    }
    return best;
}

/* ---- the order ----------------------------------------------------------- */

/* Without memory for it, it is not learned. */
static void note(struct device_swap *w, int t)
{
    if (w->learned ||
        mem_grow((void **)&w->order, &w->room, sizeof(*w->order), w->count + 1))
        return;
    w->order[w->count++] = t;
}

/* Where the lease of @t is in the order, from the place expected on. */
static void find_place(struct device_swap *w, int t)
{
    for (size_t i = 0; w->learned && i < w->count; i++) {
        size_t at = (w->next + i) % w->count;

        if (w->order[at] == t) {
            w->next = (at + 1) % w->count;
            return;
        }
    }
}

/* Brings the next table, or where that is here the one after it. */
static void bring_next(struct device *d)
{
    struct device_swap *w = &d->swap;
    struct device_slot *keep = NULL;

    for (size_t i = 0; w->learned && i < w->count; i++) {
        int t = w->order[(w->next + i) % w->count];
        struct device_slot *s = slot_of(d, t);

        if (s) {
            if (keep && keep != s)
                return;
            keep = s;
            continue;
        }
        s = free_slot(d, keep);
        if (s)
            load(d, s, t);
        return;
    }
}

/* ---- leases -------------------------------------------------------------- */

unsigned char *device_swap_hold(struct device *d, int t)
{
    struct device_slot *s = slot_of(d, t);

    if (s && s->held)
        return s->at;
    note(&d->swap, t);
    find_place(&d->swap, t);
    if (!s) {
        s = free_slot(d, NULL);
        if (!s)
            return NULL;
        load(d, s, t);
        d->traffic.waits++;
    }
    s->held = true;
    d->ops->event_wait(d->stream, s->loaded);
    bring_next(d);
    return s->at;
}

void device_swap_let_go(struct device *d, int t)
{
    struct device_slot *s = slot_of(d, t);

    if (!s || !s->held)
        return;
    s->held = false;
    d->ops->event_record(d->stream, s->used);
    bring_next(d);
}

void device_swap_wrote(struct device *d, int t)
{
    struct device_slot *s = slot_of(d, t);

    assert(s && s->held);
    s->dirty = true;
}

enum err device_swap_flush(struct device *d)
{
    struct fault f = {0};
    enum err err;

    if (!d->swap.out) /* all tables are pinned */
        return ERR_OK;
    for (int i = 0; i < DEVICE_SLOTS; i++) {
        struct device_slot *s = &d->swap.slot[i];

        if (s->dirty)
            save(d, s);
    }
    err = d->ops->stream_sync(d->swap.out, DEADLINE_DEVICE_MS, &f);
    if (!err)
        err = d->ops->stream_sync(d->swap.in, DEADLINE_DEVICE_MS, &f);
    for (int i = 0; i < DEVICE_SLOTS; i++) {
        d->swap.slot[i].table = DEVICE_NONE;
        d->swap.slot[i].held = false;
    }
    return err;
}
