#include "api/http/quota.h"

#include <assert.h>
#include <stddef.h>

static const time_ns EACH = 1000000000 / QUOTA_PER_S;

/* The client's place, else that of whoever asked least lately: its bucket is
 * the fullest, and so least is forgotten. */
static struct quota_client *place_of(struct quota *q, uint32_t client)
{
    struct quota_client *least = &q->client[0];

    for (size_t i = 0; i < QUOTA_CLIENTS; i++) {
        if (q->client[i].client == client && q->client[i].full_at)
            return &q->client[i];
        if (q->client[i].full_at < least->full_at)
            least = &q->client[i];
    }
    return least;
}

bool quota_take(struct quota *q, uint32_t client, time_ns now)
{
    struct quota_client *c = place_of(q, client);
    time_ns full_at = c->full_at > now ? c->full_at : now;

    assert(now > 0);
    if (full_at - now > (QUOTA_BURST - 1) * EACH)
        return false;
    *c = (struct quota_client){client, full_at + EACH};
    return true;
}

/* ---- all of them --------------------------------------------------------- */

static const time_ns SHARE = 1000000000 / TOLL_PER_S;
static const time_ns REST_MAX = TOLL_REST_MS_MAX * 1000000ll;
static const time_ns DEBT_MAX = TOLL_DEBT_S * 1000000000ll;

void toll_take(struct toll *t, unsigned times, time_ns now)
{
    time_ns paid_at = t->paid_at > now ? t->paid_at : now;
    time_ns over = now + TOLL_BURST * SHARE, rest;

    assert(now > 0 && times > 0);
    t->paid_at = paid_at + times * SHARE;
    if (t->paid_at > over + DEBT_MAX)
        t->paid_at = over + DEBT_MAX;
    if (t->paid_at > over) {
        rest = t->paid_at - over + TOLL_REST_MS * 1000000ll;
        t->until = now + (rest < REST_MAX ? rest : REST_MAX);
    }
}

void toll_give_back(struct toll *t, unsigned times)
{
    time_ns paid = times * SHARE;

    t->paid_at = t->paid_at > paid ? t->paid_at - paid : 0;
}

time_ns toll_rest(struct toll *t, time_ns now)
{
    if (t->until <= now)
        t->until = 0;
    return t->until ? t->until - now : 0;
}
