/* Decimation: a curve of any length as few points that draw the same picture.
 *
 * The axis is cut into equal spans. Of each the first, the lowest, the highest
 * and the last point are kept, and one that is not finite: drawn with no more
 * pixels than spans, the line is that of all points (M4: Jugel et al. 2014,
 * "A visualization-oriented time series data aggregation", section 4). Points
 * may come in any order, and may be of several branches. Pure.
 */
#ifndef API_DECIMATE_H
#define API_DECIMATE_H

#include "base/err.h"
#include "base/proto/branch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decimate_point {
    uint64_t clock; /* the axis */
    double at_s, value;
    branch_id branch;
};

enum { DECIMATE_KEPT = 5 /* points of a span, at most */ };

struct decimate_span {
    struct decimate_point first, low, high, last, broken;
    bool some, some_broken;
};

struct decimate {
    uint64_t from, to; /* of the axis: from <= clock < to */
    size_t spans;
    struct decimate_span *span; /* owned: [spans] */
    uint64_t points;            /* taken in */
};

/* @from < @to; @spans >= 1. Errors: ERR_NOMEM. */
enum err decimate_init(struct decimate *d, uint64_t from, uint64_t to,
                       size_t spans);
/* Accepts a zeroed one. */
void decimate_deinit(struct decimate *d);

/* Takes @p in; one outside of the axis is left out. O(1). */
void decimate_add(struct decimate *d, const struct decimate_point *p);

/* The points kept of span @index, by clock and each once; returns how many. */
size_t decimate_span_points(const struct decimate *d, size_t index,
                            struct decimate_point out[DECIMATE_KEPT]);

#endif
