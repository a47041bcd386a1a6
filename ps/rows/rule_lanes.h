/* The loops of sgd, adagrad and rpcs that training spends its time in, one
 * version a width of vector: 16 floats (AVX-512), 8 (AVX2 with FMA), 1 (plain
 * C).
 *
 * Values are worked on apart from each other, but for the sum of squares of
 * rpcs, whose order is the lanes'. So widths differ in the last bits only:
 * there, where a processor has no FMA, and in roots.
 */
#ifndef PS_RULE_LANES_H
#define PS_RULE_LANES_H

#include "ps/rows/rule.h"

struct rule_lanes {
    unsigned lanes;
    bool (*works)(void); /* on this processor */
    /* As in struct rule_ops. */
    void (*adagrad)(const struct rule_batch *b);
    void (*adagrad_mix)(const struct rule_batch *b, const struct rule_mix *m);
    void (*rpcs)(const struct rule_batch *b);
    void (*rpcs_mix)(const struct rule_batch *b, const struct rule_mix *m);
    void (*sgd_mix)(const struct rule_batch *b, const struct rule_mix *m);
    void (*mix_sums)(const struct rule_batch *b, const struct rule_mix *m,
                     float *out);
    void (*sgd_cross)(const struct rule_batch *b, const struct rule_cross *m);
    void (*adagrad_cross)(const struct rule_batch *b,
                          const struct rule_cross *m);
};

/* Number @i, the widest first; NULL after the last, which is the plain one. */
const struct rule_lanes *rule_lanes_at(size_t i);

/* The widest that works here. */
const struct rule_lanes *rule_lanes_best(void);

#endif
