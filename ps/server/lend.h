/* Rows of exclusive tables that pass from worker to worker within a clock, as a
 * loop's plan says (ps/loop).
 *
 * Whoever calls is, by that plan, the only one to touch these rows now, and
 * what others wrote to them happens before. One node.
 */
#ifndef PS_LEND_H
#define PS_LEND_H

#include "mltune/ps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As mlt_rows, whoever owns them: places for reading and writing, whose chunks
 * are made private first. Rows of one owner in a row are found fastest. Misuse:
 * a row out of range. */
void lend_rows(struct mlt_worker *w, mlt_table table, size_t n,
               const uint64_t rows[], void *out[]);

/* How the rows of a shared or exclusive table lie: row r is in chunk r >>
 * row_shift, as its row r & ((1 << row_shift) - 1), `stride` bytes apart. Once
 * it is declared. A chunk that lend_rows gave a row of stays where it is until
 * the clock ends. */
struct lend_layout {
    uint64_t chunks;
    uint32_t row_shift, stride;
};
struct lend_layout lend_layout(const struct mlt_ps *ps, mlt_table table);

/* Debug builds: what a worker touches by the calls of mltune/ps.h is shown to
 * @check first, which aborts where it is not to be. @guard is borrowed until
 * the next call; NULL: no check. */
struct lend_guard {
    void (*check)(const struct lend_guard *guard, mlt_table table,
                  uint64_t row);
};
void lend_guard(struct mlt_worker *w, const struct lend_guard *guard);

#endif
