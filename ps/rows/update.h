/* Update buffers: what one worker has added to one table since its clock began.
 *
 * Two levels of bits say which rows have a sum (a bit a row, a bit for 64
 * rows), so that whoever applies the sums walks the rows in order. The sums lie
 * by slot (ps/rows/slots.h): those that were ever touched take memory, until so
 * many were that a place for every row, at once and without an index, takes
 * little more; then that is what a buffer has from its next clock on. A small
 * one has it from the start. A sum keeps its place until the buffer is cleared.
 *
 * One worker writes; others read it only between two barriers. The struct may
 * be copied, all copies being one buffer.
 */
#ifndef PS_UPDATE_H
#define PS_UPDATE_H

#include "base/err.h"
#include "mltune/ps.h"
#include "ps/rows/slots.h"

#include <stdbool.h>
#include <stdint.h>

struct update {
    unsigned char *sum; /* [slot * value_bytes]; a row is valid when touched */
    uint64_t *touched;  /* [words] bit row & 63 of word row >> 6 */
    uint64_t *groups;   /* [group words] bit w: touched[w] is not zero */
    uint64_t rows, words;
    uint32_t value_bytes;
    bool dense; /* for sure; else ask `slots`: this may be a copy from before */
    struct slots slots;
};

/* Bytes that a buffer takes at most. */
uint64_t update_bytes(uint64_t rows, uint32_t value_bytes,
                      uint64_t dense_bytes);

/* No row is touched. @dense_bytes: of sums, at most which the buffer is dense.
 * Then all pages are touched, so that the first clock does not.
 * Errors: ERR_NOMEM. */
enum err update_init(struct update *u, uint64_t rows, uint32_t value_bytes,
                     uint64_t dense_bytes);
void update_deinit(struct update *u);

/* No row is touched afterwards, and pointers to sums are worth nothing. Cost:
 * the touched words. */
void update_clear(struct update *u);

static inline uint64_t update_groups(const struct update *u)
{
    return (u->words + 63) / 64;
}

static inline bool update_has(const struct update *u, uint64_t row)
{
    return u->touched[row >> 6] >> (row & 63) & 1;
}

/* Where the sum of a row lies that has a slot; of any row, which gets one. The
 * slow parts of update_row and update_take. */
void *update_place(const struct update *u, uint64_t row);
void *update_new_place(const struct update *u, uint64_t row);

/* The place of a touched row's sum. */
static inline void *update_row(const struct update *u, uint64_t row)
{
    if (!__builtin_expect(u->dense, 1))
        return update_place(u, row);
    return u->sum + row * u->value_bytes;
}

/* The place for the sum of a row that has none, for the caller to fill: it is
 * touched from now on. */
static inline void *update_take(struct update *u, uint64_t row)
{
    u->touched[row >> 6] |= (uint64_t)1 << (row & 63);
    u->groups[row >> 12] |= (uint64_t)1 << (row >> 6 & 63);
    if (!__builtin_expect(u->dense, 1))
        return update_new_place(u, row);
    return u->sum + row * u->value_bytes;
}

/* update_take of the @n rows from @first on, at once: the place of the first,
 * those of the others behind it in their order. NULL, and nothing is changed,
 * where sums lie in another order or one of the rows has one. Cost: the words
 * of the rows' bits. */
void *update_take_run(struct update *u, uint64_t first, uint64_t n);

/* The row has no sum any more. */
static inline void update_unmark(const struct update *u, uint64_t row)
{
    u->touched[row >> 6] &= ~((uint64_t)1 << (row & 63));
    if (u->touched[row >> 6] == 0)
        u->groups[row >> 12] &= ~((uint64_t)1 << (row >> 6 & 63));
}

bool update_is_empty(const struct update *u);

/* The sum over @n buffers of one table, of workers 0, 1, ... or of an aligned
 * block of workers, in the order of their tree (ps/rows/sum_tree.h); NULL where
 * none touched the row. It ends in the buffer of @own (the caller's: its cache
 * has it) if that touched the row, else in the first that did; nobody may read
 * the row in any of them again before they are cleared. */
const void *update_sum(enum mlt_type type, uint32_t width,
                       const struct update *const buffer[], unsigned n,
                       unsigned own, uint64_t row);

/* Rows that any of several buffers of one table touched, in increasing order.
 *
 *     update_walk_init(&walk, first, end);
 *     while (update_walk_next(&walk, buffers, n, &row)) ...
 */
struct update_walk {
    uint64_t word; /* index of the word that `bits` are from */
    uint64_t bits; /* rows of it still to give */
    uint64_t first, end;
};

void update_walk_init(struct update_walk *walk, uint64_t first, uint64_t end);

/* The next 64-row word with touched rows at or after the present one: slow part
 * of update_walk_next. */
bool update_walk_word(struct update_walk *walk,
                      const struct update *const buffer[], unsigned n);

static inline bool update_walk_next(struct update_walk *walk,
                                    const struct update *const buffer[],
                                    unsigned n, uint64_t *row)
{
    if (walk->bits == 0 && !update_walk_word(walk, buffer, n))
        return false;
    *row = walk->word * 64 + (unsigned)__builtin_ctzll(walk->bits);
    walk->bits &= walk->bits - 1;
    return true;
}

/* After update_walk_next gave @row: how many of the rows from it on, before
 * @end, the walk would give one after the other without a gap, itself among
 * them. They are taken: the walk goes on behind them. At most to the end of a
 * word of 64 rows. */
static inline uint64_t update_walk_run(struct update_walk *walk, uint64_t row,
                                       uint64_t end)
{
    uint64_t behind = walk->bits >> (row & 63) >> 1;
    uint64_t n = 1 + (unsigned)__builtin_ctzll(~behind);

    if (n > end - row)
        n = end - row;
    walk->bits &= ~((((uint64_t)1 << (n - 1)) - 1) << (row & 63) << 1);
    return n;
}

#endif
