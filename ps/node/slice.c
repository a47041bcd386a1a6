#include "ps/node/slice.h"

#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { LINE_BYTES = 64 };

/* In `started`. */
enum { CUT = 1, HELD = 2, SHIFT = 2, ONE_CLOCK = 1 << SHIFT };

/* One worker's part of one window. */
struct part {
    double sum;
    uint64_t samples;
    uint64_t wait_ns, copy_ns, stalled_ns;
    int64_t end_ns;
};

/* The last clocks' work in the order of their coming, and sorted. */
struct medians {
    int64_t ring[SLICE_MEDIAN_CLOCKS], sorted[SLICE_MEDIAN_CLOCKS];
    unsigned n, next;
};

/* One worker's own account; nobody else writes it. */
struct lane {
    _Alignas(LINE_BYTES) uint64_t started; /* clocks */
    int64_t enter_ns;
    struct slice_tick last;
    struct medians work;
    struct part *part;            /* [PROTO_WINDOWS_MAX] */
    uint64_t copy_ns, stalled_ns; /* of the clock that ended last */
};

struct slice {
    unsigned workers;
    uint64_t count, every;
    bool barrier;
    struct lane *lane; /* [workers] */
    struct part *part; /* all lanes' */

    /* Clocks started by anybody, above the low bits: cut, held. */
    _Alignas(LINE_BYTES) _Atomic uint64_t started;
    _Atomic uint64_t limit;   /* clocks that are run at most */
    _Atomic unsigned met;     /* workers that have ended the present clock */
    _Atomic unsigned *closed; /* [PROTO_WINDOWS_MAX] workers done with it */

    /* Written by the last worker to arrive, handed on by the counts above. */
    uint64_t copy_ns, stalled_ns; /* of the window, barriers only */
    int64_t began_ns, ended_ns;
    uint64_t clocks;
    struct progress_window *window; /* [PROTO_WINDOWS_MAX] */
    _Atomic uint32_t windows;       /* complete */
};

/* ---- life ---------------------------------------------------------------- */

enum err slice_new(unsigned workers, struct slice **out)
{
    struct slice *s;

    assert(workers > 0);
    s = mem_aligned(LINE_BYTES, sizeof(*s));
    if (!s)
        return ERR_NOMEM;
    memset(s, 0, sizeof(*s));
    s->workers = workers;
    s->lane = mem_aligned(LINE_BYTES, workers * sizeof(*s->lane));
    s->part = mem_calloc((size_t)workers * PROTO_WINDOWS_MAX, sizeof(*s->part));
    s->closed = mem_calloc(PROTO_WINDOWS_MAX, sizeof(*s->closed));
    s->window = mem_calloc(PROTO_WINDOWS_MAX, sizeof(*s->window));
    if (!s->lane || !s->part || !s->closed || !s->window) {
        slice_free(s);
        return ERR_NOMEM;
    }
    *out = s;
    return ERR_OK;
}

void slice_free(struct slice *s)
{
    if (!s)
        return;
    mem_free(s->lane);
    mem_free(s->part);
    mem_free(s->closed);
    mem_free(s->window);
    mem_free(s);
}

enum err slice_begin(struct slice *s, uint64_t count, uint64_t every,
                     bool barrier)
{
    uint64_t windows;
    unsigned w;

    if (count == 0 || every == 0)
        return ERR_INVAL;
    windows = (count - 1) / every + 1;
    if (windows > PROTO_WINDOWS_MAX)
        return ERR_INVAL;
    s->count = count;
    s->every = every;
    s->barrier = barrier;
    s->copy_ns = s->stalled_ns = 0;
    s->began_ns = s->ended_ns = 0;
    s->clocks = 0;
    atomic_store(&s->started, 0);
    atomic_store(&s->limit, count);
    atomic_store(&s->met, 0);
    atomic_store(&s->windows, 0);
    memset(s->lane, 0, s->workers * sizeof(*s->lane));
    for (w = 0; w < s->workers; w++) {
        s->lane[w].part = s->part + (size_t)w * PROTO_WINDOWS_MAX;
        memset(s->lane[w].part, 0, windows * sizeof(struct part));
    }
    for (w = 0; w < windows; w++)
        atomic_store_explicit(&s->closed[w], 0, memory_order_relaxed);
    return ERR_OK;
}

/* ---- which clocks -------------------------------------------------------- */

void slice_cut(struct slice *s)
{
    atomic_fetch_or(&s->started, CUT);
}

uint64_t slice_hold(struct slice *s)
{
    return atomic_fetch_or(&s->started, HELD) >> SHIFT;
}

/* The limit first: whoever finds the slice free again finds it. */
void slice_release(struct slice *s, uint64_t clocks)
{
    assert(clocks >= atomic_load(&s->started) >> SHIFT && clocks <= s->count);
    atomic_store(&s->limit, clocks);
    atomic_fetch_and(&s->started, ~(uint64_t)HELD);
}

enum slice_turn slice_start_clock(struct slice *s, unsigned worker)
{
    struct lane *l = &s->lane[worker];
    uint64_t seen = atomic_load(&s->started);

    assert(worker < s->workers);
    if (l->started == atomic_load(&s->limit))
        return SLICE_OVER;
    /* The lane has ended all clocks it started, so somebody has started those.
     */
    while (seen >> SHIFT == l->started) {
        if (seen & HELD)
            return SLICE_HELD;
        if (seen & CUT || l->started == atomic_load(&s->limit))
            return SLICE_OVER;
        if (atomic_compare_exchange_weak(&s->started, &seen, seen + ONE_CLOCK))
            break;
    }
    l->started++;
    return SLICE_RUN;
}

/* ---- stalls -------------------------------------------------------------- */

static void sorted_remove(struct medians *m, int64_t x)
{
    unsigned i = 0;

    while (m->sorted[i] != x)
        i++;
    memmove(&m->sorted[i], &m->sorted[i + 1],
            (m->n - i - 1) * sizeof(*m->sorted));
    m->n--;
}

static void sorted_insert(struct medians *m, int64_t x)
{
    unsigned i = m->n;

    for (; i > 0 && m->sorted[i - 1] > x; i--)
        m->sorted[i] = m->sorted[i - 1];
    m->sorted[i] = x;
    m->n++;
}

static void medians_add(struct medians *m, int64_t x)
{
    if (m->n == SLICE_MEDIAN_CLOCKS)
        sorted_remove(m, m->ring[m->next]);
    sorted_insert(m, x);
    m->ring[m->next] = x;
    m->next = (m->next + 1) % SLICE_MEDIAN_CLOCKS;
}

/* Time of a clock's work that is a stall. */
static uint64_t stall_of(struct medians *m, int64_t work_ns)
{
    int64_t median = m->n ? m->sorted[m->n / 2] : 0;
    bool stalled = m->n >= SLICE_MEDIAN_CLOCKS_MIN &&
                   work_ns / SLICE_STALL_FACTOR > median;

    medians_add(m, work_ns);
    return stalled ? (uint64_t)(work_ns - median) : 0;
}

/* ---- windows ------------------------------------------------------------- */

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Clocks are barriers: the slowest worker's losses of this clock. Nobody comes
 * here for the next clock before all have passed here for this one. */
static void account_clock(struct slice *s)
{
    uint64_t copy = 0, stalled = 0;
    unsigned w;

    if (atomic_fetch_add(&s->met, 1) + 1 < s->workers)
        return;
    for (w = 0; w < s->workers; w++) {
        copy = max_u64(copy, s->lane[w].copy_ns);
        stalled = max_u64(stalled, s->lane[w].stalled_ns);
    }
    s->copy_ns += copy;
    s->stalled_ns += stalled;
    atomic_store(&s->met, 0);
}

static int64_t last_entry(const struct slice *s)
{
    int64_t at = s->lane[0].enter_ns;
    unsigned w;

    for (w = 1; w < s->workers; w++)
        if (s->lane[w].enter_ns > at)
            at = s->lane[w].enter_ns;
    return at;
}

static double seconds(int64_t ns)
{
    return ns > 0 ? (double)ns * 1e-9 : 0;
}

/* Window @i of @clocks clocks from the parts of all workers, in their order. */
static void fill_window(struct slice *s, uint32_t i, uint64_t clocks)
{
    struct progress_window *out = &s->window[i];
    uint64_t wait = 0, copy = s->copy_ns, stalled = s->stalled_ns;
    int64_t began = i ? s->ended_ns : last_entry(s), end = began;
    unsigned w;

    assert(s->workers > 0);
    *out = (struct progress_window){.clocks = clocks};
    for (w = 0; w < s->workers; w++) {
        const struct part *p = &s->lane[w].part[i];

        out->sum += p->sum;
        out->samples += p->samples;
        wait += p->wait_ns;
        end = p->end_ns > end ? p->end_ns : end;
        if (!s->barrier) {
            copy = max_u64(copy, p->copy_ns);
            stalled = max_u64(stalled, p->stalled_ns);
        }
    }
    out->copy_s = seconds((int64_t)copy);
    out->stalled_s = seconds((int64_t)stalled);
    out->seconds = seconds(end - began - (int64_t)(copy + stalled));
    out->wait_s = seconds((int64_t)(wait / s->workers));
    if (i == 0)
        s->began_ns = began;
    s->ended_ns = end;
    s->clocks += clocks;
    s->copy_ns = s->stalled_ns = 0;
}

/* @worker has ended its last clock of window @i; the last of all completes it.
 * A worker closes windows in order and before it meets the others again, so
 * windows complete in order. */
static void close_window(struct slice *s, uint32_t i, uint64_t clocks)
{
    if (atomic_fetch_add(&s->closed[i], 1) + 1 < s->workers)
        return;
    assert(atomic_load_explicit(&s->windows, memory_order_relaxed) == i);
    fill_window(s, i, clocks);
    atomic_store_explicit(&s->windows, i + 1, memory_order_release);
}

void slice_enter(struct slice *s, unsigned worker,
                 const struct slice_tick *begin)
{
    assert(worker < s->workers);
    s->lane[worker].enter_ns = begin->now_ns;
    s->lane[worker].last = *begin;
}

void slice_end_clock(struct slice *s, unsigned worker,
                     const struct slice_tick *tick)
{
    struct lane *l = &s->lane[worker];
    uint64_t clock = l->started - 1;
    struct part *p = &l->part[clock / s->every];
    uint64_t wait = tick->wait_ns - l->last.wait_ns;

    assert(worker < s->workers && l->started > 0);
    l->copy_ns = tick->copy_ns - l->last.copy_ns;
    l->stalled_ns = stall_of(&l->work, tick->now_ns - l->last.now_ns -
                                           (int64_t)(wait + l->copy_ns));
    p->sum += tick->sum;
    p->samples += tick->samples;
    p->wait_ns += wait;
    p->copy_ns += l->copy_ns;
    p->stalled_ns += l->stalled_ns;
    p->end_ns = tick->now_ns;
    l->last = *tick;
    if (s->barrier)
        account_clock(s);
    if (l->started % s->every == 0)
        close_window(s, (uint32_t)(clock / s->every), s->every);
}

void slice_leave(struct slice *s, unsigned worker)
{
    uint64_t ran = s->lane[worker].started;

    assert(worker < s->workers);
    if (ran % s->every)
        close_window(s, (uint32_t)(ran / s->every), ran % s->every);
}

uint32_t slice_windows(const struct slice *s)
{
    return atomic_load_explicit(&s->windows, memory_order_acquire);
}

const struct progress_window *slice_window(const struct slice *s, uint32_t i)
{
    assert(i < slice_windows(s));
    return &s->window[i];
}

uint64_t slice_clocks(const struct slice *s)
{
    return s->clocks;
}

int64_t slice_began_ns(const struct slice *s)
{
    return s->began_ns;
}

int64_t slice_ended_ns(const struct slice *s)
{
    return s->ended_ns;
}
