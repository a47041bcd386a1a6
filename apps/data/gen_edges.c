/* gen:edges (apps/data/gen.h). */
#include "apps/data/gen.h"

#include "base/rng.h"

#include <math.h>

enum { KEY_NODES, KEY_EDGES, KEY_SEED };

/* Distinct streams of the seed. */
enum edge_stream { STREAM_EDGES = 300, STREAM_FROM, STREAM_TO };

enum { BYTES_AN_EDGE = 16, BYTES_A_NODE = 48 };

/* A node whose popularity falls as 1 / place (Zipf), ids from 1. */
static int64_t draw_node(const struct perm *place, uint64_t nodes,
                         struct rng *rng)
{
    double at = pow((double)nodes + 1, rng_uniform(rng)) - 1;

    return 1 + (int64_t)perm_at(place,
                                at < (double)nodes ? (uint64_t)at : nodes - 1);
}

uint64_t gen_edges_bytes(const double v[])
{
    return (uint64_t)v[KEY_EDGES] * BYTES_AN_EDGE +
           (uint64_t)v[KEY_NODES] * BYTES_A_NODE;
}

enum err gen_edges(const char *spec, uint64_t limit_bytes, struct edges *out,
                   struct fault *f)
{
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    struct edges g = {0};
    struct perm from, to;
    struct rng rng;
    uint64_t nodes, seed;
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_EDGES)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected edges", spec,
                         data_kind_text(kind->kind));
    err = data_memory_check(spec, gen_edges_bytes(v), limit_bytes, f);
    nodes = (uint64_t)v[KEY_NODES];
    seed = (uint64_t)v[KEY_SEED];
    perm_init(&from, nodes, rng_mix(seed, STREAM_FROM));
    perm_init(&to, nodes, rng_mix(seed, STREAM_TO));
    rng_init(&rng, rng_mix(seed, STREAM_EDGES));
    for (uint64_t i = 0; i < (uint64_t)v[KEY_EDGES] && !err; i++) {
        int64_t one = draw_node(&from, nodes, &rng);

        if (edges_add(&g, one, draw_node(&to, nodes, &rng)))
            err = fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    }
    if (err)
        edges_deinit(&g);
    else
        *out = g;
    return err;
}
