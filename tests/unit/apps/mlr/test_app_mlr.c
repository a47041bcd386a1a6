#include "apps/data/data.h"
#include "apps/mlr/mlr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { PIXELS = 196, WIDTH = PIXELS + 1 };

static const char small[] =
    "{\"app\": {\"name\": \"mlr\", \"lambda\": %g, \"data\":"
    " \"gen:digits?samples=1500&test=300&size=14\"},"
    " \"cluster\": {\"workers\": %u}%s}";

static const char setting[] =
    "{\"learning_rate\": 0.2, \"momentum\": 0.9, \"batch_size\": %u}";

static void open_small(struct app_run *r, double lambda, unsigned workers,
                       unsigned batch, const char *more)
{
    char text[128];

    snprintf(text, sizeof(text), setting, batch);
    app_run_open(r, &app_mlr, 1, text, small, lambda, workers, more);
}

/* Training lowers the loss from log(10) and tells digits apart. */
static void mlr_training_lowers_loss_and_raises_accuracy(void **state)
{
    struct app_run r;
    double first, last;

    (void)state;
    open_small(&r, 0, 1, 16, "");
    assert_true(app_run_metric(&r) < 0.2);
    first = app_run_train(&r, 1);
    last = app_run_train(&r, 14);
    assert_true(first < log(10));
    assert_true(last < 0.6 * first);
    assert_true(app_run_metric(&r) > 0.75);
    app_run_close(&r);
}

/* At equal batch times workers the loss, the accuracy and the weights do not
 * depend on the number of workers beyond rounding. */
static void mlr_result_does_not_depend_on_the_workers(void **state)
{
    static const unsigned workers[] = {2, 3, 4};
    struct app_run one, many;
    double loss, accuracy;
    size_t i;
    uint32_t j;

    (void)state;
    open_small(&one, 0.01, 1, 48, "");
    loss = app_run_train(&one, 2);
    accuracy = app_run_metric(&one);
    for (i = 0; i < 3; i++) {
        open_small(&many, 0.01, workers[i], 48 / workers[i], "");
        assert_true(fabs(app_run_train(&many, 2) - loss) < 1e-5);
        assert_true(fabs(app_run_metric(&many) - accuracy) < 0.005);
        for (j = 0; j < WIDTH; j++)
            assert_true(fabs(app_run_value(&one, "weights", 3, WIDTH, j) -
                             app_run_value(&many, "weights", 3, WIDTH, j)) <
                        1e-4);
        app_run_close(&many);
    }
    app_run_close(&one);
}

/* More workers than images in the last clock: some have nothing to do. */
static void mlr_workers_may_have_nothing_to_do(void **state)
{
    struct app_run r;

    (void)state;
    app_run_open(&r, &app_mlr, 1, "{\"learning_rate\": 0.1, \"batch_size\": 2}",
                 "{\"app\": {\"name\": \"mlr\", \"data\":"
                 " \"gen:digits?samples=9&test=2&size=8\"},"
                 " \"cluster\": {\"workers\": 4}}");
    assert_true(isfinite(app_run_train(&r, 3)));
    app_run_metric(&r);
    app_run_close(&r);
}

/* Under a model without barriers it trains too. */
static void mlr_trains_without_barriers(void **state)
{
    struct app_run r;

    (void)state;
    app_run_open(&r, &app_mlr, 1,
                 "{\"learning_rate\": 0.05, \"momentum\": 0.5, \"batch_size\":"
                 " 16, \"staleness\": 2}",
                 small, 0.0, 2u, ", \"ps\": {\"consistency\": \"ssp\"}");
    app_run_train(&r, 15);
    assert_true(app_run_metric(&r) > 0.7);
    app_run_close(&r);
}

/* One seed gives the same bits. */
static void mlr_is_deterministic_for_a_seed(void **state)
{
    double loss[2];
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct app_run r;

        open_small(&r, 0, 1, 16, "");
        loss[i] = app_run_train(&r, 2);
        app_run_close(&r);
    }
    assert_true(loss[0] == loss[1]);
}

/* One clock over all images from zero weights is a step down the gradient of
 * the mean loss: it divides by the samples of the clock over all workers, and
 * scales pixels to 0 .. 1. Compared with sums taken here, value by value. */
static void mlr_first_step_is_the_mean_gradient(void **state)
{
    struct images im, none;
    struct app_run r;
    unsigned workers;

    (void)state;
    assert_int_equal(data_load_images("gen:digits?samples=100&test=0&size=14",
                                      NULL, &im, &none, NULL),
                     ERR_OK);
    for (workers = 1; workers <= 3; workers += 2) {
        unsigned c, j;
        uint64_t i;

        app_run_open(&r, &app_mlr, 1, "{\"learning_rate\": 1, \"momentum\": 0}",
                     "{\"app\": {\"name\": \"mlr\", \"clock\": \"pass\","
                     " \"test_fraction\": 0, \"lambda\": 0.5, \"data\":"
                     " \"gen:digits?samples=100&test=0&size=14\"},"
                     " \"cluster\": {\"workers\": %u}}",
                     workers);
        assert_int_equal(r.clocks, 1);
        assert_true(fabs(app_run_train(&r, 1) - log(10)) < 1e-5);
        for (c = 0; c < 10; c++) {
            for (j = 0; j < WIDTH; j++) {
                double g = 0;

                for (i = 0; i < im.count; i++)
                    g += (0.1 - (im.label[i] == c)) *
                         (j == PIXELS ? 1 : im.pixel[i * PIXELS + j] / 255.0) /
                         100;
                assert_true(
                    fabs(app_run_value(&r, "weights", c, WIDTH, j) + g) < 1e-5);
            }
        }
        app_run_close(&r);
    }
    images_deinit(&im);
    images_deinit(&none);
}

/* Values of one class after one clock, then after another. */
static void two_steps(double decay, float before[WIDTH], float after[WIDTH])
{
    char text[96];
    struct app_run r;

    snprintf(text, sizeof(text),
             "{\"learning_rate\": 0.5, \"momentum\": 0, \"weight_decay\": %g}",
             decay);
    app_run_open(&r, &app_mlr, 1, text,
                 "{\"app\": {\"name\": \"mlr\", \"clock\": \"pass\","
                 " \"test_fraction\": 0, \"data\":"
                 " \"gen:digits?samples=100&test=0&size=14\"},"
                 " \"cluster\": {\"workers\": 2}}");
    for (unsigned clock = 0; clock < 2; clock++) {
        app_run_train(&r, 1);
        for (uint32_t j = 0; j < WIDTH; j++)
            (clock ? after : before)[j] =
                (float)app_run_value(&r, "weights", 3, WIDTH, j);
    }
    app_run_close(&r);
}

/* Weights lose rate times decay of what they were beside their step, the bias
 * not a bit. */
static void mlr_decay_leaves_biases_alone(void **state)
{
    static float before[WIDTH], same[WIDTH], plain[WIDTH], decayed[WIDTH];
    bool moved = false;

    (void)state;
    two_steps(0, before, plain);
    two_steps(0.25, same, decayed);
    assert_memory_equal(before, same, sizeof(before)); /* of zero weights */
    for (uint32_t j = 0; j < PIXELS; j++) {
        assert_true(fabsf(decayed[j] - (plain[j] - 0.125f * before[j])) <
                    1e-6f);
        moved |= fabsf(before[j]) > 1e-3f;
    }
    assert_true(moved && before[PIXELS] != 0);
    assert_memory_equal(decayed + PIXELS, plain + PIXELS, sizeof(*plain));
}

/* A penalty shrinks weights. */
static void mlr_penalty_shrinks_weights(void **state)
{
    double size[2] = {0, 0};
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct app_run r;
        uint32_t j;

        open_small(&r, i ? 0.1 : 0, 2, 16, "");
        app_run_train(&r, 5);
        for (j = 0; j < PIXELS; j++)
            size[i] += fabs(app_run_value(&r, "weights", 3, WIDTH, j));
        app_run_close(&r);
    }
    assert_true(size[1] < 0.5 * size[0]);
}

/* Facts that the application tells follows its settings: clocks, validation
 * from the data's own test set, a fraction, or a file. */
static void mlr_clocks_and_validation_are_as_set(void **state)
{
    static const struct {
        const char *more;
        uint64_t parts, samples, tests;
    } cases[] = {
        {"", 0, 100, 20},
        {", \"clock\": \"batch\"", 0, 100, 20},
        {", \"clock\": \"pass\"", 1, 100, 20},
        {", \"clock\": 7", 7, 100, 20},
        {", \"clock\": 1000", 100, 100, 20},
        {", \"test_fraction\": 0", 0, 100, 0},
        {", \"test\": \"gen:digits?samples=30&test=0&size=8\"", 0, 100, 30},
        {", \"test\": \"gen:digits?samples=30&test=6&size=8\"", 0, 100, 6},
    };
    struct app_run r;
    const struct mlt_app_info *info;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        app_run_open(&r, &app_mlr, 1, "{}",
                     "{\"app\": {\"name\": \"mlr\", \"data\":"
                     " \"gen:digits?samples=100&test=20&size=8\"%s}}",
                     cases[i].more);
        info = &host_facts(r.host)->info;
        assert_int_equal(info->parts, cases[i].parts);
        assert_int_equal(info->samples, cases[i].samples);
        assert_int_equal(info->validation_samples, cases[i].tests);
        assert_int_equal(info->metric_higher_better, 1);
        assert_true(info->loss_floor == 0);
        app_run_close(&r);
    }
    app_run_open(&r, &app_mlr, 1, "{}",
                 "{\"app\": {\"name\": \"mlr\", \"test_fraction\": 0.3, "
                 "\"data\": \"gen:digits?samples=1000&test=20&size=8\"}}");
    info = &host_facts(r.host)->info;
    assert_int_equal(info->samples + info->validation_samples, 1000);
    assert_in_range(info->validation_samples, 250, 350);
    app_run_close(&r);
    app_run_open(&r, &app_mlr, 1, "{}",
                 "{\"app\": {\"name\": \"mlr\", "
                 "\"data\": \"gen:digits?samples=1000&test=0&size=8\"}}");
    info = &host_facts(r.host)->info;
    assert_in_range(info->validation_samples, 60, 140);
    app_run_close(&r);
}

/* A saved model scores, on the data it was trained with, its accuracy in
 * training: the test set is what is evaluated; another seed's digits score
 * about as well. */
static void mlr_saved_model_scores_alike(void **state)
{
    struct app_run r;
    struct host_score score;
    double accuracy;

    (void)state;
    open_small(&r, 0, 2, 16, "");
    app_run_train(&r, 10);
    accuracy = app_run_metric(&r);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    score = app_run_evaluate(&app_mlr, scratch_path("model"),
                             "{\"app\": {\"name\": \"mlr\", \"data\":"
                             " \"gen:digits?samples=1500&test=300&size=14\"}}");
    assert_int_equal(score.samples, 300);
    assert_true(fabs(score.metric - accuracy) < 1e-9);
    assert_true(score.loss > 0 && score.loss < 1.2);
    score = app_run_evaluate(
        &app_mlr, scratch_path("model"),
        "{\"app\": {\"name\": \"mlr\", \"data\":"
        " \"gen:digits?samples=400&test=0&size=14&seed=77\"}}");
    assert_int_equal(score.samples, 400);
    assert_true(score.metric > 0.7);
}

/* Data of another size, or no model at all, is refused by name. */
static void mlr_model_must_fit_the_data(void **state)
{
    struct app_run r;
    struct host *host;
    json_t *json = json_pack("{s:{s:s, s:s}}", "app", "name", "mlr", "data",
                             "gen:digits?samples=20&size=9");
    struct host_config c = {
        .app = &app_mlr, .config = json, .folder = ".", .seed = 1};
    struct fault f = {0};

    (void)state;
    scratch_mkdir("model");
    open_small(&r, 0, 1, 16, "");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    c.evaluate = scratch_path("model");
    assert_int_equal(host_open(&c, &host, &f), ERR_FORMAT);
    assert_non_null(
        strstr(f.text, "samples of 196 values in at most 10 classes"));
    c.evaluate = scratch_folder();
    assert_int_not_equal(host_open(&c, &host, &f), ERR_OK);
    assert_non_null(strstr(f.text, "weights.npy"));
    json_decref(json);
}

/* A table of points in three groups that lines part: the columns have other
 * sizes by a factor of a million. */
static void write_groups(const char *name, unsigned n, unsigned only)
{
    static const char *const class[] = {"one", "three", "two"};
    char text[16384], *p = text;
    struct rng rng;
    unsigned i;

    rng_init(&rng, 5);
    for (i = 0; i < n; i++) {
        unsigned c = i % 3;
        double x = rng_normal(&rng) + 5 * (c == 1);
        double y = rng_normal(&rng) + 5 * (c == 2);

        if (only == 3 || only == c)
            p += sprintf(p, "%s,%.6f,%.3f\n", class[c], x / 1000, y * 1000);
    }
    scratch_text(name, text);
}

static void refuse_model(const char *file, enum err code, const char *says)
{
    json_t *json = json_pack("{s:{s:s, s:s, s:s}}", "app", "name", "mlr",
                             "label", "first", "data", scratch_path(file));
    struct host_config c = {.app = &app_mlr,
                            .config = json,
                            .folder = ".",
                            .seed = 1,
                            .evaluate = scratch_path("model")};
    struct fault f = {0};
    struct host *host;
    enum err err = host_open(&c, &host, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s\nwanted %s", err_name(err), f.text, says);
    json_decref(json);
}

/* On a table it learns, its saved model scores the same rows alike, and knows
 * the classes by name in a file that has only one of them. */
static void mlr_trains_on_tables(void **state)
{
    struct app_run r;
    struct host_score score;
    double accuracy;
    char config[512];

    (void)state;
    write_groups("t.csv", 300, 3);
    write_groups("v.csv", 90, 3);
    write_groups("w.csv", 90, 2);
    app_run_open(&r, &app_mlr, 1,
                 "{\"learning_rate\": 0.3, \"momentum\": 0.5,"
                 " \"batch_size\": 8}",
                 "{\"app\": {\"name\": \"mlr\", \"label\": \"first\","
                 " \"data\": \"%s\", \"test\": \"%s\"},"
                 " \"cluster\": {\"workers\": 2}}",
                 scratch_path("t.csv"), scratch_path("v.csv"));
    assert_true(app_run_train(&r, 1) < log(3));
    app_run_train(&r, 9);
    accuracy = app_run_metric(&r);
    assert_true(accuracy > 0.9);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"mlr\", \"label\": \"first\","
             " \"data\": \"%s\"}}",
             scratch_path("v.csv"));
    score = app_run_evaluate(&app_mlr, scratch_path("model"), config);
    assert_int_equal(score.samples, 90);
    assert_true(fabs(score.metric - accuracy) < 1e-9);
    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"mlr\", \"label\": \"first\","
             " \"data\": \"%s\"}}",
             scratch_path("w.csv"));
    score = app_run_evaluate(&app_mlr, scratch_path("model"), config);
    assert_int_equal(score.samples, 30);
    assert_true(score.metric > 0.8);
    scratch_text("h.csv", "y,a,b\none,1,2\ntwo,2,3\n");
    scratch_text("model/columns.txt", "b\na\n");
    refuse_model("h.csv", ERR_FORMAT,
                 "h.csv: expected the columns of the training data in their "
                 "order, found \"a\" where those have \"b\"");
    assert_int_equal(remove(scratch_path("model/classes.txt")), 0);
    refuse_model("t.csv", ERR_NOENT, "classes.txt");
}

/* Bad settings and data are refused in words. */
static void mlr_bad_configurations_are_refused(void **state)
{
    (void)state;
    app_run_refused(&app_mlr, ERR_INVAL, "data", "{\"app\": {}}");
    app_run_refused(&app_mlr, ERR_INVAL, "lambda",
                    "{\"app\": {\"data\": \"gen:digits\", \"lambda\": -1}}");
    app_run_refused(&app_mlr, ERR_INVAL, "clock",
                    "{\"app\": {\"data\": \"gen:digits\", \"clock\": 0}}");
    app_run_refused(&app_mlr, ERR_INVAL, "expected images",
                    "{\"app\": {\"data\": \"gen:ratings\"}}");
    app_run_refused(&app_mlr, ERR_FORMAT, "expected images of 1 x 8 x 8",
                    "{\"app\": {\"data\": \"gen:digits?samples=50&size=8\","
                    " \"test\": \"gen:digits?samples=50&size=9\"}}");
    app_run_refused(&app_mlr, ERR_NOENT, "nothing_here",
                    "{\"app\": {\"data\": \"nothing_here\"}}");
    scratch_write("images", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1ab", 18);
    scratch_write("labels", "\0\0\x08\1\0\0\0\2\0\0", 10);
    app_run_refused(&app_mlr, ERR_FORMAT, "at least two classes",
                    "{\"app\": {\"data\": \"%s\", \"test_fraction\": 0}}",
                    scratch_folder());
}

static int open_with(const char *settings, void **app)
{
    struct mlt_app_config c = {.size = sizeof(c),
                               .settings = settings,
                               .folder = ".",
                               .workers = 2,
                               .seed = 1};
    struct mlt_app_info info;
    struct mlt_error error = {0};
    int err = app_mlr.open(&c, &info, app, &error);

    assert_int_equal(err, error.code);
    return err;
}

/* Every allocation that fails while opening is reported and undone. */
static void mlr_allocation_failure_leaves_nothing(void **state)
{
    static const char *const settings[] = {
        "{\"data\": \"gen:digits?samples=20&size=8&test=0\"}",
        "{\"data\": \"gen:digits?samples=20&size=8\","
        " \"test\": \"gen:digits?samples=5&size=8\"}"};
    int64_t before = mem_outstanding();
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        int nth, failed = 1;

        for (nth = 1; failed; nth++) {
            void *app = NULL;
            int err;

            mem_fail_at(nth, 0);
            err = open_with(settings[i], &app);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(err, failed ? ERR_NOMEM : 0);
            if (!err)
                app_mlr.close(app);
            assert_int_equal(mem_outstanding(), before);
        }
        assert_true(nth > 8);
    }
    app_mlr.close(NULL);
}

/* MNIST: 92 % of its test images within a few passes. */
static void mlr_reaches_the_known_accuracy_on_mnist(void **state)
{
    const char *real = scratch_real_data();
    struct app_run r;
    double accuracy;

    (void)state;
    if (!real) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
    }
    app_run_open(&r, &app_mlr, 1,
                 "{\"learning_rate\": 0.1, \"momentum\": 0.9,"
                 " \"batch_size\": 64}",
                 "{\"app\": {\"name\": \"mlr\", \"data\": \"%s\"},"
                 " \"cluster\": {\"workers\": 1}}",
                 real);
    assert_int_equal(host_facts(r.host)->info.validation_samples, 10000);
    app_run_train(&r, 8);
    accuracy = app_run_metric(&r);
    if (!(accuracy >= 0.92))
        fail_msg("accuracy %.4f", accuracy);
    app_run_close(&r);
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlr_training_lowers_loss_and_raises_accuracy),
        cmocka_unit_test(mlr_result_does_not_depend_on_the_workers),
        cmocka_unit_test(mlr_workers_may_have_nothing_to_do),
        cmocka_unit_test(mlr_trains_without_barriers),
        cmocka_unit_test(mlr_is_deterministic_for_a_seed),
        cmocka_unit_test(mlr_first_step_is_the_mean_gradient),
        cmocka_unit_test(mlr_decay_leaves_biases_alone),
        cmocka_unit_test(mlr_penalty_shrinks_weights),
        cmocka_unit_test(mlr_clocks_and_validation_are_as_set),
        IN_FOLDER(mlr_saved_model_scores_alike),
        IN_FOLDER(mlr_model_must_fit_the_data),
        IN_FOLDER(mlr_trains_on_tables),
        IN_FOLDER(mlr_bad_configurations_are_refused),
        cmocka_unit_test(mlr_allocation_failure_leaves_nothing),
        cmocka_unit_test(mlr_reaches_the_known_accuracy_on_mnist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
