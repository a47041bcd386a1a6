#include "tests/sim/timeline.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool before(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void swap(struct event *a, struct event *b)
{
    struct event x = *a;

    *a = *b;
    *b = x;
}

void timeline_deinit(struct timeline *t)
{
    for (size_t i = 0; i < t->events; i++)
        mem_free(t->heap[i].frame);
    mem_free(t->heap);
    memset(t, 0, sizeof(*t));
}

void timeline_put(struct timeline *t, struct event e)
{
    size_t i = t->events;

    if (mem_grow((void **)&t->heap, &t->room, sizeof(*t->heap),
                 t->events + 1) != 0)
        abort();
    e.order = t->order++;
    t->heap[t->events++] = e;
    for (; i > 0 && before(&t->heap[i], &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&t->heap[i], &t->heap[(i - 1) / 2]);
}

struct event timeline_take(struct timeline *t)
{
    struct event e = t->heap[0];
    size_t i = 0;

    t->heap[0] = t->heap[--t->events];
    for (;;) {
        size_t least = 2 * i + 1;

        if (least + 1 < t->events &&
            before(&t->heap[least + 1], &t->heap[least]))
            least++;
        if (least >= t->events || !before(&t->heap[least], &t->heap[i]))
            return e;
        swap(&t->heap[i], &t->heap[least]);
        i = least;
    }
}
