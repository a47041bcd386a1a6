/* The order in which the sums of workers are added up: a tree over all workers
 * of all nodes, by their numbers.
 *
 *     ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
 *
 * Worker i's leaf is leaf i of the binary tree whose leaves are all numbers.
 * Who has no sum of a row is no leaf, and a node with one child is that child.
 * So the sum depends on who has one and on nothing else: not on how many
 * workers there are, nor on which nodes they run. And what the workers of an
 * aligned block (4 to 7, 6 and 7, not 5 and 6) sum up among themselves is a
 * part of it: a node sends one sum for each such block of its workers, and the
 * bits are those of one process.
 *
 * Rounding errors grow with the tree's depth and not with the workers. Pure.
 */
#ifndef PS_SUM_TREE_H
#define PS_SUM_TREE_H

#include "mltune/ps.h"

#include <stdbool.h>
#include <stdint.h>

enum { SUM_TREE_DEPTH = 33 };

struct sum_tree {
    enum mlt_type type;
    uint32_t width;
    unsigned n;
    struct sum_tree_part {
        uint32_t at; /* a worker of it */
        bool keep;
        void *sum;
    } part[SUM_TREE_DEPTH]; /* not added to each other yet, in order */
};

void sum_tree_init(struct sum_tree *t, enum mlt_type type, uint32_t width);

/* The next sum, of worker @at or of a block with it; numbers increase. @sum is
 * borrowed until sum_tree_end and may be added to. Where two are added the
 * result lies at the one with @keep, if one has it, else at the first. */
void sum_tree_add(struct sum_tree *t, uint32_t at, void *sum, bool keep);

/* Where the sum of all is; NULL without any. */
void *sum_tree_end(struct sum_tree *t);

/* Workers of the largest aligned block that begins with worker @first, at most
 * those below @end. */
uint32_t sum_tree_block(uint32_t first, uint32_t end);

#endif
