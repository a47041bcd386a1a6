#include "ps/server/device_plan.h"

#include "base/mem.h"

#include <assert.h>

struct plan_state {
    struct plan_entry *entry;
    size_t entries;
    const struct plan_lease *lease;
    size_t leases;
    uint32_t layers;
    uint64_t *size; /* [layers] of what is not pinned, or buffered: owned */
    __int128 left;  /* may be below 0 before anything is pinned */
};

static uint32_t largest_layer(const struct plan_state *s)
{
    uint32_t best = 0;

    for (uint32_t l = 1; l < s->layers; l++)
        if (s->size[l] > s->size[best])
            best = l;
    return best;
}

static bool is_held(const struct plan_state *s, uint32_t layer, uint32_t entry)
{
    for (size_t i = 0; i < s->leases; i++)
        if (s->lease[i].layer == layer && s->lease[i].entry == entry)
            return true;
    return false;
}

/* Takes @bytes of @entry out of the layers that hold it, or puts them back;
 * a lease that is said twice counts once. */
static void resize_layers(struct plan_state *s, uint32_t entry, bool out)
{
    uint64_t bytes = s->entry[entry].bytes;

    for (uint32_t l = 0; l < s->layers; l++)
        if (is_held(s, l, entry))
            s->size[l] = out ? s->size[l] - bytes : s->size[l] + bytes;
}

/* Pins @entry where that fits: it takes its bytes, and gives back twice what
 * the largest layer becomes smaller. */
static bool pin(struct plan_state *s, uint32_t entry)
{
    struct plan_entry *e = &s->entry[entry];
    uint64_t before = s->size[largest_layer(s)], after = before;
    __int128 takes;

    if (!e->buffered) {
        resize_layers(s, entry, true);
        after = s->size[largest_layer(s)];
    }
    takes = (__int128)e->bytes - 2 * (__int128)(before - after);
    if (takes > s->left) {
        if (!e->buffered)
            resize_layers(s, entry, false);
        return false;
    }
    s->left -= takes;
    e->pinned = true;
    return true;
}

/* The largest layer's local data first: each makes both buffers smaller. */
static void pin_largest(struct plan_state *s)
{
    for (uint32_t e = 0; e < s->entries; e++) {
        const struct plan_entry *entry = &s->entry[e];

        if (entry->local && !entry->pinned && is_held(s, largest_layer(s), e) &&
            pin(s, e))
            e = (uint32_t)-1; /* another layer may be the largest now */
    }
}

/* From the bottom layer up. Whether anything was pinned. */
static bool pin_all(struct plan_state *s, bool local)
{
    bool any = false;

    for (uint32_t e = 0; e < s->entries; e++)
        if (s->entry[e].local == local && !s->entry[e].pinned)
            any = pin(s, e) || any;
    return any;
}

enum err device_plan(struct plan_entry *entry, size_t entries,
                     const struct plan_lease *lease, size_t n, uint32_t layers,
                     uint64_t total, struct plan_memory *out)
{
    struct plan_state s = {.entry = entry,
                           .entries = entries,
                           .lease = lease,
                           .leases = n,
                           .layers = layers};

    assert(entries > 0 && layers > 0);
    s.size = mem_calloc(layers, sizeof(*s.size));
    if (!s.size)
        return ERR_NOMEM;
    for (uint32_t e = 0; e < entries; e++) {
        entry[e].pinned = false;
        resize_layers(&s, e, false);
    }
    s.left = (__int128)total - 2 * (__int128)s.size[largest_layer(&s)];
    pin_largest(&s);
    while (pin_all(&s, true) || pin_all(&s, false))
        ; /* what made the buffers smaller makes room for another */
    *out = (struct plan_memory){.pool = 2 * s.size[largest_layer(&s)]};
    for (size_t e = 0; e < entries; e++)
        if (entry[e].pinned)
            out->pinned += entry[e].bytes;
    mem_free(s.size);
    return s.left < 0 ? ERR_LIMIT : ERR_OK;
}

size_t device_plan_victim(const struct plan_branch *branch, size_t n)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (!branch[i].stays &&
            (best == n || branch[i].scheduled < branch[best].scheduled))
            best = i;
    return best;
}
