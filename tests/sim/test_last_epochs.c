/* The last epochs of a run. A cooldown that its time ends: killed within it, it
 * goes on with rates that fall; and they never rise. Results that are equal:
 * nothing is thrown away. */
#include "base/mem.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"
#include "tuner/history/record.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static struct sim_family timed(void)
{
    return (struct sim_family){
        .name = "timed",
        .space = "{" RATE "}",
        .samples = 4096,
        SIM_PACED,
        .max_epochs = 100000,
        SIM_USUAL,
        .plateau_epochs = 100000,
        .max_time_s = 60,
        .snapshot_s = 0.4, /* an epoch takes 0.3 */
    };
}

struct rates {
    double first;   /* that the cooldown fell from; NAN: it has not begun */
    double highest; /* of what was trained with in it, after a resume */
    unsigned resumed;
};

/* A resume goes back to its snapshot: the cooldown may not have begun there. */
static void look_at(const struct record *r, struct rates *rates)
{
    if (r->kind == RECORD_RUN_RESUMED)
        rates->resumed++;
    if (r->kind == RECORD_DECISION &&
        strcmp(r->decision.decision, "cooldown") == 0)
        rates->first = r->decision.number[1].value;
    if (r->kind == RECORD_SETTING_CHOSEN && rates->resumed &&
        strcmp(r->setting_chosen.reason, "the run goes on") == 0)
        rates->highest = json_number_value(
            json_object_get(r->setting_chosen.setting, "learning_rate"));
}

static struct rates rates_of(const json_t *journal)
{
    struct rates rates = {.first = NAN, .highest = NAN};

    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;

        assert_int_equal(record_from_json(json_array_get(journal, i), &r, NULL),
                         ERR_OK);
        look_at(&r, &rates);
        record_deinit(&r);
    }
    return rates;
}

/* Killed in the last tenth of its time, long after the cooldown began. */
static void last_epochs_fall_after_a_resume(void **state)
{
    unsigned resumed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim_family f = timed();
        json_t *journal = NULL;
        uint64_t crash;
        struct sim_options o = {.journal = &journal, .crash = &crash};
        struct sim_result r;
        struct rates rates;

        sim_run(&f, seed, NULL, &r);
        crash = r.actions * 19 / 20;
        o.crashes = 1;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        assert_string_equal(r.finish.reason, "max_time");
        rates = rates_of(journal);
        json_decref(journal);
        assert_false(isnan(rates.first));
        resumed += rates.resumed;
        if (!(rates.highest < 0.7 * rates.first))
            fail_msg("seed %u: goes on with %g, fell from %g", (unsigned)seed,
                     rates.highest, rates.first);
    }
    assert_int_equal(resumed, 6);
}

/* What an epoch takes changes all the time, and so does how many fit: the rate
 * falls in a cooldown, or stays. The run's status says that it is one. */
static void last_epochs_never_train_faster(void **state)
{
    unsigned cooled = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim_family f = timed();
        json_t *journal = NULL;
        struct sim_options o = {.journal = &journal};
        struct sim_result r;
        double rate = INFINITY;
        bool told = false; /* the run's status: that it cools down */

        f.name = "uneven";
        f.cost_noise = 0.3;
        f.hiccup = 0.02;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        for (size_t i = 0; i < json_array_size(journal); i++) {
            struct record k;

            assert_int_equal(
                record_from_json(json_array_get(journal, i), &k, NULL), ERR_OK);
            if (k.kind == RECORD_RUN_STATUS)
                told = strstr(k.run_status.reason, "cooldown");
            assert_true(k.kind != RECORD_EPOCH_ENDED ||
                        !k.epoch_ended.surviving || told == (rate < INFINITY));
            if (k.kind == RECORD_SETTING_CHOSEN) {
                double now = json_number_value(
                    json_object_get(k.setting_chosen.setting, "learning_rate"));
                bool cools = strstr(k.setting_chosen.reason, "cooldown");

                assert_true(!cools || now <= rate);
                cooled += cools;
                rate = cools ? now : INFINITY;
            }
            record_deinit(&k);
        }
        json_decref(journal);
    }
    assert_true(cooled > 80);
}

/* ---- a look with a lower rate -------------------------------------------- */

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;

    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        n++;
    return n;
}

struct looks {
    unsigned seen, unseen; /* of all seeds */
};

/* Runs that max_epochs ends, but for @f's other members. */
static struct looks looks_of(const struct sim_family *f)
{
    struct looks n = {0};

    for (uint64_t seed = 1; seed <= 6; seed++) {
        char *trace = NULL;
        struct sim_options o = {.trace = &trace};
        static struct sim_result r;

        sim_run(f, seed, &o, &r);
        assert_false(r.hung);
        assert_string_equal(r.finish.reason, "max_epochs");
        n.seen += times(trace, "was looked at with a lower learning rate");
        n.unseen += times(trace, "no look at it with a lower learning rate");
        mem_free(trace);
    }
    return n;
}

/* The two finalists that are left are looked at with a lower rate where epochs
 * are short, the rate is certain to fall before the run ends, and the metric
 * has an outlook. Where no memory is left for it the run goes on without. */
static void last_epochs_are_looked_ahead_to(void **state)
{
    struct sim_family f = timed();
    struct looks n;

    (void)state;
    f.name = "ahead";
    f.max_time_s = 0;
    f.max_epochs = 30;
    f.plateau_epochs = 5;
    f.plateau_samples = 10 * f.samples;
    n = looks_of(&f);
    assert_in_range(n.seen, 6, 12);
    assert_int_equal(n.seen % 2, 0);
    assert_int_equal(n.unseen, 0);
    for (unsigned live = 12; live >= 4 && n.unseen == 0; live--) {
        f.branches_max = live;
        n = looks_of(&f);
    }
    assert_true(n.unseen > 0);
    f.branches_max = 0;
    f.plateau_epochs = 10; /* as many: epochs are not short */
    n = looks_of(&f);
    assert_int_equal(n.seen + n.unseen, 0);
    f.plateau_epochs = 5;
    f.plateau_samples = 9 * f.samples; /* it may end before */
    n = looks_of(&f);
    assert_int_equal(n.seen + n.unseen, 0);
    f.plateau_samples = 20 * f.samples;
    f.strategy_settings = "{\"cooldown\": 0}";
    n = looks_of(&f);
    assert_int_equal(n.seen + n.unseen, 0);
    f.strategy_settings = NULL;
    f.hits = f.plateau_hits = true;
    n = looks_of(&f);
    assert_int_equal(n.seen + n.unseen, 0);
}

/* ---- equal results ------------------------------------------------------- */

/* What was trained last, as of its latest epoch, and the best of all. */
struct latest {
    double loss, metric;
    double best_loss, best_metric;
    unsigned equal;
};

static void look_at_epoch(const struct record_epoch_ended *e, struct latest *at)
{
    if (!e->surviving)
        return;
    at->loss = e->loss;
    at->metric = e->metric;
    at->equal += at->metric == at->best_metric && at->loss < at->best_loss;
    if (at->metric > at->best_metric ||
        (at->metric == at->best_metric && at->loss < at->best_loss)) {
        at->best_metric = at->metric;
        at->best_loss = at->loss;
    }
}

/* 16 validation samples: an accuracy that soon is at its top, while the
 * training loss still falls. Whatever begins without progress, a search or the
 * cooldown, begins at an earlier epoch only if that was better. */
static void last_epochs_of_equal_metric_are_kept(void **state)
{
    unsigned equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim_family f = timed();
        json_t *journal = NULL;
        struct sim_options o = {.journal = &journal};
        struct latest at = {.best_metric = -1, .best_loss = INFINITY};
        struct sim_result r;

        f.name = "equal";
        f.hits = true;
        f.validation = 16;
        f.max_time_s = 0;
        f.max_epochs = 60;
        f.plateau_epochs = 6;
        sim_run(&f, seed, &o, &r);
        assert_false(r.hung);
        for (size_t i = 0; i < json_array_size(journal); i++) {
            struct record k;

            assert_int_equal(
                record_from_json(json_array_get(journal, i), &k, NULL), ERR_OK);
            if (k.kind == RECORD_EPOCH_ENDED)
                look_at_epoch(&k.epoch_ended, &at);
            if (k.kind == RECORD_DECISION &&
                strcmp(k.decision.decision, "return") == 0) {
                assert_true(
                    at.metric < at.best_metric ||
                    (at.metric == at.best_metric && at.loss > at.best_loss));
            }
            record_deinit(&k);
        }
        json_decref(journal);
        equal += at.equal;
    }
    assert_true(equal > 10); /* it was about them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_epochs_fall_after_a_resume),
        cmocka_unit_test(last_epochs_never_train_faster),
        cmocka_unit_test(last_epochs_are_looked_ahead_to),
        cmocka_unit_test(last_epochs_of_equal_metric_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
