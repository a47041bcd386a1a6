/* Suggestions in the simulator: whoever searches from outside, whatever the
 * strategy, whenever the run is killed, each is tried once, and its trial says
 * which it is. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define USER_RATE 0.0123 /* no searcher proposes it */

static const struct sim_family plain = {
    .name = "suggest",
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
    {"hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9, "
                  "\"sampling\": \"searcher\"}"},
    {"complete", NULL},
    {"asha", "{\"eta\": 3, \"sampling\": \"searcher\"}"},
    {"tupaq", "{\"batch\": 3, \"partial\": 2}"},
    {"pbt", "{\"population\": 4, \"sampling\": \"searcher\"}"},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

static struct sim_family with(size_t i)
{
    struct sim_family f = plain;

    f.strategy = strategies[i].name;
    f.strategy_settings = strategies[i].settings;
    return f;
}

/* Runs with somebody outside. */
static struct sim_family asked(size_t i, unsigned trials)
{
    struct sim_family f = with(i);

    f.searcher = &searcher_rest;
    f.outside.trials = trials;
    f.outside.every_s = 0.05;
    return f;
}

/* The run, and what it has journaled, folded. */
struct told_run {
    struct sim_result r;
    struct history h;
    json_t *journal; /* owned */
};

static void run(const struct sim_family *f, uint64_t seed,
                const struct sim_options *options, struct told_run *out)
{
    struct sim_options o = {.replay = seed % 4 == 1};

    memset(out, 0, sizeof(*out));
    if (options)
        o = *options;
    history_init(&out->h);
    o.journal = &out->journal;
    sim_run(f, seed, &o, &out->r);
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

static void release(struct told_run *o)
{
    history_deinit(&o->h);
    json_decref(o->journal);
}

static double rate_of(const json_t *setting)
{
    return json_number_value(json_object_get(setting, "learning_rate"));
}

/* Trials that began with suggestion @n and were not lost with their search. */
static unsigned tried(const struct history *h, uint32_t n)
{
    unsigned trials = 0;

    for (size_t i = 0; i < h->trials; i++)
        trials += h->trial[i].t.suggestion == n &&
                  h->trial[i].t.label != TRIAL_INTERRUPTED;
    return trials;
}

/* Every suggestion is in the end tried, once; or known, or dropped with a
 * reason; and a trial of it has its setting. Returns those that were tried. */
static unsigned check_suggestions(const struct told_run *o)
{
    unsigned begun = 0;

    assert_true(o->h.suggestions >= o->r.last_suggestion);
    for (uint32_t n = 1; n <= o->h.suggestions; n++) {
        const struct record_suggestion *s = &o->h.suggestion[n - 1].s;
        const struct history_trial *t =
            s->trial ? &o->h.trial[s->trial - 1] : NULL;

        assert_true(s->state != SUGGESTION_WAITING);
        assert_int_equal(tried(&o->h, n), s->state == SUGGESTION_BEGUN);
        assert_int_equal(s->trial != 0, s->state != SUGGESTION_DROPPED);
        if (t)
            assert_true(json_equal(s->setting, t->t.setting));
        if (t && s->state == SUGGESTION_BEGUN)
            assert_int_equal(t->t.suggestion, n);
        else
            assert_true(s->reason[0]);
        begun += s->state == SUGGESTION_BEGUN;
    }
    return begun;
}

/* Trials of a suggestion that a resume has forgotten. */
static unsigned trials_forgotten(const struct told_run *o)
{
    unsigned forgotten = 0;
    uint32_t last = 0;

    for (size_t i = 0; i < json_array_size(o->journal); i++) {
        struct record r;

        assert_int_equal(
            record_from_json(json_array_get(o->journal, i), &r, NULL), ERR_OK);
        if (r.kind <= RECORD_TRIAL_ENDED && r.kind >= RECORD_TRIAL_STARTED &&
            r.trial.suggestion)
            last = r.trial.trial;
        if (r.kind == RECORD_RUN_RESUMED && r.run_resumed.next_trial)
            forgotten += last >= r.run_resumed.next_trial;
        record_deinit(&r);
    }
    return forgotten;
}

static void suggest(struct sim_family *f, unsigned i, double at_s,
                    const char *settings, bool exhausted)
{
    f->command[i].at_s = at_s;
    f->command[i].command = COMMAND_SUGGEST;
    f->command[i].suggest = settings;
    f->command[i].exhausted = exhausted;
}

/* ---- beside a searcher --------------------------------------------------- */

/* It is tried before what the searcher proposes, also where it comes before the
 * search has begun, and the search does not end without it. */
static void suggestion_is_tried_beside_any_searcher(void **state)
{
    unsigned n = sim_seeds(12 * STRATEGIES), accepted = 0, begun = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct told_run o;

        suggest(&f, 0, seed < 9 ? 1e-6 : 0.02 * seed,
                "[{\"learning_rate\": 0.0123}, {\"learning_rate\": 0.0124}]",
                false);
        run(&f, seed, NULL, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        if (o.r.commanded && o.r.answer[0] == ERR_OK) {
            accepted++;
            begun += check_suggestions(&o);
            assert_int_equal(o.h.suggestions, 2);
        }
        /* `asha` has begun four at once by then. */
        if (seed < 9)
            assert_true(o.h.suggestion[0].s.trial <= 5);
        release(&o);
    }
    assert_true(3 * accepted > 2 * n);
    assert_true(3 * begun > 2 * n);
}

/* One that was tried already is not tried again: its trial is named. */
static void suggestion_that_is_known_is_not_tried_again(void **state)
{
    struct sim_family f = with(0);
    struct told_run o;

    (void)state;
    suggest(&f, 0, 1e-6, "[{\"learning_rate\": 0.0123}]", false);
    suggest(&f, 1, 2e-6, "[{\"learning_rate\": 0.0123}, {}]", false);
    run(&f, 1, NULL, &o);
    check_suggestions(&o);
    assert_int_equal(o.h.suggestion[0].s.state, SUGGESTION_BEGUN);
    assert_int_equal(o.h.suggestion[1].s.state, SUGGESTION_KNOWN);
    assert_int_equal(o.h.suggestion[1].s.trial, 1);
    /* Nothing given: the value in use, before there is one the default. */
    assert_true(rate_of(o.h.suggestion[2].s.setting) == 0.01);
    release(&o);
}

/* The search does not end by its stop rules (five alike, here) before all that
 * was suggested is tried. */
static void suggestions_are_all_tried_although_alike(void **state)
{
    struct sim_family f = with(0);
    struct told_run o;
    char settings[640] = "[{}";

    (void)state;
    for (int i = 1; i < 12; i++)
        snprintf(settings + strlen(settings), 40, ", {\"learning_rate\": %g}",
                 0.01 + i * 1e-5);
    strcat(settings, "]");
    suggest(&f, 0, 1e-6, settings, false);
    run(&f, 2, NULL, &o);
    assert_int_equal(check_suggestions(&o), 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(o.h.trial[o.h.suggestion[i].s.trial - 1].t.search, 1);
    release(&o);
}

/* A suggestion that is no setting, too late or too often is refused. */
static void suggestions_are_refused_with_a_reason(void **state)
{
    static char many[17 * 32] = "[";
    struct sim_family f = with(0);
    struct told_run o;

    (void)state;
    for (int i = 0; i < COMMAND_SUGGESTIONS_MAX; i++)
        snprintf(many + strlen(many), 32, "%s{\"learning_rate\": 0.1%02d}",
                 i ? ", " : "", i);
    strcat(many, "]");
    suggest(&f, 0, 1e-6, "[{\"learning_rate\": 7}]", false);
    suggest(&f, 1, 2e-6, "[{\"learning_rat\": 0.1}]", false);
    suggest(&f, 2, 3e-6, NULL, true);
    suggest(&f, 3, 4e-6, many, false);
    suggest(&f, 4, 5e-6, many, false);
    suggest(&f, 5, 6e-6, "[{\"learning_rate\": 0.1}]", false);
    run(&f, 1, NULL, &o);
    assert_int_equal(o.r.answer[0], ERR_INVAL);
    assert_int_equal(o.r.answer[1], ERR_INVAL);
    assert_int_equal(o.r.answer[2], ERR_UNSUPPORTED);
    assert_int_equal(o.r.answer[3], ERR_OK);
    assert_int_equal(o.r.answer[4], ERR_OK);
    assert_int_equal(o.r.answer[5], ERR_LIMIT);
    release(&o);
}

/* Strategies that search once, or never, say so; what still waits is dropped.
 */
static void suggestions_have_no_search_to_wait_for(void **state)
{
    struct sim_family f = with(3);
    struct told_run o;

    (void)state;
    f.strategy_settings = "{\"concurrent\": 1}";
    f.max_trials = 4;
    f.plateau_epochs = f.max_epochs = 40;
    suggest(&f, 0, 1e-6,
            "[{}, {\"learning_rate\": 0.1}, {\"learning_rate\": "
            "0.2}, {\"learning_rate\": 0.3}, {\"learning_rate\": "
            "0.4}, {\"learning_rate\": 0.5}]",
            false);
    suggest(&f, 1, 1e4, "[{\"learning_rate\": 0.1}]", false);
    run(&f, 1, NULL, &o);
    assert_int_equal(check_suggestions(&o), 3);
    assert_int_equal(o.h.suggestion[5].s.state, SUGGESTION_DROPPED);
    assert_int_equal(o.h.asking, ASKING_OVER);
    release(&o);

    f.strategy = "fixed";
    f.strategy_settings = NULL;
    run(&f, 1, NULL, &o);
    assert_int_equal(o.r.answer[0], ERR_UNSUPPORTED);
    assert_int_equal(o.h.asking, ASKING_OVER);
    assert_int_equal(o.h.suggestions, 0);
    release(&o);
}

/* ---- all from outside ---------------------------------------------------- */

/* With searcher `rest` nothing is tried but what was suggested, and in re-tunes
 * the setting in use; the searches end when those outside say so. */
static void outside_searcher_is_all_that_proposes(void **state)
{
    unsigned n = sim_seeds(10 * STRATEGIES), begun = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = asked(seed % STRATEGIES, 6);
        struct told_run o;

        run(&f, seed, NULL, &o);
        if (o.r.finish.status != RUN_FINISHED)
            print_error("strategy %s seed %u: %s\n", f.strategy, seed,
                        o.r.finish.message);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        begun += check_suggestions(&o);
        for (size_t i = 0; i < o.h.trials; i++) /* or near one of these: pbt */
            assert_true(o.h.trial[i].t.suggestion > 0 ||
                        o.h.trial[i].t.incumbent ||
                        strcmp(f.strategy, "pbt") == 0);
        release(&o);
    }
    assert_true(begun >= 5 * n);
}

/* With trial lengths in clocks, one who suggests the same makes the same run,
 * however long they take. */
static void outside_searcher_makes_the_same_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6; seed++) {
        struct sim_family f = asked(0, 5), slow;
        struct told_run a, b;

        f.trial_clocks = 24;
        slow = f;
        slow.outside.every_s = 7;
        run(&f, seed, NULL, &a);
        run(&slow, seed, NULL, &b);
        assert_int_equal(a.r.digest, b.r.digest);
        assert_true(b.r.seconds > a.r.seconds + 7);
        release(&a);
        release(&b);
    }
}

static bool decided(const struct history *h, const char *words)
{
    for (size_t i = 0; i < h->decisions; i++)
        if (strstr(h->decision[i].d.text, words))
            return true;
    return false;
}

/* Nobody is there: the run says that it waits, then trains with the defaults,
 * and waits for nobody again. */
static void outside_silence_is_waited_for_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STRATEGIES; i++) {
        struct sim_family f = with(i);
        struct told_run o;

        f.searcher = &searcher_rest;
        f.searcher_settings = "{\"wait\": \"90s\"}";
        run(&f, 1, NULL, &o);
        if (o.r.finish.status != RUN_FINISHED)
            print_error("strategy %s: %s\n", f.strategy, o.r.finish.message);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        assert_true(decided(&o.h, "waits for a suggestion"));
        assert_true(decided(&o.h, "waits no longer"));
        assert_true(o.r.seconds > 90 && o.r.seconds < 180);
        assert_true(o.h.choices >= 1);
        assert_true(rate_of(o.h.choice[0].c.setting) == 0.01);
        release(&o);
    }
}

/* The run's time does not wait for the first suggestion. */
static void outside_silence_is_the_runs_time(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STRATEGIES; i++) {
        struct sim_family f = with(i);
        struct told_run o;

        f.searcher = &searcher_rest;
        f.max_time_s = 20;
        run(&f, 1, NULL, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        assert_string_equal(o.r.finish.reason, "max_time");
        assert_true(o.r.seconds >= 20 && o.r.seconds < 40);
        release(&o);
    }
}

/* Searchers that go away in the middle of a search cost it its patience; what
 * was tried counts. */
static void outside_who_go_away_are_waited_for(void **state)
{
    struct sim_family f = asked(0, 20);
    struct told_run o;

    (void)state;
    f.searcher_settings = "{\"wait\": 45}";
    f.outside.gone_s = 1.5;
    run(&f, 3, NULL, &o);
    assert_int_equal(o.r.finish.status, RUN_FINISHED);
    assert_true(check_suggestions(&o) >= 1);
    assert_true(decided(&o.h, "waits no longer"));
    assert_true(o.r.seconds > 45);
    release(&o);
}

/* They say at once that there is nothing: the defaults, without a wait. They
 * may think better of it. */
static void outside_exhausted_before_it_began(void **state)
{
    struct sim_family f = with(0);
    struct told_run o;

    (void)state;
    f.searcher = &searcher_rest;
    suggest(&f, 0, 1e-6, NULL, true);
    run(&f, 1, NULL, &o);
    assert_int_equal(o.h.search[0].ended, true);
    assert_true(rate_of(o.h.choice[0].c.setting) == 0.01);
    assert_true(o.h.search[0].ended_at_s < 60);
    release(&o);

    suggest(&f, 1, 2e-6, "[{\"learning_rate\": 0.0123}]", true);
    run(&f, 1, NULL, &o);
    assert_int_equal(check_suggestions(&o), 1);
    assert_true(rate_of(o.h.trial[0].t.setting) == USER_RATE);
    assert_int_equal(o.h.search[0].end.trials, 1);
    release(&o);
}

/* Too late for the search that has ended, it is not taken for the next one's,
 * which waits for those outside. */
static void outside_exhausted_too_late(void **state)
{
    struct sim_family f = with(0);
    struct told_run o;

    (void)state;
    f.max_epochs = 60;
    f.searcher = &searcher_rest;
    f.searcher_settings = "{\"wait\": 30}";
    suggest(&f, 0, 1e-6, "[{\"learning_rate\": 0.0123}]", true);
    suggest(&f, 1, 1, NULL, true);
    run(&f, 1, NULL, &o);
    assert_int_equal(o.r.finish.status, RUN_FINISHED);
    assert_int_equal(o.r.answer[1], ERR_OK);
    assert_true(o.h.searches > 1);
    assert_true(o.h.search[0].ended_at_s < 1);
    assert_true(o.h.search[1].started_at_s > 1);
    assert_true(decided(&o.h, "search 2 waits for a suggestion"));
    release(&o);
}

/* A pause is no silence. */
static void outside_pause_does_not_use_up_the_wait(void **state)
{
    struct sim_family f = with(0);
    struct told_run o;

    (void)state;
    f.searcher = &searcher_rest;
    f.searcher_settings = "{\"wait\": 30}";
    f.command[0].at_s = 10;
    f.command[0].command = COMMAND_PAUSE;
    f.command[1].at_s = 1000;
    f.command[1].command = COMMAND_CONTINUE;
    suggest(&f, 2, 1010, "[{\"learning_rate\": 0.0123}]", false);
    f.command[3].at_s = 1015;
    f.command[3].command = COMMAND_PAUSE;
    suggest(&f, 4, 1500, "[{\"learning_rate\": 0.0124}]", true);
    f.command[5].at_s = 2000;
    f.command[5].command = COMMAND_CONTINUE;
    run(&f, 1, NULL, &o);
    assert_int_equal(o.r.finish.status, RUN_FINISHED);
    assert_int_equal(check_suggestions(&o), 2);
    assert_false(decided(&o.h, "waits no longer"));
    assert_int_equal(o.h.search[0].end.trials, 2);
    release(&o);
}

/* ---- losses -------------------------------------------------------------- */

/* Killed at any action, again and again: what was accepted is tried once, and
 * who asks again with the same key is told the same. */
static void suggestions_outlive_the_tuner(void **state)
{
    unsigned n = sim_seeds(40 * STRATEGIES), begun = 0, again = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = seed % 2 ? asked(seed / 2 % STRATEGIES, 5)
                                       : with(seed / 2 % STRATEGIES);
        struct rng dice;
        uint64_t crash[3];
        struct sim_options options = {
            .crash = crash, .crashes = 3, .restarts = seed % 3 == 0};
        struct told_run o;

        rng_init(&dice, seed * 77);
        for (int i = 0; i < 3; i++)
            crash[i] = rng_below(&dice, 400);
        f.max_trials = 12;
        if (!f.outside.trials)
            suggest(&f, 0, 0.01 + 0.02 * (seed % 30),
                    "[{\"learning_rate\": 0.0123}, {\"learning_rate\": "
                    "0.0124}]",
                    false);
        run(&f, seed, &options, &o);
        if (o.r.finish.status != RUN_FINISHED)
            print_error("strategy %s seed %u: %s\n", f.strategy, seed,
                        o.r.finish.message);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        if (!f.outside.trials && o.r.commanded && o.r.answer[0] == ERR_OK)
            assert_int_equal(o.h.suggestions, 2);
        begun += check_suggestions(&o);
        again += o.r.suggested_again;
        release(&o);
    }
    assert_true(2 * begun > 3 * n);
    assert_true(again > 0);
}

/* A contest goes on from its snapshot, and forgets the trials that it began
 * since: what they were to try is tried all the same, once. */
static void suggestions_outlive_forgotten_trials(void **state)
{
    unsigned n = sim_seeds(60 * STRATEGIES), begun = 0, forgotten = 0;

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = with(seed % STRATEGIES);
        struct rng dice;
        uint64_t crash[3];
        struct sim_options options = {
            .crash = crash, .crashes = 3, .restarts = seed % 3 == 0};
        struct told_run o;

        rng_init(&dice, seed * 79);
        for (int i = 0; i < 3; i++)
            crash[i] = 60 + rng_below(&dice, 300);
        f.snapshot_s = 0.05 + 0.2 * (seed % 5);
        f.max_trials = 16;
        for (unsigned i = 0; i < 4; i++)
            suggest(&f, i, 0.05 + 0.3 * i + 0.02 * (seed % 30),
                    i % 2 ? "[{\"learning_rate\": 0.0123}]"
                          : "[{\"learning_rate\": 0.0124}, "
                            "{\"learning_rate\": 0.0125}]",
                    false);
        run(&f, seed, &options, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        begun += check_suggestions(&o);
        forgotten += trials_forgotten(&o);
        release(&o);
    }
    assert_true(begun > n);
    assert_true(forgotten > n / 20);
}

/* Somebody suggests one setting hundreds of times, and the search that knew it
 * is lost: all that comes back does so in steps that have room for it, one is
 * tried, and what was suggested after them is, too. */
static void suggestions_come_back_by_the_hundred(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STRATEGIES; i++) {
        struct sim_family f = asked(i, 20);
        struct sim_options options = {.crash_s = 9};
        struct told_run o;
        unsigned known = 0;

        f.searcher_settings = "{\"wait\": 30}";
        f.outside.every_s = 0.005;
        f.outside.rate = USER_RATE;
        f.outside.gone_s = 8.9;
        suggest(&f, 0, 8.99, "[{\"learning_rate\": 0.1}]", false);
        run(&f, 1, &options, &o);
        assert_int_equal(o.r.crashed, 1);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        assert_int_equal(check_suggestions(&o), 2);
        for (size_t k = 0; k < o.h.suggestions; k++)
            known += o.h.suggestion[k].s.state == SUGGESTION_KNOWN;
        assert_int_equal(known, o.h.suggestions - 2);
        assert_true(known > 600);
        release(&o);
    }
}

/* Failing allocations lose nothing either. */
static void suggestions_under_memory_torture(void **state)
{
    unsigned n = sim_seeds(8 * STRATEGIES);

    (void)state;
    for (unsigned seed = 1; seed <= n; seed++) {
        struct sim_family f = asked(seed % STRATEGIES, 4);
        struct told_run o;

        f.torture = 5;
        run(&f, seed, NULL, &o);
        assert_int_equal(o.r.finish.status, RUN_FINISHED);
        check_suggestions(&o);
        release(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggestion_is_tried_beside_any_searcher),
        cmocka_unit_test(suggestion_that_is_known_is_not_tried_again),
        cmocka_unit_test(suggestions_are_all_tried_although_alike),
        cmocka_unit_test(suggestions_are_refused_with_a_reason),
        cmocka_unit_test(suggestions_have_no_search_to_wait_for),
        cmocka_unit_test(outside_searcher_is_all_that_proposes),
        cmocka_unit_test(outside_searcher_makes_the_same_run),
        cmocka_unit_test(outside_silence_is_waited_for_once),
        cmocka_unit_test(outside_silence_is_the_runs_time),
        cmocka_unit_test(outside_who_go_away_are_waited_for),
        cmocka_unit_test(outside_exhausted_before_it_began),
        cmocka_unit_test(outside_exhausted_too_late),
        cmocka_unit_test(outside_pause_does_not_use_up_the_wait),
        cmocka_unit_test(suggestions_outlive_the_tuner),
        cmocka_unit_test(suggestions_outlive_forgotten_trials),
        cmocka_unit_test(suggestions_come_back_by_the_hundred),
        cmocka_unit_test(suggestions_under_memory_torture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
