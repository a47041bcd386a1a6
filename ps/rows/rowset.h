/* Sets of rows: a bit each. Plain data, one owner. Pure. */
#ifndef PS_ROWSET_H
#define PS_ROWSET_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct rowset {
    uint64_t *word; /* [(rows + 63) / 64] */
    uint64_t rows;
    uint64_t low; /* no row below is in the set */
};

/* Empty, for rows 0 .. @rows - 1; @rows may be 0. Errors: ERR_NOMEM. */
enum err rowset_init(struct rowset *s, uint64_t rows);
void rowset_deinit(struct rowset *s);

/* The lowest row of the set, or s->rows. Cost: amortised over removals in
 * increasing order, the words of the set. */
uint64_t rowset_first(struct rowset *s);

/* No row of @s that is in @a stays in it. */
void rowset_remove_all(struct rowset *s, const struct rowset *a);

/* @s gets what is both in @a and in @b; all of the same rows. */
void rowset_add_both(struct rowset *s, const struct rowset *a,
                     const struct rowset *b);

void rowset_clear(struct rowset *s);

static inline bool rowset_has(const struct rowset *s, uint64_t row)
{
    return s->word[row >> 6] >> (row & 63) & 1;
}

static inline void rowset_add(struct rowset *s, uint64_t row)
{
    s->word[row >> 6] |= (uint64_t)1 << (row & 63);
    if (row < s->low)
        s->low = row;
}

static inline void rowset_remove(struct rowset *s, uint64_t row)
{
    s->word[row >> 6] &= ~((uint64_t)1 << (row & 63));
}

#endif
