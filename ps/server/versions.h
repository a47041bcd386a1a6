/* Versions of a shared table (mltune/history.h), kept row by row: before a row
 * changes, its values are copied for the versions that were taken since it was
 * last copied.
 *
 * Of a row the caller holds the stripe (apply_stripe), or nobody else touches
 * the table. What versions there are is under a lock of its own, taken within.
 */
#ifndef PS_VERSIONS_H
#define PS_VERSIONS_H

#include "ps/server/view.h"

struct versions;

void versions_free(struct versions *h);

/* Between runs: all versions are gone. */
void versions_reset(struct versions *h);

/* @row is about to change, and has @values. Never fails: where no memory is
 * left, the versions that needed them are lost, and say so when they are read.
 */
void versions_before(struct versions *h, uint64_t row, const void *values);

/* Rows may have changed since: the next version that is taken is a new one. */
void versions_changed(struct versions *h);

#endif
