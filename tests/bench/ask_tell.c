/* Searchers alone: how good after N evaluations of known functions, how much
 * CPU time an ask and a tell take.
 *
 *   ask_tell [SEEDS] [SEARCHER] [FUNCTION]
 *
 * search_best searcher= function= evaluations= seeds=  median of the best value
 * search_p    the same keys: Mann-Whitney's one-sided p that the searcher is no
 *             better than `random` given twice the evaluations
 * ask_tell    searcher= dims=4 told=1000  CPU milliseconds
 */
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "searchers/space/space_json.h"

#include "tests/bench/bench.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, EVALUATIONS = 50 };

struct function {
    const char *name;
    size_t dims;
    double low[6], high[6];
    double (*value)(const double x[]);
};

static double branin(const double x[])
{
    double b = 5.1 / (4 * M_PI * M_PI), c = 5 / M_PI, t = 1 / (8 * M_PI);
    double u = x[1] - b * x[0] * x[0] + c * x[0] - 6;

    return u * u + 10 * (1 - t) * cos(x[0]) + 10;
}

static double hartmann6(const double x[])
{
    static const double alpha[4] = {1, 1.2, 3, 3.2};
    static const double A[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double P[4][6] = {
        {0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
        {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
        {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
        {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        double e = 0;

        for (int j = 0; j < 6; j++)
            e += A[i][j] * (x[j] - P[i][j]) * (x[j] - P[i][j]);
        sum += alpha[i] * exp(-e);
    }
    return -sum;
}

static double rosenbrock4(const double x[])
{
    double sum = 0;

    for (int i = 0; i < 3; i++)
        sum += 100 * pow(x[i + 1] - x[i] * x[i], 2) + pow(1 - x[i], 2);
    return sum;
}

static double ackley5(const double x[])
{
    double square = 0, wave = 0;

    for (int i = 0; i < 5; i++) {
        square += x[i] * x[i] / 5;
        wave += cos(2 * M_PI * x[i]) / 5;
    }
    return -20 * exp(-0.2 * sqrt(square)) - exp(wave) + 20 + M_E;
}

static const struct function functions[] = {
    {"branin", 2, {-5, 0}, {10, 15}, branin},
    {"hartmann6", 6, {0}, {1, 1, 1, 1, 1, 1}, hartmann6},
    {"rosenbrock4", 4, {-5, -5, -5, -5}, {10, 10, 10, 10}, rosenbrock4},
    {"ackley5",
     5,
     {-32.768, -32.768, -32.768, -32.768, -32.768},
     {32.768, 32.768, 32.768, 32.768, 32.768},
     ackley5},
};

static void make_space(const struct function *fn, struct space *out)
{
    json_t *object = json_object();
    struct problems problems = {0};
    char name[16];

    for (size_t i = 0; i < fn->dims; i++) {
        snprintf(name, sizeof(name), "x%zu", i);
        json_object_set_new(object, name,
                            json_pack("{s:s, s:f, s:f}", "type", "float", "min",
                                      fn->low[i], "max", fn->high[i]));
    }
    if (space_from_json(object, "", out, &problems))
        abort();
    problems_deinit(&problems);
    json_decref(object);
}

static struct searcher *open_searcher(const struct searcher_ops *ops,
                                      const struct space *space, uint64_t seed)
{
    struct searcher *s;
    struct fault fault;

    if (searcher_open(ops, space, NULL, seed, &s, &fault)) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    return s;
}

/* Speeds are positive and grow as the function falls. */
static double evaluate(const struct function *fn, struct searcher *s,
                       uint64_t trial)
{
    struct observation o = {.trial = trial, .outcome = OUTCOME_SPEED};
    struct fault fault;
    double value;

    if (searcher_ask(s, NULL, 0, NULL, &o.setting, &fault)) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    value = fn->value(o.setting.value);
    o.speed = 1e7 - value;
    if (searcher_tell(s, &o, &fault))
        abort();
    return value;
}

static double best_after(const struct function *fn,
                         const struct searcher_ops *ops, uint64_t seed, int n)
{
    struct space space;
    struct searcher *s;
    double best = INFINITY;

    make_space(fn, &space);
    s = open_searcher(ops, &space, seed);
    for (int i = 0; i < n; i++)
        best = fmin(best, evaluate(fn, s, (uint64_t)i));
    searcher_close(s);
    return best;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One-sided p of "a is not smaller than b", normal approximation. */
static double mann_whitney(const double a[], const double b[], int n)
{
    double u = 0, mean = 0.5 * n * n;
    double sd = sqrt((double)n * n * (2 * n + 1) / 12.0);

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            u += a[i] < b[j] ? 1 : a[i] == b[j] ? 0.5 : 0;
    return 0.5 * erfc((u - mean) / sd * M_SQRT1_2);
}

static void quality(const struct function *fn, const struct searcher_ops *ops,
                    int seeds)
{
    static double best[SEEDS_MAX], random[SEEDS_MAX];

    for (int i = 0; i < seeds; i++) {
        best[i] = best_after(fn, ops, (uint64_t)i, EVALUATIONS);
        random[i] = best_after(fn, &searcher_random, (uint64_t)i + 1000000,
                               2 * EVALUATIONS);
    }
    qsort(best, (size_t)seeds, sizeof(best[0]), ascending);
    printf("search_best searcher=%s function=%s evaluations=%d seeds=%d "
           "q25=%.4g q75=%.4g %.4f value\n",
           ops->name, fn->name, EVALUATIONS, seeds, best[seeds / 4],
           best[3 * seeds / 4], best[seeds / 2]);
    printf("search_p searcher=%s function=%s vs=random evaluations=%d %.2g p\n",
           ops->name, fn->name, 2 * EVALUATIONS,
           mann_whitney(best, random, seeds));
    fflush(stdout);
}

/* CPU time of one ask and one tell with 1,000 observations in 4 dimensions. */
static void cost(const struct searcher_ops *ops)
{
    const struct function *fn = &functions[2];
    double ms[11];
    struct space space;
    struct searcher *s;
    struct rng rng;

    make_space(fn, &space);
    s = open_searcher(ops, &space, 1);
    rng_init(&rng, 1);
    for (uint64_t i = 0; i < 1000; i++) {
        struct observation o = {.trial = i, .outcome = OUTCOME_SPEED};
        double u[TUNABLES_MAX];

        for (size_t k = 0; k < fn->dims; k++)
            u[k] = rng_uniform(&rng);
        space_from_unit(&space, u, &o.setting);
        o.speed = 1e7 - fn->value(o.setting.value);
        searcher_tell(s, &o, NULL);
    }
    for (int i = 0; i < 11; i++) {
        time_ns start = bench_cpu();

        evaluate(fn, s, 1000 + (uint64_t)i);
        ms[i] = (double)(bench_cpu() - start) / 1e6;
    }
    qsort(ms, 11, sizeof(ms[0]), ascending);
    printf("ask_tell searcher=%s dims=4 told=1000 %.3f ms\n", ops->name, ms[5]);
    searcher_close(s);
}

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 20;
    const char *only = argc > 2 ? argv[2] : NULL;
    const char *function = argc > 3 ? argv[3] : NULL;

    if (seeds < 2 || seeds > SEEDS_MAX) {
        fprintf(stderr, "seeds: 2..%d\n", SEEDS_MAX);
        return 2;
    }
    for (size_t i = 0; searchers_built_in[i]; i++) {
        const struct searcher_ops *ops = searchers_built_in[i];

        if (only ? strcmp(only, ops->name) != 0 : ops == &searcher_grid)
            continue;
        cost(ops);
        for (size_t j = 0; j < sizeof(functions) / sizeof(functions[0]); j++)
            if (!function || strcmp(function, functions[j].name) == 0)
                quality(&functions[j], ops, seeds);
    }
    return 0;
}
