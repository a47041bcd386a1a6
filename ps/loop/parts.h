/* A loop's iterations, dealt to parts: by cut points along the dimensions of
 * the split, which give each part about as many iterations (Wei 2018, section
 * 3.4.4). Pure.
 *
 * Cuts follow a histogram of at most PARTS_BINS_MAX bins; a bin is not split.
 * With a seed, bins are dealt in a permuted order, where the plan does not need
 * theirs.
 */
#ifndef PS_LOOP_PARTS_H
#define PS_LOOP_PARTS_H

#include "ps/loop/plan.h"

enum { PARTS_BINS_MAX = 1 << 20 };

/* One dimension, split. */
struct loop_cuts {
    int64_t low;
    uint64_t range; /* values low .. low + range - 1 */
    unsigned shift; /* a bin has 1 << shift values */
    uint64_t bins;
    unsigned parts;
    uint16_t *part; /* [bins] owned */
    bool shuffled;
};

struct loop_parts {
    struct loop_cuts space, time;
    uint32_t *order; /* [iterations] owned; part after part */
    uint64_t *start; /* [space * time + 1] owned; of part (a, b): place
                      * a * time.parts + b */
};

/* @seed 0: ranges. Iterations keep their order within a part: that of the keys
 * for an ordered loop, else as given. Errors: ERR_NOMEM. */
enum err parts_make(const struct loop_nest *n, const struct loop_plan *plan,
                    uint64_t seed, struct loop_parts *out);

/* Accepts a zeroed object. */
void parts_deinit(struct loop_parts *p);

static inline size_t parts_block(const struct loop_parts *p, unsigned space,
                                 unsigned time)
{
    return (size_t)space * p->time.parts + time;
}

/* Iterations of the fullest part of a dimension, over those of an even one; 1
 * without iterations. */
double parts_skew(const struct loop_parts *p, bool time);

#endif
