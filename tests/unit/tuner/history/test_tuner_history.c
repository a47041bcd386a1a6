#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/history.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

struct world {
    struct history h;
    double at_s;
};

static void apply(struct world *w, struct record *r)
{
    r->at_s = w->at_s += 0.01;
    assert_int_equal(history_apply(&w->h, r), ERR_OK);
    record_deinit(r);
}

static void branch(struct world *w, branch_id id, branch_id parent,
                   enum branch_type type)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = id;
    r.branch_created.parent = parent;
    r.branch_created.type = type;
    r.branch_created.setting = json_pack("{s:f}", "learning_rate", id * 0.1);
    apply(w, &r);
}

static void progress(struct world *w, branch_id id, clock_no first,
                     clock_no ran, uint32_t windows, double loss)
{
    struct record r;

    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = id;
    r.progress.first = first;
    r.progress.branch_clock = ran;
    r.progress.windows = windows;
    for (uint32_t i = 0; i < windows; i++)
        r.progress.window[i] =
            (struct progress_window){loss * 10, 10, 1, 0.5, 0, 0.1, 0.2};
    apply(w, &r);
}

static void epoch(struct world *w, uint32_t number, branch_id id,
                  bool surviving, bool best, double loss)
{
    struct record r;

    record_init(&r, RECORD_EPOCH_ENDED);
    r.epoch_ended.epoch = number;
    r.epoch_ended.branch = id;
    r.epoch_ended.surviving = surviving;
    r.epoch_ended.best = best;
    r.epoch_ended.loss = loss;
    r.epoch_ended.metric = NAN;
    r.epoch_ended.clock = number * 100;
    r.epoch_ended.setting = json_object();
    apply(w, &r);
}

static void choice(struct world *w, branch_id id, clock_no clock)
{
    struct record r;

    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.branch = id;
    r.setting_chosen.clock = clock;
    r.setting_chosen.setting = json_object();
    apply(w, &r);
}

/* However long a branch runs, its points are bounded, in order, and hold
 * everything that was reported; freed, it keeps an eighth. */
static void history_progress_is_bounded_and_complete(void **state)
{
    struct world w = {0};
    const struct history_branch *b;
    struct record r;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    for (uint32_t i = 0; i < 5000; i++) {
        progress(&w, 1, i * 7, i * 7, 7, 2);
        b = history_branch(&w.h, 1);
        assert_true(b->points <= HISTORY_POINTS_MAX);
    }
    for (int freed = 0; freed < 2; freed++) {
        uint64_t samples = 0, clocks = 0;
        double sum = 0, copied = 0;

        b = history_branch(&w.h, 1);
        for (size_t i = 0; i < b->points; i++) {
            const struct history_point *p = &b->point[i];

            samples += p->w.samples;
            clocks += p->w.clocks;
            sum += p->w.sum;
            copied += p->w.copy_s;
            assert_true(i == 0 ||
                        p->branch_clock > b->point[i - 1].branch_clock);
        }
        assert_int_equal(clocks, 35000);
        assert_int_equal(samples, 350000);
        assert_true(fabs(sum - 700000) < 1e-3);
        assert_true(fabs(copied - 3500) < 1e-6);
        assert_int_equal(b->clocks, 35000);
        assert_true(b->points <= HISTORY_POINTS_MAX / (freed ? 8 : 1));
        assert_true(b->points > HISTORY_POINTS_MAX / (freed ? 32 : 4));
        record_init(&r, RECORD_BRANCH_FREED);
        r.branch_freed.branch = 1;
        if (!freed)
            apply(&w, &r);
    }
    /* Reports that were under way may still come. */
    for (uint32_t i = 0; i < 2000; i++)
        progress(&w, 1, 35000 + i, 35000 + i, 1, 2);
    assert_true(history_branch(&w.h, 1)->points <= HISTORY_POINTS_MAX);
    history_deinit(&w.h);
}

/* A window that is not finite shows, and does not hide what came before. */
static void history_marks_what_is_not_finite(void **state)
{
    struct world w = {0};
    const struct history_branch *b;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    progress(&w, 1, 0, 0, 3, 2);
    progress(&w, 1, 3, 3, 1, INFINITY);
    b = history_branch(&w.h, 1);
    assert_true(isfinite(b->point[2].w.sum));
    assert_false(isfinite(b->point[3].w.sum));
    assert_true(isinf(history_loss(&w.h)));
    history_deinit(&w.h);
}

static void refuse(struct world *w, struct record *r)
{
    uint64_t records = w->h.records;

    r->at_s = w->at_s;
    assert_int_equal(history_apply(&w->h, r), ERR_FORMAT);
    assert_int_equal(w->h.records, records);
    record_deinit(r);
}

/* Records that do not fit what came before are refused. */
static void history_refuses_what_does_not_fit(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    branch(&w, 5, 0, BRANCH_TRAINING);
    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = 5;
    refuse(&w, &r);
    record_init(&r, RECORD_BRANCH_FREED);
    r.branch_freed.branch = 4;
    refuse(&w, &r);
    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = 6;
    refuse(&w, &r);
    record_init(&r, RECORD_SLICE_SCHEDULED);
    r.slice_scheduled.branch = 9;
    refuse(&w, &r);
    record_init(&r, RECORD_SLICE_ENDED);
    refuse(&w, &r);
    record_init(&r, RECORD_TRIAL_ENDED);
    r.trial.trial = 1;
    refuse(&w, &r);
    record_init(&r, RECORD_TRIAL_STARTED);
    r.trial.trial = 2;
    refuse(&w, &r);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 2;
    refuse(&w, &r);
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = 1;
    refuse(&w, &r);
    record_init(&r, RECORD_RUN_STATUS);
    r.at_s = w.at_s - 1;
    assert_int_equal(history_apply(&w.h, &r), ERR_FORMAT);
    history_deinit(&w.h);
}

/* Slices and decisions keep the latest and count the others. */
static void history_keeps_the_latest_decisions_and_slices(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    for (uint32_t i = 0; i < 10000; i++) {
        record_init(&r, RECORD_DECISION);
        snprintf(r.decision.text, sizeof(r.decision.text), "%u", i);
        apply(&w, &r);
        record_init(&r, RECORD_SLICE_SCHEDULED);
        r.slice_scheduled.branch = 1;
        r.slice_scheduled.first = i;
        r.slice_scheduled.count = 1;
        apply(&w, &r);
        record_init(&r, RECORD_SLICE_ENDED);
        r.slice_ended.first = i;
        r.slice_ended.clocks = 1;
        apply(&w, &r);
    }
    assert_true(w.h.decisions <= HISTORY_DECISIONS_MAX);
    assert_int_equal(w.h.decisions + w.h.decisions_dropped, 10000);
    assert_string_equal(w.h.decision[w.h.decisions - 1].d.text, "9999");
    assert_true(w.h.slices <= HISTORY_SLICES_MAX);
    assert_int_equal(w.h.slices + w.h.slices_dropped, 10000);
    assert_true(w.h.slice[w.h.slices - 1].ended);
    assert_int_equal(w.h.clocks, 10000);
    history_deinit(&w.h);
}

/* A branch that comes to lead brings its earlier epochs along, and leaves those
 * of the other behind; the schedule is that of who leads and its ancestors. */
static void history_follows_a_change_of_lead(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    branch(&w, 2, 0, BRANCH_TRAINING);
    branch(&w, 3, 2, BRANCH_KEPT);
    branch(&w, 4, 3, BRANCH_TRAINING);
    choice(&w, 1, 10);
    epoch(&w, 1, 1, true, true, 5);
    epoch(&w, 1, 2, false, false, 6);
    epoch(&w, 2, 2, false, false, 5.5);
    choice(&w, 2, 20);
    epoch(&w, 3, 2, true, true, 4);
    assert_false(w.h.epoch[0].e.surviving);
    for (size_t i = 1; i < 4; i++)
        assert_true(w.h.epoch[i].e.surviving);
    assert_int_equal(history_epochs(&w.h), 3);
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 2);
    assert_int_equal(w.h.choices, 1);
    assert_int_equal(w.h.choice[0].c.clock, 20);
    choice(&w, 4, 30); /* forked from what branch 2 was: both count */
    epoch(&w, 4, 4, true, true, 3);
    assert_true(w.h.epoch[3].e.surviving);
    assert_int_equal(w.h.choices, 2);
    choice(&w, 1, 10); /* the lead goes back */
    epoch(&w, 2, 1, true, true, 2);
    assert_true(w.h.epoch[0].e.surviving);
    assert_false(w.h.epoch[1].e.surviving);
    assert_false(w.h.epoch[4].e.surviving);
    assert_int_equal(w.h.choices, 1);
    assert_int_equal(w.h.choice[0].c.branch, 1);
    history_deinit(&w.h);
}

/* The best model may be that of a finalist that lost: its epochs are no part of
 * the lineage, until that goes on from it. */
static void history_goes_back_to_a_finalist_that_lost(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    epoch(&w, 1, 1, true, true, 5);
    epoch(&w, 2, 1, true, true, 4);
    branch(&w, 2, 1, BRANCH_TRAINING);
    branch(&w, 3, 1, BRANCH_TRAINING);
    epoch(&w, 3, 2, false, false, 3);
    branch(&w, 4, 2, BRANCH_KEPT);
    epoch(&w, 3, 3, false, false, 3.5);
    epoch(&w, 3, 2, false, true, 3);
    epoch(&w, 3, 3, true, false, 3.5);
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 2);
    assert_false(history_best_epoch(&w.h)->e.surviving);
    assert_int_equal(history_last_epoch(&w.h)->e.branch, 3);
    branch(&w, 5, 4, BRANCH_TRAINING);
    epoch(&w, 4, 5, true, false, 3.2);
    for (size_t i = 0; i < w.h.epochs; i++)
        assert_int_equal(w.h.epoch[i].e.surviving, w.h.epoch[i].e.branch != 3);
    assert_int_equal(history_epochs(&w.h), 4);
    history_deinit(&w.h);
}

/* Finalists' epochs become the lineage's when recorded again; a lineage that
 * goes back leaves its later epochs behind. */
static void history_follows_the_surviving_lineage(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    assert_null(history_last_epoch(&w.h));
    assert_null(history_best_epoch(&w.h));
    epoch(&w, 1, 1, false, false, 3);
    epoch(&w, 1, 2, false, false, 2.5);
    assert_int_equal(history_epochs(&w.h), 0);
    epoch(&w, 1, 2, true, true, 2.5);
    assert_int_equal(w.h.epochs, 2);
    assert_int_equal(history_epochs(&w.h), 1);
    epoch(&w, 2, 2, true, true, 2);
    epoch(&w, 3, 2, true, false, 2.2);
    assert_int_equal(history_epochs(&w.h), 3);
    epoch(&w, 3, 7, true, true, 1.5);
    assert_int_equal(history_epochs(&w.h), 3);
    assert_int_equal(history_last_epoch(&w.h)->e.branch, 7);
    assert_true(history_best_epoch(&w.h)->e.loss == 1.5);
    assert_false(w.h.epoch[3].e.surviving);
    assert_true(w.h.epoch[2].e.surviving);
    history_deinit(&w.h);
}

/* The result object has the contract's members, null where there is nothing. */
static void history_result_has_the_contract_members(void **state)
{
    static const char *const members[] = {
        "run",      "status",         "reason",
        "loss",     "metric",         "best",
        "model",    "epochs",         "clocks",
        "seconds",  "paused_seconds", "tuning",
        "setting",  "schedule",       "strategy",
        "searcher", "seed",           "state",
        "url"};
    struct world w = {0};
    struct record r;
    json_t *o;

    (void)state;
    history_init(&w.h);
    o = history_result(&w.h, NULL, NULL);
    assert_int_equal(json_object_size(o), 19);
    assert_true(json_is_null(json_object_get(o, "loss")));
    assert_true(json_is_null(json_object_get(o, "model")));
    json_decref(o);
    record_init(&r, RECORD_RUN_STARTED);
    strcpy(r.run_started.run, "r1");
    r.run_started.seed = 7;
    apply(&w, &r);
    epoch(&w, 1, 0, true, true, 0.5);
    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.clock = 12;
    r.setting_chosen.setting = json_pack("{s:f}", "learning_rate", 0.25);
    apply(&w, &r);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    apply(&w, &r);
    assert_true(history_tuning(&w.h).seconds == 0);
    record_init(&r, RECORD_DECISION);
    w.at_s += 4;
    apply(&w, &r);
    assert_true(fabs(history_tuning(&w.h).seconds - 4.01) < 1e-9);
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = 1;
    r.search_ended.seconds = 3;
    r.search_ended.clocks = 40;
    apply(&w, &r);
    record_init(&r, RECORD_RUN_FINISHED);
    r.run_finished.status = RUN_FINISHED;
    strcpy(r.run_finished.reason, "converged");
    apply(&w, &r);
    o = history_result(&w.h, "/state", "http://x/");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        assert_non_null(json_object_get(o, members[i]));
    assert_string_equal(json_string_value(json_object_get(o, "reason")),
                        "converged");
    assert_string_equal(json_string_value(json_object_get(o, "status")),
                        "finished");
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(o, "tuning"), "clocks")),
                     40);
    assert_int_equal(json_array_size(json_object_get(o, "schedule")), 1);
    assert_true(json_real_value(json_object_get(json_object_get(o, "setting"),
                                                "learning_rate")) == 0.25);
    json_decref(o);
    history_deinit(&w.h);
}

/* Each allocation failing in turn: the record is refused whole, and applies
 * when it is given again. */
static void history_out_of_memory_changes_nothing(void **state)
{
    struct world w = {0};
    int64_t before;
    int failures = 0;

    (void)state;
    before = mem_outstanding();
    history_init(&w.h);
    for (branch_id id = 1; id < 40; id++) {
        struct record r[3];

        record_init(&r[0], RECORD_BRANCH_CREATED);
        r[0].branch_created.branch = id;
        record_init(&r[1], RECORD_PROGRESS);
        r[1].progress.branch = id;
        r[1].progress.windows = 2;
        record_init(&r[2], RECORD_DECISION);
        for (int k = 0; k < 3; k++) {
            uint64_t records = w.h.records;
            enum err err;

            mem_fail_at(1, 0);
            err = history_apply(&w.h, &r[k]);
            failures += mem_failed();
            mem_fail_at(0, 0);
            if (err) {
                assert_int_equal(err, ERR_NOMEM);
                assert_int_equal(w.h.records, records);
                assert_int_equal(history_apply(&w.h, &r[k]), ERR_OK);
            }
        }
    }
    assert_true(failures > 40);
    assert_int_equal(w.h.branches, 39);
    assert_int_equal(history_branch(&w.h, 20)->points, 2);
    history_deinit(&w.h);
    assert_int_equal(mem_outstanding(), before);
}

/* ---- resumed runs -------------------------------------------------------- */

static void trial(struct world *w, enum record_kind kind, uint32_t number,
                  uint32_t search, enum trial_label label)
{
    struct record r;

    record_init(&r, kind);
    r.trial.trial = number;
    r.trial.search = search;
    r.trial.branch = BRANCH_NONE;
    r.trial.setting = json_object();
    r.trial.label = label;
    apply(w, &r);
}

static void snapshot(struct world *w, branch_id id, uint32_t epochs,
                     uint32_t best, const char *path)
{
    struct record r;

    record_init(&r, RECORD_SNAPSHOT_WRITTEN);
    r.snapshot_written.branch = id;
    r.snapshot_written.epoch = epochs;
    r.snapshot_written.best_epoch = best;
    r.snapshot_written.state = json_object();
    snprintf(r.snapshot_written.path, RECORD_PATH_MAX, "%s", path);
    apply(w, &r);
}

static void resumed(struct world *w, branch_id from, uint32_t epochs,
                    uint32_t best, uint32_t search, const char *path)
{
    struct record r;

    record_init(&r, RECORD_RUN_RESUMED);
    r.run_resumed.from = from;
    r.run_resumed.epoch = epochs;
    r.run_resumed.best_epoch = best;
    r.run_resumed.search = search;
    snprintf(r.run_resumed.path, RECORD_PATH_MAX, "%s", path);
    apply(w, &r);
}

/* Going back to a snapshot takes back what its lineage ran since, loses what
 * lived, and forgets later snapshots once another one is written. */
static void history_resumed_goes_back_to_the_snapshot(void **state)
{
    struct world w = {0};
    uint32_t surviving = 0;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    epoch(&w, 1, 1, true, true, 3);
    epoch(&w, 2, 1, true, true, 2);
    branch(&w, 2, 1, BRANCH_KEPT);
    snapshot(&w, 2, 2, 2, "/s/000001");
    epoch(&w, 3, 1, true, false, 2.5);
    branch(&w, 3, 2, BRANCH_TRAINING); /* a re-tune from epoch 2 won */
    epoch(&w, 3, 3, true, true, 1);
    branch(&w, 4, 3, BRANCH_KEPT);
    snapshot(&w, 4, 3, 3, "/s/000002");
    epoch(&w, 4, 3, true, true, 0.5);
    assert_int_equal(w.h.snapshots, 2);

    resumed(&w, 4, 3, 3, 0, "/s/000002");
    assert_int_equal(history_epochs(&w.h), 3);
    assert_int_equal(history_last_epoch(&w.h)->e.branch, 3);
    assert_int_equal(history_best_epoch(&w.h)->e.epoch, 3);
    assert_int_equal(w.h.snapshots, 2);
    for (size_t i = 0; i < w.h.branches; i++)
        assert_false(isnan(w.h.branch[i].freed_at_s));

    /* The second could not be read: the state before the re-tune is back. */
    resumed(&w, 2, 2, 2, 0, "/s/000001");
    assert_int_equal(history_epochs(&w.h), 2);
    assert_int_equal(history_last_epoch(&w.h)->e.branch, 1);
    assert_int_equal(history_best_epoch(&w.h)->e.epoch, 2);
    assert_int_equal(w.h.snapshots, 2);
    for (size_t i = 0; i < w.h.epochs; i++)
        surviving += w.h.epoch[i].e.surviving;
    assert_int_equal(surviving, 2);

    /* It can be read again, as a disk that was mounted. */
    resumed(&w, 4, 3, 3, 0, "/s/000002");
    assert_int_equal(history_epochs(&w.h), 3);
    resumed(&w, 2, 2, 2, 0, "/s/000001");
    branch(&w, 5, 2, BRANCH_KEPT);
    snapshot(&w, 5, 2, 2, "/s/000005");
    assert_int_equal(w.h.snapshots, 2);
    assert_string_equal(w.h.snapshot[0].s.path, "/s/000001");
    assert_string_equal(w.h.snapshot[1].s.path, "/s/000005");

    resumed(&w, 0, 0, 0, 0, "");
    assert_int_equal(history_epochs(&w.h), 0);
    assert_null(history_best_epoch(&w.h));
    assert_null(history_last_snapshot(&w.h));
    assert_int_equal(w.h.snapshot_number, 5);
    assert_int_equal(w.h.resumes, 5);
    history_deinit(&w.h);
}

/* In a contest the best model may be of a trial that did not win: its epoch,
 * loss and setting stay the best after a resume, though the winner has an epoch
 * of that number. */
static void history_resumed_contest_keeps_its_best(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    branch(&w, 2, 0, BRANCH_TRAINING);
    epoch(&w, 1, 1, true, true, 3);
    epoch(&w, 1, 2, false, false, 2.9);
    epoch(&w, 1, 2, true, false, 2.9); /* it wins */
    epoch(&w, 2, 2, true, false, 2.8);
    branch(&w, 3, 2, BRANCH_KEPT);
    snapshot(&w, 3, 2, 1, "/s/000001");
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 1);
    resumed(&w, 3, 2, 1, 0, "/s/000001");
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 1);
    assert_true(history_best_epoch(&w.h)->e.loss == 3);
    history_deinit(&w.h);
}

/* A better epoch of the winner was journaled after the snapshot, and a trial
 * that lost has one of the same number: the best is the one that the snapshot's
 * record names. */
static void history_resumed_contest_goes_back_to_its_best(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    for (branch_id b = 1; b <= 3; b++)
        branch(&w, b, 0, BRANCH_TRAINING);
    epoch(&w, 1, 1, false, false, 4);
    epoch(&w, 1, 2, true, true, 3);
    epoch(&w, 1, 3, true, false, 3.5); /* it wins */
    epoch(&w, 2, 3, true, false, 3.2);
    branch(&w, 4, 3, BRANCH_KEPT);
    snapshot(&w, 4, 2, 1, "/s/000001");
    epoch(&w, 3, 3, true, true, 2);
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 3);
    record_init(&r, RECORD_RUN_RESUMED);
    r.run_resumed.from = 4;
    r.run_resumed.epoch = 2;
    r.run_resumed.best_epoch = 1;
    r.run_resumed.best_of = 2;
    snprintf(r.run_resumed.path, RECORD_PATH_MAX, "/s/000001");
    apply(&w, &r);
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 2);
    assert_true(history_best_epoch(&w.h)->e.loss == 3);
    assert_ptr_equal(history_epoch_of(&w.h, 1, 2), history_best_epoch(&w.h));
    assert_null(history_epoch_of(&w.h, 4, 2));

    /* An older journal's record names no branch: one that survives. */
    epoch(&w, 3, 3, true, true, 2);
    r.run_resumed.best_of = BRANCH_NONE;
    apply(&w, &r);
    assert_int_equal(history_best_epoch(&w.h)->e.branch, 3);
    assert_int_equal(history_best_epoch(&w.h)->e.epoch, 1);
    history_deinit(&w.h);
}

static void by_hand(struct world *w, branch_id id, branch_id instead_of)
{
    struct record r;

    record_init(&r, RECORD_USER_BRANCH);
    r.user_branch.branch = id;
    r.user_branch.instead_of = instead_of;
    r.user_branch.promoted = true;
    apply(w, &r);
}

static enum err suggest_as(struct world *w, uint32_t n,
                           enum suggestion_state is, uint32_t trial,
                           const char *key)
{
    struct record r;
    enum err err;

    record_init(&r, RECORD_SUGGESTION);
    r.at_s = w->at_s += 0.01;
    r.suggestion.suggestion = n;
    r.suggestion.state = is;
    r.suggestion.trial = trial;
    r.suggestion.setting = json_pack("{s:f}", "learning_rate", 0.1 * n);
    snprintf(r.suggestion.key, sizeof(r.suggestion.key), "%s", key);
    err = history_apply(&w->h, &r);
    record_deinit(&r);
    return err;
}

static enum err suggest(struct world *w, uint32_t n, enum suggestion_state is,
                        uint32_t trial)
{
    return suggest_as(w, n, is, trial, "");
}

static enum err suggested_trial(struct world *w, enum record_kind kind,
                                uint32_t n, uint32_t suggestion,
                                enum trial_label label)
{
    struct record r;
    enum err err;

    record_init(&r, kind);
    r.at_s = w->at_s += 0.01;
    r.trial.trial = n;
    r.trial.search = 1;
    r.trial.branch = BRANCH_NONE;
    r.trial.label = label;
    r.trial.suggestion = suggestion;
    r.trial.setting = json_pack("{s:f}", "learning_rate", 0.1 * suggestion);
    err = history_apply(&w->h, &r);
    record_deinit(&r);
    return err;
}

/* A suggestion is settled by its trial; it waits again where that, or the one
 * that it was taken for, is lost. What fits nothing is refused. */
static void history_suggestions_follow_their_trials(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    assert_int_equal(suggest(&w, 2, SUGGESTION_WAITING, 0), ERR_FORMAT);
    assert_int_equal(suggest(&w, 1, SUGGESTION_KNOWN, 0), ERR_FORMAT);
    for (uint32_t n = 1; n <= 3; n++)
        assert_int_equal(suggest(&w, n, SUGGESTION_WAITING, 0), ERR_OK);
    assert_int_equal(suggest(&w, 1, SUGGESTION_WAITING, 0), ERR_FORMAT);
    assert_int_equal(suggest(&w, 1, SUGGESTION_BEGUN, 1), ERR_FORMAT);
    assert_int_equal(
        suggested_trial(&w, RECORD_TRIAL_STARTED, 1, 4, TRIAL_RUNNING),
        ERR_FORMAT);
    assert_int_equal(
        suggested_trial(&w, RECORD_TRIAL_STARTED, 1, 2, TRIAL_RUNNING), ERR_OK);
    assert_int_equal(suggest(&w, 3, SUGGESTION_KNOWN, 1), ERR_OK);
    assert_int_equal(w.h.suggestion[0].s.state, SUGGESTION_WAITING);
    assert_true(isnan(w.h.suggestion[0].settled_at_s));
    assert_int_equal(w.h.suggestion[1].s.state, SUGGESTION_BEGUN);
    assert_int_equal(w.h.suggestion[1].s.trial, 1);
    assert_int_equal(w.h.suggestion[2].s.trial, 1);
    assert_int_equal(
        suggested_trial(&w, RECORD_TRIAL_ENDED, 1, 2, TRIAL_INTERRUPTED),
        ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(w.h.suggestion[i].s.state, SUGGESTION_WAITING);
        assert_int_equal(w.h.suggestion[i].s.trial, 0);
        assert_true(isnan(w.h.suggestion[i].settled_at_s));
    }
    history_deinit(&w.h);
}

/* A search goes on and forgets the trials from one on: what those were to try
 * waits, and so does what was known by them. It is settled by the trial that
 * gets the number. */
static void history_suggestions_of_forgotten_trials_wait(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    apply(&w, &r);
    for (uint32_t n = 1; n <= 4; n++)
        assert_int_equal(suggest(&w, n, SUGGESTION_WAITING, 0), ERR_OK);
    for (uint32_t n = 1; n <= 2; n++)
        assert_int_equal(
            suggested_trial(&w, RECORD_TRIAL_STARTED, n, n, TRIAL_RUNNING),
            ERR_OK);
    assert_int_equal(suggest(&w, 3, SUGGESTION_KNOWN, 1), ERR_OK);
    assert_int_equal(suggest(&w, 4, SUGGESTION_KNOWN, 2), ERR_OK);
    record_init(&r, RECORD_RUN_RESUMED);
    r.run_resumed.search = 1;
    r.run_resumed.next_trial = 2;
    apply(&w, &r);
    assert_int_equal(w.h.suggestion[0].s.state, SUGGESTION_BEGUN);
    assert_int_equal(w.h.suggestion[1].s.state, SUGGESTION_WAITING);
    assert_int_equal(w.h.suggestion[1].s.trial, 0);
    assert_int_equal(w.h.suggestion[2].s.state, SUGGESTION_KNOWN);
    assert_int_equal(w.h.suggestion[3].s.state, SUGGESTION_WAITING);
    assert_string_equal(w.h.suggestion[3].s.reason, "");
    assert_int_equal(
        suggested_trial(&w, RECORD_TRIAL_UPDATED, 2, 4, TRIAL_RUNNING), ERR_OK);
    assert_int_equal(w.h.suggestion[1].s.state, SUGGESTION_WAITING);
    assert_int_equal(w.h.suggestion[3].s.state, SUGGESTION_BEGUN);
    assert_int_equal(w.h.suggestion[3].s.trial, 2);
    assert_false(isnan(w.h.suggestion[3].settled_at_s));
    history_deinit(&w.h);
}

/* Whoever repeats the request after a resume is known by its key. */
static void history_suggestions_keep_their_key(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    for (uint32_t n = 1; n <= 3; n++)
        assert_int_equal(suggest_as(&w, n, SUGGESTION_WAITING, 0, "k"), ERR_OK);
    assert_int_equal(
        suggested_trial(&w, RECORD_TRIAL_STARTED, 1, 1, TRIAL_RUNNING), ERR_OK);
    assert_int_equal(suggest(&w, 2, SUGGESTION_KNOWN, 1), ERR_OK);
    assert_int_equal(suggest(&w, 3, SUGGESTION_DROPPED, 0), ERR_OK);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(w.h.suggestion[i].s.key, "k");
    history_deinit(&w.h);
}

static void end_run(struct world *w, enum run_status status)
{
    struct record r;

    record_init(&r, RECORD_RUN_FINISHED);
    r.run_finished.status = status;
    apply(w, &r);
}

/* A suggestion that waits is dropped by an end, but by none that is made to be
 * resumed; and not for ever where the run is resumed all the same. */
static void history_suggestions_end_with_the_run(void **state)
{
    static const struct {
        enum run_status status;
        enum suggestion_state is;
    } ends[] = {
        {RUN_FINISHED, SUGGESTION_DROPPED},
        {RUN_FAILED, SUGGESTION_DROPPED},
        {RUN_STOPPED, SUGGESTION_WAITING},
        {RUN_INTERRUPTED, SUGGESTION_WAITING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct world w = {0};
        const struct history_suggestion *x;
        struct record r;

        history_init(&w.h);
        for (uint32_t n = 1; n <= 2; n++)
            assert_int_equal(suggest(&w, n, SUGGESTION_WAITING, 0), ERR_OK);
        assert_int_equal(suggest(&w, 1, SUGGESTION_DROPPED, 0), ERR_OK);
        end_run(&w, ends[i].status);
        x = &w.h.suggestion[1];
        assert_int_equal(x->s.state, ends[i].is);
        assert_int_equal(isnan(x->settled_at_s),
                         ends[i].is == SUGGESTION_WAITING);
        assert_int_equal(x->s.reason[0] != '\0',
                         ends[i].is == SUGGESTION_DROPPED);
        record_init(&r, RECORD_RUN_RESUMED);
        apply(&w, &r);
        assert_int_equal(x->s.state, SUGGESTION_WAITING);
        assert_string_equal(x->s.reason, "");
        assert_int_equal(w.h.suggestion[0].s.state, SUGGESTION_DROPPED);
        history_deinit(&w.h);
    }
}

/* A promotion is kept by the snapshots that were written after it, and open
 * again once the run goes back behind them. */
static void history_promotion_is_kept_by_later_snapshots(void **state)
{
    struct world w = {0};
    const struct history_branch *b;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    branch(&w, 2, 1, BRANCH_KEPT);
    snapshot(&w, 2, 2, 2, "/s/000001");
    branch(&w, 3, 1, BRANCH_TRAINING);
    by_hand(&w, 3, BRANCH_NONE);
    b = history_branch(&w.h, 3);
    assert_int_equal(b->wish, WISH_PROMOTE);
    assert_int_equal(b->kept_in, 0);
    branch(&w, 4, 3, BRANCH_KEPT);
    snapshot(&w, 4, 3, 3, "/s/000002");
    branch(&w, 5, 3, BRANCH_KEPT);
    snapshot(&w, 5, 3, 3, "/s/000003");
    b = history_branch(&w.h, 3);
    assert_int_equal(b->kept_in, 2);

    resumed(&w, 5, 3, 3, 0, "/s/000003");
    resumed(&w, 4, 3, 3, 0, "/s/000002");
    assert_int_equal(history_branch(&w.h, 3)->kept_in, 2);
    resumed(&w, 2, 2, 2, 0, "/s/000001");
    b = history_branch(&w.h, 3);
    assert_int_equal(b->wish, WISH_PROMOTE);
    assert_int_equal(b->kept_in, 0);
    branch(&w, 6, 2, BRANCH_TRAINING);
    by_hand(&w, 6, 3);
    assert_int_equal(history_branch(&w.h, 3)->wish, WISH_NONE);
    branch(&w, 7, 6, BRANCH_KEPT);
    snapshot(&w, 7, 3, 3, "/s/000004");
    branch(&w, 8, 6, BRANCH_TRAINING); /* takes the place of one in there */
    by_hand(&w, 8, BRANCH_NONE);
    assert_int_equal(history_branch(&w.h, 6)->wish, WISH_NONE);
    history_deinit(&w.h);
}

/* A search that goes on is open again, and a trial of it that begins again is
 * under way; a run that had ended is not over. */
static void history_resumed_reopens_search_and_run(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    apply(&w, &r);
    trial(&w, RECORD_TRIAL_STARTED, 1, 1, TRIAL_RUNNING);
    record_init(&r, RECORD_SEARCH_DECIDED);
    r.search_decided.search = 1;
    r.search_decided.trial_s = 0.25;
    apply(&w, &r);
    trial(&w, RECORD_TRIAL_ENDED, 1, 1, TRIAL_STOPPED);
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = 1;
    apply(&w, &r);
    record_init(&r, RECORD_RUN_FINISHED);
    r.run_finished.status = RUN_INTERRUPTED;
    apply(&w, &r);
    assert_true(w.h.finished);
    assert_true(w.h.search[0].ended);
    assert_true(w.h.search[0].decided);

    resumed(&w, 0, 0, 0, 1, "");
    assert_false(w.h.finished);
    assert_false(w.h.search[0].ended);
    trial(&w, RECORD_TRIAL_UPDATED, 1, 1, TRIAL_RUNNING);
    assert_false(w.h.trial[0].ended);
    history_deinit(&w.h);
}

/* A resumption that names what was never there is no record of this run. */
static void history_resumed_from_nowhere_is_refused(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    record_init(&r, RECORD_RUN_RESUMED);
    r.run_resumed.from = 9;
    assert_int_equal(history_apply(&w.h, &r), ERR_FORMAT);
    r.run_resumed.from = 0;
    r.run_resumed.search = 1;
    assert_int_equal(history_apply(&w.h, &r), ERR_FORMAT);
    assert_int_equal(w.h.records, 0);
    history_deinit(&w.h);
}

/* The clock of a run stands still while it is not there; the wall's does not.
 */
static void history_wall_knows_when_it_was_resumed(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    assert_true(history_wall(w.h.era, w.h.eras, 1000, 5) == 1005);
    w.at_s = 9.99;
    record_init(&r, RECORD_RUN_RESUMED);
    r.run_resumed.unix_s = 5000;
    apply(&w, &r); /* at 10 s */
    assert_true(history_wall(w.h.era, w.h.eras, 1000, 5) == 1005);
    assert_true(fabs(history_wall(w.h.era, w.h.eras, 1000, 12) - 5002) < 1e-6);
    assert_true(isnan(history_wall(w.h.era, w.h.eras, NAN, 1)));
    for (int i = 0; i < 2 * HISTORY_ERAS_MAX; i++) {
        record_init(&r, RECORD_RUN_RESUMED);
        r.run_resumed.unix_s = 6000 + i;
        apply(&w, &r);
    }
    assert_int_equal(w.h.eras, HISTORY_ERAS_MAX);
    assert_true(history_wall(w.h.era, w.h.eras, 1000, 100) > 6000);
    history_deinit(&w.h);
}

/* However many are written, the latest are kept. */
/* A state folder that was moved: snapshots are found under their names, and a
 * resume from one forgets by name which came later. A path that would be too
 * long changes nothing. */
static void history_snapshots_move_with_their_folder(void **state)
{
    struct world w = {0};
    char far[RECORD_PATH_MAX];

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    snapshot(&w, 1, 0, 0, "/before/snapshots/000001");
    snapshot(&w, 1, 0, 0, "/before/snapshots/000002");
    snprintf(w.h.snapshot[1].s.best_path, RECORD_PATH_MAX, "%s",
             "/before/snapshots/000001-best");
    memset(far, 'x', sizeof(far));
    far[0] = '/';
    far[sizeof(far) - 8] = '\0'; /* /000001 would fit, not /000001-best */
    assert_int_equal(history_move_snapshots(&w.h, far), ERR_LIMIT);
    assert_string_equal(w.h.snapshot[0].s.path, "/before/snapshots/000001");
    assert_int_equal(history_move_snapshots(&w.h, "/now"), ERR_OK);
    assert_string_equal(w.h.snapshot[0].s.path, "/now/000001");
    assert_string_equal(w.h.snapshot[0].s.best_path, "");
    assert_string_equal(w.h.snapshot[1].s.path, "/now/000002");
    assert_string_equal(w.h.snapshot[1].s.best_path, "/now/000001-best");

    /* The journal has both places. */
    resumed(&w, 1, 0, 0, 0, "/before/snapshots/000001");
    snapshot(&w, 1, 0, 0, "/now/000004");
    assert_int_equal(w.h.snapshots, 2);
    assert_string_equal(w.h.snapshot[0].s.path, "/now/000001");
    history_deinit(&w.h);
}

static void history_keeps_the_latest_snapshots(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_KEPT);
    for (int i = 1; i <= 3 * HISTORY_SNAPSHOTS_MAX; i++) {
        char path[32];

        snprintf(path, sizeof(path), "/s/%06d", i);
        snapshot(&w, 1, 0, 0, path);
    }
    assert_int_equal(w.h.snapshots, HISTORY_SNAPSHOTS_MAX);
    assert_string_equal(history_last_snapshot(&w.h)->s.path, "/s/000048");
    history_deinit(&w.h);
}

static void free_branch(struct world *w, branch_id id)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_FREED);
    r.branch_freed.branch = id;
    apply(w, &r);
}

/* A run that ended has freed its tip, too: what is kept of it is whole, though
 * the shapes of what took few bytes are gone. */
static void history_that_rests_has_the_setting_of_its_tip(void **state)
{
    struct world w = {0};
    json_t *wanted = json_pack("{s:f}", "learning_rate", 2 * 0.1);

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    progress(&w, 1, 0, 4, 2, 1);
    branch(&w, 2, 1, BRANCH_TRAINING);
    progress(&w, 2, 4, 4, 2, 0.5);
    choice(&w, 2, 5);
    epoch(&w, 1, 2, true, true, 0.5);
    free_branch(&w, 1);
    free_branch(&w, 2);
    assert_non_null(history_branch(&w.h, 2)->few);
    for (int times = 0; times < 2; times++) {
        json_t *kept;

        history_rest(&w.h);
        assert_int_equal(w.h.shapes, 0);
        assert_non_null(history_branch(&w.h, 2));
        kept = history_branch_setting(&w.h, history_branch(&w.h, 2));
        assert_true(json_equal(kept, wanted));
        json_decref(kept);
    }
    json_decref(wanted);
    history_deinit(&w.h);
}

static void epoch_with(struct world *w, uint32_t number, branch_id id,
                       json_t *setting)
{
    struct record r;

    record_init(&r, RECORD_EPOCH_ENDED);
    r.epoch_ended.epoch = number;
    r.epoch_ended.branch = id;
    r.epoch_ended.surviving = true;
    r.epoch_ended.setting = setting;
    apply(w, &r);
}

static void assert_epoch_setting(const struct world *w, size_t i,
                                 json_t *wanted)
{
    json_t *has = history_epoch_setting(&w->h, history_epoch_at(&w->h, i));

    assert_true(json_equal(has, wanted ? wanted : json_null()));
    json_decref(has);
    json_decref(wanted);
}

/* Each epoch has its own setting, one that is recorded again the later one, and
 * at rest the last has it still; equal ones take no bytes. */
static void history_epochs_have_their_settings(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    epoch_with(&w, 1, 1, NULL);
    epoch_with(&w, 2, 1, json_pack("{s:i, s:s}", "a", 1, "rule", "adam"));
    for (uint32_t n = 3; n <= 9; n++)
        epoch_with(&w, n, 1, json_pack("{s:f}", "a", n < 7 ? 0.25 : 0.5));
    assert_in_range(w.h.epoch_setting.len, 20, 60);
    epoch_with(&w, 5, 1, json_pack("{s:f}", "a", 0.25));
    assert_int_equal(w.h.epochs, 9);
    epoch_with(&w, 4, 1, json_pack("{s:f}", "a", 0.125));
    assert_int_equal(w.h.epochs, 9);
    epoch_with(&w, 10, 1, json_pack("{s:f}", "a", 0.5));
    assert_epoch_setting(&w, 0, NULL);
    assert_epoch_setting(&w, 1,
                         json_pack("{s:i, s:s}", "a", 1, "rule", "adam"));
    assert_epoch_setting(&w, 2, json_pack("{s:f}", "a", 0.25));
    assert_epoch_setting(&w, 3, json_pack("{s:f}", "a", 0.125));
    assert_epoch_setting(&w, 4, json_pack("{s:f}", "a", 0.25));
    assert_epoch_setting(&w, 9, json_pack("{s:f}", "a", 0.5));
    history_rest(&w.h);
    assert_int_equal(w.h.epochs, 1);
    assert_epoch_setting(&w, 0, json_pack("{s:f}", "a", 0.5));
    history_deinit(&w.h);
}

/* However many branches were freed, their points together are bounded, and
 * still hold everything that was reported. */
static void history_freed_points_are_bounded(void **state)
{
    enum { BRANCHES = HISTORY_FREED_POINTS_MAX / (HISTORY_POINTS_MAX / 8) + 9 };
    struct world w = {0};
    size_t held = 0;

    (void)state;
    history_init(&w.h);
    for (branch_id b = 1; b <= BRANCHES; b++) {
        branch(&w, b, 0, BRANCH_TRAINING);
        for (uint32_t i = 0; i < 16; i++)
            progress(&w, b, i * 8, i * 8, 8, 2);
        free_branch(&w, b);
    }
    for (size_t i = 0; i < w.h.branches; i++) {
        const struct history_branch *b = &w.h.branch[i];
        uint64_t clocks = 0;

        held += b->points;
        for (size_t k = 0; k < b->points; k++)
            clocks += b->point[k].w.clocks;
        assert_int_equal(clocks, 128);
    }
    assert_int_equal(held, w.h.freed_points);
    assert_true(held <= HISTORY_FREED_POINTS_MAX);
    assert_true(held >= HISTORY_FREED_POINTS_MAX / 2);
    /* The oldest hold fewer, the newest all that they may. */
    assert_true(w.h.branch[0].points < HISTORY_POINTS_MAX / 8 / 2);
    assert_int_equal(w.h.branch[w.h.branches - 1].points,
                     HISTORY_POINTS_MAX / 8);
    history_deinit(&w.h);
}

/* A finalist's last record comes when its branch is gone; what it ran in stays
 * known. */
static void history_trial_keeps_its_branch(void **state)
{
    struct world w = {0};
    struct record r;

    (void)state;
    history_init(&w.h);
    for (int ended = 0; ended < 2; ended++) {
        record_init(&r, ended ? RECORD_TRIAL_ENDED : RECORD_TRIAL_STARTED);
        r.trial.trial = 1;
        r.trial.search = 1;
        r.trial.branch = ended ? BRANCH_NONE : 7;
        r.trial.setting = json_object();
        apply(&w, &r);
    }
    assert_int_equal(w.h.trial[0].t.branch, 7);
    history_deinit(&w.h);
}

static void progress_with(struct world *w, branch_id id, clock_no ran,
                          uint32_t windows, json_t *values)
{
    struct record r;

    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = id;
    r.progress.first = r.progress.branch_clock = ran;
    r.progress.windows = windows;
    for (uint32_t i = 0; i < windows; i++)
        r.progress.window[i] =
            (struct progress_window){10, 10, 1, 0.5, 0, 0.1, 0.2};
    r.progress.values = values;
    apply(w, &r);
}

/* Further metrics stand at their points, also when these are joined, and what
 * is not reported is NAN. */
static void history_values_stand_at_their_points(void **state)
{
    struct world w = {0};
    const struct history_branch *b;
    double sum = 0;

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    progress(&w, 1, 0, 0, 2, 1);
    assert_null(w.h.branch[0].extras);
    progress_with(&w, 1, 2, 3, json_pack("{s:[f, n, f]}", "a", 1.0, 3.0));
    progress_with(&w, 1, 5, 1,
                  json_pack("{s:[f], s:[s]}", "b", 7.0, "a", "nan"));
    b = history_branch(&w.h, 1);
    assert_int_equal(w.h.extras.len, 2);
    assert_int_equal(b->points, 6);
    assert_true(isnan(history_extra(b, 0, 1)));
    assert_true(history_extra(b, 0, 2) == 1);
    assert_true(isnan(history_extra(b, 0, 3)));
    assert_true(history_extra(b, 0, 4) == 3);
    assert_true(isnan(history_extra(b, 0, 5)));
    assert_true(isnan(history_extra(b, 1, 4)));
    assert_true(history_extra(b, 1, 5) == 7);
    for (uint32_t i = 6; i < 20000; i++)
        progress_with(&w, 1, i, 1, json_pack("{s:[f]}", "a", (double)i));
    b = history_branch(&w.h, 1);
    assert_true(b->merge > 1);
    for (size_t i = 1; i < b->points; i++) {
        double mid = (double)b->point[i].branch_clock -
                     (double)(b->point[i].w.clocks + 1) / 2;

        assert_true(fabs(history_extra(b, 0, i) - mid) < 1e-6);
        sum += history_extra(b, 0, i);
    }
    assert_true(sum > 0);
    history_deinit(&w.h);
}

/* An epoch has the means of what its testing branch reported; it keeps them
 * when it is recorded again. */
static void history_epoch_has_values_of_its_test(void **state)
{
    struct world w = {0};

    (void)state;
    history_init(&w.h);
    branch(&w, 1, 0, BRANCH_TRAINING);
    progress_with(&w, 1, 0, 1, json_pack("{s:[f]}", "a", 9.0));
    branch(&w, 2, 1, BRANCH_TESTING);
    progress_with(&w, 2, 1, 2, json_pack("{s:[f, f]}", "a", 1.0, 2.0));
    epoch(&w, 1, 1, false, false, 1);
    branch(&w, 3, 1, BRANCH_TESTING);
    progress_with(&w, 3, 2, 1, json_pack("{s:[f]}", "b", 5.0));
    epoch(&w, 1, 1, true, true, 1);
    epoch(&w, 2, 1, true, true, 1);
    assert_int_equal(w.h.epochs, 2);
    assert_true(w.h.epoch[0].extra[0] == 1.5);
    assert_true(isnan(w.h.epoch[0].extra[1]));
    assert_true(isnan(w.h.epoch[1].extra[0]));
    assert_true(w.h.epoch[1].extra[1] == 5);
    history_deinit(&w.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_progress_is_bounded_and_complete),
        cmocka_unit_test(history_values_stand_at_their_points),
        cmocka_unit_test(history_epoch_has_values_of_its_test),
        cmocka_unit_test(history_that_rests_has_the_setting_of_its_tip),
        cmocka_unit_test(history_epochs_have_their_settings),
        cmocka_unit_test(history_freed_points_are_bounded),
        cmocka_unit_test(history_trial_keeps_its_branch),
        cmocka_unit_test(history_marks_what_is_not_finite),
        cmocka_unit_test(history_refuses_what_does_not_fit),
        cmocka_unit_test(history_keeps_the_latest_decisions_and_slices),
        cmocka_unit_test(history_follows_the_surviving_lineage),
        cmocka_unit_test(history_follows_a_change_of_lead),
        cmocka_unit_test(history_goes_back_to_a_finalist_that_lost),
        cmocka_unit_test(history_result_has_the_contract_members),
        cmocka_unit_test(history_out_of_memory_changes_nothing),
        cmocka_unit_test(history_resumed_goes_back_to_the_snapshot),
        cmocka_unit_test(history_resumed_contest_keeps_its_best),
        cmocka_unit_test(history_resumed_contest_goes_back_to_its_best),
        cmocka_unit_test(history_promotion_is_kept_by_later_snapshots),
        cmocka_unit_test(history_suggestions_follow_their_trials),
        cmocka_unit_test(history_suggestions_of_forgotten_trials_wait),
        cmocka_unit_test(history_suggestions_keep_their_key),
        cmocka_unit_test(history_suggestions_end_with_the_run),
        cmocka_unit_test(history_resumed_reopens_search_and_run),
        cmocka_unit_test(history_resumed_from_nowhere_is_refused),
        cmocka_unit_test(history_snapshots_move_with_their_folder),
        cmocka_unit_test(history_keeps_the_latest_snapshots),
        cmocka_unit_test(history_wall_knows_when_it_was_resumed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
