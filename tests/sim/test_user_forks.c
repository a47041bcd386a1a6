/* Branches forked by hand, in the simulator: whatever the strategy does, and
 * whenever it is asked, they run as long as they were asked to, wait, are freed
 * or promoted; the simulator's invariants hold in every step, over losses of
 * everything but the disk, too. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/searcher.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define USER_RATE 0.0123 /* no searcher proposes it */

static const struct sim_family plain = {
    .name = "byhand",
    .space = "{" RATE "}",
    .samples = 4096,
    .ball = 0.01,
    .cliff = 1000,
    .max_epochs = 12,
    SIM_USUAL,
    SIM_QUICK,
};

static const struct {
    const char *name, *settings;
} strategies[] = {
    {"mltuner", NULL},
    {"fixed", NULL},
    {"fixed", "{\"schedule\": \"exponential\", \"gamma\": 0.9}"},
    {"hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9}"},
    {"complete", NULL},
    {"asha", "{\"eta\": 3}"},
    {"asha", "{\"unit\": 7, \"max_resource\": 50, \"concurrent\": 1}"},
    {"tupaq", "{\"batch\": 3, \"partial\": 2}"},
    {"pbt", "{\"population\": 4}"},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]), FIXED = 1 };

static struct sim_family with(size_t i)
{
    struct sim_family f = plain;

    f.strategy = strategies[i].name;
    f.strategy_settings = strategies[i].settings;
    return f;
}

/* The run, and what it has journaled, folded. */
struct user_run {
    struct sim_result r;
    struct history h;
    json_t *journal; /* owned */
};

static void run_folded(const struct sim_family *f, uint64_t seed,
                       struct sim_options *o, struct user_run *out)
{
    memset(out, 0, sizeof(*out));
    history_init(&out->h);
    o->journal = &out->journal;
    sim_run(f, seed, o, &out->r);
    if (out->r.hung)
        print_error("strategy %s seed %llu hangs\n", f->strategy,
                    (unsigned long long)seed);
    assert_false(out->r.hung);
    for (size_t i = 0; i < json_array_size(out->journal); i++) {
        struct record r;

        assert_int_equal(
            record_from_json(json_array_get(out->journal, i), &r, NULL),
            ERR_OK);
        assert_int_equal(history_apply(&out->h, &r), ERR_OK);
        record_deinit(&r);
    }
}

static void run(const struct sim_family *f, uint64_t seed, struct user_run *out)
{
    struct sim_options o = {.replay = seed % 8 == 1};

    run_folded(f, seed, &o, out);
}

static void release(struct user_run *o)
{
    history_deinit(&o->h);
    json_decref(o->journal);
}

static void ask(struct sim_family *f, unsigned i, double at_s,
                enum command_id command, enum sim_target of)
{
    f->command[i].at_s = at_s;
    f->command[i].command = command;
    f->command[i].of = of;
}

static void ask_fork(struct sim_family *f, unsigned i, double at_s,
                     uint64_t clocks, uint32_t epochs)
{
    ask(f, i, at_s, COMMAND_FORK, SIM_TIP);
    f->command[i].fork.clocks = clocks;
    f->command[i].fork.epochs = epochs;
    snprintf(f->command[i].fork.setting, COMMAND_SETTING_MAX,
             "{\"learning_rate\": %g}", USER_RATE);
}

/* The @n-th branch forked by hand, from 0; NULL: there are no more. */
static const struct history_branch *by_hand(const struct history *h, size_t n)
{
    for (size_t i = 0; i < h->branches; i++)
        if (strcmp(h->branch[i].role, "user") == 0 && n-- == 0)
            return &h->branch[i];
    return NULL;
}

static double rate_of(const json_t *setting)
{
    return json_number_value(json_object_get(setting, "learning_rate"));
}

static bool descends(const struct history *h, branch_id from, branch_id of)
{
    const struct history_branch *b;

    while (from != of && (b = history_branch(h, from)) && b->parent < from)
        from = b->parent;
    return from == of;
}

/* ---- forks --------------------------------------------------------------- */

/* It runs as many clocks as were asked for, with the setting that was asked
 * for, and is there until the run ends; the run ends as ever. */
static void user_forks_fork_runs_so_many_clocks_and_waits(void **state)
{
    unsigned made = 0, whole = 0;
    json_t *setting;

    (void)state;
    for (unsigned seed = 1; seed <= 12 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        const struct history_branch *b;
        struct user_run o;

        ask_fork(&f, 0, 0.013 * seed, 40, 0);
        run(&f, seed, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        b = by_hand(&o.h, 0);
        if (o.r.commanded == 0 || o.r.answer[0]) {
            release(&o);
            continue;
        }
        made++;
        assert_non_null(b);
        setting = history_branch_setting(&o.h, b);
        assert_true(rate_of(setting) == USER_RATE);
        json_decref(setting);
        assert_true(b->clocks <= 40);
        assert_string_equal(b->freed_reason, RECORD_FREED_AT_END);
        whole += b->clocks == 40;
        release(&o);
    }
    assert_true(made > 7 * STRATEGIES);
    assert_true(whole > made / 2);
}

/* An epoch of it is tested and recorded, and is none of the run's. */
static void user_forks_fork_records_its_epochs(void **state)
{
    unsigned recorded = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 4 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct user_run o;

        ask_fork(&f, 0, 0.05 + 0.01 * seed, 0, 2);
        run(&f, seed, &o);
        for (size_t i = 0; i < o.h.epochs; i++) {
            const struct record_epoch_ended *e = &o.h.epoch[i].e;

            if (strcmp(history_branch(&o.h, e->branch)->role, "user") != 0)
                continue;
            recorded++;
            assert_false(e->surviving);
            assert_false(e->best);
            assert_true(isfinite(e->metric));
        }
        release(&o);
    }
    assert_true(recorded > 4 * STRATEGIES);
}

/* With trial lengths in clocks nothing depends on time: what is tried, and what
 * is trained with, is the same beside a fork by hand. */
static void user_forks_fork_changes_no_decision(void **state)
{
    unsigned forked = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        struct sim_family f = with(0), g;
        struct user_run a, b;

        f.trial_clocks = 24;
        g = f;
        ask_fork(&g, 0, 0.03 * seed, 64, 0);
        run(&f, seed, &a);
        run(&g, seed, &b);
        forked += b.r.commanded == 1 && b.r.answer[0] == ERR_OK;
        assert_int_equal(a.h.trials, b.h.trials);
        for (size_t i = 0; i < a.h.trials; i++)
            assert_true(
                json_equal(a.h.trial[i].t.setting, b.h.trial[i].t.setting));
        assert_int_equal(a.h.choices, b.h.choices);
        for (size_t i = 0; i < a.h.choices; i++)
            assert_true(
                json_equal(a.h.choice[i].c.setting, b.h.choice[i].c.setting));
        release(&a);
        release(&b);
    }
    assert_true(forked > 5);
}

/* ---- promotion ----------------------------------------------------------- */

static const struct history_choice *promotion(const struct history *h)
{
    for (size_t i = h->choices; i-- > 0;)
        if (strcmp(h->choice[i].c.reason, "promoted by the user") == 0)
            return &h->choice[i];
    return NULL;
}

/* At any time, under any strategy: the branch is what is trained from then on,
 * and the run ends on its lineage, with a model. */
static void user_forks_promoted_branch_is_trained(void **state)
{
    unsigned promoted = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 20 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        const struct history_choice *c;
        struct user_run o;

        ask_fork(&f, 0, 0.011 * seed, 0, 1);
        ask(&f, 1, 0.011 * seed + 0.004 * (seed % 40), COMMAND_PROMOTE,
            SIM_USER);
        run(&f, seed, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        assert_true(isfinite(o.r.loss));
        c = promotion(&o.h);
        if (c) {
            promoted++;
            assert_string_equal(history_branch(&o.h, c->c.branch)->role,
                                "user");
            assert_true(rate_of(c->c.setting) == USER_RATE);
            assert_true(descends(&o.h, history_tip(&o.h), c->c.branch));
        }
        release(&o);
    }
    assert_true(promoted > 8 * STRATEGIES);
}

/* Whatever branch lives may be meant: it is adopted, or refused with a word. */
static void user_forks_any_branch_may_be_promoted(void **state)
{
    unsigned done = 0, diverged = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 20 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct user_run o;

        ask(&f, 0, 0.017 * seed, COMMAND_PROMOTE,
            seed % 3 ? SIM_NEWEST : SIM_TIP);
        ask(&f, 1, 0.017 * seed + 0.3, COMMAND_PROMOTE, SIM_TIP);
        run(&f, seed, &o);
        /* Who promotes a trial that diverges has a run that has diverged. */
        if (o.r.finish.status != RUN_FINISHED &&
            !(promotion(&o.h) && strcmp(o.r.finish.reason, "diverged") == 0))
            fail_msg("strategy %s seed %u: %s", f.strategy, seed,
                     o.r.finish.message);
        diverged += o.r.finish.status != RUN_FINISHED;
        done += promotion(&o.h) != NULL;
        release(&o);
    }
    assert_true(done > 6 * STRATEGIES);
    assert_true(diverged <= 3);
}

/* The least metric of all epochs that strategies have run. */
static double least_metric(const struct history *h)
{
    double least = INFINITY;

    for (size_t i = 0; i < h->epochs; i++)
        if (strcmp(history_branch(h, h->epoch[i].e.branch)->role, "user") != 0)
            least = fmin(least, h->epoch[i].e.metric);
    return least;
}

/* When the @n-th epoch of a finalist ended, from 0; NAN: there are not so many.
 */
static double finalist_epoch_at(const struct history *h, size_t n)
{
    for (size_t i = 0; i < h->epochs; i++)
        if (!h->epoch[i].e.surviving &&
            strcmp(history_branch(h, h->epoch[i].e.branch)->role, "user") !=
                0 &&
            n-- == 0)
            return h->epoch[i].at_s;
    return NAN;
}

static bool has_decided(const struct history *h, const char *decision)
{
    for (size_t i = 0; i < h->decisions; i++)
        if (strcmp(h->decision[i].d.decision, decision) == 0)
            return true;
    return false;
}

/* In the midst of finals, too: a finalist's epoch that was the best so far is
 * the run's best model. What is promoted here is far worse than any, and the
 * run goes on from it all the same: a search does not go back to that epoch. */
static void user_forks_promoted_in_finals_keeps_the_best(void **state)
{
    unsigned promoted = 0, finalists = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct sim_family f = with(0);
        const struct history_epoch *best;
        struct user_run o;
        double at_s;

        f.trial_clocks = 24;
        f.max_epochs = 20;
        ask_fork(&f, 0, 0.01, 0, 1);
        snprintf(f.command[0].fork.setting, COMMAND_SETTING_MAX,
                 "{\"learning_rate\": 1e-5}");
        run(&f, seed, &o);
        at_s = finalist_epoch_at(&o.h, seed % 4);
        release(&o);
        if (isnan(at_s))
            continue;
        ask(&f, 1, at_s + 3e-5 * (seed % 5), COMMAND_PROMOTE, SIM_USER);
        ask(&f, 2, at_s + 1, COMMAND_RETUNE, SIM_GIVEN);
        run(&f, seed, &o);
        if (has_decided(&o.h, "promote")) {
            best = history_best_epoch(&o.h);
            assert_non_null(best);
            promoted++;
            finalists += has_decided(&o.h, "best");
            assert_true(best->e.metric == least_metric(&o.h));
            assert_non_null(promotion(&o.h));
            assert_true(
                descends(&o.h, history_tip(&o.h), promotion(&o.h)->c.branch));
        }
        release(&o);
    }
    assert_true(promoted > 20);
    assert_true(finalists > 10);
}

/* ---- freeing, refusing --------------------------------------------------- */

static void user_forks_commands_are_refused_with_a_reason(void **state)
{
    struct sim_family f = with(FIXED);
    struct user_run o;

    (void)state;
    f.max_epochs = 100;
    f.plateau_epochs = 100;
    ask_fork(&f, 0, 1, 0, 1);
    snprintf(f.command[0].fork.setting, COMMAND_SETTING_MAX,
             "{\"learning_rate\": 7}");
    ask_fork(&f, 1, 1.1, 0, 1);
    f.command[1].of = SIM_USER; /* there is none */
    ask(&f, 2, 1.2, COMMAND_FREE, SIM_TIP);
    ask(&f, 3, 1.3, COMMAND_PROMOTE, SIM_USER);
    ask_fork(&f, 4, 1.4, 50, 0);
    ask(&f, 5, 1.6, COMMAND_FREE, SIM_USER);
    run(&f, 1, &o);
    assert_int_equal(o.r.commanded, 6);
    assert_int_equal(o.r.answer[0], ERR_INVAL);
    assert_int_equal(o.r.answer[1], ERR_NOENT);
    assert_int_equal(o.r.answer[2], ERR_UNSUPPORTED);
    assert_int_equal(o.r.answer[3], ERR_NOENT);
    assert_int_equal(o.r.answer[4], ERR_OK);
    assert_int_equal(o.r.answer[5], ERR_OK);
    assert_string_equal(by_hand(&o.h, 0)->freed_reason, "freed by the user");
    assert_null(by_hand(&o.h, 1));
    release(&o);
}

/* Where memory is short the training comes first: no run fails for a fork that
 * it would not have failed without. */
static void user_forks_forks_give_way_to_the_training(void **state)
{
    unsigned given_up = 0, refused = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 20 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES), alone;
        struct user_run a, b;

        f.branches_max = 5 + seed % 3;
        alone = f;
        for (unsigned i = 0; i < 4; i++)
            ask_fork(&f, i, 0.02 * seed + 0.05 * i, 0, 3);
        ask(&f, 4, 0.02 * seed + 0.4, COMMAND_PROMOTE, SIM_USER);
        run(&alone, seed, &a);
        run(&f, seed, &b);
        if (b.r.finish.status != a.r.finish.status)
            print_error("strategy %s seed %u: %s\n", f.strategy, seed,
                        b.r.finish.message);
        assert_int_equal(b.r.finish.status, a.r.finish.status);
        for (unsigned i = 0; i < b.r.commanded; i++)
            refused += b.r.answer[i] == ERR_LIMIT;
        for (size_t i = 0; by_hand(&b.h, i); i++)
            given_up += strcmp(by_hand(&b.h, i)->freed_reason, "memory") == 0;
        release(&a);
        release(&b);
    }
    assert_true(refused > STRATEGIES);
    assert_true(given_up > STRATEGIES);
}

/* A fork that diverges is freed, and nothing else happens. */
static void user_forks_diverged_fork_is_freed(void **state)
{
    unsigned freed = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 3 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct user_run o;

        f.cliff = 3;
        ask_fork(&f, 0, 0.1 + 0.01 * seed, 0, 5);
        snprintf(f.command[0].fork.setting, COMMAND_SETTING_MAX,
                 "{\"learning_rate\": 1}");
        run(&f, seed, &o);
        freed += by_hand(&o.h, 0) &&
                 strcmp(by_hand(&o.h, 0)->freed_reason, "diverged") == 0;
        release(&o);
    }
    assert_true(freed > STRATEGIES);
}

/* A paused run runs none of them; they go on with it. Stops and failing
 * allocations harm nothing. */
static void user_forks_forks_pause_and_end_with_the_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct user_run o;

        f.torture = 7;
        f.max_trials = 4;
        ask_fork(&f, 0, 0.01 * seed, 0, 2);
        ask(&f, 1, 0.01 * seed + 0.01, COMMAND_PAUSE, SIM_GIVEN);
        ask_fork(&f, 2, 50, 10, 0);
        ask(&f, 3, 60, COMMAND_CONTINUE, SIM_GIVEN);
        ask(&f, 4, 60.1, seed % 2 ? COMMAND_PROMOTE : COMMAND_FREE, SIM_USER);
        ask(&f, 5, 60.12 + 0.01 * (seed % 7), COMMAND_STOP, SIM_GIVEN);
        run(&f, seed, &o);
        if (o.r.commanded == 6)
            assert_int_equal(o.r.finish.status, RUN_STOPPED);
        for (size_t i = 0; i < o.h.slices; i++)
            assert_false(o.h.slice[i].scheduled_at_s > 50 &&
                         o.h.slice[i].scheduled_at_s < 59);
        release(&o);
    }
}

/* ---- losses -------------------------------------------------------------- */

/* Killed at any action, again and again: forks that lived begin again, and what
 * was promoted, and answered, is trained in the end. */
static void user_forks_outlives_the_tuner(void **state)
{
    unsigned again = 0, promoted = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 24 * STRATEGIES; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct rng dice;
        uint64_t crash[2];
        struct sim_options options = {.crash = crash, .crashes = 2};
        const struct history_choice *c;
        struct user_run o;
        bool kept;

        rng_init(&dice, seed * 77);
        crash[0] = rng_below(&dice, 600);
        crash[1] = rng_below(&dice, 300);
        f.max_trials = 4;
        ask_fork(&f, 0, 0.02 + 0.01 * (seed % 30), 0, 2);
        if (seed % 2)
            ask(&f, 1, 0.05 + 0.01 * (seed % 30), COMMAND_PROMOTE, SIM_USER);
        run_folded(&f, seed, &options, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        if (by_hand(&o.h, 1)) { /* with the setting that it was given */
            json_t *setting = history_branch_setting(&o.h, by_hand(&o.h, 1));

            assert_true(rate_of(setting) == USER_RATE);
            json_decref(setting);
            again++;
        }
        kept = seed % 2 && o.r.commanded > 1 && o.r.answer[1] == ERR_OK;
        c = promotion(&o.h);
        if (kept && !c)
            print_error("strategy %s seed %u: the promotion is lost\n",
                        f.strategy, seed);
        assert_true(!kept || c);
        if (kept && seed % STRATEGIES == FIXED)
            assert_true(rate_of(o.h.choice[o.h.choices - 1].c.setting) ==
                        USER_RATE);
        promoted += kept;
        release(&o);
    }
    assert_true(again > STRATEGIES);
    assert_true(promoted > 2 * STRATEGIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_forks_fork_runs_so_many_clocks_and_waits),
        cmocka_unit_test(user_forks_fork_records_its_epochs),
        cmocka_unit_test(user_forks_fork_changes_no_decision),
        cmocka_unit_test(user_forks_promoted_branch_is_trained),
        cmocka_unit_test(user_forks_any_branch_may_be_promoted),
        cmocka_unit_test(user_forks_promoted_in_finals_keeps_the_best),
        cmocka_unit_test(user_forks_commands_are_refused_with_a_reason),
        cmocka_unit_test(user_forks_forks_give_way_to_the_training),
        cmocka_unit_test(user_forks_diverged_fork_is_freed),
        cmocka_unit_test(user_forks_forks_pause_and_end_with_the_run),
        cmocka_unit_test(user_forks_outlives_the_tuner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
