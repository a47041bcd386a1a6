/* Sobol's sequence, scrambled: points that fill the unit cube evenly.
 *
 * In every axis each aligned block of 2^k points has one point in each of the
 * 2^k equal intervals, so even a dozen points see the whole range. Owen's
 * nested scrambling makes every seed another sequence with that property.
 * Sources: Sobol 1967; Bratley and Fox 1988 (construction); Owen 1995
 * (scrambling).
 */
#ifndef SEARCHERS_SOBOL_H
#define SEARCHERS_SOBOL_H

#include <stddef.h>
#include <stdint.h>

enum { SOBOL_DIMS_MAX = 32, SOBOL_BITS = 32 };

struct sobol {
    uint64_t seed;
    size_t dims;
    uint32_t direction[SOBOL_DIMS_MAX][SOBOL_BITS];
};

/* @dims in 0 .. SOBOL_DIMS_MAX. */
void sobol_init(struct sobol *s, size_t dims, uint64_t seed);

/* Point number @index < 2^32, each @u[dims] in (0, 1). */
void sobol_point(const struct sobol *s, uint64_t index, double u[]);

#endif
