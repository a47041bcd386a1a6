/* Slots of rows: a compact index of the rows of a table that somebody has
 * touched, so that what is kept beside them (sums, copies, clocks) is as long
 * as the touched rows are many and not as the table.
 *
 * A row that is taken first gets the next slot: 0, 1, 2, ... It keeps it, and
 * so its place, until slots_forget. For each 64 rows there is a word of bits,
 * which have one, and a short list of their slots in the order of rows (as a
 * sparse table of Google's sparsehash): 0.2 bytes a row of the table, and 4 to
 * 8 a row that has a slot. *Dense*: a row's slot is its number, and there is no
 * index. That is what it becomes where so much is touched that an index saves
 * nothing, and what it is from the start for small tables.
 *
 * Room for all is reserved as addresses; memory is taken by pages as they are
 * touched. The struct may be copied: all copies are one index. One owner at a
 * time; while it gives slots, others may look for rows that they know to have
 * one (slots_find). Pure.
 */
#ifndef PS_SLOTS_H
#define PS_SLOTS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct slots_state {
    bool dense;
    bool always; /* dense, and never was anything else; shared by all */
    uint64_t rows, words;
    uint64_t used;          /* slots given */
    uint64_t changes;       /* odd while a slot is given; for slots_find */
    uint64_t blocks;        /* of 8 entries of the pool, ever used */
    uint32_t free8, free16; /* chains of lists that were outgrown; 0: none */
};

struct slots {
    struct slots_state *state; /* never NULL once initialised */
    uint64_t *known;           /* [words] bit row & 63: it has a slot */
    uint32_t *at;   /* [words] where the list begins, in blocks of 8; from 1 */
    uint32_t *pool; /* lists of slots, in the order of rows */
};

/* More rows than that are dense always. */
#define SLOTS_ROWS_MAX ((uint64_t)UINT32_MAX)

/* What is kept of tables of at most so many bytes of values is dense: the pages
 * that could be saved are not worth an index. */
#define SLOTS_DENSE_BYTES ((uint64_t)1 << 20)

/* Bytes that the index takes at most. */
uint64_t slots_bytes(uint64_t rows, bool dense);

/* Nobody has a slot; or @dense for good, which allocates nothing.
 * Errors: ERR_NOMEM. */
enum err slots_init(struct slots *s, uint64_t rows, bool dense);
void slots_deinit(struct slots *s);

/* No row has a slot any more; the index's memory is given back. */
void slots_forget(struct slots *s);

/* Of an index with nothing to be kept by slots: dense from now on, if so many
 * rows have one that it saves less than half of @bytes a slot. Returns whether
 * it has become so. */
bool slots_settle(struct slots *s, uint32_t bytes);

/* The slot of a row that has none yet: slow part of slots_take. */
uint64_t slots_give(const struct slots *s, uint64_t row);

static inline unsigned slots_count(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((bits * 0x0101010101010101u) >> 56);
}

static inline bool slots_has(const struct slots *s, uint64_t row)
{
    return s->state->dense || (s->known[row >> 6] >> (row & 63) & 1);
}

/* Of a row that has one. */
static inline uint64_t slots_of(const struct slots *s, uint64_t row)
{
    uint64_t below;

    if (__builtin_expect(s->state->dense, 1))
        return row;
    below = s->known[row >> 6] & (((uint64_t)1 << (row & 63)) - 1);
    return s->pool[(uint64_t)s->at[row >> 6] * 8 + slots_count(below)];
}

/* The row's slot, a new one if it has none. */
static inline uint64_t slots_take(const struct slots *s, uint64_t row)
{
    return slots_has(s, row) ? slots_of(s, row) : slots_give(s, row);
}

/* As slots_of, by a thread that is not the owner: of a row that had a slot when
 * that last told it so. The loads are in order, so that what was read between
 * two equal, even counts of changes belongs together. */
static inline uint64_t slots_find(const struct slots *s, uint64_t row)
{
    uint64_t changes, known, slot;
    uint32_t at;

    if (__builtin_expect(s->state->dense, 1))
        return row;
    do {
        changes = __atomic_load_n(&s->state->changes, __ATOMIC_ACQUIRE);
        known = __atomic_load_n(&s->known[row >> 6], __ATOMIC_ACQUIRE);
        at = __atomic_load_n(&s->at[row >> 6], __ATOMIC_ACQUIRE);
        known &= ((uint64_t)1 << (row & 63)) - 1;
        slot = __atomic_load_n(&s->pool[(uint64_t)at * 8 + slots_count(known)],
                               __ATOMIC_ACQUIRE);
    } while (changes % 2 != 0 ||
             changes != __atomic_load_n(&s->state->changes, __ATOMIC_RELAXED));
    return slot;
}

/* Slots given so far: of a dense one, as many as rows. */
static inline uint64_t slots_used(const struct slots *s)
{
    return s->state->used;
}

#endif
