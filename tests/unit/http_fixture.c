#include "tests/unit/http_fixture.h"

#include "base/json.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

static void feed(struct http_fixture *x, struct record *r)
{
    r->at_s = x->at_s;
    r->clock = x->clock;
    view_lock(x->view);
    assert_int_equal(history_apply(&x->h, r), ERR_OK);
    view_changed(x->view);
    view_unlock(x->view);
    record_deinit(r);
    x->at_s += 1;
}

void http_fixture_init(struct http_fixture *x)
{
    struct view_options options = {0};

    memset(x, 0, sizeof(*x));
    history_init(&x->h);
    assert_int_equal(view_new(&options, &x->view), ERR_OK);
    assert_int_equal(view_add_run(x->view, "run-1", "digits", &x->h), ERR_OK);
}

void http_fixture_deinit(struct http_fixture *x)
{
    view_free(x->view);
    history_deinit(&x->h);
}

void http_fixture_start(struct http_fixture *x)
{
    struct record r = {.kind = RECORD_RUN_STARTED,
                       .run_started = {.run = "run-1",
                                       .name = "digits",
                                       .app = "mlr",
                                       .strategy = "mltuner",
                                       .searcher = "random",
                                       .seed = 7,
                                       .started_unix_s = 1767323045.0,
                                       .samples = 600,
                                       .validation_samples = 100,
                                       .workers = 2,
                                       .metric = "accuracy",
                                       .metric_higher_better = true}};
    struct record status = {.kind = RECORD_RUN_STATUS,
                            .run_status = {.status = RUN_TUNING}};

    feed(x, &r);
    feed(x, &status);
}

void http_fixture_finish(struct http_fixture *x)
{
    struct record r = {.kind = RECORD_RUN_FINISHED,
                       .run_finished = {.status = RUN_FINISHED,
                                        .reason = "converged",
                                        .message = "no better for 5 epochs"}};

    feed(x, &r);
}

void http_fixture_feed(struct http_fixture *x, struct record *r)
{
    feed(x, r);
}

static json_t *setting(double learning_rate)
{
    return json_pack("{s:f}", "learning_rate", learning_rate);
}

void http_fixture_branch(struct http_fixture *x, branch_id branch,
                         branch_id parent, enum branch_type type,
                         const char *role)
{
    struct record r = {.kind = RECORD_BRANCH_CREATED,
                       .branch_created = {.branch = branch,
                                          .parent = parent,
                                          .type = type,
                                          .setting = setting(0.1)}};

    snprintf(r.branch_created.role, sizeof(r.branch_created.role), "%s", role);
    feed(x, &r);
}

void http_fixture_window(struct http_fixture *x, branch_id branch,
                         clock_no branch_clock, uint64_t clocks, double loss)
{
    double samples = 10.0 * (double)clocks;
    struct record r = {.kind = RECORD_PROGRESS,
                       .progress = {.branch = branch,
                                    .first = x->clock,
                                    .branch_clock = branch_clock,
                                    .windows = 1}};

    r.progress.window[0] = (struct record_window){.sum = loss * samples,
                                                  .samples = 10 * clocks,
                                                  .clocks = clocks,
                                                  .seconds = 0.5};
    x->clock += clocks;
    feed(x, &r);
}

void http_fixture_trial(struct http_fixture *x, enum record_kind kind,
                        uint32_t trial, branch_id branch,
                        enum trial_label label, double speed)
{
    struct record r = {.kind = kind,
                       .trial = {.trial = trial,
                                 .search = 1,
                                 .branch = branch,
                                 .setting = setting(0.1 * trial),
                                 .label = label,
                                 .speed = speed,
                                 .points = 2,
                                 .time_s = {0, 0.5},
                                 .loss = {2.0, isfinite(speed) ? 1.0 : NAN}}};

    feed(x, &r);
}

void http_fixture_decision(struct http_fixture *x, const char *text)
{
    struct record r = {.kind = RECORD_DECISION,
                       .decision = {.decision = "trial_time",
                                    .numbers = 1,
                                    .number = {{"seconds", INFINITY}}}};

    snprintf(r.decision.text, sizeof(r.decision.text), "%s", text);
    feed(x, &r);
}

void http_fixture_beat(struct http_fixture *x, uint32_t node, uint64_t sent)
{
    struct record r = {.kind = RECORD_NODE};
    struct msg_beat *b = &r.node.beat;

    b->node = node;
    b->workers = 2;
    b->memory_bytes = 1000;
    b->seconds = 8;
    b->wait_s = 2;
    b->data_bytes_sent = sent;
    staleness_add(&b->staleness, -1);
    staleness_add(&b->staleness, -1);
    staleness_add(&b->staleness, -4);
    b->held = 1;
    b->hold[0] = (struct msg_held){4, 600, 400};
    feed(x, &r);
}

static void feed_slice(struct http_fixture *x, branch_id branch, uint64_t count)
{
    struct record begun = {.kind = RECORD_SLICE_SCHEDULED,
                           .slice_scheduled = {.branch = branch,
                                               .first = x->clock,
                                               .count = count,
                                               .report_every = 1}};
    struct record ended = {.kind = RECORD_SLICE_ENDED,
                           .slice_ended = {.branch = branch,
                                           .first = x->clock,
                                           .clocks = count,
                                           .data_bytes = 10 * count,
                                           .reads = count,
                                           .staleness = -1.5}};

    feed(x, &begun);
    feed(x, &ended);
}

static void feed_epoch(struct http_fixture *x, uint32_t epoch, bool best)
{
    struct record r = {.kind = RECORD_EPOCH_ENDED,
                       .epoch_ended = {.epoch = epoch,
                                       .branch = 4,
                                       .surviving = true,
                                       .setting = setting(0.1),
                                       .clock = x->clock,
                                       .loss = 0.5 / epoch,
                                       .metric = 0.9,
                                       .best = best,
                                       .seconds = 2}};

    feed(x, &r);
}

static void feed_search(struct http_fixture *x)
{
    struct record begun = {
        .kind = RECORD_SEARCH_STARTED,
        .search_started = {
            .search = 1, .parent = 0, .trials_max = 18, .reason = "the first"}};
    struct record ended = {.kind = RECORD_SEARCH_ENDED,
                           .search_ended = {.search = 1,
                                            .trials = 3,
                                            .winner = 1,
                                            .trial_s = 0.5,
                                            .seconds = 3.5,
                                            .clocks = 20,
                                            .reason = "within 10 %"}};
    struct record freed = {.kind = RECORD_BRANCH_FREED,
                           .branch_freed = {.branch = 2, .reason = "diverged"}};

    feed(x, &begun);
    for (branch_id b = 1; b <= 3; b++) {
        http_fixture_branch(x, b, 0, BRANCH_TRAINING, "trial");
        http_fixture_trial(x, RECORD_TRIAL_STARTED, b, b, TRIAL_RUNNING, 0);
    }
    feed_slice(x, 1, 10);
    http_fixture_window(x, 1, 0, 10, 1.5);
    http_fixture_window(x, 2, 0, 10, NAN);
    http_fixture_trial(x, RECORD_TRIAL_ENDED, 1, 1, TRIAL_CONVERGING, 2.0);
    http_fixture_trial(x, RECORD_TRIAL_ENDED, 2, 2, TRIAL_DIVERGED, INFINITY);
    feed(x, &freed);
    feed(x, &ended);
}

void http_fixture_run(struct http_fixture *x)
{
    struct record chosen = {.kind = RECORD_SETTING_CHOSEN,
                            .setting_chosen = {.clock = 20,
                                               .branch = 4,
                                               .setting = setting(0.1),
                                               .reason = "fastest"}};

    http_fixture_start(x);
    http_fixture_branch(x, 0, BRANCH_NONE, BRANCH_INIT, "");
    feed_search(x);
    http_fixture_branch(x, 4, 1, BRANCH_TRAINING, "training");
    feed(x, &chosen);
    http_fixture_window(x, 1, 10, 10,
                        9.0); /* after the fork: not of 4's lineage */
    http_fixture_window(x, 4, 10, 10, 1.0);
    http_fixture_window(x, 4, 20, 10, 0.5);
    feed_epoch(x, 1, true);
    feed_epoch(x, 2, false);
    http_fixture_branch(x, 5, 4, BRANCH_TESTING, "test");
    http_fixture_window(x, 5, 0, 5, 0.9);
    http_fixture_decision(x, "trials last 0.5 s");
    http_fixture_decision(x, "training goes on");
}

json_t *http_fixture_get(struct view *view, const char *target, int status)
{
    struct response r = {0};
    json_error_t error;
    json_t *json;

    service_respond(view, "GET", target, &r);
    if (r.status != status)
        fail_msg("%s: %d, not %d: %.*s", target, r.status, status, (int)r.len,
                 r.body);
    json = json_loadb(r.body, r.len, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("%s: no JSON: %s", target, error.text);
    if (status >= 400)
        assert_int_equal(json_integer_value(json_object_get(json, "status")),
                         status);
    response_deinit(&r);
    return json;
}

bool http_fixture_allow_files(unsigned wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max >= wanted;
}

const char *http_fixture_error(const json_t *problem, size_t index)
{
    const json_t *errors = json_object_get(problem, "errors");
    const char *pointer = json_string_value(
        json_object_get(json_array_get(errors, index), "pointer"));

    return pointer ? pointer : "";
}
