/* Where the rows of a shared table lie, of several nodes: at the node that
 * touches them most (Cui et al. 2014, IterStore; thesis of Cui, 3.3.4).
 *
 *     before the start   what this node's workers will touch is said, clock by
 *                        clock of a virtual iteration: placement_expect
 *     nodes meet         each tells the others how often it touches each row
 *                        (FRAME_EXPECT): placement_take
 *     then               all compute the same permutation from the same counts
 *
 * A row then has a number; the nodes' parts are ranges of numbers, as they were
 * of rows. What a table's rows are worth, where nobody said anything, is
 * nothing: the table is not placed.
 *
 * One owner. Pure.
 */
#ifndef PS_PLACEMENT_H
#define PS_PLACEMENT_H

#include "base/fault.h"
#include "ps/nodes/access.h"
#include "ps/nodes/frame.h"
#include "ps/rows/prefetch_list.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stdint.h>

struct placement {
    uint32_t node, nodes, workers; /* workers: a node */
    uint64_t rows;
    struct prefetch_list
        *known;         /* [workers] what each will read, by row; or NULL */
    uint32_t *touches;  /* [rows] of this node's; NULL: none */
    struct access *all; /* of all nodes, until the table is placed */
    uint32_t *number;   /* [rows] the permutation ... */
    uint32_t *row_at;   /* ... and its inverse; or NULL */
};

void placement_init(struct placement *p, uint32_t node, uint32_t nodes,
                    uint32_t workers, uint64_t rows);
void placement_deinit(struct placement *p);

/* Bytes that a placed table takes in a node, with what it takes while nodes
 * meet only. */
uint64_t placement_bytes(uint64_t rows, uint32_t nodes);

/* Worker @worker of this node reads, or updates, @row in a clock of @part; at
 * most once each. @places: it counts for where the row is to lie. Errors:
 * ERR_NOMEM; the row is then not known. */
enum err placement_expect(struct placement *p, uint32_t worker, uint64_t part,
                          uint64_t row, bool reads, bool updates, bool places);

/* The next frame that tells the others what this node touches, into
 * @bytes[room], complete but for the stamp; 0 when there is none. @from: the
 * row to begin with, moved on. */
size_t placement_next(const struct placement *p, uint32_t table, uint64_t *from,
                      unsigned char *bytes, size_t room);

/* A FRAME_EXPECT of another node. Errors: ERR_PROTO, a row that there is not,
 * in words; ERR_NOMEM. */
enum err placement_take(struct placement *p, const struct frame *f,
                        struct fault *fault);

/* All nodes have said what they touch: makes the permutation, if any has said
 * anything, for @table and what is known of its rows. Errors: ERR_NOMEM. */
enum err placement_make(struct placement *p, struct table *table);

#endif
