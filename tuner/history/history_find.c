#include "tuner/history/history_fold.h"

#include <assert.h>
#include <string.h>

/* Branches are created in the order of their numbers. */
struct history_branch *history_find(const struct history *h, branch_id id)
{
    size_t low = 0, high = h->branches;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (h->branch[mid].branch < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < h->branches && h->branch[low].branch == id)
        return &h->branch[low];
    return NULL;
}

void history_drop_half(void *items, size_t *len, size_t item_size, size_t max,
                       uint64_t *dropped)
{
    size_t half = *len / 2;

    assert(*len <= max);
    if (*len < max)
        return;
    memmove(items, (char *)items + half * item_size, (*len - half) * item_size);
    *len -= half;
    *dropped += half;
}

void history_mark_way(struct history *h, branch_id of, bool on)
{
    struct history_branch *b;

    while ((b = history_find(h, of))) {
        b->on_way = on;
        if (b->parent >= of) /* below it in any sound journal */
            return;
        of = b->parent;
    }
}
