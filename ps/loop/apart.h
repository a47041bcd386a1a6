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

#endif
