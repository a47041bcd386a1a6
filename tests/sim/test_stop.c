/* Trials stopped early, in whole simulated runs: how often that would have cost
 * the winner, and what it saves. */
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"
#include "tuner/board/strategy.h"

#include <stdio.h>

static const struct sim_family plain = {
    .name = "plain",
    .space = "{" RATE "}",
    .samples = 16384,
    .ball = 0.01,
    .cliff = 20,
    .max_epochs = 20,
    SIM_USUAL,
    SIM_QUICK,
};

/* Families that put a bound on a trial's future to the test: noise, starts
 * that are flat, rates that begin with a jump, costs that differ. */
#define FAMILIES(X)                                                            \
    X(plain, (void)f)                                                          \
    X(noisy, f->noise = 3)                                                     \
    X(jitter, f->jitter = 3)                                                   \
    X(waiting, f->waiting = 0.5)                                               \
    X(horizon, (f->slow = 1, f->rate = 5))                                     \
    X(cliff, f->cliff = 3)                                                     \
    X(costs, (f->cost_noise = 0.3, f->hiccup = 0.01))                          \
    X(dear, (f->space = "{" RATE ", " BATCH "}", f->clock_s = 2e-2))           \
    X(batch, (f->space = "{" RATE "," BATCH "}", f->clock_s = 5e-3))           \
    X(moved, (f->ball = 0.1, f->moved = 0.1, f->moved_after = 4))              \
    X(clocks, f->trial_clocks = 48)

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

enum { FAMILIES_LEN = sizeof(families) / sizeof(families[0]) };

struct tally {
    unsigned searches, wrong, found;
    double tuning_s, trial_s;
};

static struct tally run_family(size_t i, bool run_doomed, unsigned n)
{
    struct sim_family f = plain;
    struct tally t = {0};

    families[i].set(&f);
    f.name = families[i].name;
    f.run_doomed = run_doomed;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_result r;

        sim_run(&f, seed, NULL, &r);
        assert_false(r.hung);
        t.trial_s += r.trial_s;
        t.tuning_s += r.tuning_s;
        for (unsigned q = 0; q < r.searches; q++) {
            t.searches++;
            t.found += r.search[q].doomed;
            t.wrong += r.search[q].doomed_won;
        }
    }
    return t;
}

/* In each family the winner of a search would have been stopped in at most one
 * search of twenty (HOPELESS_ERROR; in truth hardly ever); over all families
 * stopping saves a twentieth of the time of the trials at least. */
static void sim_stopping_spares_the_winner(void **state)
{
    unsigned n = sim_seeds(40);
    double ratio = 0;

    (void)state;
    for (size_t i = 0; i < FAMILIES_LEN; i++) {
        struct tally all = run_family(i, true, n);
        struct tally some = run_family(i, false, n);

        printf("sim_stop family=%s seeds=%u searches=%u hopeless=%u wrong=%u "
               "trial_time=%.2f tuning_time=%.2f\n",
               families[i].name, n, all.searches, all.found, all.wrong,
               some.trial_s / all.trial_s, some.tuning_s / all.tuning_s);
        assert_true(all.wrong <= 0.05 * all.searches);
        ratio += some.trial_s / all.trial_s / (double)FAMILIES_LEN;
    }
    assert_true(ratio < 0.95);
}

/* A bandwidth from 1 to 1,000, of which the least makes a clock cost forty
 * times as much as most do, and batches whose clocks cost about the same. */
static const struct sim_family dear = {
    .name = "dear_bandwidth",
    .space = "{" RATE ", " BATCH ", "
             "\"bandwidth\": {\"type\": \"float\", \"min\": 1, \"max\": 1000, "
             "\"scale\": \"log\", \"default\": 100}}",
    .samples = 32768,
    .validation = 4096,
    .workers = 2,
    .condition = 500,
    .noise = 0.3,
    .test_noise = 1e-3,
    .jitter = 1,
    .ball = 0.03,
    .clock_s = 3e-2,
    .sample_s = 1e-4,
    .cost_noise = 0.03,
    .switch_s = 1e-3,
    .copy_s = 1e-3,
    .max_epochs = 12,
};

/* Settings that take a multiple of a trial's time are given up from their first
 * windows on: the first search takes three quarters of the time that it takes
 * where they run on (all of it, without looks at dear ones), and hardly ever is
 * it one that would have won. */
static void sim_dear_trials_are_cut(void **state)
{
    unsigned n = sim_seeds(20), wrong = 0;
    double cut = 0, whole = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = dear;
        struct sim_result r;

        sim_run(&f, seed, NULL, &r);
        assert_false(r.hung);
        cut += r.search[0].seconds;
        f.run_doomed = true;
        sim_run(&f, seed, NULL, &r);
        assert_false(r.hung);
        whole += r.search[0].seconds;
        wrong += r.search[0].doomed_won;
    }
    printf("sim_dear seeds=%u first_search=%.2f wrong=%u\n", n, cut / whole,
           wrong);
    assert_true(wrong <= 0.05 * n);
    assert_true(cut < 0.85 * whole);
}

/* Where the training system is slow to begin what it waited for, the next
 * setting is asked for while a trial runs: it waits for a few trials of a
 * search, not for all, and finds as good a setting. */
static void sim_waiting_is_overlapped(void **state)
{
    double asked = 0, waited = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "answers";
        f.answer_s = 5e-3;
        sim_run(&f, seed, NULL, &r);
        assert_false(r.hung);
        assert_true(r.search[0].at_three >= 0.8);
        asked += r.search[0].trials * f.answer_s;
        waited += r.search[0].waiting_s;
    }
    printf("sim_overlap waited=%.3f of_trials=%.3f\n", waited, asked);
    assert_true(waited > 0 && waited < 0.75 * asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_stopping_spares_the_winner),
        cmocka_unit_test(sim_dear_trials_are_cut),
        cmocka_unit_test(sim_waiting_is_overlapped),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
