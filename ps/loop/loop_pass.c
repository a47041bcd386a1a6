/* A pass of a loop: each worker goes through its steps, and waits in each for
 * the one worker that had the part before it. */
#include "ps/loop/loop_internal.h"
#include "ps/server/errors.h"
#include "ps/server/ps.h"
#include "ps/server/runtime.h"

#include <assert.h>
#include <string.h>

enum { FETCH_ROWS = 256 };

/* One worker's way through a pass. */
struct loop_run {
    struct mlt_loop *loop;
    struct mlt_worker *worker;
    struct loop_seat *seat;
    unsigned index;   /* over all nodes */
    bool ends_clocks; /* with buffered updates, in each step */
    bool last;        /* they meet when the clock ends, not before */
    mlt_loop_body *body;
    void *arg;
};

/* ---- waiting ------------------------------------------------------------- */

/* Of another node's workers the trips know (travel_await). */
static bool has_ended(const struct loop_run *r, unsigned other, unsigned needs)
{
    const struct mlt_loop *l = r->loop;
    unsigned local = other - (r->index - ps_worker_local(r->worker));

    return needs == 0 || local >= l->own ||
           atomic_load_explicit(&l->seat[local].ended, memory_order_acquire) >=
               needs;
}

/* A run that is over is seen here before each part, whether it waits or not. */
static int wait_for_part(const struct loop_run *r, unsigned step)
{
    struct mlt_loop *l = r->loop;
    unsigned other = 0;
    unsigned needs = schedule_needs(&l->schedule, r->index, step, &other);

    for (;;) {
        uint32_t ticket = ps_ticket(l->ps);

        if (runtime_failed(l->ps))
            return ERR_CANCELED;
        if (has_ended(r, other, needs))
            break;
        if (!ps_await(r->worker, ticket))
            return ERR_CANCELED;
    }
    return l->travel ? travel_await(l, r->worker, step) : ERR_OK;
}

static int end_step(const struct loop_run *r, unsigned step)
{
    atomic_store_explicit(&r->seat->ended, step + 1, memory_order_release);
    if (r->loop->travel)
        return lend_passed(r->worker);
    runtime_progress(r->loop->ps);
    return ERR_OK;
}

/* ---- a part -------------------------------------------------------------- */

static uint64_t part_length(const struct mlt_loop *l, unsigned worker,
                            unsigned step, uint64_t *first)
{
    int part = schedule_part(&l->schedule, worker, step);
    size_t block;

    if (part < 0)
        return 0;
    block = parts_block(&l->parts, worker, (unsigned)part);
    *first = l->parts.start[block];
    return l->parts.start[block + 1] - *first;
}

/* Rows of a table that the loop does not write, which iterations of a block
 * name: sent for together. */
static int fetch_rows(const struct loop_run *r, unsigned touch, uint64_t first,
                      uint64_t n)
{
    const struct mlt_loop *l = r->loop;
    const struct loop_access *a = &l->nest.access[touch];
    uint64_t rows[FETCH_ROWS];
    const void *out[FETCH_ROWS];
    int err = ERR_OK;

    while (n > 0 && !err) {
        size_t now = n < FETCH_ROWS ? n : FETCH_ROWS;

        for (size_t i = 0; i < now; i++)
            rows[i] = access_row(a, nest_key(&l->nest, first + i));
        err = mlt_get_rows(r->worker, a->id, now, rows, out);
        first += now;
        n -= now;
    }
    return err;
}

/* Reads of shared tables wait here, where a run that fails meanwhile does no
 * harm: once granted, a read is so until the clock ends, and no row that the
 * body asks for is missing. Over several nodes the rows come here, too. */
static int await_reads(const struct loop_run *r, uint64_t first, uint64_t n)
{
    const struct mlt_loop *l = r->loop;
    int err = ERR_OK;

    for (unsigned t = 0; t < l->nest.accesses && !err; t++) {
        const struct loop_access *a = &l->nest.access[t];

        if (l->waits[t] && !mlt_get_row(r->worker, a->id, 0))
            return ERR_CANCELED;
        if (l->travel && a->reads && !a->buffered && !l->written[t] &&
            access_is_static(a))
            err = fetch_rows(r, t, first, n);
    }
    return err;
}

static int run_block(const struct loop_run *r, uint64_t first, uint64_t n)
{
    struct mlt_loop *l = r->loop;
    struct mlt_block block = {
        .worker = r->worker,
        .n = n,
        .key = l->key + first * l->nest.dims,
        .value = l->value ? (char *)l->value + first * l->value_bytes : NULL,
        .total = r->seat->total,
        .inside = r->seat};
    int err;

    if (n == 0)
        return ERR_OK;
    err = await_reads(r, first, n);
    if (err)
        return err;
    r->seat->first = first;
    lend_guard(r->worker, &l->guard);
    err = r->body(&block, r->arg);
    lend_guard(r->worker, NULL);
    if (err)
        ps_run_cancel(l->ps, err);
    return err;
}

/* Clocks that end a step in which updates are buffered: as many as the longest
 * part of the step needs, for all workers end the same ones. */
static uint64_t clocks_of(const struct mlt_loop *l, unsigned step)
{
    uint64_t most = 1, first;

    if (!l->has_buffered)
        return 0;
    for (unsigned w = 0; w < l->plan.workers && l->buffer; w++) {
        uint64_t n = part_length(l, w, step, &first);
        uint64_t clocks = (n + l->buffer - 1) / l->buffer;

        most = clocks > most ? clocks : most;
    }
    return most;
}

/* The worker's part of a step; it has none where it does not take part. The
 * part is handed on before the last clock, for which all wait. */
static int run_step(const struct loop_run *r, unsigned step)
{
    const struct mlt_loop *l = r->loop;
    bool takes_part = r->index < l->plan.workers;
    uint64_t first = 0, left = 0, done = 0;
    uint64_t clocks = r->ends_clocks ? clocks_of(l, step) : 0;
    int err = ERR_OK;

    if (takes_part) {
        left = part_length(l, r->index, step, &first);
        err = wait_for_part(r, step);
    }
    do {
        uint64_t n = left;

        if (clocks && l->buffer && n > l->buffer)
            n = l->buffer;
        if (!err)
            err = run_block(r, first, n);
        first += n;
        left -= n;
        done++;
        if (!err && takes_part && left == 0 && done >= clocks)
            err = end_step(r, step);
        if (!err && done <= clocks)
            err = mlt_clock(r->worker);
    } while (!err && (left || done < clocks));
    return err;
}

/* ---- the pass ------------------------------------------------------------ */

/* Nothing is lent yet: the branch may be another one than last time. Steps
 * before @step are over, on all workers. */
static void begin(const struct loop_run *r, unsigned step)
{
    const struct mlt_loop *l = r->loop;
    struct loop_seat *seat = r->seat;

    for (unsigned i = 0; i < l->totals; i++)
        seat->total[i] = l->total[i].identity;
    for (unsigned t = 0; t < l->nest.accesses; t++)
        if (l->written[t] && l->first[t] == t)
            memset(seat->chunk[t], 0,
                   l->layout[t].chunks * sizeof(*seat->chunk[t]));
    atomic_store_explicit(&seat->ended, step, memory_order_release);
}

static void combine_totals(struct mlt_loop *l)
{
    for (unsigned i = 0; i < l->totals; i++) {
        double all = l->total[i].identity;

        for (unsigned w = 0; w < l->workers; w++) {
            double one =
                l->travel ? travel_total(l, w, i) : l->seat[w].total[i];

            all =
                l->total[i].combine ? l->total[i].combine(all, one) : all + one;
        }
        l->result[i] = all;
    }
}

static bool is_first(const struct loop_run *r)
{
    return r->seat == r->loop->seat;
}

/* All workers of this node are here; and all nodes. */
static int meet_nodes(const struct loop_run *r, unsigned first, unsigned n)
{
    int err = runtime_meet_for_pass(r->worker, r->loop->name, first, n);

    if (err || !r->loop->travel)
        return err;
    if (is_first(r))
        err = travel_begin(r->loop, r->worker, first, n);
    return err ? err : runtime_meet(r->worker);
}

/* Steps @first .. @first + @n - 1. All are here before any step begins, and out
 * of them before any goes on, or ends its clock: so `ended` always speaks of
 * one pass. */
static int run_steps(const struct loop_run *r, unsigned first, unsigned n)
{
    int err;

    if (runtime_self() != r->worker)
        ps_misuse("loop %s: a pass by a thread that is not this worker's",
                  r->loop->name);
    begin(r, first);
    err = meet_nodes(r, first, n);
    for (unsigned i = 0; i < n && !err; i++)
        err = run_step(r, first + i);
    if (!err && !r->last)
        err = runtime_meet(r->worker);
    if (err || (r->loop->totals == 0 && !r->loop->travel))
        return err;
    if (is_first(r) && r->loop->travel)
        err = travel_end(r->loop, r->worker);
    if (is_first(r) && !err)
        combine_totals(r->loop);
    return err ? err : runtime_meet(r->worker);
}

static struct loop_run run_of(struct mlt_worker *w, struct mlt_loop *l,
                              mlt_loop_body *body, void *arg)
{
    return (struct loop_run){.loop = l,
                             .worker = w,
                             .seat = &l->seat[ps_worker_local(w)],
                             .index = mlt_worker_index(w),
                             .body = body,
                             .arg = arg};
}

/* Whether workers that end their clock next need not meet before. Totals are
 * combined between two meetings. */
static bool clock_is_next(const struct mlt_loop *l)
{
    return lend_meets_at_clock(l->ps) && l->totals == 0;
}

int mlt_loop_pass(struct mlt_worker *w, struct mlt_loop *l, mlt_loop_body *body,
                  void *arg)
{
    struct loop_run r = run_of(w, l, body, arg);
    int err;

    r.ends_clocks = true;
    r.last = clock_is_next(l);
    err = run_steps(&r, 0, schedule_steps(&l->schedule));
    return err ? err : mlt_clock(w);
}

unsigned mlt_loop_steps(const struct mlt_loop *l)
{
    return schedule_steps(&l->schedule);
}

size_t mlt_loop_part(const struct mlt_loop *l, unsigned worker, unsigned step,
                     struct mlt_block *out)
{
    uint64_t first = 0;

    if (worker >= l->workers || step >= schedule_steps(&l->schedule))
        ps_misuse("loop %s: the part of worker %u, of %u, in step %u, of %u",
                  l->name, worker, l->workers, step,
                  schedule_steps(&l->schedule));
    *out = (struct mlt_block){0};
    if (worker < l->plan.workers)
        out->n = part_length(l, worker, step, &first);
    out->key = l->key + first * l->nest.dims;
    if (l->value)
        out->value = (const char *)l->value + first * l->value_bytes;
    return out->n;
}

static int one_step(const struct loop_run *r, unsigned step)
{
    const struct mlt_loop *l = r->loop;

    if (step >= schedule_steps(&l->schedule))
        ps_misuse("loop %s: step %u, of %u", l->name, step,
                  schedule_steps(&l->schedule));
    if (l->buffer)
        ps_misuse("loop %s: a step ends no clock, so that none is after %llu "
                  "iterations",
                  l->name, (unsigned long long)l->buffer);
    return run_steps(r, step, 1);
}

int mlt_loop_step(struct mlt_worker *w, struct mlt_loop *l, unsigned step,
                  mlt_loop_body *body, void *arg)
{
    struct loop_run r = run_of(w, l, body, arg);

    return one_step(&r, step);
}

int mlt_loop_last_step(struct mlt_worker *w, struct mlt_loop *l, unsigned step,
                       mlt_loop_body *body, void *arg)
{
    struct loop_run r = run_of(w, l, body, arg);

    r.last = clock_is_next(l);
    return one_step(&r, step);
}

struct run_args {
    struct mlt_loop *loop;
    mlt_loop_body *body;
    void *arg;
};

static int run_work(struct mlt_worker *w, void *arg)
{
    const struct run_args *a = arg;

    return mlt_loop_pass(w, a->loop, a->body, a->arg);
}

int mlt_loop_run(struct mlt_loop *l, mlt_loop_body *body, void *arg)
{
    struct run_args a = {l, body, arg};

    assert(body);
    return mlt_ps_run(l->ps, run_work, &a);
}
