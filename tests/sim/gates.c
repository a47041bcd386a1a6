#include "tests/sim/gates.h"

#include "base/rng.h"
#include "searchers/built_in.h"
#include "tests/sim/warm.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE                                                                   \
    "\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, "     \
    "\"scale\": \"log\", \"default\": 0.01}"
#define MOMENTUM                                                               \
    ", \"momentum\": {\"type\": \"float\", \"min\": 0, \"max\": 0.99, "        \
    "\"default\": 0.5}"
#define BATCH                                                                  \
    ", \"batch_size\": {\"type\": \"int\", \"values\": [16, 64, 256], "        \
    "\"default\": 64}"
#define STALENESS                                                              \
    ", \"staleness\": {\"type\": \"int\", \"min\": 0, \"max\": 7, "            \
    "\"default\": 0}"
#define BANDWIDTH                                                              \
    ", \"bandwidth\": {\"type\": \"float\", \"min\": 1, \"max\": 1000, "       \
    "\"scale\": \"log\", \"default\": 100}"
#define OTHERS                                                                 \
    BANDWIDTH                                                                  \
    ", "                                                                       \
    "\"bits\": {\"type\": \"int\", \"values\": [8, 16, 32], \"default\": "     \
    "32}, "                                                                    \
    "\"decay\": {\"type\": \"float\", \"min\": 1e-6, \"max\": 1e-2, "          \
    "\"scale\": \"log\", \"default\": 1e-4}, "                                 \
    "\"prefetch\": {\"type\": \"int\", \"values\": [1, 2, 4, 8], "             \
    "\"default\": 2}"
#define FOUR "{" RATE MOMENTUM BATCH STALENESS "}"
#define EIGHT "{" RATE MOMENTUM BATCH STALENESS OTHERS "}"

/* Settings that most families share. */
static const struct gates_family plain = {
    .f =
        {
            .name = "four",
            .space = FOUR,
            .searcher = &searcher_tpe,
            .samples = 32768,
            .validation = 4096,
            .workers = 2,
            .condition = 500,
            .noise = 0.3,
            .test_noise = 1e-3,
            .jitter = 1,
            .ball = 0.03,
            .clock_s = 1e-2,
            .sample_s = 1e-4,
            .cost_noise = 0.03,
            .switch_s = 1e-3,
            .copy_s = 1e-3,
            .max_epochs = 100,
        },
    .horizon_epochs = 60,
};

/* Name, whether it was held out, and how it differs. */
#define FAMILIES(X)                                                            \
    X(four, false, (void)f)                                                    \
    X(noisy, false, (f->noise = 3, f->jitter = 1.4, f->ball = 0.1))            \
    X(cliff, false, (f->space = "{" RATE MOMENTUM "}", f->cliff = 0.8))        \
    X(batch_cost, false,                                                       \
      (f->space = "{" RATE MOMENTUM BATCH "}", f->clock_s = 5e-2))             \
    X(waiting, false,                                                          \
      (f->space = "{" RATE MOMENTUM BATCH "}", f->waiting = 0.5))              \
    X(drift, false,                                                            \
      (f->space = "{" RATE MOMENTUM BATCH "}", f->moved = 10,                  \
       f->moved_after = 6))                                                    \
    X(eight, false, f->space = EIGHT)                                          \
    X(parts, false,                                                            \
      (f->space = "{" RATE "}", f->parts = 64, f->condition = 1500))           \
    X(hits, false, (f->hits = true, f->validation = 2000))                     \
    X(hits_noisy, false,                                                       \
      (f->hits = true, f->validation = 2000, f->noise = 3, f->jitter = 1.4,    \
       f->ball = 0.1, f->space = "{" RATE MOMENTUM BATCH "}"))                 \
    X(hits_short, false,                                                       \
      (f->hits = true, f->validation = 2000, f->samples = 10000,               \
       f->workers = 1, f->clock_s = 3.2e-3, f->condition = 60,                 \
       f->space = "{" RATE MOMENTUM BATCH "}"))                                \
    X(bandwidths, false,                                                       \
      (f->space = "{" RATE BATCH BANDWIDTH "}", f->clock_s = 3e-2))            \
    X(held_mixed, true,                                                        \
      (f->noise = 1.5, f->jitter = 1.4, f->cliff = 1.5, f->waiting = 0.25,     \
       f->condition = 250))                                                    \
    X(held_drift, true,                                                        \
      (f->space = "{" RATE MOMENTUM "}", f->moved = 0.15, f->moved_after = 5,  \
       f->noise = 1))                                                          \
    X(held_eight, true,                                                        \
      (f->space = EIGHT, f->noise = 1.5, f->jitter = 1.4, f->cost_noise = 0.2, \
       f->condition = 250))                                                    \
    X(held_costs, true,                                                        \
      (f->space = "{" RATE MOMENTUM BATCH "}", f->clock_s = 3e-2,              \
       f->hiccup = 0.01, f->condition = 1000, f->cliff = 1))                   \
    X(held_bandwidths, true,                                                   \
      (f->space = "{" RATE MOMENTUM BATCH STALENESS BANDWIDTH "}",             \
       f->clock_s = 2e-2, f->noise = 1, f->cost_noise = 0.1,                   \
       f->condition = 250))

#define FAMILY_SETTER(name, held, change)                                      \
    static void set_##name(struct sim_family *f)                               \
    {                                                                          \
        change;                                                                \
    }
FAMILIES(FAMILY_SETTER)

static const struct {
    const char *name;
    bool held_out;
    void (*set)(struct sim_family *f);
} families[] = {
#define FAMILY_ENTRY(name, held, change) {#name, held, set_##name},
    FAMILIES(FAMILY_ENTRY)};

size_t gates_families(void)
{
    return sizeof(families) / sizeof(families[0]);
}

void gates_family(size_t i, struct gates_family *out)
{
    assert(i < gates_families());
    *out = plain;
    out->f.name = families[i].name;
    out->held_out = families[i].held_out;
    families[i].set(&out->f);
    out->drifts = out->f.moved != 0;
    if (strcmp(out->f.name, "hits_short") == 0)
        out->horizon_epochs = 10;
}

/* ---- the oracle ---------------------------------------------------------- */

enum { DRAWS = 500, STEPS = 250, AXES = 8 };

struct hunt {
    const struct gates_family *g;
    struct physics p;
    double horizon; /* seconds */
    double target;  /* NAN: the loss at the horizon is what counts */
    double best;
    double u[AXES]; /* of the best, 0 .. 1 */
};

static double pick(const double *values, int n, double u)
{
    int i = (int)(u * n);

    return values[i < n ? i : n - 1];
}

static bool has(const struct hunt *h, const char *name)
{
    char quoted[32];

    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    return strstr(h->g->f.space, quoted) != NULL;
}

static struct knobs knobs_at(const struct hunt *h, const double u[AXES])
{
    static const double batches[] = {16, 64, 256}, bits[] = {8, 16, 32},
                        prefetches[] = {1, 2, 4, 8};
    struct knobs k = physics_knobs_default;

    k.lr = pow(10, -3 + 5 * u[0]); /* of the best rate */
    if (has(h, "momentum"))
        k.momentum = 0.99 * u[1];
    if (has(h, "batch_size"))
        k.batch = pick(batches, 3, u[2]);
    if (has(h, "staleness"))
        k.staleness = floor(7.999 * u[3]);
    if (has(h, "bandwidth"))
        k.bandwidth = pow(10, 3 * u[4]);
    if (has(h, "bits"))
        k.bits = pick(bits, 3, u[5]);
    if (has(h, "decay"))
        k.decay = pow(10, -6 + 4 * u[6]);
    if (has(h, "prefetch"))
        k.prefetch = pick(prefetches, 4, u[7]);
    return k;
}

/* Less is better: the loss at the horizon, or the time to the target, in
 * between epochs; nothing beyond the best so far is looked at. */
static double measure(const struct hunt *h, const struct knobs *k)
{
    double epoch = physics_epoch(&h->p, k), t = 0, loss = 0;
    double until = isnan(h->target) ? h->horizon : fmin(h->best, h->horizon);
    struct state x;

    physics_start(&h->p, &x);
    while (t + epoch <= until) {
        double took = 0;

        if (!physics_run(&h->p, &x, k, 0.999 * epoch, &took))
            return INFINITY;
        t += took;
        loss = physics_loss(&h->p, &x);
        if (loss <= h->target)
            return t;
    }
    return isnan(h->target) && t > 0 ? loss : INFINITY;
}

static void consider(struct hunt *h, const double u[AXES])
{
    struct knobs k = knobs_at(h, u);
    double value = measure(h, &k);

    if (value < h->best) {
        h->best = value;
        memcpy(h->u, u, sizeof(h->u));
    }
}

static void hunt(struct hunt *h)
{
    struct rng rng;
    double u[AXES];

    rng_init(&rng, 7);
    h->best = INFINITY;
    for (int i = 0; i < DRAWS; i++) {
        for (int a = 0; a < AXES; a++)
            u[a] = rng_uniform(&rng);
        consider(h, u);
    }
    /* A local search whose steps shrink from a tenth of the range. */
    for (int i = 0; i < STEPS; i++) {
        double step = 0.15 * pow(0.01, (double)i / STEPS);

        for (int a = 0; a < AXES; a++) {
            u[a] = h->u[a];
            if (rng_uniform(&rng) < 0.5)
                u[a] += step * rng_normal(&rng);
            u[a] = fmin(fmax(u[a], 0), 1);
        }
        consider(h, u);
    }
}

/* Loss at a part of the horizon. */
static double loss_at(struct hunt *h, const struct knobs *k, double part)
{
    double whole = h->horizon, loss;

    h->horizon = part * whole;
    loss = measure(h, k);
    h->horizon = whole;
    return loss;
}

void gates_oracle(const struct gates_family *g, unsigned variant, double part,
                  struct gates_oracle *out)
{
    struct hunt h = {.g = g, .target = NAN};
    struct knobs k;

    physics_init(&h.p, &g->f, 1, variant);
    h.horizon = g->horizon_epochs * physics_epoch(&h.p, &physics_knobs_default);
    hunt(&h);
    k = knobs_at(&h, h.u);
    out->target = loss_at(&h, &k, part);
    h.target = out->target;
    hunt(&h);
    assert(isfinite(h.best));
    out->knobs = knobs_at(&h, h.u);
    out->seconds = h.best;
}

/* ---- runs ---------------------------------------------------------------- */

enum { EARLIER_SEED = 100 * GATES_VARIANTS }; /* apart from any other run's */

void gates_earlier(const struct gates_family *g, const struct gates_oracle *o,
                   uint64_t seed, unsigned runs, bool other,
                   struct earlier *out)
{
    struct sim_family f = g->f;
    uint64_t before[EARLIER_RUNS_MAX];

    assert(runs <= EARLIER_RUNS_MAX);
    for (unsigned i = 0; i < runs; i++)
        before[i] = seed + (i + 1) * EARLIER_SEED + (other ? 3 : 0);
    f.target_metric =
        f.hits ? physics_hits(physics_excess_of(o->target)) : o->target;
    f.max_time_s = 40 * o->seconds;
    warm_from(&f, before, runs, out);
}

double gates_time(const struct gates_family *g, const struct gates_oracle *o,
                  const char *strategy, uint64_t seed, double most,
                  struct sim_result *out)
{
    struct sim_family f = g->f;

    f.strategy = strategy;
    if (strategy && strcmp(strategy, "hyperband_finite") == 0) {
        f.strategy = "hyperband";
        f.strategy_settings = "{\"horizon\": \"finite\"}";
    }
    f.target_metric =
        f.hits ? physics_hits(physics_excess_of(o->target)) : o->target;
    f.max_time_s = most * o->seconds;
    sim_run(&f, seed, NULL, out);
    assert(!out->hung);
    return strcmp(out->finish.reason, "target") == 0 ? out->seconds : INFINITY;
}

double gates_time_fixed(const struct gates_family *g,
                        const struct gates_oracle *o, uint64_t seed)
{
    struct gates_family fixed = *g;
    struct sim_result r;
    struct knobs k = o->knobs;
    char initial[512];
    int n;

    n = snprintf(initial, sizeof(initial), "{\"learning_rate\": %.6g",
                 fmax(fmin(k.lr * sim_best_rate(seed), 1), 1e-5));
    if (strstr(g->f.space, "\"momentum\""))
        n += snprintf(initial + n, sizeof(initial) - n, ", \"momentum\": %.6g",
                      k.momentum);
    if (strstr(g->f.space, "\"batch_size\""))
        n += snprintf(initial + n, sizeof(initial) - n,
                      ", \"batch_size\": %.0f", k.batch);
    if (strstr(g->f.space, "\"staleness\""))
        n += snprintf(initial + n, sizeof(initial) - n, ", \"staleness\": %.0f",
                      k.staleness);
    if (strstr(g->f.space, "\"bandwidth\""))
        n += snprintf(initial + n, sizeof(initial) - n, ", \"bandwidth\": %.6g",
                      k.bandwidth);
    if (strstr(g->f.space, "\"bits\""))
        n += snprintf(initial + n, sizeof(initial) - n,
                      ", \"bits\": %.0f, \"decay\": %.6g, "
                      "\"prefetch\": %.0f",
                      k.bits, k.decay, k.prefetch);
    snprintf(initial + n, sizeof(initial) - n, "}");
    fixed.f.initial = initial;
    fixed.f.plateau_epochs = 1000;
    fixed.f.max_epochs = 1000;
    return gates_time(&fixed, o, "fixed", seed, 5, &r);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double gates_median(double x[], size_t n)
{
    if (n == 0)
        return 0;
    qsort(x, n, sizeof(*x), ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}
