/* A loop as the planner sees it: its iteration space, and which rows of which
 * tables an iteration touches. Plain data; whoever fills it in owns what it
 * points to.
 */
#ifndef PS_LOOP_NEST_H
#define PS_LOOP_NEST_H

#include "base/fault.h"
#include "mltune/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A touch of a table: its subscripts, axis sizes filled in. */
struct loop_access {
    const char *table; /* borrowed name */
    mlt_table id;
    uint64_t rows;
    uint32_t width;
    bool reads, updates, buffered;
    unsigned axes; /* >= 1 */
    struct mlt_subscript at[MLT_LOOP_AXES_MAX];
};

struct loop_nest {
    unsigned dims;
    uint64_t extent[MLT_LOOP_DIMS_MAX];
    uint64_t iterations;
    const uint32_t *key; /* [iterations][dims]; borrowed */
    bool ordered;
    struct loop_access access[MLT_LOOP_TOUCHES_MAX];
    unsigned accesses;
};

static inline const uint32_t *nest_key(const struct loop_nest *n, uint64_t i)
{
    return n->key + i * n->dims;
}

/* Takes one touch of a table of @rows rows: as many axes as it has subscripts,
 * whose sizes must give the rows. Errors: ERR_INVAL, in words. */
enum err nest_access(struct loop_access *out, const struct mlt_touch *touch,
                     const char *table, uint64_t rows, uint32_t width,
                     struct fault *f);

/* Whether keys lie in the space and subscripts in their tables: @touch of the
 * fault's words is the access's number. Errors: ERR_INVAL, naming iteration,
 * touch and table. */
enum err nest_check(const struct loop_nest *n, struct fault *f);

/* Whether the row follows from the iteration's indices. */
bool access_is_static(const struct loop_access *a);

/* The row that a static access touches in the iteration with these indices. */
uint64_t access_row(const struct loop_access *a, const uint32_t *key);

/* Whether the iteration's declared subscripts admit @row. */
bool access_admits(const struct loop_access *a, const uint32_t *key,
                   uint64_t row);

/* Whether some subscript is this dimension's index. */
bool access_follows(const struct loop_access *a, unsigned dim);

#endif
