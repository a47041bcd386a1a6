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
