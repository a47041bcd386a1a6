/* How a loop is split among workers, from its dependence vectors (Wei 2018,
 * section 3.4.1), tried in this order:
 *
 *   1-D        some dimension i has d[i] = 0 in all vectors: what differs in i
 *              is independent; each worker has a range of i
 *   2-D        two dimensions i, j have d[i] = 0 or d[j] = 0 in all vectors:
 *              what differs in both is independent. Space i is split among the
 *              workers, time j goes round among them
 *   wavefront  ordered, or none of the above: no vector falls in i nor in j, so
 *              part (a, b) needs only parts (<= a, <= b)
 *   unimodular no element can be any number: the space is skewed until no
 *              vector falls in any dimension, then as a wavefront (Wolf and Lam
 *              1991). A positive infinity counts as 1, the least it can be.
 *              Where the skewed numbers leave an int64: serial
 *   serial     one worker
 *
 * Of several choices the one that moves the fewest values is taken, of equal
 * ones the one whose dimensions, the shorter one if there are two, are longest:
 * it has work for the most workers. Pure.
 * Departures from the paper: an ordered loop is split in two dimensions only
 * where neither falls, since with three or more dimensions d[i] = 0 or d[j] = 0
 * does not keep the order; and vectors with positive infinities do not bar a
 * wavefront, since only their sign matters to it.
 */
#ifndef PS_LOOP_PLAN_H
#define PS_LOOP_PLAN_H

#include "ps/loop/depend.h"

enum loop_strategy {
    LOOP_1D,
    LOOP_2D,
    LOOP_WAVEFRONT,
    LOOP_UNIMODULAR,
    LOOP_SERIAL
};

/* Where the rows of a touch are while a part is worked on. */
enum loop_place {
    LOOP_LOCAL,   /* with one worker, from beginning to end */
    LOOP_ROTATED, /* they go with the time part, from worker to worker */
    LOOP_SERVED   /* anywhere */
};

struct loop_plan {
    enum loop_strategy strategy;
    /* A dimension of the split: the sum of by[d] * index[d]. `dim`: the one
     * dimension that it is, or -1 where it is skewed. */
    struct loop_axis {
        int64_t by[MLT_LOOP_DIMS_MAX];
        int dim;
    } space, time;
    unsigned workers;     /* that take part */
    unsigned space_parts; /* one a worker */
    unsigned time_parts;  /* 1 without a time dimension */
    enum loop_place place[MLT_LOOP_TOUCHES_MAX];
    double moved; /* values that go from worker to worker in a pass */
};

/* Whether parts are worked on in an order: (a, b) after (a - 1, b). */
static inline bool plan_is_wavefront(const struct loop_plan *p)
{
    return p->strategy == LOOP_WAVEFRONT || p->strategy == LOOP_UNIMODULAR;
}

static inline bool plan_has_time(const struct loop_plan *p)
{
    return p->strategy == LOOP_2D || plan_is_wavefront(p);
}

/* @workers >= 1; @time_parts a worker, 0: chosen here. */
void plan_make(const struct loop_nest *n, const struct depends *ds,
               unsigned workers, unsigned time_parts, struct loop_plan *out);

/* Value of a dimension of the split in an iteration. */
static inline int64_t plan_value(const struct loop_axis *axis, unsigned dims,
                                 const uint32_t *key)
{
    int64_t value = 0;

    for (unsigned d = 0; d < dims; d++)
        value += axis->by[d] * (int64_t)key[d];
    return value;
}

#endif
