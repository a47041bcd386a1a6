/* The order of iterations within parts: such that successive ones share no row,
 * so that a body can work on several at once. Pure.
 *
 * Each iteration is put to the oldest of some open blocks that has none of its
 * rows; a block that is full is closed, and the oldest where no more can be
 * open. Of a part the full blocks come first.
 */
#ifndef PS_LOOP_APART_H
#define PS_LOOP_APART_H

#include "ps/loop/parts.h"

/* Orders each part of @p anew: as often as can be, @apart successive iterations
 * (<= MLT_LOOP_APART_MAX), counted from the part's begin, share no row of a
 * table that the loop updates in place. Rows that the data choose are not
 * looked at. @apart 0 or 1: nothing changes. Not for an ordered loop. Errors:
 * ERR_NOMEM, and nothing has changed. */
enum err apart_order(const struct loop_nest *n, unsigned apart,
                     struct loop_parts *p);

/* The runs in that order: a bit for each iteration of @p, set where it begins
 * one, and one after the last. From an iteration on to the next that begins a
 * run, at most @apart (<= MLT_LOOP_APART_MAX) share no row of a table that the
 * loop updates in place; each part begins one. Owned by the caller. @apart 0 or
 * 1: NULL, each iteration is alone. Errors: ERR_NOMEM. */
enum err apart_runs(const struct loop_nest *n, unsigned apart,
                    const struct loop_parts *p, uint64_t **out);

/* Iterations from @at on to the next run; @at is one of them. */
static inline unsigned apart_run(const uint64_t *runs, uint64_t at)
{
    uint64_t word = (at + 1) / 64, bit = (at + 1) % 64;
    uint64_t next = runs[word] >> bit;

    if (bit)
        next |= runs[word + 1] << (64 - bit);
    return 1 + (unsigned)__builtin_ctzll(next);
}

#endif
