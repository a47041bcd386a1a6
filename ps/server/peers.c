#include "ps/server/peers.h"

#include "ps/server/core.h"
#include "ps/server/runtime.h"

#include <assert.h>

const struct ps_shape *ps_shape(const struct mlt_ps *ps)
{
    return &ps->shape;
}

struct ps_saving *ps_saving(struct mlt_ps *ps)
{
    return &ps->saving;
}

const struct ps_saving *ps_saving_now(const struct mlt_ps *ps)
{
    return &ps->saving;
}

uint32_t ps_nodes(const struct mlt_ps *ps)
{
    return ps->shape.nodes;
}

uint32_t ps_node(const struct mlt_ps *ps)
{
    return ps->shape.node;
}

enum err ps_listen(struct mlt_ps *ps, struct fault *f)
{
    if (ps->shape.nodes == 1 || ps->peers)
        return ERR_OK;
    assert(ps->wire);
    return ps->wire->open(ps, &ps->shape, &ps->peers, f);
}

enum err ps_lost(struct mlt_ps *ps, struct fault *f)
{
    return ps->peers ? ps->peers->ops->lost(ps->peers, f) : ERR_OK;
}

uint64_t ps_number(const struct mlt_ps *ps)
{
    return ps->peers ? ps->peers->ops->number(ps->peers) : 0;
}

void ps_set_cut(struct mlt_ps *ps, const struct ps_cut *cut)
{
    assert(cut);
    ps->cut = *cut;
}

void ps_cut(struct mlt_ps *ps)
{
    assert(ps->started);
    assert(ps->peers);
    ps->peers->ops->cut(ps->peers);
}

uint32_t ps_ticket(struct mlt_ps *ps)
{
    return runtime_ticket(ps);
}

bool ps_await(struct mlt_worker *w, uint32_t ticket)
{
    if (!runtime_failed(w->ps))
        runtime_wait(w, ticket);
    return !runtime_failed(w->ps);
}

void ps_traffic(struct mlt_ps *ps, struct ps_traffic *out)
{
    *out = (struct ps_traffic){0};
    if (ps->peers)
        ps->peers->ops->traffic(ps->peers, out);
}

void ps_staleness(struct mlt_ps *ps, struct staleness *out)
{
    *out = (struct staleness){0};
    if (ps->peers)
        ps->peers->ops->staleness(ps->peers, out);
}
