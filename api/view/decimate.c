#include "api/view/decimate.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum err decimate_init(struct decimate *d, uint64_t from, uint64_t to,
                       size_t spans)
{
    assert(from < to && spans >= 1);
    *d = (struct decimate){.from = from, .to = to, .spans = spans};
    d->span = mem_calloc(spans, sizeof(*d->span));
    return d->span ? ERR_OK : ERR_NOMEM;
}

void decimate_deinit(struct decimate *d)
{
    mem_free(d->span);
    memset(d, 0, sizeof(*d));
}

static struct decimate_span *span_of(const struct decimate *d, uint64_t clock)
{
    double part = (double)(clock - d->from) / (double)(d->to - d->from);
    size_t index = (size_t)(part * (double)d->spans);

    assert(clock >= d->from);
    assert(clock < d->to);
    return &d->span[index < d->spans ? index : d->spans - 1];
}

void decimate_add(struct decimate *d, const struct decimate_point *p)
{
    struct decimate_span *s;

    assert(d->span);
    if (p->clock < d->from || p->clock >= d->to)
        return;
    s = span_of(d, p->clock);
    d->points++;
    if (!isfinite(p->value)) {
        s->broken = *p;
        s->some_broken = true;
        return;
    }
    if (!s->some || p->clock < s->first.clock)
        s->first = *p;
    if (!s->some || p->value < s->low.value)
        s->low = *p;
    if (!s->some || p->value > s->high.value)
        s->high = *p;
    if (!s->some || p->clock >= s->last.clock)
        s->last = *p;
    s->some = true;
}

/* Puts @p into @out[@n], which is in order, unless it is there. */
static size_t insert(struct decimate_point out[], size_t n,
                     const struct decimate_point *p)
{
    size_t i = n;

    assert(n < DECIMATE_KEPT);
    while (i > 0 && out[i - 1].clock > p->clock)
        i--;
    for (size_t k = i; k > 0 && out[k - 1].clock == p->clock; k--)
        if (out[k - 1].branch == p->branch && out[k - 1].value == p->value)
            return n;
    memmove(out + i + 1, out + i, (n - i) * sizeof(*out));
    out[i] = *p;
    return n + 1;
}

size_t decimate_span_points(const struct decimate *d, size_t index,
                            struct decimate_point out[DECIMATE_KEPT])
{
    const struct decimate_span *s = &d->span[index];
    size_t n = 0;

    assert(index < d->spans);
    if (s->some) {
        n = insert(out, n, &s->first);
        n = insert(out, n, &s->low);
        n = insert(out, n, &s->high);
        n = insert(out, n, &s->last);
    }
    if (s->some_broken)
        n = insert(out, n, &s->broken);
    return n;
}
