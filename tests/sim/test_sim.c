#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings that most families share. */
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

/* Name, and how it differs from the plain one. */
#define FAMILIES(X)                                                            \
    X(plain, (void)f)                                                          \
    X(grid, f->searcher = &searcher_grid)                                      \
    X(noisy, f->noise = 3)                                                     \
    X(cliff, f->cliff = 3)                                                     \
    X(waiting, f->waiting = 0.5)                                               \
    X(batch, (f->space = "{" RATE "," BATCH "}", f->clock_s = 5e-3))           \
    X(three, f->space = "{" RATE "," MOMENTUM "," BATCH "}")                   \
    X(moved, (f->ball = 0.1, f->moved = 0.1, f->moved_after = 4))              \
    X(horizon, (f->slow = 1, f->rate = 5))                                     \
    X(costs, f->cost_noise = 0.3)                                              \
    X(stall, (f->stall = 0.003, f->hiccup = 0.01))                             \
    X(converged, f->converged = true)                                          \
    X(memory, f->branches_max = 6)                                             \
    X(novalid, f->validation = 0)                                              \
    X(parts, f->parts = 64)                                                    \
    X(pass, (f->parts = 1, f->rate = 0.2))                                     \
    X(clocks, f->trial_clocks = 24)                                            \
    X(initial, f->initial = "{\"learning_rate\": 0.001}")                      \
    X(fixed, f->strategy = "fixed")

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

static struct sim_family family_at(size_t i)
{
    struct sim_family f = plain;

    f.name = families[i].name;
    families[i].set(&f);
    return f;
}

/* Results of a family's runs. */
struct tally {
    unsigned runs, won, near_trial, near_three, retunes, committed;
    double share, trials, epochs;
};

static void count_run(struct tally *t, const struct sim_result *r)
{
    t->runs++;
    t->share += r->tuning_s / r->seconds;
    t->trials += r->trials;
    t->epochs += r->epochs;
    for (unsigned q = 0; q < r->searches; q++) {
        const struct sim_search *x = &r->search[q];

        if (q > 0) {
            t->retunes++;
            t->committed += x->won;
        } else if (x->won) {
            t->won++;
            t->near_trial += x->at_trial >= 0.8;
            t->near_three += x->at_three >= 0.8;
        }
    }
}

static void run_one(const struct sim_family *f, unsigned seed,
                    struct sim_result *r)
{
    struct sim_options o = {.replay = seed % 16 == 1};

    sim_run(f, seed, &o, r);
    if (r->hung)
        print_error("family %s seed %u hangs\n", f->name, seed);
    assert_false(r->hung);
}

static struct tally run_family(const struct sim_family *f, unsigned few)
{
    unsigned n = sim_seeds(few);
    struct tally t = {0};
    struct sim_result r;

    for (unsigned seed = 1; seed <= n; seed++) {
        run_one(f, seed, &r);
        count_run(&t, &r);
    }
    printf("sim_winner family=%s seeds=%u within_20_at_trial=%.3f "
           "within_20_at_three_epochs=%.3f tuning_share=%.2f trials=%.1f "
           "epochs=%.1f retunes=%u committed=%u\n",
           f->name, n, t.won ? (double)t.near_trial / t.won : 1,
           t.won ? (double)t.near_three / t.won : 1, t.share / n, t.trials / n,
           t.epochs / n, t.retunes, t.committed);
    return t;
}

/* In every family the first search's winner is, in truth, within 20 % of the
 * fastest setting tried, over the time of a trial and over three epochs, in 95
 * % of the runs; and no run hangs. */
static void sim_families_find_a_fast_setting(void **state)
{
    const char *only = getenv("SIM_FAMILY");

    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct sim_family f = family_at(i);
        struct tally t;

        if (only && strcmp(only, f.name) != 0)
            continue;
        t = run_family(&f, 30);
        /* A share of the runs, so a matter of many. */
        assert_true(sim_fewer() || t.near_trial >= 0.95 * t.won);
        assert_true(sim_fewer() || t.near_three >= 0.95 * t.won);
        assert_true(t.won > 0 || f.strategy || f.initial);
    }
}

/* A training system with nothing to gain ends the run as converged; a cooldown
 * that brought nothing in its first half was given up, which is said. */
static void sim_converged_system_ends(void **state)
{
    unsigned n = sim_seeds(30), settled = 0, given_up = 0;
    struct sim_family f = plain;
    struct sim_result r;

    (void)state;
    f.name = "converged";
    f.converged = true;
    for (unsigned seed = 1; seed <= n; seed++) {
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        settled += strcmp(r.finish.reason, "converged") == 0;
        given_up += strstr(r.finish.message, "given up") != NULL;
        assert_null(strstr(r.finish.message, " 1 epochs"));
    }
    printf("sim_converged seeds=%u converged=%u given_up=%u\n", n, settled,
           given_up);
    assert_true(given_up > 0);
    assert_true(settled >= 0.99 * n);
}

/* Where epochs are short patience counts samples, up to 20 epochs; not where
 * the metric is a share of hits, nor once the user has said how many. */
static void sim_patience_counts_samples(void **state)
{
    static const struct {
        uint64_t samples;
        bool hits, counted, steered;
        const char *epochs;
    } rows[] = {
        {0, false, false, false, " 5 epochs"},
        {4096 * 3, false, false, false, " 5 epochs"},
        {4096 * 9, false, false, false, " 9 epochs"},
        {4096 * 90, false, false, false, " 20 epochs"},
        {4096 * 90, true, false, false, " 5 epochs"},
        {4096 * 9, true, true, false, " 9 epochs"},
        {4096 * 90, true, true, true, " 8 epochs"},
        {4096 * 90, false, false, true, " 8 epochs"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "patient";
        f.strategy = "fixed";
        f.converged = true;
        f.max_epochs = 1000;
        f.hits = rows[i].hits;
        f.plateau_samples = rows[i].samples;
        f.plateau_hits = rows[i].counted;
        if (rows[i].steered) {
            f.command[0].at_s = 0.01;
            f.command[0].command = COMMAND_LIMITS;
            f.command[0].limits = (struct command_limits){
                .set = LIMIT_PLATEAU_EPOCHS, .to.plateau_epochs = 8};
        }
        run_one(&f, 1, &r);
        assert_string_equal(r.finish.reason, "converged");
        assert_non_null(strstr(r.finish.message, rows[i].epochs));
    }
}

/* Stalls of the machine, found by the node or not, do not change the winner in
 * 95 % of the runs. */
static void sim_stall_does_not_change_the_winner(void **state)
{
    unsigned n = sim_seeds(30), same = 0;
    struct sim_family calm = plain, shaken = plain;
    struct sim_result a, b;

    (void)state;
    shaken.name = "shaken";
    shaken.stall = 0.003;
    for (unsigned seed = 1; seed <= n; seed++) {
        run_one(&calm, seed, &a);
        run_one(&shaken, seed, &b);
        same += a.search[0].winner_value == b.search[0].winner_value;
    }
    printf("sim_stall seeds=%u same_winner=%.3f\n", n, (double)same / n);
    assert_true(same >= 0.95 * n);
}

/* With trial lengths in clocks no decision reads a clock: the same run whatever
 * the machine takes. */
static void sim_trial_clocks_make_a_run_reproducible(void **state)
{
    unsigned n = sim_seeds(20);

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family calm = plain, shaken = plain;
        struct sim_result a, b;

        calm.trial_clocks = shaken.trial_clocks = 24;
        calm.space = shaken.space = "{" RATE "," MOMENTUM "," BATCH "}";
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

/* Where the user ends the run at any moment, it ends, and as asked. */
static void sim_commands_end_runs_at_any_time(void **state)
{
    static const enum command_id commands[] = {COMMAND_STOP, COMMAND_INTERRUPT};
    static const enum run_status status[] = {RUN_STOPPED, RUN_INTERRUPTED};
    unsigned n = sim_seeds(40);

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f =
            family_at(seed % (sizeof(families) / sizeof(families[0])));
        struct sim_result r;

        f.name = "commanded";
        f.command[0].command = commands[seed % 2];
        f.command[0].at_s = 0.01 * (1 + seed * 37 % 300);
        run_one(&f, seed, &r);
        /* The model's is asked for again after 1, 2 and 4 s. */
        assert_true(r.seconds < f.command[0].at_s + 9);
        if (r.commanded == 1)
            assert_int_equal(r.finish.status, status[seed % 2]);
    }
}

/* A lost node ends the run at once, as failed. */
static void sim_lost_node_ends_the_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "lost";
        f.lost_s = 0.05 * seed;
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, "node_lost");
    }
}

/* The time limit ends the run with a model, at any time. */
static void sim_time_limit_ends_the_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "timed";
        f.max_time_s = 0.1 * seed;
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_string_equal(r.finish.reason, "max_time");
        assert_true(r.seconds < f.max_time_s + 0.2);
        /* Within the first search, the best trial's. */
        assert_true(isfinite(r.loss));
    }
}

static bool journal_tells(const json_t *journal, const char *text)
{
    char *all = json_dumps(journal, JSON_COMPACT);
    bool found = all && strstr(all, text);

    free(all);
    return found;
}

/* The first search takes no more than its share of a run's time, and says so
 * where it would have taken more; without a share it does take more. Killed at
 * any time it still ends by its limit. */
static void sim_first_search_keeps_to_its_share(void **state)
{
    unsigned told = 0, late = 0, longer = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        struct sim_family f = plain;
        json_t *journal = NULL;
        uint64_t crash[] = {7 * seed};
        struct sim_options o = {.journal = &journal},
                           killed = {.crash = crash, .crashes = 1};
        static struct sim_result r;

        f.name = "share";
        f.noise = 2;
        f.max_time_s = 0.25 + 0.05 * seed;
        sim_run(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_true(isfinite(r.loss));
        if (journal_tells(journal, "(search_share 0.25)")) {
            told++;
            assert_true(
                journal_tells(journal, "has had its share of the run's time"));
            /* Unless no trial could win before. */
            late += r.search[0].seconds > 0.25 * f.max_time_s + 0.05;
        }
        json_decref(journal);
        sim_run(&f, seed, &killed, &r);
        assert_false(r.hung);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        f.strategy_settings = "{\"search_share\": 0}";
        sim_run(&f, seed, NULL, &r);
        longer += r.search[0].seconds > 0.25 * f.max_time_s + 0.05;
    }
    if (told < 10 || late > 2 || longer < 10)
        fail_msg("%u told, %u late, %u longer", told, late, longer);
}

/* With trial lengths in clocks no decision reads a clock: no share is kept. */
static void sim_share_is_none_of_clocks(void **state)
{
    json_t *journal = NULL;
    struct sim_options o = {.journal = &journal};
    struct sim_family f = plain;
    static struct sim_result r;

    (void)state;
    f.name = "share-clocks";
    f.trial_clocks = 24;
    f.max_time_s = 0.3;
    sim_run(&f, 1, &o, &r);
    assert_false(journal_tells(journal, "search_share"));
    json_decref(journal);
}

/* A target ends the run as soon as an epoch reaches it, in the finals too. */
static void sim_target_ends_the_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "target";
        f.target_metric = 0.5;
        run_one(&f, seed, &r);
        assert_string_equal(r.finish.reason, "target");
        assert_true(r.loss <= 0.55);
    }
}

/* A pause holds a run up and changes nothing else; a command to re-tune makes a
 * search, one for a snapshot writes it. */
static void sim_other_commands_are_obeyed(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "paused";
        f.initial = "{\"learning_rate\": 0.003}";
        f.strategy = seed % 2 ? NULL : "fixed";
        f.command[0].at_s = 0.05 + 0.02 * seed;
        f.command[0].command = COMMAND_PAUSE;
        f.command[1].at_s = 60;
        f.command[1].command = COMMAND_CONTINUE;
        f.command[2].at_s = 60.01;
        f.command[2].command = COMMAND_SNAPSHOT;
        f.command[3].at_s = 60.02;
        f.command[3].command = COMMAND_RETUNE;
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_int_equal(r.commanded, 4);
        assert_true(r.seconds > 60 && r.seconds < 75);
        assert_true(r.snapshots >= 1);
        assert_true(f.strategy || r.searches >= 2);
        assert_int_equal(r.answered, f.strategy ? 3 : 4);
        assert_int_equal(r.refused, f.strategy ? 1 : 0);
    }
}

/* The time limit does not run while the run is paused: it ends as much later as
 * the pause was long, and what it says of its own time is without it. */
static void sim_paused_time_does_not_count(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "held";
        f.max_time_s = 2;
        f.max_epochs = 100000;
        f.plateau_epochs = 100000;
        f.command[0].at_s = 0.05 * seed;
        f.command[0].command = COMMAND_PAUSE;
        f.command[1].at_s = 100;
        f.command[1].command = COMMAND_CONTINUE;
        run_one(&f, seed, &r);
        assert_string_equal(r.finish.reason, "max_time");
        /* Less than an epoch may be left over. */
        assert_true(fabs(r.seconds - (102 - f.command[0].at_s)) < 0.2);
        assert_true(r.tuning_s < 2.5);
    }
}

/* Limits that are set while it runs end the run, at the next end of an epoch or
 * at once; others, set in time, keep it going. */
static void sim_limits_change_while_it_runs(void **state)
{
    static const struct {
        struct command_limits limits;
        const char *reason;
    } rows[] = {
        {{LIMIT_MAX_EPOCHS, {.max_epochs = 1}}, "max_epochs"},
        {{LIMIT_MAX_TIME, {.max_time_s = 0.001}}, "max_time"},
        {{LIMIT_TARGET_METRIC, {.target_metric = 1e9}}, "target"},
        {{LIMIT_TARGET_LOSS, {.target_loss = 1e9}}, "target"},
        {{LIMIT_MAX_EPOCHS | LIMIT_PLATEAU_EPOCHS,
          {.max_epochs = 100000, .plateau_epochs = 1}},
         "converged"},
    };
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

    (void)state;
    for (unsigned seed = 1; seed <= 8 * ROWS; seed++) {
        struct sim_family f =
            family_at(seed % (sizeof(families) / sizeof(families[0])));
        struct sim_result r;

        f.name = "limited";
        f.validation = 512;
        f.max_epochs = 100000;
        f.plateau_epochs = 50;
        f.command[0].at_s = 0.05 * seed;
        f.command[0].command = COMMAND_LIMITS;
        f.command[0].limits = rows[seed % ROWS].limits;
        run_one(&f, seed, &r);
        if (r.commanded == 0)
            continue;
        if (strcmp(r.finish.reason, rows[seed % ROWS].reason) != 0)
            fail_msg("seed %u: %s", seed, r.finish.message);
        assert_int_equal(r.answered, 1);
    }
}

/* From a given setting that stands still, where most others do too, the first
 * re-tune finds one that moves. */
static void sim_bad_initial_setting_is_left(void **state)
{
    unsigned left = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 100; seed++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "standing";
        f.initial = "{\"learning_rate\": 0.00001}";
        f.waiting = 0.5;
        f.max_epochs = 12;
        run_one(&f, seed, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        left += r.searches > 0 && r.search[0].won;
    }
    printf("bad initial settings left at once: %u of 100\n", left);
    assert_true(left >= 97);
}

/* Divergence while training goes back to the last epoch and finds another
 * setting; a run that cannot be saved fails as diverged. */
static void sim_divergence_while_training_is_answered(void **state)
{
    unsigned rescued = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct sim_family late = plain, doomed = plain;
        struct sim_result r;

        late.name = "late";
        late.late_limit = 0.2;
        late.late_after = 5;
        run_one(&late, seed, &r);
        if (r.finish.status == RUN_FINISHED && r.searches > 1) {
            rescued++;
            assert_true(r.epochs > 5);
            assert_true(r.loss < 1);
        } else {
            assert_string_equal(r.finish.reason, "diverged");
        }
        doomed.name = "doomed";
        doomed.late_limit = 1e-9;
        doomed.late_after = 5;
        run_one(&doomed, seed, &r);
        assert_int_equal(r.finish.status, RUN_FAILED);
        assert_string_equal(r.finish.reason, "diverged");
        assert_true(
            isfinite(r.loss)); /* the best model is saved all the same */
    }
    assert_true(rescued >= 27);
}

/* Where the finalists that are left diverge, the finals begin again with
 * others: what was tried and trains is found. */
static void sim_finals_without_a_finalist_begin_again(void **state)
{
    unsigned again = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct sim_family f = plain;
        struct sim_result r;
        char *trace = NULL;
        struct sim_options o = {.replay = seed == 1, .trace = &trace};

        f.name = "late_finals";
        f.late_limit = 0.2;
        f.late_after = 1;
        f.max_epochs = 12;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        again += strstr(trace, "the finals begin again") != NULL;
        mem_free(trace);
    }
    printf("finals that began again in 30 runs: %u\n", again);
    assert_true(again >= 3);
}

/* Finalists that fall out for want of memory say nothing of their settings: if
 * they leave none, the run goes on another time. */
static void sim_finals_without_memory_are_held_another_time(void **state)
{
    static const enum err reason[] = {ERR_NOMEM, ERR_LIMIT};
    unsigned interrupted = 0;

    (void)state;
    for (unsigned n = 0; n < 40; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "late_finals";
        f.late_limit = 0.2;
        f.late_after = 1;
        f.max_epochs = 12;
        f.refused_with = reason[n % 2];
        f.refused_from = 20 + n / 2 * 2;
        f.refused_to = f.refused_from + 5;
        sim_run(&f, 1, &(struct sim_options){.replay = n == 0}, &r);
        assert_false(r.hung);
        if (r.finish.status == RUN_FINISHED)
            continue;
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        interrupted += strstr(r.finish.message, "a finalist") != NULL;
    }
    printf("finals without memory in 40 runs: %u\n", interrupted);
    assert_true(interrupted > 0);
}

/* A fixed setting that diverges fails the run, and so does one that is all that
 * there is. */
static void sim_divergence_without_another_setting_fails(void **state)
{
    struct sim_family f = plain;
    struct sim_result r;

    (void)state;
    f.name = "alone";
    f.late_limit = 1e-9;
    f.late_after = 2;
    f.strategy = "fixed";
    run_one(&f, 1, &r);
    assert_string_equal(r.finish.reason, "diverged");
    f.strategy = NULL;
    f.space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, "
              "\"max\": 1, \"scale\": \"log\", \"fixed\": 0.01}}";
    run_one(&f, 1, &r);
    assert_string_equal(r.finish.reason, "diverged");
    assert_int_equal(r.searches, 0);
}

/* An error of the application ends the run if it hits what is trained; a trial
 * that it hits has failed, and the search goes on. */
static void sim_application_errors_fail_what_they_hit(void **state)
{
    unsigned failed = 0, survived = 0;

    (void)state;
    for (unsigned n = 1; n <= 40; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "faulty";
        f.app_fails_at = n * 2;
        run_one(&f, 3, &r);
        failed += r.finish.status == RUN_FAILED;
        survived += r.finish.status == RUN_FINISHED;
        if (r.finish.status == RUN_FAILED)
            assert_string_equal(r.finish.reason, "app");
    }
    assert_int_equal(failed + survived, 40);
    assert_true(survived >= 10);
}

/* No trial runs beyond the end of the run, however small the data are and
 * however long trials are to be: the winner is trained on from there. */
static void sim_no_run_trains_beyond_its_last_epoch(void **state)
{
    static const uint64_t samples[] = {5, 40, 300, 2000};

    (void)state;
    for (unsigned n = 1; n <= 48; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "brief";
        f.space = "{" RATE ", " BATCH "}";
        f.samples = samples[n % 4];
        f.validation = 4;
        f.max_epochs = 1 + n % 3;
        f.trial_clocks = n % 5 == 0 ? 20 : 0;
        f.max_trials = 6;
        run_one(&f, n, &r);
        if (r.epochs > f.max_epochs)
            fail_msg("seed %u: %u epochs for %u", n, r.epochs, f.max_epochs);
    }
}

/* Trouble of the machine that passes costs a trial nothing; what is trained is
 * interrupted by it, and so is a search by trouble that lasts. Nothing fails.
 */
static void sim_trouble_of_the_machine_fails_nothing(void **state)
{
    static const enum err troubles[] = {ERR_NOMEM, ERR_IO, ERR_NODE};
    unsigned survived = 0;

    (void)state;
    for (unsigned n = 1; n <= 45; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "troubled";
        f.app_fails_at = n * 2;
        f.app_fails_with = troubles[n % 3];
        run_one(&f, 3, &r);
        survived += r.finish.status == RUN_FINISHED;
        assert_int_not_equal(r.finish.status, RUN_FAILED);
        f.app_fails_for = 1000000;
        run_one(&f, 3, &r);
        if (r.finish.status == RUN_FINISHED) /* it was over before */
            continue;
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, err_name(f.app_fails_with));
    }
    assert_true(survived >= 10);
}

/* Memory that the system refuses for a fork, too: the first, another, all from
 * one on within the search. With no room by memory.limit a run fails that never
 * trained. */
static void sim_forks_without_memory_fail_nothing(void **state)
{
    unsigned survived = 0;

    (void)state;
    for (unsigned n = 1; n <= 54; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "refused";
        f.strategy = n % 3 ? NULL : "fixed";
        f.initial = n % 3 == 1 ? "{\"learning_rate\": 0.001}" : NULL;
        f.refused_with = ERR_NOMEM;
        f.refused_from = f.refused_to = (n + 2) / 3;
        run_one(&f, 3, &r);
        assert_int_not_equal(r.finish.status, RUN_FAILED);
        survived += r.finish.status == RUN_FINISHED;
        f.refused_to = UINT32_MAX;
        run_one(&f, 3, &r);
        if (r.finish.status == RUN_FAILED)
            fail_msg("from %u: %s: %s", n, r.finish.reason, r.finish.message);
        if (f.refused_from > 1)
            continue;
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, "nomem");
        f.refused_with = ERR_LIMIT;
        run_one(&f, 3, &r);
        assert_int_equal(r.finish.status, RUN_FAILED);
        assert_string_equal(r.finish.reason, "limit");
    }
    assert_true(survived >= 40);
}

/* Where the machine has memory for a few branches only, trials go, slowest
 * first; the run does not. */
static void sim_memory_for_few_branches_costs_trials(void **state)
{
    unsigned finished = 0;

    (void)state;
    for (unsigned n = 1; n <= 30; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "narrow";
        f.branches_max = 6;
        f.refused_with = ERR_NOMEM;
        f.max_trials = 12;
        run_one(&f, n, &r);
        if (r.finish.status == RUN_INTERRUPTED)
            fail_msg("seed %u: %s: %s", n, r.finish.reason, r.finish.message);
        finished += r.finish.status == RUN_FINISHED;
        assert_true(r.forks_refused > 0);
    }
    assert_true(finished >= 28);
}

/* A model that cannot be written is in a snapshot, and the run interrupted; a
 * snapshot that cannot be written ends nothing. Old snapshots are removed. */
static void sim_failed_writes_are_told(void **state)
{
    struct sim_family f = plain;
    struct sim_result r;
    unsigned snapshots;

    (void)state;
    f.name = "unsaved";
    f.save_fails = 3; /* the fourth is the last that is tried */
    run_one(&f, 1, &r);
    assert_int_equal(r.finish.status, RUN_FINISHED);
    assert_true(isfinite(r.loss));
    /* Snapshots are due in those seven seconds, too: one write at a time. */
    f.snapshot_s = 0.5;
    run_one(&f, 1, &r);
    snapshots = r.snapshots;
    f.save_fails = 0;
    run_one(&f, 1, &r);
    assert_int_equal(r.snapshots, snapshots);
    f.snapshot_s = 0;
    f.save_fails = 4;
    run_one(&f, 1, &r);
    assert_int_equal(r.finish.status, RUN_INTERRUPTED);
    assert_string_equal(r.finish.reason, "not_saved");
    assert_non_null(strstr(r.finish.message, "trained, not saved"));
    assert_non_null(strstr(r.finish.message, "only the model is written"));
    f.save_fails = 0;
    f.snapshot_fails = true;
    f.clock_s = 1;
    run_one(&f, 1, &r);
    assert_int_equal(r.finish.status, RUN_FINISHED);
    assert_int_equal(r.snapshots, 0);
    f.snapshot_fails = false;
    run_one(&f, 1, &r);
    assert_true(r.snapshots > 3);
    assert_int_equal(r.removed, r.snapshots - 2);
}

/* A training system that reports what nobody asked for ends the run. */
static void sim_protocol_violation_ends_the_run(void **state)
{
    struct sim_family f = plain;
    struct sim_result r;

    (void)state;
    f.name = "lying";
    f.lies = true;
    run_one(&f, 1, &r);
    assert_int_equal(r.finish.status, RUN_INTERRUPTED);
    assert_string_equal(r.finish.reason, "protocol");
}

/* Clocks that report no sample would be asked for without end: they fail what
 * they are of, and at any moment the run ends. */
static void sim_clocks_without_samples_end_the_run(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 30; n++) {
        struct sim_family f = plain;
        struct sim_result r;

        f.name = "empty";
        f.empty_after = n * n;
        f.max_epochs = 200;
        f.plateau_epochs = 200;
        run_one(&f, n, &r);
        if (r.finish.status != RUN_FAILED)
            continue; /* it was over before */
        assert_non_null(strstr(r.finish.message, "without a sample"));
    }
}

/* Where kept forks are refused now and then, snapshots and the end go on
 * without them: no run hangs, whenever it is to end. */
static void sim_refused_keeps_hang_no_run(void **state)
{
    static const enum command_id commands[] = {COMMAND_INTERRUPT, COMMAND_STOP};
    unsigned n = sim_seeds(120);

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f =
            family_at(seed % (sizeof(families) / sizeof(families[0])));
        struct sim_result r;

        f.name = "refused";
        f.keeps_refused = seed % 3 == 0 ? 1 : 0.4;
        f.command[0].command = commands[seed % 2];
        f.command[0].at_s = 0.02 * (1 + seed * 37 % 300);
        run_one(&f, seed, &r);
        /* The model's is asked for again after 1, 2 and 4 s. */
        assert_true(r.seconds < f.command[0].at_s + 9);
    }
}

/* A step that fails for want of memory changes nothing, and a decision that
 * lacks it is made later: the same run comes out. */
static void sim_memory_torture_gives_the_same_run(void **state)
{
    unsigned n = sim_seeds(30);
    unsigned failed = 0, faults = 0;

    (void)state;
    json_count_memory();
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family calm = plain, tortured = plain;
        struct sim_result a, b;
        int64_t before = mem_outstanding();

        calm.trial_clocks = tortured.trial_clocks = 24;
        tortured.name = "tortured";
        tortured.torture = 3;
        run_one(&calm, seed, &a);
        run_one(&tortured, seed, &b);
        assert_true(a.digest == b.digest);
        failed += b.failed_steps;
        faults += b.faults;
        /* The simulator keeps its actions' memory. */
        assert_true(mem_outstanding() <= before + 1);
    }
    assert_true(failed > 5 * n);
    assert_true(faults > failed + 5 * n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_families_find_a_fast_setting),
        cmocka_unit_test(sim_converged_system_ends),
        cmocka_unit_test(sim_patience_counts_samples),
        cmocka_unit_test(sim_stall_does_not_change_the_winner),
        cmocka_unit_test(sim_trial_clocks_make_a_run_reproducible),
        cmocka_unit_test(sim_commands_end_runs_at_any_time),
        cmocka_unit_test(sim_lost_node_ends_the_run),
        cmocka_unit_test(sim_time_limit_ends_the_run),
        cmocka_unit_test(sim_first_search_keeps_to_its_share),
        cmocka_unit_test(sim_share_is_none_of_clocks),
        cmocka_unit_test(sim_target_ends_the_run),
        cmocka_unit_test(sim_other_commands_are_obeyed),
        cmocka_unit_test(sim_paused_time_does_not_count),
        cmocka_unit_test(sim_limits_change_while_it_runs),
        cmocka_unit_test(sim_bad_initial_setting_is_left),
        cmocka_unit_test(sim_divergence_while_training_is_answered),
        cmocka_unit_test(sim_finals_without_a_finalist_begin_again),
        cmocka_unit_test(sim_finals_without_memory_are_held_another_time),
        cmocka_unit_test(sim_divergence_without_another_setting_fails),
        cmocka_unit_test(sim_application_errors_fail_what_they_hit),
        cmocka_unit_test(sim_no_run_trains_beyond_its_last_epoch),
        cmocka_unit_test(sim_trouble_of_the_machine_fails_nothing),
        cmocka_unit_test(sim_forks_without_memory_fail_nothing),
        cmocka_unit_test(sim_memory_for_few_branches_costs_trials),
        cmocka_unit_test(sim_failed_writes_are_told),
        cmocka_unit_test(sim_protocol_violation_ends_the_run),
        cmocka_unit_test(sim_clocks_without_samples_end_the_run),
        cmocka_unit_test(sim_refused_keeps_hang_no_run),
        cmocka_unit_test(sim_memory_torture_gives_the_same_run),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
