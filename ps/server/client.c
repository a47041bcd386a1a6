/* Calls of an application in a worker's thread. */
#include "base/mem.h"
#include "ps/server/apply.h"
#include "ps/server/clock.h"
#include "ps/server/core.h"
#include "ps/server/errors.h"
#include "ps/server/lend.h"
#include "ps/server/runtime.h"

#include <assert.h>
#include <string.h>

enum {
    PREFETCH_BYTES_MAX = 512, /* of one row */
    PREFETCH_LINES_MAX = 40,  /* of a batch of rows to be read */
    GROUP = 8                 /* rows a rule works on while others come */
};

#define LIKELY(x) __builtin_expect(!!(x), 1)

static _Noreturn void bad_row(const struct mlt_worker *w, mlt_table table,
                              uint64_t row)
{
    if (table >= w->ps->shape.tables)
        ps_misuse("table %u: there are %zu tables", table, w->ps->shape.tables);
    ps_misuse("table %s: row %llu is out of range (%llu rows) or not the "
              "worker's own",
              w->view[table].table->name, (unsigned long long)row,
              (unsigned long long)w->view[table].rows);
}

static _Noreturn void bad_access(const struct worker_view *v, const char *call)
{
    static const char *const access[] = {"shared", "exclusive", "local"};

    ps_misuse("%s: not for table %s, which is %s", call, v->table->name,
              v->on_device ? "on a device" : access[v->table->access]);
}

static inline struct worker_view *view_of(struct mlt_worker *w, mlt_table table,
                                          uint64_t row)
{
#ifdef MLT_DEBUG
    if (runtime_self() != w)
        ps_misuse("worker %u: its handle is used by another thread", w->number);
#endif
    if (!LIKELY(table < w->ps->shape.tables && row < w->view[table].rows))
        bad_row(w, table, row);
#ifdef MLT_DEBUG
    if (w->guard)
        w->guard->check(w->guard, table, row);
#endif
    return &w->view[table];
}

unsigned mlt_worker_index(const struct mlt_worker *w)
{
    return w->number;
}

unsigned mlt_worker_count(const struct mlt_worker *w)
{
    return w->ps->shape.all_workers;
}

/* ---- reading ------------------------------------------------------------- */

/* A row of an exclusive table in a branch that trains. The caller's own rows
 * are made private when they are first read, because they are about to be
 * updated: so the pointer is the row's place before and after an update, in a
 * fresh fork as in a branch that has run for long. */
static inline unsigned char *exclusive_row(struct mlt_worker *w,
                                           struct worker_view *v, uint64_t row)
{
    if (LIKELY(row - v->first < v->count))
        return view_write(w, v, row, &w->counters);
    return view_row(v, row);
}

/* Under the models without barriers: the worker's copy of the row, taken anew
 * when the one there is holds less than a read at this clock needs. */
static const void *copied_row(struct mlt_worker *w, struct worker_view *v,
                              uint64_t row)
{
    uint64_t slot;

    if (v->asked < 0 && clock_wait_read(w, v) != 0)
        return NULL;
    slot = slots_take(&v->slots, row);
    if (v->held[slot] < v->needs) {
        apply_read(w, v, row, slot);
        v->held[slot] = v->holds;
    }
    return v->copy + slot * v->value_bytes;
}

/* The row as the others see it plus the worker's own updates of this clock. */
static const void *row_with_mine(struct worker_view *v, uint64_t row,
                                 const void *shared)
{
    uint64_t number = view_number(v, row);
    unsigned char *mine =
        v->mine + slots_take(&v->slots, number) * v->value_bytes;

    memcpy(mine, shared, v->value_bytes);
    if (update_has(&v->update, number))
        rule_accumulate(v->table->type, v->table->width, mine,
                        update_row(&v->update, number));
    return mine;
}

/* Rows that are not simply read where they are. */
static const void *other_row(struct mlt_worker *w, struct worker_view *v,
                             uint64_t row)
{
    struct peers *peers = w->ps->peers;
    const void *p;

    if (v->table->access == MLT_LOCAL || v->on_device)
        bad_access(v, "mlt_get_row");
    if (peers) {
        if (peers->ops->get_rows(peers, w, v, 1, &row, &p) != ERR_OK)
            return NULL;
        return v->mine ? row_with_mine(v, row, p) : p;
    }
    if (v->table->access == MLT_EXCLUSIVE)
        return exclusive_row(w, v, row);
    p = v->copy ? copied_row(w, v, row) : view_row(v, row);
    if (p && v->mine)
        p = row_with_mine(v, row, p);
    return p;
}

const void *mlt_get_row(struct mlt_worker *w, mlt_table table, uint64_t row)
{
    struct worker_view *v = view_of(w, table, row);

    if (LIKELY(v->in_place))
        return view_row(v, row);
    return other_row(w, v, row);
}

/* Batches. What the loops need is read before them: the loads of atomics within
 * would have it read again for each row. */

static void find_rows(struct mlt_worker *w, const struct worker_view *v,
                      size_t n, const uint64_t rows[], const void *out[])
{
    chunk_slot *const chunk = v->chunk;
    const uint64_t count = v->rows, mask = v->row_mask, stride = v->stride;
    const uint32_t shift = v->row_shift;

    for (size_t i = 0; i < n; i++) {
        if (!LIKELY(rows[i] < count))
            bad_row(w, v->index, rows[i]);
        out[i] = atomic_load_explicit(&chunk[rows[i] >> shift],
                                      memory_order_acquire) +
                 (rows[i] & mask) * stride;
    }
}

/* The caller's own rows for writing; others are an error, or with @others read
 * where they are. */
static inline void find_own_rows(struct mlt_worker *w, struct worker_view *v,
                                 size_t n, const uint64_t rows[], void *out[],
                                 bool others)
{
    const struct store_map map = *v->map;
    const uint64_t first = v->first, count = v->count, mask = v->row_mask;

    for (size_t i = 0; i < n; i++) {
        uint64_t local = rows[i] - first, c = local >> map.row_shift;
        unsigned char *chunk;

        if (!LIKELY(local < count)) {
            if (!others || rows[i] >= v->rows)
                bad_row(w, v->index, rows[i]);
            out[i] = view_row(v, rows[i]);
            continue;
        }
        if (LIKELY(store_map_owns(&map, c)))
            chunk = atomic_load_explicit(&map.chunk[c], memory_order_relaxed);
        else
            chunk = view_privatize(w, v, c, &w->counters);
        out[i] = chunk + (local & mask) * map.stride;
    }
}

static inline void prefetch(const void *row, uint32_t bytes, bool for_write)
{
    const char *p = row;

    for (uint32_t i = 0; i < bytes && i < PREFETCH_BYTES_MAX;
         i += WORKER_LINE_BYTES)
        if (for_write)
            __builtin_prefetch(p + i, 1);
        else
            __builtin_prefetch(p + i, 0);
}

/* The values, which are about to be read; and the slots too where all are few
 * enough lines for a processor to have on their way at one time: of more it
 * drops some. */
static void prefetch_batch(const struct worker_view *v, size_t n,
                           const void *const row[])
{
    bool few = n * v->stride <= (size_t)PREFETCH_LINES_MAX * WORKER_LINE_BYTES;
    uint32_t bytes = few ? v->stride : v->value_bytes;

    for (size_t i = 0; i < n; i++)
        prefetch(row[i], bytes, false);
}

int mlt_get_rows(struct mlt_worker *w, mlt_table table, size_t n,
                 const uint64_t rows[], const void *out[])
{
    struct worker_view *v = view_of(w, table, 0);
    struct peers *peers = w->ps->peers;

    if (peers && v->table->access != MLT_LOCAL) {
        int err = peers->ops->get_rows(peers, w, v, n, rows, out);

        if (err)
            return err;
        for (size_t i = 0; i < n && v->mine; i++)
            out[i] = row_with_mine(v, rows[i], out[i]);
    } else if (v->in_place) {
        find_rows(w, v, n, rows, out);
    } else if (v->table->access == MLT_EXCLUSIVE) {
        find_own_rows(w, v, n, rows, (void **)out, true);
    } else {
        for (size_t i = 0; i < n; i++) {
            out[i] = mlt_get_row(w, table, rows[i]);
            if (!out[i])
                return ERR_CANCELED;
        }
        return ERR_OK;
    }
    prefetch_batch(v, n, out);
    return ERR_OK;
}

/* ---- batches that begin before they are waited for ----------------------- */

int mlt_get_rows_begin(struct mlt_worker *w, mlt_table table, size_t n,
                       const uint64_t rows[], uint64_t *batch)
{
    struct worker_view *v = view_of(w, table, 0);
    struct peers *peers = w->ps->peers;
    const struct get_batch *b;
    enum err err;

    if (v->table->access == MLT_LOCAL || v->on_device)
        bad_access(v, "mlt_get_rows_begin");
    for (size_t i = 0; i < n; i++)
        if (!LIKELY(rows[i] < v->rows))
            bad_row(w, table, rows[i]);
    err = batches_begin(&w->batches, table, n, rows, &b);
    if (err)
        return err;
    *batch = b->number;
    if (peers)
        peers->ops->begin_batch(peers, w, v, b);
    return ERR_OK;
}

int mlt_get_rows_wait(struct mlt_worker *w, uint64_t batch, const void *out[])
{
    const struct get_batch *b = batches_find(&w->batches, batch);
    struct get_batch rows;

    if (!b)
        return ERR_NOENT;
    rows = *b;
    clock_end_batch(w, b);
    return mlt_get_rows(w, rows.table, rows.n, rows.rows, out);
}

/* ---- updating ------------------------------------------------------------ */

static inline unsigned char *own_row(struct mlt_worker *w,
                                     struct worker_view *v, uint64_t row)
{
    if (!LIKELY(row - v->first < v->count))
        bad_row(w, v->index, row);
    return view_write(w, v, row, &w->counters);
}

/* Under barriers a buffer whose clock was ended is being summed by others. */
static inline void check_not_ended(const struct worker_view *v)
{
#ifdef MLT_DEBUG
    if (v->ended)
        ps_misuse("table %s: updated after its clock was ended",
                  v->table->name);
#else
    (void)v;
#endif
}

/* The first update of a row in a clock stores, the others add. */
static inline void add_to_update(struct worker_view *v, uint64_t number,
                                 const void *delta)
{
    check_not_ended(v);
    if (update_has(&v->update, number)) {
        rule_accumulate(v->table->type, v->table->width,
                        update_row(&v->update, number), delta);
        return;
    }
    memcpy(update_take(&v->update, number), delta, v->value_bytes);
}

/* How many of @rows[n >= 1], from the first on, follow one another. */
static size_t run_length(size_t n, const uint64_t rows[])
{
    size_t run = 1;

    while (run < n && rows[run] == rows[0] + run)
        run++;
    return run;
}

/* Stores the first updates in a clock of @n consecutive rows at once; false,
 * with nothing done, where that cannot be. */
static bool add_run(struct worker_view *v, uint64_t first, size_t n,
                    const void *deltas)
{
    void *sums;

    if (n == 1 || v->number || first >= v->rows || n > v->rows - first)
        return false;
    check_not_ended(v);
    sums = update_take_run(&v->update, first, n);
    if (!sums)
        return false;
    memcpy(sums, deltas, n * v->value_bytes);
    return true;
}

/* Updates of @n rows, one after another. */
static void add_rows(struct mlt_worker *w, struct worker_view *v, size_t n,
                     const uint64_t rows[], const unsigned char *deltas)
{
    for (size_t i = 0; i < n; i++) {
        if (!LIKELY(rows[i] < v->rows))
            bad_row(w, v->index, rows[i]);
        add_to_update(v, view_number(v, rows[i]), deltas + i * v->value_bytes);
    }
}

/* Rows @row[from .. to) into the cache for writing, as far as that makes sense.
 */
static inline void prefetch_for_write(const struct worker_view *v,
                                      void *const row[], size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        prefetch(row[i], v->stride, true);
}

/* Applies the rule to @n <= RULE_ROW_BATCH rows, a few at a time while the next
 * few come from memory: slots have not been read before. */
static void apply_in_groups(const struct table *t, struct rule_batch *b,
                            const struct worker_view *v, size_t n)
{
    void *const *row = b->row;
    const void *const *sum = b->sum;

    for (size_t at = 0; at < n; at += b->n) {
        size_t left = n - at;

        b->n = left < GROUP ? left : GROUP;
        b->row = row + at;
        b->sum = sum + at;
        prefetch_for_write(v, row, at + b->n,
                           left > 2 * GROUP ? at + 2 * GROUP : n);
        rule_apply(t->rule, b, t->undecayed);
    }
}

/* Exclusive rows: the rule acts at once, row after row. */
static void apply_at_once(struct mlt_worker *w, struct worker_view *v, size_t n,
                          const uint64_t rows[], const unsigned char *deltas)
{
    void *row[RULE_ROW_BATCH];
    const void *sum[RULE_ROW_BATCH];
    const struct table *t = v->table;

    for (size_t done = 0; done < n; done += RULE_ROW_BATCH) {
        struct rule_batch b = {0,       row,      sum,          t->width,
                               t->type, t->slots, ps_params(w), NULL};
        size_t left = n - done;
        size_t now = left < RULE_ROW_BATCH ? left : RULE_ROW_BATCH;

        find_own_rows(w, v, now, rows + done, row, false);
        for (size_t i = 0; i < now; i++)
            sum[i] = deltas + (done + i) * v->value_bytes;
        if (t->slots) {
            apply_in_groups(t, &b, v, now);
        } else {
            b.n = now;
            rule_apply(t->rule, &b, t->undecayed);
        }
    }
}

/* Between two of its updates a worker's buffers can be read by itself: rows
 * leave early while there is room for them. */
static inline void offer(struct mlt_worker *w)
{
    if (!LIKELY(!atomic_load_explicit(&w->offered, memory_order_relaxed)) &&
        !w->holds)
        w->ps->peers->ops->offer(w->ps->peers, w);
}

void mlt_offer(struct mlt_worker *w)
{
    w->holds = false;
    offer(w);
}

void mlt_inc_rows(struct mlt_worker *w, mlt_table table, size_t n,
                  const uint64_t rows[], const void *deltas)
{
    struct worker_view *v = view_of(w, table, 0);

    if (v->table->access == MLT_EXCLUSIVE) {
        apply_at_once(w, v, n, rows, deltas);
        return;
    }
    if (v->table->access == MLT_LOCAL || v->on_device)
        bad_access(v, "mlt_inc_rows");
    for (size_t i = 0, run; i < n; i += run) {
        const unsigned char *delta =
            (const unsigned char *)deltas + i * v->value_bytes;

        run = run_length(n - i, rows + i);
        if (!add_run(v, rows[i], run, delta))
            add_rows(w, v, run, rows + i, delta);
    }
    offer(w);
}

void mlt_inc_row(struct mlt_worker *w, mlt_table table, uint64_t row,
                 const void *delta)
{
    struct worker_view *v = view_of(w, table, row);

    if (LIKELY(v->updates)) {
        add_to_update(v, view_number(v, row), delta);
        offer(w);
    } else {
        mlt_inc_rows(w, table, 1, &row, delta);
    }
}

void *mlt_update_row(struct mlt_worker *w, mlt_table table, uint64_t row)
{
    struct worker_view *v = view_of(w, table, row);

    if (!LIKELY(v->updates))
        bad_access(v, "mlt_update_row");
    check_not_ended(v);
    w->holds = true;
    row = view_number(v, row);
    if (update_has(&v->update, row))
        return update_row(&v->update, row);
    return memset(update_take(&v->update, row), 0, v->value_bytes);
}

void *mlt_row(struct mlt_worker *w, mlt_table table, uint64_t row)
{
    struct worker_view *v = view_of(w, table, row);

    if (v->table->access == MLT_SHARED)
        bad_access(v, "mlt_row");
    return own_row(w, v, row);
}

void mlt_rows(struct mlt_worker *w, mlt_table table, size_t n,
              const uint64_t rows[], void *out[])
{
    struct worker_view *v = view_of(w, table, 0);

    if (v->table->access != MLT_EXCLUSIVE)
        bad_access(v, "mlt_rows");
    find_own_rows(w, v, n, rows, out, false);
}

void mlt_step_rows(struct mlt_worker *w, mlt_table table, size_t n,
                   void *const rows[], const void *deltas)
{
    struct worker_view *v = view_of(w, table, 0);
    const struct table *t = v->table;
    const void *sum[RULE_ROW_BATCH];

    if (t->access != MLT_EXCLUSIVE)
        bad_access(v, "mlt_step_rows");
    for (size_t done = 0; done < n; done += RULE_ROW_BATCH) {
        size_t left = n - done;
        struct rule_batch b = {left < RULE_ROW_BATCH ? left : RULE_ROW_BATCH,
                               rows + done,
                               sum,
                               t->width,
                               t->type,
                               t->slots,
                               ps_params(w),
                               NULL};

        for (size_t i = 0; i < b.n; i++)
            sum[i] =
                (const unsigned char *)deltas + (done + i) * v->value_bytes;
        rule_apply(t->rule, &b, t->undecayed);
    }
}

/* Whether the table's rule has a loop that makes the gradients itself. With
 * decay they are made before the values are less. */
static bool mixes(const struct table *t, const struct rule_params *p)
{
    return t->rule->apply_mix && !rule_decays(t->rule, p) &&
           t->slots == rule_slots(t->rule, MLT_NO_MOMENTUM);
}

void mlt_step_rows_mix(struct mlt_worker *w, mlt_table table,
                       const struct mlt_mix *mix, float *scratch)
{
    struct worker_view *v = view_of(w, table, 0);
    const struct table *t = v->table;
    const void *sum[RULE_ROW_BATCH];

    if (t->access != MLT_EXCLUSIVE)
        bad_access(v, "mlt_step_rows_mix");
    if (t->type != MLT_F32)
        ps_misuse("mlt_step_rows_mix: table %s is not of floats", t->name);
    for (size_t done = 0; done < mix->n; done += RULE_ROW_BATCH) {
        size_t left = mix->n - done;
        struct rule_batch b = {left < RULE_ROW_BATCH ? left : RULE_ROW_BATCH,
                               mix->rows + done,
                               sum,
                               t->width,
                               t->type,
                               t->slots,
                               ps_params(w),
                               NULL};
        struct rule_mix m = {mix->own, mix->scale + done, mix->with + done};

        if (mixes(t, &b.params)) {
            t->rule->apply_mix(&b, &m);
            continue;
        }
        rule_mix_sums(&b, &m, scratch);
        for (size_t i = 0; i < b.n; i++)
            sum[i] = scratch + i * t->width;
        rule_apply(t->rule, &b, t->undecayed);
    }
}

static const struct table *cross_table(struct mlt_worker *w, mlt_table table)
{
    struct worker_view *v = view_of(w, table, 0);

    if (v->table->access != MLT_EXCLUSIVE)
        bad_access(v, "mlt_step_rows_cross");
    if (v->table->type != MLT_F32)
        ps_misuse("mlt_step_rows_cross: table %s is not of floats",
                  v->table->name);
    return v->table;
}

/* With copies of side 0, in the first half of @scratch. */
static void cross_by_mixes(struct mlt_worker *w, const struct mlt_cross *c,
                           size_t width, float *scratch)
{
    const float *before[RULE_ROW_BATCH];

    for (size_t done = 0; done < c->n; done += RULE_ROW_BATCH) {
        size_t left = c->n - done;
        size_t n = left < RULE_ROW_BATCH ? left : RULE_ROW_BATCH;
        struct mlt_mix mix = {n, c->rows[0] + done, c->own, c->scale + done,
                              (const float *const *)(c->rows[1] + done)};

        for (size_t i = 0; i < n; i++)
            before[i] = memcpy(scratch + i * width, c->rows[0][done + i],
                               width * sizeof(float));
        mlt_step_rows_mix(w, c->table[0], &mix, scratch + n * width);
        mix.rows = c->rows[1] + done;
        mix.with = before;
        mlt_step_rows_mix(w, c->table[1], &mix, scratch + n * width);
    }
}

void mlt_step_rows_cross(struct mlt_worker *w, const struct mlt_cross *c,
                         float *scratch)
{
    const struct table *t = cross_table(w, c->table[0]);
    const struct table *other = cross_table(w, c->table[1]);
    struct rule_batch b = {c->n,    c->rows[0], NULL,         t->width,
                           t->type, t->slots,   ps_params(w), NULL};
    struct rule_cross m = {c->own, c->scale, c->rows[1]};

    if (t->width != other->width)
        ps_misuse("mlt_step_rows_cross: table %s has %u values a row, table %s "
                  "%u",
                  t->name, t->width, other->name, other->width);
    if (t->rule->apply_cross && t->rule == other->rule && mixes(t, &b.params) &&
        mixes(other, &b.params))
        t->rule->apply_cross(&b, &m);
    else
        cross_by_mixes(w, c, t->width, scratch);
}

uint32_t mlt_row_bytes(const struct mlt_worker *w, mlt_table table)
{
    return w->view[table].stride;
}

void mlt_init_row(struct mlt_worker *w, mlt_table table, uint64_t row,
                  const void *values)
{
    struct worker_view *v = view_of(w, table, row);

    if (v->table->access == MLT_LOCAL)
        bad_access(v, "mlt_init_row");
    memcpy(own_row(w, v, view_number(v, row)), values, v->value_bytes);
}

/* ---- clocks -------------------------------------------------------------- */

int mlt_clock(struct mlt_worker *w)
{
    return clock_end(w, WORKER_ALL_TABLES);
}

int mlt_clock_table(struct mlt_worker *w, mlt_table table)
{
    (void)view_of(w, table, 0);
    return clock_end(w, table);
}

void mlt_clock_part(struct mlt_worker *w, uint64_t part)
{
    w->part = part;
}
