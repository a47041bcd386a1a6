#include "ps/rows/update.h"

#include "base/mem.h"
#include "ps/rows/sum_tree.h"

#include <assert.h>
#include <string.h>

enum { LINE_BYTES = 64 };

static uint64_t word_count(uint64_t rows)
{
    return (rows + 63) / 64;
}

uint64_t update_bytes(uint64_t rows, uint32_t value_bytes, uint64_t dense_bytes)
{
    uint64_t words = word_count(rows);
    uint64_t bytes = rows * value_bytes + 8 * words + 8 * word_count(words);

    return bytes + slots_bytes(rows, rows * value_bytes <= dense_bytes);
}

static unsigned char *new_sums(const struct update *u)
{
    uint64_t bytes = u->rows * u->value_bytes;
    unsigned char *sum;

    if (!u->slots.state->always)
        return mem_reserve(bytes);
    sum = mem_aligned(LINE_BYTES, bytes);
    return sum ? memset(sum, 0, bytes) : NULL;
}

enum err update_init(struct update *u, uint64_t rows, uint32_t value_bytes,
                     uint64_t dense_bytes)
{
    bool dense = rows * value_bytes <= dense_bytes;

    assert(rows >= 1 && value_bytes >= 1);
    memset(u, 0, sizeof(*u));
    u->rows = rows;
    u->words = word_count(rows);
    u->value_bytes = value_bytes;
    if (slots_init(&u->slots, rows, dense) != ERR_OK)
        return ERR_NOMEM;
    u->dense = u->slots.state->dense;
    u->sum = new_sums(u);
    u->touched = mem_calloc(u->words, sizeof(*u->touched));
    u->groups = mem_calloc(word_count(u->words), sizeof(*u->groups));
    if (u->sum && u->touched && u->groups)
        return ERR_OK;
    update_deinit(u);
    return ERR_NOMEM;
}

void update_deinit(struct update *u)
{
    if (u->slots.state && u->slots.state->always)
        mem_free(u->sum);
    else
        mem_unreserve(u->sum, u->rows * u->value_bytes);
    slots_deinit(&u->slots);
    mem_free(u->touched);
    mem_free(u->groups);
    memset(u, 0, sizeof(*u));
}

void update_clear(struct update *u)
{
    for (uint64_t g = 0; g < update_groups(u); g++) {
        if (u->groups[g] == 0)
            continue;
        for (uint64_t w = g * 64; w < (g + 1) * 64 && w < u->words; w++)
            u->touched[w] = 0;
        u->groups[g] = 0;
    }
    slots_settle(&u->slots, u->value_bytes);
    u->dense = u->slots.state->dense;
}

void *update_place(const struct update *u, uint64_t row)
{
    return u->sum + slots_of(&u->slots, row) * u->value_bytes;
}

void *update_new_place(const struct update *u, uint64_t row)
{
    return u->sum + slots_take(&u->slots, row) * u->value_bytes;
}

/* The bits, in the word of @row, of the rows from it on that are before @end.
 */
static uint64_t run_mask(uint64_t row, uint64_t end)
{
    uint64_t word_end = (row | 63) + 1;
    uint64_t mask = ~(uint64_t)0 << (row & 63);

    return end < word_end ? mask & ~(uint64_t)0 >> (word_end - end) : mask;
}

void *update_take_run(struct update *u, uint64_t first, uint64_t n)
{
    uint64_t row, end = first + n;

    assert(n >= 1 && first < u->rows && n <= u->rows - first);
    if (!u->dense)
        return NULL;
    for (row = first; row < end; row = (row | 63) + 1)
        if (u->touched[row >> 6] & run_mask(row, end))
            return NULL;
    for (row = first; row < end; row = (row | 63) + 1) {
        u->touched[row >> 6] |= run_mask(row, end);
        u->groups[row >> 12] |= (uint64_t)1 << (row >> 6 & 63);
    }
    return u->sum + first * u->value_bytes;
}

bool update_is_empty(const struct update *u)
{
    for (uint64_t g = 0; g < update_groups(u); g++)
        if (u->groups[g])
            return false;
    return true;
}

const void *update_sum(enum mlt_type type, uint32_t width,
                       const struct update *const buffer[], unsigned n,
                       unsigned own, uint64_t row)
{
    struct sum_tree tree;

    sum_tree_init(&tree, type, width);
    for (unsigned i = 0; i < n; i++)
        if (update_has(buffer[i], row))
            sum_tree_add(&tree, i, update_row(buffer[i], row), i == own);
    return sum_tree_end(&tree);
}

/* Starts one word early; the first call moves on. */
void update_walk_init(struct update_walk *walk, uint64_t first, uint64_t end)
{
    assert(first <= end);
    walk->first = first;
    walk->end = end;
    walk->word = (first >> 6) - 1;
    walk->bits = 0;
}

static uint64_t edge_mask(const struct update_walk *walk)
{
    uint64_t begin = walk->word * 64;
    uint64_t mask = ~(uint64_t)0;

    if (begin < walk->first)
        mask &= ~(uint64_t)0 << (walk->first - begin);
    if (walk->end - begin < 64)
        mask &= ((uint64_t)1 << (walk->end - begin)) - 1;
    return mask;
}

/* The next word after @word that the groups call touched, or past the end. */
static uint64_t next_word(uint64_t word, const struct update *const buffer[],
                          unsigned n)
{
    uint64_t groups = update_groups(buffer[0]);
    uint64_t g = (word + 1) >> 6;
    uint64_t mask = ~(uint64_t)0 << ((word + 1) & 63);

    for (; g < groups; g++, mask = ~(uint64_t)0) {
        uint64_t any = 0;

        for (unsigned i = 0; i < n; i++)
            any |= buffer[i]->groups[g];
        if (any & mask)
            return g * 64 + (unsigned)__builtin_ctzll(any & mask);
    }
    return UINT64_MAX >> 6;
}

bool update_walk_word(struct update_walk *walk,
                      const struct update *const buffer[], unsigned n)
{
    for (;;) {
        walk->word = next_word(walk->word, buffer, n);
        if (walk->word * 64 >= walk->end)
            return false;
        for (unsigned i = 0; i < n; i++)
            walk->bits |= buffer[i]->touched[walk->word];
        walk->bits &= edge_mask(walk);
        if (walk->bits)
            return true;
    }
}
