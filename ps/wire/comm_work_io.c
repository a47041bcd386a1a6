/* Calls of the workers. */
#include "ps/server/errors.h"
#include "ps/wire/comm_internal_io.h"

#include <assert.h>

enum {
    EARLY_PART_BYTES = 256 << 10, /* of known rows, so that some go first */
    /* Looking for known rows costs as much whether they have come or not: it is
     * done again when this part of them may have. */
    PREFETCH_LIST_PART = 16
};

/* ---- waiting ------------------------------------------------------------- */

void comm_wait_change(struct comm *c, struct mlt_worker *w)
{
    uint32_t ticket = runtime_ticket(c->ps);
    int64_t begin = clock_monotonic();
    bool attends = c->mapped && !c->attended;

    if (attends && comm_ring_attend(c, w, ticket, begin))
        return;
    comm_unlock(c);
    runtime_wait_on(w, ticket, begin);
    comm_lock(c);
    if (attends)
        comm_ring_waited(c, clock_monotonic() - begin);
}

void comm_say(struct comm *c)
{
    comm_pump(c);
    runtime_progress(c->ps);
}

int comm_run_error(const struct comm *c)
{
    if (c->broken.code)
        return ERR_NODE;
    return runtime_failed(c->ps) ? ERR_CANCELED : ERR_OK;
}

int comm_enter(struct peers *p, struct mlt_worker *w)
{
    struct comm *c = comm_of(p);
    int err;

    assert(w->ps == c->ps);
    comm_lock(c);
    while (!(err = comm_run_error(c)) && !cache_begun(c->cache))
        comm_wait_change(c, w);
    comm_unlock(c);
    w->clock_ns = (uint64_t)clock_monotonic();
    w->clock_wait_ns = w->counters.wait_ns;
    return err;
}

/* ---- reading ------------------------------------------------------------- */

/* Rows of this node's stores that nobody changes while they may be read. */
static bool is_here(const struct comm *c, const struct worker_view *v,
                    uint64_t row)
{
    return row - v->node_first < v->node_count &&
           (table_is_exclusive(v->table) ||
            shape_consistency(c->shape)->barrier);
}

static unsigned char *row_here(const struct comm *c, struct mlt_worker *w,
                               struct worker_view *v, uint64_t row)
{
    bool own = table_is_exclusive(v->table) && row - v->first < v->count &&
               c->run.type != BRANCH_KEPT && c->run.type != BRANCH_TESTING;

    return own ? view_write(w, v, row, &w->counters) : view_row(v, row);
}

/* Since which of its clocks the worker has a row. Under barriers rows that were
 * read once in a run are kept fresh (pushed) where they are; an exclusive
 * table's are asked for anew in each clock, and so are all without barriers. */
static int64_t held_since(const struct comm *c, const struct mlt_worker *w,
                          const struct worker_view *v)
{
    bool pushed = shape_consistency(c->shape)->barrier && v->updates;

    return pushed ? w->slice_clock : w->own_clock;
}

static const void *place_had(const struct comm *c, const struct worker_view *v,
                             uint64_t row)
{
    return v->copy ? v->copy + slots_of(&v->slots, row) * v->value_bytes
                   : cache_place(c->cache, v->index, row);
}

/* With a budget rows are pushed while a clock runs: what was fetched when it
 * began is in the cache, where it may be newer now. */
static bool is_fresher_later(const struct comm *c)
{
    return c->run.bandwidth_mbps > 0 && shape_consistency(c->shape)->pushes &&
           !shape_consistency(c->shape)->barrier;
}

/* Where the worker notes when it had a row; only of one that is read, or is
 * known to be, since it has a slot from then on. */
static int64_t *mark_of(const struct worker_view *v, uint64_t row)
{
    return &v->held[slots_take(&v->slots, row)];
}

/* Where the worker finds a row that it has had, or that was fetched because it
 * was known; else NULL. */
static const void *row_had(const struct comm *c, const struct mlt_worker *w,
                           struct worker_view *v, uint64_t row)
{
    int64_t since = held_since(c, w, v);
    int64_t *mark;

    if (!slots_has(&v->slots, row))
        return NULL;
    mark = &v->held[slots_of(&v->slots, row)];
    if (*mark >= since)
        return place_had(c, v, row);
    if (!prefetch_list_is_fetched(*mark, since) || is_fresher_later(c))
        return NULL;
    *mark = w->own_clock;
    return place_had(c, v, row);
}

static bool read_cache(struct comm *c, struct mlt_worker *w,
                       struct worker_view *v, uint64_t row)
{
    unsigned char *out = NULL;

    if (v->copy)
        out = v->copy + slots_take(&v->slots, row) * v->value_bytes;
    return cache_read(c->cache, w->index, v->index, row, out, NULL);
}

/* Rows of @out that are still NULL, as far as the cache has them; sends for
 * the others. Returns how many are missing. */
static size_t read_missing(struct comm *c, struct mlt_worker *w,
                           struct worker_view *v, size_t n,
                           const uint64_t rows[], const void *out[])
{
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t row = view_number(v, rows[i]);

        if (out[i])
            continue;
        if (v->known)
            prefetch_list_note(v->known, row, &v->slots, v->held);
        if (!read_cache(c, w, v, row)) {
            missing++;
            continue;
        }
        *mark_of(v, row) = w->own_clock;
        out[i] = place_had(c, v, row);
    }
    return missing;
}

/* Known rows that the worker will read in this clock: takes those that are
 * here, sends for the others, as many as may be under way. */
static void read_known(struct comm *c, struct mlt_worker *w,
                       struct worker_view *v)
{
    struct prefetch_list *k = v->known;
    uint64_t answers = cache_stats(c->cache).answers + 1;
    size_t kept = 0;

    if (k->seen && answers - k->seen < k->waits / PREFETCH_LIST_PART)
        return;
    k->seen = answers;
    for (size_t i = 0; i < k->waits; i++) {
        uint32_t row = k->wait[i];

        if (*mark_of(v, row) >= held_since(c, w, v) || is_here(c, v, row))
            continue;
        if (read_cache(c, w, v, row))
            *mark_of(v, row) = prefetch_list_fetched(k->clock);
        else
            k->wait[kept++] = row;
    }
    k->waits = kept;
}

/* Sends for @rows, and at the first time in a clock for all that are known.
 * What is needed now is ahead of the rest; of much rest it is sent before that
 * is even listed, and the rows that come in one go are what the worker has time
 * to work on meanwhile. */
static size_t send_for(struct comm *c, struct mlt_worker *w,
                       struct worker_view *v, size_t n, const uint64_t rows[],
                       const void *out[])
{
    struct prefetch_list *k = v->known;
    size_t missing = read_missing(c, w, v, n, rows, out);

    if (k && k->waits) {
        if (missing && k->waits * v->value_bytes > EARLY_PART_BYTES)
            comm_say(c);
        read_known(c, w, v);
    }
    return missing;
}

/* Sends what was asked for and looks again. What this node says to itself is
 * answered at once, so that a read may be asked for now that could not be
 * before: too many were under way, or another worker's answer has turned out
 * too old. Then it is yet to be sent, and maybe nothing else will ever make the
 * node send. False: all that can be asked for has left. */
static bool asks_anew(struct comm *c, struct mlt_worker *w,
                      struct worker_view *v, size_t n, const uint64_t rows[],
                      const void *out[], size_t *missing)
{
    uint64_t asked;

    comm_say(c);
    asked = cache_stats(c->cache).asked;
    *missing = read_missing(c, w, v, n, rows, out);
    return cache_stats(c->cache).asked != asked;
}

/* The first read of a clock lists what is known. */
static void list_known(struct comm *c, const struct mlt_worker *w,
                       struct worker_view *v)
{
    if (v->known && v->known->clock != w->own_clock)
        prefetch_list_begin(v->known, w->part, w->own_clock,
                            held_since(c, w, v), &v->slots, v->held);
}

static int fetch(struct comm *c, struct mlt_worker *w, struct worker_view *v,
                 size_t n, const uint64_t rows[], const void *out[])
{
    struct prefetch_list *k = v->known;
    size_t missing;
    int err;

    comm_lock(c);
    list_known(c, w, v);
    while (!(err = comm_run_error(c)) && send_for(c, w, v, n, rows, out)) {
        if (asks_anew(c, w, v, n, rows, out, &missing))
            continue;
        if (missing == 0)
            break;
        /* Sending may have broken the run off: nobody will say so again. */
        if (!comm_run_error(c))
            comm_wait_change(c, w);
    }
    if (!err && k && k->waits)
        read_known(c, w, v);
    comm_unlock(c);
    return err;
}

int comm_get_rows(struct peers *p, struct mlt_worker *w, struct worker_view *v,
                  size_t n, const uint64_t rows[], const void *out[])
{
    struct comm *c = comm_of(p);
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t row;

        if (rows[i] >= v->rows)
            ps_misuse("table %s: row %llu is out of range",
                      table_name(v->table), (unsigned long long)rows[i]);
        row = view_number(v, rows[i]);
        out[i] =
            is_here(c, v, row) ? row_here(c, w, v, row) : row_had(c, w, v, row);
        missing += !out[i];
    }
    return missing ? fetch(c, w, v, n, rows, out) : ERR_OK;
}

/* The batch leaves ahead of what else is known. */
void comm_begin_batch(struct peers *p, struct mlt_worker *w,
                      struct worker_view *v, const struct get_batch *b)
{
    struct comm *c = comm_of(p);

    comm_lock(c);
    cache_fetch(c->cache, w->index, b->number, b->table, b->n, b->rows);
    comm_say(c);
    list_known(c, w, v);
    if (v->known && v->known->waits && !comm_run_error(c)) {
        read_known(c, w, v);
        comm_say(c);
    }
    comm_unlock(c);
}

void comm_end_batch(struct peers *p, const struct mlt_worker *w,
                    uint64_t number)
{
    struct comm *c = comm_of(p);

    comm_lock(c);
    cache_fetch_end(c->cache, w->index, number);
    comm_unlock(c);
}

/* ---- clocks -------------------------------------------------------------- */

static bool ends(const struct worker_view *v, mlt_table table)
{
    return v->updates && (table == WORKER_ALL_TABLES || table == v->index);
}

static void clear_updates(const struct comm *c, struct mlt_worker *w,
                          mlt_table table)
{
    for (mlt_table t = 0; t < shape_tables(c->shape); t++)
        if (ends(&w->view[t], table))
            update_clear(&w->view[t].update);
}

bool comm_has_barriers(const struct comm *c)
{
    return shape_consistency(c->shape)->barrier;
}

/* Under barriers sums are read in the workers' buffers until they are applied:
 * by the shard of this node, and by who sends those of several workers. */
static bool sums_stay(const struct comm *c)
{
    return comm_has_barriers(c);
}

/* Waits until the worker's frames have left; then the buffers of a table that
 * ended its clock early are free again. */
static void wait_sent(struct comm *c, struct mlt_worker *w)
{
    while (!c->broken.code && !cache_sent(c->cache, w->index))
        comm_wait_change(c, w);
    if (w->early && !sums_stay(c))
        clear_updates(c, w, w->early - 1);
    w->early = 0;
}

static double work_seconds(const struct mlt_worker *w)
{
    uint64_t spent = (uint64_t)clock_monotonic() - w->clock_ns;
    uint64_t waited = w->counters.wait_ns - w->clock_wait_ns;

    return spent > waited ? (double)(spent - waited) * 1e-9 : 0;
}

static void check_ended_early(const struct comm *c, const struct mlt_worker *w,
                              mlt_table table)
{
    if (sums_stay(c))
        return;
    for (mlt_table t = 0; t < shape_tables(c->shape); t++) {
        const struct worker_view *v = &w->view[t];

        if (ends(v, table) && v->ended && w->early != t + 1 &&
            !update_is_empty(&v->update))
            ps_misuse("table %s: updated after its clock was ended",
                      table_name(v->table));
    }
}

static int send_clock(struct comm *c, struct mlt_worker *w, mlt_table table)
{
    int err;

    wait_sent(c, w);
    err = comm_run_error(c);
    if (err)
        return err;
    check_ended_early(c, w, table);
    cache_end_clock(c->cache, w->index, table, work_seconds(w));
    comm_say(c);
    return ERR_OK;
}

static void next_clock(const struct comm *c, struct mlt_worker *w,
                       mlt_table table)
{
    for (mlt_table t = 0; t < shape_tables(c->shape); t++)
        if (ends(&w->view[t], table))
            w->view[t].ended = false;
    w->holds = false;
    w->own_clock++;
    w->clock_ns = (uint64_t)clock_monotonic();
    w->clock_wait_ns = w->counters.wait_ns;
}

int comm_end_clock(struct peers *p, struct mlt_worker *w, mlt_table table)
{
    struct comm *c = comm_of(p);
    int err;

    assert(w->index < shape_own_workers(c->shape));
    comm_lock(c);
    err = send_clock(c, w, table);
    if (!err) {
        wait_sent(c, w);
        if (!sums_stay(c))
            clear_updates(c, w, table);
        while (!(err = comm_run_error(c)) &&
               !cache_may_go_on(c->cache, w->index))
            comm_wait_change(c, w);
        if (sums_stay(c) && !err)
            clear_updates(c, w, table);
    }
    comm_unlock(c);
    next_clock(c, w, table);
    return err;
}

int comm_end_early(struct peers *p, struct mlt_worker *w, mlt_table table)
{
    struct comm *c = comm_of(p);
    struct worker_view *v = &w->view[table];
    int err;

    assert(v->own_clock);
    if (v->ended)
        ps_misuse("table %s: its clock was ended twice before mlt_clock",
                  table_name(v->table));
    comm_lock(c);
    err = send_clock(c, w, table);
    if (!err) {
        v->ended = true;
        w->early = table + 1;
    }
    comm_unlock(c);
    return err;
}

/* ---- the end of a run ---------------------------------------------------- */

void comm_finish(struct peers *p, struct mlt_worker *w)
{
    struct comm *c = comm_of(p);

    assert(w->index < shape_own_workers(c->shape));
    comm_lock(c);
    courier_forget(c->courier); /* only of a run that fails there is one */
    wait_sent(c, w);
    clear_updates(c, w, WORKER_ALL_TABLES);
    if (!c->broken.code) {
        cache_drain(c->cache, w->index);
        comm_say(c);
    }
    while (!c->broken.code && (c->running || !cache_quiet(c->cache)))
        comm_wait_change(c, w);
    comm_unlock(c);
}
