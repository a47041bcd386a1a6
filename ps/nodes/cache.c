#include "ps/nodes/cache.h"

#include "base/mem.h"
#include "ps/nodes/cache_internal.h"

#include <assert.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------- */

static void free_worker(const struct cache *c, struct cache_worker *w)
{
    for (uint32_t t = 0; t < c->opt.tables; t++) {
        if (w->asked)
            rowset_deinit(&w->asked[t]);
        if (w->read)
            rowset_deinit(&w->read[t]);
        if (w->left)
            rowset_deinit(&w->left[t]);
        if (w->basis)
            mem_unreserve(w->basis[t],
                          c->opt.table[t].rows * sizeof(**w->basis));
    }
    mem_free(w->extra);
    mem_free(w->ended);
    mem_free(w->cursor);
    mem_free(w->early_table);
    mem_free(w->early_row);
    mem_free(w->asked);
    mem_free(w->asks);
    mem_free(w->at);
    mem_free(w->read);
    mem_free(w->left);
    mem_free(w->basis);
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->worker && i < c->opt.workers; i++)
        free_worker(c, &c->worker[i]);
    for (uint32_t t = 0; c->table && t < c->opt.tables; t++) {
        struct cache_table *k = &c->table[t];
        uint64_t rows = c->opt.table[t].rows;

        mem_unreserve(k->copy, rows * c->opt.table[t].value_bytes);
        mem_unreserve(k->version, rows * sizeof(*k->version));
        mem_unreserve(k->own, rows * sizeof(*k->own));
        mem_unreserve(k->held, rows * sizeof(*k->held));
        slots_deinit(&k->slots);
    }
    cache_sums_deinit(c);
    for (uint32_t i = 0; c->node && i < c->opt.nodes; i++) {
        mem_free(c->node[i].want);
        mem_free(c->node[i].clock);
    }
    mem_free(c->table);
    mem_free(c->worker);
    mem_free(c->node);
    mem_free(c->values);
    mem_free(c->candidate);
    mem_free(c);
}

static enum err init_table(struct cache *c, uint32_t index)
{
    struct cache_table *t = &c->table[index];
    uint64_t values;

    t->t = &c->opt.table[index];
    t->shared = t->t->access == MLT_SHARED;
    t->clocked = shard_keeps_clock(t->t, c->opt.table, c->opt.tables);
    t->readable = t->t->access != MLT_LOCAL;
    t->own_clock = t->t->flags & MLT_OWN_CLOCK;
    t->in_place = !t->shared || c->opt.consistency->barrier;
    t->early = t->shared && !c->opt.consistency->barrier &&
               !(t->t->flags & MLT_READ_MY_WRITES);
    if (!t->readable)
        return ERR_OK;
    if (t->t->value_bytes > c->value_bytes_max)
        c->value_bytes_max = t->t->value_bytes;
    values = t->t->rows * t->t->value_bytes;
    if (slots_init(&t->slots, t->t->rows, values <= c->opt.dense_bytes))
        return ERR_NOMEM;
    t->copy = mem_reserve(values);
    t->held = mem_reserve(t->t->rows * sizeof(*t->held));
    if (!t->copy || !t->held)
        return ERR_NOMEM;
    t->versions =
        t->shared && t->t->rule->revises && !c->opt.consistency->barrier;
    t->keeps_own = own_sums_are_kept(t->t, c->opt.consistency->barrier);
    if (t->keeps_own && !(t->own = mem_reserve(t->t->rows * sizeof(*t->own))))
        return ERR_NOMEM;
    if (t->versions)
        t->version = mem_reserve(t->t->rows * sizeof(*t->version));
    return t->versions && !t->version ? ERR_NOMEM : ERR_OK;
}

/* Versions that the worker notes when it reads. */
static enum err init_basis(const struct cache *c, struct cache_worker *w)
{
    w->read = mem_calloc(c->opt.tables, sizeof(*w->read));
    w->left = mem_calloc(c->opt.tables, sizeof(*w->left));
    w->basis = mem_calloc(c->opt.tables, sizeof(*w->basis));
    if (!w->read || !w->left || !w->basis)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < c->opt.tables; t++) {
        uint64_t rows = c->table[t].t->rows;

        if (!c->table[t].versions)
            continue;
        w->basis[t] = mem_reserve(rows * sizeof(**w->basis));
        if (!w->basis[t] || rowset_init(&w->read[t], rows) != ERR_OK ||
            rowset_init(&w->left[t], rows) != ERR_OK)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err init_worker(const struct cache *c, struct cache_worker *w)
{
    uint32_t tables = c->opt.tables;

    w->drained = true;
    w->extra = mem_calloc(tables, sizeof(*w->extra));
    w->ended = mem_calloc(tables, sizeof(*w->ended));
    w->cursor = mem_calloc(c->opt.nodes, sizeof(*w->cursor));
    w->early_table = mem_calloc(c->opt.nodes, sizeof(*w->early_table));
    w->early_row =
        mem_calloc((size_t)c->opt.nodes * tables, sizeof(*w->early_row));
    w->asked = mem_calloc(tables, sizeof(*w->asked));
    w->asks = mem_calloc(c->opt.nodes, sizeof(*w->asks));
    w->at =
        mem_calloc((size_t)c->opt.nodes * CACHE_BATCHES_MAX, sizeof(*w->at));
    if (!w->extra || !w->ended || !w->cursor || !w->early_table ||
        !w->early_row || !w->asked || !w->asks || !w->at)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < CACHE_BATCHES_MAX; i++)
        w->batch[i].at = w->at + (size_t)i * c->opt.nodes;
    for (uint32_t t = 0; t < tables; t++)
        if (c->table[t].readable &&
            rowset_init(&w->asked[t], c->table[t].t->rows) != ERR_OK)
            return ERR_NOMEM;
    return init_basis(c, w);
}

static enum err init_parts(struct cache *c)
{
    const struct cache_options *o = &c->opt;

    c->table = mem_calloc(o->tables, sizeof(*c->table));
    c->worker = mem_calloc(o->workers, sizeof(*c->worker));
    c->node = mem_calloc(o->nodes, sizeof(*c->node));
    if (!c->table || !c->worker || !c->node)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < o->tables; t++)
        if (init_table(c, t) != ERR_OK)
            return ERR_NOMEM;
    for (uint32_t i = 0; i < o->workers; i++)
        if (init_worker(c, &c->worker[i]) != ERR_OK)
            return ERR_NOMEM;
    for (uint32_t i = 0; i < o->nodes; i++) {
        struct cache_node *n = &c->node[i];

        n->clock = mem_calloc(o->tables, sizeof(*n->clock));
        n->want = mem_calloc(o->reads_max, sizeof(*n->want));
        if (!n->clock || !n->want)
            return ERR_NOMEM;
    }
    if (cache_sums_init(c) != ERR_OK)
        return ERR_NOMEM;
    c->values = mem_alloc((size_t)c->value_bytes_max + 8);
    c->candidate = mem_calloc(CACHE_EARLY_ROWS, sizeof(*c->candidate));
    return c->values && c->candidate ? ERR_OK : ERR_NOMEM;
}

enum err cache_new(const struct cache_options *opt, struct cache **out)
{
    struct cache *c;
    enum err err;

    assert(opt->consistency && opt->table);
    if (opt->nodes < 1 || opt->nodes > SHARD_NODES_MAX || opt->workers < 1 ||
        opt->workers > UINT16_MAX || opt->tables < 1 ||
        opt->node >= opt->nodes || opt->reads_max > SHARD_READS_MAX)
        return ERR_INVAL;
    c = mem_calloc(1, sizeof(*c));
    if (!c)
        return ERR_NOMEM;
    c->opt = *opt;
    if (!opt->reads_max)
        c->opt.reads_max = SHARD_READS_MAX;
    err = init_parts(c);
    if (err)
        cache_free(c);
    else
        *out = c;
    return err;
}

size_t cache_frame_bytes(const struct cache *c)
{
    return FRAME_FIXED_BYTES_MAX +
           frame_record_bytes(FRAME_VERSIONS, FRAME_NOTHING, 0) +
           c->value_bytes_max;
}

struct cache_stats cache_stats(const struct cache *c)
{
    struct cache_stats stats = c->stats;

    for (uint32_t i = 0; i < c->opt.nodes; i++)
        stats.waiting += c->node[i].asked;
    return stats;
}

const struct staleness *cache_staleness(const struct cache *c)
{
    return &c->seen;
}

int64_t cache_clock(const struct cache *c, uint32_t worker, uint32_t table)
{
    assert(worker < c->opt.workers && table < c->opt.tables);
    return c->worker[worker].all + c->worker[worker].extra[table];
}

int64_t cache_all_clock(const struct cache *c, uint32_t worker)
{
    assert(worker < c->opt.workers);
    return c->worker[worker].all;
}

/* ---- slices -------------------------------------------------------------- */

/* Reads that were under way belong to the slice before: answers that still come
 * are not taken. */
void cache_enter_slice(struct cache *c, uint64_t slice)
{
    assert(slice > c->slice);
    c->slice = slice;
    /* Whatever is noted by slots is too old for the new one. */
    for (uint32_t t = 0; t < c->opt.tables; t++)
        if (c->table[t].readable)
            slots_settle(&c->table[t].slots, c->table[t].t->value_bytes +
                                                 (uint32_t)sizeof(int64_t));
    for (uint32_t i = 0; i < c->opt.workers; i++) {
        memset(c->worker[i].asks, 0, c->opt.nodes * sizeof(uint32_t));
        for (uint32_t t = 0; t < c->opt.tables; t++)
            if (c->table[t].readable)
                rowset_clear(&c->worker[i].asked[t]);
    }
    for (uint32_t i = 0; i < c->opt.nodes; i++) {
        c->node[i].wants = c->node[i].asked = 0;
        c->node[i].row_frames = 0;
        memset(c->node[i].clock, 0, c->opt.tables * sizeof(*c->node[i].clock));
    }
}

/* Versions are of a slice, and a worker may read after its last clock. */
static void forget_all_read(const struct cache *c, struct cache_worker *w)
{
    for (uint32_t t = 0; t < c->opt.tables; t++)
        if (c->table[t].versions)
            cache_forget_read(w, t);
}

void cache_begin(struct cache *c, uint64_t slice, int64_t clock,
                 unsigned staleness)
{
    if (slice != c->slice)
        cache_enter_slice(c, slice);
    assert(clock > c->base);
    c->begun = slice;
    c->base = clock;
    c->staleness = staleness;
    for (uint32_t i = 0; i < c->opt.workers; i++) {
        struct cache_worker *w = &c->worker[i];

        assert(w->drained && w->sending == 0 && clock > w->all);
        for (uint32_t k = 0; k < c->opt.nodes; k++)
            assert(!w->cursor[k].drain_due);
        w->drained = false;
        w->all = clock;
        memset(w->extra, 0, c->opt.tables * sizeof(*w->extra));
        forget_all_read(c, w);
    }
}

/* Whether every shard's clock of every table that has one is at least the
 * worker's, or without a worker, the slice's first. */
static bool all_applied(const struct cache *c, const struct cache_worker *w)
{
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        for (uint32_t t = 0; t < c->opt.tables; t++)
            if (c->table[t].clocked &&
                c->node[i].clock[t] < (w ? w->all + w->extra[t] : c->base))
                return false;
    return true;
}

bool cache_begun(const struct cache *c)
{
    return c->base > 0 && all_applied(c, NULL);
}

/* ---- reading ------------------------------------------------------------- */

int64_t cache_needed(const struct cache *c, uint32_t worker, uint32_t table)
{
    struct worker_status status = {.clock = cache_clock(c, worker, table),
                                   .available = true};
    struct consistency_view view = {
        .worker = &status, .workers = 1, .staleness = c->staleness};

    return c->opt.consistency->needs(&view);
}

/* The worker's updates are computed on the last that it read before: while it
 * has added nothing since the clock began, or since a part of the sum left
 * early, a newer version takes the place of an older one. */
static void note_version(const struct cache *c, uint32_t worker, uint32_t table,
                         uint64_t row)
{
    const struct cache_table *t = &c->table[table];
    uint64_t slot = slots_of(&t->slots, row);
    struct cache_worker *w = &c->worker[worker];

    if (rowset_has(&w->read[table], row) &&
        update_has(&c->opt.update[worker][table], row))
        return;
    rowset_add(&w->read[table], row);
    rowset_remove(&w->left[table], row);
    w->basis[table][slot] = t->version[slot];
}

int64_t cache_holds(const struct cache *c, uint32_t table, uint64_t row)
{
    const struct cache_table *t = &c->table[table];
    int64_t held = cache_held(t, row), pushed;

    if (held < c->base || !c->opt.consistency->pushes || !t->shared)
        return held;
    pushed = c->node[cache_node_of(c, table, row)].clock[table];
    return pushed > held ? pushed : held;
}

const void *cache_place(const struct cache *c, uint32_t table, uint64_t row)
{
    const struct cache_table *t = &c->table[table];

    return t->copy + slots_find(&t->slots, row) * t->t->value_bytes;
}

bool cache_read(struct cache *c, uint32_t worker, uint32_t table, uint64_t row,
                void *out, int64_t *clock)
{
    struct cache_table *t = &c->table[table];
    int64_t held;

    assert(worker < c->opt.workers && table < c->opt.tables && t->readable);
    assert(row < t->t->rows && !c->worker[worker].drained);
    assert(c->worker[worker].sending == 0 ||
           (c->worker[worker].ends != FRAME_ALL_TABLES &&
            c->worker[worker].ends != table));
    assert(!t->own_clock || c->worker[worker].extra[table] == 0);
    held = cache_holds(c, table, row);
    if (held < c->base || held < cache_needed(c, worker, table)) {
        cache_ask(c, worker, table, row, 0);
        return false;
    }
    if (out)
        memcpy(out, cache_place(c, table, row), t->t->value_bytes);
    if (clock)
        *clock = held;
    c->stats.hits++;
    if (t->versions)
        note_version(c, worker, table, row);
    if (c->opt.consistency->bounds)
        staleness_add(&c->seen, held - 1 - cache_clock(c, worker, table));
    return true;
}

/* ---- clocks -------------------------------------------------------------- */

static bool has_batches(const struct cache_worker *w, uint32_t table)
{
    for (uint32_t i = 0; i < w->batches; i++)
        if (table == FRAME_ALL_TABLES || w->batch[i].table == table)
            return true;
    return false;
}

/* Tables whose own clock was ended before are at this clock already. */
static void count_clock(const struct cache *c, struct cache_worker *w,
                        uint32_t table)
{
    if (table != FRAME_ALL_TABLES) {
        assert(!c->table[table].own_clock || w->extra[table] == 0);
        w->extra[table]++;
        return;
    }
    w->all++;
    for (uint32_t t = 0; t < c->opt.tables; t++)
        if (c->table[t].own_clock)
            w->extra[t] = 0;
}

void cache_end_clock(struct cache *c, uint32_t worker, uint32_t table,
                     double seconds)
{
    struct cache_worker *w = &c->worker[worker];

    assert(worker < c->opt.workers && !w->drained && w->sending == 0);
    assert(!has_batches(w, table));
    w->ends = table;
    for (uint32_t t = 0; t < c->opt.tables; t++)
        w->ended[t] = c->table[t].own_clock && w->extra[t] > 0;
    w->seconds = seconds;
    w->sending = c->opt.nodes;
    count_clock(c, w, table);
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        w->cursor[i] = (struct cache_cursor){.busy = true};
}

bool cache_sent(const struct cache *c, uint32_t worker)
{
    assert(worker < c->opt.workers);
    return c->worker[worker].sending == 0;
}

bool cache_may_go_on(const struct cache *c, uint32_t worker)
{
    assert(worker < c->opt.workers);
    return cache_sent(c, worker) &&
           (!c->opt.consistency->barrier || all_applied(c, &c->worker[worker]));
}

/* Reads that it asked for and that have not left are forgotten: others who want
 * the rows ask themselves. */
static void forget_wants(struct cache *c, uint32_t worker, uint32_t node)
{
    struct cache_node *n = &c->node[node];
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n->wants; i++) {
        struct want w = n->want[i];

        if (w.worker != worker) {
            n->want[kept++] = w;
            continue;
        }
        rowset_remove(&c->worker[worker].asked[w.table], w.row);
        c->worker[worker].asks[node]--;
        n->asked--;
    }
    n->wants = kept;
}

void cache_drain(struct cache *c, uint32_t worker)
{
    assert(worker < c->opt.workers && cache_sent(c, worker));
    assert(!c->worker[worker].drained && c->worker[worker].batches == 0);
    c->worker[worker].drained = true;
    c->worker[worker].drain_slice = c->slice;
    for (uint32_t i = 0; i < c->opt.nodes; i++) {
        c->worker[worker].cursor[i] = (struct cache_cursor){.drain_due = true};
        forget_wants(c, worker, i);
    }
}

bool cache_quiet(const struct cache *c)
{
    for (uint32_t i = 0; i < c->opt.workers; i++) {
        if (!c->worker[i].drained)
            return false;
        for (uint32_t k = 0; k < c->opt.nodes; k++)
            if (c->worker[i].cursor[k].drain_due)
                return false;
    }
    return true;
}
