#include "ps/server/start.h"

#include "base/mem.h"
#include "ps/nodes/shard.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/server/keys.h"
#include "ps/server/memory_plan.h"
#include "ps/server/runtime.h"

#include <assert.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

/* ---- sizes --------------------------------------------------------------- */

/* A store with shard @index's tables and no branch yet. */
static enum err open_store(const struct mlt_ps *ps, unsigned index,
                           uint64_t limit, struct store **out)
{
    struct store *s = NULL;
    enum err err = store_new(limit, &s);

    assert(index < ps->shape.workers);
    for (size_t t = 0; t < ps->shape.tables && !err; t++) {
        const struct table *table = &ps->shape.table[t];
        struct store_layout layout = {
            .row_bytes = table->row_bytes,
            .chunk_bytes_max = table->row_bytes << table->row_shift,
        };
        store_table number;
        uint64_t first;

        table_part(table, ps->shape.all_workers,
                   ps->shape.node * ps->shape.workers + index, &first,
                   &layout.rows);
        err = store_add_table(s, &layout, &number);
        assert(err || number == t);
    }
    if (err)
        store_free(s);
    else
        *out = s;
    return err;
}

/* Bytes that a branch costs a shard, and bytes of the shard before any branch:
 * the initial chunk of each table. A store that holds nothing yet tells. */
static enum err measure_shard(const struct mlt_ps *ps, unsigned index,
                              uint64_t *branch, uint64_t *fixed)
{
    struct store *s;
    enum err err = open_store(ps, index, INT64_MAX, &s);

    if (err)
        return err;
    *branch = store_branch_bytes(s);
    *fixed = 0;
    for (store_table t = 0; t < store_tables(s); t++)
        *fixed += store_chunk_bytes(s, t) + MEMORY_CHUNK_EXTRA_BYTES;
    store_free(s);
    return ERR_OK;
}

/* All that the program may touch is counted: what is refused is what could
 * fail in the middle. */
static enum err too_small(const struct mlt_ps *ps, struct fault *f)
{
    struct mlt_ps_memory m;

    memory_plan_buffers(ps, 1, &m);
    return fault_set(
        f, ERR_LIMIT,
        "the memory limit of %.1f MiB is too small: one copy of "
        "the training state takes %.1f MiB, what all copies share "
        "%.1f MiB, buffers of %u workers %.1f MiB (updates %.1f, "
        "rows read %.1f, sums from other nodes %.1f, access "
        "knowledge %.1f), room for all rows counted; raise "
        "memory.limit",
        (double)ps->memory_limit / MIB, (double)ps->branch_bytes / MIB,
        (double)ps->fixed_bytes / MIB, ps->shape.workers,
        (double)ps->buffers_bytes / MIB, (double)m.updates / MIB,
        (double)m.caches / MIB, (double)m.sums / MIB, (double)m.access / MIB);
}

static enum err out_of_memory(const struct mlt_ps *ps, struct fault *f)
{
    return fault_set(f, ERR_NOMEM,
                     "out of memory: one copy of the training state takes "
                     "%.1f MiB, buffers of %u workers %.1f MiB",
                     (double)ps->branch_bytes / MIB, ps->shape.workers,
                     (double)ps->buffers_bytes / MIB);
}

static enum err measure_shards(struct mlt_ps *ps)
{
    ps->branch_bytes = ps->fixed_bytes = 0;
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct mlt_worker *w = &ps->shape.worker[i];
        enum err err = measure_shard(ps, i, &w->branch_bytes, &w->fixed_bytes);

        if (err)
            return err;
        ps->branch_bytes += w->branch_bytes;
        ps->fixed_bytes += w->fixed_bytes;
    }
    return ERR_OK;
}

int mlt_ps_plan(const struct mlt_ps *ps, double touched,
                struct mlt_ps_memory *out)
{
    struct mlt_ps_memory m;
    enum err err = ERR_OK;

    if (out->size != sizeof(*out))
        return ERR_VERSION;
    if (!(touched > 0 && touched <= 1) || ps->shape.tables == 0)
        return ERR_INVAL;
    memory_plan_buffers(ps, touched, &m);
    for (unsigned i = 0; i < ps->shape.workers && !err; i++) {
        uint64_t branch = 0, fixed = 0;

        err = measure_shard(ps, i, &branch, &fixed);
        m.branch += branch;
        m.fixed += fixed;
    }
    if (!err)
        *out = m;
    return err;
}

static enum err plan_memory(struct mlt_ps *ps, struct fault *f)
{
    enum err err = measure_shards(ps);
    struct mlt_ps_memory m;

    if (err)
        return err == ERR_NOMEM ? out_of_memory(ps, f) : too_small(ps, f);
    memory_plan_buffers(ps, 1, &m);
    ps->buffers_bytes = memory_buffers(&m);
    if (ps->memory_limit <
        ps->buffers_bytes + ps->fixed_bytes + ps->branch_bytes)
        return too_small(ps, f);
    ps->store_limit = ps->memory_limit - ps->buffers_bytes;
    return ERR_OK;
}

/* Branches in proportion to the size of one. */
static uint64_t shard_limit(const struct mlt_ps *ps, const struct mlt_worker *w)
{
    unsigned __int128 for_branches = ps->store_limit - ps->fixed_bytes;

    assert(ps->branch_bytes > 0);
    return w->fixed_bytes +
           (uint64_t)(for_branches * w->branch_bytes / ps->branch_bytes);
}

uint64_t ps_limit_bytes(const struct mlt_ps *ps)
{
    return ps->store_limit;
}

uint64_t ps_branch_bytes(const struct mlt_ps *ps)
{
    return ps->branch_bytes;
}

/* Number of complete branches that fit, up to what a store can hold. */
static unsigned branches_that_fit(const struct mlt_ps *ps)
{
    uint64_t for_branches = ps->store_limit - ps->fixed_bytes;
    uint64_t fit = for_branches / ps->branch_bytes;

    assert(ps->branch_bytes > 0);
    return fit > STORE_BRANCHES_MAX ? STORE_BRANCHES_MAX : (unsigned)fit;
}

unsigned ps_branches_max(const struct mlt_ps *ps)
{
    assert(ps->started);
    return ps->fits;
}

enum err ps_require_models(const struct mlt_ps *ps, unsigned models,
                           struct fault *f)
{
    uint64_t for_branches = ps->store_limit - ps->fixed_bytes;
    uint64_t need = ps->branch_bytes * models;

    assert(models > 0);
    if (for_branches >= need)
        return ERR_OK;
    return fault_set(
        f, ERR_LIMIT,
        "the memory limit of %.1f MiB holds %llu copies of the "
        "training state (%.1f MiB each, after %.1f MiB of "
        "buffers), but %u are needed; raise memory.limit to %.1f "
        "MiB",
        (double)ps->memory_limit / MIB,
        (unsigned long long)(for_branches / ps->branch_bytes),
        (double)ps->branch_bytes / MIB,
        (double)(ps->buffers_bytes + ps->fixed_bytes) / MIB, models,
        (double)(ps->memory_limit + need - for_branches) / MIB + 0.1);
}

/* ---- workers ------------------------------------------------------------- */

/* Zeroed, on cache lines of its own. */
static void *zeroed_lines(size_t bytes)
{
    void *p = mem_aligned(WORKER_LINE_BYTES, bytes);

    return p ? memset(p, 0, bytes) : NULL;
}

static void fill_view(const struct mlt_ps *ps, const struct mlt_worker *w,
                      mlt_table index)
{
    const struct table *t = &ps->shape.table[index];
    struct worker_view *v = &w->view[index];

    assert(w->number < ps->shape.all_workers);
    v->table = t;
    v->index = index;
    v->chunk = ps->chunk[index];
    v->rows = t->rows;
    v->row_shift = t->row_shift;
    v->row_mask = ((uint64_t)1 << t->row_shift) - 1;
    v->stride = t->row_bytes;
    v->value_bytes = t->value_bytes;
    v->on_device = device_has(ps->device, index);
    v->updates = t->access == MLT_SHARED && !v->on_device;
    v->history = ps->history[index];
    v->keys = ps->keys[index];
    v->own_clock = t->flags & MLT_OWN_CLOCK;
    v->in_place =
        ps->shape.nodes == 1 && !v->on_device &&
        (t->access == MLT_EXCLUSIVE || (t->access == MLT_SHARED && ps->direct &&
                                        !(t->flags & MLT_READ_MY_WRITES)));
    table_part(t, ps->shape.all_workers, w->number, &v->first, &v->count);
    if (ps->shape.nodes > 1 && t->access != MLT_LOCAL)
        shard_part(t, ps->shape.nodes, ps->shape.workers, ps->shape.node,
                   &v->node_first, &v->node_count);
}

static enum err new_worker(struct mlt_ps *ps, unsigned index)
{
    struct mlt_worker *w = &ps->shape.worker[index];

    w->ps = ps;
    w->index = index;
    w->number = ps->shape.node * ps->shape.workers + index;
    w->view = zeroed_lines(ps->shape.tables * sizeof(*w->view));
    w->extra = mem_calloc(ps->shape.tables, sizeof(*w->extra));
    if (!w->view || !w->extra)
        return ERR_NOMEM;
    for (mlt_table t = 0; t < ps->shape.tables; t++)
        fill_view(ps, w, t);
    return ERR_OK;
}

static enum err new_chunk_pointers(struct mlt_ps *ps)
{
    ps->chunk = mem_calloc(ps->shape.tables, sizeof(*ps->chunk));
    if (!ps->chunk)
        return ERR_NOMEM;
    for (size_t t = 0; t < ps->shape.tables; t++) {
        if (ps->shape.table[t].access == MLT_LOCAL)
            continue;
        ps->chunk[t] =
            mem_calloc(ps->shape.table[t].chunks, sizeof(**ps->chunk));
        if (!ps->chunk[t])
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err new_keys(struct mlt_ps *ps)
{
    const struct keys_place place = {ps->shape.node, ps->shape.nodes,
                                     ps->shape.workers};
    enum err err = ERR_OK;

    for (size_t t = 0; t < ps->shape.tables && !err; t++)
        if (table_has_keys(&ps->shape.table[t]))
            err = keys_new(&place, &ps->shape.table[t], &ps->keys[t]);
    return err;
}

static enum err new_workers(struct mlt_ps *ps)
{
    enum err err = new_chunk_pointers(ps);

    if (!err)
        err = new_keys(ps);
    if (err)
        return err;
    ps->stripe = zeroed_lines(CORE_STRIPES * sizeof(*ps->stripe));
    ps->shape.worker =
        zeroed_lines(ps->shape.workers * sizeof(*ps->shape.worker));
    if (!ps->stripe || !ps->shape.worker)
        return ERR_NOMEM;
    for (unsigned i = 0; i < ps->shape.workers && !err; i++)
        err = new_worker(ps, i);
    return err;
}

static enum err new_buffers(struct mlt_ps *ps, struct worker_view *v)
{
    const struct table *t = v->table;
    uint64_t values = t->rows * t->value_bytes;

    if (v->updates &&
        update_init(&v->update, t->rows, t->value_bytes, SLOTS_DENSE_BYTES))
        return ERR_NOMEM;
    if (memory_has_slots(ps, t) &&
        slots_init(&v->slots, t->rows, table_is_small(t)) != ERR_OK)
        return ERR_NOMEM;
    if (memory_has_copies(ps, t) && !(v->copy = mem_reserve(values)))
        return ERR_NOMEM;
    if (memory_notes_held(ps, t) &&
        !(v->held = mem_reserve(t->rows * sizeof(*v->held))))
        return ERR_NOMEM;
    if (ps->shape.nodes == 1 && memory_has_copies(ps, t) && t->rule->revises &&
        !(v->seen = mem_reserve(values)))
        return ERR_NOMEM;
    if ((t->flags & MLT_READ_MY_WRITES) && !(v->mine = mem_reserve(values)))
        return ERR_NOMEM;
    if (shape_gathers(&ps->shape, t)) {
        v->known = mem_alloc(sizeof(*v->known));
        if (!v->known)
            return ERR_NOMEM;
        prefetch_list_init(v->known, t->rows);
    }
    return ERR_OK;
}

static enum err fill_worker(struct mlt_ps *ps, struct mlt_worker *w)
{
    enum err err = ERR_OK;

    for (mlt_table t = 0; t < ps->shape.tables && !err; t++)
        err = new_buffers(ps, &w->view[t]);
    if (!err)
        err = open_store(ps, w->index, shard_limit(ps, w), &w->store);
    return err ? err : store_create_root(w->store, 0);
}

static void free_view(struct worker_view *v)
{
    uint64_t values = v->rows * v->value_bytes;

    update_deinit(&v->update);
    mem_unreserve(v->copy, values);
    mem_unreserve(v->held, v->rows * sizeof(*v->held));
    mem_unreserve(v->mine, values);
    mem_unreserve(v->seen, values);
    slots_deinit(&v->slots);
    if (v->known)
        prefetch_list_deinit(v->known);
    mem_free(v->known);
}

static void free_worker(struct mlt_worker *w)
{
    for (mlt_table t = 0; w->view && t < w->ps->shape.tables; t++)
        free_view(&w->view[t]);
    mem_free(w->view);
    mem_free(w->extra);
    batches_deinit(&w->batches);
    store_free(w->store);
}

/* ---- start --------------------------------------------------------------- */

void start_undo(struct mlt_ps *ps)
{
    if (ps->saving.backup)
        ps->saving.stop(ps);
    if (ps->peers)
        ps->peers->ops->close(ps->peers);
    ps->peers = NULL;
    runtime_stop(ps);
    for (unsigned i = 0; ps->shape.worker && i < ps->shape.workers; i++)
        free_worker(&ps->shape.worker[i]);
    mem_free(ps->shape.worker);
    for (size_t t = 0; t < ps->shape.tables; t++) {
        ps->shape.table[t].number = ps->shape.table[t].row_at = NULL;
        ps->shape.table[t].placed = 0;
        placement_deinit(&ps->shape.placement[t]);
        placement_init(&ps->shape.placement[t], ps->shape.node, ps->shape.nodes,
                       ps->shape.workers, ps->shape.table[t].rows);
    }
    for (size_t t = 0; ps->chunk && t < ps->shape.tables; t++)
        mem_free(ps->chunk[t]);
    for (size_t t = 0; t < ps->shape.tables; t++) {
        keys_free(ps->keys[t]);
        ps->keys[t] = NULL;
    }
    mem_free(ps->chunk);
    mem_free(ps->stripe);
    mem_free(ps->branch);
    ps->shape.worker = NULL;
    ps->chunk = NULL;
    ps->stripe = NULL;
    ps->branch = NULL;
    ps->branches = ps->branches_room = 0;
    ps->active = BRANCH_NONE;
    ps->started = false;
}

static enum err first_branch(struct mlt_ps *ps)
{
    assert(ps->branches == 0);
    if (forks_reserve(ps) != ERR_OK)
        return ERR_NOMEM;
    ps->next_id = 0;
    forks_add(ps, &(struct branch_entry){.type = BRANCH_INIT});
    ps->started = true;
    return ps_activate(ps, 0);
}

/* Each node's shard steps its own rows: with other rates elsewhere, parts of
 * one model would be trained differently, and nobody would notice. */
static uint64_t rates_of(const struct mlt_ps *ps)
{
    const float rates[] = {ps->params.learning_rate, ps->params.momentum};
    uint64_t bits;
    uint32_t decay;

    static_assert(sizeof(bits) == sizeof(rates), "two floats");
    memcpy(&bits, rates, sizeof(bits));
    memcpy(&decay, &ps->params.weight_decay, sizeof(decay));
    bits = rng_mix(bits, ps->params.rule);
    return rng_mix(bits, (uint64_t)decay << 32 | ps->staleness);
}

static enum err start(struct mlt_ps *ps, struct fault *f)
{
    enum err err;

    ps->shape.rates = rates_of(ps);
    ps->direct = ps->shape.all_workers == 1 || ps->shape.consistency->barrier;
    err = ps_listen(ps, f);
    if (err)
        return err;
    if (new_workers(ps))
        return out_of_memory(ps, f);
    err = plan_memory(ps, f);
    if (err)
        return err;
    for (unsigned i = 0; i < ps->shape.workers && !err; i++)
        err = fill_worker(ps, &ps->shape.worker[i]);
    if (!err)
        err = first_branch(ps);
    if (err)
        return err == ERR_LIMIT ? too_small(ps, f) : out_of_memory(ps, f);
    err = runtime_start(ps, f);
    ps->fits = branches_that_fit(ps);
    if (!err && ps->peers)
        err = ps->peers->ops->start(ps->peers, &ps->fits, f);
    return err;
}

int mlt_ps_start(struct mlt_ps *ps, struct mlt_error *err)
{
    struct fault f = {0};

    if (ps->started || ps->shape.tables == 0)
        ps_misuse("mlt_ps_start: %s",
                  ps->started ? "started already" : "no table is declared");
    if (start(ps, &f) == ERR_OK)
        return ERR_OK;
    start_undo(ps);
    return ps_give_error(err, &f);
}
