#include "ps/server/runtime.h"

#include "base/clock_io.h"
#include "base/host/machine_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/server/clock.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/server/park_io.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { IDLE_SPIN_NS = 100 * 1000 };

/* The workers' threads and all that they wait for. */
struct runtime {
    struct mlt_ps *ps;
    pthread_t *thread; /* [started] */
    unsigned started;
    uint64_t idle_spin_ns; /* between runs: leaves the control thread one */
    int fd;                /* readable when a run has ended */

    mlt_work *work; /* of the present run; written while all are parked */
    void *arg;
    bool stop;
    uint32_t runs; /* begun so far: what the parked wait for */
    bool running;  /* between begin and end; the control thread's */

    struct park go;
    _Atomic uint32_t run; /* runs, published */
    struct park done;
    _Atomic unsigned left;  /* workers not back yet */
    _Atomic bool all_back;  /* and the descriptor is readable */
    _Atomic int failed;     /* first error of the run */
    struct park meeting;    /* barrier: */
    _Atomic uint32_t state; /* round << 16 | workers that have come */
    struct park progress;   /* clocks of others */
};

static _Thread_local struct mlt_worker *self;

const struct mlt_worker *runtime_self(void)
{
    return self;
}

/* ---- waits --------------------------------------------------------------- */

int runtime_failed(const struct mlt_ps *ps)
{
    return atomic_load_explicit(&ps->runtime->failed, memory_order_acquire);
}

void runtime_waited(struct mlt_worker *w, int64_t begin_ns)
{
    uint64_t ns = (uint64_t)(clock_monotonic() - begin_ns);

    w->counters.wait_ns += ns;
    w->spin_ns = park_next_spin(w->spin_ns, ns);
}

/* Comes to the barrier; true for the last, who opens it. */
static bool meeting_come(struct runtime *r, uint32_t *round)
{
    uint32_t state = atomic_load(&r->state), next;
    bool last;

    do {
        last = (state & 0xffff) + 1 == r->ps->shape.workers;
        next = last ? ((state >> 16) + 1) << 16 : state + 1;
    } while (!atomic_compare_exchange_weak(&r->state, &state, next));
    *round = state >> 16;
    return last;
}

/* Waits for the round to end; a run that failed lets a worker take its coming
 * back, unless the last one has come. */
static int meeting_wait(struct mlt_worker *w, uint32_t round, bool cancelable)
{
    struct runtime *r = w->ps->runtime;

    for (;;) {
        uint32_t ticket = park_ticket(&r->meeting);
        uint32_t state = atomic_load(&r->state);

        if (state >> 16 != round)
            return ERR_OK;
        if (cancelable && runtime_failed(r->ps)) {
            if (atomic_compare_exchange_strong(&r->state, &state, state - 1))
                return ERR_CANCELED;
            continue;
        }
        park_wait(&r->meeting, ticket, w->spin_ns);
    }
}

static int meet(struct mlt_worker *w, bool cancelable)
{
    struct runtime *r = w->ps->runtime;
    uint32_t round;
    time_ns begin;
    int err;

    if (meeting_come(r, &round)) {
        park_wake(&r->meeting);
        return ERR_OK;
    }
    begin = clock_monotonic();
    err = meeting_wait(w, round, cancelable);
    runtime_waited(w, begin);
    return err;
}

int runtime_meet(struct mlt_worker *w)
{
    return meet(w, true);
}

uint32_t runtime_meeting(const struct mlt_ps *ps)
{
    return atomic_load(&ps->runtime->state) >> 16;
}

/* ---- who comes for what -------------------------------------------------- */

/* worker.meets: the round it comes for << 2 | why. Each says it, and then looks
 * at the others: of two who come for different things one at least sees it, and
 * does not come. So the round never ends. Whoever came for a round cannot leave
 * it before all have come, so what is said of the present round is true now. */
enum { MEETS_CLOCK = 1, MEETS_PASS = 2, IS_BACK = 3 };

static void say_why(struct mlt_worker *w, uint64_t why)
{
    uint64_t round = runtime_meeting(w->ps);

    atomic_store(&w->meets, round << 2 | why);
}

/* Whether @other has said that it comes to the round of @w for @why. */
static bool comes_for(const struct mlt_worker *other,
                      const struct mlt_worker *w, uint64_t why)
{
    return atomic_load(&other->meets) ==
           ((atomic_load(&w->meets) & ~UINT64_C(3)) | why);
}

static bool is_back(const struct mlt_worker *w)
{
    return (atomic_load(&w->meets) & 3) == IS_BACK;
}

void runtime_pass_missed(struct mlt_ps *ps, const struct fault *f)
{
    stripe_lock(&ps->asking);
    if (!runtime_failed(ps) && !ps->stuck.code) {
        ps->stuck = *f;
        log_event(LOG_ERROR, "loop_pass_missed", "what=\"%s\"", f->text);
    }
    stripe_unlock(&ps->asking);
    ps_run_cancel(ps, f->code);
}

/* @absent does not come to the pass that @waits for. */
static void fail_pass(const struct mlt_worker *absent,
                      const struct mlt_worker *waits)
{
    struct mlt_ps *ps = absent->ps;
    const char *loop = atomic_load(&waits->pass);
    struct fault f;

    fault_set(&f, ERR_APP,
              "worker %u %s without the pass of loop %s, in which worker %u "
              "waits for it: each worker calls it as often as the others",
              absent->number,
              is_back(absent) ? "is back from its work" : "ends its clock",
              loop, waits->number);
    runtime_pass_missed(ps, &f);
}

/* What is said first was stored before. */
static bool is_other_pass(const struct mlt_worker *a,
                          const struct mlt_worker *b)
{
    return atomic_load(&a->pass) != atomic_load(&b->pass) ||
           atomic_load(&a->steps) != atomic_load(&b->steps);
}

static void steps_text(const struct mlt_worker *w, char *out, size_t size)
{
    uint64_t steps = atomic_load(&w->steps);
    unsigned first = (unsigned)(steps >> 32), n = (unsigned)steps;

    if (n == 1)
        snprintf(out, size, "step %u of loop %s", first, atomic_load(&w->pass));
    else
        snprintf(out, size, "steps %u to %u of loop %s", first, first + n - 1,
                 atomic_load(&w->pass));
}

/* Both wait, and each for what the other does not come to. */
static void fail_passes(const struct mlt_worker *w,
                        const struct mlt_worker *other)
{
    char own[128], others[128];
    struct fault f;

    steps_text(w, own, sizeof(own));
    steps_text(other, others, sizeof(others));
    fault_set(&f, ERR_APP,
              "worker %u begins %s, and worker %u %s: all workers call the "
              "same passes, in the same order",
              w->number, own, other->number, others);
    runtime_pass_missed(w->ps, &f);
}

/* Whether all can come; else the run has failed. */
static bool none_waits_for_pass(struct mlt_worker *w)
{
    struct mlt_ps *ps = w->ps;

    for (unsigned i = 0; atomic_load(&ps->has_passes) && i < ps->shape.workers;
         i++)
        if (comes_for(&ps->shape.worker[i], w, MEETS_PASS)) {
            fail_pass(w, &ps->shape.worker[i]);
            return false;
        }
    return true;
}

int runtime_meet_for_clock(struct mlt_worker *w)
{
    say_why(w, MEETS_CLOCK);
    return none_waits_for_pass(w) ? runtime_meet(w) : ERR_CANCELED;
}

/* Its round does not move with these clocks, so that what another said of the
 * present one is true now. */
int runtime_say_clock(struct mlt_worker *w)
{
    struct mlt_ps *ps = w->ps;
    uint64_t waits;

    atomic_store(&w->ending, w->clocks + 1);
    for (unsigned i = 0; atomic_load(&ps->has_passes) && i < ps->shape.workers;
         i++) {
        waits = (uint64_t)runtime_meeting(ps) << 2;
        if (atomic_load(&ps->shape.worker[i].meets) == (waits | MEETS_PASS)) {
            fail_pass(w, &ps->shape.worker[i]);
            return ERR_CANCELED;
        }
    }
    return ERR_OK;
}

int runtime_meet_for_pass(struct mlt_worker *w, const char *loop,
                          unsigned first, unsigned n)
{
    struct mlt_ps *ps = w->ps;

    assert(loop && n >= 1);
    if (!atomic_load(&ps->has_passes))
        atomic_store(&ps->has_passes, true);
    atomic_store(&w->pass, loop);
    atomic_store(&w->steps, (uint64_t)first << 32 | n);
    say_why(w, MEETS_PASS);
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        const struct mlt_worker *other = &ps->shape.worker[i];

        if (is_back(other) || comes_for(other, w, MEETS_CLOCK) ||
            atomic_load(&other->ending) > w->clocks) {
            fail_pass(other, w);
            return ERR_CANCELED;
        }
        if (comes_for(other, w, MEETS_PASS) && is_other_pass(other, w)) {
            fail_passes(w, other);
            return ERR_CANCELED;
        }
    }
    return runtime_meet(w);
}

void runtime_back(struct mlt_worker *w)
{
    say_why(w, IS_BACK);
    none_waits_for_pass(w);
}

void runtime_meet_surely(struct mlt_worker *w)
{
    int err = meet(w, false);

    assert(!err);
    (void)err;
}

uint32_t runtime_ticket(struct mlt_ps *ps)
{
    return park_ticket(&ps->runtime->progress);
}

void runtime_wait_on(struct mlt_worker *w, uint32_t ticket, int64_t begin_ns)
{
    park_wait(&w->ps->runtime->progress, ticket, w->spin_ns);
    runtime_waited(w, begin_ns);
}

void runtime_wait(struct mlt_worker *w, uint32_t ticket)
{
    runtime_wait_on(w, ticket, clock_monotonic());
}

void runtime_progress(struct mlt_ps *ps)
{
    park_wake(&ps->runtime->progress);
}

void runtime_clock_ended(struct mlt_worker *w)
{
    uint64_t now = (uint64_t)clock_monotonic();
    uint64_t waited = w->counters.wait_ns - w->clock_wait_ns;
    double mean = atomic_load_explicit(&w->task_s, memory_order_relaxed);

    uint64_t spent = now - w->clock_ns;
    double work_s = spent > waited ? (double)(spent - waited) * 1e-9 : 0;

    w->tasks++;
    atomic_store_explicit(&w->task_s, mean + (work_s - mean) / (double)w->tasks,
                          memory_order_relaxed);
    w->clock_ns = now;
    w->clock_wait_ns = w->counters.wait_ns;
}

/* ---- copying ------------------------------------------------------------- */

/* Under the shard's lock, because without barriers any worker may write to any
 * shard, and because a store has one writer at a time. */
unsigned char *view_privatize(struct mlt_worker *shard, struct worker_view *v,
                              uint64_t chunk, struct ps_counters *counters)
{
    time_ns begin = clock_monotonic();
    unsigned char *bytes;

    assert(chunk < v->map->chunks);
    if (shard->ps->active_type == BRANCH_KEPT)
        ps_misuse("write to table %s of branch %u, which is kept (read-only)",
                  table_name(v->table), shard->ps->active);
    stripe_lock(&shard->shard_lock);
    if (store_map_owns(v->map, chunk))
        bytes =
            atomic_load_explicit(&v->map->chunk[chunk], memory_order_relaxed);
    else
        bytes = store_privatize(shard->store, v->index, chunk);
    atomic_store_explicit(&v->chunk[(v->first >> v->row_shift) + chunk], bytes,
                          memory_order_release);
    stripe_unlock(&shard->shard_lock);
    counters->copy_ns += (uint64_t)(clock_monotonic() - begin);
    return bytes;
}

/* ---- threads ------------------------------------------------------------- */

static void one_run(struct runtime *r, struct mlt_worker *w)
{
    struct peers *peers = r->ps->peers;
    int code;

    self = w;
    w->clock_ns = (uint64_t)clock_monotonic();
    w->clock_wait_ns = w->counters.wait_ns;
    code = peers ? peers->ops->enter(peers, w) : ERR_OK;
    if (!code)
        code = r->work(w, r->arg);
    if (code)
        ps_run_cancel(r->ps, code);
    clock_finish(w);
    self = NULL;
}

static void come_back(struct runtime *r)
{
    uint64_t one = 1;
    ssize_t n;

    assert(atomic_load(&r->left) > 0);
    if (atomic_fetch_sub(&r->left, 1) != 1)
        return;
    n = write(r->fd, &one, sizeof(one));
    assert(n == sizeof(one));
    (void)n;
    atomic_store(&r->all_back, true);
    park_wake(&r->done);
}

static void wait_for_run(struct runtime *r, uint32_t seen)
{
    for (;;) {
        uint32_t ticket = park_ticket(&r->go);

        if (atomic_load(&r->run) != seen)
            return;
        park_wait(&r->go, ticket, r->idle_spin_ns);
    }
}

static void *thread_main(void *arg)
{
    struct mlt_worker *w = arg;
    struct runtime *r = w->ps->runtime;

    for (uint32_t seen = 0;; seen++) {
        wait_for_run(r, seen);
        if (r->stop)
            return NULL;
        one_run(r, w);
        come_back(r);
    }
}

static void wake_workers(struct runtime *r)
{
    assert(r->started <= r->ps->shape.workers);
    r->runs++;
    atomic_store(&r->run, r->runs);
    park_wake(&r->go);
}

static enum err start_threads(struct runtime *r, struct fault *f)
{
    struct mlt_ps *ps = r->ps;

    for (; r->started < ps->shape.workers; r->started++) {
        int errnum = pthread_create(&r->thread[r->started], NULL, thread_main,
                                    &ps->shape.worker[r->started]);

        if (errnum)
            return fault_errno(f, ERR_IO, errnum, "start worker thread %u",
                               r->started);
    }
    return ERR_OK;
}

enum err runtime_start(struct mlt_ps *ps, struct fault *f)
{
    unsigned cores = machine_cores("");
    struct runtime *r = mem_calloc(1, sizeof(*r));
    enum err err = ERR_OK;

    assert(!ps->runtime);
    assert(ps->shape.workers > 0);
    if (!r)
        return fault_set(f, ERR_NOMEM, "no memory for the worker threads");
    r->ps = ps;
    r->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ps->shape.nodes > 1) { /* of which others may be on this machine; and
                                * whoever spins keeps from its core the two
                                * threads that bring what it waits for */
        cores /= ps->shape.nodes;
        cores = cores > 2 ? cores - 2 : 0;
    }
    for (unsigned i = 0; i < ps->shape.workers; i++)
        ps->shape.worker[i].spin_ns =
            ps->shape.workers <= cores ? PARK_SPIN_MAX_NS : 0;
    r->idle_spin_ns = ps->shape.workers < cores ? IDLE_SPIN_NS : 0;
    ps->runtime = r;
    r->thread = mem_calloc(ps->shape.workers, sizeof(*r->thread));
    if (r->fd < 0)
        err = fault_errno(f, ERR_IO, errno, "create an event descriptor");
    else if (!r->thread)
        err = fault_set(f, ERR_NOMEM, "no memory for the worker threads");
    else
        err = start_threads(r, f);
    if (err)
        runtime_stop(ps);
    return err;
}

void runtime_stop(struct mlt_ps *ps)
{
    struct runtime *r = ps->runtime;

    if (!r)
        return;
    assert(!r->running);
    r->stop = true;
    wake_workers(r);
    for (unsigned i = 0; i < r->started; i++)
        pthread_join(r->thread[i], NULL);
    if (r->fd >= 0)
        close(r->fd);
    mem_free(r->thread);
    mem_free(r);
    ps->runtime = NULL;
}

/* ---- runs ---------------------------------------------------------------- */

static enum err begin_at_peers(struct mlt_ps *ps)
{
    const struct peers_run run = {.branch = ps->active,
                                  .type = ps->active_type,
                                  .staleness = ps->staleness,
                                  .quorum = ps->quorum,
                                  .params = ps->params,
                                  .bandwidth_mbps = ps->bandwidth_mbps,
                                  .cut = ps->cut};

    return ps->peers ? ps->peers->ops->begin(ps->peers, &run) : ERR_OK;
}

enum err ps_run_begin(struct mlt_ps *ps, mlt_work *work, void *arg)
{
    struct runtime *r = ps->runtime;

    assert(work);
    if (!ps->started || r->running)
        ps_misuse("a run begins before mlt_ps_start or within another run");
    if (ps->active == BRANCH_NONE || forks_failed(ps, ps->active))
        return ERR_INVAL;
    clock_begin_run(ps);
    device_begin_run(ps);
    r->work = work;
    r->arg = arg;
    r->running = true;
    atomic_store(&r->failed, 0);
    atomic_store(&r->state, 0);
    atomic_store(&r->left, ps->shape.workers);
    atomic_store(&r->all_back, false);
    if (begin_at_peers(ps) != ERR_OK) {
        r->running = false;
        return ERR_NODE;
    }
    wake_workers(r);
    return ERR_OK;
}

int ps_run_fd(const struct mlt_ps *ps)
{
    assert(ps->runtime);
    return ps->runtime->fd;
}

int ps_run_end(struct mlt_ps *ps)
{
    struct runtime *r = ps->runtime;
    uint64_t count;
    ssize_t n;
    int code;

    if (!r || !r->running)
        ps_misuse("the end of a run that was not begun");
    for (;;) {
        uint32_t ticket = park_ticket(&r->done);

        if (atomic_load(&r->all_back))
            break;
        park_wait(&r->done, ticket, 0);
    }
    n = read(r->fd, &count, sizeof(count));
    assert(n == sizeof(count));
    (void)n;
    r->running = false;
    code = runtime_failed(ps);
    if (code)
        forks_fail_active(ps);
    else
        forks_count_clocks(ps, ps->shape.worker[0].clocks);
    return code;
}

void ps_run_cancel(struct mlt_ps *ps, int code)
{
    runtime_fail(ps, code);
    if (ps->peers)
        ps->peers->ops->fail(
            ps->peers, code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP);
}

void runtime_fail(struct mlt_ps *ps, int code)
{
    struct runtime *r = ps->runtime;
    int none = 0;

    assert(code != ERR_OK);
    atomic_compare_exchange_strong(&r->failed, &none, code);
    park_wake(&r->meeting);
    park_wake(&r->progress);
}

int mlt_ps_run(struct mlt_ps *ps, mlt_work *work, void *arg)
{
    int err = (int)ps_run_begin(ps, work, arg);

    return err ? err : ps_run_end(ps);
}
