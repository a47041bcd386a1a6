/* Knowledge of a virtual iteration: which rows each worker of a simulated
 * cluster touches, noted while it does, in the order of the first reading.
 *
 * What real nodes know of each other's rows is gathered from lists
 * (ps/rows/prefetch_list.h, ps/nodes/placement.h); both place rows by
 * ps/nodes/access.h. Aborts without memory.
 */
#ifndef TESTS_SIM_KNOWLEDGE_H
#define TESTS_SIM_KNOWLEDGE_H

#include "ps/nodes/access.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct knowledge;

/* @workers over all nodes, numbered node by node. */
struct knowledge *knowledge_new(uint64_t rows, uint32_t nodes,
                                uint32_t workers);
void knowledge_free(struct knowledge *k);

/* @worker reads @row, or updates it. Counts once a clock. */
void knowledge_note(struct knowledge *k, uint32_t worker, uint64_t row,
                    bool reads);
void knowledge_end_clock(struct knowledge *k, uint32_t worker);

/* Rows that the worker read, each once, in the order of the first reading:
 * [*n], borrowed until the next note. */
const uint64_t *knowledge_rows(const struct knowledge *k, uint32_t worker,
                               size_t *n);

/* Whether @row is among the first @n of them. */
bool knowledge_has(const struct knowledge *k, uint32_t worker, size_t n,
                   uint64_t row);

/* The counts of touches of each row, for access_place. */
const struct access *knowledge_access(const struct knowledge *k);

#endif
