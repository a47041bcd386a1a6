/* Rows that users add to in the simulator, whatever the strategy and whenever
 * the run is killed: what a snapshot's record says is in a folder is in it
 * (tests/sim/sim.c looks at each), and what a resume says is lost is. */
#include "base/rng.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

static const struct sim_family plain = {
    .name = "rows",
    .space = "{" RATE "}",
    .samples = 4096,
    .ball = 0.01,
    .cliff = 1000,
    .max_epochs = 12,
    .max_trials = 16,
    .adds_s = 0.004,
    .snapshot_s = 0.05,
    SIM_USUAL,
    SIM_QUICK,
};

static const struct {
    const char *name, *settings;
} strategies[] = {
    {"hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9}"},
    {"asha", "{\"eta\": 3}"},
    {"pbt", "{\"population\": 4}"},
    {"mltuner", NULL},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

struct seen {
    uint64_t all;    /* increments, by now */
    uint64_t lost;   /* of them, at the last resume: from this on; 0: none */
    bool told;       /* that they are, since */
    unsigned trials; /* resumes with what a trial's folder alone has */
};

static uint64_t increments(const json_t *lineage)
{
    return (uint64_t)json_integer_value(json_object_get(lineage, "increments"));
}

/* The last increment that the snapshot at @path has in what a run goes on with;
 * 0: none. */
static uint64_t kept_in(const json_t *journal, const char *path,
                        struct seen *seen)
{
    uint64_t kept = 0;

    for (size_t i = json_array_size(journal); path[0] && i-- > 0;) {
        const json_t *r = json_array_get(journal, i), *t;
        const json_t *state = json_object_get(r, "state");
        const char *of = json_string_value(json_object_get(r, "path"));
        uint64_t main = increments(json_object_get(state, "main"));
        size_t k;

        if (!state || !of || strcmp(of, path) != 0)
            continue;
        kept = main;
        json_array_foreach(json_object_get(state, "trials"), k, t)
        {
            uint64_t n = increments(json_object_get(t, "line"));

            kept = n > kept ? n : kept;
        }
        seen->trials += kept > main;
        break;
    }
    return kept;
}

static void look_at(struct seen *seen, const json_t *journal,
                    const struct record *r)
{
    if (r->kind == RECORD_INCREMENT)
        seen->all = r->increment.number;
    if (r->kind == RECORD_RUN_RESUMED) {
        uint64_t kept = kept_in(journal, r->run_resumed.path, seen);

        seen->lost = kept < seen->all ? kept + 1 : 0;
        seen->told = false;
    }
    if (r->kind == RECORD_DECISION &&
        strcmp(r->decision.decision, "increments_lost") == 0) {
        assert_false(seen->told);
        assert_true(r->decision.number[0].value == (double)seen->lost);
        assert_true(r->decision.number[1].value == (double)seen->all);
        seen->told = true;
    }
}

/* What a resume says is lost is what its snapshot has not, whichever of its
 * folders has it: that would be made twice. */
static struct seen check_lost(const json_t *journal)
{
    struct seen seen = {0};

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        look_at(&seen, journal, &r);
        record_deinit(&r);
    }
    assert_int_equal(seen.told, seen.lost > 0);
    return seen;
}

/* Snapshots take a while to write, forks are refused now and then, and users
 * add to rows at any moment of that. */
static void increments_are_in_the_folders_that_say_so(void **state)
{
    unsigned n = sim_seeds(20 * STRATEGIES), trials = 0, added = 0, written = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = plain;
        struct rng dice;
        uint64_t crash[3];
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = crash, .crashes = 3, .journal = &journal};
        struct sim_result r;

        f.strategy = strategies[seed % STRATEGIES].name;
        f.strategy_settings = strategies[seed % STRATEGIES].settings;
        f.disk_s = 0.004 * (seed % 5);
        f.keeps_refused = seed % 3 ? 0 : 0.3;
        f.branches_max = seed % 7 ? 0 : 14;
        rng_init(&dice, seed * 83);
        for (int i = 0; i < 3; i++)
            crash[i] = 100 + rng_below(&dice, 900);
        sim_run(&f, seed, &o, &r);
        if (r.hung || r.finish.status != RUN_FINISHED)
            print_error("strategy %s seed %u: %s\n", f.strategy, seed,
                        r.finish.message);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        trials += check_lost(journal).trials;
        added += r.added;
        written += r.snapshots;
        json_decref(journal);
    }
    printf("sim_rows runs=%u added=%u snapshots=%u resumes_with_trials=%u\n", n,
           added, written, trials);
    assert_true(added > 20 * n);
    assert_true(written > 3 * n);
    assert_true(trials > n / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(increments_are_in_the_folders_that_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
