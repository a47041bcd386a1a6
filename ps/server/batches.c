#include "ps/server/batches.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

void batches_deinit(struct batches *s)
{
    for (int i = 0; i < MLT_GETS_MAX; i++)
        mem_free(s->batch[i].rows);
}

/* Room is kept, so that a worker whose batches are alike allocates once. */
static enum err make_room(struct get_batch *b, size_t n)
{
    uint64_t *rows;

    if (n <= b->room)
        return ERR_OK;
    if (n > SIZE_MAX / sizeof(*rows))
        return ERR_NOMEM;
    rows = mem_realloc(b->rows, n * sizeof(*rows));
    if (!rows)
        return ERR_NOMEM;
    b->rows = rows;
    b->room = n;
    return ERR_OK;
}

enum err batches_begin(struct batches *s, mlt_table table, size_t n,
                       const uint64_t rows[], const struct get_batch **out)
{
    struct get_batch *b = &s->batch[s->count];

    if (s->count == MLT_GETS_MAX)
        return ERR_LIMIT;
    if (make_room(b, n) != ERR_OK)
        return ERR_NOMEM;
    if (n)
        memcpy(b->rows, rows, n * sizeof(*rows));
    b->number = ++s->number;
    b->table = table;
    b->n = n;
    s->count++;
    *out = b;
    return ERR_OK;
}

const struct get_batch *batches_find(const struct batches *s, uint64_t number)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->batch[i].number == number)
            return &s->batch[i];
    return NULL;
}

const struct get_batch *batches_of(const struct batches *s, mlt_table table)
{
    for (unsigned i = 0; i < s->count; i++)
        if (table == BATCHES_ALL_TABLES || s->batch[i].table == table)
            return &s->batch[i];
    return NULL;
}

void batches_end(struct batches *s, const struct get_batch *b)
{
    struct get_batch ended = *b;
    size_t at = (size_t)(b - s->batch);

    assert(at < s->count);
    s->count--;
    memmove(&s->batch[at], &s->batch[at + 1],
            (s->count - at) * sizeof(s->batch[at]));
    s->batch[s->count] = ended;
}
