/* The order in which ratings are trained on: parts of a pass, workers' shares,
 * items within them, blocks.
 *
 *   worker's share ─► part (clock) ─► block ─► run of one item ─► ratings
 *
 * A part is drawn for each rating by a hash of seed and index, whatever the
 * number of workers. Within a worker's part ratings are sorted by item, so that
 * an item's row stays in registers and its gradient is added to once; a block
 * is at most MF_BLOCK successive ratings of distinct users, so that a whole
 * block can be computed before its users' rows change: each user's ratings are
 * worked on one after another, with every change seen, and the result does not
 * depend on how users are dealt to workers.
 *
 * Rows: users and items are numbered so that any contiguous range of rows holds
 * about its share of the ratings, wherever a parameter server cuts.
 */
#ifndef APPS_MF_LAYOUT_H
#define APPS_MF_LAYOUT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* All training ratings, sorted by item row. */
struct mf_ratings {
    uint64_t count;
    uint64_t items;
    uint32_t parts;
    uint32_t *user;       /* [count] user rows: owned */
    uint32_t *part;       /* [count] below parts: owned */
    float *value;         /* [count]: owned */
    uint64_t *item_begin; /* [items + 1] first rating of each item: owned */
};

/* One worker's ratings. */
struct mf_share {
    uint64_t count;
    uint32_t *user; /* [count] rows, in order: owned */
    float *value;   /* [count]: owned */
    struct mf_run {
        uint32_t item, count;
    } * run; /* [part_run[parts]]: owned */
    uint64_t runs, run_capacity;
    uint8_t *block; /* [part_block[parts]] ratings in each: owned */
    uint64_t blocks, block_capacity;
    uint64_t *part_begin; /* [3][parts + 1] first rating, run, block: owned */
    uint32_t parts;
};

enum mf_mark { MF_RATING, MF_RUN, MF_BLOCK_NO };

/* First rating, run or block of @part (parts: one past the last). */
static inline uint64_t mf_share_begin(const struct mf_share *s,
                                      enum mf_mark mark, uint64_t part)
{
    return s->part_begin[(uint64_t)mark * (s->parts + (uint64_t)1) + part];
}

/* Sorts @user, @item, @value [@count] (rows; borrowed) by item and draws the
 * parts. Errors: ERR_NOMEM. Cost: O(count + items). */
enum err mf_ratings_init(struct mf_ratings *r, uint64_t count,
                         const uint32_t user[], const uint32_t item[],
                         const float value[], uint64_t items, uint32_t parts,
                         uint64_t seed);
void mf_ratings_deinit(struct mf_ratings *r);

/* The share of the worker who owns user rows first .. first + rows - 1.
 * Errors: ERR_NOMEM. Cost: O(all ratings); reads @all only, so that workers may
 * do it at the same time. */
enum err mf_share_init(struct mf_share *s, const struct mf_ratings *all,
                       uint64_t first, uint64_t rows);
void mf_share_deinit(struct mf_share *s);

/* Numbers those of @n things that have a count: @row[i] below *@rows, or
 * UINT32_MAX for a count of 0. Errors: ERR_NOMEM. */
enum err mf_number_rows(uint64_t n, const uint64_t count[], uint32_t row[],
                        uint64_t *rows);

#endif
