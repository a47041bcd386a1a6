/* Images of branches: to and from the store, shared, copied, moved out. */
#include "base/deadlines.h"
#include "base/mem.h"
#include "ps/server/core.h"
#include "ps/server/device_internal.h"
#include "ps/server/device_plan.h"
#include "ps/server/errors.h"

#include <assert.h>
#include <string.h>

void device_image_free(struct device_image *m)
{
    struct device *d = m->device;

    d->ops->free(d->space, m->at, d->device_bytes);
    d->ops->pinned_free(d->space, m->home, d->home_bytes);
    mem_free(m);
}

/* ---- the store's rows ---------------------------------------------------- */

/* A table's rows in the store of the one worker, chunk after chunk, as they
 * stand in an image. */
struct image_walk {
    const struct mlt_ps *ps;
    struct device_image *image;
    bool to_store;
};

static void move_chunk(const struct image_walk *w, branch_id branch,
                       mlt_table t, uint64_t c, unsigned char *at, size_t bytes)
{
    struct store *store = ps_store(w->ps, 0);

    if (!w->to_store) {
        memcpy(at, store_chunk(store, branch, t, c), bytes);
        return;
    }
    memcpy(store_chunk_write(store, branch, t, c), at, bytes);
    if (branch == w->ps->active)
        atomic_store_explicit(
            &w->ps->chunk[t][c],
            (unsigned char *)(uintptr_t)store_chunk(store, branch, t, c),
            memory_order_release);
}

/* The branches whose rows are in the image: all get them, or the first gives
 * them, for they are equal. */
static void move_chunks(const struct image_walk *w, mlt_table t, uint64_t first,
                        uint64_t count, unsigned char *at)
{
    const struct table *table = shape_table(&w->ps->shape, t);
    uint64_t full = table_chunk_bytes(table);
    uint64_t end = table_rows(table) * table_row_bytes(table);

    for (size_t i = 0; i < w->ps->branches; i++) {
        const struct branch_entry *b = &w->ps->branch[i];

        if (b->image != w->image)
            continue;
        for (uint64_t c = first; c < first + count; c++) {
            uint64_t left = end - c * full;

            move_chunk(w, b->id, t, c, at + (c - first) * full,
                       left < full ? left : full);
        }
        if (!w->to_store)
            return;
    }
}

/* Pieces of whole chunks through the staging memory. */
static enum err move_pinned(const struct image_walk *w, mlt_table t)
{
    struct device *d = w->image->device;
    const struct table *table = shape_table(&w->ps->shape, t);
    uint64_t full = table_chunk_bytes(table);
    uint64_t step = d->staging_bytes / full, chunks = table_chunks(table);
    uint64_t end = d->table[t].bytes;
    struct fault f = {0};
    enum err err = ERR_OK;

    for (uint64_t c = 0; !err && c < chunks; c += step) {
        uint64_t count = chunks - c < step ? chunks - c : step;
        uint64_t bytes =
            end - c * full < count * full ? end - c * full : count * full;
        unsigned char *at = w->image->at + d->table[t].at + c * full;

        if (w->to_store)
            d->ops->copy(d->stream, d->staging, at, bytes, SPACE_TO_HOST);
        else
            move_chunks(w, t, c, count, d->staging);
        if (!w->to_store)
            d->ops->copy(d->stream, at, d->staging, bytes, SPACE_FROM_HOST);
        err = d->ops->stream_sync(d->stream, DEADLINE_DEVICE_MS, &f);
        if (!err && w->to_store)
            move_chunks(w, t, c, count, d->staging);
        d->traffic.in += w->to_store ? 0 : bytes;
        d->traffic.out += w->to_store ? bytes : 0;
    }
    return err;
}

static enum err move_image(const struct image_walk *w)
{
    struct device *d = w->image->device;
    enum err err = ERR_OK;

    if (d->swaps && w->image == d->running)
        err = device_swap_flush(d);
    for (size_t t = 0; !err && t < d->tables; t++) {
        if (!d->table[t].here)
            continue;
        if (d->table[t].pinned)
            err = move_pinned(w, (mlt_table)t);
        else
            move_chunks(w, (mlt_table)t, 0,
                        table_chunks(shape_table(&w->ps->shape, t)),
                        w->image->home + d->table[t].at);
    }
    if (!err)
        w->image->dirty = false;
    return err;
}

/* ---- branches ------------------------------------------------------------ */

void device_share(struct device_image *image)
{
    if (image)
        image->branches++;
}

void device_release(struct device_image *image)
{
    if (!image)
        return;
    assert(image->branches > 0);
    if (--image->branches == 0)
        image->dirty = false;
}

static enum err write_back(const struct mlt_ps *ps, struct device_image *m)
{
    return m && m->dirty
               ? move_image(&(struct image_walk){ps, m, .to_store = true})
               : ERR_OK;
}

enum err device_flush(const struct mlt_ps *ps, branch_id branch)
{
    const struct branch_entry *b = forks_find(ps, branch);

    return b ? write_back(ps, b->image) : ERR_OK;
}

/* No branch but @keep has the image any more. */
static void take_away(struct mlt_ps *ps, struct device_image *m, branch_id keep)
{
    for (size_t i = 0; i < ps->branches; i++)
        if (ps->branch[i].image == m && ps->branch[i].id != keep) {
            ps->branch[i].image = NULL;
            device_release(m);
        }
}

enum err device_forget(struct mlt_ps *ps, branch_id branch)
{
    enum err err = device_flush(ps, branch);

    for (size_t i = 0; !err && i < ps->branches; i++)
        if (ps->branch[i].id == branch && ps->branch[i].image) {
            device_release(ps->branch[i].image);
            ps->branch[i].image = NULL;
        }
    return err;
}

/* ---- images -------------------------------------------------------------- */

static struct device_image *idle_image(const struct device *d)
{
    for (size_t i = 0; i < d->images; i++)
        if (d->image[i]->branches == 0)
            return d->image[i];
    return NULL;
}

/* Errors: ERR_LIMIT: no room for one more. */
static enum err more_room(struct device *d, struct device_image **out,
                          struct fault *f)
{
    struct device_image *m;
    enum err err = ERR_OK;

    if (d->swaps && d->images > 0)
        return fault_set(f, ERR_LIMIT, "device: it holds one branch");
    if (mem_grow((void **)&d->image, &d->images_room, sizeof(*d->image),
                 d->images + 1))
        return ERR_NOMEM;
    m = mem_calloc(1, sizeof(*m));
    if (!m)
        return ERR_NOMEM;
    m->device = d;
    if (d->device_bytes)
        err = d->ops->alloc(d->space, d->device_bytes, (void **)&m->at, f);
    if (!err && d->home_bytes)
        err =
            d->ops->pinned_alloc(d->space, d->home_bytes, (void **)&m->home, f);
    if (err) {
        device_image_free(m);
        return err;
    }
    d->image[d->images++] = m;
    *out = m;
    return ERR_OK;
}

/* The least recently scheduled moves out. @stays (may be NULL) is wanted. */
static enum err move_out(struct mlt_ps *ps, const struct device_image *stays,
                         struct device_image **out)
{
    struct device *d = ps->device;
    struct plan_branch *b = mem_calloc(d->images + 1, sizeof(*b));
    size_t victim;
    enum err err;

    if (!b)
        return ERR_NOMEM;
    for (size_t i = 0; i < d->images; i++)
        b[i] = (struct plan_branch){.scheduled = d->image[i]->scheduled,
                                    .stays = d->image[i] == stays};
    victim = device_plan_victim(b, d->images);
    mem_free(b);
    if (victim == d->images)
        return ERR_LIMIT;
    err = write_back(ps, d->image[victim]);
    if (err)
        return err;
    take_away(ps, d->image[victim], BRANCH_NONE);
    *out = d->image[victim];
    return ERR_OK;
}

static enum err take_image(struct mlt_ps *ps, const struct device_image *stays,
                           struct device_image **out, struct fault *f)
{
    enum err err;

    *out = idle_image(ps->device);
    if (*out)
        return ERR_OK;
    err = more_room(ps->device, out, f);
    return err == ERR_LIMIT ? move_out(ps, stays, out) : err;
}

static struct branch_entry *running_branch(struct mlt_ps *ps)
{
    for (size_t i = 0; i < ps->branches; i++)
        if (ps->branch[i].id == ps->active)
            return &ps->branch[i];
    ps_misuse("a lease without an active branch");
}

/* From the store. */
static enum err bring_in(struct mlt_ps *ps, struct branch_entry *b,
                         struct fault *f)
{
    struct device_image *m;
    enum err err = take_image(ps, NULL, &m, f);

    if (err)
        return err;
    b->image = m;
    m->branches = 1;
    err = move_image(&(struct image_walk){ps, m, .to_store = false});
    if (err) {
        b->image = NULL;
        m->branches = 0;
    }
    return err;
}

/* A copy for @b alone; where there is no room for one, the others lose it. */
static enum err make_own(struct mlt_ps *ps, struct branch_entry *b,
                         struct fault *f)
{
    struct device *d = ps->device;
    struct device_image *old = b->image, *own;
    enum err err = take_image(ps, old, &own, f);

    if (err == ERR_LIMIT) {
        err = write_back(ps, old);
        if (!err)
            take_away(ps, old, b->id);
        return err;
    }
    if (err)
        return err;
    d->ops->copy(d->stream, own->at, old->at, d->device_bytes, SPACE_WITHIN);
    own->branches = 1;
    own->dirty = old->dirty;
    b->image = own;
    device_release(old);
    return ERR_OK;
}

static bool trains(enum branch_type type)
{
    return type != BRANCH_KEPT && type != BRANCH_TESTING;
}

enum err device_image_ready(struct mlt_ps *ps, struct fault *f)
{
    struct device *d = ps->device;
    struct branch_entry *b = running_branch(ps);
    enum err err = b->image ? ERR_OK : bring_in(ps, b, f);

    if (!err && b->image->branches > 1 && trains(ps->active_type))
        err = make_own(ps, b, f);
    if (err)
        return err;
    d->running = b->image;
    d->running->scheduled = ++d->slices;
    return ERR_OK;
}
