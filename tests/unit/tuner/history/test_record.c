#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/record.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

/* A record of each kind with every member set, non-finite numbers included. */
static void fill(struct record *r, enum record_kind kind)
{
    record_init(r, kind);
    r->at_s = 1.5;
    r->clock = 77;
    switch (kind) {
    case RECORD_RUN_STARTED:
        strcpy(r->run_started.run, "r-1");
        strcpy(r->run_started.metric, "rmse");
        r->run_started.seed = 42;
        r->run_started.started_unix_s = 1.7e9;
        r->run_started.samples = 1000;
        r->run_started.workers = 2;
        break;
    case RECORD_RUN_STATUS:
        r->run_status.status = RUN_PAUSED;
        strcpy(r->run_status.reason, "a \"quoted\" reason\n");
        break;
    case RECORD_RUN_FINISHED:
        r->run_finished.status = RUN_STOPPED;
        strcpy(r->run_finished.reason, "stopped");
        r->run_finished.last_words = json_pack("[s, s]", "Traceback", "no");
        break;
    case RECORD_RUN_RESUMED:
        r->run_resumed.from = 17;
        r->run_resumed.epoch = 4;
        r->run_resumed.best_of = 12;
        r->run_resumed.search = 2;
        r->run_resumed.next_trial = 11;
        r->run_resumed.unix_s = 1.7e9;
        strcpy(r->run_resumed.path, "/runs/x/snapshots/000007");
        strcpy(r->run_resumed.reason, "node 0 was killed");
        break;
    case RECORD_COMMAND:
        strcpy(r->command.command, "limits");
        r->command.paused = true;
        r->command.limits = (struct record_limits){NAN, 0.98, INFINITY, 5, 100};
        break;
    case RECORD_SEARCH_DECIDED:
        r->search_decided.search = 2;
        r->search_decided.trial_s = 0.25;
        break;
    case RECORD_SEARCH_STARTED:
        r->search_started.search = 2;
        r->search_started.retune = true;
        r->search_started.parent = BRANCH_NONE;
        r->search_started.tunables = json_pack("{s:{}}", "momentum");
        break;
    case RECORD_SEARCH_ENDED:
        r->search_ended.winner = 3;
        r->search_ended.trial_s = 0.25;
        r->search_ended.clocks = 1ull << 60;
        break;
    case RECORD_TRIAL_STARTED:
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        r->trial.trial = 5;
        r->trial.suggestion = 2;
        r->trial.setting = json_pack("{s:f}", "learning_rate", 0.1);
        r->trial.label = TRIAL_DIVERGED;
        r->trial.figures.range = -INFINITY;
        r->trial.figures.points = 2;
        r->trial.figures.loss[1] = NAN;
        r->trial.figures.time_s[1] = 0.5;
        break;
    case RECORD_BRANCH_CREATED:
        r->branch_created.branch = 9;
        r->branch_created.type = BRANCH_KEPT;
        r->branch_created.setting = json_object();
        strcpy(r->branch_created.role, "epoch");
        break;
    case RECORD_BRANCH_FREED:
        strcpy(r->branch_freed.reason, "slower");
        break;
    case RECORD_USER_BRANCH:
        r->user_branch = (struct record_user_branch){
            .branch = 9, .instead_of = BRANCH_NONE, .epochs = 3};
        break;
    case RECORD_SUGGESTION:
        r->suggestion.suggestion = 7;
        r->suggestion.state = SUGGESTION_KNOWN;
        r->suggestion.trial = 5;
        r->suggestion.setting = json_pack("{s:f}", "learning_rate", 0.1);
        strcpy(r->suggestion.reason, "trial 5 is of this setting already");
        strcpy(r->suggestion.key, "a-key");
        break;
    case RECORD_ASKING:
        r->asking.asking = ASKING_CLOSED;
        r->asking.search = 2;
        strcpy(r->asking.reason, "nobody answers");
        break;
    case RECORD_TABLES:
        r->tables.tables = json_pack("[{s:s}]", "name", "weights");
        r->tables.data = json_pack("{s:i}", "samples", 5);
        break;
    case RECORD_INCREMENT:
        r->increment = (struct record_increment){
            .number = 4, .branch = 9, .table = "weights", .norm = INFINITY};
        break;
    case RECORD_SLICE_SCHEDULED:
        r->slice_scheduled.count = 10;
        break;
    case RECORD_SLICE_ENDED:
        r->slice_ended.switch_s = 1e-4;
        break;
    case RECORD_PROGRESS:
        r->progress.windows = RECORD_WINDOWS_MAX;
        for (int i = 0; i < RECORD_WINDOWS_MAX; i++)
            r->progress.window[i] = (struct progress_window){
                i ? 0.1 * i : NAN, 64, 1, 0.01, 0, 0, 1};
        r->progress.values = json_pack("{s:[f, n, s]}", "a", 0.5, "nan");
        break;
    case RECORD_EPOCH_ENDED:
        r->epoch_ended.metric = NAN;
        r->epoch_ended.best = true;
        r->epoch_ended.setting = json_object();
        break;
    case RECORD_SETTING_CHOSEN:
        r->setting_chosen.setting = json_pack("{s:s}", "mode", "x");
        break;
    case RECORD_DECISION:
        strcpy(r->decision.decision, "retune");
        r->decision.numbers = 1;
        strcpy(r->decision.number[0].name, "epochs");
        r->decision.number[0].value = INFINITY;
        break;
    case RECORD_SNAPSHOT_WRITTEN:
        strcpy(r->snapshot_written.path, "/tmp/x");
        r->snapshot_written.best_epoch = 3;
        r->snapshot_written.best_of = 12;
        strcpy(r->snapshot_written.best_path, "/tmp/x-best");
        r->snapshot_written.state = json_pack("{s:i}", "epochs", 3);
        break;
    case RECORD_MODEL_SAVED:
        r->model_saved.data = json_pack("{s:i}", "users", 3);
        break;
    case RECORD_NODE:
        r->node.beat.node = 3;
        r->node.beat.memory_bytes = 12345;
        r->node.beat.wait_s = 0.5;
        staleness_add(&r->node.beat.staleness, -4);
        r->node.beat.held = 2;
        r->node.beat.hold[1] = (struct msg_held){7, 1, 2};
        break;
    case RECORD_KIND_COUNT:
        break;
    }
}

/* Every kind of record comes back from JSON as it was. */
static void record_any_kind_survives_json(void **state)
{
    (void)state;
    for (int k = 0; k < RECORD_KIND_COUNT; k++) {
        struct record a, b;
        json_t *first, *second;

        fill(&a, (enum record_kind)k);
        first = record_to_json(&a);
        assert_non_null(first);
        assert_int_equal(record_from_json(first, &b, NULL), ERR_OK);
        assert_int_equal(b.kind, k);
        assert_true(b.at_s == 1.5);
        assert_int_equal(b.clock, 77);
        second = record_to_json(&b);
        assert_true(json_equal(first, second));
        json_decref(first);
        json_decref(second);
        record_deinit(&a);
        record_deinit(&b);
    }
}

/* Takes a member out of, or puts one into, a good record. */
static void changed(enum record_kind kind, const char *member, json_t *value,
                    const char *complaint)
{
    struct fault fault = {0};
    struct record r;
    json_t *o;

    fill(&r, kind);
    o = record_to_json(&r);
    record_deinit(&r);
    if (value)
        json_object_set_new(o, member, value);
    else
        json_object_del(o, member);
    assert_int_equal(record_from_json(o, &r, &fault), ERR_FORMAT);
    assert_non_null(strstr(fault.text, complaint));
    json_decref(o);
}

/* A member missing, mistyped or out of bounds is refused by name. */
static void record_malformed_is_refused_by_member(void **state)
{
    json_t *many = json_array(), *numbers = json_object();

    (void)state;
    changed(RECORD_DECISION, "kind", json_string("decree"), "kind");
    changed(RECORD_DECISION, "at_s", NULL, "at_s");
    changed(RECORD_DECISION, "next_clock", json_integer(-1), "next_clock");
    changed(RECORD_EPOCH_ENDED, "clock", json_null(), "clock");
    changed(RECORD_DECISION, "text", json_integer(3), "text");
    changed(RECORD_TRIAL_ENDED, "label", json_string("fine"), "label");
    changed(RECORD_TRIAL_ENDED, "setting", json_array(), "setting");
    changed(RECORD_TRIAL_ENDED, "incumbent", json_integer(1), "incumbent");
    changed(RECORD_TRIAL_ENDED, "trial", json_integer(1ll << 32), "trial");
    changed(RECORD_TRIAL_ENDED, "loss", json_array(), "loss");
    changed(RECORD_TRIAL_ENDED, "time_s", json_string("nan"), "time_s");
    changed(RECORD_BRANCH_CREATED, "type", json_string("twig"), "type");
    changed(RECORD_RUN_STATUS, "status", json_null(), "status");
    changed(RECORD_PROGRESS, "windows", json_pack("[{}]"), "windows");
    for (int i = 0; i < 20; i++) {
        char name[16];

        json_array_append_new(many, json_real(0));
        snprintf(name, sizeof(name), "n%d", i);
        json_object_set_new(numbers, name, json_real(0));
    }
    changed(RECORD_TRIAL_ENDED, "time_s", many, "time_s");
    changed(RECORD_DECISION, "numbers", numbers, "numbers");
}

/* Too long a text is refused, not cut. */
static void record_long_text_is_refused(void **state)
{
    char text[RECORD_TEXT_MAX + 1];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[RECORD_TEXT_MAX] = '\0';
    changed(RECORD_DECISION, "text", json_string(text), "text");
}

/* A journal of a newer program may have more members. */
static void record_unknown_member_is_ignored(void **state)
{
    struct record r;
    json_t *o;

    (void)state;
    fill(&r, RECORD_DECISION);
    o = record_to_json(&r);
    json_object_set_new(o, "confidence", json_real(0.5));
    assert_int_equal(record_from_json(o, &r, NULL), ERR_OK);
    json_decref(o);
    record_deinit(&r);
}

/* Every allocation failing in turn: no leak, no half a record. */
static void record_out_of_memory_leaves_nothing(void **state)
{
    (void)state;
    json_count_memory();
    for (int k = 0; k < RECORD_KIND_COUNT; k++) {
        struct record r;
        int64_t before;

        fill(&r, (enum record_kind)k);
        before = mem_outstanding();
        for (int n = 1;; n++) {
            json_t *o;
            int failed;

            mem_fail_at(n, 0);
            o = record_to_json(&r);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_true(failed ? o == NULL : o != NULL);
            json_decref(o);
            assert_int_equal(mem_outstanding(), before);
            if (!failed)
                break;
        }
        record_deinit(&r);
    }
}

/* Names of statuses tell ends from states. */
static void record_statuses_that_end_a_run(void **state)
{
    (void)state;
    for (int s = 0; s < RUN_STATUS_COUNT; s++)
        assert_int_equal(run_status_is_end((enum run_status)s),
                         s >= RUN_FINISHED);
    assert_true(run_status_names_end("failed"));
    assert_false(run_status_names_end("training"));
    assert_false(run_status_names_end("queued"));
    assert_false(run_status_names_end(NULL));
    assert_true(run_status_resumes("interrupted", false));
    assert_true(run_status_resumes("stopped", false));
    assert_true(run_status_resumes("failed", true));
    assert_false(run_status_resumes("failed", false));
    assert_false(run_status_resumes("finished", true));
    assert_string_equal(run_status_name(RUN_INTERRUPTED), "interrupted");
    assert_string_equal(trial_label_name(TRIAL_CONVERGING), "converging");
    assert_string_equal(record_kind_name(RECORD_EPOCH_ENDED), "epoch_ended");
}

/* Journals from before a member was added are read; it is zero. */
static void record_without_later_members_is_read(void **state)
{
    static const char *const later[] = {"lead",  "lead_se", "pace",
                                        "paced", "run_s",   "pairs"};
    struct record r, back;
    json_t *o;

    (void)state;
    fill(&r, RECORD_TRIAL_ENDED);
    r.trial.figures.lead = 0.5;
    r.trial.figures.pairs = 7;
    o = record_to_json(&r);
    assert_int_equal(record_from_json(o, &back, NULL), ERR_OK);
    assert_true(back.trial.figures.lead == 0.5);
    assert_int_equal(back.trial.figures.pairs, 7);
    record_deinit(&back);
    for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++)
        assert_int_equal(json_object_del(o, later[i]), 0);
    assert_int_equal(record_from_json(o, &back, NULL), ERR_OK);
    assert_true(back.trial.figures.lead == 0);
    assert_int_equal(back.trial.figures.pairs, 0);
    record_deinit(&back);
    json_object_del(o, "speed"); /* one that was always there */
    assert_int_equal(record_from_json(o, &back, NULL), ERR_FORMAT);
    json_decref(o);
    record_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_any_kind_survives_json),
        cmocka_unit_test(record_malformed_is_refused_by_member),
        cmocka_unit_test(record_long_text_is_refused),
        cmocka_unit_test(record_unknown_member_is_ignored),
        cmocka_unit_test(record_out_of_memory_leaves_nothing),
        cmocka_unit_test(record_statuses_that_end_a_run),
        cmocka_unit_test(record_without_later_members_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
