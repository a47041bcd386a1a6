/* Batched gets of a worker that have begun and that it has not waited for.
 * Owned by the worker's thread; what a node's peers know of them is told by
 * others.
 */
#ifndef PS_BATCHES_H
#define PS_BATCHES_H

#include "base/err.h"
#include "mltune/ps.h"

#include <stddef.h>
#include <stdint.h>

#define BATCHES_ALL_TABLES UINT32_MAX

struct get_batch {
    uint64_t number;
    mlt_table table;
    size_t n, room;
    uint64_t *rows; /* [n], of `room` owned */
};

/* Zeroed: none. */
struct batches {
    struct get_batch batch[MLT_GETS_MAX]; /* [count] under way */
    unsigned count;
    uint64_t number; /* the latest's */
};

void batches_deinit(struct batches *s);

/* Another begins, with a copy of @rows[n] that lives until it ends; it gets the
 * next number. Errors, nothing changed: ERR_LIMIT there are MLT_GETS_MAX,
 * ERR_NOMEM. */
enum err batches_begin(struct batches *s, mlt_table table, size_t n,
                       const uint64_t rows[], const struct get_batch **out);

/* The one of that number; one of @table, or any (BATCHES_ALL_TABLES): or NULL.
 */
const struct get_batch *batches_find(const struct batches *s, uint64_t number);
const struct get_batch *batches_of(const struct batches *s, mlt_table table);

/* It is over. Its rows stay as they are until the next begins. */
void batches_end(struct batches *s, const struct get_batch *b);

#endif
