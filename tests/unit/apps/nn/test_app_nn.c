#include "apps/nn/nn.h"
#include "base/mem.h"
#include "ps/rows/rule.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

/* Everything that keeps something between clocks or draws lots. */
#define ALL_KINDS                                                              \
    "[{\"type\": \"conv\", \"channels\": 4, \"kernel\": 3}, {\"type\":"        \
    " \"norm\"}, {\"type\": \"relu\"}, {\"type\": \"max_pool\", \"kernel\":"   \
    " 2}, {\"type\": \"dropout\", \"rate\": 0.2}, {\"type\": \"conv\","        \
    " \"channels\": 6, \"kernel\": 3, \"padding\": 1}, {\"type\":"             \
    " \"avg_pool\", \"kernel\": 2}, {\"type\": \"tanh\"}, {\"type\":"          \
    " \"dense\", \"units\": 20}, {\"type\": \"relu\"}, {\"type\": \"dense\","  \
    " \"units\": \"outputs\"}]"
#define DROPOUT                                                                \
    "[{\"type\": \"dense\", \"units\": 24}, {\"type\": \"relu\"}, {\"type\":"  \
    " \"dropout\", \"rate\": 0.3}, {\"type\": \"dense\", \"units\":"           \
    " \"outputs\"}]"
#define NORM                                                                   \
    "[{\"type\": \"dense\", \"units\": 24}, {\"type\": \"norm\"}, {\"type\":"  \
    " \"relu\"}, {\"type\": \"dense\", \"units\": \"outputs\"}]"

static const char small[] =
    "{\"app\": {\"name\": \"nn\", \"layers\": %s, \"data\":"
    " \"gen:digits?samples=600&test=150&size=12\"%s},"
    " \"cluster\": {\"workers\": %u}%s}";

static void open_small(struct app_run *r, const char *layers, const char *app,
                       unsigned workers, const char *more, const char *setting)
{
    app_run_open(r, &app_nn, 1, setting, small, layers, app, workers, more);
}

/* Training lowers the loss from about log(10) and tells digits apart. */
static void nn_training_lowers_loss_and_raises_accuracy(void **state)
{
    static const char *const layers[] = {ALL_KINDS, DROPOUT, NORM};
    struct app_run r;
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        double first, last;

        open_small(&r, layers[i], "", 1, "",
                   "{\"learning_rate\": 0.1, \"momentum\": 0.9,"
                   " \"batch_size\": 16}");
        first = app_run_train(&r, 1);
        last = app_run_train(&r, 11);
        assert_true(first < 2.6);
        if (!(last < 0.7 * first) || !(app_run_metric(&r) > 0.7))
            fail_msg("%zu: %g to %g, %g", i, first, last, app_run_metric(&r));
        app_run_close(&r);
    }
}

/* Loss of each of the next @n clocks of a branch. */
static void trace(struct app_run *r, branch_id branch, uint64_t n, double out[])
{
    struct host_slice s = {branch, BRANCH_TRAINING, &r->setting, n, 1};
    struct host_result result;
    struct fault f = {0};
    uint32_t i;

    if (host_slice_begin(r->host, &s, &f) ||
        host_slice_end(r->host, &result, &f))
        fail_msg("%s", f.text);
    assert_int_equal(host_slice_windows(r->host), n);
    for (i = 0; i < n; i++)
        out[i] = host_slice_window(r->host, i)->sum;
}

/* A forked branch goes on exactly as its parent would have: with the same
 * setting and one worker the losses are the same to the last bit, from the
 * middle of an epoch into the next, with dropout and normalisation. */
static void nn_forked_branch_continues_as_its_parent(void **state)
{
    static const char *const rules[] = {"sgd", "adam"};
    enum { BEFORE = 21, AFTER = 30 };
    struct app_run r;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        double before[BEFORE], parent[AFTER], child[AFTER], other[AFTER];
        char more[64];

        snprintf(more, sizeof(more), ", \"ps\": {\"update_rule\": \"%s\"}",
                 rules[i]);
        open_small(&r, ALL_KINDS, ", \"lambda\": 0.001", 1, more,
                   "{\"learning_rate\": 0.01, \"momentum\": 0.9,"
                   " \"batch_size\": 17}");
        trace(&r, 1, BEFORE, before);
        assert_int_equal(ps_fork(host_ps(r.host), 2, 1, BRANCH_TRAINING),
                         ERR_OK);
        trace(&r, 1, AFTER, parent);
        trace(&r, 2, AFTER, child);
        assert_memory_equal(parent, child, sizeof(parent));
        /* and it is not that nothing happens */
        assert_int_equal(ps_fork(host_ps(r.host), 3, 1, BRANCH_TRAINING),
                         ERR_OK);
        trace(&r, 3, AFTER, other);
        assert_memory_not_equal(parent, other, sizeof(parent));
        app_run_close(&r);
    }
}

/* The tunable drops what layers with that rate drop. */
static void nn_dropout_is_a_tunable(void **state)
{
    enum { CLOCKS = 40 };
    double own[CLOCKS], tunable[CLOCKS], none[CLOCKS];
    struct app_run r;

    (void)state;
    open_small(&r, DROPOUT, "", 1, "", "{\"learning_rate\": 0.05}");
    trace(&r, 1, CLOCKS, own);
    app_run_close(&r);
    open_small(&r, DROPOUT, "", 1, "",
               "{\"learning_rate\": 0.05, \"dropout\": 0.3}");
    trace(&r, 1, CLOCKS, tunable);
    app_run_close(&r);
    open_small(&r, DROPOUT, "", 1, "",
               "{\"learning_rate\": 0.05, \"dropout\": 0}");
    trace(&r, 1, CLOCKS, none);
    app_run_close(&r);
    assert_memory_equal(own, tunable, sizeof(own));
    assert_true(none[CLOCKS - 1] < own[CLOCKS - 1]);
}

/* The rate rises from clock to clock, with several workers too, and goes on in
 * a fork where its parent was. */
static void nn_rate_warms_up(void **state)
{
    static const char setting[] =
        "{\"learning_rate\": 0.125, \"momentum\": 0.5, \"batch_size\": 20,"
        " \"weight_decay\": 0.25}";

    (void)state;
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct app_run warm, hand;

        open_small(&warm, DROPOUT, "", workers, "", setting);
        open_small(&hand, DROPOUT, "", workers, "", setting);
        app_run_warms(&warm, &hand);
        app_run_close(&warm);
        app_run_close(&hand);
    }
}

static void expect_idle(const char *settings, const char *tunable,
                        const char *why)
{
    json_t *o = json_loads(settings, 0, NULL);
    const char *found = nn_idle_tunable(o, tunable);

    if (!o || !found != !why || (why && strcmp(found, why) != 0))
        fail_msg("%s of %s: %s", tunable, settings, found ? found : "acts");
    json_decref(o);
}

/* What changes nothing is known before anything runs. */
static void nn_idle_tunables_are_known(void **state)
{
    (void)state;
    expect_idle("{\"preset\": \"mlp\"}", "dropout", "without a dropout layer");
    expect_idle("{\"layers\": " DROPOUT "}", "dropout", NULL);
    expect_idle("{\"layers\": " DROPOUT ", \"device\": \"cpu\"}", "dropout",
                NULL);
    expect_idle("{\"layers\": " DROPOUT ", \"device\": \"auto\"}", "dropout",
                "with a device");
    expect_idle("{\"preset\": \"mlp\", \"device\": \"host\"}", "clip_norm",
                "with a device");
    expect_idle("{\"preset\": \"mlp\"}", "clip_norm", NULL);
    expect_idle("{\"preset\": \"mlp\"}", "label_smoothing", NULL);
    expect_idle("{\"preset\": \"mlp\", \"loss\": \"squared\"}",
                "label_smoothing", "with loss squared");
    expect_idle("{\"preset\": \"mlp\", \"device\": \"auto\"}", "batch_size",
                NULL);
    expect_idle("{}", "dropout", NULL); /* that is told elsewhere */
}

#define LINEAR                                                                 \
    "[{\"type\": \"avg_pool\", \"kernel\": 2}, {\"type\": \"dense\","          \
    " \"units\": \"outputs\"}]"
enum { LINEAR_WIDTH = 10 * (36 + 1) };

/* Values of the one layer, after one clock with @setting. */
static void one_step(unsigned workers, const char *setting,
                     double out[LINEAR_WIDTH])
{
    struct host_slice s;
    struct host_result result;
    struct fault f = {0};
    struct app_run r;

    open_small(&r, LINEAR, "", workers, "", setting);
    s = (struct host_slice){1, BRANCH_TRAINING, &r.setting, 1, 1};
    if (host_slice_begin(r.host, &s, &f) || host_slice_end(r.host, &result, &f))
        fail_msg("%s", f.text);
    for (uint32_t j = 0; j < LINEAR_WIDTH; j++)
        out[j] = app_run_value(&r, "layer1_dense", 0, LINEAR_WIDTH, j);
    app_run_close(&r);
}

static double distance(const double a[], const double b[])
{
    double sum = 0;

    for (uint32_t j = 0; j < LINEAR_WIDTH; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sqrt(sum);
}

/* A step at rate 1 is as long as the gradient: with clip_norm it is that long
 * with one worker, at most that long with several, and goes the same way; a
 * large one changes no bit. */
static void nn_gradient_is_clipped(void **state)
{
    static double before[LINEAR_WIDTH], whole[LINEAR_WIDTH],
        large[LINEAR_WIDTH], clipped[LINEAR_WIDTH];
    double norm, along = 0;

    (void)state;
    one_step(1, "{\"learning_rate\": 0}", before);
    one_step(1, "{\"learning_rate\": 1}", whole);
    norm = distance(whole, before);
    assert_true(norm > 0.5);
    one_step(1, "{\"learning_rate\": 1, \"clip_norm\": 1000}", large);
    assert_memory_equal(whole, large, sizeof(whole));
    one_step(1, "{\"learning_rate\": 1, \"clip_norm\": 0.125}", clipped);
    assert_true(fabs(distance(clipped, before) - 0.125) < 1e-5);
    for (uint32_t j = 0; j < LINEAR_WIDTH; j++)
        along += (clipped[j] - before[j]) * (whole[j] - before[j]);
    assert_true(fabs(along / (0.125 * norm) - 1) < 1e-4);
    one_step(2, "{\"learning_rate\": 1, \"clip_norm\": 0.125}", clipped);
    assert_true(distance(clipped, before) < 0.125 + 1e-5);
    assert_true(distance(clipped, before) > 0.125 / 2);
}

/* Values of the one layer after two clocks, the second with that decay. */
static void two_steps(double decay, double out[LINEAR_WIDTH])
{
    struct host_result result;
    struct fault f = {0};
    struct app_run r;

    open_small(&r, LINEAR, "", 1, "", "{\"learning_rate\": 0.5}");
    for (unsigned clock = 0; clock < 2; clock++) {
        struct host_slice s = {1, BRANCH_TRAINING, &r.setting, 1, 1};

        r.setting.weight_decay = clock ? decay : 0;
        if (host_slice_begin(r.host, &s, &f) ||
            host_slice_end(r.host, &result, &f))
            fail_msg("%s", f.text);
    }
    for (uint32_t j = 0; j < LINEAR_WIDTH; j++)
        out[j] = app_run_value(&r, "layer1_dense", 0, LINEAR_WIDTH, j);
    app_run_close(&r);
}

/* Weights lose rate times decay of what they were beside their step, biases
 * nothing. */
static void nn_decay_leaves_biases_alone(void **state)
{
    static double before[LINEAR_WIDTH], plain[LINEAR_WIDTH],
        decayed[LINEAR_WIDTH];
    const uint32_t weights = 10 * 36;

    (void)state;
    one_step(1, "{\"learning_rate\": 0.5}", before);
    two_steps(0, plain);
    two_steps(0.25, decayed);
    for (uint32_t j = 0; j < weights; j++)
        assert_true(fabs(decayed[j] - (plain[j] - 0.125 * before[j])) < 1e-6);
    assert_true(before[weights] != 0);
    assert_memory_equal(decayed + weights, plain + weights,
                        sizeof(plain) - weights * sizeof(*plain));
}

/* At equal batch times workers the loss, the accuracy and the weights do not
 * depend on the number of workers beyond rounding: initial values, samples,
 * dropout, penalty. (Normalisation sees a worker's own samples only.) */
static void nn_result_does_not_depend_on_the_workers(void **state)
{
    struct app_run one, many;
    unsigned workers;
    uint32_t j;

    (void)state;
    for (workers = 2; workers <= 3; workers++) {
        char setting[96];

        open_small(&one, DROPOUT, ", \"lambda\": 0.01", 1, "",
                   "{\"learning_rate\": 0.1, \"momentum\": 0.5,"
                   " \"batch_size\": 48}");
        snprintf(setting, sizeof(setting),
                 "{\"learning_rate\": 0.1, \"momentum\": 0.5,"
                 " \"batch_size\": %u}",
                 48 / workers);
        open_small(&many, DROPOUT, ", \"lambda\": 0.01", workers, "", setting);
        for (j = 0; j < 1000; j += 111)
            assert_true(app_run_value(&one, "layer3_dense", 0, 250, j % 250) ==
                        app_run_value(&many, "layer3_dense", 0, 250, j % 250));
        assert_true(fabs(app_run_train(&one, 3) - app_run_train(&many, 3)) <
                    1e-4);
        assert_true(fabs(app_run_metric(&one) - app_run_metric(&many)) < 0.02);
        for (j = 0; j < 250; j++)
            assert_true(fabs(app_run_value(&one, "layer3_dense", 0, 250, j) -
                             app_run_value(&many, "layer3_dense", 0, 250, j)) <
                        1e-3);
        app_run_close(&one);
        app_run_close(&many);
    }
}

/* Under barriers the same seed gives the same bits, with several workers too:
 * nothing that they compute with is shared. */
static void nn_is_deterministic_for_a_seed(void **state)
{
    double loss[6];
    size_t i;

    (void)state;
    for (i = 0; i < 6; i++) {
        struct app_run r;

        open_small(&r, ALL_KINDS, "", 2, "",
                   "{\"learning_rate\": 0.1, \"momentum\": 0.5,"
                   " \"batch_size\": 24}");
        loss[i] = app_run_train(&r, 1);
        app_run_close(&r);
        assert_true(loss[i] == loss[0]);
    }
}

/* Under models without barriers it trains too, with more workers than
 * samples in the last clock, and the moments stay sane. */
static void nn_trains_without_barriers(void **state)
{
    static const char *const models[] = {"ssp", "async"};
    struct app_run r;
    double first, last;
    size_t i;
    uint32_t j;

    (void)state;
    for (i = 0; i < 2; i++) {
        char more[64];

        snprintf(more, sizeof(more), ", \"ps\": {\"consistency\": \"%s\"}",
                 models[i]);
        open_small(&r, NORM, "", 4, more,
                   "{\"learning_rate\": 0.05, \"momentum\": 0,"
                   " \"batch_size\": 13, \"staleness\": 3}");
        first = app_run_train(&r, 1);
        last = app_run_train(&r, 25);
        for (j = 0; j < 48; j++)
            assert_true(
                isfinite(app_run_value(&r, "layer1_moments", 0, 48, j)));
        /* With unlimited staleness nothing is promised. */
        if (!isfinite(last) ||
            (i == 0 && (!(last < 0.7 * first) || !(app_run_metric(&r) > 0.3))))
            fail_msg("%s: %g to %g, accuracy %g", models[i], first, last,
                     app_run_metric(&r));
        app_run_close(&r);
    }
}

/* The moments follow the batches: with rate 1 they are those of the last one,
 * whatever the workers, up to what two halves differ from the whole. */
static void nn_moments_are_those_of_the_clock(void **state)
{
    static const char layers[] =
        "[{\"type\": \"norm\", \"rate\": 1}, {\"type\": \"dense\", \"units\":"
        " \"outputs\"}]";
    double mean[3] = {0}, variance[3] = {0};
    struct app_run r;
    unsigned workers;

    (void)state;
    for (workers = 1; workers <= 2; workers++) {
        open_small(&r, layers, ", \"clock\": \"pass\"", workers, "",
                   "{\"learning_rate\": 0.01}");
        app_run_train(&r, 1);
        mean[workers] = app_run_value(&r, "layer0_moments", 0, 2, 0);
        variance[workers] = app_run_value(&r, "layer0_moments", 0, 2, 1);
        app_run_close(&r);
    }
    /* Training images are scaled to mean 0 and variance 1. */
    assert_true(fabs(mean[1]) < 1e-4 && fabs(mean[1] - mean[2]) < 1e-4);
    assert_true(fabs(variance[1] - 1) < 0.05);
    assert_true(fabs(variance[1] - variance[2]) < 0.05);
}

/* Every update rule trains it. */
static void nn_trains_with_every_update_rule(void **state)
{
    static const struct {
        const char *name;
        double rate;
    } rates[] = {{"sgd", 0.2},         {"nesterov", 0.2}, {"adagrad", 0.02},
                 {"rmsprop", 0.002},   {"adadelta", 1},   {"adam", 0.005},
                 {"adarevision", 0.1}, {"rpcs", 0.03}};
    const struct rule_ops *rule;
    size_t tried = 0, i;

    (void)state;
    for (i = 0; (rule = rule_at(i)); i++) {
        struct app_run r;
        char more[64], setting[96];
        double rate = 0.01, first, last;
        size_t k;

        if (strcmp(rule->name, "add") == 0)
            continue;
        for (k = 0; k < sizeof(rates) / sizeof(*rates); k++)
            if (strcmp(rates[k].name, rule->name) == 0)
                rate = rates[k].rate;
        snprintf(more, sizeof(more), ", \"ps\": {\"update_rule\": \"%s\"}",
                 rule->name);
        snprintf(setting, sizeof(setting),
                 "{\"learning_rate\": %g, \"momentum\": 0.9,"
                 " \"batch_size\": 12}",
                 rate);
        open_small(&r, NORM, "", 2, more, setting);
        first = app_run_train(&r, 1);
        last = app_run_train(&r, 4);
        if (!(last < 0.8 * first))
            fail_msg("%s: %g to %g", rule->name, first, last);
        app_run_close(&r);
        tried++;
    }
    assert_true(tried >= 6);
}

/* A number is learnt from a table; the metric is in the table's units. */
static void nn_squared_loss_learns_a_number(void **state)
{
    static char text[65536];
    size_t len = 0;
    struct app_run r;
    struct host_score score;
    double rmse;
    int i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        double a = i % 31 - 15, b = i * 7 % 29 - 14;

        len += (size_t)snprintf(text + len, sizeof(text) - len, "%g,%g,%g\n", a,
                                b, 1000 + 20 * a - 10 * b + (a > 0 ? 50 : 0));
    }
    scratch_write("table.csv", text, len);
    app_run_open(&r, &app_nn, 1,
                 "{\"learning_rate\": 0.1, \"momentum\": 0.9,"
                 " \"batch_size\": 16}",
                 "{\"app\": {\"name\": \"nn\", \"loss\": \"squared\","
                 " \"preset\": \"mlp\", \"data\": \"%s\"},"
                 " \"cluster\": {\"workers\": 2}}",
                 scratch_path("table.csv"));
    assert_string_equal(host_facts(r.host)->info.metric, "rmse");
    assert_int_equal(host_facts(r.host)->info.metric_higher_better, 0);
    rmse = app_run_metric(&r);
    assert_true(rmse > 100 && rmse < 1000);
    app_run_train(&r, 25);
    rmse = app_run_metric(&r);
    if (!(rmse < 20))
        fail_msg("rmse %g", rmse);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    scratch_write("other.csv", text, len / 2);
    snprintf(text, sizeof(text),
             "{\"app\": {\"name\": \"nn\", \"loss\": \"squared\", \"preset\":"
             " \"mlp\", \"data\": \"%s\"}}",
             scratch_path("other.csv"));
    score = app_run_evaluate(&app_nn, scratch_path("model"), text);
    if (!(score.metric < 20))
        fail_msg("evaluated: rmse %g", score.metric);
}

/* A saved model scores, on the data it was trained with, its accuracy in
 * training: the test set is what is evaluated. Other data are normalised as the
 * training images were, and may have fewer classes. */
static void nn_saved_model_scores_alike(void **state)
{
    struct app_run r;
    struct host_score score;
    double accuracy;

    (void)state;
    open_small(&r, ALL_KINDS, "", 2, "",
               "{\"learning_rate\": 0.1, \"momentum\": 0.9,"
               " \"batch_size\": 8}");
    app_run_train(&r, 8);
    accuracy = app_run_metric(&r);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    score = app_run_evaluate(&app_nn, scratch_path("model"),
                             "{\"app\": {\"name\": \"nn\", \"preset\":"
                             " \"mlp\", \"data\":"
                             " \"gen:digits?samples=600&test=150&size=12\"}}");
    assert_int_equal(score.samples, 150);
    assert_true(fabs(score.metric - accuracy) < 1e-9);
    assert_true(score.loss > 0 && score.loss < 1.5);
    score = app_run_evaluate(
        &app_nn, scratch_path("model"),
        "{\"app\": {\"name\": \"nn\", \"preset\": \"mlp\", \"data\":"
        " \"gen:digits?samples=3&test=0&size=12&seed=77\"}}");
    assert_int_equal(score.samples, 3);
}

static void refuse_model(const char *data, enum err code, const char *says)
{
    json_t *json = json_pack("{s:{s:s, s:s, s:s}}", "app", "name", "nn",
                             "preset", "mlp", "data", data);
    struct host_config c = {.app = &app_nn,
                            .config = json,
                            .folder = ".",
                            .seed = 1,
                            .evaluate = scratch_path("model")};
    struct fault f = {0};
    struct host *host;
    enum err err = host_open(&c, &host, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s\nwanted %s: %s", err_name(err), f.text, err_name(code),
                 says);
    json_decref(json);
}

/* Data of another shape, a damaged description, or none, are refused by name.
 */
static void nn_model_must_fit_the_data(void **state)
{
    static const struct {
        const char *text, *says;
    } damaged[] = {
        {"", "network.json"},
        {"{\"version\": 2}", "/version: expected 1"},
        {"{\"version\": 1}", "/outputs: expected"},
        {"{\"version\": 1, \"outputs\": 10}", "/input: expected channels"},
        {"{\"version\": 1, \"outputs\": 2, \"preset\": \"mlp\", \"input\":"
         " {\"channels\": 1, \"height\": 12, \"width\": 12, \"mean\": [0],"
         " \"deviation\": [1]}}",
         "knows 2 classes"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12}, \"preset\": \"mlp\"}",
         "trained on a table"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12, \"mean\": [0, 1]}}",
         "/input: expected mean and deviation"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12, \"mean\": [0], \"deviation\": [-1]}}",
         "/input: expected mean and deviation"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12, \"mean\": [2], \"deviation\": [1]}}",
         "/input: expected mean and deviation, a number from 0 to 1"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12, \"mean\": [0],"
         " \"deviation\": [1e-300]}}",
         "a deviation 0 or at least 1e-9"},
        {"{\"version\": 1, \"outputs\": 10, \"input\": {\"channels\": 1,"
         " \"height\": 12, \"width\": 12, \"mean\": [0], \"deviation\": [1]}}",
         "expected \"preset\""},
        {"{\"version\": 1, \"outputs\": 10, \"loss\": \"squared\", \"input\":"
         " {\"channels\": 1, \"height\": 12, \"width\": 12, \"mean\": [0],"
         " \"deviation\": [1]}, \"preset\": \"mlp\"}",
         "/loss: expected cross_entropy"},
    };
    struct app_run r;
    size_t i;

    (void)state;
    scratch_mkdir("model");
    refuse_model("gen:digits?samples=20&size=12", ERR_NOENT, "network.json");
    open_small(&r, NORM, "", 1, "", "{}");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    refuse_model("gen:digits?samples=20&size=9", ERR_FORMAT,
                 "takes samples of 1 x 12 x 12, the data are 1 x 9 x 9");
    for (i = 0; i < sizeof(damaged) / sizeof(*damaged); i++) {
        scratch_write("model/network.json", damaged[i].text,
                      strlen(damaged[i].text));
        refuse_model("gen:digits?samples=200&size=12", ERR_FORMAT,
                     damaged[i].says);
    }
}

static void write_table(const char *name, const char *header)
{
    char text[1024];
    int len = sprintf(text, "%s\n", header);

    for (int i = 0; i < 30; i++)
        len += sprintf(text + len, "%d,%d,%c\n", i, i * i % 7, 'p' + i % 2);
    scratch_write(name, text, (size_t)len);
}

/* A table model is for columns of the same names, and its classes go with it.
 */
static void nn_table_model_is_for_its_columns(void **state)
{
    static const char form[] = "{\"app\": {\"name\": \"nn\", \"preset\":"
                               " \"mlp\", \"data\": \"%s\"}}";
    struct app_run r;
    char text[1024];

    (void)state;
    write_table("table.csv", "a,b,y");
    write_table("swapped.csv", "b,a,y");
    write_table("others.csv", "a,c,y");
    app_run_open(&r, &app_nn, 1, "{}", form, scratch_path("table.csv"));
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    snprintf(text, sizeof(text), form, scratch_path("swapped.csv"));
    assert_true(app_run_evaluate(&app_nn, scratch_path("model"), text).samples >
                0);
    refuse_model(scratch_path("others.csv"), ERR_FORMAT,
                 "others.csv: expected the column \"b\", which the model was "
                 "trained with");
    write_table("more.csv", "a,b,y\n1,2,other");
    refuse_model(scratch_path("more.csv"), ERR_FORMAT,
                 "more.csv: expected only classes that the training data have, "
                 "found \"other\"");
    assert_int_equal(remove(scratch_path("model/classes.txt")), 0);
    refuse_model(scratch_path("table.csv"), ERR_NOENT, "classes.txt");
}

static void write_constant(const char *name, int step)
{
    char text[512];
    int len = 0;

    for (int i = 0; i < 30; i++)
        len += sprintf(text + len, "%d,%d\n", i, 7 + i * step);
    scratch_write(name, text, (size_t)len);
}

/* The error of a label that is always the same has no unit: such a table is
 * refused, to train with and by a model. */
static void nn_constant_target_is_refused(void **state)
{
    static const char form[] =
        "{\"app\": {\"name\": \"nn\", \"loss\": \"squared\", \"preset\":"
        " \"mlp\", \"data\": \"%s\"}}";
    struct app_run r;
    char text[1024];

    (void)state;
    write_constant("same.csv", 0);
    write_constant("line.csv", 1);
    app_run_refused(&app_nn, ERR_FORMAT, "label column, found one value only",
                    form, scratch_path("same.csv"));
    app_run_open(&r, &app_nn, 1, "{}", form, scratch_path("line.csv"));
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    /* One value is enough to evaluate: the scale is the model's. */
    snprintf(text, sizeof(text), form, scratch_path("same.csv"));
    assert_true(app_run_evaluate(&app_nn, scratch_path("model"), text).metric >
                1);
}

/* Bad settings, networks and data are refused in words. */
static void nn_bad_configurations_are_refused(void **state)
{
    (void)state;
    app_run_refused(&app_nn, ERR_INVAL, "data", "{\"app\": {}}");
    app_run_refused(&app_nn, ERR_INVAL, "/app: expected \"preset\"",
                    "{\"app\": {\"data\": \"gen:digits\"}}");
    app_run_refused(&app_nn, ERR_INVAL,
                    "/app/layers/1/type: expected one of \"dense\"",
                    "{\"app\": {\"data\": \"gen:digits\", \"layers\": [{"
                    "\"type\": \"relu\"}, {\"type\": \"x\"}, 7]}}");
    app_run_refused(&app_nn, ERR_INVAL, "and 1 more",
                    "{\"app\": {\"data\": \"gen:digits\", \"layers\": [{"
                    "\"type\": \"relu\"}, {\"type\": \"x\"}, 7]}}");
    app_run_refused(&app_nn, ERR_INVAL, "nothing that learns",
                    "{\"app\": {\"data\": \"gen:digits?samples=50&size=8\","
                    " \"layers\": [{\"type\": \"relu\"}]}}");
    app_run_refused(&app_nn, ERR_INVAL,
                    "/app/preset (lenet5), layer 2 (conv): ",
                    "{\"app\": {\"data\": \"gen:digits?samples=50&size=8\","
                    " \"preset\": \"lenet5\"}}");
    app_run_refused(&app_nn, ERR_NOENT, "nothing_here",
                    "{\"app\": {\"data\": \"nothing_here\", \"preset\":"
                    " \"mlp\"}}");
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
    int err = app_nn.open(&c, &info, app, &error);

    assert_int_equal(err, error.code);
    return err;
}

/* Every allocation that fails while opening is reported and undone. */
static void nn_allocation_failure_leaves_nothing(void **state)
{
    static const char settings[] =
        "{\"data\": \"gen:digits?samples=20&size=12\", \"layers\": " ALL_KINDS
        "}";
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        void *app = NULL;
        int err;

        mem_fail_at(nth, 0);
        err = open_with(settings, &app);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : 0);
        if (!err)
            app_nn.close(app);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 20);
    app_nn.close(NULL);
}

/* One worker trains for minutes under a sanitizer, on code that the tests above
 * run there, too: the release tier alone does. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

/* MNIST: 97 % of its test images within a few passes. */
static void nn_reaches_the_known_accuracy_on_mnist(void **state)
{
    const char *real = scratch_real_data();
    struct app_run r;
    double accuracy;

    (void)state;
    if (!real) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
        return;
    }
    app_run_open(&r, &app_nn, 1,
                 "{\"learning_rate\": 0.1, \"momentum\": 0.9,"
                 " \"batch_size\": 32}",
                 "{\"app\": {\"name\": \"nn\", \"preset\": \"mlp\", \"data\":"
                 " \"%s\"}, \"cluster\": {\"workers\": 1}}",
                 real);
    app_run_train(&r, 4);
    accuracy = app_run_metric(&r);
    if (!(accuracy >= 0.97))
        fail_msg("accuracy %.4f", accuracy);
    app_run_close(&r);
}

#endif

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_training_lowers_loss_and_raises_accuracy),
        cmocka_unit_test(nn_forked_branch_continues_as_its_parent),
        cmocka_unit_test(nn_dropout_is_a_tunable),
        cmocka_unit_test(nn_rate_warms_up),
        cmocka_unit_test(nn_idle_tunables_are_known),
        cmocka_unit_test(nn_gradient_is_clipped),
        cmocka_unit_test(nn_decay_leaves_biases_alone),
        cmocka_unit_test(nn_result_does_not_depend_on_the_workers),
        cmocka_unit_test(nn_is_deterministic_for_a_seed),
        cmocka_unit_test(nn_trains_without_barriers),
        cmocka_unit_test(nn_moments_are_those_of_the_clock),
        cmocka_unit_test(nn_trains_with_every_update_rule),
        IN_FOLDER(nn_squared_loss_learns_a_number),
        IN_FOLDER(nn_saved_model_scores_alike),
        IN_FOLDER(nn_model_must_fit_the_data),
        IN_FOLDER(nn_table_model_is_for_its_columns),
        IN_FOLDER(nn_constant_target_is_refused),
        IN_FOLDER(nn_bad_configurations_are_refused),
        cmocka_unit_test(nn_allocation_failure_leaves_nothing),
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(nn_reaches_the_known_accuracy_on_mnist),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
