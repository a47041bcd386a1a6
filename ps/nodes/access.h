/* Access knowledge: in how many clocks each worker touches each row of a table,
 * and so where the rows should lie (Cui et al. 2014, IterStore; thesis of Cui,
 * chapter 3).
 *
 * Knowledge may lack rows and have rows that are not touched any more: that
 * costs messages, never a wrong value, because everything here says where
 * something is, never what is in it.
 *
 * Memory: 4 bytes a row and worker. One owner. Pure.
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

/* Bytes that the knowledge takes, about, and those that access_place takes
 * while it runs. */
uint64_t access_bytes(uint64_t rows, uint32_t workers);
uint64_t access_place_bytes(uint64_t rows);

/* The worker touches @row in so many clocks; 0, which is so at first: not. */
void access_weigh(struct access *a, uint32_t worker, uint64_t row,
                  uint32_t clocks);

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

#endif
