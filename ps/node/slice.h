/* A slice: its workers' common account of clocks, windows and time.
 *
 * The control thread begins a slice of so many clocks; each worker enters, asks
 * before each clock whether it is to be run, says after each what it summed up
 * and how long it took, and leaves. Sums are gathered into windows of `every`
 * clocks, each complete when the last worker has ended its last clock.
 *
 *   started ──┐                        cut: no clock beyond those that some
 *   worker 0  ├─ clock 0 │ 1 │ 2 │ 3   worker has started; so all workers
 *   worker 1  └─ clock 0 │ 1 │ 2       end after the same clock
 *
 * Time arrives in the calls (nanoseconds of a monotonic clock). The first
 * clock begins when the last worker has entered, so that waking them is not
 * charged to it. What a clock lost to copying chunks and to a machine that
 * stood still is taken out of its window's seconds: where clocks are barriers
 * the slowest worker's loss of each clock, else the largest over the window.
 * A clock counts as stalled when its work (neither waiting nor copying) took
 * over twenty times the median of the worker's last clocks; the part beyond
 * the median is the stall.
 *
 * Threads: slice_begin only while no worker is inside; a worker calls with its
 * own index; slice_cut and slice_windows come from any thread. No locks; what
 * is shared is atomic, or handed over by an atomic count.
 */
#ifndef PS_SLICE_H
#define PS_SLICE_H

#include "base/err.h"
#include "base/proto/proto.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SLICE_STALL_FACTOR = 20, /* times the median */
    SLICE_MEDIAN_CLOCKS = 31,
    SLICE_MEDIAN_CLOCKS_MIN = 5 /* fewer tell nothing */
};

struct slice;

/* One worker's report of a clock that it has ended. The totals run since
 * any beginning. */
struct slice_tick {
    int64_t now_ns;
    uint64_t wait_ns; /* total */
    uint64_t copy_ns; /* total */
    double sum;       /* of this clock */
    uint64_t samples; /* of this clock */
};

/* Memory for slices of up to PROTO_WINDOWS_MAX windows. Errors: ERR_NOMEM. */
enum err slice_new(unsigned workers, struct slice **out);
void slice_free(struct slice *s);

/* A new slice of @count clocks in windows of @every.
 *
 * @barrier  every clock ends with a barrier of all workers between the end of
 *           its work and slice_end_clock
 *
 * Errors: ERR_INVAL when it would have over PROTO_WINDOWS_MAX windows, or
 * count or every is 0. */
enum err slice_begin(struct slice *s, uint64_t count, uint64_t every,
                     bool barrier);

/* No clock that no worker has started will be. Any thread, any time. */
void slice_cut(struct slice *s);

/* A slice that runs in several places at once: no further clock is started here
 * until slice_release says after how many the slice ends, which is no less than
 * slice_hold returned, the clocks started here. Any thread, while the slice
 * runs; each once a slice. */
uint64_t slice_hold(struct slice *s);
void slice_release(struct slice *s, uint64_t clocks);

/* A worker has come; its totals now. Before its first slice_start_clock. */
void slice_enter(struct slice *s, unsigned worker,
                 const struct slice_tick *begin);

/* Whether @worker is to run its next clock. The first to ask about a clock
 * decides for all. SLICE_HELD: ask again after slice_release. */
enum slice_turn { SLICE_OVER, SLICE_RUN, SLICE_HELD };
enum slice_turn slice_start_clock(struct slice *s, unsigned worker);

/* The clock started last by @worker has ended. */
void slice_end_clock(struct slice *s, unsigned worker,
                     const struct slice_tick *tick);

/* @worker runs no further clock: closes the window it is in. Not called by a
 * worker that gives up with an error. */
void slice_leave(struct slice *s, unsigned worker);

/* Complete windows so far. They never change. */
uint32_t slice_windows(const struct slice *s);

/* Window @i below slice_windows; borrowed until the next slice_begin. */
const struct progress_window *slice_window(const struct slice *s, uint32_t i);

/* Clocks in complete windows. */
uint64_t slice_clocks(const struct slice *s);

/* When the first clock began and the last complete window ended; both 0 when
 * no window is complete. After all have left. */
int64_t slice_began_ns(const struct slice *s);
int64_t slice_ended_ns(const struct slice *s);

#endif
