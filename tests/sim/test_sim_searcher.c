/* Whole simulated runs with searchers that are slow to answer, or fail. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

static const struct sim_family plain = {
    .name = "searchers",
    /* The default, which is tried first, shows nothing: trials get longer while
     * the searcher is asked. */
    .space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, "
             "\"max\": 1, \"scale\": \"log\", \"default\": 1e-5}}",
    .samples = 4096,
    .ball = 0.1,
    .cliff = 20,
    .moved = 0.1,
    .moved_after = 4,
    .max_epochs = 30,
    SIM_USUAL,
    SIM_QUICK,
};

/* ---- a searcher that takes its time, or fails ---------------------------- */

static struct {
    unsigned waits;    /* "not now" before each answer */
    unsigned starts;   /* the same before the first one of a search */
    unsigned fails_at; /* ask number, over all searches; 0: never */
    double good;       /* its second answer, after a first one that stands
                        * still; 0: it answers as random does */
    unsigned waited, asks, opened;
    bool started;
} how;

/* So many "not now" take some 5 s. */
enum { LONG = 90 };

static enum err odd_open(const struct space *space, const json_t *settings,
                         uint64_t seed, void **state, struct fault *f)
{
    how.opened++;
    how.waited = 0;
    how.started = false;
    return searcher_random.open(space, settings, seed, state, f);
}

static void odd_close(void *state)
{
    searcher_random.close(state);
}

static enum err odd_ask(void *state, const struct searcher_query *q,
                        struct setting *out, struct fault *f)
{
    if (how.waited < (how.started ? how.waits : how.starts)) {
        how.waited++;
        return fault_set(f, ERR_AGAIN, "no answer yet");
    }
    how.waited = 0;
    how.started = true;
    if (++how.asks == how.fails_at)
        return fault_set(f, ERR_TIMEOUT, "searcher odd has gone");
    if (!(how.good > 0) || how.asks > 2)
        return searcher_random.ask(state, q, out, f);
    out->value[0] = how.asks == 1 ? 2e-5 : how.good;
    return ERR_OK;
}

static const struct searcher_ops *odd_fallback(const void *state)
{
    (void)state;
    return &searcher_random;
}

static const struct searcher_ops searcher_odd = {
    .name = "odd",
    .summary = "for tests",
    .settings = "{\"type\": \"object\", \"properties\": {}}",
    .open = odd_open,
    .close = odd_close,
    .ask = odd_ask,
    .fallback = odd_fallback};

static void run(const struct searcher_ops *ops, const char *strategy,
                uint64_t trial_clocks, uint64_t seed, struct sim_result *out,
                char **trace)
{
    struct sim_family f = plain;
    struct sim_options o = {.trace = trace};

    f.searcher = ops;
    f.strategy = strategy;
    if (strategy &&
        (strcmp(strategy, "hyperband") == 0 || strcmp(strategy, "asha") == 0))
        f.strategy_settings = "{\"sampling\": \"searcher\"}";
    f.trial_clocks = trial_clocks;
    sim_run(&f, seed, &o, out);
    if (out->hung || out->finish.status != RUN_FINISHED)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed,
                 out->finish.reason, out->finish.message);
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;

    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

/* With trial lengths given, a searcher that answers late changes nothing but
 * the time. */
static void sim_slow_searcher_makes_the_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sim_result a, b;

        memset(&how, 0, sizeof(how));
        run(&searcher_random, NULL, 24, seed, &a, NULL);
        how.starts = how.waits = 7;
        run(&searcher_odd, NULL, 24, seed, &b, NULL);
        assert_true(how.asks > 0);
        assert_true(a.digest == b.digest);
    }
}

/* Where trial lengths are found, waiting for the searcher does not double
 * them: the first search takes as many trials, and hardly longer. */
static void sim_slow_searcher_does_not_lengthen_trials(void **state)
{
    double quick = 0, slow = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sim_result a, b;

        memset(&how, 0, sizeof(how));
        run(&searcher_random, NULL, 0, seed, &a, NULL);
        how.starts = how.waits = 5;
        run(&searcher_odd, NULL, 0, seed, &b, NULL);
        assert_int_equal(a.search[0].trials, b.search[0].trials);
        quick += a.search[0].seconds;
        slow += b.search[0].seconds;
    }
    assert_true(slow < 1.2 * quick);
}

/* One that takes 5 s to start, or never answers its first ask, costs those 5 s
 * a search; trials are as long as ever. */
static void sim_hanging_searcher_costs_its_time_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sim_result a, b;

        memset(&how, 0, sizeof(how));
        run(&searcher_random, NULL, 0, seed, &a, NULL);
        how.starts = LONG;
        how.fails_at = seed % 2; /* 0: it starts in the end */
        run(&searcher_odd, NULL, 0, seed, &b, NULL);
        assert_int_equal(a.search[0].trials, b.search[0].trials);
        assert_true(b.search[0].seconds > a.search[0].seconds + 4);
        assert_true(b.search[0].seconds < 1.2 * a.search[0].seconds + 7);
    }
}

/* A searcher that hangs after it has answered costs its time-out, too; the time
 * that it took before does not count for the fallback. */
static void sim_searcher_that_hangs_later_costs_its_time_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sim_result a, b;
        char *trace = NULL;

        memset(&how, 0, sizeof(how));
        run(&searcher_random, NULL, 0, seed, &a, NULL);
        how.waits = LONG;
        how.fails_at = 2;
        run(&searcher_odd, NULL, 0, seed, &b, &trace);
        assert_int_equal(count(trace, "how long the searcher takes"), 0);
        assert_true(b.search[0].seconds < 1.2 * a.search[0].seconds + 7);
        mem_free(trace);
    }
}

/* One that is slow every time makes trials longer, and the run says so: where
 * no setting converges before it has been asked twice, since the first answer's
 * time, in which it starts, does not count. (The default and the first answer
 * stand still; the second is as good as can be.) */
static void sim_slow_searcher_is_named_as_the_reason(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct sim_result r;
        char *trace = NULL;

        memset(&how, 0, sizeof(how));
        run(&searcher_random, NULL, 0, seed, &r, NULL);
        how.waits = LONG;
        how.good = r.best_rate;
        run(&searcher_odd, NULL, 0, seed, &r, &trace);
        if (count(trace,
                  "that is how long the searcher takes to propose one") != 1)
            fail_msg("seed %llu: it is not told", (unsigned long long)seed);
        mem_free(trace);
    }
}

/* One that fails costs one decision in the whole run, re-tunes included, and is
 * not opened again; so it is under every strategy that searches. */
static void sim_failing_searcher_costs_one_decision(void **state)
{
    static const char *const strategies[] = {"mltuner", "hyperband", "asha",
                                             "complete", "tupaq"};
    unsigned retunes = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(strategies) / sizeof(*strategies); i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct sim_result r;
            char *trace = NULL;

            memset(&how, 0, sizeof(how));
            how.starts = how.waits = 2;
            how.fails_at = 3;
            run(&searcher_odd, strategies[i], 0, seed, &r, &trace);
            assert_non_null(trace);
            if (how.asks != 3 || count(trace, "searcher_fallback") != 1)
                fail_msg("%s, seed %llu: %u asks, %u decisions", strategies[i],
                         (unsigned long long)seed, how.asks,
                         count(trace, "searcher_fallback"));
            assert_true(how.opened <= 1 || r.searches > 1);
            retunes += r.searches > 1;
            mem_free(trace);
        }
    assert_true(retunes > 0);
}

/* A run that goes on after its tuner or its node was lost does not start again
 * what has failed: the fallback is a part of its history. */
static void sim_fallback_outlives_a_resume(void **state)
{
    static const uint64_t crash[] = {150, 40, 90};
    unsigned crashed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sim_family f = plain;
        char *trace = NULL;
        struct sim_options o = {.trace = &trace, .crash = crash, .crashes = 3};
        struct sim_result r;

        memset(&how, 0, sizeof(how));
        how.fails_at = 2;
        f.searcher = &searcher_odd;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        crashed += r.crashed;
        assert_int_equal(count(trace, "searcher_fallback"), 1);
        assert_int_equal(how.asks, 2);
        assert_int_equal(how.opened, 1);
        mem_free(trace);
    }
    assert_true(crashed > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_slow_searcher_makes_the_same_run),
        cmocka_unit_test(sim_slow_searcher_does_not_lengthen_trials),
        cmocka_unit_test(sim_hanging_searcher_costs_its_time_out),
        cmocka_unit_test(sim_searcher_that_hangs_later_costs_its_time_out),
        cmocka_unit_test(sim_slow_searcher_is_named_as_the_reason),
        cmocka_unit_test(sim_failing_searcher_costs_one_decision),
        cmocka_unit_test(sim_fallback_outlives_a_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
