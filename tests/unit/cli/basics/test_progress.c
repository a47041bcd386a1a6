#include "base/mem.h"
#include "cli/basics/progress.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

static struct history h;

static int make_history(void **state)
{
    (void)state;
    history_init(&h);
    return 0;
}

static int free_history(void **state)
{
    (void)state;
    history_deinit(&h);
    return 0;
}

static void apply(struct record *r)
{
    assert_int_equal(history_apply(&h, r), 0);
    record_deinit(r);
}

static struct record make(enum record_kind kind, double at_s)
{
    struct record r;

    memset(&r, 0, sizeof(r));
    record_init(&r, kind);
    r.kind = kind;
    r.at_s = at_s;
    return r;
}

/* A run that has a branch with a setting, a slice and a loss. */
static void begin(void)
{
    struct record r = make(RECORD_RUN_STARTED, 0);

    strcpy(r.run_started.run, "a-1");
    strcpy(r.run_started.metric, "rmse");
    r.run_started.samples = 100;
    r.run_started.workers = 2;
    apply(&r);
    r = make(RECORD_RUN_STATUS, 0);
    r.run_status.status = RUN_TRAINING;
    apply(&r);
    r = make(RECORD_BRANCH_CREATED, 0);
    r.branch_created.branch = 3;
    r.branch_created.type = BRANCH_TRAINING;
    r.branch_created.setting = json_pack("{s:f}", "learning_rate", 0.0125);
    strcpy(r.branch_created.role, "training");
    apply(&r);
    r = make(RECORD_SLICE_SCHEDULED, 0);
    r.slice_scheduled.branch = 3;
    r.slice_scheduled.count = 10;
    r.slice_scheduled.report_every = 10;
    apply(&r);
    r = make(RECORD_PROGRESS, 1);
    r.progress.branch = 3;
    r.progress.first = 40;
    r.progress.windows = 1;
    r.progress.window[0].sum = 25;
    r.progress.window[0].samples = 100;
    r.progress.window[0].clocks = 10;
    r.progress.window[0].seconds = 1;
    apply(&r);
}

static struct record epoch(uint32_t number, bool best)
{
    struct record r = make(RECORD_EPOCH_ENDED, 2);

    r.epoch_ended.epoch = number;
    r.epoch_ended.branch = 3;
    r.epoch_ended.surviving = true;
    r.epoch_ended.setting = json_pack("{s:f}", "learning_rate", 0.0125);
    r.epoch_ended.clock = 10 * number;
    r.epoch_ended.loss = 0.25;
    r.epoch_ended.metric = 0.875;
    r.epoch_ended.best = best;
    r.epoch_ended.seconds = 61;
    return r;
}

/* Times read as people say them. */
static void progress_duration_is_readable(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 ms"},      {0.0484, "48 ms"}, {3.21, "3.2 s"}, {65, "1m 05s"},
        {7384, "2h 03m"}, {NAN, "-"},        {INFINITY, "-"}, {-1, "-"},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        progress_duration(cases[i].seconds, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

/* A setting is shown with all its values, whatever their kind, within bounds.
 */
static void progress_setting_shows_all_values(void **state)
{
    json_t *setting = json_pack("{s:f, s:i, s:s}", "learning_rate", 0.0123456,
                                "batch_size", 64, "mode", "fast");
    char text[64], small[12];

    (void)state;
    progress_setting(setting, text, sizeof(text));
    assert_string_equal(text, "learning_rate=0.01235 batch_size=64 mode=fast");
    progress_setting(setting, small, sizeof(small));
    assert_string_equal(small, "learning_ra");
    json_decref(setting);
    setting = json_object();
    progress_setting(setting, text, sizeof(text));
    assert_string_equal(text, "-");
    json_decref(setting);
}

/* The live line has clock, branch, setting, loss, best so far and time. */
static void progress_line_has_what_matters(void **state)
{
    char line[PROGRESS_LINE_MAX];
    struct record r;

    (void)state;
    progress_line(&h, 0.5, line, sizeof(line));
    assert_string_equal(line, "waiting | 500 ms");
    begin();
    r = epoch(1, true);
    apply(&r);
    r = epoch(2, false);
    apply(&r);
    progress_line(&h, 12, line, sizeof(line));
    assert_string_equal(line, "training | branch 3 | loss 0.25 | best rmse "
                              "0.875 (epoch 1 of 2) | clock 40 | 12.0 s | "
                              "learning_rate=0.0125");
    for (size_t size = 1; size < 60; size++) {
        memset(line, 'x', sizeof(line));
        progress_line(&h, 12, line, size);
        assert_int_equal(strlen(line), size - 1);
    }
}

/* Any width has whole words alone, but for a first one that is longer. */
static void progress_fits_between_words(void **state)
{
    static const char line[] = "tuning | trial 3 | 12.0 s | momentum=0.9";
    const struct {
        size_t columns, len;
    } cases[] = {{99, 40}, {40, 40}, {39, 25}, {27, 25}, {16, 16},
                 {15, 14}, {8, 6},   {6, 6},   {3, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(progress_fit(line, cases[i].columns), cases[i].len);
}

/* Every kind of record either has a line or says that it has none. */
static void progress_event_knows_every_kind(void **state)
{
    char text[PROGRESS_LINE_MAX];
    struct record r;

    (void)state;
    begin();
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        bool has;

        r = make(kind, 3);
        has = progress_event(&h, &r, text, sizeof(text));
        assert_int_equal(has, text[0] != '\0');
    }
    r = epoch(2, true);
    assert_true(progress_event(&h, &r, text, sizeof(text)));
    assert_string_equal(text, "epoch 2: loss 0.25 rmse 0.875, 1m 01s, branch "
                              "3, learning_rate=0.0125, best");
    record_deinit(&r);
}

#define CASE(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_history, free_history)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(progress_duration_is_readable),
        CASE(progress_setting_shows_all_values),
        CASE(progress_line_has_what_matters),
        CASE(progress_fits_between_words),
        CASE(progress_event_knows_every_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
