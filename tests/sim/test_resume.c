/* Runs that are killed at any moment and resumed, in the simulator: everything
 * but the journal and the snapshots is gone, a new tuner and a new training
 * system go on. Nothing is lost and nothing is done twice. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/sim/warm.h"
#include "tuner/board/saved.h"
#include "tuner/core/snapshot_state.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CRASHES_MAX = 6 };

static const struct sim_family plain = {
    .name = "killed",
    .space = "{" RATE "}",
    .samples = 4096,
    SIM_PACED,
    .max_epochs = 20,
    SIM_USUAL,
};

static void run_killed(const struct sim_family *f, uint64_t seed,
                       const struct sim_options *o, struct sim_result *r)
{
    sim_run(f, seed, o, r);
    if (r->hung)
        print_error("family %s seed %llu hangs\n", f->name,
                    (unsigned long long)seed);
    assert_false(r->hung);
}

/* ---- what must hold, whatever happened ----------------------------------- */

struct check {
    const char *family;
    uint64_t seed;
    uint32_t max_epochs;
    struct history h;
    clock_no next;     /* no clock below is free */
    uint32_t *begun;   /* [trials + 1] forks of the trial since the start */
    bool *finished;    /* [trials + 1] */
    size_t n;          /* of `finished` */
    unsigned searches; /* that went on */
    unsigned trained;  /* resumes that went on with an epoch */
    bool anew;         /* the strategy begins anew when it is resumed */
    uint32_t first;    /* first trial number of that beginning */
    unsigned named;    /* trials that texts named after such a one */
    double answer_s;   /* as in the family: slices wait so long */
    double waited_s;   /* that they did, since the start */
    unsigned aside;    /* best models of finalists that lost */
    size_t resumed_at; /* epochs there were when it was resumed last */
    bool sound;        /* all that was written can be read */
};

#define HOLDS(c, condition)                                                    \
    do {                                                                       \
        if (!(condition)) {                                                    \
            print_error("family %s seed %llu: %s\n", (c)->family,              \
                        (unsigned long long)(c)->seed, #condition);            \
            fail();                                                            \
        }                                                                      \
    } while (0)

/* A trial that is finished is not run again; the incumbent, which the others
 * are compared with, may be. What was measured of it is still known when it
 * ends. */
static void check_trial(struct check *c, const struct record *r)
{
    uint32_t n = r->trial.trial;
    const struct history_trial *was =
        n <= c->h.trials ? &c->h.trial[n - 1] : NULL;
    if (r->kind == RECORD_TRIAL_STARTED)
        HOLDS(c, c->begun[n]++ == 0);
    if (r->trial.incumbent)
        return;
    if (r->kind == RECORD_TRIAL_UPDATED)
        HOLDS(c, !c->finished[n]);
    if (r->kind == RECORD_TRIAL_UPDATED && r->trial.label == TRIAL_RUNNING)
        HOLDS(c, was && (was->t.label == TRIAL_RUNNING ||
                         !c->h.search[r->trial.search - 1].decided));
    if (r->kind == RECORD_TRIAL_ENDED) {
        HOLDS(c, !c->finished[n]);
        HOLDS(c, !was || r->trial.figures.samples != was->t.figures.samples ||
                     !(was->t.figures.window_noise > 0) ||
                     r->trial.figures.window_noise > 0);
        c->finished[n] = r->trial.label != TRIAL_INTERRUPTED;
    }
}

static void check_slice(struct check *c, const struct record *r)
{
    HOLDS(c, r->slice_scheduled.first >= c->next);
    c->next = r->slice_scheduled.first + r->slice_scheduled.count;
}

/* Texts of a strategy that began anew mean a trial since then. */
static void check_text(struct check *c, const char *text)
{
    unsigned n;

    for (; c->anew && (text = strstr(text, "trial ")); text++)
        if (sscanf(text, "trial %u", &n) == 1) {
            HOLDS(c, n >= c->first && n <= c->h.trials);
            c->named += c->first > 1;
        }
}

static void check_record(struct check *c, const struct record *r)
{
    switch (r->kind) {
    case RECORD_TRIAL_STARTED:
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        check_trial(c, r);
        break;
    case RECORD_SLICE_SCHEDULED:
        check_slice(c, r);
        break;
    case RECORD_DECISION: /* what is saved can be restored */
        HOLDS(c, !strstr(r->decision.text, "does not fit the strategy"));
        HOLDS(c, !c->sound || !strstr(r->decision.text, "cannot be used"));
        check_text(c, r->decision.text);
        c->aside += strcmp(r->decision.decision, "best") == 0;
        break;
    case RECORD_SETTING_CHOSEN:
        check_text(c, r->setting_chosen.reason);
        break;
    case RECORD_RUN_FINISHED:
        check_text(c, r->run_finished.message);
        break;
    case RECORD_RUN_RESUMED:
        c->resumed_at = c->h.epochs;
        c->searches += r->run_resumed.search > 0;
        c->trained += r->run_resumed.epoch > 0;
        if (!r->run_resumed.path[0]) /* else after its search */
            c->first = (uint32_t)c->h.trials + 1;
        else if (c->anew) /* who ended since goes on */
            memset(c->finished, 0, c->n);
        break;
    default:
        break;
    }
}

/* One surviving epoch of each number; none is better than the best, which may
 * be a finalist's that lost: of what ran since the run was resumed last, nor is
 * any that is kept by nobody. */
static void check_epochs(struct check *c)
{
    const struct history *h = &c->h;
    const struct history_epoch *best = history_best_epoch(h);
    uint32_t epochs = history_epochs(h), seen = 0;

    for (size_t i = 0; i < h->epochs; i++) {
        const struct record_epoch_ended *e = &h->epoch[i].e;

        seen += e->surviving;
        HOLDS(c, !e->surviving || e->epoch <= epochs);
        /* The metric of the simulator is an error: less is better. */
        if (best && (e->surviving || (!c->anew && i >= c->resumed_at)) &&
            h->run.metric[0])
            HOLDS(c, !(e->metric < best->e.metric));
    }
    HOLDS(c, seen <= epochs);
    HOLDS(c, !best || best->e.surviving || c->aside);
}

static void check_end(struct check *c, const struct sim_result *r)
{
    const struct history *h = &c->h;
    const struct history_epoch *best = history_best_epoch(h);

    HOLDS(c, h->finished);
    HOLDS(c, fabs(h->end.waiting_s - c->waited_s) <= 1e-9);
    HOLDS(c, c->answer_s == 0 || h->end.waiting_s > c->answer_s);
    /* Killed after its last epoch, it trains none more. */
    HOLDS(c, history_epochs(h) <= c->max_epochs);
    for (size_t i = 0; i < h->searches && r->finish.status == RUN_FINISHED; i++)
        HOLDS(c, h->search[i].ended || r->finish.reason[0] == 'm');
    for (size_t i = 0; i < h->trials; i++)
        HOLDS(c, c->begun[i + 1] == 1);
    check_epochs(c);
    if (r->finish.status != RUN_FINISHED ||
        strcmp(r->finish.reason, "max_time") == 0)
        return;
    HOLDS(c, best &&
                 (h->model.path[0] == '\0' || h->model.epoch == best->e.epoch));
    HOLDS(c, isfinite(r->loss));
    HOLDS(c, h->at_s <= r->seconds);
}

struct totals {
    unsigned runs, crashed, damaged;
    unsigned searches; /* that went on with the trials they knew */
    unsigned trained;  /* resumes that went on with an epoch */
    unsigned named;    /* trials in texts of a strategy that began anew */
    unsigned aside;    /* best models of finalists that lost */
    double longer; /* sum of virtual time, relative to the undisturbed run */
};

static unsigned check_journal(const struct sim_family *f, uint64_t seed,
                              const json_t *journal, const struct sim_result *r,
                              struct totals *t)
{
    struct check c = {.family = f->name,
                      .seed = seed,
                      .max_epochs = f->max_epochs,
                      .answer_s = f->answer_s,
                      .sound = r->damaged == 0 && f->torture == 0,
                      .first = 1};
    size_t n = json_array_size(journal);

    c.anew = f->strategy && strcmp(f->strategy, "mltuner") != 0 &&
             strcmp(f->strategy, "fixed") != 0;
    c.begun = calloc(n + 1, sizeof(*c.begun));
    c.finished = calloc(n + 1, sizeof(*c.finished));
    c.n = n + 1;
    history_init(&c.h);
    for (size_t i = 0; i < n; i++) {
        struct record record;

        assert_int_equal(
            record_from_json(json_array_get(journal, i), &record, NULL),
            ERR_OK);
        check_record(&c, &record);
        if (record.kind == RECORD_SLICE_ENDED)
            c.waited_s += record.slice_ended.waiting_s;
        assert_int_equal(history_apply(&c.h, &record), ERR_OK);
        record_deinit(&record);
    }
    check_end(&c, r);
    history_deinit(&c.h);
    free(c.begun);
    free(c.finished);
    t->named += c.named;
    t->trained += c.trained;
    t->aside += c.aside;
    return c.searches;
}

/* ---- runs ---------------------------------------------------------------- */

/* Kills at moments drawn over the length of the undisturbed run. */
static void kill_and_check(const struct sim_family *f, uint64_t seed,
                           double damage, struct totals *t)
{
    struct sim_options o = {0};
    struct sim_result whole, r;
    uint64_t crash[CRASHES_MAX];
    json_t *journal = NULL;
    struct rng rng;

    rng_init(&rng, rng_mix(seed, 5));
    run_killed(f, seed, NULL, &whole);
    o.crashes = 1 + rng_below(&rng, CRASHES_MAX);
    for (size_t i = 0; i < o.crashes; i++)
        crash[i] = rng_below(&rng, whole.actions);
    o.crash = crash;
    o.damage = damage;
    o.from_beginning = damage > 0;
    o.journal = &journal;
    run_killed(f, seed, &o, &r);
    t->searches += check_journal(f, seed, journal, &r, t);
    json_decref(journal);
    t->runs++;
    t->crashed += r.crashed;
    t->damaged += r.damaged;
    t->longer += r.seconds / whole.seconds;
}

static void kill_family(const struct sim_family *f, unsigned few, double damage)
{
    unsigned n = sim_seeds(few);
    struct totals t = {0};

    for (unsigned seed = 1; seed <= n; seed++)
        kill_and_check(f, seed, damage, &t);
    assert_true(t.crashed > n / 2);
    if (sim_fewer()) /* what few kills meet is up to chance */
        return;
    if (damage > 0)
        assert_true(t.damaged > 0);
    if (!f->strategy)
        assert_true(t.searches > 0);
    else if (strcmp(f->strategy, "fixed") != 0)
        assert_true(t.named > 0);
    if (f->strategy && f->max_epochs > 100)
        assert_true(t.trained > 0);
    if (f->test_noise > 0)
        assert_true(t.aside > 0);
    printf("sim_killed family=%s runs=%u kills=%u searches_resumed=%u "
           "trained_on=%u damaged=%u time=%.2f\n",
           f->name, t.runs, t.crashed, t.searches, t.trained, t.damaged,
           t.longer / t.runs);
}

/* Killed anywhere, also while it resumes, a run ends with all it promises. */
static void resume_after_kills_loses_and_repeats_nothing(void **state)
{
    struct sim_family f = plain;

    (void)state;
    kill_family(&f, 40, 0);
    f.name = "killed-converged"; /* many re-tunes */
    f.converged = true;
    kill_family(&f, 20, 0);
    f = plain;
    f.name = "killed-moved";
    f.ball = 0.1;
    f.moved = 0.1;
    f.moved_after = 4;
    kill_family(&f, 20, 0);
    f = plain;
    f.name = "killed-waiting"; /* what it waited is counted over all resumes */
    f.answer_s = 5e-3;
    kill_family(&f, 20, 0);
    f = plain;
    f.name = "killed-noisy"; /* finalists that lose have the best model */
    f.test_noise = 0.5;
    kill_family(&f, 20, 0);
}

/* Kills at each of the last actions of a run that writes many snapshots: the
 * one that is under way at its end is of its last epoch. */
static unsigned kill_near_the_end(const struct sim_family *f, uint64_t seed)
{
    enum { LAST = 30 };
    struct sim_result whole, r;
    struct totals t = {0};
    unsigned ended = 0;

    run_killed(f, seed, NULL, &whole);
    assert_string_equal(whole.finish.reason, "max_epochs");
    for (uint64_t i = 1; i <= LAST && i < whole.actions; i++) {
        uint64_t crash = whole.actions - i;
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = &crash, .crashes = 1, .journal = &journal};

        run_killed(f, seed, &o, &r);
        check_journal(f, seed, journal, &r, &t);
        json_decref(journal);
        if (!r.finish.reason[0]) /* its end was journaled already */
            continue;
        assert_string_equal(r.finish.reason, "max_epochs");
        assert_int_equal(r.epochs, whole.epochs);
        ended += r.clocks == whole.clocks; /* it had only its model to write */
    }
    return ended;
}

/* A run that is killed after its last epoch trains none more. */
static void resume_after_the_last_epoch_trains_no_more(void **state)
{
    static const char *const strategies[] = {NULL, "fixed", "asha"};
    struct sim_family f = plain;
    unsigned ended = 0;

    (void)state;
    f.name = "killed-at-the-end";
    f.clock_s = 1;
    f.max_epochs = 4;
    f.plateau_epochs = 1000;
    f.max_trials = 6;
    for (unsigned i = 0; i < 3; i++) {
        f.strategy = strategies[i];
        for (unsigned seed = 1; seed <= sim_seeds(8); seed++)
            ended += kill_near_the_end(&f, seed);
    }
    assert_true(ended > 0);
}

/* The same of contests, whose snapshot of the end is of the best model: epochs
 * that came after it were trained all the same. */
static void resume_after_the_end_keeps_epochs_after_the_best(void **state)
{
    static const char *const strategies[] = {"tupaq", "complete", "hyperband",
                                             "asha", "pbt"};
    unsigned ended = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(strategies) / sizeof(*strategies); i++)
        for (unsigned seed = 1; seed <= sim_seeds(4); seed++) {
            struct sim_family f = plain;

            f.name = "killed-after-the-best";
            f.strategy = strategies[i];
            f.clock_s = 1;
            f.max_epochs = 6;
            f.plateau_epochs = 1000;
            f.max_trials = 2;
            f.test_noise = 0.5; /* the best is seldom the last */
            ended += kill_near_the_end(&f, seed);
        }
    assert_true(ended > 0);
}

/* A resume where no metric is measured, an epoch has fixed parts, memory is
 * short, lengths are given in clocks. */
static void resume_after_kills_in_other_families(void **state)
{
    struct sim_family f = plain;

    (void)state;
    f.name = "killed-novalid";
    f.validation = 0;
    kill_family(&f, 10, 0);
    f = plain;
    f.name = "killed-parts";
    f.parts = 64;
    kill_family(&f, 10, 0);
    f = plain;
    f.name = "killed-memory";
    f.branches_max = 7;
    kill_family(&f, 10, 0);
    f = plain;
    f.name = "killed-clocks";
    f.trial_clocks = 24;
    kill_family(&f, 10, 0);
    f = plain;
    f.name = "killed-initial";
    f.initial = "{\"learning_rate\": 0.001}";
    kill_family(&f, 10, 0);
    f = plain;
    f.name = "killed-late"; /* training diverges and is rescued */
    f.late_limit = 2;
    f.late_after = 2;
    kill_family(&f, 20, 0);
}

/* Trials of the first search, as its journal has them last; 0: it did not end.
 */
static uint32_t first_search_trials(const json_t *journal)
{
    uint32_t trials = 0;

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record record;

        assert_int_equal(
            record_from_json(json_array_get(journal, i), &record, NULL),
            ERR_OK);
        if (record.kind == RECORD_SEARCH_ENDED &&
            record.search_ended.search == 1)
            trials = record.search_ended.trials;
        record_deinit(&record);
    }
    return trials;
}

/* A search that has ended since nothing converges, and whose snapshot is not
 * yet written when the run is killed, ends after the same trials once more. */
static void resume_of_a_search_without_a_winner_tries_no_more(void **state)
{
    struct sim_family f = plain;
    struct sim_options o = {.crashes = 1};
    struct sim_result whole, r;
    json_t *journal = NULL;
    uint32_t trials;

    (void)state;
    f.name = "killed-undecided";
    f.noise = 30;
    f.converged = true;
    f.trial_clocks = 24;
    f.max_epochs = 3;
    o.journal = &journal;
    o.crashes = 0;
    run_killed(&f, 3, &o, &whole);
    trials = first_search_trials(journal);
    json_decref(journal);
    assert_true(trials > 0);
    assert_true(trials < 18);
    for (uint64_t at = 1; at < whole.actions; at++) {
        journal = NULL;
        o.crashes = 1;
        o.crash = &at;
        run_killed(&f, 3, &o, &r);
        if (first_search_trials(journal) != trials)
            print_error("killed at action %llu\n", (unsigned long long)at);
        assert_int_equal(first_search_trials(journal), trials);
        json_decref(journal);
    }
}

/* ---- the same end -------------------------------------------------------- */

static void fold_journal(const json_t *journal, struct history *h)
{
    history_init(h);
    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        assert_int_equal(history_apply(h, &r), ERR_OK);
        record_deinit(&r);
    }
}

/* What a run has come to: its end, the setting, the best epoch, and @epochs:
 * all that survive. */
static json_t *outcome_of(const json_t *journal, bool epochs)
{
    static const char *const members[] = {"status", "reason", "setting", "loss",
                                          "metric", "best",   "epochs"};
    json_t *o = json_object(), *list = json_array(), *result;
    struct history h;

    fold_journal(journal, &h);
    result = history_result(&h, NULL, NULL);
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        json_object_set(o, members[i], json_object_get(result, members[i]));
    for (size_t i = 0; i < h.epochs && epochs; i++) {
        const struct record_epoch_ended *e = &h.epoch[i].e;

        if (e->surviving)
            json_array_append_new(
                list, json_pack("[i, f, f, O]", (int)e->epoch, e->loss,
                                isnan(e->metric) ? 0 : e->metric, e->setting));
    }
    json_object_set_new(o, "list", list);
    json_decref(result);
    history_deinit(&h);
    return o;
}

static void tell_difference(const json_t *expected, const json_t *found)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)expected, name, value)
    {
        const json_t *other = json_object_get(found, name);
        char *a, *b;
        size_t i = 0;

        if (json_equal(value, other))
            continue;
        while (json_is_array(value) &&
               json_equal(json_array_get(value, i), json_array_get(other, i)))
            i++;
        if (json_is_array(value)) {
            value = json_array_get(value, i);
            other = json_array_get(other, i);
        }
        a = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        b = json_dumps(other, JSON_ENCODE_ANY | JSON_COMPACT);
        print_error("  %s: %s, not %s\n", name, b ? b : "-", a ? a : "-");
        free(a);
        free(b);
    }
}

/* Killed at every @step-th action in turn, and soon after it went on once more,
 * a run comes to the same as without. */
static void check_same_end(const struct sim_family *f, uint64_t seed,
                           uint64_t step)
{
    uint64_t crash[2] = {seed % step + 1, 40};
    struct sim_result whole, r;
    json_t *journal = NULL, *expected;
    struct sim_options o = {.crash = crash, .journal = &journal};

    run_killed(f, seed, &o, &whole);
    /* Before a first search that begins anew there was an epoch that counts for
     * nothing: only the undisturbed run still shows it. */
    expected = outcome_of(journal, !f->initial);
    json_decref(journal);
    assert_true(whole.actions > 100);
    for (; crash[0] < whole.actions; crash[0] += step) {
        json_t *found;

        journal = NULL;
        o.crashes = 1 + crash[0] % 2;
        run_killed(f, seed, &o, &r);
        found = outcome_of(journal, !f->initial);
        if (!json_equal(found, expected)) {
            tell_difference(expected, found);
            print_error("family %s seed %llu: another end if killed at action "
                        "%llu\n",
                        f->name, (unsigned long long)seed,
                        (unsigned long long)crash[0]);
        }
        assert_true(json_equal(found, expected));
        json_decref(found);
        json_decref(journal);
    }
    json_decref(expected);
}

static void check_same_ends(const struct sim_family *f, uint64_t step)
{
    for (unsigned seed = 1; seed <= sim_seeds(2); seed++)
        check_same_end(f, seed, sim_fewer() ? 3 * step : step);
}

/* Trials take two and a half epochs; noise is that of setting and position. */
static struct sim_family repeating(const char *name)
{
    struct sim_family f = plain;

    f.name = name;
    f.repeats = true;
    f.samples = 1024;
    f.validation = 256;
    f.test_noise = 0.02;
    f.noise = 3;
    f.jitter = 0.3;
    f.max_trials = 8;
    f.trial_clocks = 20;
    f.max_epochs = 40;
    f.snapshot_s = 0.4; /* an epoch takes 0.26 */
    f.disk_s = 0.35;
    return f;
}

/* Where lengths are given in clocks no decision reads one. So a run that is
 * killed at whatever moment ends with the settings, losses and metrics, to the
 * bit, that it would have had: also where a trial takes longer than an epoch,
 * and while its finalists run. */
static void resume_ends_as_if_nothing_had_happened(void **state)
{
    struct sim_family f = repeating("same-once");

    (void)state;
    f.plateau_epochs = 1000;
    f.max_epochs = 20;
    check_same_ends(&f, 3);
    f = repeating("same-retunes");
    check_same_ends(&f, 11);
    f = repeating("same-initial");
    f.initial = "{\"learning_rate\": 0.001}";
    check_same_ends(&f, 11);
    f = repeating("same-rescued");
    f.late_limit = 2;
    f.late_after = 3;
    check_same_ends(&f, 11);
    f = repeating("same-batches");
    f.space = "{" RATE ", \"batch_size\": {\"type\": \"int\", "
              "\"values\": [16, 64, 100]}}";
    f.searcher = &searcher_tpe;
    f.max_trials = 14;
    check_same_ends(&f, 23);
    f = repeating("same-parts");
    f.parts = 16;
    check_same_ends(&f, 11);
    f = repeating("same-undecided");
    f.noise = 30;
    f.converged = true;
    check_same_ends(&f, 5);
    f = repeating("same-finals-again"); /* of seed 1 */
    f.trial_clocks = 4;
    f.max_epochs = 12;
    f.late_limit = 0.2;
    f.late_after = 1;
    check_same_end(&f, 1, 3);
}

/* So does one whose finalists are looked at with a lower rate. */
static void resume_among_looks_ends_the_same(void **state)
{
    struct sim_family f = repeating("same-looked");
    struct sim_options o = {.numbers = true};
    struct sim_result r;
    char *trace = NULL;

    (void)state;
    f.plateau_samples = 20 * f.samples;
    f.max_epochs = 30;
    o.trace = &trace;
    sim_run(&f, 1, &o, &r);
    assert_non_null(strstr(trace, "was looked at with a lower learning rate"));
    mem_free(trace);
    check_same_end(&f, 1, sim_fewer() ? 21 : 7);
}

/* So does a search that begins with what earlier runs found. */
static void resume_of_a_primed_search_ends_the_same(void **state)
{
    struct sim_family f = repeating("same-primed");
    const uint64_t before[] = {101, 102};
    struct earlier earlier;

    (void)state;
    f.searcher = &searcher_tpe;
    f.max_trials = 14;
    warm_from(&f, before, 2, &earlier);
    f.earlier = &earlier;
    check_same_ends(&f, 23);
}

static bool tells(const json_t *journal, const char *text)
{
    char *all = json_dumps(journal, JSON_COMPACT);
    bool found = all && strstr(all, text);

    free(all);
    return found;
}

/* So does one that, without progress, ends with a cooldown: from its last
 * epoch, or from an earlier one that was better. */
static void resume_ends_cooled_as_if_nothing_had_happened(void **state)
{
    unsigned cooled = 0, back = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct sim_family f = repeating("same-cooled");
        json_t *journal = NULL;
        struct sim_options o = {.journal = &journal};
        struct sim_result r;

        f.plateau_epochs = 3;
        f.max_epochs = 100;
        run_killed(&f, seed, &o, &r);
        cooled += tells(journal, "the learning rate falls to nearly zero");
        back += tells(journal, "the cooldown starts there again");
        json_decref(journal);
        check_same_end(&f, seed, sim_fewer() ? 33 : 7);
    }
    assert_true(cooled > 0 && back > 0);
}

/* However few copies of the model fit, it ends. */
static void cooled_end_comes_in_little_memory(void **state)
{
    unsigned cooled = 0;

    (void)state;
    for (unsigned most = 6; most <= 9; most++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct sim_family f = repeating("little-memory");
            json_t *journal = NULL;
            struct sim_options o = {.journal = &journal};
            struct sim_result r;

            f.branches_max = most;
            f.plateau_epochs = 3;
            f.max_epochs = 100;
            run_killed(&f, seed, &o, &r);
            assert_string_equal(r.finish.reason, "converged");
            cooled += tells(journal, "the learning rate falls to nearly zero");
            json_decref(journal);
        }
    assert_true(cooled > 0);
}

/* When epoch @epoch of the run ended. */
static double ended_at(const json_t *journal, uint32_t epoch)
{
    double at_s = NAN;

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        if (r.kind == RECORD_EPOCH_ENDED && r.epoch_ended.epoch == epoch)
            at_s = r.at_s;
        record_deinit(&r);
    }
    return at_s;
}

/* Whether the run went on within a search of @from or a later number. */
static bool went_on_in(const json_t *journal, uint32_t from)
{
    bool did = false;

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        did |= r.kind == RECORD_RUN_RESUMED && r.run_resumed.search >= from;
        record_deinit(&r);
    }
    return did;
}

/* Epochs are short, so that twenty of them are waited for. A search that the
 * user asks for after eight without progress finds nothing: killed within it,
 * the run waits for as many still. */
static void resume_within_a_search_keeps_its_patience(void **state)
{
    struct sim_family f = repeating("same-patient");
    struct sim_result whole, r;
    json_t *journal = NULL, *expected, *found;
    uint64_t crash = 0;
    struct sim_options o = {.crash = &crash, .journal = &journal};
    unsigned within = 0;

    (void)state;
    f.converged = true;
    f.initial = "{\"learning_rate\": 0.001}";
    f.test_noise = 0;
    f.max_epochs = 100;
    f.plateau_epochs = 5;
    f.plateau_samples = 12 * 4096;
    run_killed(&f, 1, &o, &whole);
    f.command[0].at_s = ended_at(journal, 9) + 0.01;
    f.command[0].command = COMMAND_RETUNE;
    json_decref(journal);
    journal = NULL;
    run_killed(&f, 1, &o, &whole);
    assert_string_equal(whole.finish.reason, "converged");
    expected = outcome_of(journal, true);
    json_decref(journal);
    o.crashes = 1;
    for (crash = 2; crash < whole.actions; crash += 7) {
        journal = NULL;
        run_killed(&f, 1, &o, &r);
        if (went_on_in(journal, 2)) {
            found = outcome_of(journal, true);
            if (!json_equal(found, expected)) {
                tell_difference(expected, found);
                fail_msg("killed at action %llu", (unsigned long long)crash);
            }
            json_decref(found);
            within++;
        }
        json_decref(journal);
    }
    json_decref(expected);
    assert_true(within > 10);
}

/* The same of other strategies; a contest that has a snapshot of its search
 * goes on within it. A contest has many actions: the gate kills at fewer. */
static void resume_of_other_strategies_ends_the_same(void **state)
{
    static const char *const others[] = {"fixed", "hyperband", "pbt", "asha"};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct sim_family f = repeating(others[i]);

        f.strategy = others[i];
        f.parts = 8;
        check_same_ends(&f, i > 0 && !getenv("SIM_SEEDS") ? 151 : 17);
    }
}

/* What the trials have come to: label, clocks and samples of each, whether it
 * has a speed, what it was tested with, and how many were stopped. */
static json_t *trials_of(const struct history *h)
{
    json_t *list = json_array(), *result = history_result(h, NULL, NULL);
    const json_t *tuning = json_object_get(result, "tuning");

    for (size_t i = 0; i < h->trials; i++) {
        const struct record_trial *t = &h->trial[i].t;

        json_array_append_new(
            list,
            json_pack("[i, s, I, I, b, b, f]", (int)t->trial,
                      trial_label_name(t->label), (json_int_t)t->figures.clocks,
                      (json_int_t)t->figures.samples,
                      (int)(t->figures.speed > 0), (int)t->figures.tested,
                      t->figures.result));
    }
    assert_true(h->trials > 0 && h->trial[h->trials - 1].t.figures.tested);
    json_array_append(list, json_object_get(tuning, "stopped"));
    json_decref(result);
    return json_pack("{s: o}", "trials", list);
}

/* A run that was, or was not, interrupted or killed. */
struct disturbed {
    json_t *outcome, *trials; /* the caller's */
    uint64_t clocks;          /* of all that ran */
    uint64_t tuning;          /* clocks that its search took beside the winner's
                               */
    size_t searches;
    bool within;  /* it went on within its search */
    bool folders; /* trials had some */
};

static void disturbed_deinit(struct disturbed *d)
{
    json_decref(d->outcome);
    json_decref(d->trials);
}

static struct disturbed disturbed_of(const struct sim_family *f, uint64_t seed,
                                     const struct sim_options *how)
{
    json_t *journal = NULL;
    struct sim_options o = *how;
    struct disturbed out;
    struct sim_result r;
    struct history h;

    o.journal = &journal;
    run_killed(f, seed, &o, &r);
    assert_int_equal(r.finish.status, RUN_FINISHED);
    fold_journal(journal, &h);
    out.outcome = outcome_of(journal, true);
    out.trials = trials_of(&h);
    out.clocks = history_clocks(&h);
    out.tuning = history_tuning(&h).clocks;
    out.within = went_on_in(journal, 1);
    out.searches = history_searches_made(&h);
    out.folders = tells(journal, "\"trials\":[{\"trial\"");
    history_deinit(&h);
    json_decref(journal);
    return out;
}

static void check_equal(const json_t *expected, const json_t *found,
                        const struct sim_family *f, uint64_t seed, unsigned i,
                        const char *how)
{
    if (json_equal(found, expected))
        return;
    tell_difference(expected, found);
    fail_msg("%s seed %llu: another end if %s at moment %u", f->strategy,
             (unsigned long long)seed, how, i);
}

enum { MOMENTS = 10, SLICE_CLOCKS = 16 };

struct seen {
    unsigned anew;   /* a second search began */
    unsigned within; /* it went on within its search */
};

/* Interrupts @f, or kills it, at ten moments of its @seconds. */
static struct seen disturb_at_moments(struct sim_family f, uint64_t seed,
                                      double seconds, bool kill,
                                      const struct disturbed *whole)
{
    const char *how = kill ? "killed" : "interrupted";
    uint64_t never[] = {UINT64_MAX};
    struct seen seen = {0};

    for (unsigned i = 1; i <= MOMENTS; i++) {
        struct sim_options o = {.crash = never, .crashes = 1};
        struct disturbed found;

        if (kill) {
            o = (struct sim_options){.crash_s = seconds * i / (MOMENTS + 1)};
        } else {
            f.command[0].at_s = seconds * i / (MOMENTS + 1);
            f.command[0].command = COMMAND_INTERRUPT;
        }
        found = disturbed_of(&f, seed, &o);
        check_equal(whole->outcome, found.outcome, &f, seed, i, how);
        assert_true(found.clocks >= whole->clocks);
        seen.anew += found.searches > 1;
        seen.within += found.within;
        if (found.searches == 1) {
            check_equal(whole->trials, found.trials, &f, seed, i, how);
            assert_true(found.tuning >= whole->tuning);
            assert_true(found.tuning - whole->tuning <=
                        found.clocks - whole->clocks);
        }
        if (!kill && found.searches == 1 &&
            found.clocks - whole->clocks > SLICE_CLOCKS)
            fail_msg("%s: interrupted at moment %u it repeats %llu clocks",
                     f.strategy, i,
                     (unsigned long long)(found.clocks - whole->clocks));
        assert_true(!found.folders || !f.trials_anew);
        disturbed_deinit(&found);
    }
    return seen;
}

static void check_disturbed_contest(const struct sim_family *contest,
                                    uint64_t seed)
{
    struct sim_family f = *contest;
    struct sim_options o = {0};
    struct disturbed whole;
    struct sim_result r;
    struct seen seen;

    sim_run(&f, seed, NULL, &r);
    whole = disturbed_of(&f, seed, &o);
    assert_true(whole.folders);
    seen = disturb_at_moments(f, seed, r.seconds, true, &whole);
    assert_true(seen.within > 0);
    if (seed == 1) {
        seen = disturb_at_moments(f, seed, r.seconds, false, &whole);
        assert_int_equal(seen.anew, 0);
        assert_true(seen.within > 0);
        f.trials_anew = true;
        seen = disturb_at_moments(f, seed, r.seconds, false, &whole);
        assert_true(seen.anew > 0);
    }
    disturbed_deinit(&whole);
}

/* A contest goes on within its search, with all its trials and what was
 * measured of them; interrupted, no clock of theirs is run twice. Where its
 * trials are not to be in snapshots it begins the search anew, and comes to the
 * same. */
static void resume_within_a_contest_goes_on(void **state)
{
    static const char *const contests[] = {"hyperband", "asha", "pbt"};

    (void)state;
    for (size_t i = 0; i < sizeof(contests) / sizeof(*contests); i++)
        for (unsigned seed = 1; seed <= sim_seeds(3); seed++) {
            struct sim_family f = repeating(contests[i]);

            f.strategy = contests[i];
            f.parts = 8;
            check_disturbed_contest(&f, seed);
        }
}

/* Snapshots among @journal's records; fails where one has a branch whose loss
 * is no number: no resume could use it. */
static unsigned count_sound_snapshots(const json_t *journal, const char *name,
                                      unsigned seed)
{
    unsigned found = 0;
    const json_t *one;
    size_t i;

    json_array_foreach(journal, i, one)
    {
        char *text;

        if (strcmp(json_string_value(json_object_get(one, "kind")),
                   "snapshot_written") != 0)
            continue;
        text = json_dumps(one, JSON_COMPACT);
        assert_non_null(text);
        if (strstr(text, "\"sum\":\"nan\"") || strstr(text, "\"sum\":\"inf\""))
            fail_msg("%s, seed %u: %s", name, seed, text);
        free(text);
        found++;
    }
    return found;
}

/* The searches that a run began. */
static unsigned searches_begun(const json_t *journal)
{
    unsigned n = 0;
    struct history h;

    fold_journal(journal, &h);
    n = (unsigned)h.searches;
    history_deinit(&h);
    return n;
}

/* A contest of which nothing came fails the run. Who resumes that wants another
 * search: the trials that a snapshot has would only fail it again. */
static void resume_after_a_contest_that_failed_begins_another(void **state)
{
    static const char *const contests[] = {"hyperband", "asha", "pbt"};

    (void)state;
    for (size_t i = 0; i < sizeof(contests) / sizeof(*contests); i++) {
        struct sim_family f = plain;
        json_t *journal = NULL;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX};
        struct sim_options o = {
            .crash = never, .crashes = 2, .failed = 1, .journal = &journal};
        struct sim_result r;

        f.name = "contest-failed";
        f.strategy = contests[i];
        f.late_limit = 1e-9; /* all diverge at once */
        f.snapshot_s = 0.02;
        f.disk_s = 0.001;
        f.max_trials = 8;
        run_killed(&f, 1, &o, &r);
        assert_int_equal(r.finish.status, RUN_FAILED);
        assert_false(went_on_in(journal, 1));
        assert_int_equal(searches_begun(journal), 2);
        assert_true(count_sound_snapshots(journal, f.name, 1) > 0);
        json_decref(journal);
    }
}

/* A slice that was out when a snapshot was begun may diverge: that one is taken
 * again. */
static void resume_has_no_snapshot_of_what_diverged(void **state)
{
    static const char *const strategies[] = {"hyperband", "asha", "pbt",
                                             "complete", "mltuner"};
    unsigned found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(strategies) / sizeof(*strategies); i++)
        for (unsigned seed = 1; seed <= sim_seeds(10); seed++) {
            struct sim_family f = plain;
            struct sim_options o = {0};
            struct sim_result r;
            json_t *journal = NULL;

            f.name = strategies[i];
            f.strategy = strategies[i];
            f.space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-3,"
                      " \"max\": 1e3, \"scale\": \"log\"}}";
            f.late_limit = 1e-3; /* most */
            f.late_after = 1;
            f.snapshot_s = 0.02;
            f.disk_s = 0.01;
            f.max_trials = 12;
            o.journal = &journal;
            run_killed(&f, seed, &o, &r);
            found += count_sound_snapshots(journal, f.name, seed);
            json_decref(journal);
        }
    assert_true(found > 0);
}

/* Memory that runs out now and then changes nothing of that. */
static void resume_under_memory_torture(void **state)
{
    struct sim_family f = plain;

    (void)state;
    f.name = "killed-torture";
    f.torture = 20;
    kill_family(&f, 20, 0.1);
}

/* A strategy without a search goes on in its epoch. */
static void resume_of_fixed_goes_on(void **state)
{
    struct sim_family f = plain;

    (void)state;
    f.name = "killed-fixed";
    f.strategy = "fixed";
    f.max_epochs = 40;
    kill_family(&f, 20, 0);
}

/* A scheduled rate goes on from where it was, also below what the space has. */
static void resume_of_a_schedule_goes_on(void **state)
{
    struct sim_family f = plain;

    (void)state;
    f.name = "killed-schedule";
    f.strategy = "fixed";
    f.strategy_settings = "{\"schedule\": \"exponential\", \"gamma\": 0.5}";
    f.max_epochs = 30; /* 0.01 falls to 2e-11, far below the range */
    f.plateau_epochs = 30;
    kill_family(&f, 20, 0);
}

/* Once the search is over they go on with its winner. Within it `complete` and
 * `tupaq` begin anew, their numbers counted on, and so do the others before
 * their first snapshot. */
static void resume_of_contests_goes_on_after_the_search(void **state)
{
    static const char *const others[] = {"hyperband", "asha", "complete",
                                         "tupaq", "pbt"};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct sim_family f = plain;

        f.name = others[i];
        f.strategy = others[i];
        f.max_epochs = 6;
        f.max_trials = 12;
        f.max_time_s = 60;
        kill_family(&f, 10, 0);
    }
    for (size_t i = 0; i < 2; i++) {
        struct sim_family f = plain;

        f.name = others[i];
        f.strategy = others[i];
        f.strategy_settings = "{\"max_resource\": 4}";
        f.max_epochs = f.plateau_epochs = 120; /* most of them after it */
        f.max_trials = 8;
        kill_family(&f, 8, 0);
    }
}

/* A snapshot that cannot be read is passed over for the one before. */
static void resume_passes_over_damage(void **state)
{
    struct sim_family f = plain;

    (void)state;
    f.name = "killed-damaged";
    kill_family(&f, 30, 0.4);
    f.name = "killed-unreadable";
    kill_family(&f, 10, 1);
    f.name = "killed-many-trials"; /* two snapshots' are more than can live */
    f.strategy = "asha";
    f.strategy_settings = "{\"eta\": 2, \"max_resource\": 4}";
    f.max_trials = 60;
    f.max_epochs = 6;
    f.snapshot_s = 0.3;
    kill_family(&f, 8, 0.6);
}

/* Where none of them can be read, what was trained is not given up: the run is
 * interrupted, and begins anew only for a user who says so. */
static void resume_begins_anew_for_nobody_unasked(void **state)
{
    unsigned kept = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(10); seed++) {
        struct sim_family f = plain;
        struct sim_result whole, r;
        uint64_t crash;
        struct sim_options o = {.crash = &crash, .crashes = 1, .damage = 1};

        f.name = "killed-all-damaged";
        run_killed(&f, seed, NULL, &whole);
        crash = whole.actions * 3 / 4;
        run_killed(&f, seed, &o, &r);
        if (r.damaged == 0) /* it was killed within its first search */
            continue;
        kept++;
        assert_int_equal(r.finish.status, RUN_INTERRUPTED);
        assert_string_equal(r.finish.reason, "restore_failed");
        assert_non_null(strstr(r.finish.message, "--from-beginning"));
        o.from_beginning = true;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
    }
    assert_true(kept > 0);
}

/* What the resumes of @journal went on from: the newest snapshot each time,
 * though its best model was left out. */
static unsigned bests_left_out(json_t *journal)
{
    unsigned n = 0;

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        if (r.kind == RECORD_DECISION)
            n += strstr(r.decision.text, "the best model of snapshot") != NULL;
        if (r.kind == RECORD_RUN_RESUMED && n > 0)
            assert_true(r.run_resumed.path[0] && r.run_resumed.from > 0);
        if (r.kind == RECORD_DECISION)
            assert_null(strstr(r.decision.text, "anew"));
        record_deinit(&r);
    }
    return n;
}

/* A best model that is damaged costs no training: the run goes on from what was
 * trained last. */
static void resume_goes_on_without_its_best(void **state)
{
    unsigned left_out = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(10); seed++) {
        struct sim_family f = plain;
        struct sim_result whole, r;
        json_t *journal = NULL;
        uint64_t crash;
        struct sim_options o = {.crash = &crash,
                                .crashes = 1,
                                .best_damage = true,
                                .journal = &journal};

        f.name = "killed-best-damaged";
        run_killed(&f, seed, NULL, &whole);
        crash = whole.actions * (seed % 2 ? 3 : 4) / 4 - 4;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        assert_true(isfinite(r.loss));
        left_out += bests_left_out(journal);
        json_decref(journal);
    }
    assert_true(left_out > 0);
}

/* Whatever stands in a snapshot's record: it is refused, or the run goes on
 * from there to an end. */
static void resume_from_a_mangled_record_ends(void **state)
{
    static const char *const strategies[] = {NULL, "fixed"};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(60); seed++) {
        struct sim_family f = plain;
        uint64_t crash[] = {500 + 20 * seed, 400, 300, 200};
        struct sim_options o = {.crash = crash,
                                .crashes = 4,
                                .mangle = 0.7,
                                .from_beginning = true};
        struct sim_result r;

        f.name = "mangled";
        f.strategy = strategies[seed % 2];
        run_killed(&f, seed, &o, &r);
        assert_true(run_status_is_end(r.finish.status));
    }
}

/* The same within a contest, whose trials have folders and numbers. */
static void resume_of_a_contest_from_a_mangled_record_ends(void **state)
{
    static const char *const strategies[] = {"hyperband", "asha", "pbt"};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(30); seed++) {
        struct sim_family f = plain;
        uint64_t crash[] = {300 + 30 * seed, 400, 300, 200};
        struct sim_options o = {.crash = crash,
                                .crashes = 4,
                                .mangle = 0.7,
                                .from_beginning = true};
        struct sim_result r;

        f.name = "mangled-contest";
        f.strategy = strategies[seed % 3];
        f.snapshot_s = 0.3;
        run_killed(&f, seed, &o, &r);
        assert_true(run_status_is_end(r.finish.status));
    }
}

/* A run that a user interrupted goes on too. */
static void resume_of_an_interrupted_run(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(30); seed++) {
        struct sim_family f = plain;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX};
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = never, .crashes = 2, .journal = &journal};
        struct sim_result r;
        struct totals t = {0};

        f.name = "interrupted";
        f.cliff = 0;
        f.strategy = seed % 3 ? NULL : "fixed";
        f.command[0].at_s = 0.5 + 3 * seed;
        f.command[0].command = COMMAND_INTERRUPT;
        f.command[1].at_s = 10 + 6 * seed;
        f.command[1].command = COMMAND_INTERRUPT;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        check_journal(&f, seed, journal, &r, &t);
        json_decref(journal);
    }
}

/* Resumes from the state of a search that was not known any more. */
static unsigned count_over(const json_t *journal)
{
    uint32_t saved = 0;
    unsigned over = 0;
    json_t *item;
    size_t i;

    json_array_foreach(journal, i, item)
    {
        struct record r;

        assert_int_equal(record_from_json(item, &r, NULL), ERR_OK);
        if (r.kind == RECORD_SNAPSHOT_WRITTEN)
            saved =
                saved_search(snapshot_state_strategy(r.snapshot_written.state));
        over += r.kind == RECORD_RUN_RESUMED && saved > 1 &&
                r.run_resumed.search == 0;
        record_deinit(&r);
    }
    return over;
}

/* Where no snapshot could be written while many searches began, the one of the
 * last snapshot is long over: another begins from its state. */
static void resume_of_a_search_long_over_begins_another(void **state)
{
    unsigned over = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(2); seed++) {
        struct sim_family f = plain;
        json_t *journal = NULL;
        struct sim_options o = {.crash_s = 260, .journal = &journal};
        struct sim_result r;

        f.name = "retuned";
        f.max_trials = 2;
        f.max_epochs = 80;
        f.plateau_epochs = 1000;
        f.snapshot_s = 1;
        f.snapshots_until_s = 23;
        f.retune_s = 0.2;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        over += count_over(journal);
        json_decref(journal);
    }
    assert_true(over > 0);
}

/* Where each interruption left the run: the clock of the last snapshot beside
 * that of the last epoch. Returns how many interruptions there were. */
static unsigned check_nothing_lost(const json_t *journal)
{
    uint64_t epoch = 0, snapshot = 0;
    unsigned interruptions = 0;
    json_t *item;
    size_t i;

    json_array_foreach(journal, i, item)
    {
        struct record r;

        assert_int_equal(record_from_json(item, &r, NULL), ERR_OK);
        if (r.kind == RECORD_EPOCH_ENDED && r.epoch_ended.surviving)
            epoch = r.clock;
        if (r.kind == RECORD_SNAPSHOT_WRITTEN)
            snapshot = r.clock;
        if (r.kind == RECORD_RUN_FINISHED &&
            r.run_finished.status == RUN_INTERRUPTED) {
            interruptions++;
            assert_true(snapshot >= epoch);
        }
        record_deinit(&r);
    }
    return interruptions;
}

/* Also where a snapshot of an earlier moment is being written. */
static void resume_goes_on_where_the_user_interrupted(void **state)
{
    unsigned interruptions = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(30); seed++) {
        struct sim_family f = plain;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX};
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = never, .crashes = 2, .journal = &journal};
        struct sim_result r;

        f.name = "interrupted-writing";
        f.cliff = 0;
        f.validation = 16384;
        f.plateau_epochs = 1000;
        f.snapshot_s = 1;
        f.disk_s = 3;
        f.strategy = seed % 3 ? NULL : "fixed";
        f.command[0].at_s = 4 + 0.3 * seed;
        f.command[0].command = COMMAND_INTERRUPT;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        interruptions += check_nothing_lost(journal);
        json_decref(journal);
    }
    assert_true(interruptions > sim_seeds(30) / 2);
}

/* How often the last snapshot was begun after the end was decided, behind one
 * that was being written then, and is of an epoch whose test was not known. */
static unsigned count_kept_ends(const json_t *journal)
{
    unsigned count = 0, after = 0;
    uint32_t epoch = 0, snapshot = 0;
    bool ends = false;
    json_t *item;
    size_t i;

    json_array_foreach(journal, i, item)
    {
        struct record r;

        assert_int_equal(record_from_json(item, &r, NULL), ERR_OK);
        if (r.kind == RECORD_EPOCH_ENDED && r.epoch_ended.surviving)
            epoch = r.epoch_ended.epoch;
        if (r.kind == RECORD_DECISION &&
            strcmp(r.decision.decision, "end") == 0)
            ends = true;
        if (r.kind == RECORD_SNAPSHOT_WRITTEN) {
            snapshot = r.snapshot_written.epoch;
            after += ends;
        }
        if (r.kind == RECORD_RUN_FINISHED) {
            count += r.run_finished.status == RUN_INTERRUPTED && after == 2 &&
                     snapshot == epoch + 1;
            ends = false;
            after = 0;
        }
        record_deinit(&r);
    }
    return count;
}

/* The end of an epoch whose test is not over is not lost for that: not where
 * the run is interrupted while an earlier snapshot is written, either. Only a
 * test of several clocks is not known when the run has gone ahead. */
static void resume_goes_on_from_an_epoch_whose_test_was_cut(void **state)
{
    unsigned kept = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(30); seed++) {
        struct sim_family f = plain;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX};
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = never, .crashes = 2, .journal = &journal};
        struct sim_result r;

        f.name = "interrupted-testing";
        f.cliff = 0;
        f.validation = 16384;
        f.test_clocks = 8;
        f.plateau_epochs = 1000;
        f.snapshot_s = 1;
        f.disk_s = 3;
        f.strategy = "fixed";
        f.command[0].at_s = 4 + 0.3 * seed;
        f.command[0].command = COMMAND_INTERRUPT;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        check_nothing_lost(journal);
        kept += count_kept_ends(journal);
        json_decref(journal);
    }
    assert_true(kept > sim_seeds(30) / 3);
}

/* A run that trouble of the machine interrupts goes on when that is over, and
 * blames no setting for it. */
static void resume_after_trouble_of_the_machine_finishes(void **state)
{
    static const char *const strategies[] = {NULL, "fixed", "asha"};
    unsigned interrupted = 0;

    (void)state;
    for (unsigned n = 1; n <= sim_seeds(60); n++) {
        struct sim_family f = plain;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = never, .crashes = 4, .journal = &journal};
        struct sim_result r;
        struct totals t = {0};

        f.name = "troubled";
        f.strategy = strategies[n % 3];
        f.max_epochs = 6;
        f.max_trials = 8;
        f.cliff = 0;
        f.app_fails_at = 1 + 3 * n;
        f.app_fails_for = 1 + n % 7;
        f.app_fails_with = n % 2 ? ERR_IO : ERR_NODE;
        run_killed(&f, n, &o, &r);
        if (r.finish.status != RUN_FINISHED)
            fail_msg("seed %u: %s: %s", n, r.finish.reason, r.finish.message);
        check_journal(&f, n, journal, &r, &t);
        interrupted += r.crashed > 0;
        for (size_t i = 0; i < json_array_size(journal); i++) {
            struct record record;

            assert_int_equal(
                record_from_json(json_array_get(journal, i), &record, NULL),
                ERR_OK);
            if (record.kind == RECORD_TRIAL_ENDED)
                assert_int_not_equal(record.trial.label, TRIAL_FAILED);
            record_deinit(&record);
        }
        json_decref(journal);
    }
    assert_true(interrupted > 5);
}

/* A run fails, and its model cannot be written: the resume writes that. Who
 * resumes it once more, the cause mended, wants it trained. */
static void resume_of_a_failed_run_trains_once_its_model_is_saved(void **state)
{
    static const char *const strategies[] = {NULL, "fixed"};
    unsigned trained = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(12); seed++) {
        struct sim_family f = plain;
        uint64_t never[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
        json_t *journal = NULL;
        struct sim_options o = {
            .crash = never, .crashes = 4, .failed = 1, .journal = &journal};
        struct sim_result r;
        unsigned resumes = 0, after[4] = {0}, anew = 0;

        f.name = "failed-unsaved";
        f.strategy = strategies[seed % 2];
        f.clock_s = 1; /* there are snapshots */
        f.cliff = 0;
        f.late_limit = 1e-9;
        f.late_after = 5;
        f.save_fails = 4;
        run_killed(&f, seed, &o, &r);
        for (size_t i = 0; i < json_array_size(journal); i++) {
            struct record record;

            assert_int_equal(
                record_from_json(json_array_get(journal, i), &record, NULL),
                ERR_OK);
            resumes += record.kind == RECORD_RUN_RESUMED;
            anew += record.kind == RECORD_RUN_RESUMED &&
                    record.run_resumed.path[0] == '\0';
            after[resumes % 4] += record.kind == RECORD_SLICE_SCHEDULED;
            record_deinit(&record);
        }
        json_decref(journal);
        assert_int_equal(r.finish.status, RUN_FAILED);
        assert_int_equal(resumes, 2);
        assert_int_equal(anew, 0);
        assert_int_equal(after[1], 0); /* only the model was written */
        trained += after[2] > 0;
    }
    assert_int_equal(trained, sim_seeds(12));
}

/* Wishes of the user outlive a loss: the limits hold, a pause that is
 * over does not count, and one that lasts is ended by who resumes the run. */
static void resume_keeps_what_the_user_asked_for(void **state)
{
    static const struct command_limits limits = {
        LIMIT_MAX_EPOCHS | LIMIT_MAX_TIME | LIMIT_TARGET_METRIC,
        {.max_epochs = 6, .max_time_s = 1000, .target_metric = NAN}};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(20); seed++) {
        struct sim_family f = plain;
        uint64_t crash[] = {400 + 37 * seed, 300};
        struct sim_options o = {.crash = crash, .crashes = 2};
        struct sim_result r;

        f.name = "steered";
        f.strategy = seed % 3 ? NULL : "fixed";
        f.max_epochs = 100000;
        f.plateau_epochs = 100000;
        f.max_time_s = 30;
        f.target_metric = 1e-9;
        f.command[0].at_s = 0.02;
        f.command[0].command = COMMAND_LIMITS;
        f.command[0].limits = limits;
        f.command[1].at_s = 0.04;
        f.command[1].command = COMMAND_PAUSE;
        f.command[2].at_s = 2000;
        f.command[2].command = COMMAND_CONTINUE;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        assert_int_equal(r.answered, 3);
        if (strcmp(r.finish.reason, "max_epochs") != 0 || r.epochs != 6)
            fail_msg("seed %u: %u epochs: %s", seed, r.epochs,
                     r.finish.message);
    }
}

/* A run that is started again in a pause, and stopped in it, has the model of
 * its snapshot. */
static void resume_stopped_in_a_pause_has_its_model(void **state)
{
    unsigned models = 0;

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(12); seed++) {
        struct sim_family f = plain;
        struct sim_options o = {.crash_s = 3000, .restarts = true};
        struct sim_result r;

        f.name = "stopped-paused";
        f.strategy = seed % 2 ? NULL : "fixed";
        f.max_epochs = 100000;
        f.plateau_epochs = 100000;
        f.command[0].at_s = 100;
        f.command[0].command = COMMAND_SNAPSHOT;
        f.command[1].at_s = 200;
        f.command[1].command = COMMAND_PAUSE;
        f.command[2].at_s = 4000;
        f.command[2].command = COMMAND_STOP;
        run_killed(&f, seed, &o, &r);
        assert_int_equal(r.crashed, 1);
        assert_int_equal(r.answered, 3);
        assert_int_equal(r.finish.status, RUN_STOPPED);
        models += isfinite(r.loss);
    }
    assert_int_equal(models, sim_seeds(12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_after_kills_loses_and_repeats_nothing),
        cmocka_unit_test(resume_after_the_last_epoch_trains_no_more),
        cmocka_unit_test(resume_after_the_end_keeps_epochs_after_the_best),
        cmocka_unit_test(resume_after_kills_in_other_families),
        cmocka_unit_test(resume_of_a_search_without_a_winner_tries_no_more),
        cmocka_unit_test(resume_ends_as_if_nothing_had_happened),
        cmocka_unit_test(resume_among_looks_ends_the_same),
        cmocka_unit_test(resume_of_a_primed_search_ends_the_same),
        cmocka_unit_test(resume_ends_cooled_as_if_nothing_had_happened),
        cmocka_unit_test(cooled_end_comes_in_little_memory),
        cmocka_unit_test(resume_within_a_search_keeps_its_patience),
        cmocka_unit_test(resume_of_other_strategies_ends_the_same),
        cmocka_unit_test(resume_within_a_contest_goes_on),
        cmocka_unit_test(resume_after_a_contest_that_failed_begins_another),
        cmocka_unit_test(resume_has_no_snapshot_of_what_diverged),
        cmocka_unit_test(resume_under_memory_torture),
        cmocka_unit_test(resume_of_fixed_goes_on),
        cmocka_unit_test(resume_of_a_schedule_goes_on),
        cmocka_unit_test(resume_of_contests_goes_on_after_the_search),
        cmocka_unit_test(resume_passes_over_damage),
        cmocka_unit_test(resume_begins_anew_for_nobody_unasked),
        cmocka_unit_test(resume_goes_on_without_its_best),
        cmocka_unit_test(resume_from_a_mangled_record_ends),
        cmocka_unit_test(resume_of_a_contest_from_a_mangled_record_ends),
        cmocka_unit_test(resume_of_an_interrupted_run),
        cmocka_unit_test(resume_of_a_search_long_over_begins_another),
        cmocka_unit_test(resume_goes_on_where_the_user_interrupted),
        cmocka_unit_test(resume_goes_on_from_an_epoch_whose_test_was_cut),
        cmocka_unit_test(resume_after_trouble_of_the_machine_finishes),
        cmocka_unit_test(resume_of_a_failed_run_trains_once_its_model_is_saved),
        cmocka_unit_test(resume_keeps_what_the_user_asked_for),
        cmocka_unit_test(resume_stopped_in_a_pause_has_its_model),
    };

    cmocka_set_test_filter(getenv("ONLY") ? getenv("ONLY") : "*");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
