/* A pass of a loop: each worker goes through its steps, and waits in each for
 * the one worker that had the part before it. */
#include "ps/loop/loop_internal.h"
#include "ps/server/errors.h"
#include "ps/server/ps.h"
#include "ps/server/runtime.h"

#include <assert.h>
#include <string.h>

/* One worker's way through a pass. */
struct loop_run {
    struct mlt_loop *loop;
    struct mlt_worker *worker;
    unsigned index;
    bool ends_clocks; /* with buffered updates, in each step */
    mlt_loop_body *body;
    void *arg;
};

/* ---- waiting ------------------------------------------------------------- */

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
        if (atomic_load_explicit(&l->seat[other].ended, memory_order_acquire) >=
            needs)
            return ERR_OK;
        if (!ps_await(r->worker, ticket))
            return ERR_CANCELED;
    }
}

static void end_step(const struct loop_run *r, unsigned step)
{
    atomic_store_explicit(&r->loop->seat[r->index].ended, step + 1,
                          memory_order_release);
    runtime_progress(r->loop->ps);
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

/* Reads of shared tables wait here, where a run that fails meanwhile does no
 * harm: once granted, a read is so until the clock ends, and no row that the
 * body asks for is missing. */
static int await_reads(const struct loop_run *r)
{
    const struct mlt_loop *l = r->loop;

    for (unsigned t = 0; t < l->nest.accesses; t++)
        if (l->waits[t] && !mlt_get_row(r->worker, l->nest.access[t].id, 0))
            return ERR_CANCELED;
    return ERR_OK;
}

static int run_block(const struct loop_run *r, uint64_t first, uint64_t n)
{
    struct mlt_loop *l = r->loop;
    struct mlt_block block = {
        .worker = r->worker,
        .n = n,
        .key = l->key + first * l->nest.dims,
        .value = l->value ? (char *)l->value + first * l->value_bytes : NULL,
        .total = l->seat[r->index].total,
        .inside = &l->seat[r->index]};
    int err;

    if (n == 0)
        return ERR_OK;
    err = await_reads(r);
    if (err)
        return err;
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
            end_step(r, step);
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
    struct loop_seat *seat = &r->loop->seat[r->index];

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
            double one = l->seat[w].total[i];

            all =
                l->total[i].combine ? l->total[i].combine(all, one) : all + one;
        }
        l->result[i] = all;
    }
}

/* Steps @first .. @first + @n - 1. All are here before any step begins, and out
 * of them before any goes on: so `ended` always speaks of one pass. */
static int run_steps(const struct loop_run *r, unsigned first, unsigned n)
{
    int err;

    if (runtime_self() != r->worker)
        ps_misuse("loop %s: a pass by a thread that is not this worker's",
                  r->loop->name);
    begin(r, first);
    err = runtime_meet_for_pass(r->worker, r->loop->name);
    for (unsigned i = 0; i < n && !err; i++)
        err = run_step(r, first + i);
    if (!err)
        err = runtime_meet(r->worker);
    if (err || r->loop->totals == 0)
        return err;
    if (r->index == 0)
        combine_totals(r->loop);
    return runtime_meet(r->worker);
}

int mlt_loop_pass(struct mlt_worker *w, struct mlt_loop *l, mlt_loop_body *body,
                  void *arg)
{
    struct loop_run r = {l, w, ps_worker_local(w), true, body, arg};
    int err = run_steps(&r, 0, schedule_steps(&l->schedule));

    return err ? err : mlt_clock(w);
}

unsigned mlt_loop_steps(const struct mlt_loop *l)
{
    return schedule_steps(&l->schedule);
}

int mlt_loop_step(struct mlt_worker *w, struct mlt_loop *l, unsigned step,
                  mlt_loop_body *body, void *arg)
{
    struct loop_run r = {l, w, ps_worker_local(w), false, body, arg};

    if (step >= schedule_steps(&l->schedule))
        ps_misuse("loop %s: step %u, of %u", l->name, step,
                  schedule_steps(&l->schedule));
    if (l->buffer)
        ps_misuse("loop %s: a step ends no clock, so that none is after %llu "
                  "iterations",
                  l->name, (unsigned long long)l->buffer);
    return run_steps(&r, step, 1);
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
