/* Priorities: which rows leave first while there is room before they have to
 * (Wei et al. 2015, section 3.3.2; `ps.priority` names one). Pure. */
#ifndef PS_PRIORITY_H
#define PS_PRIORITY_H

#include "mltune/ps.h"

#include <stddef.h>
#include <stdint.h>

enum priority {
    PRIORITY_RANDOM,
    PRIORITY_ROUND_ROBIN, /* in the order of their numbers, in turn */
    PRIORITY_ABSOLUTE,    /* the largest change |d| */
    PRIORITY_RELATIVE,    /* the largest |d| / |a| of a row that is a; |d| where
                           * a is 0 or not known */
    PRIORITY_COUNT
};

/* "random", ...; static storage. */
const char *priority_name(enum priority p);

/* The one of that name, or PRIORITY_COUNT. */
enum priority priority_find(const char *name);

/* Euclidean norm of a row, and of the difference of two: @width values. */
double priority_norm(enum mlt_type type, uint32_t width, const void *values);
double priority_distance(enum mlt_type type, uint32_t width, const void *a,
                         const void *b);

/* The higher, the sooner. @change: |d|; @size: |a|, 0 where it is not known. A
 * change that is no number comes first. @random: state of a generator. */
double priority_key(enum priority p, double change, double size,
                    uint64_t *random);

/* A row that might leave. */
struct candidate {
    double key;
    uint64_t row;
};

/* Brings the @want <= n with the highest keys (of equal ones, the lowest rows)
 * to the front, in any order. Cost O(n) on average. */
void priority_choose(struct candidate c[], size_t n, size_t want);

#endif
