#include "ps/server/device.h"

#include "base/deadlines.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/server/core.h"
#include "ps/server/device_internal.h"
#include "ps/server/device_plan.h"
#include "ps/server/errors.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    STAGING_BYTES = 32 << 20, /* pinned, on the way to the store's chunks */
    ALIGN = SPACE_ALIGN
};

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- life ---------------------------------------------------------------- */

enum err device_new(struct memory_space *space, struct device **out,
                    struct fault *f)
{
    struct device *d = mem_calloc(1, sizeof(*d));
    enum err err;

    if (!d) {
        space->ops->close(space);
        return fault_set(f, ERR_NOMEM, "device: out of memory");
    }
    d->space = space;
    d->ops = space->ops;
    err = d->ops->stream_open(space, &d->stream, f);
    if (err)
        device_free(d);
    else
        *out = d;
    return err;
}

void device_free(struct device *d)
{
    if (!d)
        return;
    log_event(LOG_INFO, "device_traffic",
              "in_bytes=%" PRIu64 " out_bytes=%" PRIu64 " waits=%" PRIu64,
              d->traffic.in, d->traffic.out, d->traffic.waits);
    d->ops->stream_close(d->stream);
    device_swap_close(d);
    for (size_t i = 0; i < d->images; i++)
        device_image_free(d->image[i]);
    d->ops->free(d->space, d->sums, d->sums_bytes);
    d->ops->pinned_free(d->space, d->staging, d->staging_bytes);
    d->ops->close(d->space);
    mem_free(d->image);
    mem_free(d->table);
    mem_free(d);
}

bool device_has(const struct device *d, mlt_table table)
{
    return d && table < d->tables && d->table[table].here;
}

/* ---- what lies where ----------------------------------------------------- */

static uint64_t memory_left(struct device *d)
{
    struct space_memory m;
    struct fault f = {0};
    uint64_t left;

    if (d->ops->memory(d->space, &m, &f))
        return 0;
    left = m.limit - m.used;
    return left < m.free ? left : m.free;
}

/* Each table is a layer: its lease is its own. */
static enum err plan_tables(struct device *d, uint64_t left, struct fault *f)
{
    struct plan_entry *entry = mem_calloc(d->tables, sizeof(*entry));
    struct plan_lease *lease = mem_calloc(d->tables, sizeof(*lease));
    struct plan_memory memory = {0};
    uint32_t n = 0;
    enum err err = entry && lease ? ERR_OK : ERR_NOMEM;

    for (size_t t = 0; !err && t < d->tables; t++)
        if (d->table[t].here) {
            entry[n].bytes = d->table[t].bytes;
            lease[n] = (struct plan_lease){n, n};
            n++;
        }
    if (!err)
        err = device_plan(entry, n, lease, n, n, left, &memory);
    for (size_t t = 0, i = 0; !err && t < d->tables; t++)
        if (d->table[t].here)
            d->table[t].pinned = entry[i++].pinned;
    mem_free(entry);
    mem_free(lease);
    if (err == ERR_LIMIT)
        return fault_set(f, err,
                         "device: two buffers of the largest table take %llu "
                         "bytes, and %llu are left on the device: raise "
                         "memory.device_limit",
                         (unsigned long long)memory.pool,
                         (unsigned long long)left);
    if (err)
        return fault_set(f, err, "device: out of memory");
    return memory.pool ? device_swap_open(d, memory.pool / DEVICE_SLOTS, f)
                       : ERR_OK;
}

/* Places in an image's parts, and in the sums where all have one. */
static void place_tables(struct device *d)
{
    d->device_bytes = d->home_bytes = 0;
    for (size_t t = 0; t < d->tables; t++) {
        struct device_table *q = &d->table[t];
        uint64_t *end = q->pinned ? &d->device_bytes : &d->home_bytes;

        if (!q->here)
            continue;
        q->at = *end;
        *end += q->bytes;
    }
}

static uint64_t all_bytes(const struct device *d)
{
    uint64_t sum = 0;

    for (size_t t = 0; t < d->tables; t++)
        if (d->table[t].here)
            sum += d->table[t].bytes;
    return sum;
}

/* A place for each table's sums; where tables are swapped, for two at a time:
 * a layer's gradient is applied before the next one's comes. */
static void size_sums(struct device *d, bool swaps)
{
    uint64_t all = 0, largest = 0;

    for (size_t t = 0; t < d->tables; t++) {
        struct device_table *q = &d->table[t];

        if (!q->here)
            continue;
        q->sums = all;
        all += q->width;
        largest = q->width > largest ? q->width : largest;
    }
    d->sums_slot_bytes = swaps ? largest : 0;
    d->sums_bytes = swaps ? DEVICE_SLOTS * largest : all;
}

/* On the way to the store: a chunk at least. */
static enum err open_staging(struct mlt_ps *ps, struct fault *f)
{
    struct device *d = ps->device;

    d->staging_bytes = STAGING_BYTES;
    for (size_t t = 0; t < d->tables; t++) {
        uint64_t full = table_chunk_bytes(shape_table(&ps->shape, t));

        if (d->table[t].here && full > d->staging_bytes)
            d->staging_bytes = full;
    }
    return d->ops->pinned_alloc(d->space, d->staging_bytes,
                                (void **)&d->staging, f);
}

/* What a plan has taken: others may have use for it where it failed. */
static void undo_plan(struct device *d)
{
    device_swap_close(d);
    d->ops->free(d->space, d->sums, d->sums_bytes);
    d->ops->pinned_free(d->space, d->staging, d->staging_bytes);
    d->sums = d->staging = NULL;
}

static enum err take_for_plan(struct mlt_ps *ps, struct fault *f)
{
    struct device *d = ps->device;
    uint64_t state = all_bytes(d), left = memory_left(d);
    enum err err = open_staging(ps, f);

    if (err)
        return err;
    size_sums(d, false);
    d->swaps = state + d->sums_bytes + 2 * ALIGN > left;
    if (d->swaps)
        size_sums(d, true);
    err = d->ops->alloc(d->space, d->sums_bytes, (void **)&d->sums, f);
    for (size_t t = 0; t < d->tables; t++)
        d->table[t].pinned = d->table[t].here;
    if (!err && d->swaps)
        err = plan_tables(d, memory_left(d), f);
    place_tables(d);
    return err;
}

static enum err plan(struct mlt_ps *ps, struct fault *f)
{
    struct device *d = ps->device;
    enum err err = take_for_plan(ps, f);

    if (err)
        undo_plan(d);
    d->planned = !err;
    d->no_plan = err;
    return err;
}

/* ---- runs ---------------------------------------------------------------- */

/* The running branch's image, before the run's first lease. */
static enum err get_ready(struct mlt_ps *ps)
{
    struct device *d = ps->device;
    struct fault f = {0};
    enum err err = d->no_plan;

    if (!err && !d->planned)
        err = plan(ps, &f);
    if (!err)
        err = device_image_ready(ps, &f);
    if (err) {
        log_event(LOG_ERROR, "device", "branch=%u error=\"%s\" why=\"%s\"",
                  ps->active, err_text(err), f.text);
        return err;
    }
    d->ready = true;
    return ERR_OK;
}

void device_begin_run(struct mlt_ps *ps)
{
    struct device *d = ps->device;

    if (!d)
        return;
    d->ready = false;
    for (size_t t = 0; t < d->tables; t++)
        d->table[t].touched = false;
    memset(d->sums_taken, 0, sizeof(d->sums_taken));
    for (int i = 0; i < DEVICE_SLOTS; i++)
        d->swap.slot[i].held = false; /* by a run that failed */
}

/* ---- leases -------------------------------------------------------------- */

static struct device *device_of(struct mlt_worker *w, mlt_table table,
                                const char *call)
{
    struct device *d = w->ps->device;

    if (!device_has(d, table))
        ps_misuse("%s: table %u does not lie on a device", call, table);
    return d;
}

static unsigned char *hold(struct device *d, mlt_table table)
{
    const struct device_table *t = &d->table[table];

    return t->pinned ? d->running->at + t->at : device_swap_hold(d, (int)table);
}

int mlt_read(struct mlt_worker *w, mlt_table table, struct mlt_lease *out)
{
    struct device *d = device_of(w, table, "mlt_read");
    enum err err = d->ready ? ERR_OK : get_ready(w->ps);

    if (err)
        return (int)err;
    out->at = hold(d, table);
    out->stride = table_row_bytes(shape_table(&w->ps->shape, table));
    return out->at ? ERR_OK : ERR_LIMIT;
}

void mlt_read_done(struct mlt_worker *w, mlt_table table)
{
    struct device *d = device_of(w, table, "mlt_read_done");

    if (!d->table[table].pinned)
        device_swap_let_go(d, (int)table);
}

static int free_sums(const struct device *d)
{
    for (int i = 0; i < DEVICE_SLOTS; i++)
        if (!d->sums_taken[i])
            return i;
    return DEVICE_NONE;
}

static float *sums_of(const struct device *d, const struct device_table *t)
{
    uint64_t at =
        d->swaps ? (uint64_t)t->sums_slot * d->sums_slot_bytes : t->sums;

    return (float *)(void *)(d->sums + at);
}

int mlt_update(struct mlt_worker *w, mlt_table table, float **sums, int *add)
{
    struct device *d = device_of(w, table, "mlt_update");
    struct device_table *t = &d->table[table];
    enum err err = d->ready ? ERR_OK : get_ready(w->ps);

    if (err)
        return (int)err;
    if (!t->touched && d->swaps) {
        t->sums_slot = free_sums(d);
        if (t->sums_slot == DEVICE_NONE) {
            log_event(LOG_ERROR, "device",
                      "table=%s error=\"sums of %d tables wait already: where "
                      "tables are swapped, a clock is to compute at once "
                      "(smaller batch_size, or more memory.device_limit)\"",
                      table_name(shape_table(&w->ps->shape, table)),
                      DEVICE_SLOTS);
            return ERR_LIMIT;
        }
        d->sums_taken[t->sums_slot] = true;
    }
    *add = t->touched;
    t->touched = true;
    *sums = sums_of(d, t);
    return ERR_OK;
}

/* ---- clocks -------------------------------------------------------------- */

static enum err apply(struct mlt_worker *w, mlt_table table)
{
    struct device *d = w->ps->device;
    struct device_table *q = &d->table[table];
    const struct table *t = shape_table(&w->ps->shape, table);
    struct space_update u = {.rule = table_rule(t),
                             .type = table_value_type(t),
                             .width = table_width(t),
                             .slots = table_slots(t),
                             .params = ps_params(w),
                             .undecayed = table_undecayed(t),
                             .n = table_rows(t),
                             .rows = {.base = hold(d, table),
                                      .chunk_rows = (uint32_t)table_rows(t),
                                      .stride = table_row_bytes(t),
                                      .rows = table_rows(t)}};

    if (!u.rows.base)
        return ERR_LIMIT;
    if (d->running->branches > 1)
        ps_misuse("table %s: updated in a branch that is only read",
                  table_name(t));
    u.sum = sums_of(d, q);
    d->ops->update(d->stream, &u);
    d->running->dirty = true;
    if (!q->pinned)
        device_swap_wrote(d, (int)table);
    if (d->swaps)
        d->sums_taken[q->sums_slot] = false;
    q->touched = false;
    return ERR_OK;
}

enum err device_end_clock(struct mlt_worker *w, mlt_table table)
{
    struct device *d = w->ps->device;
    enum err err = ERR_OK;

    for (mlt_table t = 0; !err && t < d->tables; t++)
        if ((table == WORKER_ALL_TABLES || table == t) && d->table[t].touched) {
            err = apply(w, t);
            mlt_read_done(w, t);
        }
    if (table == WORKER_ALL_TABLES)
        d->swap.learned = d->swap.count > 0;
    return err;
}

/* ---- what is told -------------------------------------------------------- */

bool ps_device_stats(const struct mlt_ps *ps, struct ps_device_stats *out)
{
    const struct device *d = ps->device;
    struct space_memory m;
    struct fault f = {0};

    if (!d || d->ops->memory(d->space, &m, &f))
        return false;
    *out =
        (struct ps_device_stats){.used = m.used,
                                 .limit = m.limit < m.total ? m.limit : m.total,
                                 .in = d->traffic.in,
                                 .out = d->traffic.out,
                                 .waits = d->traffic.waits};
    return true;
}

/* ---- before the start ---------------------------------------------------- */

struct space_stream *mlt_ps_stream(struct mlt_ps *ps)
{
    return ps->device ? ps->device->stream : NULL;
}

static enum err put_table(struct mlt_ps *ps, mlt_table table, struct fault *f)
{
    const struct table *t = shape_table(&ps->shape, table);
    struct device *d = ps->device;
    size_t have = d->tables;

    if (!table_fits_device(t))
        return fault_set(f, ERR_INVAL,
                         "table %s: on a device are shared tables of 32-bit "
                         "floats, without MLT_READ_MY_WRITES",
                         table_name(t));
    if (table_rule(t)->user)
        return fault_set(f, ERR_UNSUPPORTED,
                         "table %s: update rule %s is your own, which acts in "
                         "host memory alone",
                         table_name(t), table_rule(t)->name);
    if (strcmp(table_rule(t)->name, RULE_ANY) == 0)
        return fault_set(f, ERR_UNSUPPORTED,
                         "table %s: its update rule is chosen branch by branch "
                         "(the tunable update_rule is searched), which acts in "
                         "host memory alone: pin update_rule (\"fixed\"), or "
                         "take no device",
                         table_name(t));
    if (ps->history[table])
        return fault_set(f, ERR_UNSUPPORTED,
                         "table %s: it has a history, which is kept in host "
                         "memory alone",
                         table_name(t));
    if (mem_grow((void **)&d->table, &d->tables_room, sizeof(*d->table),
                 table + 1))
        return fault_set(f, ERR_NOMEM, "device: out of memory");
    if (table >= have) {
        memset(d->table + have, 0, (table + 1 - have) * sizeof(*d->table));
        d->tables = table + 1;
    }
    d->table[table] = (struct device_table){
        .here = true,
        .bytes = aligned(table_rows(t) * table_row_bytes(t)),
        .width = aligned(table_rows(t) * table_value_bytes(t))};
    return ERR_OK;
}

int mlt_ps_on_device(struct mlt_ps *ps, mlt_table table, struct mlt_error *err)
{
    struct fault f = {0};

    if (ps->started || !ps->device || table >= shape_tables(&ps->shape))
        ps_misuse("mlt_ps_on_device: %s", ps->started   ? "after mlt_ps_start"
                                          : !ps->device ? "before mlt_ps_device"
                                                        : "no such table");
    return put_table(ps, table, &f) ? ps_give_error(err, &f) : 0;
}

int mlt_ps_device_plan(struct mlt_ps *ps, struct mlt_error *err)
{
    struct fault f = {0};

    if (ps->started || !ps->device || ps->device->planned)
        ps_misuse("mlt_ps_device_plan: after mlt_ps_start, before "
                  "mlt_ps_device, or twice");
    return plan(ps, &f) ? ps_give_error(err, &f) : 0;
}

void mlt_ps_device_close(struct mlt_ps *ps)
{
    if (ps->started)
        ps_misuse("mlt_ps_device_close: after mlt_ps_start");
    device_free(ps->device);
    ps->device = NULL;
}
