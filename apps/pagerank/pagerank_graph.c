#include "apps/pagerank/pagerank_graph.h"

#include "base/mem.h"

#include <string.h>

void pagerank_graph_deinit(struct pagerank_graph *g)
{
    mem_free(g->begin);
    mem_free(g->from);
    mem_free(g->out);
    memset(g, 0, sizeof(*g));
}

/* Counts the edge into begin[to + 1], or puts it at begin[to]. */
static void take(struct pagerank_graph *g, uint32_t from, uint32_t to,
                 bool count)
{
    if (count) {
        g->begin[to + 1]++;
        g->out[from]++;
        g->edges++;
    } else {
        g->from[g->begin[to]++] = from;
    }
}

static void take_all(struct pagerank_graph *g, const struct edges *e, bool both,
                     bool count)
{
    for (uint64_t i = 0; i < e->count; i++) {
        take(g, e->from[i], e->to[i], count);
        if (both && e->from[i] != e->to[i])
            take(g, e->to[i], e->from[i], count);
    }
}

enum err pagerank_graph_init(struct pagerank_graph *g, const struct edges *e,
                             bool both)
{
    *g = (struct pagerank_graph){.nodes = (uint32_t)e->nodes.count};
    g->begin = mem_calloc((size_t)g->nodes + 1, sizeof(*g->begin));
    g->out = mem_calloc((size_t)g->nodes + 1, sizeof(*g->out));
    if (!g->begin || !g->out) {
        pagerank_graph_deinit(g);
        return ERR_NOMEM;
    }
    take_all(g, e, both, true);
    for (uint32_t v = 0; v < g->nodes; v++)
        g->begin[v + 1] += g->begin[v];
    g->from = mem_alloc((g->edges + 1) * sizeof(*g->from));
    if (!g->from) {
        pagerank_graph_deinit(g);
        return ERR_NOMEM;
    }
    take_all(g, e, both, false);
    /* Each begin has moved to its end, which is the next one's beginning. */
    memmove(g->begin + 1, g->begin, g->nodes * sizeof(*g->begin));
    g->begin[0] = 0;
    return ERR_OK;
}
