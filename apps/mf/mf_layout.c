#include "apps/mf/mf_layout.h"

#include "apps/mf/mf_kernel.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbering ----------------------------------------------------------- */

struct counted {
    uint64_t count;
    uint64_t index;
};

static int most_first(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Near n / golden ratio and prime to n: its multiples modulo n spread evenly at
 * every scale (Knuth, vol. 3, 6.4: Fibonacci hashing). */
static uint64_t even_step(uint64_t n)
{
    uint64_t step = (uint64_t)((double)n * 0.6180339887498949);

    while (step == 0 || common_divisor(step, n) != 1)
        step++;
    return step;
}

enum err mf_number_rows(uint64_t n, const uint64_t count[], uint32_t row[],
                        uint64_t *rows)
{
    struct counted *sorted = mem_alloc(n * sizeof(*sorted));
    uint64_t used = 0, i, step, at = 0;

    if (!sorted)
        return ERR_NOMEM;
    for (i = 0; i < n; i++) {
        row[i] = UINT32_MAX;
        if (count[i] > 0)
            sorted[used++] = (struct counted){count[i], i};
    }
    qsort(sorted, used, sizeof(*sorted), most_first);
    step = used > 0 ? even_step(used) : 0;
    for (i = 0; i < used; i++) {
        row[sorted[i].index] = (uint32_t)at;
        at = (at + step) % used;
    }
    mem_free(sorted);
    *rows = used;
    return ERR_OK;
}

/* ---- all ratings --------------------------------------------------------- */

void mf_ratings_deinit(struct mf_ratings *r)
{
    mem_free(r->user);
    mem_free(r->part);
    mem_free(r->value);
    mem_free(r->item_begin);
    memset(r, 0, sizeof(*r));
}

static uint32_t draw_part(uint64_t seed, uint64_t index, uint32_t parts)
{
    uint64_t hash = rng_mix(seed, index);

    return (uint32_t)(((unsigned __int128)hash * parts) >> 64);
}

enum err mf_ratings_init(struct mf_ratings *r, uint64_t count,
                         const uint32_t user[], const uint32_t item[],
                         const float value[], uint64_t items, uint32_t parts,
                         uint64_t seed)
{
    struct mf_ratings made = {.count = count, .items = items, .parts = parts};
    uint64_t i;

    assert(count >= 1 && items >= 1 && parts >= 1);
    made.user = mem_alloc(count * sizeof(*made.user));
    made.part = mem_alloc(count * sizeof(*made.part));
    made.value = mem_alloc(count * sizeof(*made.value));
    made.item_begin = mem_calloc(items + 2, sizeof(*made.item_begin));
    if (!made.user || !made.part || !made.value || !made.item_begin) {
        mf_ratings_deinit(&made);
        return ERR_NOMEM;
    }
    /* Counts go two places up, so that after the second loop, which moves each
     * begin up to its end, every begin is where it belongs. */
    for (i = 0; i < count; i++)
        made.item_begin[item[i] + 2]++;
    for (i = 2; i <= items; i++)
        made.item_begin[i] += made.item_begin[i - 1];
    for (i = 0; i < count; i++) {
        uint64_t at = made.item_begin[item[i] + 1]++;

        made.user[at] = user[i];
        made.value[at] = value[i];
        made.part[at] = draw_part(seed, i, parts);
    }
    *r = made;
    return ERR_OK;
}

/* ---- a worker's share ---------------------------------------------------- */

void mf_share_deinit(struct mf_share *s)
{
    mem_free(s->user);
    mem_free(s->value);
    mem_free(s->run);
    mem_free(s->block);
    mem_free(s->part_begin);
    memset(s, 0, sizeof(*s));
}

static uint64_t *marks(struct mf_share *s, enum mf_mark mark)
{
    return s->part_begin + (uint64_t)mark * (s->parts + (uint64_t)1);
}

/* Ratings into their parts, each part sorted by item because @all is; @item
 * receives the item of each. */
static void deal(struct mf_share *s, const struct mf_ratings *all,
                 uint64_t first, uint64_t rows, uint64_t *next, uint32_t *item)
{
    uint64_t i, k;

    for (k = 0; k < all->items; k++) {
        for (i = all->item_begin[k]; i < all->item_begin[k + 1]; i++) {
            uint64_t at;

            if (all->user[i] - first >= rows)
                continue;
            at = next[all->part[i]]++;
            s->user[at] = all->user[i];
            s->value[at] = all->value[i];
            item[at] = (uint32_t)k;
        }
    }
}

static void count_parts(struct mf_share *s, const struct mf_ratings *all,
                        uint64_t first, uint64_t rows)
{
    uint64_t *begin = marks(s, MF_RATING), i;

    for (i = 0; i < all->count; i++) {
        if (all->user[i] - first < rows)
            begin[all->part[i] + 1]++;
    }
    for (i = 0; i < all->parts; i++)
        begin[i + 1] += begin[i];
    s->count = begin[all->parts];
}

static enum err add_run(struct mf_share *s, uint32_t item)
{
    if (mem_grow((void **)&s->run, &s->run_capacity, sizeof(*s->run),
                 s->runs + 1))
        return ERR_NOMEM;
    s->run[s->runs++] = (struct mf_run){item, 0};
    return ERR_OK;
}

static enum err add_block(struct mf_share *s)
{
    if (mem_grow((void **)&s->block, &s->block_capacity, sizeof(*s->block),
                 s->blocks + 1))
        return ERR_NOMEM;
    s->block[s->blocks++] = 0;
    return ERR_OK;
}

/* Runs and blocks of @part. @seen[user - first] is the last block + 1 that
 * holds the user. */
static enum err cut_part(struct mf_share *s, uint64_t part, uint64_t first,
                         const uint32_t *item, uint64_t *seen)
{
    uint64_t i = mf_share_begin(s, MF_RATING, part);
    uint64_t end = mf_share_begin(s, MF_RATING, part + 1);
    uint64_t block_begin = s->blocks;
    enum err err = ERR_OK;

    for (; i < end && !err; i++) {
        uint64_t *last = &seen[s->user[i] - first];
        bool begins = s->blocks == block_begin || *last == s->blocks ||
                      s->block[s->blocks - 1] == MF_BLOCK;

        if (begins)
            err = add_block(s);
        if (!err && (begins || s->run[s->runs - 1].item != item[i]))
            err = add_run(s, item[i]);
        if (!err) {
            s->run[s->runs - 1].count++;
            s->block[s->blocks - 1]++;
            *last = s->blocks;
        }
    }
    marks(s, MF_RUN)[part + 1] = s->runs;
    marks(s, MF_BLOCK_NO)[part + 1] = s->blocks;
    return err;
}

static enum err fill_share(struct mf_share *s, const struct mf_ratings *all,
                           uint64_t first, uint64_t rows)
{
    uint64_t *next = mem_alloc((all->parts + (uint64_t)1) * sizeof(*next));
    uint64_t *seen = mem_calloc(rows, sizeof(*seen));
    uint32_t *item = mem_alloc(s->count * sizeof(*item));
    enum err err = ERR_NOMEM;
    uint64_t part;

    s->user = mem_alloc(s->count * sizeof(*s->user));
    s->value = mem_alloc(s->count * sizeof(*s->value));
    if (next && seen && item && s->user && s->value) {
        memcpy(next, s->part_begin, all->parts * sizeof(*next));
        deal(s, all, first, rows, next, item);
        err = ERR_OK;
        for (part = 0; part < all->parts && !err; part++)
            err = cut_part(s, part, first, item, seen);
    }
    mem_free(next);
    mem_free(seen);
    mem_free(item);
    return err;
}

enum err mf_share_init(struct mf_share *s, const struct mf_ratings *all,
                       uint64_t first, uint64_t rows)
{
    struct mf_share made = {.parts = all->parts};
    enum err err = ERR_OK;

    made.part_begin =
        mem_calloc(3 * (all->parts + (uint64_t)1), sizeof(*made.part_begin));
    if (!made.part_begin)
        return ERR_NOMEM;
    count_parts(&made, all, first, rows);
    if (made.count > 0)
        err = fill_share(&made, all, first, rows);
    if (err) {
        mf_share_deinit(&made);
        return err;
    }
    *s = made;
    return ERR_OK;
}
