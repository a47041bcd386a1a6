/* Access knowledge: what an iteration touches, and what can be prepared once
 * because the next ones will touch the same (Cui et al. 2014, IterStore; thesis
 * of Cui, chapter 3).
 *
 * The rows of one table that each worker touches are noted, in a virtual
 * iteration or in the first real one; then asked: where rows should lie, which
 * to fetch before a clock and in what order, which a worker should keep for
 * itself. Knowledge may lack rows and have rows that are not touched any more:
 * that costs messages, never a wrong value, because everything here says where
 * something is or what to ask for early, never what is in it.
 *
 * Memory while it is gathered: 4 bytes a row and worker, and 8 a row touched.
 * One owner. Pure.
 */
#ifndef PS_ACCESS_H
#define PS_ACCESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access;

/* @workers over all nodes, @workers / @nodes on each, numbered node by node.
 * Errors: ERR_NOMEM. */
enum err access_new(uint64_t rows, uint32_t nodes, uint32_t workers,
                    struct access **out);
void access_free(struct access *a);

/* Bytes that weights of @workers take (access_weigh), about, and those that
 * access_place takes while it runs. */
uint64_t access_bytes(uint64_t rows, uint32_t workers);
uint64_t access_place_bytes(uint64_t rows);

/* @worker reads @row, or updates it. May go on while the knowledge is used:
 * rows that were missing are then known from their next clock on. Errors:
 * ERR_NOMEM; the row is then not known. */
enum err access_note(struct access *a, uint32_t worker, uint64_t row,
                     bool reads);

/* The worker's clock ends: what is noted from now on counts anew. Within a
 * clock a node reads a row once and sends one sum of it, however often it is
 * touched there. */
void access_end_clock(struct access *a, uint32_t worker);

/* Instead of noting: the worker touches @row in so many clocks. */
void access_weigh(struct access *a, uint32_t worker, uint64_t row,
                  uint32_t clocks);

/* Rows that the worker read, each once, in the order of the first reading:
 * [*n], borrowed until the next note. What to fetch when a clock begins, all at
 * once; asked for in this order, what is needed first comes first (the early
 * part of thesis 3.3.7 is the head of the list). */
const uint64_t *access_rows(const struct access *a, uint32_t worker, size_t *n);

/* ---- where rows should lie ----------------------------------------------- */

/* Numbers @place[first[i]] .. of a table are node i's. Gives each row a number,
 * a permutation of 0 .. rows - 1: @place[rows]. A row comes to the node that
 * touches it in most clocks and has room left, those first that lose most
 * otherwise; rows that nobody touched fill up the rest, in order.
 *
 * @first[nodes], @count[nodes]: the nodes' parts; the counts add up to all
 * rows. Errors: ERR_NOMEM. Cost: O(rows (workers + log rows)). Source:
 * thesis 3.3.4, but with parts of given sizes, and by the number of clocks
 * where that has none, one or all. */
enum err access_place(const struct access *a, const uint64_t first[],
                      const uint64_t count[], uint64_t place[]);

/* ---- what a worker keeps ------------------------------------------------- */

/* Whether @worker should have a copy of @row of its own, so that its touching
 * it meets another worker's of its node with a probability of at most @bound.
 * Thesis 3.3.6, equation 3.1: of n_j workers that touch the row, this one does
 * in 1 of all its touches; above bound / (n_j - 1). */
bool access_is_contended(const struct access *a, uint32_t worker, uint64_t row,
                         double bound);

/* ---- finding a row in what was prepared ---------------------------------- */

/* A set of rows that does not change any more: row to its place in the list,
 * for any number of readers, without locks. */
struct access_index {
    uint64_t *row;  /* [mask + 1] row + 1; 0: none */
    uint32_t *slot; /* [mask + 1] */
    uint64_t mask;
};

#define ACCESS_NONE UINT32_MAX

/* @row[n], each once; n < ACCESS_NONE. Errors: ERR_NOMEM. */
enum err access_index_init(struct access_index *x, const uint64_t row[],
                           size_t n);
void access_index_deinit(struct access_index *x);

/* Place of the row in the list, or ACCESS_NONE. */
uint32_t access_index_find(const struct access_index *x, uint64_t row);

#endif
