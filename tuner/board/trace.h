/* Traces: what a branch has reported since it was forked, in bounded memory.
 *
 * A trace takes windows as they are reported and keeps at most
 * TRACE_WINDOWS_MAX; beyond that neighbours are merged in pairs, so that
 * nothing is dropped. Windows are merged within an epoch first: siblings report
 * windows of equal samples that begin anew with each epoch, so their merged
 * windows still end at the same samples and can be paired.
 *
 * Plain data, copied by assignment.
 */
#ifndef TUNER_TRACE_H
#define TUNER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_WINDOWS_MAX = 80,
    TRACE_MERGE_MAX = 1 << 24 /* of one that is restored */
};

struct trace_window {
    double sum, seconds;
    uint64_t samples;
    uint32_t reported; /* windows merged in this one */
    uint32_t epoch;    /* of the lineage; merged over epochs: the last */
};

struct trace {
    uint32_t len;
    uint32_t merge; /* reported windows a full window holds: a power of two */
    bool nonfinite; /* some sum was not finite; it is in no window */
    double seconds;
    uint64_t samples;
    uint64_t reported;
    struct trace_window window[TRACE_WINDOWS_MAX];
};

/* A curve of mean losses over a trace's windows. */
struct curve {
    uint32_t len;
    struct curve_point {
        double seconds;   /* from the fork to the window's end */
        uint64_t samples; /* of this window */
        double loss;      /* mean over the window */
    } point[TRACE_WINDOWS_MAX];
};

void trace_init(struct trace *t);

/* Appends a reported window. A window without samples only adds its time, to
 * the window before. O(1) on average. */
void trace_add(struct trace *t, double sum, uint64_t samples, double seconds,
               uint32_t epoch);

/* Makes the trace that had @window[n] and @merge. False where none can have
 * had, or what it goes on to would be out of bounds. */
bool trace_restore(struct trace *t, uint32_t merge,
                   const struct trace_window window[], uint32_t n);

/* Copies what there is. */
void trace_copy(struct trace *to, const struct trace *from);

/* The trace as it is. */
void trace_curve(const struct trace *t, struct curve *out);

/* The trace relative to @base, a sibling that ran over the same samples (a
 * probe): over every stretch of samples that ends a window in both, the
 * difference of the means plus @level. What the choice of samples adds to both
 * cancels (a control variate). Where no loss is below @floor (NAN: unknown), it
 * is the ratio of what the means have above it, of what @level has: once a loss
 * is a part of what it was, the samples' share in it is, too (the ratio
 * estimator, Cochran 1977, chapter 6). Stretches beyond the end of @base are
 * left out. */
void trace_curve_against(const struct trace *t, const struct trace *base,
                         double level, double floor, struct curve *out);

/* Mean of a - b and its standard error over the last half of the stretches
 * that both have in common, each counted once. Returns how many stretches that
 * were; with fewer than two @se is infinite. */
uint32_t trace_paired(const struct trace *a, const struct trace *b,
                      double *mean, double *se);

#endif
