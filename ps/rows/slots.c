#include "ps/rows/slots.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum {
    LINE_BYTES = 64,
    BLOCK = 8, /* entries of the pool: the shortest list; then 16, then 64 */
    /* A list that grew to its end left a block, and two, behind. */
    BLOCKS_A_WORD = 1 + 2 + 8
};

static struct slots_state dense_always = {.dense = true, .always = true};

static uint64_t words_of(uint64_t rows)
{
    return (rows + 63) / 64;
}

static uint64_t pool_entries(uint64_t words)
{
    return (words * BLOCKS_A_WORD + 1) * BLOCK;
}

static uint64_t index_bytes(uint64_t rows)
{
    uint64_t words = words_of(rows);

    return words * (sizeof(uint64_t) + sizeof(uint32_t)) +
           pool_entries(words) * sizeof(uint32_t);
}

uint64_t slots_bytes(uint64_t rows, bool dense)
{
    return dense || rows > SLOTS_ROWS_MAX ? 0 : index_bytes(rows);
}

enum err slots_init(struct slots *s, uint64_t rows, bool dense)
{
    uint64_t words = words_of(rows);

    memset(s, 0, sizeof(*s));
    s->state = &dense_always;
    if (dense || rows > SLOTS_ROWS_MAX)
        return ERR_OK;
    s->state = mem_aligned(LINE_BYTES, sizeof(*s->state));
    s->known = mem_reserve(index_bytes(rows));
    if (!s->state || !s->known) {
        mem_free(s->state);
        mem_unreserve(s->known, index_bytes(rows));
        memset(s, 0, sizeof(*s));
        return ERR_NOMEM;
    }
    memset(s->state, 0, sizeof(*s->state));
    s->at = (uint32_t *)(s->known + words);
    s->pool = s->at + words;
    s->state->rows = rows;
    s->state->words = words;
    return ERR_OK;
}

void slots_deinit(struct slots *s)
{
    if (s->state && !s->state->always) {
        mem_unreserve(s->known, index_bytes(s->state->rows));
        mem_free(s->state);
    }
    memset(s, 0, sizeof(*s));
}

void slots_forget(struct slots *s)
{
    struct slots_state *k = s->state;

    if (k->dense)
        return;
    mem_give_back(s->known, index_bytes(k->rows));
    k->used = k->blocks = 0;
    k->free8 = k->free16 = 0;
}

bool slots_settle(struct slots *s, uint32_t bytes)
{
    struct slots_state *k = s->state;
    uint64_t each = (uint64_t)bytes + 8; /* an index's 8 */

    if (k->dense || k->used * each * 2 < k->rows * bytes)
        return false;
    slots_forget(s);
    k->dense = true;
    k->used = k->rows;
    return true;
}

/* What slots_find may be reading. */
static void put(uint32_t *place, uint32_t value)
{
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
}

/* A list of @blocks (1, 2 or 8), one that was left behind if there is any. */
static uint32_t new_list(const struct slots *s, unsigned blocks)
{
    struct slots_state *k = s->state;
    uint32_t *chain = blocks == 1 ? &k->free8 : &k->free16;
    uint32_t at;

    if (blocks == 8 || *chain == 0) {
        at = (uint32_t)k->blocks + 1; /* 0 is no list */
        k->blocks += blocks;
        assert((k->blocks + 1) * BLOCK <= pool_entries(k->words));
        return at;
    }
    at = *chain;
    *chain = s->pool[(uint64_t)at * BLOCK];
    return at;
}

static void leave_list(const struct slots *s, uint32_t at, unsigned blocks)
{
    uint32_t *chain = blocks == 1 ? &s->state->free8 : &s->state->free16;

    put(&s->pool[(uint64_t)at * BLOCK], *chain);
    *chain = at;
}

/* Room in the word's list for one more than @count. */
static void widen(const struct slots *s, uint64_t word, unsigned count)
{
    unsigned was = count / BLOCK, blocks = count == 0 ? 1 : count == 8 ? 2 : 8;
    uint32_t at;

    if (count != 0 && count != 8 && count != 16)
        return;
    at = new_list(s, blocks);
    for (unsigned i = 0; i < count; i++)
        put(&s->pool[(uint64_t)at * BLOCK + i],
            s->pool[(uint64_t)s->at[word] * BLOCK + i]);
    if (count)
        leave_list(s, s->at[word], was);
    put(&s->at[word], at);
}

uint64_t slots_give(const struct slots *s, uint64_t row)
{
    struct slots_state *k = s->state;
    uint64_t word = row >> 6, bit = (uint64_t)1 << (row & 63);
    unsigned count = slots_count(s->known[word]), before;
    uint32_t *list;

    assert(row < k->rows && !(s->known[word] & bit));
    before = slots_count(s->known[word] & (bit - 1));
    __atomic_store_n(&k->changes, k->changes + 1, __ATOMIC_RELAXED);
    widen(s, word, count);
    list = s->pool + (uint64_t)s->at[word] * BLOCK;
    for (unsigned i = count; i > before; i--)
        put(&list[i], list[i - 1]);
    put(&list[before], (uint32_t)k->used);
    __atomic_store_n(&s->known[word], s->known[word] | bit, __ATOMIC_RELEASE);
    __atomic_store_n(&k->changes, k->changes + 1, __ATOMIC_RELEASE);
    return k->used++;
}
