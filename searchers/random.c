/* Random search that does not clump: a scrambled Sobol sequence in the unit
 * cube, so that a dozen trials over five decades have one in every part of the
 * range, in every tunable at once, where independent draws leave gaps. Every
 * seed is another sequence. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "searchers/model/sobol.h"

#include <assert.h>

enum {
    RANDOM_NEXT_TRIES = 64, /* points of the sequence before looking harder */
    RANDOM_LIST_MAX = 1 << 20, /* spaces so small are gone through whole */
    RANDOM_DRAWS = 1 << 14     /* draws that find nothing new in a larger one:
                                * conditions have made it small */
};

struct random_search {
    const struct space *space; /* borrowed */
    uint64_t seed;
    struct sobol sobol;
};

static enum err random_open(const struct space *space, const json_t *settings,
                            uint64_t seed, void **state, struct fault *f)
{
    struct random_search *r = mem_alloc(sizeof(*r));
    size_t axis[TUNABLES_MAX];

    (void)settings;
    if (!r)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    r->space = space;
    r->seed = seed;
    sobol_init(&r->sobol, space_axes(space, axis), seed);
    *state = r;
    return ERR_OK;
}

static void random_close(void *state)
{
    mem_free(state);
}

/* Cell @index < space_size of a discrete space. */
static void cell_at(const struct space *s, uint64_t index, struct setting *out)
{
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(s, axis);

    assert(index < space_size(s));
    *out = (struct setting){0};
    for (size_t k = 0; k < n; k++) {
        const struct tunable *t = &s->tunable[axis[k]];
        uint64_t count = tunable_count(t);

        out->value[axis[k]] = tunable_at(t, index % count);
        index /= count;
    }
    assert(index == 0);
    space_canonical(s, out);
}

/* A small discrete space: all its cells, in an order by the seed. */
static enum err ask_every_cell(const struct random_search *r,
                               const struct searcher_query *q, uint64_t size,
                               struct setting *out)
{
    struct perm perm;

    assert(size > 0 && size <= RANDOM_LIST_MAX);
    perm_init(&perm, size, r->seed);
    for (uint64_t i = 0; i < size; i++) {
        cell_at(r->space, perm_at(&perm, i), out);
        if (!searcher_seen(r->space, q, out))
            return ERR_OK;
    }
    return ERR_EXHAUSTED;
}

static enum err ask_draws(const struct random_search *r,
                          const struct searcher_query *q, uint64_t first,
                          struct setting *out)
{
    struct rng rng;

    assert(r->sobol.dims > 0);
    rng_init(&rng, rng_mix(r->seed, first));
    for (int i = 0; i < RANDOM_DRAWS; i++) {
        double u[TUNABLES_MAX];

        for (size_t k = 0; k < r->sobol.dims; k++)
            u[k] = rng_uniform(&rng);
        space_from_unit(r->space, u, out);
        if (!searcher_seen(r->space, q, out))
            return ERR_OK;
    }
    return ERR_EXHAUSTED;
}

static enum err random_ask(void *state, const struct searcher_query *q,
                           struct setting *out, struct fault *f)
{
    const struct random_search *r = state;
    uint64_t first = q->told_len + q->running_len;
    uint64_t size = space_size(r->space);
    enum err err;

    assert(size > 0);
    for (uint64_t i = 0; i < RANDOM_NEXT_TRIES; i++) {
        double u[TUNABLES_MAX];

        sobol_point(&r->sobol, first + i, u);
        space_from_unit(r->space, u, out);
        if (!searcher_seen(r->space, q, out))
            return ERR_OK;
    }
    err = size <= RANDOM_LIST_MAX ? ask_every_cell(r, q, size, out)
                                  : ask_draws(r, q, first, out);
    if (err)
        fault_set(f, err, "every setting has been tried");
    return err;
}

const struct searcher_ops searcher_random = {
    .name = "random",
    .summary = "scrambled Sobol points: every prefix covers the whole range",
    .settings = "{\"type\": \"object\", \"properties\": {}}",
    .open = random_open,
    .close = random_close,
    .ask = random_ask,
};
