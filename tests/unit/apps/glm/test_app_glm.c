/* glm: training under both solvers, what it reads, the saved model. */
#include "apps/data/data.h"
#include "apps/glm/glm.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/glm_plain.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static const char of_spec[] =
    "{\"app\": {\"name\": \"glm\", \"data\": \"" GLM_PLAIN_SPEC "\","
    " \"test_fraction\": 0, \"lambda\": 0.01%s}, \"cluster\": {\"workers\":"
    " %u}%s}";

static void near_to(double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within))
        fail_msg("%.9g, wanted %.9g", got, wanted);
}

/* saga reaches the least objective to 1e-4, with either penalty, and with two
 * workers to 1e-3. */
static void glm_saga_reaches_the_minimum(void **state)
{
    static const struct {
        double ratio;
        unsigned workers;
        double within;
    } cases[] = {{0, 1, 1e-4}, {0.7, 1, 1e-4}, {0, 2, 1e-3}};
    struct sparse s;

    (void)state;
    glm_plain_load(&s);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double best = glm_plain_minimum(&s, 0.01, cases[i].ratio), got;
        struct app_run r;
        char more[64];

        snprintf(more, sizeof(more), ", \"solver\": \"saga\", \"l1_ratio\": %g",
                 cases[i].ratio);
        app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 0.4}", of_spec, more,
                     cases[i].workers, "");
        app_run_train(&r, 60);
        got = glm_plain_objective(&r, &s, 0.01, cases[i].ratio);
        if (!(got >= best - 1e-6 && got < best * (1 + cases[i].within)))
            fail_msg("%zu: %.8f, least %.8f", i, got, best);
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

/* svrg does, too; with two workers to 1e-3. */
static void glm_svrg_reaches_the_minimum(void **state)
{
    static const struct {
        double ratio;
        unsigned workers, inner;
        double within;
    } cases[] = {
        {0, 1, 2, 1e-4}, {0.7, 1, 2, 1e-4}, {0, 1, 5, 1e-4}, {0, 2, 2, 1e-3}};
    struct sparse s;

    (void)state;
    glm_plain_load(&s);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double best = glm_plain_minimum(&s, 0.01, cases[i].ratio), got;
        struct app_run r;
        char more[128];

        snprintf(more, sizeof(more),
                 ", \"solver\": \"svrg\", \"l1_ratio\": %g,"
                 " \"inner_passes\": %u",
                 cases[i].ratio, cases[i].inner);
        app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 0.3}", of_spec, more,
                     cases[i].workers, "");
        app_run_train(&r, 90);
        got = glm_plain_objective(&r, &s, 0.01, cases[i].ratio);
        if (!(got >= best - 1e-6 && got < best * (1 + cases[i].within)))
            fail_msg("%zu: %.8f, least %.8f", i, got, best);
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

static void read_table(struct app_run *r, const char *name,
                       double out[GLM_PLAIN_COLUMNS + 1])
{
    for (uint64_t j = 0; j <= GLM_PLAIN_COLUMNS; j++)
        out[j] = app_run_value(r, name, j, 1, 0);
}

/* In the pass after `inner_passes` of steps the weights stay where they are,
 * and the mean gradient becomes that of the loss there, whatever the number of
 * workers; the passes of steps leave it as it is. */
static void glm_svrg_takes_the_gradient_in_passes_of_its_own(void **state)
{
    double before[GLM_PLAIN_COLUMNS + 1], after[GLM_PLAIN_COLUMNS + 1];
    double mean[GLM_PLAIN_COLUMNS + 1], g[GLM_PLAIN_COLUMNS + 1];
    struct sparse s;

    (void)state;
    glm_plain_load(&s);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct app_run r;

        app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 0.1}", of_spec,
                     ", \"solver\": \"svrg\", \"inner_passes\": 3", workers,
                     "");
        for (int cycle = 0; cycle < 3; cycle++) {
            app_run_train(&r, 3);
            read_table(&r, "weights", before);
            near_to(app_run_train(&r, 1),
                    glm_plain_loss(&s, before, g) +
                        glm_plain_penalty(before, 0.01, 0),
                    1e-5);
            read_table(&r, "weights", after);
            assert_memory_equal(before, after, sizeof(before));
            read_table(&r, "mean_gradient", mean);
            for (int j = 0; j <= GLM_PLAIN_COLUMNS; j++)
                near_to(mean[j], g[j], 1e-6);
        }
        app_run_train(&r, 2);
        read_table(&r, "mean_gradient", after);
        assert_memory_equal(mean, after, sizeof(mean));
        read_table(&r, "weights", after);
        assert_memory_not_equal(before, after, sizeof(before));
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

/* local: batches of all samples are steps down the gradient, so that they end
 * at the minimum of either penalty; small ones come near it. */
static void glm_local_reaches_the_minimum(void **state)
{
    static const struct {
        double ratio;
        const char *more;
        unsigned workers, epochs;
        double within;
    } cases[] = {
        {0, ", \"clock\": \"pass\", \"local_batch\": 1000", 1, 800, 2e-4},
        {0.7, ", \"clock\": \"pass\", \"local_batch\": 1000", 1, 800, 2e-4},
        {0, ", \"local_batch\": 10", 1, 40, 2e-2},
        {0, ", \"local_batch\": 7", 3, 40, 2e-2},
    };
    struct sparse s;

    (void)state;
    glm_plain_load(&s);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double best = glm_plain_minimum(&s, 0.01, cases[i].ratio), got;
        struct app_run r;
        char more[128];

        snprintf(more, sizeof(more),
                 ", \"solver\": \"local\", \"l1_ratio\": %g%s", cases[i].ratio,
                 cases[i].more);
        app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 0.5}", of_spec, more,
                     cases[i].workers, "");
        app_run_train(&r, cases[i].epochs);
        got = glm_plain_objective(&r, &s, 0.01, cases[i].ratio);
        if (!(got >= best - 1e-6 && got < best * (1 + cases[i].within)))
            fail_msg("%zu: %.8f, least %.8f", i, got, best);
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

/* The learning rate acts under every solver, its warm-up too; momentum and
 * batch size only where an update rule and mini-batches of clocks are. */
static void glm_tunes_what_its_solver_uses(void **state)
{
    static const char *const solvers[] = {"saga", "svrg", "local"};
    struct app_run r, warm, hand;

    (void)state;
    app_run_open(&r, &app_glm, 1, "{}", of_spec, "", 1u, "");
    app_run_tunables(&r, "[\"learning_rate\", \"momentum\", \"batch_size\", "
                         "\"warmup\"]");
    app_run_close(&r);
    for (size_t i = 0; i < sizeof(solvers) / sizeof(*solvers); i++) {
        char more[64];

        snprintf(more, sizeof(more), ", \"solver\": \"%s\"", solvers[i]);
        app_run_open(&r, &app_glm, 1, "{}", of_spec, more, 2u,
                     ", \"ps\": {\"consistency\": \"ssp\"}");
        app_run_tunables(&r, "[\"learning_rate\", \"staleness\", \"warmup\"]");
        app_run_close(&r);
        app_run_open(&warm, &app_glm, 1, "{\"learning_rate\": 0.125}", of_spec,
                     more, 1u, "");
        app_run_open(&hand, &app_glm, 1, "{\"learning_rate\": 0.125}", of_spec,
                     more, 1u, "");
        app_run_warms(&warm, &hand);
        app_run_close(&warm);
        app_run_close(&hand);
        app_run_refused(
            &app_glm, ERR_INVAL, "expected \"parts\"",
            "{\"app\": {\"name\": \"glm\", \"data\": \"" GLM_PLAIN_SPEC
            "\", \"order\": \"samples\"%s}}",
            more);
    }
}

/* sgd comes near the same minimum under a rate that falls, whatever the update
 * rule, number of workers, order and consistency. */
static void glm_sgd_comes_near_the_minimum(void **state)
{
    static const struct {
        const char *setting, *app, *ps;
        unsigned workers;
    } cases[] = {
        {"{\"learning_rate\": 0.5, \"batch_size\": 16}", "",
         ", \"ps\": {\"update_rule\": \"sgd\"}", 1},
        {"{\"learning_rate\": 0.5, \"batch_size\": 8}", "",
         ", \"ps\": {\"update_rule\": \"sgd\"}", 2},
        {"{\"learning_rate\": 0.1, \"batch_size\": 16}", "",
         ", \"ps\": {\"update_rule\": \"adagrad\"}", 1},
        {"{\"learning_rate\": 0.5}", ", \"order\": \"parts\", \"clock\": 30",
         "", 2},
        {"{\"learning_rate\": 0.3, \"batch_size\": 16, \"staleness\": 2}", "",
         ", \"ps\": {\"consistency\": \"ssp\"}", 3},
        {"{\"learning_rate\": 0.3, \"batch_size\": 16}", "",
         ", \"ps\": {\"consistency\": \"async\"}", 2},
    };
    struct sparse s;
    double best;

    (void)state;
    glm_plain_load(&s);
    best = glm_plain_minimum(&s, 0.01, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct app_run r;
        double got;

        app_run_open(&r, &app_glm, 1, cases[i].setting, of_spec, cases[i].app,
                     cases[i].workers, cases[i].ps);
        app_run_train(&r, 40);
        got = glm_plain_objective(&r, &s, 0.01, 0);
        if (!(got >= best - 1e-6 && got < 1.02 * best))
            fail_msg("%zu: %.6f, least %.6f", i, got, best);
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

/* One clock over all samples from zero is a step down the gradient of the mean
 * loss, whatever the number of workers. */
static void glm_first_step_is_the_mean_gradient(void **state)
{
    double zero[GLM_PLAIN_COLUMNS + 1] = {0}, g[GLM_PLAIN_COLUMNS + 1];
    struct sparse s;

    (void)state;
    glm_plain_load(&s);
    glm_plain_loss(&s, zero, g);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct app_run r;

        app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 1}",
                     "{\"app\": {\"name\": \"glm\", \"data\": \"" GLM_PLAIN_SPEC
                     "\","
                     " \"test_fraction\": 0, \"clock\": \"pass\"},"
                     " \"cluster\": {\"workers\": %u}}",
                     workers);
        near_to(app_run_train(&r, 1), log(2), 1e-6);
        for (uint64_t j = 0; j <= GLM_PLAIN_COLUMNS; j++)
            near_to(app_run_value(&r, "weights", j, 1, 0), -g[j], 1e-6);
        app_run_close(&r);
    }
    sparse_deinit(&s);
}

/* An l1 penalty leaves columns that say nothing exactly at 0, and keeps one
 * that does. */
static void glm_l1_leaves_weights_at_zero(void **state)
{
    char text[1 << 15];
    struct app_run r;
    struct rng rng;
    size_t n = 0;
    int zeros = 0;

    (void)state;
    rng_init(&rng, 3);
    for (int i = 0; i < 200; i++) {
        int y = i % 2;

        n += (size_t)sprintf(text + n, "%d 1:%d", y, y ? 1 : -1);
        for (int j = 2; j <= 8; j++)
            n += (size_t)sprintf(text + n, " %d:%.3f", j, rng_normal(&rng));
        n += (size_t)sprintf(text + n, "\n");
    }
    scratch_text("l1", text);
    app_run_open(&r, &app_glm, 1, "{\"learning_rate\": 0.3}",
                 "{\"app\": {\"name\": \"glm\", \"data\": \"%s\","
                 " \"test_fraction\": 0, \"clock\": \"pass\", \"lambda\": 0.1,"
                 " \"l1_ratio\": 1}}",
                 scratch_path("l1"));
    app_run_train(&r, 100);
    for (uint64_t j = 2; j <= 8; j++)
        zeros += app_run_value(&r, "weights", j, 1, 0) == 0;
    assert_int_equal(zeros, 7);
    assert_true(app_run_value(&r, "weights", 1, 1, 0) > 0.5);
    app_run_close(&r);
}

/* Each loss learns its kind of labels, sparse and dense, and the saved model
 * scores other data as it did its validation. */
static void glm_learns_every_kind_of_labels(void **state)
{
    static const struct {
        const char *data, *more, *rate;
        double below, above; /* of the metric */
    } cases[] = {
        {"gen:libsvm?samples=2000&noise=0.1&columns=50", "", "1", 1.01, 0.85},
        {"gen:libsvm?samples=2000&noise=0.1&columns=50",
         ", \"loss\": \"hinge\"", "1", 1.01, 0.85},
        {"gen:libsvm?samples=3000&noise=0.1&columns=50&classes=4", "", "2",
         1.01, 0.7},
        {"gen:libsvm?samples=2000&noise=0.1&columns=50&classes=0", "", "0.5",
         0.4, 0},
        {"gen:digits?samples=1000&test=200&size=14", "", "0.1", 1.01, 0.7},
    };
    char dir[512], config[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct app_run r;
        struct host_score score;
        char setting[64];
        double metric;

        snprintf(setting, sizeof(setting), "{\"learning_rate\": %s}",
                 cases[i].rate);
        snprintf(config, sizeof(config),
                 "{\"app\": {\"name\": \"glm\", \"data\": \"%s\"%s},"
                 " \"cluster\": {\"workers\": 2}}",
                 cases[i].data, cases[i].more);
        app_run_open(&r, &app_glm, 1, setting, "%s", config);
        app_run_train(&r, 20);
        metric = app_run_metric(&r);
        if (!(metric < cases[i].below && metric > cases[i].above))
            fail_msg("%zu: metric %g", i, metric);
        snprintf(dir, sizeof(dir), "%s", scratch_path("model"));
        scratch_mkdir("model");
        app_run_save(&r, dir);
        app_run_close(&r);
        score = app_run_evaluate(&app_glm, dir, config);
        if (fabs(score.metric - metric) > 0.12)
            fail_msg("%zu: metric %g, of all data %g", i, metric, score.metric);
        scratch_remove(NULL);
        scratch_make(NULL);
    }
}

/* A table's numbers are scaled, and predicted in their own unit. */
static void glm_predicts_numbers_of_a_table(void **state)
{
    char text[1 << 14];
    struct app_run r;
    struct rng rng;
    size_t n = (size_t)sprintf(text, "a,b,price\n");
    double metric;

    (void)state;
    rng_init(&rng, 4);
    for (int i = 0; i < 300; i++) {
        double a = 100 * rng_uniform(&rng), b = rng_uniform(&rng);

        n += (size_t)sprintf(text + n, "%.4f,%.4f,%.3f\n", a, b,
                             5000 + 30 * a - 700 * b);
    }
    scratch_text("t.csv", text);
    app_run_open(&r, &app_glm, 1,
                 "{\"learning_rate\": 0.2, \"batch_size\": 16}",
                 "{\"app\": {\"name\": \"glm\", \"loss\": \"squared\","
                 " \"data\": \"%s\"}}",
                 scratch_path("t.csv"));
    app_run_train(&r, 60);
    metric = app_run_metric(&r);
    if (!(metric < 5))
        fail_msg("rmse %g", metric);
    app_run_close(&r);
}

/* What the settings or the labels do not allow is refused in words. */
static void glm_refuses_what_does_not_fit(void **state)
{
    static const char config[] =
        "{\"app\": {\"name\": \"glm\", \"data\": \"%s\"%s}}";

    (void)state;
    scratch_text("one", "1 1:1\n1 2:1\n1 3:1\n1 1:1\n1 2:1\n1 3:1\n1 4:1\n");
    scratch_text("three", "1 1:1\n2 2:1\n3 3:1\n");
    scratch_text("half", "1 1:1\n1.5 2:1\n3 3:1\n");
    scratch_text("other", "1 1:1\n4 2:1\n");
    scratch_text("bad", "1 1:1\n2 x:1\n");
    app_run_refused(&app_glm, ERR_FORMAT, "at least two classes", config,
                    scratch_path("one"), ", \"test_fraction\": 0");
    app_run_refused(&app_glm, ERR_FORMAT, "softmax takes any number", config,
                    scratch_path("three"),
                    ", \"loss\": \"logistic\", \"test_fraction\": 0");
    app_run_refused(&app_glm, ERR_FORMAT, "line 2: expected an index", config,
                    scratch_path("bad"), "");
    app_run_refused(&app_glm, ERR_INVAL, "order", config, scratch_path("three"),
                    ", \"solver\": \"saga\", \"order\": \"samples\"");
    {
        char more[256];

        snprintf(more, sizeof(more), ", \"test\": \"%s\"",
                 scratch_path("other"));
        app_run_refused(&app_glm, ERR_FORMAT,
                        "expected only classes that the training data have",
                        config, scratch_path("three"), more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glm_saga_reaches_the_minimum),
        cmocka_unit_test(glm_svrg_reaches_the_minimum),
        cmocka_unit_test(glm_svrg_takes_the_gradient_in_passes_of_its_own),
        cmocka_unit_test(glm_local_reaches_the_minimum),
        cmocka_unit_test(glm_tunes_what_its_solver_uses),
        cmocka_unit_test(glm_sgd_comes_near_the_minimum),
        cmocka_unit_test(glm_first_step_is_the_mean_gradient),
        cmocka_unit_test_setup_teardown(glm_l1_leaves_weights_at_zero,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(glm_learns_every_kind_of_labels,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(glm_predicts_numbers_of_a_table,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(glm_refuses_what_does_not_fit,
                                        scratch_make, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
