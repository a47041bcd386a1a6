#include "ps/server/versions.h"

#include "base/log.h"
#include "base/mem.h"
#include "ps/server/apply.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"

#include "mltune/history.h"

#include <assert.h>
#include <string.h>

/* Values of a row in all versions above `older->tag` (0) up to `tag`. */
struct copy {
    struct copy *older;
    uint64_t tag;
    _Alignas(double) unsigned char values[];
};

struct row_versions {
    struct copy *newest; /* tags fall along the chain */
    uint64_t tag;        /* versions up to here find their values in it */
    bool changed;        /* since the newest was made */
};

struct held {
    uint64_t version, references;
};

struct versions {
    uint64_t rows, cap_bytes, copy_bytes;
    uint32_t value_bytes;
    struct row_versions *row; /* [rows] each under its stripe */

    _Atomic uint64_t latest;  /* version, 0: none; written under `lock` */
    _Atomic uint64_t changes; /* so often rows may have changed */
    _Atomic uint64_t lost;    /* versions up to here lack a row */
    _Atomic uint64_t bytes, copies;

    struct stripe lock;
    struct held *held; /* [helds] by version; the last is the latest */
    size_t helds, helds_room;
    uint64_t changes_then; /* when the latest was taken */
    uint64_t suspended;
};

/* Of a table of @rows rows of @value_bytes. */
static enum err versions_new(uint64_t rows, uint32_t value_bytes,
                             uint64_t cap_bytes, struct versions **out)
{
    struct versions *h = mem_calloc(1, sizeof(*h));

    assert(rows > 0 && value_bytes > 0);
    if (!h)
        return ERR_NOMEM;
    h->rows = rows;
    h->value_bytes = value_bytes;
    h->copy_bytes = value_bytes + (uint64_t)MLT_HISTORY_ROW_BYTES;
    h->cap_bytes = cap_bytes;
    h->row = mem_reserve(rows * sizeof(*h->row));
    if (!h->row) {
        mem_free(h);
        return ERR_NOMEM;
    }
    *out = h;
    return ERR_OK;
}

static void drop_copy(struct versions *h, struct copy *c)
{
    mem_free(c);
    atomic_fetch_sub_explicit(&h->bytes, h->copy_bytes, memory_order_relaxed);
}

/* Pages of the index that nobody wrote are left alone. */
static void drop_rows(struct versions *h)
{
    for (uint64_t i = 0; i < h->rows; i++) {
        struct row_versions *r = &h->row[i];

        for (struct copy *c = r->newest, *older; c; c = older) {
            older = c->older;
            drop_copy(h, c);
        }
        if (r->tag || r->changed)
            *r = (struct row_versions){0};
    }
    assert(atomic_load(&h->bytes) == 0);
}

void versions_reset(struct versions *h)
{
    if (!h || !atomic_load(&h->latest))
        return;
    drop_rows(h);
    atomic_store(&h->latest, 0);
    atomic_store(&h->lost, 0);
    atomic_store(&h->copies, 0);
    h->helds = 0;
    h->suspended = 0;
}

void versions_free(struct versions *h)
{
    if (!h)
        return;
    drop_rows(h);
    mem_unreserve(h->row, h->rows * sizeof(*h->row));
    mem_free(h->held);
    mem_free(h);
}

/* ---- which versions there are (under the lock) --------------------------- */

/* The first that is at least @version, or helds. */
static size_t find_held(const struct versions *h, uint64_t version)
{
    size_t low = 0, high = h->helds;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (h->held[middle].version < version)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry of a version that somebody has a reference to, or helds. */
static size_t find_referred(const struct versions *h, uint64_t version)
{
    size_t i = find_held(h, version);

    return i < h->helds && h->held[i].version == version &&
                   h->held[i].references > 0
               ? i
               : h->helds;
}

static void forget_held(struct versions *h, size_t i)
{
    h->helds--;
    memmove(h->held + i, h->held + i + 1, (h->helds - i) * sizeof(*h->held));
}

/* ---- rows (under the stripe) --------------------------------------------- */

/* Frees the copies that no version needs. */
static void prune(struct versions *h, struct row_versions *r)
{
    struct copy **at = &r->newest;

    stripe_lock(&h->lock);
    while (*at) {
        struct copy *c = *at;
        uint64_t above = c->older ? c->older->tag : 0;
        size_t i = find_held(h, above + 1);

        if (i < h->helds && h->held[i].version <= c->tag) {
            at = &c->older;
        } else {
            *at = c->older;
            drop_copy(h, c);
        }
    }
    stripe_unlock(&h->lock);
}

/* A copy for all versions since the last one; NULL: no memory. */
static struct copy *add_copy(struct versions *h, struct row_versions *r,
                             uint64_t latest, const void *values)
{
    struct copy *c = mem_alloc(sizeof(*c) + h->value_bytes);

    if (!c)
        return NULL;
    prune(h, r);
    c->older = r->newest;
    c->tag = latest;
    memcpy(c->values, values, h->value_bytes);
    r->newest = c;
    r->tag = latest;
    r->changed = false;
    atomic_fetch_add_explicit(&h->bytes, h->copy_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->copies, 1, memory_order_relaxed);
    return c;
}

/* Values for all versions up to @latest: of a row that is as it was copied,
 * that copy, unless it was freed and an older one is the newest. */
static struct copy *cover(struct versions *h, struct row_versions *r,
                          uint64_t latest, const void *values)
{
    if (!r->newest || r->changed || r->newest->tag != r->tag)
        return add_copy(h, r, latest, values);
    r->newest->tag = r->tag = latest;
    return r->newest;
}

void versions_before(struct versions *h, uint64_t row, const void *values)
{
    uint64_t latest = atomic_load(&h->latest), lost;
    struct row_versions *r = &h->row[row];
    bool done;

    assert(row < h->rows);
    if (!latest) /* no version was taken: the index is left alone */
        return;
    done = r->tag >= latest || cover(h, r, latest, values);
    r->changed = true;
    if (done)
        return;
    r->tag = latest;
    lost = atomic_load(&h->lost);
    while (lost < latest &&
           !atomic_compare_exchange_weak(&h->lost, &lost, latest))
        ;
}

void versions_changed(struct versions *h)
{
    atomic_fetch_add(&h->changes, 1);
}

/* The row in @version, which is held; @values: as it is now. */
static enum err row_at(struct versions *h, uint64_t row, uint64_t version,
                       const void *values, const void **out)
{
    struct row_versions *r = &h->row[row];
    struct copy *found = NULL;

    for (struct copy *c = r->newest; c && c->tag >= version; c = c->older)
        found = c;
    if (!found && r->tag < version)
        found = cover(h, r, atomic_load(&h->latest), values);
    if (!found)
        return ERR_NOMEM;
    *out = found->values;
    return ERR_OK;
}

/* ---- for workers --------------------------------------------------------- */

static struct versions *versions_of(const struct mlt_worker *w, mlt_table table)
{
    if (table >= shape_tables(&view_server(w)->shape))
        ps_misuse("history: there is no table %u", table);
    return view_of_worker(w, table)->history;
}

static bool has_room(const struct versions *h)
{
    return atomic_load(&h->bytes) + h->rows * h->copy_bytes <= h->cap_bytes;
}

/* Frees copies until there is room; the latest version is given up for that
 * where nobody holds it, unless it is the one to be taken. */
static void prune_all(struct mlt_worker *w, mlt_table table, struct versions *h)
{
    stripe_lock(&h->lock);
    if (h->helds && !h->held[h->helds - 1].references &&
        h->changes_then != atomic_load(&h->changes))
        h->helds--;
    stripe_unlock(&h->lock);
    for (uint64_t i = 0; i < h->rows && !has_room(h); i++) {
        struct stripe *stripe = apply_stripe(view_server(w), table, i);

        stripe_lock(stripe);
        if (h->row[i].newest)
            prune(h, &h->row[i]);
        stripe_unlock(stripe);
    }
}

/* The last of them is also held for whoever takes it next: rows are copied for
 * it with or without a reference.
 *
 * Makes a version, unless nothing has changed or there is no room: what is
 * copied until the next one is at most each row once. Under the lock. */
static enum err make(struct versions *h)
{
    uint64_t changes = atomic_load(&h->changes);

    if (h->helds && h->changes_then == changes)
        return ERR_OK;
    if (h->helds && !has_room(h)) {
        h->suspended++;
        return ERR_OK;
    }
    if (h->helds && !h->held[h->helds - 1].references)
        h->helds--;
    if (mem_grow((void **)&h->held, &h->helds_room, sizeof(*h->held),
                 h->helds + 1) != 0)
        return ERR_NOMEM;
    h->changes_then = changes;
    atomic_fetch_add(&h->latest, 1);
    h->held[h->helds++] = (struct held){.version = atomic_load(&h->latest)};
    return ERR_OK;
}

int mlt_take_version(struct mlt_worker *w, mlt_table table, uint64_t *version)
{
    struct versions *h = versions_of(w, table);
    size_t held;
    bool first; /* that is suspended in this run: it is said once */
    enum err err;

    if (!h)
        return ERR_UNSUPPORTED;
    if (!has_room(h))
        prune_all(w, table, h);
    stripe_lock(&h->lock);
    first = !h->suspended;
    err = make(h);
    if (!err) {
        h->held[h->helds - 1].references++;
        *version = h->held[h->helds - 1].version;
    }
    first &= h->suspended > 0;
    held = h->helds;
    stripe_unlock(&h->lock);
    if (first)
        log_event(LOG_WARN, "history_suspended",
                  "table=%s cap_bytes=%llu versions_held=%zu",
                  table_name(view_of_worker(w, table)->table),
                  (unsigned long long)h->cap_bytes, held);
    return err;
}

int mlt_release_version(struct mlt_worker *w, mlt_table table, uint64_t version)
{
    struct versions *h = versions_of(w, table);
    enum err err = ERR_NOENT;
    size_t i;

    if (!h)
        return ERR_UNSUPPORTED;
    stripe_lock(&h->lock);
    i = find_referred(h, version);
    if (i < h->helds) {
        err = ERR_OK;
        if (--h->held[i].references == 0 && i + 1 < h->helds)
            forget_held(h, i);
    }
    stripe_unlock(&h->lock);
    return err;
}

int mlt_get_row_at(struct mlt_worker *w, mlt_table table, uint64_t version,
                   uint64_t row, const void **out)
{
    struct versions *h = versions_of(w, table);
    struct stripe *stripe;
    bool held;
    enum err err;

    if (!h)
        return ERR_UNSUPPORTED;
    if (row >= h->rows)
        ps_misuse("mlt_get_row_at: table %s has no row %llu",
                  table_name(view_of_worker(w, table)->table),
                  (unsigned long long)row);
    stripe = apply_stripe(view_server(w), table, row);
    stripe_lock(stripe);
    stripe_lock(&h->lock);
    held = find_referred(h, version) < h->helds;
    stripe_unlock(&h->lock);
    err = !held ? ERR_NOENT
          : version <= atomic_load(&h->lost)
              ? ERR_NOMEM
              : row_at(h, row, version, view_row(view_of_worker(w, table), row),
                       out);
    stripe_unlock(stripe);
    return err;
}

/* ---- for the program ----------------------------------------------------- */

static enum err add_versions(struct mlt_ps *ps, mlt_table table,
                             uint64_t cap_bytes, struct fault *f)
{
    const struct table *t = shape_table(&ps->shape, table);
    uint64_t least = table_rows(t) *
                     ((uint64_t)table_value_bytes(t) + MLT_HISTORY_ROW_BYTES);

    if (table_is_local(t) || table_is_exclusive(t))
        return fault_set(f, ERR_INVAL,
                         "history of table %s: expected a shared table",
                         table_name(t));
    if (table_has_own_clock(t) || device_has(ps->device, table))
        return fault_set(f, ERR_UNSUPPORTED,
                         "history of table %s: not of a table whose clock ends "
                         "early, nor of one on a device",
                         table_name(t));
    if (ps_nodes(ps) > 1)
        return fault_set(f, ERR_UNSUPPORTED,
                         "history of table %s: it is kept in one process, and "
                         "there are %u nodes",
                         table_name(t), ps_nodes(ps));
    if (ps->history[table])
        return fault_set(f, ERR_EXIST, "history of table %s: declared twice",
                         table_name(t));
    if (cap_bytes < least)
        return fault_set(f, ERR_LIMIT,
                         "history of table %s: expected a cap of at least %llu "
                         "bytes, a copy of each row, found %llu",
                         table_name(t), (unsigned long long)least,
                         (unsigned long long)cap_bytes);
    if (versions_new(table_rows(t), table_value_bytes(t), cap_bytes,
                     &ps->history[table]))
        return fault_set(f, ERR_NOMEM, "history of table %s: out of memory",
                         table_name(t));
    return ERR_OK;
}

int mlt_ps_history(struct mlt_ps *ps, mlt_table table, uint64_t cap_bytes,
                   struct mlt_error *err)
{
    struct fault f = {0};

    if (ps->started || table >= shape_tables(&ps->shape))
        ps_misuse("mlt_ps_history: %s",
                  ps->started ? "after mlt_ps_start" : "no such table");
    return add_versions(ps, table, cap_bytes, &f) ? ps_give_error(err, &f)
                                                  : ERR_OK;
}

int mlt_ps_history_stats(const struct mlt_ps *ps, mlt_table table,
                         struct mlt_history_stats *out)
{
    struct versions *h;

    assert(table < shape_tables(&ps->shape));
    if (out->size != sizeof(*out))
        return ERR_VERSION;
    *out = (struct mlt_history_stats){.size = sizeof(*out)};
    h = ps->history[table];
    if (!h)
        return ERR_OK;
    stripe_lock(&h->lock);
    out->versions = h->helds;
    out->suspended = h->suspended;
    stripe_unlock(&h->lock);
    out->bytes = atomic_load(&h->bytes);
    out->cap_bytes = h->cap_bytes;
    out->taken = atomic_load(&h->latest);
    out->copies = atomic_load(&h->copies);
    return ERR_OK;
}
