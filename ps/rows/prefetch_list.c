#include "ps/rows/prefetch_list.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { ENTRIES_MIN = 1 << 16, ENTRIES_A_ROW = 4 };

uint64_t prefetch_list_entries_max(uint64_t rows)
{
    return ENTRIES_MIN + ENTRIES_A_ROW * rows;
}

void prefetch_list_init(struct prefetch_list *k, uint64_t rows)
{
    assert(rows <= PREFETCH_LIST_ROWS_MAX);
    *k = (struct prefetch_list){.entries_max = prefetch_list_entries_max(rows)};
}

void prefetch_list_deinit(struct prefetch_list *k)
{
    for (size_t i = 0; i < k->parts; i++) {
        mem_free(k->list[i].row);
        mem_free(k->list[i].idle);
    }
    mem_free(k->list);
    mem_free(k->wait);
    memset(k, 0, sizeof(*k));
}

/* NULL: there is none for this part, or no memory for it. */
static struct prefetch_list_part *list_of(struct prefetch_list *k,
                                          uint64_t part)
{
    if (part < k->parts)
        return &k->list[part];
    if (part >= PREFETCH_LIST_PARTS_MAX ||
        mem_grow((void **)&k->list, &k->parts_room, sizeof(*k->list),
                 part + 1) != 0)
        return NULL;
    memset(k->list + k->parts, 0, (part + 1 - k->parts) * sizeof(*k->list));
    k->parts = part + 1;
    return &k->list[part];
}

enum err prefetch_list_add(struct prefetch_list *k, uint64_t part, uint64_t row)
{
    struct prefetch_list_part *l = list_of(k, part);
    size_t n;

    assert(row < PREFETCH_LIST_ROWS_MAX);
    if (!l)
        return part >= PREFETCH_LIST_PARTS_MAX ? ERR_LIMIT : ERR_NOMEM;
    if (k->entries == k->entries_max)
        return ERR_LIMIT;
    n = l->n + 1;
    if (mem_grow((void **)&l->row, &l->row_room, sizeof(*l->row), n) != 0 ||
        mem_grow((void **)&l->idle, &l->idle_room, sizeof(*l->idle), n) != 0 ||
        mem_grow((void **)&k->wait, &k->wait_room, sizeof(*k->wait), n) != 0)
        return ERR_NOMEM;
    l->row[l->n] = (uint32_t)row;
    l->idle[l->n++] = 0;
    k->entries++;
    return ERR_OK;
}

void prefetch_list_begin(struct prefetch_list *k, uint64_t part, int64_t clock,
                         int64_t since, const struct slots *slots,
                         int64_t held[])
{
    struct prefetch_list_part *l = part < k->parts ? &k->list[part] : NULL;
    size_t kept = 0;

    k->clock = clock;
    k->part = part;
    k->waits = 0;
    k->seen = 0;
    for (size_t i = 0; l && i < l->n; i++) {
        uint32_t row = l->row[i];
        int64_t *mark = &held[slots_take(slots, row)];
        uint8_t idle = *mark < 0 ? l->idle[i] + 1 : 0;

        if (idle == PREFETCH_LIST_IDLE_MAX)
            continue;
        l->row[kept] = row;
        l->idle[kept++] = idle;
        if (*mark >= since || prefetch_list_is_fetched(*mark, since))
            continue;
        *mark = prefetch_list_asked(clock);
        k->wait[k->waits++] = row;
    }
    if (l) {
        k->entries -= l->n - kept;
        l->n = kept;
    }
    k->early += k->waits;
}

void prefetch_list_note(struct prefetch_list *k, uint64_t row,
                        const struct slots *slots, int64_t held[])
{
    int64_t *mark = &held[slots_take(slots, row)];

    if (*mark == prefetch_list_asked(k->clock) ||
        *mark == prefetch_list_fetched(k->clock))
        return;
    *mark = prefetch_list_asked(k->clock);
    k->unforeseen++;
    prefetch_list_add(k, k->part, row); /* else it is unforeseen again */
}
