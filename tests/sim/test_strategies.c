/* The strategies to compare with, in the simulator: its invariants hold in
 * every step, runs end as they should, and what the papers say is what is
 * run. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/strategy.h"
#include "tuner/strategies/contest.h"
#include "tuner/strategies/decay.h"

#include <math.h>
#include <stdio.h>

static const struct sim_family plain = {
    .name = "plain",
    .space = "{" RATE "}",
    .samples = 4096,
    .ball = 0.01,
    .cliff = 20,
    .max_epochs = 30,
    SIM_USUAL,
    SIM_QUICK,
};

static const struct {
    const char *name, *settings;
    bool short_looks;  /* resources in clocks */
    bool side_by_side; /* trials take turns: while one lacks memory others go
                        * on, and the order is another one */
    bool crowd; /* nothing is searched where there is memory for one model only
                 */
} strategies[] = {
    {.name = "hyperband", .settings = NULL},
    {.name = "hyperband",
     .settings = "{\"horizon\": \"finite\", \"max_resource\": 9}"},
    {.name = "hyperband", .settings = "{\"sampling\": \"searcher\"}"},
    {.name = "complete", .settings = NULL},
    {.name = "asha", .settings = "{\"eta\": 3}", .side_by_side = true},
    {.name = "asha",
     .settings = "{\"concurrent\": 1, \"sampling\": \"searcher\"}"},
    {.name = "hyperband", .settings = "{\"unit\": 10}", .short_looks = true},
    {.name = "asha",
     .settings = "{\"unit\": 7, \"max_resource\": 50, \"concurrent\": 1}",
     .short_looks = true},
    {.name = "complete",
     .settings = "{\"pruner\": \"median\", \"startup\": 3}"},
    {.name = "complete", .settings = "{\"pruner\": \"halving\"}"},
    {.name = "tupaq", .settings = NULL, .side_by_side = true},
    {.name = "tupaq",
     .settings = "{\"batch\": 3, \"partial\": 2}",
     .side_by_side = true},
    {.name = "pbt", .settings = NULL, .side_by_side = true, .crowd = true},
    {.name = "pbt",
     .settings = "{\"population\": 4, \"interval\": 3, \"resample\": 0.1}",
     .side_by_side = true,
     .crowd = true},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

static struct sim_family with(size_t i)
{
    struct sim_family f = plain;

    f.name = f.strategy = strategies[i].name;
    f.strategy_settings = strategies[i].settings;
    return f;
}

static void expect_near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-12);
}

static void run_one(const struct sim_family *f, unsigned seed,
                    struct sim_result *r)
{
    struct sim_options o = {.replay = seed % 8 == 1};

    sim_run(f, seed, &o, r);
    if (r->hung)
        print_error("family %s seed %u hangs\n", f->name, seed);
    assert_false(r->hung);
}

/* Differences of each family from the plain one. */
#define FAMILIES(X)                                                            \
    X(plain, (void)f)                                                          \
    X(tpe, f->searcher = &searcher_tpe)                                        \
    X(gp, (f->searcher = &searcher_gp, f->max_trials = 12))                    \
    X(grid, f->searcher = &searcher_grid)                                      \
    X(noisy, f->noise = 3)                                                     \
    X(cliff, f->cliff = 3)                                                     \
    X(batch, (f->space = "{" RATE "," BATCH "}", f->clock_s = 5e-3))           \
    X(horizon, (f->slow = 1, f->rate = 5))                                     \
    X(stall, (f->stall = 0.003, f->hiccup = 0.01))                             \
    X(memory, f->branches_max = 10)                                            \
    X(scarce, f->branches_max = 6)                                             \
    X(least, f->branches_max = 5)                                              \
    X(novalid, f->validation = 0)                                              \
    X(parts, f->parts = 64)                                                    \
    X(clocks, f->trial_clocks = 24)                                            \
    X(initial, f->initial = "{\"learning_rate\": 0.001}")

#define FAMILY_SETTER(name, change)                                            \
    static void set_##name(struct sim_family *f)                               \
    {                                                                          \
        change;                                                                \
    }
FAMILIES(FAMILY_SETTER)

static const struct {
    const char *name;
    void (*set)(struct sim_family *f);
} families[] = {
#define FAMILY_ENTRY(name, change) {#name, set_##name},
    FAMILIES(FAMILY_ENTRY)};

/* Every strategy ends every run with a trained model that is about as good as
 * any it could have found. */
static void strategies_end_with_a_good_model(void **state)
{
    const char *only = getenv("SIM_FAMILY");

    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++)
        for (size_t k = 0; k < sizeof(families) / sizeof(families[0]); k++) {
            struct sim_family f = with(i);
            unsigned n = sim_seeds(6), good = 0;
            double share = 0, epochs = 0, trials = 0, seconds = 0, least;
            struct sim_result r;

            families[k].set(&f);
            if (only && strcmp(only, families[k].name) != 0)
                continue;
            for (unsigned seed = 1; seed <= n; seed++) {
                run_one(&f, seed, &r);
                if (r.finish.status != RUN_FINISHED)
                    print_error("%s of %s, seed %u: %s\n", families[k].name,
                                f.strategy, seed, r.finish.message);
                assert_int_equal(r.finish.status, RUN_FINISHED);
                good += r.loss < 0.2;
                share += r.tuning_s / r.seconds / n;
                epochs += (double)r.epochs / n;
                trials += (double)r.trials / n;
                seconds += r.seconds / n;
            }
            printf("sim_strategy strategy=%s settings=%s family=%s seeds=%u "
                   "good=%.2f tuning_share=%.2f trials=%.1f epochs=%.1f "
                   "seconds=%.1f\n",
                   f.strategy, f.strategy_settings ? f.strategy_settings : "-",
                   families[k].name, n, (double)good / n, share, trials, epochs,
                   seconds);
            /* Less than an epoch is too short a look where larger rates win
             * late. */
            least = strategies[i].short_looks ? 0.6 : 0.8;
            if (strategies[i].crowd && f.branches_max)
                least = f.branches_max > 5 ? 0.5 : 0; /* a crowd of one */
            assert_true(good >= least * n);
        }
}

/* ---- hyperband's brackets ------------------------------------------------ */

/* Counts how often @what stands in @text. */
static unsigned occurrences(const char *text, const char *what)
{
    unsigned n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static char *trace_of(const struct sim_family *f, struct sim_result *r)
{
    char *trace = NULL;
    struct sim_options o = {.trace = &trace, .replay = true};

    sim_run(f, 2, &o, r);
    assert_false(r->hung);
    assert_non_null(trace);
    return trace;
}

/* Nothing ever plateaus or diverges, and there is no test: every clock is one
 * of training. 32 clocks an epoch. */
static struct sim_family steady(const char *strategy, const char *settings)
{
    struct sim_family f = plain;

    f.name = "steady";
    f.strategy = strategy;
    f.strategy_settings = settings;
    f.validation = 0;
    f.cliff = 0;
    f.noise = f.jitter = 0;
    f.plateau_epochs = 1000;
    f.parts = 32;
    return f;
}

/* The finite horizon's brackets are those of Li et al. 2018, table 1 (R = 81,
 * eta = 3), and rounding does not lose one (R = 243). */
static void hyperband_finite_brackets_are_the_published(void **state)
{
    static const char *const brackets[] = {
        "bracket 1: 81 settings, 1 epochs each at first, the best to 81",
        "bracket 2: 34 settings, 3 epochs each at first, the best to 81",
        "bracket 3: 15 settings, 9 epochs each at first, the best to 81",
        "bracket 4: 8 settings, 27 epochs each at first, the best to 81",
        "bracket 5: 5 settings, 81 epochs each at first, the best to 81",
    };
    struct sim_family f =
        steady("hyperband", "{\"horizon\": \"finite\", \"eta\": 3}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.parts = 2;
    f.max_epochs = 81;
    trace = trace_of(&f, &r);
    for (size_t i = 0; i < 5; i++)
        assert_non_null(strstr(trace, brackets[i]));
    assert_int_equal(occurrences(trace, "  bracket: "), 5);
    assert_int_equal(r.trials, 81 + 34 + 15 + 8 + 5);
    assert_non_null(strstr(trace, "bracket 1, rung 1: after 1 epochs 27 of 81 "
                                  "settings go on"));
    assert_non_null(strstr(trace, "bracket 1, rung 4: after 27 epochs 1 of 3"));
    mem_free(trace);
    f.strategy_settings = "{\"horizon\": \"finite\", \"max_resource\": 243}";
    f.max_trials = 3;
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, "bracket 1: 243 settings, 1 epochs"));
    mem_free(trace);
    /* More than can be tried is refused, unless the user says how many are. */
    f.strategy_settings = "{\"horizon\": \"finite\", \"max_resource\": 19683}";
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, "bracket 1: 19683 settings, 1 epochs"));
    assert_int_equal(r.trials, 3);
    mem_free(trace);
}

/* A bracket of thousands of settings is as large as published, and somebody
 * survives it. Of a rung as many go on as there are places for branches.
 * (Epochs end at three, so that the test is short; under the address sanitizer,
 * where it took minutes, the bracket has hundreds.) */
static void hyperband_large_bracket_is_not_cut(void **state)
{
    unsigned n = sim_fewer() ? 729 : 6561;
    char settings[64], first[64], second[64], third[64];
    struct sim_family f = steady("hyperband", settings);
    struct sim_result r;
    char *trace;

    (void)state;
    snprintf(settings, sizeof(settings),
             "{\"horizon\": \"finite\", \"max_resource\": %u}", n);
    snprintf(first, sizeof(first), "bracket 1: %u settings, 1 epochs each", n);
    snprintf(second, sizeof(second), "after 1 epochs 61 of %u settings", n);
    snprintf(third, sizeof(third), "after 3 epochs 61 of %u settings", n / 3);
    f.parts = 2;
    f.max_epochs = 3;
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, first));
    assert_true(sim_fewer() || strstr(trace, second));
    assert_true(sim_fewer() || strstr(trace, third));
    assert_string_equal(r.finish.reason, "max_epochs");
    assert_true(r.trials >= n);
    mem_free(trace);
}

/* Survivors go on and are not run again: R = 9, eta = 3 takes 9 + 3 * 2 + 6
 * epochs, then 5 * 3 + 6, then 3 * 9; and the winner goes on from 9 to 30. */
static void hyperband_survivors_are_not_run_again(void **state)
{
    struct sim_family f =
        steady("hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9}");
    struct sim_result r;

    (void)state;
    mem_free(trace_of(&f, &r));
    assert_string_equal(r.finish.reason, "max_epochs");
    assert_int_equal(r.trials, 9 + 5 + 3);
    assert_int_equal(r.clocks, 32 * (9 + 6 + 6 + 15 + 6 + 27 + 21));
    assert_int_equal(r.epochs, 30);
    assert_int_equal(r.searches, 1);
}

/* The infinite horizon: k = 1, 2, ..., and s >= 1 with k - s >= log2 s, 2^s
 * settings, 2^k epochs in equal parts for s rungs. The search is over when a
 * bracket's winner has made all of the 12 epochs that the job allows. */
static void hyperband_infinite_brackets_are_the_published(void **state)
{
    static const char *const brackets[] = {
        "bracket 1: 2 settings, 1 epochs each at first, the best to 1",
        "bracket 2: 2 settings, 2 epochs each at first, the best to 2",
        "bracket 3: 2 settings, 4 epochs each at first, the best to 4",
        "bracket 4: 4 settings, 1 epochs each at first, the best to 3",
        "bracket 5: 2 settings, 8 epochs each at first, the best to 8",
        "bracket 6: 4 settings, 2 epochs each at first, the best to 6",
        "bracket 7: 2 settings, 16 epochs each at first, the best to 16",
    };
    struct sim_family f = steady("hyperband", NULL);
    struct sim_result r;
    char *trace;

    (void)state;
    f.max_epochs = 12;
    trace = trace_of(&f, &r);
    for (size_t i = 0; i < 7; i++)
        assert_non_null(strstr(trace, brackets[i]));
    assert_int_equal(occurrences(trace, "  bracket: "), 7);
    assert_int_equal(r.clocks,
                     32 * (2 + 4 + 8 + 4 + 2 * 2 + 16 + 8 + 2 * 4 + 24));
    assert_string_equal(r.finish.reason, "max_epochs");
    mem_free(trace);
}

/* With resources in clocks trials pause within epochs, exactly where they are
 * to, and are tested there: R = 9 units of 10 clocks, 32 clocks an epoch. Of
 * the 90 clocks of the last rung two epochs' ends are tested as well. */
static void hyperband_counts_in_clocks(void **state)
{
    struct sim_family f =
        steady("hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9, "
                            "\"unit\": 10}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.max_epochs = 6;
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, "bracket 1: 9 settings, 1 times 10 clocks "
                                  "each at first, the best to 9"));
    assert_int_equal(r.trials, 9 + 5 + 3);
    assert_int_equal(r.clocks,
                     10 * (9 + 6 + 6 + 15 + 6 + 27) + 6 * 32 - 9 * 10);
    assert_int_equal(r.epochs, 6);
    assert_string_equal(r.finish.reason, "max_epochs");
    mem_free(trace);
    f.validation = 64;
    mem_free(trace_of(&f, &r));
    /* A test a rung and trial, and one at each end of an epoch. */
    assert_int_equal(r.clocks, 10 * (9 + 6 + 6 + 15 + 6 + 27) + 6 * 32 -
                                   9 * 10 + (9 + 3 + 1 + 5 + 1 + 3) +
                                   2 * (1 + 1 + 3) + 4);
}

/* Every setting of `complete` is trained to the end, and to it only. */
static void complete_trains_every_setting_to_its_end(void **state)
{
    struct sim_family f = steady("complete", NULL);
    struct sim_result r;

    (void)state;
    f.max_epochs = 12;
    f.max_trials = 5;
    mem_free(trace_of(&f, &r));
    assert_int_equal(r.trials, 5);
    assert_int_equal(r.clocks, 32 * 12 * 5);
    assert_int_equal(r.epochs, 12);
    assert_string_equal(r.finish.reason, "max_epochs");
}

/* ---- schedules of `fixed` ------------------------------------------------ */

/* The rates are those of the closed forms. */
static void decay_follows_the_closed_forms(void **state)
{
    const struct decay step = {
        .kind = DECAY_STEP, .gamma = 0.5, .every = 3, .epochs = 8};
    const struct decay exponential = {
        .kind = DECAY_EXPONENTIAL, .gamma = 0.9, .every = 1, .epochs = 8};
    const struct decay cosine = {
        .kind = DECAY_COSINE, .every = 1, .floor = 0.2, .epochs = 8};
    static const double steps[] = {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25};
    const struct decay none = {.kind = DECAY_NONE};

    (void)state;
    for (uint32_t e = 0; e < 9; e++) {
        double share = 0.2 + 0.8 * (1 + cos(acos(-1) * e / 8)) / 2;

        expect_near(decay_rate(&step, 0.4, e), 0.4 * steps[e]);
        expect_near(decay_rate(&exponential, 0.4, e), 0.4 * exp(e * log(0.9)));
        expect_near(decay_rate(&cosine, 0.4, e), 0.4 * share);
        assert_true(decay_rate(&none, 0.4, e) == 0.4);
    }
    expect_near(decay_rate(&cosine, 0.4, 4), 0.4 * 0.6);
    expect_near(decay_rate(&cosine, 0.4, 100), 0.4 * 0.2);
}

/* A schedule changes the rate by forks at the ends of epochs, of which no clock
 * is lost; the records show it. */
static void fixed_follows_its_schedule(void **state)
{
    struct sim_family f = steady("fixed", "{\"schedule\": \"step\", "
                                          "\"gamma\": 0.5, \"every\": 2}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.initial = "{\"learning_rate\": 0.08}";
    f.max_epochs = 7;
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, "from 0 training rate=0.08\n"));
    assert_non_null(strstr(trace, "from 1 training rate=0.04\n"));
    assert_non_null(strstr(trace, "training rate=0.02\n"));
    assert_non_null(strstr(trace, "training rate=0.01\n"));
    assert_int_equal(occurrences(trace, " training rate="), 4);
    assert_int_equal(r.clocks, 7 * 32);
    assert_int_equal(r.epochs, 7);
    mem_free(trace);
    f.strategy_settings = "{\"schedule\": \"exponential\", \"gamma\": 0.5}";
    f.validation = 64;
    trace = trace_of(&f, &r);
    assert_int_equal(occurrences(trace, " training rate="), 7);
    assert_non_null(strstr(trace, "training rate=0.00125\n"));
    assert_int_equal(r.clocks, 7 * 33);
    mem_free(trace);
    /* The first epoch is no clock longer where only its first clock shows how
     * many there are: the second begins with clock 32. */
    f.validation = 0;
    f.parts = 0;
    trace = trace_of(&f, &r);
    assert_int_equal(r.clocks, 7 * 32);
    assert_non_null(strstr(trace, " clocks 32+"));
    mem_free(trace);
}

/* Nine trials, eta = 3, one at a time: rungs at 1, 3 and 9 epochs; one in three
 * is promoted, by going on; then the best goes on from 9 to 12. */
static void asha_promotes_one_in_eta(void **state)
{
    struct sim_family f = steady("asha", "{\"eta\": 3, \"concurrent\": 1}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.max_epochs = 12;
    f.max_trials = 9;
    trace = trace_of(&f, &r);
    assert_int_equal(r.trials, 9);
    assert_int_equal(occurrences(trace, "promoted to rung 2: up to 3 "), 3);
    assert_int_equal(occurrences(trace, "promoted to rung 3: up to 9 "), 1);
    assert_int_equal(r.clocks, 32 * (9 + 3 * 2 + 6 + 3));
    assert_string_equal(r.finish.reason, "max_epochs");
    mem_free(trace);
    /* Side by side as well: never fewer than those promotions. */
    f.strategy_settings = "{\"eta\": 3, \"concurrent\": 4}";
    trace = trace_of(&f, &r);
    assert_int_equal(r.trials, 9);
    assert_true(occurrences(trace, "promoted to rung 2") >= 3);
    assert_true(occurrences(trace, "promoted to rung 3") >= 1);
    mem_free(trace);
}

/* Four settings, two epochs between exchanges, twelve epochs: after each of the
 * five exchanges in the middle the worst one goes on from the best one's model
 * with a setting near its own. */
static void pbt_forks_the_best_in_place_of_the_worst(void **state)
{
    struct sim_family f =
        steady("pbt", "{\"population\": 4, \"interval\": 2, \"resample\": 0}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.max_epochs = 12;
    trace = trace_of(&f, &r);
    assert_int_equal(occurrences(trace, "gives way to a fork of trial"), 5);
    assert_int_equal(occurrences(trace, "  explore: "), 5);
    assert_non_null(strstr(trace, "trial 5 goes on from trial "));
    assert_non_null(strstr(trace, "'s epoch 10 with learning_rate="));
    assert_int_equal(r.trials, 4 + 5);
    assert_int_equal(r.epochs, 12);
    /* What is taken over is not trained again. */
    assert_int_equal(r.clocks, 32 * 12 * 4);
    assert_string_equal(r.finish.reason, "max_epochs");
    mem_free(trace);
    /* A share of less than one is one; none at all is so many settings side by
     * side. */
    f.strategy_settings = "{\"population\": 2, \"interval\": 6}";
    mem_free(trace_of(&f, &r));
    assert_int_equal(r.trials, 3);
    f.strategy_settings =
        "{\"population\": 2, \"interval\": 1, \"quantile\": 0}";
    trace = trace_of(&f, &r);
    assert_int_equal(occurrences(trace, "gives way"), 0);
    mem_free(trace);
    assert_int_equal(r.trials, 2);
    assert_int_equal(r.clocks, 32 * 12 * 2);
}

/* After each part whoever is far behind the best is given up, and another
 * begins in its place, until the budget is spent. */
static void tupaq_gives_up_what_is_far_behind(void **state)
{
    struct sim_family f =
        steady("tupaq", "{\"batch\": 3, \"partial\": 2, \"epsilon\": 0.3}");
    struct sim_result r;
    uint64_t clocks;
    unsigned given_up;
    char *trace;

    (void)state;
    f.max_epochs = 8;
    f.max_trials = 9;
    trace = trace_of(&f, &r);
    given_up = occurrences(trace, "more than 1.3 times as good");
    clocks = r.clocks;
    mem_free(trace);
    assert_int_equal(r.trials, 9);
    assert_true(given_up >= 3 && given_up < 9);
    assert_true(clocks < 32 * 8 * 9);
    assert_string_equal(r.finish.reason, "max_epochs");
    /* Where nothing is too bad, all are trained to their ends. */
    f.strategy_settings = "{\"batch\": 3, \"partial\": 2, \"epsilon\": 1000}";
    mem_free(trace_of(&f, &r));
    assert_int_equal(r.clocks, 32 * 8 * 9);
}

/* A pruner takes less for the same model: the first five are trained to their
 * ends, those that are worse than their median are not. */
static void complete_prunes(void **state)
{
    struct sim_family f = steady("complete", "{\"pruner\": \"median\"}");
    struct sim_result r;
    char *trace;

    (void)state;
    f.max_epochs = 12;
    f.max_trials = 12;
    trace = trace_of(&f, &r);
    assert_int_equal(r.trials, 12);
    assert_non_null(strstr(trace, "trial 5 is trained to its end"));
    assert_true(occurrences(trace, " is pruned after ") >= 2);
    assert_true(r.clocks < 32 * 12 * 12 && r.clocks > 32 * 12 * 5);
    assert_non_null(strstr(trace, "all 12 settings were trained or pruned"));
    mem_free(trace);
    /* Rungs at 1 and 4 epochs: the first trial passes them, of the others those
     * that are among the best quarter by then. */
    f.strategy_settings = "{\"pruner\": \"halving\"}";
    trace = trace_of(&f, &r);
    assert_non_null(strstr(trace, "trial 1 is trained to its end"));
    assert_true(occurrences(trace, " is pruned after 1 ") >= 3);
    assert_int_equal(occurrences(trace, " is pruned after 2 "), 0);
    assert_int_equal(occurrences(trace, " is pruned after 3 "), 0);
    mem_free(trace);
}

/* Settings of a strategy that make no sense are refused with their names. */
static void strategies_refuse_bad_settings(void **state)
{
    static const struct {
        const struct strategy_ops *ops;
        const char *settings, *says;
    } bad[] = {
        {&strategy_asha, "{\"min_resource\": 9, \"max_resource\": 3}",
         "max_resource"},
        {&strategy_asha, "{\"eta\": 1}", "/eta"},
        {&strategy_asha, "{\"unit\": 7}", "max_resource"},
        {&strategy_hyperband, "{\"unit\": \"hours\"}", "/unit"},
        {&strategy_fixed, "{\"schedule\": \"linear\"}", "/schedule"},
        {&strategy_fixed, "{\"gamma\": 0}", "/gamma"},
        {&strategy_hyperband, "{\"horizon\": \"far\"}", "/horizon"},
        {&strategy_hyperband, "{\"R\": 81}", "/R"},
        {&strategy_complete, "{\"pruner\": \"medians\"}", "/pruner"},
        {&strategy_pbt, "{\"population\": 1}", "/population"},
        {&strategy_pbt, "{\"quantile\": 0.6}", "/quantile"},
        {&strategy_tupaq, "{\"epsilon\": -1}", "/epsilon"},
        {&strategy_hyperband,
         "{\"horizon\": \"finite\", \"max_resource\": 19683}",
         "takes 31439 trials"},
    };
    static struct space space;

    (void)state;
    assert_int_equal(space_from_text(plain.space, &space, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tuner_options o = TUNER_OPTIONS;
        json_t *settings = json_loads(bad[i].settings, 0, NULL);
        struct fault f = {0};
        struct tuner *t;

        o.space = &space;
        o.searcher = &searcher_random;
        o.strategy = bad[i].ops;
        o.strategy_settings = settings;
        assert_int_equal(tuner_new(&o, &t, &f), ERR_INVAL);
        if (!strstr(f.text, bad[i].says))
            print_error("%s\n", f.text);
        assert_non_null(strstr(f.text, bad[i].says));
        json_decref(settings);
    }
}

/* A schedule needs a learning rate that can take any value. */
static void fixed_schedule_needs_a_rate(void **state)
{
    static struct space space;
    struct tuner_options o = TUNER_OPTIONS;
    json_t *settings = json_pack("{s:s}", "schedule", "cosine");
    struct fault f = {0};
    struct tuner *t;

    (void)state;
    assert_int_equal(
        space_from_text("{\"momentum\": {\"type\": \"float\", \"min\": 0, "
                        "\"max\": 0.9}}",
                        &space, NULL),
        ERR_OK);
    o.space = &space;
    o.strategy = &strategy_fixed;
    o.strategy_settings = settings;
    assert_int_equal(tuner_new(&o, &t, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "learning_rate"));
    json_decref(settings);
}

/* Making each strategy with every allocation failing in turn leaves nothing. */
static void strategies_new_out_of_memory_leaves_nothing(void **state)
{
    static struct space space;
    int64_t before;

    (void)state;
    json_count_memory();
    assert_int_equal(space_from_text(plain.space, &space, NULL), ERR_OK);
    before = mem_outstanding();
    for (size_t i = 0; strategies_built_in[i]; i++)
        for (int n = 1, failed = 1; failed; n++) {
            struct tuner_options o = TUNER_OPTIONS;
            struct tuner *t;
            enum err err;

            o.space = &space;
            o.searcher = &searcher_random;
            o.strategy = strategies_built_in[i];
            mem_fail_at(n, 0);
            err = tuner_new(&o, &t, NULL);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_true(err == ERR_OK || (failed && err == ERR_NOMEM));
            if (!err)
                tuner_free(t);
            assert_int_equal(mem_outstanding(), before);
        }
}

/* The number that a searcher is told rises as the score falls, and is a number.
 */
static void contest_quality_is_monotone(void **state)
{
    static const double scores[] = {-1e300, -5,  -1, -0.99, -0.5, 0,
                                    1e-9,   0.1, 1,  2,     100,  1e300};
    static const double firsts[] = {-0.5, 0, 0.3, 4};

    (void)state;
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 12; i++) {
            double q = contest_quality(firsts[k], scores[i]);

            assert_true(isfinite(q) && q > 0);
            if (i > 1 && i < 11)
                assert_true(q < contest_quality(firsts[k], scores[i - 1]));
        }
    expect_near(contest_quality(2, 1), exp(0.5));
    expect_near(contest_quality(-0.8, -0.88), exp(0.1));
}

/* Schedules under commands, scarce memory, failing allocations, and a decay
 * that has no end. */
static void schedules_survive_what_happens(void **state)
{
    static const char *const settings[] = {
        "{\"schedule\": \"cosine\", \"floor\": 0.1}",
        "{\"schedule\": \"exponential\", \"gamma\": 0.5}",
        "{\"schedule\": \"step\", \"every\": 1}"};

    (void)state;
    json_count_memory();
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct sim_family f = plain, tortured;
        struct sim_result a, b;
        int64_t before = mem_outstanding();

        f.name = f.strategy = "fixed";
        f.strategy_settings = settings[seed % 3];
        f.cliff = 0;
        f.validation = seed % 2 ? 512 : 0;
        f.trial_clocks = 24;
        f.max_epochs = 12;
        f.branches_max = seed % 5 ? 0 : 5;
        tortured = f;
        tortured.torture = 3;
        run_one(&f, seed, &a);
        run_one(&tortured, seed, &b);
        if (a.finish.status != RUN_FINISHED)
            print_error("seed %u: %s\n", seed, a.finish.message);
        assert_int_equal(a.finish.status, RUN_FINISHED);
        assert_true(a.digest == b.digest);
        assert_true(mem_outstanding() <= before + 1);
        f.command[0].at_s = 0.013 * seed;
        f.command[0].command = seed % 2 ? COMMAND_STOP : COMMAND_INTERRUPT;
        run_one(&f, seed, &a);
        assert_int_equal(a.finish.status,
                         seed % 2 ? RUN_STOPPED : RUN_INTERRUPTED);
    }
}

/* ---- what is not as planned ---------------------------------------------- */

/* Where the user ends the run at any moment, it ends, and as asked. */
static void strategies_obey_commands_at_any_time(void **state)
{
    static const enum command_id commands[] = {COMMAND_STOP, COMMAND_INTERRUPT};
    static const enum run_status status[] = {RUN_STOPPED, RUN_INTERRUPTED};
    unsigned n = sim_seeds(48);

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct sim_result r;

        f.command[0].command = commands[seed / STRATEGIES % 2];
        f.command[0].at_s = 0.01 * (1 + seed * 137 % 170);
        run_one(&f, seed, &r);
        assert_int_equal(r.commanded, 1);
        assert_true(r.seconds < f.command[0].at_s + 1);
        assert_int_equal(r.finish.status, status[seed / STRATEGIES % 2]);
        if (r.finish.status == RUN_STOPPED && f.command[0].at_s > 1)
            assert_true(isfinite(r.loss)); /* the best so far is saved */
    }
}

/* A pause holds a run up; a wish to re-tune is refused with a word, and changes
 * nothing. */
static void strategies_obey_other_commands(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct sim_result r;

        f.max_trials = 4;
        f.command[0].at_s = 0.05 + 0.02 * seed;
        f.command[0].command = COMMAND_PAUSE;
        f.command[1].at_s = 60;
        f.command[1].command = COMMAND_CONTINUE;
        f.command[2].at_s = 60.01;
        f.command[2].command = COMMAND_RETUNE;
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_true(r.seconds > 60);
        assert_int_equal(r.answered, 2);
        assert_int_equal(r.refused, 1);
    }
}

/* A lost node, and the end of the time: the run ends, as it should. */
static void strategies_end_when_time_or_node_does(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES), lost = f;
        struct sim_result r;

        f.max_time_s = 0.03 * seed;
        run_one(&f, seed, &r);
        assert_string_equal(r.finish.reason, "max_time");
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_true(r.seconds < f.max_time_s + 0.2);
        assert_true(r.epochs == 0 || isfinite(r.loss));
        lost.lost_s = 0.02 * seed;
        run_one(&lost, seed, &r);
        assert_string_equal(r.finish.reason, "node_lost");
    }
}

/* A trial that reaches the target ends the run, and its model is the run's. */
static void strategies_end_at_the_target(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 5 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct sim_result r;

        f.target_metric = 0.5;
        run_one(&f, seed, &r);
        assert_string_equal(r.finish.reason, "target");
        assert_true(r.loss <= 0.55);
        assert_int_equal(r.searches, 1); /* it is closed, and has a winner */
        assert_true(r.search[0].winner > 0);
        assert_true(r.tuning_s < r.seconds);
    }
}

/* An error of the application costs the trial that it hits. */
static void strategies_survive_application_errors(void **state)
{
    unsigned survived = 0;

    (void)state;
    for (unsigned n = 1; n <= 40; n++) {
        struct sim_family f = with(n % STRATEGIES);
        struct sim_result r;

        f.app_fails_at = n;
        run_one(&f, 3, &r);
        survived += r.finish.status == RUN_FINISHED;
        if (r.finish.status == RUN_FAILED)
            assert_string_equal(r.finish.reason, "app");
    }
    assert_true(survived >= 38);
}

/* Trouble of the machine costs at most the trial that it hits, and trouble that
 * lasts interrupts the run: it never fails it. */
static void strategies_do_not_fail_for_trouble_of_the_machine(void **state)
{
    unsigned survived = 0;

    (void)state;
    for (unsigned n = 1; n <= 40; n++) {
        struct sim_family f = with(n % STRATEGIES);
        struct sim_result r;

        f.app_fails_at = n;
        f.app_fails_with = n % 2 ? ERR_IO : ERR_NOMEM;
        run_one(&f, 3, &r);
        survived += r.finish.status == RUN_FINISHED;
        assert_int_not_equal(r.finish.status, RUN_FAILED);
        f.app_fails_for = 1000000;
        run_one(&f, 3, &r);
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, err_name(f.app_fails_with));
    }
    assert_true(survived >= 20);
}

/* And so memory that the system refuses: for any one fork, or for the first and
 * all others. */
static void strategies_do_not_fail_for_forks_without_memory(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 3 * STRATEGIES; n++) {
        struct sim_family f = with(n % STRATEGIES);
        struct sim_result r;

        f.refused_with = ERR_NOMEM;
        f.refused_from = f.refused_to = 1 + n / STRATEGIES * 5;
        run_one(&f, 3, &r);
        assert_int_not_equal(r.finish.status, RUN_FAILED);
        if (f.refused_from > 1)
            continue;
        f.refused_to = UINT32_MAX;
        run_one(&f, 3, &r);
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, "nomem");
    }
}

/* Where every setting diverges the run fails and says so; where they do later
 * (all but those that go nowhere), the best model is saved all the same. */
static void strategies_tell_of_divergence(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct sim_family f = with(i);
        struct sim_result r;

        f.late_limit = 1e-9;
        run_one(&f, 1, &r);
        assert_int_equal(r.finish.status, RUN_FAILED);
        assert_string_equal(r.finish.reason, "diverged");
        assert_true(r.trials <= CONTEST_HOPELESS);
        f.late_after = 9;
        run_one(&f, 1, &r);
        assert_string_equal(r.finish.reason, r.finish.status == RUN_FAILED
                                                 ? "diverged"
                                                 : "converged");
        assert_true(isfinite(r.loss));
    }
}

/* Where nothing can be tuned the one setting is trained with. */
static void strategies_train_where_nothing_can_be_tuned(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct sim_family f = with(i);
        struct sim_result r;

        f.space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, "
                  "\"max\": 1, \"scale\": \"log\", \"fixed\": 0.01}}";
        run_one(&f, 1, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_int_equal(r.trials, 1);
        assert_true(r.epochs >= 5);
    }
}

/* With trial lengths in clocks no decision reads a clock: the same run whatever
 * the machine takes. */
static void strategies_are_reproducible(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2 * STRATEGIES; seed++) {
        struct sim_family calm = with(seed % STRATEGIES), shaken;
        struct sim_result a, b;

        calm.trial_clocks = 24;
        calm.searcher = &searcher_tpe;
        shaken = calm;
        shaken.stall = 0.01;
        shaken.cost_noise = 0.5;
        shaken.clock_s = 5e-3;
        shaken.switch_s = 0.1;
        run_one(&calm, seed, &a);
        run_one(&shaken, seed, &b);
        assert_true(a.digest == b.digest);
        assert_string_equal(a.finish.reason, b.finish.reason);
    }
}

/* A step that fails for want of memory changes nothing, and a decision that
 * lacks it is made later: the same run comes out. */
static void strategies_survive_memory_torture(void **state)
{
    unsigned failed = 0, faults = 0;

    (void)state;
    json_count_memory();
    for (unsigned seed = 1; seed <= 2 * STRATEGIES; seed++) {
        struct sim_family calm = with(seed % STRATEGIES), tortured;
        struct sim_result a, b;
        int64_t before = mem_outstanding();

        calm.trial_clocks = 24;
        calm.max_trials = 6;
        tortured = calm;
        tortured.torture = 3;
        run_one(&calm, seed, &a);
        run_one(&tortured, seed, &b);
        if (a.digest != b.digest && !strategies[seed % STRATEGIES].side_by_side)
            print_error("%s, seed %u\n", calm.name, seed);
        assert_true(a.digest == b.digest ||
                    strategies[seed % STRATEGIES].side_by_side);
        assert_int_equal(b.finish.status, RUN_FINISHED);
        failed += b.failed_steps;
        faults += b.faults;
        assert_true(mem_outstanding() <= before + 1);
    }
    assert_true(failed > 5);
    assert_true(faults > failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategies_end_with_a_good_model),
        cmocka_unit_test(hyperband_finite_brackets_are_the_published),
        cmocka_unit_test(hyperband_large_bracket_is_not_cut),
        cmocka_unit_test(hyperband_survivors_are_not_run_again),
        cmocka_unit_test(hyperband_infinite_brackets_are_the_published),
        cmocka_unit_test(hyperband_counts_in_clocks),
        cmocka_unit_test(complete_trains_every_setting_to_its_end),
        cmocka_unit_test(decay_follows_the_closed_forms),
        cmocka_unit_test(fixed_follows_its_schedule),
        cmocka_unit_test(schedules_survive_what_happens),
        cmocka_unit_test(asha_promotes_one_in_eta),
        cmocka_unit_test(pbt_forks_the_best_in_place_of_the_worst),
        cmocka_unit_test(tupaq_gives_up_what_is_far_behind),
        cmocka_unit_test(complete_prunes),
        cmocka_unit_test(strategies_refuse_bad_settings),
        cmocka_unit_test(fixed_schedule_needs_a_rate),
        cmocka_unit_test(strategies_new_out_of_memory_leaves_nothing),
        cmocka_unit_test(contest_quality_is_monotone),
        cmocka_unit_test(strategies_obey_commands_at_any_time),
        cmocka_unit_test(strategies_obey_other_commands),
        cmocka_unit_test(strategies_end_when_time_or_node_does),
        cmocka_unit_test(strategies_end_at_the_target),
        cmocka_unit_test(strategies_survive_application_errors),
        cmocka_unit_test(strategies_do_not_fail_for_trouble_of_the_machine),
        cmocka_unit_test(strategies_do_not_fail_for_forks_without_memory),
        cmocka_unit_test(strategies_tell_of_divergence),
        cmocka_unit_test(strategies_train_where_nothing_can_be_tuned),
        cmocka_unit_test(strategies_are_reproducible),
        cmocka_unit_test(strategies_survive_memory_torture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
