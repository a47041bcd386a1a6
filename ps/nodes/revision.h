/* Row versions, for update rules that make up for delay (rule_ops.revises).
 *
 * Such a rule wants to know what the sum of a row's gradients was when a
 * gradient's worker read the row. Nodes therefore do not get that sum but a
 * version with each row, and send it back with the gradients; here is what the
 * sum was at each version that a node may still name (Wei et al. 2015, section
 * 3.4: parameter versioning). A row's version moves when its sum does, and the
 * sum is put aside only if a node holds the version that ends: a snapshot.
 *
 * A version that was given to a node counts as held until another was given and
 * all that was computed on the first has come, which the node says by the
 * number of the frames that it had taken (revision_release).
 *
 * At most so many snapshots as the owner says: beyond them a row's version
 * stays what it is while its sum moves, and those who hold it are later taken
 * to have seen what they have not: their steps are larger than they ought to
 * be, as adagrad's are, until there is room again. Whoever sends rows before
 * he has to should let it be then (revision_full).
 *
 * Versions are of a slice: between slices nobody holds any. One owner. Pure.
 */
#ifndef PS_REVISION_H
#define PS_REVISION_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct revision;

enum {
    /* Versions of a row that were replaced at a node and that it may still
     * name, on average over the rows; beyond, the oldest are forgotten. */
    REVISION_REPLACED_A_ROW = 4
};

struct revision_options {
    uint64_t rows;  /* of one table, at this shard */
    uint32_t nodes; /* that may hold versions */
    uint32_t width; /* values a row */
    uint32_t snapshots_max;
};

/* Errors: ERR_NOMEM. Snapshots are allocated as they are needed. */
enum err revision_new(const struct revision_options *opt,
                      struct revision **out);
void revision_free(struct revision *r);

/* A slice begins: all rows are at version 1, which nobody holds. */
void revision_reset(struct revision *r);

/* @node is given @row as it is, in the shard's frame number @frame to that
 * node, not below any before. Returns the version, >= 1. */
uint32_t revision_give(struct revision *r, uint32_t node, uint64_t row,
                       uint64_t frame);

/* The row's sum is about to move away from @sum[width]. */
void revision_change(struct revision *r, uint64_t row, const float *sum);

/* Whether the row has had that version. */
bool revision_was(const struct revision *r, uint64_t row, uint32_t version);

/* The row's sum as of @version: [width], borrowed until the next change or
 * release. NULL: as of now; so too for version 0, which is none. A version that
 * nobody holds any more is taken for the oldest after it that somebody does. */
const float *revision_sum(const struct revision *r, uint64_t row,
                          uint32_t version);

/* All that @node sends from now on is computed on rows no older than those it
 * had after frame @frame. */
void revision_release(struct revision *r, uint32_t node, uint64_t frame);

struct revision_stats {
    uint32_t snapshots, snapshots_peak;
    uint64_t missed; /* for want of room */
};
struct revision_stats revision_stats(const struct revision *r);

/* Whether there is room for no further snapshot. */
bool revision_full(const struct revision *r);

#endif
