#include "apps/samples/categories.h"

#include "apps/samples/csv_field.h"
#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { SLOTS_MIN = 16 };

void categories_deinit(struct categories *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        mem_free(c->name[i]);
    mem_free((void *)c->name);
    mem_free(c->slot);
    memset(c, 0, sizeof(*c));
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot of @name, or the free one where it belongs. */
static size_t slot_of(const struct categories *c, const char *name)
{
    size_t mask = c->slots - 1, at = hash_of(name) & mask;

    assert(c->slots > c->count);
    while (c->slot[at] != CATEGORY_NONE &&
           strcmp(c->name[c->slot[at]], name) != 0)
        at = (at + 1) & mask;
    return at;
}

uint32_t categories_find(const struct categories *c, const char *name)
{
    return c->slots ? c->slot[slot_of(c, name)] : CATEGORY_NONE;
}

static void fill_slots(struct categories *c)
{
    memset(c->slot, 0xff, c->slots * sizeof(*c->slot));
    for (uint32_t i = 0; i < c->count; i++)
        c->slot[slot_of(c, c->name[i])] = i;
}

/* Room for one more. */
static enum err make_room(struct categories *c)
{
    size_t slots = c->slots ? c->slots : SLOTS_MIN;
    uint32_t *slot;

    if (mem_grow((void **)&c->name, &c->capacity, sizeof(char *),
                 c->count + 1ull))
        return ERR_NOMEM;
    while (slots < 2 * (c->count + 1ull))
        slots *= 2;
    if (slots == c->slots)
        return ERR_OK;
    slot = mem_realloc(c->slot, slots * sizeof(*slot));
    if (!slot)
        return ERR_NOMEM;
    c->slot = slot;
    c->slots = slots;
    fill_slots(c);
    return ERR_OK;
}

enum err categories_add(struct categories *c, const char *name, uint32_t *out)
{
    uint32_t found = categories_find(c, name);
    char *copy;

    if (found != CATEGORY_NONE) {
        *out = found;
        return ERR_OK;
    }
    if (c->count == CATEGORIES_MAX)
        return ERR_LIMIT;
    copy = mem_strdup(name);
    if (!copy || make_room(c)) {
        mem_free(copy);
        return ERR_NOMEM;
    }
    c->name[c->count] = copy;
    c->slot[slot_of(c, name)] = c->count;
    *out = c->count++;
    return ERR_OK;
}

enum err categories_of(struct categories *out, char *const *from, uint32_t n)
{
    enum err err = ERR_OK;
    uint32_t number;

    assert(out->count == 0);
    for (uint32_t i = 0; i < n && !err; i++) {
        err = categories_add(out, from[i], &number);
        if (!err && number != i)
            err = ERR_EXIST;
    }
    if (err)
        categories_deinit(out);
    return err;
}

enum err categories_sort(struct categories *c, uint32_t place[CATEGORIES_MAX])
{
    char **before;

    if (c->count == 0)
        return ERR_OK;
    before = mem_alloc(c->count * sizeof(*before));
    if (!before)
        return ERR_NOMEM;
    memcpy((void *)before, (void *)c->name, c->count * sizeof(*before));
    csv_sort_names(c->name, c->count);
    fill_slots(c);
    for (uint32_t i = 0; i < c->count; i++)
        place[i] = categories_find(c, before[i]);
    mem_free((void *)before);
    return ERR_OK;
}
