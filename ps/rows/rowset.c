#include "ps/rows/rowset.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static uint64_t words_of(const struct rowset *s)
{
    return (s->rows + 63) / 64;
}

enum err rowset_init(struct rowset *s, uint64_t rows)
{
    s->rows = s->low = rows;
    s->word = mem_calloc(words_of(s) + 1, sizeof(*s->word));
    return s->word ? ERR_OK : ERR_NOMEM;
}

void rowset_deinit(struct rowset *s)
{
    mem_free(s->word);
    memset(s, 0, sizeof(*s));
}

uint64_t rowset_first(struct rowset *s)
{
    uint64_t w = s->low >> 6;

    if (s->low == s->rows)
        return s->rows;
    while (w < words_of(s) && s->word[w] == 0)
        w++;
    s->low = w < words_of(s) ? w * 64 + (unsigned)__builtin_ctzll(s->word[w])
                             : s->rows;
    return s->low;
}

void rowset_add_both(struct rowset *s, const struct rowset *a,
                     const struct rowset *b)
{
    assert(s->rows == a->rows && s->rows == b->rows);
    for (uint64_t w = a->low >> 6; w < words_of(s); w++)
        s->word[w] |= a->word[w] & b->word[w];
    if (a->low < s->low)
        s->low = a->low;
}

void rowset_remove_all(struct rowset *s, const struct rowset *a)
{
    assert(s->rows == a->rows);
    for (uint64_t w = a->low >> 6; w < words_of(s); w++)
        s->word[w] &= ~a->word[w];
}

void rowset_clear(struct rowset *s)
{
    memset(s->word, 0, words_of(s) * sizeof(*s->word));
    s->low = s->rows;
}
