/* Bayesian optimization with a Gaussian process (Snoek et al. 2012), proposals
 * by the logarithm of expected improvement (Ament et al. 2023).
 *
 * Parameterised as our comparisons found the best to be: standardised speeds, a
 * Matern-5/2 kernel with a length scale an axis, maximum a posteriori, 2,048
 * candidates, then local searches from the best of them. Ours: a quarter of the
 * candidates lies near the best, the others are Sobol's. Running trials
 * enter as fantasies: observed at the model's own mean, so that the next
 * proposal keeps away from them. A diverged trial counts as the slowest seen.
 *
 * A trial that failed or diverged breaks a constraint: expected improvement is
 * weighed with the probability that a setting keeps it (Gelbart, Snoek and
 * Adams 2014, section 3), from a second process over +1 where a trial had a
 * speed and -1 where not. Of speed, a failed trial says nothing.
 *
 * The model rests on at most GP_TOLD_MAX observations, the fastest half and the
 * newest; its cost is cubic in them.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "searchers/model/acquisition.h"
#include "searchers/model/gp_model.h"
#include "searchers/model/normal.h"
#include "searchers/model/sobol.h"

#include <nlopt.h>

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    GP_TOLD_MAX = 256,
    GP_FIT_EVALUATIONS = 40,
    GP_LOCAL_EVALUATIONS = 200,
    GP_DISCRETE_ROUNDS = 3,
    GP_NEAR = 4 /* one candidate of so many lies near the best */
};

struct gp_search {
    const struct space *space; /* borrowed */
    uint64_t seed;
    size_t startup, candidates, starts;
    size_t axes, axis[TUNABLES_MAX];
    bool categorical[GP_AXES_MAX];
    void *random; /* owned: start-up points, and the way out when every
                   * candidate has been tried */
};

/* A point of the unit cube and what it promises: the logarithm of expected
 * improvement times the probability that it can be run. */
struct gp_candidate {
    double u[TUNABLES_MAX];
    double promise;
};

/* All that one ask works with. */
struct proposal {
    const struct gp_search *g;
    const struct searcher_query *q;
    struct gp_model *model;
    struct gp_model *limits; /* NULL: no trial failed or diverged */
    double *x, *y;           /* [n][axes], [n]: data and fantasies */
    size_t n, observed;      /* observed: without the fantasies */
    double best;             /* greatest y observed */
    size_t best_at;          /* its index */
    struct gp_candidate *c; /* [count], the last `near` of them near the best */
    size_t count, near;
};

static const char settings[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"startup\": {\"type\": \"integer\", \"minimum\": 1, \"default\": 10, "
    "\"description\": \"space-filling trials before the model is asked\"},"
    "\"candidates\": {\"type\": \"integer\", \"minimum\": 256, "
    "\"maximum\": 65536, \"default\": 2048, "
    "\"description\": \"points at which expected improvement is looked at: "
    "Sobol's, and a quarter near the best\"},"
    "\"starts\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 100, "
    "\"default\": 10, \"description\": \"local searches from the best of "
    "them\"}}}";

static size_t setting_of(const json_t *object, const char *name)
{
    return (size_t)json_integer_value(json_object_get(object, name));
}

static enum err gp_open(const struct space *space, const json_t *object,
                        uint64_t seed, void **state, struct fault *f)
{
    struct gp_search *g = mem_calloc(1, sizeof(*g));
    enum err err;

    if (!g)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    g->space = space;
    g->seed = seed;
    g->startup = setting_of(object, "startup");
    g->candidates = setting_of(object, "candidates");
    g->starts = setting_of(object, "starts");
    g->axes = space_axes(space, g->axis);
    for (size_t k = 0; k < g->axes; k++)
        g->categorical[k] =
            space->tunable[g->axis[k]].type == TUNABLE_CATEGORICAL;
    err = searcher_random.open(space, object, seed, &g->random, f);
    if (err)
        mem_free(g);
    else
        *state = g;
    return err;
}

static void gp_close(void *state)
{
    struct gp_search *g = state;

    searcher_random.close(g->random);
    mem_free(g);
}

/* ---- data ---------------------------------------------------------------- */

/* Whether observation @i is among the fastest @keep of the query. */
static bool among_fastest(const struct searcher_query *q, size_t i, size_t keep)
{
    size_t faster = 0;

    for (size_t j = 0; j < q->told_len; j++)
        faster += q->told[j].speed > q->told[i].speed ||
                  (q->told[j].speed == q->told[i].speed && j < i);
    return faster < keep;
}

static bool counts(const struct observation *o)
{
    return o->outcome != OUTCOME_FAILED;
}

static bool has_speed(const struct observation *o)
{
    return o->outcome == OUTCOME_SPEED || o->outcome == OUTCOME_STOPPED;
}

static double slowest(const struct searcher_query *q)
{
    double low = INFINITY;

    for (size_t i = 0; i < q->told_len; i++)
        if (has_speed(&q->told[i]))
            low = fmin(low, q->told[i].speed);
    return isfinite(low) ? low : 0;
}

static void take_observations(struct proposal *p)
{
    const struct searcher_query *q = p->q;
    double low = slowest(q);

    assert(p->n == 0);
    for (size_t i = 0; i < q->told_len; i++) {
        const struct observation *o = &q->told[i];

        if (!counts(o))
            continue;
        if (q->told_len > GP_TOLD_MAX && i + GP_TOLD_MAX / 2 < q->told_len &&
            !among_fastest(q, i, GP_TOLD_MAX / 2))
            continue;
        space_to_unit(p->g->space, &o->setting, p->x + p->n * p->g->axes);
        p->y[p->n++] = o->outcome == OUTCOME_DIVERGED ? low : o->speed;
        if (p->n == GP_TOLD_MAX)
            break;
    }
    p->observed = p->n;
}

static void standardise(struct proposal *p)
{
    double mean = 0, square = 0, scale;

    assert(p->n > 0 && p->n <= GP_TOLD_MAX);
    for (size_t i = 0; i < p->n; i++)
        mean += p->y[i] / (double)p->n;
    for (size_t i = 0; i < p->n; i++)
        square += (p->y[i] - mean) * (p->y[i] - mean) / (double)p->n;
    scale = square > 0 ? sqrt(square) : 1;
    p->best = -INFINITY;
    for (size_t i = 0; i < p->n; i++) {
        p->y[i] = (p->y[i] - mean) / scale;
        if (p->y[i] > p->best) {
            p->best = p->y[i];
            p->best_at = i;
        }
    }
}

/* Running trials, at the mean that the model without them expects. */
static enum err add_fantasies(struct proposal *p, const struct gp_params *fit)
{
    enum err err;

    assert(p->n == p->observed);
    if (p->q->running_len == 0)
        return ERR_OK;
    for (size_t i = 0; i < p->q->running_len && p->n < GP_POINTS_MAX; i++) {
        double *u = p->x + p->n * p->g->axes, sd;

        space_to_unit(p->g->space, &p->q->running[i], u);
        gp_model_predict(p->model, u, &p->y[p->n], &sd, NULL, NULL);
        p->n++;
    }
    err = gp_model_data(p->model, p->n, p->x, p->y);
    return err ? err : gp_model_condition(p->model, fit);
}

/* The mark to be improved on is the best that the model expects at a point that
 * was tried, not the luckiest observation: with noise, that one is never met
 * again (the plug-in of Picheny et al. 2013, section 3.1). */
static void expect_best(struct proposal *p)
{
    p->best = -INFINITY;
    for (size_t i = 0; i < p->n; i++) {
        double mean, sd;

        gp_model_predict(p->model, p->x + i * p->g->axes, &mean, &sd, NULL,
                         NULL);
        if (mean > p->best) {
            p->best = mean;
            p->best_at = i;
        }
    }
}

/* Fits from the defaults, and from shorter length scales, and keeps the better:
 * a function of what was told alone, so that a replay proposes the same. */
static enum err fit_model(struct proposal *p)
{
    struct gp_params fit, other;
    enum err err = gp_model_data(p->model, p->n, p->x, p->y);
    double value;

    assert(p->g->axes > 0 && p->g->axes <= GP_AXES_MAX);
    if (err)
        return err;
    gp_params_default(&fit, p->g->axes);
    value = gp_model_fit(p->model, &fit, GP_FIT_EVALUATIONS);
    if (p->n <= GP_TOLD_MAX / 4) {
        gp_params_default(&other, p->g->axes);
        for (size_t a = 0; a < p->g->axes; a++)
            other.log_w[a] = 3;
        if (gp_model_fit(p->model, &other, GP_FIT_EVALUATIONS) > value)
            fit = other;
    }
    err = gp_model_condition(p->model, &fit);
    if (!err)
        expect_best(p);
    return err ? err : add_fantasies(p, &fit);
}

/* The model of what can be run, of the newest trials. Labels are not
 * standardised: far from all trials the odds are even, which keeps a region
 * that nobody has tried below one that is known to be good for something. */
static enum err fit_limits(struct proposal *p)
{
    const struct searcher_query *q = p->q;
    size_t first = q->told_len > GP_TOLD_MAX ? q->told_len - GP_TOLD_MAX : 0;
    size_t n = q->told_len - first, axes = p->g->axes, broken = 0;
    double *x = mem_alloc(n * (axes + 1) * sizeof(double)), *y;
    struct gp_params fit;
    enum err err = ERR_NOMEM;

    if (!x)
        return err;
    y = x + n * axes;
    for (size_t i = 0; i < n; i++) {
        const struct observation *o = &q->told[first + i];

        space_to_unit(p->g->space, &o->setting, x + i * axes);
        y[i] = has_speed(o) ? 1 : -1;
        broken += !has_speed(o);
    }
    err = broken ? gp_model_new(axes, p->g->categorical, &p->limits) : ERR_OK;
    if (!err && broken)
        err = gp_model_data(p->limits, n, x, y);
    if (!err && broken) {
        gp_params_default(&fit, axes);
        gp_model_fit(p->limits, &fit, GP_FIT_EVALUATIONS);
        err = gp_model_condition(p->limits, &fit);
    }
    mem_free(x);
    return err;
}

/* ---- candidates ---------------------------------------------------------- */

/* The nearest setting's own place in the cube: cells' middles, conditions
 * kept. */
static void snap(const struct gp_search *g, double u[])
{
    struct setting x;

    space_from_unit(g->space, u, &x);
    space_to_unit(g->space, &x, u);
}

/* How much the probability that a setting can be run weighs against what it
 * promises. At 1 a search whose promise rises up to the edge tries the far side
 * of it in every second trial (128 of 240; at 4, see the test). */
#define GP_CAUTION 4

/* Log of the probability that the value of `limits` is above 0. */
static double log_feasible(double mean, double sd)
{
    return GP_CAUTION * normal_log_cdf(mean / sd);
}

static double promise(const struct proposal *p, const double u[])
{
    double mean, sd, log_p = 0;

    if (p->limits) {
        gp_model_predict(p->limits, u, &mean, &sd, NULL, NULL);
        log_p = log_feasible(mean, sd);
    }
    gp_model_predict(p->model, u, &mean, &sd, NULL, NULL);
    return log_ei(mean, sd, p->best) + log_p;
}

static void evaluate(const struct proposal *p, struct gp_candidate *c)
{
    c->promise = promise(p, c->u);
}

static int by_promise(const void *a, const void *b)
{
    const struct gp_candidate *p = a, *q = b;

    return (p->promise < q->promise) - (p->promise > q->promise);
}

/* Near the best: at 10^-0.7 to 10^-2.7 of the ranges. Where the model is sharp,
 * improvement is to be had in a region that no Sobol point falls into, and at
 * the best itself a climb has no slope to follow. */
static void near_candidate(const struct proposal *p, struct rng *rng,
                           struct gp_candidate *c)
{
    const double *best = p->x + p->best_at * p->g->axes;
    double scale = pow(10, -0.7 - 2 * rng_uniform(rng));

    assert(p->best_at < p->n);
    for (size_t k = 0; k < p->g->axes; k++)
        c->u[k] = fmin(1, fmax(0, best[k] + scale * rng_normal(rng)));
}

static void place_candidates(struct proposal *p)
{
    const struct gp_search *g = p->g;
    uint64_t seed = rng_mix(g->seed, p->q->told_len);
    struct sobol sobol;
    struct rng rng;

    assert(p->best_at < p->n);
    p->count = g->candidates;
    p->near = p->count / GP_NEAR;
    sobol_init(&sobol, g->axes, seed);
    rng_init(&rng, rng_mix(seed, 1));
    for (size_t i = 0; i < p->count; i++) {
        if (i < p->count - p->near)
            sobol_point(&sobol, i, p->c[i].u);
        else
            near_candidate(p, &rng, &p->c[i]);
        snap(g, p->c[i].u);
    }
}

static enum err judge_candidates(struct proposal *p)
{
    const struct gp_search *g = p->g;
    size_t n = p->count;
    double *x = mem_alloc(n * (g->axes + 2) * sizeof(double));
    double *mean, *sd;
    enum err err;

    if (!x)
        return ERR_NOMEM;
    mean = x + n * g->axes;
    sd = mean + n;
    for (size_t i = 0; i < n; i++)
        memcpy(x + i * g->axes, p->c[i].u, g->axes * sizeof(double));
    err = gp_model_predict_many(p->model, n, x, mean, sd);
    for (size_t i = 0; !err && i < n; i++)
        p->c[i].promise = log_ei(mean[i], sd[i], p->best);
    if (!err && p->limits)
        err = gp_model_predict_many(p->limits, n, x, mean, sd);
    for (size_t i = 0; !err && p->limits && i < n; i++)
        p->c[i].promise += log_feasible(mean[i], sd[i]);
    mem_free(x);
    return err;
}

struct climb {
    const struct proposal *p;
    struct gp_candidate *c;
    size_t axis[GP_AXES_MAX]; /* the continuous ones */
};

/* Adds the gradient of -log Phi(mean / sd) of `limits` at @u to grad[n]. */
static double climb_limits(const struct climb *climb, unsigned n,
                           const double u[], double *grad)
{
    double dmean[GP_AXES_MAX], dsd[GP_AXES_MAX], mean, sd, z, slope;

    gp_model_predict(climb->p->limits, u, &mean, &sd, grad ? dmean : NULL, dsd);
    z = mean / sd;
    slope = exp(-0.5 * z * z - 0.5 * log(2 * M_PI) - normal_log_cdf(z));
    for (unsigned i = 0; grad && i < n; i++) {
        size_t a = climb->axis[i];

        grad[i] -= GP_CAUTION * slope * (dmean[a] - z * dsd[a]) / sd;
    }
    return log_feasible(mean, sd);
}

static double climb_value(unsigned n, const double *v, double *grad, void *data)
{
    struct climb *climb = data;
    const struct proposal *p = climb->p;
    double dmean[GP_AXES_MAX], dsd[GP_AXES_MAX], u[TUNABLES_MAX];
    double mean, sd, z, slope, value;

    memcpy(u, climb->c->u, sizeof(u));
    for (unsigned i = 0; i < n; i++)
        u[climb->axis[i]] = v[i];
    gp_model_predict(p->model, u, &mean, &sd, grad ? dmean : NULL, dsd);
    z = (mean - p->best) / sd;
    slope = log_h_slope(z);
    for (unsigned i = 0; grad && i < n; i++) {
        size_t a = climb->axis[i];

        grad[i] = -(dsd[a] / sd + slope * (dmean[a] - z * dsd[a]) / sd);
    }
    value = log_ei(mean, sd, p->best);
    if (p->limits)
        value += climb_limits(climb, n, u, grad);
    return -value;
}

static bool continuous(const struct gp_search *g, size_t k)
{
    uint64_t count = tunable_count(&g->space->tunable[g->axis[k]]);

    return count == 0 || (count > TUNABLE_VALUES_MAX && !g->categorical[k]);
}

/* Up the gradient over the continuous axes, within the cube. */
static void climb_continuous(const struct proposal *p, struct gp_candidate *c)
{
    struct climb climb = {.p = p, .c = c};
    double v[GP_AXES_MAX], value;
    unsigned n = 0;
    nlopt_opt opt;

    for (size_t k = 0; k < p->g->axes; k++)
        if (continuous(p->g, k)) {
            climb.axis[n] = k;
            v[n++] = c->u[k];
        }
    opt = n ? nlopt_create(NLOPT_LD_LBFGS, n) : NULL;
    if (!opt)
        return;
    nlopt_set_lower_bounds1(opt, 0);
    nlopt_set_upper_bounds1(opt, 1);
    nlopt_set_min_objective(opt, climb_value, &climb);
    nlopt_set_maxeval(opt, GP_LOCAL_EVALUATIONS);
    nlopt_set_ftol_abs(opt, 1e-6);
    nlopt_optimize(opt, v, &value);
    nlopt_destroy(opt);
    for (unsigned i = 0; i < n; i++)
        c->u[climb.axis[i]] = v[i];
    snap(p->g, c->u);
    evaluate(p, c);
}

/* Best value of each discrete axis in turn; true if any changed. */
static bool climb_discrete(const struct proposal *p, struct gp_candidate *c)
{
    const struct gp_search *g = p->g;
    bool moved = false;

    for (size_t k = 0; k < g->axes; k++) {
        const struct tunable *t = &g->space->tunable[g->axis[k]];

        if (continuous(g, k))
            continue;
        for (uint64_t i = 0; i < tunable_count(t); i++) {
            struct gp_candidate other = *c;
            struct setting x;

            space_from_unit(g->space, c->u, &x);
            x.value[g->axis[k]] = tunable_at(t, i);
            space_canonical(g->space, &x);
            space_to_unit(g->space, &x, other.u);
            evaluate(p, &other);
            if (other.promise > c->promise + 1e-9) {
                *c = other;
                moved = true;
            }
        }
    }
    return moved;
}

static void climb_from(const struct proposal *p, struct gp_candidate *c)
{
    struct gp_candidate start = *c;

    for (int round = 0; round < GP_DISCRETE_ROUNDS; round++) {
        climb_continuous(p, c);
        if (!climb_discrete(p, c))
            break;
    }
    if (!(c->promise >= start.promise))
        *c = start;
}

/* Local searches from the most promising candidates, those all over and those
 * near the best in turn, and from the best itself; the results join the
 * candidates, best first. */
static void climb_all(struct proposal *p)
{
    size_t starts = p->g->starts, end = p->count;
    size_t wide = p->count - p->near;
    struct gp_candidate *c;

    assert(starts / 2 < p->near);
    qsort(p->c, wide, sizeof(p->c[0]), by_promise);
    qsort(p->c + wide, p->near, sizeof(p->c[0]), by_promise);
    for (size_t i = 0; i + 1 < starts; i++) {
        p->c[end + i] = p->c[i % 2 ? i / 2 : wide + i / 2];
        climb_from(p, &p->c[end + i]);
    }
    c = &p->c[end + starts - 1];
    memset(c, 0, sizeof(*c));
    memcpy(c->u, p->x + p->best_at * p->g->axes, p->g->axes * sizeof(double));
    evaluate(p, c);
    climb_from(p, c);
    p->count = end + starts;
    qsort(p->c, p->count, sizeof(p->c[0]), by_promise);
}

static enum err pick_unseen(const struct proposal *p, struct setting *out)
{
    assert(p->count > 0);
    for (size_t i = 0; i < p->count; i++) {
        struct setting x;

        space_from_unit(p->g->space, p->c[i].u, &x);
        if (searcher_seen(p->g->space, p->q, &x))
            continue;
        *out = x;
        return ERR_OK;
    }
    return ERR_NOENT;
}

static enum err propose(struct proposal *p, struct setting *out)
{
    enum err err;

    take_observations(p);
    standardise(p);
    err = fit_model(p);
    if (!err)
        err = fit_limits(p);
    if (err)
        return err;
    place_candidates(p);
    err = judge_candidates(p);
    if (err)
        return err;
    climb_all(p);
    return pick_unseen(p, out);
}

static enum err with_memory(struct gp_search *g, const struct searcher_query *q,
                            struct setting *out)
{
    struct proposal p = {.g = g, .q = q};
    size_t most = GP_TOLD_MAX + q->running_len;
    enum err err = ERR_NOMEM;

    p.x = mem_alloc(most * (g->axes + 1) * sizeof(double));
    p.c = mem_calloc(g->candidates + g->starts, sizeof(*p.c));
    if (p.x && p.c) {
        p.y = p.x + most * g->axes;
        err = gp_model_new(g->axes, g->categorical, &p.model);
    }
    if (!err)
        err = propose(&p, out);
    gp_model_free(p.model);
    gp_model_free(p.limits);
    mem_free(p.x);
    mem_free(p.c);
    return err;
}

static enum err gp_ask(void *state, const struct searcher_query *q,
                       struct setting *out, struct fault *f)
{
    struct gp_search *g = state;
    size_t usable = 0;
    enum err err;

    for (size_t i = 0; i < q->told_len; i++)
        usable += has_speed(&q->told[i]);
    if (g->axes == 0 || q->told_len < g->startup || usable == 0)
        return searcher_random.ask(g->random, q, out, f);
    err = with_memory(g, q, out);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    /* No factor, or every candidate tried: the sequence goes on instead. */
    return err ? searcher_random.ask(g->random, q, out, f) : ERR_OK;
}

const struct searcher_ops searcher_gp = {
    .name = "gp",
    .summary = "Gaussian process, log expected improvement (Snoek 2012)",
    .settings = settings,
    .open = gp_open,
    .close = gp_close,
    .ask = gp_ask,
};
