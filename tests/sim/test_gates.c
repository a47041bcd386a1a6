/* The measured claims of tests/bench/sim_gates.c on a few seeds, with margins
 * so wide that only a rule that broke is found. */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/sim/gates.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEW = 2 };

static struct gates_family family_named(const char *name)
{
    struct gates_family g;

    for (size_t i = 0; i < gates_families(); i++) {
        gates_family(i, &g);
        if (strcmp(g.f.name, name) == 0)
            return g;
    }
    fail_msg("no family %s", name);
    return g;
}

/* Tuning inside the run reaches the target in at most four times what the best
 * fixed setting takes that nobody knows in advance. */
static void gates_target_is_reached_in_time(void **state)
{
    static const char *const names[] = {"cliff", "parts", "eight"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct gates_family g = family_named(names[i]);
        struct gates_oracle o;
        double sum = 0;

        gates_oracle(&g, 1, 0.7, &o);
        for (uint64_t seed = 1; seed <= 1 + 8 * (FEW - 1); seed += 8) {
            static struct sim_result r;
            double fixed = gates_time_fixed(&g, &o, seed);
            double tuned = gates_time(&g, &o, NULL, seed, 40, &r);

            assert_true(isfinite(fixed) && fixed <= 2 * o.seconds);
            sum += fmin(tuned / fixed, 6);
        }
        printf("gates family=%s to_target_vs_best_fixed=%.2f\n", names[i],
               sum / FEW);
        assert_true(sum / FEW <= 4);
    }
}

/* When the optimum has moved, a re-tune changes the setting, and to one that is
 * at least half as fast as the best of those tried: in all but one run of nine
 * at most (of 160, 4 to 6 were not so). (17 once lost all finalists because
 * each was behind its own past: it has to.) */
static void gates_drift_is_answered(void **state)
{
    struct gates_family g = family_named("drift");
    unsigned answered = 0, last = 0;

    (void)state;
    g.f.max_epochs = 30;
    for (unsigned i = 0; i < 9; i++) {
        static const uint64_t seeds[9] = {1, 2, 3, 4, 5, 6, 7, 8, 17};
        static struct sim_result r;

        last = answered;
        sim_run(&g.f, seeds[i], NULL, &r);
        for (unsigned q = 0; q < r.searches; q++)
            if (r.search[q].moved && r.search[q].at_three >= 0.5) {
                answered++;
                break;
            }
    }
    assert_true(answered >= 8);
    assert_int_equal(answered, last + 1);
}

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;

    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        n++;
    return n;
}

/* A first search's three finalists run an epoch each and the better two another
 * (more only where theirs are shorter), where the accuracy of 2,000 samples is
 * what they are compared by. */
static void gates_finals_cost_five_epochs(void **state)
{
    struct gates_family g = family_named("hits");

    (void)state;
    g.f.space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, "
                "\"max\": 1, \"scale\": \"log\", \"default\": 0.01}}";
    g.f.max_epochs = 3;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        char *trace = NULL;
        struct sim_options o = {.trace = &trace};
        static struct sim_result r;

        sim_run(&g.f, seed, &o, &r);
        assert_true(times(trace, "is out") >= 2);
        assert_in_range(times(trace, "(finalist)"), 3, 5);
        mem_free(trace);
    }
}

/* Where an epoch has few clocks, the look at a dear finalist may fall on its
 * end: whoever goes on with it has no pause left. Seed 19 has such a winner,
 * forked anew because the run was killed. */
static void gates_finals_of_few_clocks_leave_no_pause(void **state)
{
    struct gates_family g = family_named("hits");
    struct sim_options o = {.crash_s = 9.5};
    static struct sim_result r;

    (void)state;
    g.f.space =
        "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, "
        "\"max\": 1, \"scale\": \"log\", \"default\": 0.01}, "
        "\"batch_size\": {\"type\": \"int\", \"values\": [100, 120, 150, "
        "200, 300, 600], \"default\": 300}}";
    g.f.samples = 600;
    g.f.validation = 200;
    g.f.workers = 1;
    g.f.max_epochs = 40;
    sim_run(&g.f, 19, &o, &r);
    assert_false(r.hung);
    assert_in_range(r.epochs, 1, 40);
}

/* Reads the record @line. Where a search ends, the run's model is that of the
 * best of all epochs that were tested, of finalists that lost too. */
static void look_at(struct history *h, const json_t *line, double *best)
{
    struct record x;

    assert_int_equal(record_from_json(line, &x, NULL), ERR_OK);
    if (x.kind == RECORD_EPOCH_ENDED)
        *best = fmax(*best, x.epoch_ended.metric);
    assert_int_equal(history_apply(h, &x), ERR_OK);
    if (x.kind == RECORD_SEARCH_ENDED && history_best_epoch(h) &&
        history_best_epoch(h)->e.metric != *best)
        fail_msg("search %u: %g was seen, the model has %g",
                 x.search_ended.search, *best, history_best_epoch(h)->e.metric);
    record_deinit(&x);
}

/* Where the setting stays none is out because another is better. */
static void no_better_than_itself(const char *trace)
{
    const char *stays = trace, *end;

    while ((stays = strstr(stays, "so far: the setting stays"))) {
        end = strstr(stays, "search_ended");
        assert_non_null(end);
        stays = strstr(stays, "is out: another is better");
        assert_true(!stays || stays > end);
        stays = end;
    }
}

/* So it is in noise; and some of these runs have the model of a finalist that
 * lost. */
static void gates_the_best_of_all_epochs_is_the_runs(void **state)
{
    static const char *const names[] = {"hits", "hits_noisy", "hits_short"};
    unsigned aside = 0, stays = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct gates_family g = family_named(names[i]);
            static struct sim_result r;
            char *trace = NULL;
            json_t *journal = NULL;
            struct sim_options o = {.journal = &journal, .trace = &trace};
            struct history h;
            double best = -1;

            g.f.max_epochs = 40;
            sim_run(&g.f, seed, &o, &r);
            assert_false(r.hung);
            history_init(&h);
            for (size_t k = 0; k < json_array_size(journal); k++)
                look_at(&h, json_array_get(journal, k), &best);
            aside += times(trace, "has the best model");
            stays += times(trace, "so far: the setting stays");
            no_better_than_itself(trace);
            history_deinit(&h);
            json_decref(journal);
            mem_free(trace);
        }
    printf("gates models of finalists that lost: %u\n", aside);
    assert_true(aside > 0);
    assert_true(stays > 0);
}

static double excess(const struct sim_family *f, uint64_t seed, bool cooled)
{
    struct sim_family g = *f;
    static struct sim_result r;

    if (!cooled)
        g.strategy_settings = "{\"cooldown\": 0}";
    sim_run(&g, seed, NULL, &r);
    assert_string_equal(r.finish.reason,
                        f->max_time_s > 0 ? "max_time" : "max_epochs");
    if (f->max_time_s > 0 && r.seconds > 1.1 * f->max_time_s)
        fail_msg("%g s of %g", r.seconds, f->max_time_s);
    return r.loss - 0.1;
}

/* A run that its last epoch ends before it converges ends well below what a
 * steady rate leaves it at. */
static void gates_cooldown_ends_lower(void **state)
{
    struct gates_family g = family_named("four");
    double ratio[9];

    (void)state;
    g.f.max_epochs = 12;
    for (uint64_t seed = 1; seed <= 9; seed++)
        ratio[seed - 1] = excess(&g.f, seed, true) / excess(&g.f, seed, false);
    printf("gates cooldown vs steady %.3f median\n", gates_median(ratio, 9));
    assert_true(gates_median(ratio, 9) <= 0.7);
}

/* So does one that its time ends: as many epochs as fit into it are known. */
static void gates_cooldown_fits_into_the_time(void **state)
{
    struct gates_family g = family_named("four");
    double ratio[9];

    (void)state;
    for (uint64_t seed = 1; seed <= 9; seed++) {
        static struct sim_result r;
        struct sim_family f = g.f;

        f.max_epochs = 12;
        sim_run(&f, seed, NULL, &r);
        f.max_epochs = 1000;
        f.max_time_s = r.seconds;
        ratio[seed - 1] = excess(&f, seed, true) / excess(&f, seed, false);
    }
    printf("gates cooldown in time vs steady %.3f median\n",
           gates_median(ratio, 9));
    assert_true(gates_median(ratio, 9) <= 0.7);
}

/* The recursion is that of SGD with momentum: simulated trajectories have its
 * mean loss. */
static void gates_quadratic_is_the_mean_of_trajectories(void **state)
{
    enum { RUNS = 4000, CLOCKS = 60 };
    struct gates_family g = family_named("four");
    struct physics p;
    struct state x;
    struct knobs k = physics_knobs_default;
    struct rng rng;
    double mean = 0;

    (void)state;
    physics_init(&p, &g.f, 1, 3);
    k.lr = 0.7;
    k.momentum = 0.6;
    k.decay = 0;
    physics_start(&p, &x);
    for (int i = 0; i < CLOCKS; i++)
        physics_advance(&p, &x, &k, 128);
    rng_init(&rng, 5);
    for (int run = 0; run < RUNS; run++)
        for (int d = 0; d < PHYSICS_DIMS; d++) {
            double h = p.h[d], at = sqrt(2.0 / PHYSICS_DIMS / h), v = 0;

            for (int i = 0; i < CLOCKS; i++) {
                double noise = sqrt(p.noise / 128 * h) * rng_normal(&rng);

                v = k.momentum * v + (1 - k.momentum) * (h * at + noise);
                at -= k.lr * v;
            }
            mean += 0.5 * h * at * at / RUNS;
        }
    assert_true(fabs(mean / physics_excess(&p, &x) - 1) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_target_is_reached_in_time),
        cmocka_unit_test(gates_drift_is_answered),
        cmocka_unit_test(gates_finals_cost_five_epochs),
        cmocka_unit_test(gates_finals_of_few_clocks_leave_no_pause),
        cmocka_unit_test(gates_the_best_of_all_epochs_is_the_runs),
        cmocka_unit_test(gates_cooldown_ends_lower),
        cmocka_unit_test(gates_cooldown_fits_into_the_time),
        cmocka_unit_test(gates_quadratic_is_the_mean_of_trajectories),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
