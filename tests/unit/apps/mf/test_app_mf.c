#include "apps/mf/mf.h"
#include "apps/mf/mf_app.h"
#include "base/mem.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static const char small[] =
    "{\"app\": {\"name\": \"mf\", \"rank\": %u, \"clock\": 10, \"data\":"
    " \"gen:ratings?users=200&items=100&ratings=6000&rank=2&noise=0.3\"},"
    " \"cluster\": {\"workers\": %u}, \"ps\": {\"update_rule\": \"%s\"%s}}";

/* Training lowers the loss and the validation RMSE, far below that of the mean
 * (about 0.85), at ranks with kernels of their own and others, under the rules
 * that have loops for it. */
static void mf_training_lowers_loss_and_rmse(void **state)
{
    static const struct {
        unsigned rank;
        const char *rule, *setting;
    } cases[] = {{8, "adagrad", "{\"learning_rate\": 0.1}"},
                 {5, "adagrad", "{\"learning_rate\": 0.1}"},
                 {32, "adagrad", "{\"learning_rate\": 0.1}"},
                 {5, "rpcs", "{\"learning_rate\": 0.2}"},
                 {32, "rpcs", "{\"learning_rate\": 0.2}"},
                 {8, "sgd", "{\"learning_rate\": 0.05}"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct app_run r;
        double first, last, before, after;

        app_run_open(&r, &app_mf, 1, cases[i].setting, small, cases[i].rank, 1u,
                     cases[i].rule, "");
        before = app_run_metric(&r);
        first = app_run_train(&r, 1);
        last = app_run_train(&r, 14);
        after = app_run_metric(&r);
        assert_true(last < 0.5 * first);
        assert_true(before > 0.75 && after < 0.65);
        app_run_close(&r);
    }
}

/* The rate rises from clock to clock where rows step in place, too. */
static void mf_rate_warms_up(void **state)
{
    static const char *const rules[] = {"adagrad", "sgd"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct app_run warm, hand;

        app_run_open(&warm, &app_mf, 1, "{\"learning_rate\": 0.125}", small, 8u,
                     1u, rules[i], "");
        app_run_open(&hand, &app_mf, 1, "{\"learning_rate\": 0.125}", small, 8u,
                     1u, rules[i], "");
        app_run_warms(&warm, &hand);
        app_run_close(&warm);
        app_run_close(&hand);
    }
}

static void write_levels(double mean)
{
    FILE *train = fopen(scratch_path("train"), "w");
    FILE *test = fopen(scratch_path("test"), "w");

    assert_true(train && test);
    for (int u = 0; u < 60; u++)
        for (int i = 0; i < 40; i++)
            fprintf((u * 7 + i * 3) % 5 ? train : test, "%d,%d,%g\n", u, i,
                    mean + (u % 5 - 2) * 0.3 + (i % 7 - 3) * 0.2);
    fclose(train);
    fclose(test);
}

/* Where the mean is a factor, what is predicted before training is about the
 * mean, of either sign, and levels of users and items are learnt in fewer
 * passes than where it was subtracted. */
static void mf_mean_as_a_factor_learns_levels(void **state)
{
    static const char *const mean[] = {"subtract", "factor"};

    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        double rmse[2];

        write_levels(3.5 * sign);
        for (size_t i = 0; i < 2; i++) {
            struct app_run r;
            double before;

            app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.1}",
                         "{\"app\": {\"name\": \"mf\", \"rank\": 8,"
                         " \"mean\": \"%s\", \"data\": \"%s\","
                         " \"test\": \"%s\"}, \"cluster\": {\"workers\": 2},"
                         " \"ps\": {\"update_rule\": \"rpcs\"}}",
                         mean[i], scratch_path("train"), scratch_path("test"));
            before = app_run_metric(&r);
            if (!(fabs(before - 0.58) < 0.05))
                fail_msg("%s: %g before training", mean[i], before);
            app_run_train(&r, 6);
            rmse[i] = app_run_metric(&r);
            app_run_close(&r);
        }
        if (!(rmse[1] < 0.7 * rmse[0] && rmse[1] < 0.12))
            fail_msg("subtracted %g, factor %g", rmse[0], rmse[1]);
    }
}

/* Weight decay, which mf does not list, changes no bit, from the configuration
 * or from a setting. */
static void mf_has_no_weight_decay(void **state)
{
    struct app_run plain, pinned;

    (void)state;
    app_run_open(&plain, &app_mf, 1, "{\"learning_rate\": 0.1}", small, 5u, 1u,
                 "adagrad", "");
    app_run_open(&pinned, &app_mf, 1,
                 "{\"learning_rate\": 0.1, \"weight_decay\": 0.5}", small, 5u,
                 1u, "adagrad",
                 "}, \"tunables\": {\"weight_decay\": {\"fixed\": 0.25}");
    assert_true(app_run_train(&plain, 1) == app_run_train(&pinned, 1));
    for (uint64_t row = 0; row < 100; row++)
        assert_true(app_run_value(&plain, "users", row, 5, 3) ==
                    app_run_value(&pinned, "users", row, 5, 3));
    app_run_close(&plain);
    app_run_close(&pinned);
}

/* Loss, metric and parameters do not depend on the number of workers beyond
 * rounding. */
static void mf_result_does_not_depend_on_the_workers(void **state)
{
    struct app_run one, many;
    unsigned workers;
    uint64_t row;

    (void)state;
    app_run_open(&one, &app_mf, 1, "{\"learning_rate\": 0.1}", small, 8u, 1u,
                 "adagrad", "");
    {
        double loss = app_run_train(&one, 2), rmse = app_run_metric(&one);

        for (workers = 2; workers <= 4; workers++) {
            app_run_open(&many, &app_mf, 1, "{\"learning_rate\": 0.1}", small,
                         8u, workers, "adagrad", "");
            assert_true(fabs(app_run_train(&many, 2) - loss) < 1e-5);
            assert_true(fabs(app_run_metric(&many) - rmse) < 1e-5);
            for (row = 0; row < 100; row += 7)
                assert_true(fabs(app_run_value(&one, "users", row, 8, 3) -
                                 app_run_value(&many, "users", row, 8, 3)) <
                            1e-4);
            app_run_close(&many);
        }
    }
    app_run_close(&one);
}

/* One seed gives the same bits; another one does not. */
static void mf_is_deterministic_for_a_seed(void **state)
{
    double loss[3];
    uint64_t seed[] = {5, 5, 6};
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct app_run r;

        app_run_open(&r, &app_mf, seed[i], "{\"learning_rate\": 0.1}", small,
                     8u, 1u, "adagrad", "");
        loss[i] = app_run_train(&r, 2);
        app_run_close(&r);
    }
    assert_true(loss[0] == loss[1]);
    assert_true(loss[0] != loss[2]);
}

/* Under a model without barriers it trains too. */
static void mf_trains_without_barriers(void **state)
{
    struct app_run r;

    (void)state;
    app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.1, \"staleness\": 2}",
                 small, 8u, 2u, "adagrad", ", \"consistency\": \"ssp\"");
    app_run_train(&r, 15);
    assert_true(app_run_metric(&r) < 0.65);
    app_run_close(&r);
}

/* A larger penalty gives smaller rows. */
static void mf_penalty_shrinks_rows(void **state)
{
    double size[2] = {0, 0};
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct app_run r;
        uint64_t row;

        app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.1}",
                     "{\"app\": {\"name\": \"mf\", \"rank\": 8, \"lambda\": %g,"
                     " \"data\": \"gen:ratings?users=200&items=100&"
                     "ratings=6000\"}, \"cluster\": {\"workers\": 1},"
                     " \"ps\": {\"update_rule\": \"adagrad\"}}",
                     i ? 0.5 : 0.0);
        app_run_train(&r, 5);
        for (row = 0; row < 100; row++)
            size[i] += fabs(app_run_value(&r, "items", row, 8, 0));
        app_run_close(&r);
    }
    assert_true(size[1] < 0.5 * size[0]);
}

/* Facts that the application tells: a clock is a part of a pass, at most as
 * many as ratings; the split takes its fraction. */
static void mf_clocks_and_splits_are_as_set(void **state)
{
    static const struct {
        const char *clock;
        uint64_t parts;
    } cases[] = {{"\"pass\"", 1}, {"7", 7}, {"1000000", 5391}};
    struct app_run r;
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        app_run_open(&r, &app_mf, 1, "{}",
                     "{\"app\": {\"name\": \"mf\", \"clock\": %s, \"data\":"
                     " \"gen:ratings?users=200&items=100&ratings=6000\"}}",
                     cases[i].clock);
        assert_int_equal(host_facts(r.host)->info.parts,
                         i == 2 ? host_facts(r.host)->info.samples
                                : cases[i].parts);
        app_run_close(&r);
    }
    app_run_open(
        &r, &app_mf, 1, "{}",
        "{\"app\": {\"name\": \"mf\", \"test_fraction\": 0.5, "
        "\"data\": \"gen:ratings?users=200&items=100&ratings=6000\"}}");
    assert_int_equal(host_facts(r.host)->info.samples +
                         host_facts(r.host)->info.validation_samples,
                     6000);
    assert_in_range(host_facts(r.host)->info.samples, 2800, 3200);
    app_run_close(&r);
    app_run_open(&r, &app_mf, 1, "{}",
                 "{\"app\": {\"name\": \"mf\", \"test_fraction\": 0, "
                 "\"data\": \"gen:ratings?users=20&items=10&ratings=60\"}}");
    assert_int_equal(host_facts(r.host)->info.samples, 60);
    assert_int_equal(host_facts(r.host)->info.validation_samples, 0);
    app_run_close(&r);
}

static void write_halves(void)
{
    FILE *train = fopen(scratch_path("train.tsv"), "w");
    FILE *test = fopen(scratch_path("test.tsv"), "w");
    int u, i;

    assert_true(train && test);
    for (u = 0; u < 40; u++)
        for (i = 0; i < 30; i++)
            fprintf((u * 7 + i * 3) % 5 ? train : test, "%d\t%d\t%g\n",
                    1000000000 + u * 17, i * 11,
                    3 + ((u % 3) - 1) * ((i % 3) - 1) * 1.5);
    fclose(train);
    fclose(test);
}

static void check_saved_model(const char *mean)
{
    struct app_run r;
    struct host_score score;
    char config[512];
    double rmse;

    write_halves();
    app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.2}",
                 "{\"app\": {\"name\": \"mf\", \"rank\": 4, \"clock\": 5,"
                 " \"mean\": \"%s\", \"data\": \"%s\", \"test\": \"%s\"},"
                 " \"cluster\": {\"workers\": 2},"
                 " \"ps\": {\"update_rule\": \"adagrad\"}}",
                 mean, scratch_path("train.tsv"), scratch_path("test.tsv"));
    assert_int_equal(host_facts(r.host)->info.validation_samples, 240);
    app_run_train(&r, 40);
    rmse = app_run_metric(&r);
    assert_true(rmse < 0.3);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"mf\", \"data\": \"%s\"}}",
             scratch_path("test.tsv"));
    score = app_run_evaluate(&app_mf, scratch_path("model"), config);
    assert_int_equal(score.samples, 240);
    assert_true(fabs(score.metric - rmse) < 1e-6);
    assert_true(fabs(score.loss - rmse * rmse) < 1e-6);
}

/* A saved model scores, on the file it was validated with, what it scored in
 * training, although outside ids appear there in another order. */
static void mf_saved_model_scores_alike(void **state)
{
    (void)state;
    check_saved_model("subtract");
}

/* The same where the mean is a factor. */
static void mf_saved_factor_model_scores_alike(void **state)
{
    (void)state;
    check_saved_model("factor");
}

static void check_unknown_ids(const char *mean)
{
    struct app_run r;
    struct host_score score;
    char config[512];

    scratch_text("train", "1,1,2\n1,2,4\n2,1,4\n2,2,2\n");
    scratch_text("test", "9,1,5\n1,9,1\n9,9,6\n");
    app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.1}",
                 "{\"app\": {\"name\": \"mf\", \"rank\": 2, \"clock\": 1,"
                 " \"mean\": \"%s\", \"data\": \"%s\", \"test\": \"%s\"}}",
                 mean, scratch_path("train"), scratch_path("test"));
    app_run_train(&r, 2);
    assert_true(fabs(app_run_metric(&r) - sqrt((4 + 4 + 9) / 3.0)) < 1e-6);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"mf\", \"data\": \"%s\"}}",
             scratch_path("test"));
    score = app_run_evaluate(&app_mf, scratch_path("model"), config);
    assert_true(fabs(score.metric - sqrt((4 + 4 + 9) / 3.0)) < 1e-6);
}

/* A user or an item that training never saw is predicted by the mean, in
 * validation and in evaluation. */
static void mf_unknown_ids_are_predicted_by_the_mean(void **state)
{
    (void)state;
    check_unknown_ids("subtract");
}

/* The same where the mean is a factor. */
static void mf_unknown_ids_have_the_mean_where_it_is_a_factor(void **state)
{
    (void)state;
    check_unknown_ids("factor");
}

/* A model that is damaged or incomplete is refused by the name of the file. */
static void mf_damaged_model_is_refused(void **state)
{
    static const char *const files[] = {"rating_mean.npy", "user_ids.npy",
                                        "item_ids.npy", "users.npy",
                                        "items.npy"};
    struct app_run r;
    json_t *json;
    size_t i;

    (void)state;
    scratch_text("train", "1,1,2\n1,2,4\n2,1,4\n3,2,2\n");
    app_run_open(&r, &app_mf, 1, "{}",
                 "{\"app\": {\"name\": \"mf\", \"rank\": 2, \"clock\": 1,"
                 " \"test_fraction\": 0, \"data\": \"%s\"}}",
                 scratch_path("train"));
    scratch_mkdir("model");
    json = json_pack("{s:{s:s, s:s}}", "app", "name", "mf", "data",
                     scratch_path("train"));
    for (i = 0; i < 5; i++) {
        struct host_config c = {.app = &app_mf,
                                .config = json,
                                .folder = ".",
                                .seed = 1,
                                .evaluate = scratch_path("model")};
        struct host *host;
        struct fault f = {0};
        char name[64];
        size_t n;
        unsigned char *bytes;

        app_run_save(&r, scratch_path("model"));
        snprintf(name, sizeof(name), "model/%s", files[i]);
        bytes = scratch_read(name, &n);
        scratch_write(name, bytes, n - 1);
        assert_int_equal(host_open(&c, &host, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, files[i]));
        unlink(scratch_path(name));
        assert_int_not_equal(host_open(&c, &host, &f), ERR_OK);
        assert_non_null(strstr(f.text, files[i]));
        if (i == 0) { /* a mean that is no number */
            memset(bytes + n - 8, 0xff, 8);
            scratch_write(name, bytes, n);
            assert_int_equal(host_open(&c, &host, &f), ERR_FORMAT);
            assert_non_null(strstr(f.text, "expected a finite number"));
        }
        if (i == 0) { /* too many means */
            size_t m;
            unsigned char *other = scratch_read("model/user_ids.npy", &m);
            char *type = strstr((char *)other + 10, "<i8");

            assert_non_null(type);
            type[1] = 'f';
            scratch_write(name, other, m);
            free(other);
            assert_int_equal(host_open(&c, &host, &f), ERR_FORMAT);
            assert_non_null(strstr(f.text, "expected one number or two"));
        }
        if (i == 3) { /* users.npy with the shape of items.npy */
            size_t m;
            unsigned char *other = scratch_read("model/items.npy", &m);

            scratch_write(name, other, m);
            free(other);
            assert_int_equal(host_open(&c, &host, &f), ERR_FORMAT);
            assert_non_null(strstr(f.text, "expected float32 of 3 rows"));
        }
        free(bytes);
    }
    json_decref(json);
    app_run_close(&r);
}

/* Left alone, a clock has 32,768 ratings, but a pass 10 to 100 clocks, and
 * never more than ratings. */
static void mf_clocks_follow_the_ratings(void **state)
{
    static const struct {
        const char *clock; /* of the configuration */
        unsigned ratings;
        uint64_t parts;
    } cases[] = {{"", 8, 8},
                 {"", 6000, 10},
                 {"\"clock\": \"auto\",", 6000, 10},
                 {"", 400000, 400000 / 32768},
                 {"", 3300000, 100},
                 {"\"clock\": 100,", 6000, 100}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct app_run r;

        app_run_open(&r, &app_mf, 1, "{}",
                     "{\"app\": {\"name\": \"mf\", \"rank\": 1, %s"
                     " \"test_fraction\": 0, \"data\":"
                     " \"gen:ratings?users=4000&items=2000&ratings=%u\"}}",
                     cases[i].clock, cases[i].ratings);
        assert_int_equal(host_facts(r.host)->info.parts, cases[i].parts);
        app_run_close(&r);
    }
}

/* Bad settings and data are refused in words. */
static void mf_bad_configurations_are_refused(void **state)
{
    (void)state;
    scratch_text("bad", "1,2,3\n1,2,x\n");
    scratch_text("one", "1,2,3\n");
    app_run_refused(&app_mf, ERR_INVAL, "data", "{\"app\": {}}");
    app_run_refused(&app_mf, ERR_INVAL, "rank",
                    "{\"app\": {\"data\": \"gen:ratings\", \"rank\": 0}}");
    app_run_refused(&app_mf, ERR_INVAL, "clock",
                    "{\"app\": {\"data\": \"gen:ratings\", \"clock\": "
                    "\"batch\"}}");
    app_run_refused(&app_mf, ERR_INVAL, "test_fraction",
                    "{\"app\": {\"data\": \"gen:ratings\", "
                    "\"test_fraction\": 1}}");
    app_run_refused(&app_mf, ERR_INVAL, "mean",
                    "{\"app\": {\"data\": \"gen:ratings\", \"mean\": "
                    "\"none\"}}");
    app_run_refused(&app_mf, ERR_FORMAT, "bad: line 2",
                    "{\"app\": {\"data\": \"%s\"}}", scratch_path("bad"));
    app_run_refused(&app_mf, ERR_NOENT, "nothing_here",
                    "{\"app\": {\"data\": \"%s\", \"test\": "
                    "\"nothing_here\"}}",
                    scratch_path("one"));
    app_run_refused(&app_mf, ERR_INVAL, "no generator",
                    "{\"app\": {\"data\": \"gen:x\"}}");
}

static int open_with(const char *settings, void **app)
{
    struct mlt_app_config c = {.size = sizeof(c),
                               .settings = settings,
                               .folder = scratch_folder(),
                               .workers = 2,
                               .seed = 1};
    struct mlt_app_info info;
    struct mlt_error error = {0};
    int err = app_mf.open(&c, &info, app, &error);

    assert_int_equal(err, error.code);
    assert_true(err == 0 || error.text[0]);
    return err;
}

/* Settings that no schema has seen are checked all the same. */
static void mf_open_checks_its_settings(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{",
        "{}",
        "{\"data\": 3}",
        "{\"data\": \"\"}",
        "{\"data\": \"gen:ratings\", \"test_fraction\": 1}",
        "{\"data\": \"gen:ratings\", \"clock\": 0}",
        "{\"data\": \"gen:ratings\", \"clock\": \"soon\"}",
        "{\"data\": \"gen:ratings\", \"mean\": \"none\"}",
        "{\"data\": \"gen:ratings\", \"mean\": 3}",
        "{\"data\": \"gen:ratings\", \"parallel\": \"ring\"}",
        "{\"data\": \"gen:ratings\", \"parallel\": 1}",
        "{\"data\": \"gen:ratings\", \"parallel\": \"loop\","
        " \"clock\": 4097}",
        "{\"data\": \"gen:ratings\", \"clock\": 1.5}"};
    size_t i;
    void *app;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(open_with(bad[i], &app), ERR_INVAL);
}

/* Every allocation that fails while opening is reported and undone. */
static void check_allocation_failures(const char *settings)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    for (nth = 1; failed; nth++) {
        void *app = NULL;
        int err;

        mem_fail_at(nth, 0);
        err = open_with(settings, &app);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : 0);
        if (!err)
            app_mf.close(app);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 20);
}

static void mf_allocation_failure_leaves_nothing(void **state)
{
    (void)state;
    scratch_text("test", "1,1,3\n999,2,4\n");
    check_allocation_failures("{\"data\": \"gen:ratings?users=20&items=20&"
                              "ratings=90\", \"test\": \"test\"}");
    check_allocation_failures("{\"data\": \"gen:ratings?users=20&items=20&"
                              "ratings=90\", \"parallel\": \"loop\"}");
    app_mf.close(NULL);
}

/* MovieLens 1M at rank 32 under adagrad comes near what is published. */
static void mf_reaches_the_known_rmse_on_movielens(void **state)
{
    const char *real = scratch_real_data();
    struct app_run r;
    double rmse;

    (void)state;
    if (!real) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
    }
    app_run_open(&r, &app_mf, 1, "{\"learning_rate\": 0.1}",
                 "{\"app\": {\"name\": \"mf\", \"data\": "
                 "\"%s/ml1m.train90.tsv.xz\"}, \"cluster\": {\"workers\": 2},"
                 " \"ps\": {\"update_rule\": \"adagrad\"}}",
                 real);
    app_run_train(&r, 8);
    rmse = app_run_metric(&r);
    if (!(rmse < 0.865))
        fail_msg("RMSE %.4f", rmse);
    app_run_close(&r);
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mf_training_lowers_loss_and_rmse),
        cmocka_unit_test(mf_rate_warms_up),
        cmocka_unit_test(mf_has_no_weight_decay),
        cmocka_unit_test(mf_result_does_not_depend_on_the_workers),
        cmocka_unit_test(mf_is_deterministic_for_a_seed),
        cmocka_unit_test(mf_trains_without_barriers),
        cmocka_unit_test(mf_penalty_shrinks_rows),
        cmocka_unit_test(mf_clocks_and_splits_are_as_set),
        cmocka_unit_test(mf_clocks_follow_the_ratings),
        IN_FOLDER(mf_mean_as_a_factor_learns_levels),
        IN_FOLDER(mf_saved_model_scores_alike),
        IN_FOLDER(mf_saved_factor_model_scores_alike),
        IN_FOLDER(mf_unknown_ids_are_predicted_by_the_mean),
        IN_FOLDER(mf_unknown_ids_have_the_mean_where_it_is_a_factor),
        IN_FOLDER(mf_damaged_model_is_refused),
        IN_FOLDER(mf_bad_configurations_are_refused),
        IN_FOLDER(mf_open_checks_its_settings),
        IN_FOLDER(mf_allocation_failure_leaves_nothing),
        cmocka_unit_test(mf_reaches_the_known_rmse_on_movielens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
