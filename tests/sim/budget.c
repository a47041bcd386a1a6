#include "tests/sim/budget.h"

#include "base/mem.h"

#include <stdlib.h>

static const double span_s[BUDGET_SPANS] = {1e-4, 1e-3, 1e-2, 0.1, 1};

void budget_deinit(struct budget_check *b)
{
    mem_free(b->send);
}

bool budget_sent(struct budget_check *b, const struct manager *m, double at,
                 double bytes)
{
    bool ok = true;

    if (mem_grow((void **)&b->send, &b->room, sizeof(*b->send), b->sends + 1))
        abort();
    b->send[b->sends++] = (struct budget_send){at, bytes};
    b->total += bytes;
    for (int i = 0; i < BUDGET_SPANS; i++) {
        b->sum[i] += bytes;
        while (b->send[b->first[i]].at <= at - span_s[i])
            b->sum[i] -= b->send[b->first[i]++].bytes;
        ok &= b->sum[i] <= m->bytes_s * span_s[i] + m->queue + 1;
    }
    return ok;
}

static double level_at(const struct manager *m, double at)
{
    double level = m->level - m->bytes_s * (at - (double)m->at_ns * 1e-9);

    return level > 0 ? level : 0;
}

/* Leaked bytes are those that were there, and came, and are there no more. */
bool budget_waits(struct budget_check *b, const struct manager *m, double at,
                  bool waits)
{
    double room = m->bytes_s * (at - b->since);
    double used = b->level_then - level_at(m, at) + b->total - b->total_then;
    bool ended = b->waits && !waits;

    if (!b->waits && waits) {
        b->since = at;
        b->total_then = b->total;
        b->level_then = level_at(m, at);
    }
    b->waits = waits;
    if (!ended)
        return true;
    b->waited_s += room / m->bytes_s;
    b->waited_bytes += used;
    return used >= 0.99 * room - 1;
}
