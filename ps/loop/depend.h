/* Dependence vectors of a loop: by how much two iterations that touch the same
 * row differ, where at least one of them updates it (Wei 2018, section 3.4.1).
 *
 * Found from pairs of touches of one table, whose subscripts are compared axis
 * by axis: index d plus c against index d plus c' says that the iterations
 * differ by c - c' in dimension d; any other pair says nothing of any
 * dimension. What nothing is said of is infinity. A vector is kept as an
 * iteration less one that runs serially before it, so its first element that is
 * not 0 is positive; one with infinities comes to several such (the paper's
 * "positive infinity" is DEPEND_PLUS).
 *
 * Pure. Departures: distances no smaller than a dimension's extent are no
 * dependence; fixed subscripts that differ are none either.
 */
#ifndef PS_LOOP_DEPEND_H
#define PS_LOOP_DEPEND_H

#include "ps/loop/nest.h"

/* Two touches give at most 1 + 2 + 4 + 8 vectors in four dimensions. */
enum { DEPEND_MAX = 512 };

enum depend_kind {
    DEPEND_NUMBER,
    DEPEND_PLUS, /* any number > 0 */
    DEPEND_ANY
};

struct depend_element {
    enum depend_kind kind;
    int64_t number; /* of DEPEND_NUMBER, else 0 */
};

struct depend {
    struct depend_element by[MLT_LOOP_DIMS_MAX];
    mlt_table table;
    uint8_t first, second; /* touches that gave it first */
};

struct depends {
    unsigned dims;
    unsigned count;
    struct depend vector[DEPEND_MAX];
};

/* All of @n, of one table none twice. Errors: ERR_LIMIT, more than DEPEND_MAX.
 */
enum err depend_find(const struct loop_nest *n, struct depends *out);

static inline bool depend_is_zero(const struct depend *v, unsigned dim)
{
    return v->by[dim].kind == DEPEND_NUMBER && v->by[dim].number == 0;
}

/* Whether it can not be negative in @dim. */
static inline bool depend_never_falls(const struct depend *v, unsigned dim)
{
    return v->by[dim].kind == DEPEND_PLUS ||
           (v->by[dim].kind == DEPEND_NUMBER && v->by[dim].number >= 0);
}

/* As "(0, +, any, -2)". Returns the length. */
size_t depend_text(const struct depend *v, unsigned dims, char *out,
                   size_t size);

#endif
