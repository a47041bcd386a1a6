/* The metric that a configuration asks for, of an application whose predictions
 * the test gives. */
#include "base/err.h"
#include "ps/node/host_io.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { SAMPLES = 50 };

/* The world of the application: what it says, and what is true. */
static struct {
    unsigned classes; /* 0: numbers */
    uint64_t validation;
    double said[SAMPLES], truth[SAMPLES];
    int fails_at; /* the sample whose prediction fails; -1: none */
} world;

/* ---- the application ----------------------------------------------------- */

static int open_app(const struct mlt_app_config *config,
                    struct mlt_app_info *info, void **app,
                    struct mlt_error *err)
{
    (void)config;
    (void)err;
    *info = (struct mlt_app_info){.samples = 64,
                                  .validation_samples = world.validation,
                                  .metric = "own",
                                  .loss_floor = NAN};
    *app = &world;
    return 0;
}

static int declare(void *app, struct mlt_ps *ps, struct mlt_error *err)
{
    const struct mlt_table_options o = {
        .size = sizeof(o), .name = "w", .rows = 1, .width = 1};
    static mlt_table w;

    (void)app;
    return mlt_ps_table(ps, &o, &w, err);
}

static int init(void *app, struct mlt_worker *w)
{
    (void)app;
    (void)w;
    return 0;
}

static int run_clock(void *app, struct mlt_worker *w,
                     const struct mlt_clock_ctx *ctx)
{
    (void)app;
    mlt_report(w, 0.25 * (double)ctx->count, ctx->count);
    return 0;
}

static void close_app(void *app)
{
    (void)app;
}

static int columns(void *app, const struct mlt_column **column, uint32_t *count,
                   struct mlt_error *err)
{
    static const char *const label[] = {"a", "b", "c"};
    static struct mlt_column all[4];

    (void)app;
    (void)err;
    all[0] = (struct mlt_column){"said", world.classes ? label : NULL,
                                 world.classes};
    *column = all;
    *count = world.classes + 1;
    return 0;
}

static int predict(void *app, struct mlt_worker *w, uint64_t first,
                   uint64_t count, double *out)
{
    (void)app;
    (void)w;
    for (uint64_t i = 0; i < count; i++) {
        double *row = out + i * (world.classes + 1);
        double said = world.said[first + i];

        if (first + i == (uint64_t)world.fails_at)
            return ERR_APP;
        row[0] = said;
        for (unsigned k = 0; k < world.classes; k++) /* sure of it */
            row[1 + k] = isnan(said) ? said : said == k ? 0.75 : 0.125;
        if (isnan(said) && world.classes)
            row[0] = 0;
    }
    return 0;
}

static int truth(void *app, uint64_t first, uint64_t count, double *out)
{
    (void)app;
    assert_true(first + count <= world.validation);
    memcpy(out, world.truth + first, (size_t)count * sizeof(*out));
    return 0;
}

#define OPS(v)                                                                 \
    {                                                                          \
        .version = (v), .name = "told", .summary = "for tests",                \
        .schema = "{}", .open = open_app, .declare = declare, .init = init,    \
        .run_clock = run_clock, .close = close_app, .columns = columns,        \
        .predict = predict, .truth = truth                                     \
    }

static const struct mlt_app_ops app = OPS(MLT_APP_VERSION), old = OPS(3);

/* ---- what tests do with it ----------------------------------------------- */

/* Three of four are right. */
static void make_world(unsigned classes)
{
    memset(&world, 0, sizeof(world));
    world.classes = classes;
    world.validation = SAMPLES;
    world.fails_at = -1;
    for (int i = 0; i < SAMPLES; i++) {
        world.truth[i] = classes ? i % (int)classes : i * 0.5;
        world.said[i] = world.truth[i];
        if (i % 4 == 3)
            world.said[i] = classes ? (i + 1) % (int)classes : i * 0.5 + 2;
    }
}

static enum err open_metric(const struct mlt_app_ops *ops, const char *metric,
                            unsigned workers, struct host **out,
                            struct fault *f)
{
    struct host_config c = {.app = ops, .folder = "/", .seed = 1};
    json_t *json = json_pack("{s:{}, s:{s:i}, s:s*}", "app", "cluster",
                             "workers", (int)workers, "metric", metric);
    enum err err;

    assert_non_null(json);
    c.config = json;
    err = host_open(&c, out, f);
    json_decref(json);
    return err;
}

/* The validation's result: sum and samples of a testing clock. */
static enum err test_clock(struct host *h, struct progress_window *out,
                           struct fault *f)
{
    const struct node_setting setting = host_facts(h)->defaults;
    const struct host_slice slice = {9, BRANCH_TESTING, &setting, 1, 1};
    struct host_result result;
    enum err err;

    assert_int_equal(ps_fork(host_ps(h), 9, 0, BRANCH_TESTING), ERR_OK);
    assert_int_equal(host_slice_begin(h, &slice, f), ERR_OK);
    err = host_slice_end(h, &result, f);
    if (!err) {
        assert_int_equal(host_slice_windows(h), 1);
        *out = *host_slice_window(h, 0);
    }
    assert_int_equal(ps_drop(host_ps(h), 9), ERR_OK);
    return err;
}

static double value_with(const char *metric, unsigned workers)
{
    struct progress_window w = {0};
    struct host *h = NULL;
    struct fault f = {0};

    if (open_metric(&app, metric, workers, &h, &f))
        fail_msg("%s", f.text);
    assert_string_equal(host_facts(h)->info.metric, metric);
    for (int i = 0; i < 2; i++) /* again: nothing is left of the first */
        if (test_clock(h, &w, &f))
            fail_msg("%s", f.text);
    assert_int_equal(w.samples, SAMPLES);
    host_close(h);
    return w.sum / SAMPLES;
}

static void refused(const struct mlt_app_ops *ops, const char *metric,
                    enum err code, const char *says)
{
    struct host *h = NULL;
    struct fault f = {0};

    assert_int_equal(open_metric(ops, metric, 2, &h, &f), code);
    if (!strstr(f.text, says))
        fail_msg("expected \"%s\" in: %s", says, f.text);
}

/* ---- tests --------------------------------------------------------------- */

/* However many workers share the samples, also more than there are. */
static void host_metric_is_of_all_samples(void **state)
{
    static const unsigned workers[] = {1, 3, 8, SAMPLES + 3};

    (void)state;
    for (size_t i = 0; i < sizeof(workers) / sizeof(*workers); i++) {
        make_world(2); /* each class: 25; 12 of the second are wrong */
        assert_true(fabs(value_with("accuracy", workers[i]) - 0.76) < 1e-12);
        assert_true(fabs(value_with("balanced_accuracy", workers[i]) - 0.76) <
                    1e-12);
        assert_true(fabs(value_with("log_loss", workers[i]) + 0.76 * log(0.75) +
                         0.24 * log(0.125)) < 1e-12);
        assert_true(fabs(value_with("auc", workers[i]) - 0.76) < 1e-12);
        make_world(0);
        assert_true(fabs(value_with("mae", workers[i]) - 2 * 0.24) < 1e-12);
        assert_true(fabs(value_with("rmse", workers[i]) - sqrt(4 * 0.24)) <
                    1e-12);
        assert_true(fabs(value_with("r2", workers[i]) -
                         (1 - 4 * 0.24 / ((SAMPLES * SAMPLES - 1) / 48.0))) <
                    1e-12);
    }
}

/* Its direction is told, and what its noise is known to be. */
static void host_metric_tells_its_direction(void **state)
{
    static const struct {
        const char *name;
        unsigned classes;
        int higher;
        enum mlt_reduction how;
    } row[] = {{"accuracy", 2, 1, MLT_MEAN},  {"auc", 2, 1, MLT_WHOLE},
               {"log_loss", 3, 0, MLT_WHOLE}, {"r2", 0, 1, MLT_WHOLE},
               {"mae", 0, 0, MLT_WHOLE},      {"own", 0, 0, MLT_MEAN}};

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct progress_window w;
        struct host *h = NULL;
        struct fault f = {0};

        make_world(row[i].classes);
        assert_int_equal(open_metric(&app, row[i].name, 1, &h, &f), ERR_OK);
        assert_string_equal(host_facts(h)->info.metric, row[i].name);
        assert_int_equal(host_facts(h)->info.metric_higher_better,
                         row[i].higher);
        assert_int_equal(host_facts(h)->info.metric_reduction, row[i].how);
        if (strcmp(row[i].name, "own") == 0) {
            assert_int_equal(test_clock(h, &w, &f), ERR_OK);
            assert_true(fabs(w.sum / (double)w.samples - 0.25) < 1e-12);
        }
        host_close(h);
    }
}

/* What there is instead is said. */
static void host_metric_that_is_not_there_is_refused(void **state)
{
    (void)state;
    make_world(2);
    refused(&app, "rmse", ERR_INVAL,
            "/metric: expected one of own, accuracy, balanced_accuracy, "
            "macro_f1, log_loss, auc, found \"rmse\"");
    refused(&old, "auc", ERR_INVAL,
            "expected \"own\", the only metric of this application, found "
            "\"auc\"");
    make_world(3);
    refused(&app, "auc", ERR_INVAL,
            "log_loss, found \"auc\", which is of two classes");
    make_world(0);
    refused(&app, "accuracy", ERR_INVAL, "own, rmse, mae, r2, found");
    world.validation = 0;
    refused(&app, "mae", ERR_INVAL,
            "expected validation data to measure \"mae\" on");
}

/* Data of which it has no value are refused before anything is trained. */
static void host_metric_without_a_value_is_refused(void **state)
{
    (void)state;
    make_world(2);
    for (int i = 0; i < SAMPLES; i++)
        world.truth[i] = 1;
    refused(&app, "auc", ERR_INVAL, "found one class in all 50 samples");
    assert_true(value_with("macro_f1", 2) < 1);
    world.truth[7] = 5;
    refused(&app, "macro_f1", ERR_APP,
            "validation sample 7: expected a class below 2, found 5");
    make_world(0);
    for (int i = 0; i < SAMPLES; i++)
        world.truth[i] = 3;
    refused(&app, "r2", ERR_INVAL, "found one number in all 50 samples");
}

/* A model that has diverged has no metric; the next one has. */
static void host_metric_of_no_numbers_is_none(void **state)
{
    struct progress_window w;
    struct host *h = NULL;
    struct fault f = {0};

    (void)state;
    make_world(2);
    assert_int_equal(open_metric(&app, "auc", 3, &h, &f), ERR_OK);
    world.said[20] = NAN;
    assert_int_equal(test_clock(h, &w, &f), ERR_OK);
    assert_true(isnan(w.sum));
    assert_int_equal(w.samples, SAMPLES);
    world.said[20] = 0;
    assert_int_equal(test_clock(h, &w, &f), ERR_OK);
    assert_true(fabs(w.sum / SAMPLES - 0.76) < 1e-12);
    host_close(h);
}

/* An application's error, or a class that there is not, fails the slice and not
 * the host. */
static void host_metric_passes_errors_on(void **state)
{
    struct progress_window w;
    struct host *h = NULL;
    struct fault f = {0};

    (void)state;
    make_world(2);
    assert_int_equal(open_metric(&app, "macro_f1", 2, &h, &f), ERR_OK);
    world.fails_at = 30;
    assert_int_equal(test_clock(h, &w, &f), ERR_APP);
    world.fails_at = -1;
    world.said[3] = 9;
    assert_int_equal(test_clock(h, &w, &f), ERR_APP);
    world.said[3] = 1;
    assert_int_equal(test_clock(h, &w, &f), ERR_OK);
    assert_int_equal(w.samples, SAMPLES);
    host_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_metric_is_of_all_samples),
        cmocka_unit_test(host_metric_tells_its_direction),
        cmocka_unit_test(host_metric_that_is_not_there_is_refused),
        cmocka_unit_test(host_metric_without_a_value_is_refused),
        cmocka_unit_test(host_metric_of_no_numbers_is_none),
        cmocka_unit_test(host_metric_passes_errors_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
