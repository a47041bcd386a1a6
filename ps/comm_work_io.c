/* What workers call. */
#include "ps/comm_parts_io.h"

#include <assert.h>

/* ---- waiting ------------------------------------------------------------- */

/* Lets the lock go until something has changed. */
static void wait_change(struct comm *c, struct mlt_worker *w)
{
    uint32_t ticket = runtime_ticket(c->ps);

    comm_unlock(c);
    runtime_wait(w, ticket);
    comm_lock(c);
}

/* Sends what there is, and lets those know that wait for this node. */
static void say(struct comm *c)
{
    comm_pump(c);
    runtime_progress(c->ps);
}

static int run_error(const struct comm *c)
{
    if (c->broken.code)
        return ERR_NODE;
    return runtime_failed(c->ps) ? ERR_CANCELED : ERR_OK;
}

int comm_enter(struct mlt_worker *w)
{
    struct comm *c = w->ps->comm;
    int err;

    comm_lock(c);
    while (!(err = run_error(c)) && !cache_begun(c->cache))
        wait_change(c, w);
    comm_unlock(c);
    w->clock_ns = (uint64_t)clock_monotonic();
    w->clock_wait_ns = w->counters.wait_ns;
    return err;
}

/* ---- reading ------------------------------------------------------------- */

/* Rows of this node's stores that nobody changes while they may be read. */
static bool is_here(const struct mlt_ps *ps, const struct view *v, uint64_t row)
{
    return row - v->node_first < v->node_count &&
           (v->table->access == MLT_EXCLUSIVE || ps->consistency->barrier);
}

static unsigned char *row_here(struct mlt_worker *w, struct view *v,
                               uint64_t row)
{
    bool own = v->table->access == MLT_EXCLUSIVE && row - v->first < v->count &&
               w->ps->active_type != BRANCH_KEPT &&
               w->ps->active_type != BRANCH_TESTING;

    return own ? view_write(w, v, row, &w->counters) : view_row(v, row);
}

/* Where the worker finds a row that it has had. Under barriers rows that were
 * read once in a run are kept fresh (pushed) where they are; an exclusive
 * table's are asked for anew in each clock, and so are all without barriers. */
static const void *row_had(struct mlt_worker *w, struct view *v, uint64_t row)
{
    bool pushed = w->ps->consistency->barrier && v->updates;

    if (v->held[row] < (pushed ? w->slice_clock : w->own_clock))
        return NULL;
    return v->copy ? v->copy + row * v->value_bytes
                   : cache_place(w->ps->comm->cache, v->index, row);
}

/* Rows of @out that are still NULL, as far as the cache has them; sends for
 * the others. Returns how many are missing. */
static size_t read_missing(struct comm *c, struct mlt_worker *w, struct view *v,
                           size_t n, const uint64_t rows[], const void *out[])
{
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t row = rows[i];
        unsigned char *copy = v->copy ? v->copy + row * v->value_bytes : NULL;

        if (out[i])
            continue;
        if (!cache_read(c->cache, w->index, v->index, row, copy, NULL)) {
            missing++;
            continue;
        }
        v->held[row] = w->own_clock;
        out[i] = copy ? copy : cache_place(c->cache, v->index, row);
    }
    return missing;
}

static int fetch(struct mlt_worker *w, struct view *v, size_t n,
                 const uint64_t rows[], const void *out[])
{
    struct comm *c = w->ps->comm;
    int err;

    comm_lock(c);
    while (!(err = run_error(c)) && read_missing(c, w, v, n, rows, out)) {
        say(c);
        if (read_missing(c, w, v, n, rows, out) == 0)
            break;
        wait_change(c, w);
    }
    comm_unlock(c);
    return err;
}

int comm_get_rows(struct mlt_worker *w, struct view *v, size_t n,
                  const uint64_t rows[], const void *out[])
{
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        if (rows[i] >= v->rows)
            core_misuse("table %s: row %llu is out of range", v->table->name,
                        (unsigned long long)rows[i]);
        out[i] = is_here(w->ps, v, rows[i]) ? row_here(w, v, rows[i])
                                            : row_had(w, v, rows[i]);
        missing += !out[i];
    }
    return missing ? fetch(w, v, n, rows, out) : ERR_OK;
}

/* ---- clocks -------------------------------------------------------------- */

static bool ends(const struct view *v, mlt_table table)
{
    return v->updates && (table == CORE_ALL_TABLES || table == v->index);
}

static void clear_updates(struct mlt_worker *w, mlt_table table)
{
    for (mlt_table t = 0; t < w->ps->tables; t++)
        if (ends(&w->view[t], table))
            update_clear(&w->view[t].update);
}

/* What the worker has said before has left; then the buffers of a table that
 * ended its clock early are free again. */
static void wait_sent(struct comm *c, struct mlt_worker *w)
{
    while (!c->broken.code && !cache_sent(c->cache, w->index))
        wait_change(c, w);
    if (w->early)
        clear_updates(w, w->early - 1);
    w->early = 0;
}

static double work_seconds(const struct mlt_worker *w)
{
    uint64_t spent = (uint64_t)clock_monotonic() - w->clock_ns;
    uint64_t waited = w->counters.wait_ns - w->clock_wait_ns;

    return spent > waited ? (double)(spent - waited) * 1e-9 : 0;
}

static void check_ended_early(const struct mlt_worker *w, mlt_table table)
{
    for (mlt_table t = 0; t < w->ps->tables; t++) {
        const struct view *v = &w->view[t];

        if (ends(v, table) && v->ended && w->early != t + 1 &&
            !update_is_empty(&v->update))
            core_misuse("table %s: updated after its clock was ended",
                        v->table->name);
    }
}

static int send_clock(struct comm *c, struct mlt_worker *w, mlt_table table)
{
    int err;

    wait_sent(c, w);
    err = run_error(c);
    if (err)
        return err;
    check_ended_early(w, table);
    cache_end_clock(c->cache, w->index, table, work_seconds(w));
    say(c);
    return ERR_OK;
}

static void next_clock(struct mlt_worker *w, mlt_table table)
{
    for (mlt_table t = 0; t < w->ps->tables; t++)
        if (ends(&w->view[t], table))
            w->view[t].ended = false;
    w->own_clock++;
    w->clock_ns = (uint64_t)clock_monotonic();
    w->clock_wait_ns = w->counters.wait_ns;
}

int comm_end_clock(struct mlt_worker *w, mlt_table table)
{
    struct comm *c = w->ps->comm;
    int err;

    comm_lock(c);
    err = send_clock(c, w, table);
    if (!err) {
        wait_sent(c, w);
        clear_updates(w, table);
        while (!(err = run_error(c)) && !cache_may_go_on(c->cache, w->index))
            wait_change(c, w);
    }
    comm_unlock(c);
    next_clock(w, table);
    return err;
}

int comm_end_early(struct mlt_worker *w, mlt_table table)
{
    struct comm *c = w->ps->comm;
    struct view *v = &w->view[table];
    int err;

    if (v->ended)
        core_misuse("table %s: its clock was ended twice before mlt_clock",
                    v->table->name);
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

void comm_finish(struct mlt_worker *w)
{
    struct comm *c = w->ps->comm;

    comm_lock(c);
    wait_sent(c, w);
    clear_updates(w, CORE_ALL_TABLES);
    if (!c->broken.code) {
        cache_drain(c->cache, w->index);
        say(c);
    }
    while (!c->broken.code && (c->running || !cache_quiet(c->cache)))
        wait_change(c, w);
    comm_unlock(c);
}
