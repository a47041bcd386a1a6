#include "ps/server/clock.h"

#include "ps/rows/rule.h"
#include "ps/server/apply.h"
#include "ps/server/ask.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/server/runtime.h"
#include "ps/server/versions.h"

#include <assert.h>

/* Runs @step on the tables whose clock ends: one, or all shared ones. */
static void for_ending_tables(struct mlt_worker *w, mlt_table table,
                              void (*step)(struct mlt_worker *, mlt_table))
{
    if (table != WORKER_ALL_TABLES) {
        if (w->view[table].updates)
            step(w, table);
        return;
    }
    for (mlt_table t = 0; t < w->ps->shape.tables; t++)
        if (w->view[t].updates)
            step(w, t);
}

/* A table's new clock begins without updates, and with no read granted. */
static void begin_clock(struct mlt_worker *w, mlt_table table)
{
    struct worker_view *v = &w->view[table];

    update_clear(&v->update);
    v->asked = -1;
    v->ended = false;
    v->applied = false;
}

/* The clock that @w ends in the meeting that comes next, which it returns. Two
 * places will do: what it says for the meeting after the next takes this one's
 * place only when all have come to the next, and so have read what was said for
 * this one. */
static uint32_t say_end(struct mlt_worker *w, mlt_table table)
{
    uint32_t meeting = runtime_meeting(w->ps);

    w->ends[meeting % 2] = table;
    return meeting;
}

/* The clock that ends, after @meeting: of whichever worker has not finished its
 * run. */
static mlt_table agreed_table(const struct mlt_worker *w, uint32_t meeting)
{
    const struct mlt_ps *ps = w->ps;
    mlt_table table = WORKER_ALL_TABLES;
    bool found = false;

    for (unsigned i = 0; i < ps->shape.workers; i++) {
        mlt_table ends = ps->shape.worker[i].ends[meeting % 2];

        if (ends == WORKER_NO_CLOCK)
            continue;
        if (found && ends != table)
            ps_misuse("workers end clocks of different tables");
        table = ends;
        found = true;
    }
    return table;
}

/* The shard's part of a table's sums, once a clock. */
static void apply_once(struct mlt_worker *w, mlt_table table)
{
    if (!w->view[table].applied)
        apply_own_part(w, table);
    w->view[table].applied = true;
}

static bool has_buffers(const struct mlt_worker *w)
{
    for (mlt_table t = 0; t < w->ps->shape.tables; t++)
        if (w->view[t].updates)
            return true;
    return false;
}

/* Between @meeting and another one all buffers stand still, so that each owner
 * can sum them; after the second only their own workers touch them. The second
 * is sure to come about: a run is canceled before a clock's sums are applied or
 * after, never in between. A server without such tables needs none: nothing of
 * a worker that others read now changes before they come to the next meeting.
 */
static void apply_and_meet(struct mlt_worker *w, uint32_t meeting)
{
    mlt_table table = agreed_table(w, meeting);

    if (!has_buffers(w))
        return;
    for_ending_tables(w, table, apply_once);
    runtime_meet_surely(w);
    for_ending_tables(w, table, begin_clock);
}

static void publish_clock(struct mlt_worker *w, mlt_table table)
{
    _Atomic int64_t *clock =
        table == WORKER_ALL_TABLES ? &w->all : &w->extra[table];

    atomic_store_explicit(clock,
                          atomic_load_explicit(clock, memory_order_relaxed) + 1,
                          memory_order_release);
    if (table == WORKER_ALL_TABLES)
        w->begun = false;
    runtime_clock_ended(w);
    runtime_progress(w->ps);
}

/* ---- tables that end their clock early ----------------------------------- */

static void count_own_clock(struct mlt_worker *w, mlt_table table)
{
    _Atomic int64_t *clock = &w->extra[table];

    atomic_store_explicit(clock,
                          atomic_load_explicit(clock, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Whether every worker has ended this clock of @table. One that is a clock
 * ahead cannot be: it would wait for this one at mlt_clock. */
static bool all_have_ended(const struct mlt_worker *w, mlt_table table)
{
    const struct mlt_ps *ps = w->ps;
    int64_t own = atomic_load_explicit(&w->extra[table], memory_order_relaxed);

    for (unsigned i = 0; i < ps->shape.workers; i++)
        if (atomic_load_explicit(&ps->shape.worker[i].extra[table],
                                 memory_order_acquire) < own)
            return false;
    return true;
}

/* Under barriers: a table that all workers have ended is read by nobody and no
 * buffer of it changes until mlt_clock, so its owners may apply the sums. */
static void apply_what_all_ended(struct mlt_worker *w)
{
    for (mlt_table t = 0; t < w->ps->shape.tables; t++)
        if (w->view[t].ended && !w->view[t].applied && all_have_ended(w, t))
            apply_once(w, t);
}

/* Copies of a table with MLT_READ_MY_WRITES, all taken before these updates
 * were applied, hold them from now on. */
static void keep_own(struct worker_view *v)
{
    const struct update *own = &v->update;
    struct update_walk walk;
    uint64_t row;

    if (!v->mine || !v->copy)
        return;
    update_walk_init(&walk, 0, v->rows);
    while (update_walk_next(&walk, &own, 1, &row))
        if (slots_has(&v->slots, row))
            rule_accumulate(table_value_type(v->table), table_width(v->table),
                            v->copy + slots_of(&v->slots, row) * v->value_bytes,
                            update_row(own, row));
}

static void end_early(struct mlt_worker *w, mlt_table table)
{
    const struct mlt_ps *ps = w->ps;
    struct worker_view *v = &w->view[table];

    assert(v->own_clock);
    if (v->ended)
        ps_misuse("table %s: its clock was ended twice before mlt_clock",
                  table_name(v->table));
    if (ps->shape.consistency->barrier || ps->shape.workers == 1) {
        v->ended = true;
        count_own_clock(w, table);
        apply_what_all_ended(w);
        return;
    }
    apply_everywhere(w, table);
    keep_own(v);
    begin_clock(w, table);
    v->ended = true;
    count_own_clock(w, table);
    runtime_progress(w->ps);
}

/* mlt_clock without barriers: of an own clock, unless it was ended. */
static void end_without_barrier(struct mlt_worker *w, mlt_table table)
{
    struct worker_view *v = &w->view[table];

    if (v->ended && !update_is_empty(&v->update))
        ps_misuse("table %s: updated after its clock was ended",
                  table_name(v->table));
    if (!v->ended) {
        apply_everywhere(w, table);
        keep_own(v);
        if (v->own_clock)
            count_own_clock(w, table);
    }
    begin_clock(w, table);
}

/* mlt_clock with them: what was not ended early counts now. */
static void count_if_not_ended(struct mlt_worker *w, mlt_table table)
{
    if (w->view[table].own_clock && !w->view[table].ended)
        count_own_clock(w, table);
}

/* ---- the end of a clock -------------------------------------------------- */

static int end_clock(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = w->ps;
    uint32_t meeting;
    int err = ERR_OK;

    if (ps->shape.workers == 1) {
        for_ending_tables(w, table, apply_once);
        for_ending_tables(w, table, begin_clock);
    } else if (ps->shape.consistency->barrier) {
        if (table == WORKER_ALL_TABLES)
            for_ending_tables(w, table, count_if_not_ended);
        meeting = say_end(w, table);
        err = runtime_meet_for_clock(w);
        if (!err)
            apply_and_meet(w, meeting);
    } else {
        for_ending_tables(w, table, end_without_barrier);
        publish_clock(w, table);
    }
    return err;
}

static int end_all(struct mlt_worker *w, mlt_table table)
{
    struct peers *peers = w->ps->peers;
    int err = ERR_OK;

    if (!peers)
        err = end_clock(w, table);
    else if (table == WORKER_ALL_TABLES && w->ps->shape.consistency->barrier)
        err = runtime_say_clock(w);
    if (peers && !err)
        err = peers->ops->end_clock(peers, w, table);
    if (!err && table == WORKER_ALL_TABLES)
        w->clocks++;
    return err;
}

void clock_end_batch(struct mlt_worker *w, const struct get_batch *b)
{
    struct peers *peers = w->ps->peers;

    if (peers)
        peers->ops->end_batch(peers, w, b->number);
    batches_end(&w->batches, b);
}

static void drop_batches(struct mlt_worker *w, mlt_table table)
{
    mlt_table of = table == WORKER_ALL_TABLES ? BATCHES_ALL_TABLES : table;
    const struct get_batch *b;

    while ((b = batches_of(&w->batches, of)))
        clock_end_batch(w, b);
}

int clock_end(struct mlt_worker *w, mlt_table table)
{
    if (runtime_self() != w)
        ps_misuse("mlt_clock by a thread that is not this worker's");
    drop_batches(w, table);
    if (runtime_failed(w->ps))
        return ERR_CANCELED;
    if (w->ps->device &&
        (table == WORKER_ALL_TABLES || device_has(w->ps->device, table))) {
        enum err err = device_end_clock(w, table);

        if (err || table != WORKER_ALL_TABLES)
            return err;
    }
    if (table == WORKER_ALL_TABLES || !w->view[table].own_clock)
        return end_all(w, table);
    if (w->ps->peers)
        return w->ps->peers->ops->end_early(w->ps->peers, w, table);
    end_early(w, table);
    return ERR_OK;
}

static void assert_nothing_pending(const struct mlt_worker *w)
{
    for (mlt_table t = 0; t < w->ps->shape.tables; t++)
        if (w->view[t].updates && !update_is_empty(&w->view[t].update))
            ps_misuse("worker %u ended its run with updates of table %s "
                      "after its last mlt_clock",
                      w->index, table_name(w->view[t].table));
}

static bool all_finished(const struct mlt_ps *ps, uint32_t meeting)
{
    for (unsigned i = 0; i < ps->shape.workers; i++)
        if (ps->shape.worker[i].ends[meeting % 2] != WORKER_NO_CLOCK)
            return false;
    return true;
}

/* A worker that is back goes on to apply for its shard until all are: workers
 * may end different numbers of clocks. */
void clock_finish(struct mlt_worker *w)
{
    struct mlt_ps *ps = w->ps;
    uint32_t meeting;

    drop_batches(w, WORKER_ALL_TABLES);
    if (runtime_failed(ps) == 0)
        assert_nothing_pending(w);
    runtime_back(w);
    if (ps->peers) {
        ps->peers->ops->finish(ps->peers, w);
        return;
    }
    if (ps->shape.workers == 1)
        return;
    if (!ps->shape.consistency->barrier) {
        atomic_store_explicit(&w->available, false, memory_order_release);
        runtime_progress(ps);
        return;
    }
    while (!runtime_failed(ps)) {
        meeting = say_end(w, WORKER_NO_CLOCK);
        if (runtime_meet(w) != 0 || all_finished(ps, meeting))
            return;
        apply_and_meet(w, meeting);
    }
}

int64_t clock_of(const struct mlt_worker *w, mlt_table table)
{
    int64_t extra = 0;

    if (table != WORKER_ALL_TABLES)
        extra = atomic_load_explicit(&w->extra[table], memory_order_acquire);
    if (table != WORKER_ALL_TABLES && w->view[table].own_clock)
        return extra;
    return atomic_load_explicit(&w->all, memory_order_acquire) + extra;
}

void clock_status(const struct mlt_ps *ps, mlt_table table,
                  struct worker_status out[])
{
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        const struct mlt_worker *other = &ps->shape.worker[i];

        out[i].available =
            atomic_load_explicit(&other->available, memory_order_acquire);
        out[i].clock = clock_of(other, table);
        out[i].task_s =
            atomic_load_explicit(&other->task_s, memory_order_relaxed);
        out[i].busy = true;
    }
    consistency_rank(out, ps->shape.workers);
}

void clock_grant(const struct consistency_ops *m,
                 const struct consistency_view *view, struct worker_view *v)
{
    v->asked = view->worker[view->self].clock;
    v->holds = m->holds(view);
    v->needs = m->needs(view);
    assert(v->holds >= v->needs);
}

/* Two loads, and neither clock ever falls: the sum is never above what the
 * worker had reached by the second. */
static bool may_read(struct mlt_worker *w, struct worker_view *v)
{
    const struct mlt_ps *ps = w->ps;
    struct worker_status status[WORKERS_MAX];
    struct consistency_view view = {
        .worker = status,
        .workers = ps->shape.workers,
        .self = w->index,
        .staleness = ps->staleness,
        .rule = barrier_rule_with(ps->shape.rule, ps->quorum)};

    clock_status(ps, v->index, status);
    if (!ps->shape.consistency->may_read(&view))
        return false;
    clock_grant(ps->shape.consistency, &view, v);
    return true;
}

int clock_wait_read(struct mlt_worker *w, struct worker_view *v)
{
    assert(v->asked < 0);
    if (w->ps->shape.consistency->user)
        return ask_wait(w, v);
    for (;;) {
        uint32_t ticket = runtime_ticket(w->ps);

        if (runtime_failed(w->ps))
            return ERR_CANCELED;
        if (may_read(w, v))
            return ERR_OK;
        runtime_wait(w, ticket);
    }
}

/* A copy that was taken in an earlier slice holds at most the clock that the
 * slice ended with; starting further above it than any staleness makes every
 * copy too old, without touching it. */
void clock_begin_run(struct mlt_ps *ps)
{
    int64_t highest = 0, begin;

    for (mlt_table t = 0; t < ps->shape.tables; t++)
        versions_reset(ps->history[t]);
    for (unsigned i = 0; i < ps->shape.workers; i++)
        for (mlt_table t = 0; t < ps->shape.tables; t++) {
            int64_t clock = clock_of(&ps->shape.worker[i], t);

            highest = clock > highest ? clock : highest;
        }
    begin = highest + PS_STALENESS_MAX + 1;
    ps->run_base = begin;
    ps->stuck = (struct fault){0};
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct mlt_worker *w = &ps->shape.worker[i];

        atomic_store(&w->all, begin);
        atomic_store(&w->available, true);
        atomic_store(&w->meets, 0);
        atomic_store(&w->ending, 0);
        w->begun = false;
        w->asks = 0;
        w->clocks = 0;
        w->tasks = 0;
        atomic_store(&w->task_s, 0);
        for (mlt_table t = 0; t < ps->shape.tables; t++) {
            atomic_store(&w->extra[t], w->view[t].own_clock ? begin : 0);
            if (w->view[t].slots.state) /* what lies by them is too old now */
                slots_settle(&w->view[t].slots, view_slot_bytes(&w->view[t]));
            if (w->view[t].updates)
                begin_clock(w, t);
        }
    }
}
