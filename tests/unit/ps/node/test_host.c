/* The host of an application: determinism, forks, slices that end in every way,
 * the saved model. */
#include "base/mem.h"
#include "ps/node/host_io.h"
#include "tests/unit/fixture/lsq.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"

enum { DIMS = 6 };

/* ---- hosts and slices ---------------------------------------------------- */

static enum err try_open(const char *config, const char *model,
                         struct host **out, struct fault *f)
{
    json_t *json = json_loads(config, 0, NULL);
    struct host_config c = {.app = &lsq_app,
                            .config = json,
                            .folder = "/",
                            .seed = 11,
                            .evaluate = model};
    enum err err;

    assert_non_null(json);
    err = host_open(&c, out, f);
    json_decref(json);
    return err;
}

static struct host *open_host(const char *config)
{
    struct fault f = {0};
    struct host *h = NULL;

    if (try_open(config, NULL, &h, &f) != ERR_OK)
        fail_msg("%s: %s", config, f.text);
    return h;
}

static struct host *open_workers(unsigned workers, const char *app,
                                 const char *ps)
{
    char config[512];

    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"lsq\"%s}, \"cluster\": {\"workers\": %u},"
             " \"ps\": {%s}, \"memory\": {\"limit\": \"256MiB\"}}",
             app, workers, ps);
    return open_host(config);
}

static void fork_branch(struct host *h, branch_id child, branch_id parent,
                        enum branch_type type)
{
    assert_int_equal(ps_fork(host_ps(h), child, parent, type), ERR_OK);
}

static enum err begin(struct host *h, branch_id branch, enum branch_type type,
                      const char *setting, uint64_t count, uint64_t every,
                      struct fault *f)
{
    json_t *s = json_loads(setting, 0, NULL);
    const struct host_facts *facts = host_facts(h);
    struct node_setting read;
    struct host_slice slice = {branch, type, &read, count, every};
    enum err err;

    assert_non_null(s);
    err =
        node_setting_read(&facts->defaults, s, facts->app->tunables, &read, f);
    if (!err)
        err = host_slice_begin(h, &slice, f);
    json_decref(s);
    return err;
}

/* A slice of windows of one clock; its result. */
static struct host_result run(struct host *h, branch_id branch,
                              enum branch_type type, const char *setting,
                              uint64_t count)
{
    struct host_result result = {0};
    struct fault f = {0};

    if (begin(h, branch, type, setting, count, 1, &f) != ERR_OK ||
        host_slice_end(h, &result, &f) != ERR_OK)
        fail_msg("%s", f.text);
    return result;
}

static void read_model(struct host *h, branch_id branch, double out[8])
{
    assert_int_equal(rows_read_whole(host_ps(h), branch, "w", 0, 4, out),
                     ERR_OK);
}

static double mean_of(const struct host *h, uint32_t i)
{
    const struct progress_window *w = host_slice_window(h, i);

    return w->sum / (double)w->samples;
}

/* ---- facts --------------------------------------------------------------- */

static void check_tunables(struct host *h, const char *expected)
{
    json_t *names = host_tunables(h), *want = json_loads(expected, 0, NULL);

    assert_non_null(want);
    assert_true(json_equal(names, want));
    json_decref(names);
    json_decref(want);
    host_close(h);
}

/* Only tunables that can act in this run are named: by update rule, consistency
 * model, number of workers and kind of clock. */
static void host_names_tunables_that_act(void **state)
{
    (void)state;
    check_tunables(open_workers(1, "", ""),
                   "[\"learning_rate\", \"momentum\", \"batch_size\", "
                   "\"shrink\"]");
    check_tunables(open_workers(2, "", "\"update_rule\": \"adagrad\""),
                   "[\"learning_rate\", \"batch_size\", \"shrink\"]");
    check_tunables(open_workers(2, "", "\"consistency\": \"ssp\""),
                   "[\"learning_rate\", \"momentum\", \"batch_size\", "
                   "\"staleness\", \"shrink\"]");
    check_tunables(open_workers(2, "", "\"consistency\": \"async\""),
                   "[\"learning_rate\", \"momentum\", \"batch_size\", "
                   "\"shrink\"]");
    check_tunables(open_workers(1, "", "\"consistency\": \"ssp\""),
                   "[\"learning_rate\", \"momentum\", \"batch_size\", "
                   "\"shrink\"]");
    check_tunables(open_workers(1, ", \"parts\": 4", ""),
                   "[\"learning_rate\", \"momentum\", \"shrink\"]");
}

static uint64_t pool_bytes(const struct host *h)
{
    struct store_stats stats;

    ps_stats(host_ps(h), &stats);
    return stats.pool_bytes;
}

/* The memory of the first branch is there once the host is open: its fork asks
 * the system for nothing, the second's does. */
static void host_prepares_the_first_fork(void **state)
{
    struct host *h = open_workers(2, "", "");
    uint64_t opened = pool_bytes(h);

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    assert_int_equal(pool_bytes(h), opened);
    fork_branch(h, 2, 0, BRANCH_TRAINING);
    assert_true(pool_bytes(h) > opened);
    host_close(h);
}

/* Facts that the application told are known, and that some branches fit. */
static void host_knows_sizes(void **state)
{
    struct host *h = open_workers(2, "", "");
    const struct host_facts *facts = host_facts(h);

    (void)state;
    assert_int_equal(facts->info.samples, 240);
    assert_int_equal(facts->info.validation_samples, 60);
    assert_string_equal(facts->info.metric, "rmse");
    assert_true(facts->info.loss_floor == 0);
    assert_true(facts->branch_bytes > 0);
    assert_true(facts->branches_max >= HOST_MODELS_MIN);
    host_close(h);
}

/* ---- training ------------------------------------------------------------ */

/* Training lowers the loss to the noise's variance, and a testing branch then
 * measures an RMSE of the noise without changing anything. */
static void host_training_converges(void **state)
{
    struct host *h = open_workers(2, "", "");
    double before[8], after[8], rmse;

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    run(h, 1, BRANCH_TRAINING, "{\"learning_rate\": 0.1, \"batch_size\": 12}",
        100);
    assert_true(mean_of(h, 0) > 1);
    assert_true(mean_of(h, 99) < 0.02);
    fork_branch(h, 2, 1, BRANCH_TESTING);
    read_model(h, 1, before);
    run(h, 2, BRANCH_TESTING, "{}", 1);
    assert_int_equal(host_slice_window(h, 0)->samples, 60);
    rmse = sqrt(mean_of(h, 0));
    assert_true(rmse > 0.05 && rmse < 0.2);
    read_model(h, 2, after);
    assert_memory_equal(before, after, sizeof(before));
    host_close(h);
}

/* The whole run of one seed twice: every window's sum and every parameter the
 * same to the last bit. */
static void host_one_worker_is_deterministic(void **state)
{
    double sum[2][30], model[2][8];
    int i, k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct host *h = open_workers(1, "", "");

        fork_branch(h, 1, 0, BRANCH_TRAINING);
        run(h, 1, BRANCH_TRAINING,
            "{\"learning_rate\": 0.07, \"momentum\": 0.9,"
            " \"batch_size\": 16}",
            30);
        for (i = 0; i < 30; i++)
            sum[k][i] = host_slice_window(h, (uint32_t)i)->sum;
        read_model(h, 1, model[k]);
        host_close(h);
    }
    assert_memory_equal(sum[0], sum[1], sizeof(sum[0]));
    assert_memory_equal(model[0], model[1], sizeof(model[0]));
}

/* A fork in the midst of an epoch that goes on with its parent's setting goes
 * on exactly as the parent does: parameters, slots, cursor and all; and the
 * parent as if it had never been forked. */
static void host_fork_continues_as_its_parent(void **state)
{
    static const char setting[] =
        "{\"learning_rate\": 0.05, \"momentum\": 0.8, \"batch_size\": 7}";
    double plain[50], forked[50], model[3][8];
    struct host *h = open_workers(2, "", "");
    int i;

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    run(h, 1, BRANCH_TRAINING, setting, 23);
    fork_branch(h, 2, 1, BRANCH_TRAINING);
    fork_branch(h, 3, 1, BRANCH_PROBE);
    run(h, 3, BRANCH_PROBE, "{\"learning_rate\": 1e30}", 20);
    run(h, 1, BRANCH_TRAINING, setting, 50);
    for (i = 0; i < 50; i++)
        plain[i] = host_slice_window(h, (uint32_t)i)->sum;
    run(h, 2, BRANCH_TRAINING, setting, 20);
    for (i = 0; i < 20; i++)
        forked[i] = host_slice_window(h, (uint32_t)i)->sum;
    run(h, 1, BRANCH_TRAINING, setting, 1);
    run(h, 2, BRANCH_TRAINING, setting, 30);
    for (i = 0; i < 30; i++)
        forked[20 + i] = host_slice_window(h, (uint32_t)i)->sum;
    assert_memory_equal(plain, forked, sizeof(plain));
    run(h, 2, BRANCH_TRAINING, setting, 1);
    read_model(h, 1, model[0]);
    read_model(h, 2, model[1]);
    assert_memory_equal(model[0], model[1], sizeof(model[0]));
    host_close(h);
}

/* A new learning rate acts at the switch, and only in its own branch. */
static void host_setting_acts_at_the_switch(void **state)
{
    struct host *h = open_workers(1, "", "");
    double root[8], still[8], moved[8];

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    fork_branch(h, 2, 0, BRANCH_TRAINING);
    fork_branch(h, 3, 0, BRANCH_TRAINING);
    read_model(h, 0, root);
    run(h, 1, BRANCH_TRAINING, "{\"learning_rate\": 0.1}", 3);
    run(h, 2, BRANCH_TRAINING, "{\"learning_rate\": 0}", 3);
    run(h, 3, BRANCH_TRAINING, "{\"learning_rate\": 0.1, \"shrink\": 0}", 3);
    read_model(h, 1, moved);
    assert_true(memcmp(root, moved, sizeof(root)) != 0);
    read_model(h, 2, still);
    assert_memory_equal(root, still, sizeof(root));
    read_model(h, 3, still);
    assert_memory_equal(root, still, sizeof(root));
    host_close(h);
}

/* With bsp, the loss does not depend on the number of workers beyond rounding,
 * at equal batch times workers. */
static void host_bsp_loss_does_not_depend_on_workers(void **state)
{
    static const char *const settings[] = {
        "{\"learning_rate\": 0.1, \"batch_size\": 24}",
        "{\"learning_rate\": 0.1, \"batch_size\": 12}",
        "{\"learning_rate\": 0.1, \"batch_size\": 8}"};
    double mean[3][40];
    unsigned w, i;

    (void)state;
    for (w = 1; w <= 3; w++) {
        struct host *h = open_workers(w, "", "");

        fork_branch(h, 1, 0, BRANCH_TRAINING);
        run(h, 1, BRANCH_TRAINING, settings[w - 1], 40);
        for (i = 0; i < 40; i++)
            mean[w - 1][i] = mean_of(h, i);
        host_close(h);
    }
    for (w = 1; w < 3; w++)
        for (i = 0; i < 40; i++)
            assert_true(fabs(mean[w][i] - mean[0][i]) <
                        1e-4 * (1e-3 + mean[0][i]));
}

/* ---- order as the application sees it ------------------------------------ */

static uint64_t met[4][8192];
static _Atomic unsigned met_count[4];
static _Atomic uint64_t epoch_seen, clock_seen, empty_shares;

static void watch(unsigned worker, const struct mlt_clock_ctx *ctx)
{
    atomic_store(&epoch_seen, ctx->epoch);
    atomic_store(&clock_seen, ctx->clock);
    if (ctx->count == 0)
        atomic_fetch_add(&empty_shares, 1);
    for (uint64_t i = 0; ctx->samples && i < ctx->count; i++)
        met[worker][atomic_fetch_add(&met_count[worker], 1)] = ctx->samples[i];
}

static void watch_anew(void)
{
    for (int i = 0; i < 4; i++)
        atomic_store(&met_count[i], 0);
    atomic_store(&empty_shares, 0);
    lsq_watcher = watch;
}

/* Siblings meet the same samples in the same order whatever their batch size,
 * from where their parent stood, across the end of an epoch. */
static void host_siblings_meet_the_same_samples(void **state)
{
    struct host *h = open_workers(1, "", "");
    static uint64_t first[400];
    branch_id b;

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    run(h, 1, BRANCH_TRAINING, "{\"batch_size\": 100}", 1);
    for (b = 2; b < 5; b++) {
        static const char *const settings[] = {"{\"batch_size\": 10}",
                                               "{\"batch_size\": 20}",
                                               "{\"batch_size\": 70}"};
        static const uint64_t clocks[] = {14 + 24, 7 + 12, 2 + 4};

        fork_branch(h, b, 1, BRANCH_TRAINING);
        watch_anew();
        run(h, b, BRANCH_TRAINING, settings[b - 2], clocks[b - 2]);
        assert_int_equal(met_count[0], 140 + 240);
        if (b == 2)
            memcpy(first, met[0], sizeof(first));
        assert_memory_equal(first, met[0], 380 * sizeof(first[0]));
        assert_int_equal(epoch_seen, 1);
        assert_int_equal(clock_seen, clocks[b - 2]);
    }
    lsq_watcher = NULL;
    host_close(h);
}

/* A clock that has fewer samples than workers calls all of them all the same.
 */
static void host_empty_shares_are_run(void **state)
{
    struct host *h = open_workers(4, ", \"samples\": 41", "");

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    watch_anew();
    run(h, 1, BRANCH_TRAINING, "{\"batch_size\": 10}", 2);
    assert_int_equal(empty_shares, 3);
    assert_int_equal(host_slice_window(h, 1)->samples, 1);
    lsq_watcher = NULL;
    host_close(h);
}

/* Clocks that are parts of a pass: by samples and by the application's parts,
 * an epoch is that many clocks and meets all samples. */
static void host_parts_make_epochs(void **state)
{
    static const char *const apps[] = {", \"parts\": 8",
                                       ", \"parts\": 8, \"order\": \"parts\""};
    int k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct host *h = open_workers(2, apps[k], "");
        uint64_t samples = 0;
        uint32_t i;

        fork_branch(h, 1, 0, BRANCH_TRAINING);
        watch_anew();
        run(h, 1, BRANCH_TRAINING, "{\"learning_rate\": 0.1}", 80);
        assert_int_equal(epoch_seen, 9);
        for (i = 0; i < 8; i++)
            samples += host_slice_window(h, i)->samples;
        assert_true(k == 1 || samples == 240);
        assert_true(host_slice_window(h, 79)->sum <
                    0.1 * host_slice_window(h, 0)->sum);
        lsq_watcher = NULL;
        host_close(h);
    }
}

/* ---- slices that end early ----------------------------------------------- */

/* An error of the application ends the slice with worker, clock and branch in
 * words, lets everybody go, and other branches still run. */
static void host_app_error_fails_the_slice_alone(void **state)
{
    static const char *const models[] = {"", "\"consistency\": \"ssp\""};
    int k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct host *h = open_workers(3, ", \"fail_clock\": 5", models[k]);
        struct host_result result;
        struct fault f = {0};

        fork_branch(h, 1, 0, BRANCH_TRAINING);
        fork_branch(h, 2, 0, BRANCH_TRAINING);
        assert_int_equal(begin(h, 1, BRANCH_TRAINING, "{}", 20, 1, &f), ERR_OK);
        assert_int_equal(host_slice_end(h, &result, &f), ERR_APP);
        assert_non_null(strstr(f.text, "worker 2"));
        assert_non_null(strstr(f.text, "clock 5 of branch 1"));
        assert_true(result.clocks <= 5);
        assert_int_equal(ps_drop(host_ps(h), 1), ERR_OK);
        assert_int_equal(run(h, 2, BRANCH_TRAINING, "{}", 5).clocks, 5);
        host_close(h);
    }
}

/* A loss that is not finite ends the slice at that clock, and the window shows
 * it; nothing has failed. */
static void host_non_finite_loss_cuts_the_slice(void **state)
{
    struct host *h = open_workers(2, ", \"nan_clock\": 3", "");
    struct host_result result;
    struct fault f = {0};

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    assert_int_equal(begin(h, 1, BRANCH_TRAINING, "{}", 1000, 3, &f), ERR_OK);
    assert_int_equal(host_slice_end(h, &result, &f), ERR_OK);
    assert_int_equal(result.clocks, 4);
    assert_int_equal(host_slice_windows(h), 2);
    assert_true(isfinite(host_slice_window(h, 0)->sum));
    assert_int_equal(host_slice_window(h, 1)->clocks, 1);
    assert_true(isnan(host_slice_window(h, 1)->sum));
    host_close(h);
}

/* A cut from outside ends a slice without end after a clock that all workers
 * have run; the branch goes on from there. */
static void host_cut_ends_a_slice(void **state)
{
    static const char *const models[] = {"", "\"consistency\": \"ssp\""};
    int k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct host *h = open_workers(2, "", models[k]);
        struct host_result result;
        struct fault f = {0};

        fork_branch(h, 1, 0, BRANCH_TRAINING);
        lsq_watcher = watch;
        assert_int_equal(begin(h, 1, BRANCH_TRAINING,
                               "{\"batch_size\": 1, \"learning_rate\": 0,"
                               " \"staleness\": 2}",
                               UINT64_MAX / 4, UINT64_MAX / 4, &f),
                         ERR_OK);
        atomic_store(&clock_seen, 0);
        atomic_store(&met_count[0], 0);
        atomic_store(&met_count[1], 0);
        while (atomic_load(&clock_seen) < 20)
            ;
        host_slice_cut(h);
        assert_int_equal(host_slice_end(h, &result, &f), ERR_OK);
        assert_true(result.clocks >= 20);
        assert_int_equal(host_slice_windows(h), 1);
        assert_int_equal(host_slice_window(h, 0)->clocks, result.clocks);
        assert_int_equal(host_slice_window(h, 0)->samples, 2 * result.clocks);
        run(h, 1, BRANCH_TRAINING, "{\"batch_size\": 1}", 1);
        assert_int_equal(clock_seen, result.clocks);
        lsq_watcher = NULL;
        host_close(h);
    }
}

/* A canceled slice comes back as such. */
static void host_cancel_ends_a_slice(void **state)
{
    struct host *h = open_workers(2, "", "");
    struct host_result result;
    struct fault f = {0};

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    assert_int_equal(
        begin(h, 1, BRANCH_TRAINING, "{}", UINT64_MAX / 4, UINT64_MAX / 4, &f),
        ERR_OK);
    host_slice_cancel(h);
    assert_int_equal(host_slice_end(h, &result, &f), ERR_CANCELED);
    assert_int_equal(ps_drop(host_ps(h), 1), ERR_OK);
    host_close(h);
}

/* A slice that cannot be is refused before anything runs. */
static void host_impossible_slices_are_refused(void **state)
{
    struct host *h = open_workers(1, "", "");
    struct fault f = {0};

    (void)state;
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    assert_int_equal(begin(h, 1, BRANCH_TRAINING, "{}", 1001, 1, &f),
                     ERR_INVAL);
    assert_int_equal(begin(h, 9, BRANCH_TRAINING, "{}", 1, 1, &f), ERR_NOENT);
    assert_int_equal(
        begin(h, 1, BRANCH_TRAINING, "{\"momentum\": 3}", 1, 1, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "momentum"));
    run(h, 1, BRANCH_TRAINING, "{}", 2);
    host_close(h);
}

/* ---- opening fails ------------------------------------------------------- */

/* Whatever keeps an application from being opened comes with words that name
 * it, and leaves nothing. */
static void host_open_failures_say_why(void **state)
{
    static const struct {
        const char *config, *words;
        enum err err;
    } bad[] = {
        {"{\"app\": {\"name\": \"lsq\", \"data\": \"missing\"}}",
         "no such file", ERR_IO},
        {"{\"app\": {\"name\": \"lsq\", \"sampels\": 3}}", "samples",
         ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\", \"samples\": \"3\"}}", "/app/samples",
         ERR_INVAL},
        {"{}", "/app", ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\"}, \"memory\": {\"limit\": 1}}", "memory",
         ERR_LIMIT},
        {"{\"app\": {\"name\": \"lsq\"}, \"memory\": {\"limit\": \"much\"}}",
         "memory", ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\"}, \"cluster\": {\"workers\": 0}}",
         "workers", ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\"}, \"ps\": {\"update_rule\": \"magic\"}}",
         "magic", ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\"}, \"ps\": {\"consistency\": \"none\"}}",
         "none", ERR_INVAL},
        {"{\"app\": {\"name\": \"lsq\", \"samples\": 5, \"parts\": 6}}",
         "6 clocks", ERR_APP},
        {"{\"app\": {\"name\": \"lsq\"},"
         " \"tunables\": {\"learning_rate\": {\"default\": -1}}}",
         "learning_rate", ERR_INVAL},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int64_t before = mem_outstanding();
        struct host *h = NULL;
        struct fault f = {0};
        enum err err;

        err = try_open(bad[i].config, NULL, &h, &f);
        if (err != bad[i].err)
            fail_msg("%s: %s: %s", bad[i].config, err_name(err), f.text);
        if (bad[i].words && !strstr(f.text, bad[i].words))
            fail_msg("%s: said %s", bad[i].config, f.text);
        if (!err)
            host_close(h);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* A job that holds its model once, but not five times, is refused. */
static void host_five_models_must_fit(void **state)
{
    struct host *h = NULL;
    struct fault f = {0};

    (void)state;
    assert_int_equal(
        try_open("{\"app\": {\"name\": \"lsq\", \"samples\": 4,"
                 " \"dims\": 1000000}, \"cluster\": {\"workers\": 1},"
                 " \"memory\": {\"limit\": \"48MiB\"}}",
                 NULL, &h, &f),
        ERR_LIMIT);
    assert_non_null(strstr(f.text, "memory"));
}

/* Whichever allocation fails while the host opens, it says so and leaves
 * nothing. */
static void host_open_may_run_out_of_memory(void **state)
{
    static const char config[] = "{\"app\": {\"name\": \"lsq\"},"
                                 " \"cluster\": {\"workers\": 2}}";
    int64_t before = mem_outstanding();
    struct host *h = NULL;
    struct fault f;
    int nth;

    (void)state;
    for (nth = 1;; nth++) {
        mem_fail_at(nth, 0);
        if (try_open(config, NULL, &h, &f) == ERR_OK)
            break;
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        assert_true(f.text[0]);
    }
    assert_false(mem_failed());
    mem_fail_at(0, 0);
    assert_true(nth > 20);
    host_close(h);
    assert_int_equal(mem_outstanding(), before);
}

/* ---- the model ----------------------------------------------------------- */

/* The saved model holds the branch's tables and what the application adds;
 * opened for evaluation it has the loss and metric that the branch had. */
static void host_saved_model_evaluates_the_same(void **state)
{
    char dir[] = "/tmp/mltune-host-XXXXXX", path[64];
    struct host *h = open_workers(2, "", "");
    struct host_score score;
    struct fault f = {0};
    double loss, rmse;
    uint64_t bytes;
    json_t *data;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/model", dir);
    fork_branch(h, 1, 0, BRANCH_TRAINING);
    run(h, 1, BRANCH_TRAINING, "{\"learning_rate\": 0.1, \"batch_size\": 24}",
        10);
    fork_branch(h, 2, 1, BRANCH_KEPT);
    fork_branch(h, 3, 2, BRANCH_PROBE);
    run(h, 3, BRANCH_PROBE, "{\"learning_rate\": 0, \"batch_size\": 120}", 1);
    loss = mean_of(h, 0);
    assert_int_equal(host_save(h, 2, path, &bytes, &data, &f), ERR_OK);
    assert_true(bytes > 8 * 4);
    assert_int_equal(json_integer_value(
                         json_object_get(json_object_get(data, "app"), "dims")),
                     DIMS);
    assert_int_equal(json_array_size(json_object_get(data, "tables")), 1);
    json_decref(data);
    host_close(h);
    if (try_open("{\"app\": {\"name\": \"lsq\"}}", path, &h, &f) != ERR_OK)
        fail_msg("%s", f.text);
    assert_int_equal(host_evaluate(h, &score, &f), ERR_OK);
    assert_true(fabs(score.loss - loss) < 1e-6 * loss);
    rmse = sqrt(loss);
    assert_true(fabs(score.metric - rmse) < 1e-6 * rmse);
    assert_int_equal(score.samples, 240);
    host_close(h);
    snprintf(path, sizeof(path), "%s/model/w.npy", dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/model", dir);
    assert_int_equal(rmdir(path), 0); /* nothing else was in it */
    assert_int_equal(try_open("{\"app\": {\"name\": \"lsq\"}}", path, &h, &f),
                     ERR_IO);
    assert_non_null(strstr(f.text, "w.npy"));
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_names_tunables_that_act),
        cmocka_unit_test(host_prepares_the_first_fork),
        cmocka_unit_test(host_knows_sizes),
        cmocka_unit_test(host_training_converges),
        cmocka_unit_test(host_one_worker_is_deterministic),
        cmocka_unit_test(host_fork_continues_as_its_parent),
        cmocka_unit_test(host_setting_acts_at_the_switch),
        cmocka_unit_test(host_bsp_loss_does_not_depend_on_workers),
        cmocka_unit_test(host_siblings_meet_the_same_samples),
        cmocka_unit_test(host_empty_shares_are_run),
        cmocka_unit_test(host_parts_make_epochs),
        cmocka_unit_test(host_app_error_fails_the_slice_alone),
        cmocka_unit_test(host_non_finite_loss_cuts_the_slice),
        cmocka_unit_test(host_cut_ends_a_slice),
        cmocka_unit_test(host_cancel_ends_a_slice),
        cmocka_unit_test(host_impossible_slices_are_refused),
        cmocka_unit_test(host_open_failures_say_why),
        cmocka_unit_test(host_five_models_must_fit),
        cmocka_unit_test(host_open_may_run_out_of_memory),
        cmocka_unit_test(host_saved_model_evaluates_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
