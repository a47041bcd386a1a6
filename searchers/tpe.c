/* Tree-structured Parzen estimator (Bergstra et al. 2011), in the joint form.
 *
 * The fastest tenth of the trials makes one density, the rest and the running
 * ones another; of some draws from the first the one where it most exceeds the
 * second is proposed. Figures as the best of the peers have them: 10 start-up
 * trials, min(ceil(N / 10), 25) fast ones, 24 candidates.
 *
 * A trial that failed or diverged is among the rest, and its setting breaks a
 * constraint: what a draw promises is weighed with the probability that it
 * keeps it (c-TPE, Watanabe and Hutter 2023), from the densities of those that
 * did and did not. Without that, l / g is highest where nothing was learnt: a
 * batch that memory refuses was proposed in two trials of three.
 */
#include "base/mem.h"
#include "searchers/built_in.h"
#include "searchers/model/parzen.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TPE_BELOW_MAX = 25,
    TPE_ROUNDS = 4 /* of candidates, when all of a round have been tried */
};

struct tpe_search {
    const struct space *space; /* borrowed */
    uint64_t seed;
    size_t startup, candidates, axes;
    void *random; /* owned: start-up points, and when nothing new is drawn */
};

static const char settings[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"startup\": {\"type\": \"integer\", \"minimum\": 1, \"default\": 10, "
    "\"description\": \"space-filling trials before the densities are used\"},"
    "\"candidates\": {\"type\": \"integer\", \"minimum\": 1, "
    "\"maximum\": 10000, \"default\": 24, "
    "\"description\": \"draws that a proposal is the best of\"}}}";

static enum err tpe_open(const struct space *space, const json_t *object,
                         uint64_t seed, void **state, struct fault *f)
{
    struct tpe_search *t = mem_calloc(1, sizeof(*t));
    size_t axis[TUNABLES_MAX];
    enum err err;

    if (!t)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    t->space = space;
    t->seed = seed;
    t->axes = space_axes(space, axis);
    t->startup = (size_t)json_integer_value(json_object_get(object, "startup"));
    t->candidates =
        (size_t)json_integer_value(json_object_get(object, "candidates"));
    err = searcher_random.open(space, object, seed, &t->random, f);
    if (err)
        mem_free(t);
    else
        *state = t;
    return err;
}

static void tpe_close(void *state)
{
    struct tpe_search *t = state;

    searcher_random.close(t->random);
    mem_free(t);
}

static bool has_speed(const struct observation *o)
{
    return o->outcome == OUTCOME_SPEED || o->outcome == OUTCOME_STOPPED;
}

/* Greater is better; what has no speed is behind all that has. */
static double rank_speed(const struct observation *o)
{
    return has_speed(o) ? o->speed : -1;
}

static int by_speed(const void *a, const void *b)
{
    const struct observation *p = *(const struct observation *const *)a;
    const struct observation *q = *(const struct observation *const *)b;
    double x = rank_speed(p), y = rank_speed(q);

    if (x != y)
        return x > y ? -1 : 1;
    return (p->trial > q->trial) - (p->trial < q->trial);
}

static int by_trial(const void *a, const void *b)
{
    const struct observation *p = *(const struct observation *const *)a;
    const struct observation *q = *(const struct observation *const *)b;

    return (p->trial > q->trial) - (p->trial < q->trial);
}

/* All observations, fastest first; returns how many have a speed. */
static size_t rank(const struct searcher_query *q,
                   const struct observation *ranked[])
{
    size_t n = 0;

    for (size_t i = 0; i < q->told_len; i++) {
        ranked[i] = &q->told[i];
        n += has_speed(&q->told[i]);
    }
    qsort(ranked, q->told_len, sizeof(ranked[0]), by_speed);
    return n;
}

/* Density of @n observations (put into the order of their trials) and, where
 * @q is given, of its running trials after them. */
static enum err density(const struct tpe_search *t,
                        const struct observation *o[], size_t n,
                        const struct searcher_query *q, struct parzen **out)
{
    size_t running = q ? q->running_len : 0;
    double *u = mem_alloc((n + running + 1) * t->axes * sizeof(double));
    enum err err;

    assert(t->axes > 0);
    if (!u)
        return ERR_NOMEM;
    qsort(o, n, sizeof(o[0]), by_trial);
    for (size_t i = 0; i < n; i++)
        space_to_unit(t->space, &o[i]->setting, u + i * t->axes);
    for (size_t i = 0; i < running; i++)
        space_to_unit(t->space, &q->running[i], u + (n + i) * t->axes);
    err = parzen_new(t->space, n + running, u, out);
    mem_free(u);
    return err;
}

/* Densities of a proposal; owned. `kept` and `broken`: of the trials that had a
 * speed, and of those that failed or diverged; NULL where none did. */
struct densities {
    struct parzen *below, *above, *kept, *broken;
    double log_odds; /* of the numbers of the last two */
};

static void densities_free(struct densities *d)
{
    parzen_free(d->below);
    parzen_free(d->above);
    parzen_free(d->kept);
    parzen_free(d->broken);
}

/* From ranked[told], of which @n have a speed. */
static enum err densities_make(const struct tpe_search *t,
                               const struct searcher_query *q,
                               const struct observation *ranked[], size_t n,
                               struct densities *d)
{
    size_t told = q->told_len, fast = (n + 9) / 10;
    enum err err = ERR_OK;

    assert(n <= told);
    if (fast > TPE_BELOW_MAX)
        fast = TPE_BELOW_MAX;
    if (n < told) { /* first: a density takes the order from its part */
        d->log_odds = log((double)(told - n) / (double)(n + 1));
        err = density(t, ranked + n, told - n, NULL, &d->broken);
    }
    if (!err)
        err = density(t, ranked, fast, NULL, &d->below);
    if (!err)
        err = density(t, ranked + fast, told - fast, q, &d->above);
    if (err || n == told)
        return err;
    (void)rank(q, ranked);
    return density(t, ranked, n, NULL, &d->kept);
}

/* Log of the probability that @u is a setting that can be run: p = 1 / (1 +
 * odds of the two densities). */
static double log_feasible(const struct densities *d, const double u[])
{
    double odds;

    if (!d->broken)
        return 0;
    odds = d->log_odds + parzen_log_density(d->broken, u) -
           parzen_log_density(d->kept, u);
    return odds > 30 ? -odds : -log1p(exp(odds));
}

/* Best unseen of one round of draws; ERR_NOENT when all were seen. */
static enum err best_draw(const struct tpe_search *t,
                          const struct searcher_query *q,
                          const struct densities *d, struct rng *rng,
                          struct setting *out)
{
    double best = -INFINITY;
    enum err err = ERR_NOENT;

    assert(t->candidates > 0);
    for (size_t i = 0; i < t->candidates; i++) {
        double u[TUNABLES_MAX], gain;
        struct setting x;

        parzen_draw(d->below, rng, u);
        space_from_unit(t->space, u, &x);
        if (searcher_seen(t->space, q, &x))
            continue;
        gain = parzen_log_density(d->below, u) -
               parzen_log_density(d->above, u) + log_feasible(d, u);
        if (err || gain > best) { /* any unseen one beats none */
            best = gain;
            *out = x;
            err = ERR_OK;
        }
    }
    return err;
}

static enum err propose(const struct tpe_search *t,
                        const struct searcher_query *q,
                        const struct observation *ranked[], size_t n,
                        struct setting *out)
{
    struct densities d = {0};
    enum err err = densities_make(t, q, ranked, n, &d);
    struct rng rng;

    rng_init(&rng, rng_mix(t->seed, q->told_len * 1000003 + q->running_len));
    if (!err) {
        err = ERR_NOENT;
        for (int i = 0; err == ERR_NOENT && i < TPE_ROUNDS; i++)
            err = best_draw(t, q, &d, &rng, out);
    }
    densities_free(&d);
    return err;
}

static enum err tpe_ask(void *state, const struct searcher_query *q,
                        struct setting *out, struct fault *f)
{
    const struct tpe_search *t = state;
    const struct observation **ranked;
    enum err err;

    if (t->axes == 0 || q->told_len < t->startup)
        return searcher_random.ask(t->random, q, out, f);
    ranked = mem_alloc((q->told_len + 1) * sizeof(*ranked));
    if (!ranked)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = propose(t, q, ranked, rank(q, ranked), out);
    mem_free(ranked);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    return err ? searcher_random.ask(t->random, q, out, f) : ERR_OK;
}

const struct searcher_ops searcher_tpe = {
    .name = "tpe",
    .summary = "tree-structured Parzen estimator, joint (Bergstra 2011)",
    .settings = settings,
    .open = tpe_open,
    .close = tpe_close,
    .ask = tpe_ask,
};
