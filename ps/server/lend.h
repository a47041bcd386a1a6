/* Rows of exclusive tables that pass from worker to worker within a clock, as a
 * loop's plan says (ps/loop).
 *
 * Whoever calls is, by that plan, the only one to touch these rows now, and
 * what others wrote to them happens before. Over several nodes rows come and go
 * by the wire (lend_begin and what follows); those of other nodes lie with the
 * loop while they are here.
 */
#ifndef PS_LEND_H
#define PS_LEND_H

#include "mltune/ps.h"
#include "ps/nodes/courier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As mlt_rows, whoever of this node owns them: places for reading and writing,
 * whose chunks are made private first. Rows of one owner in a row are found
 * fastest. Misuse: a row out of range. */
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

/* Whether all who work on the rows meet when they end a clock: under barriers,
 * on one node. */
bool lend_meets_at_clock(const struct mlt_ps *ps);

/* The node whose row it is. */
uint32_t lend_home(const struct mlt_ps *ps, mlt_table table, uint64_t row);

/* Where a row of this node lies; with @write its chunk is made private first.
 * Any thread. */
void *lend_place(struct mlt_ps *ps, mlt_table table, uint64_t row, bool write);

/* As carry_begin and the others of struct peers_ops; on one node misuse. */
int lend_begin(struct mlt_worker *w, const struct courier_pass *pass);
int lend_passed(struct mlt_worker *w);
int lend_await(struct mlt_worker *w, uint64_t place);
int lend_end(struct mlt_worker *w, uint64_t place, const double *own,
             double *all);

/* Debug builds: what a worker touches by the calls of mltune/ps.h is shown to
 * @check first, which aborts where it is not to be. @guard is borrowed until
 * the next call; NULL: no check. */
struct lend_guard {
    void (*check)(const struct lend_guard *guard, mlt_table table,
                  uint64_t row);
};
void lend_guard(struct mlt_worker *w, const struct lend_guard *guard);

#endif
