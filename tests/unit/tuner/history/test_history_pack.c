#include "base/json/fields_pack.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/history_pack.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

/* Two histories that are fed the same; the second was read back now and then.
 */
struct world {
    struct history h, twin;
    double at_s;
    clock_no clock;
    branch_id next, tip;
    uint32_t epoch, search, trial;
};

static void feed(struct world *w, struct record *r)
{
    r->at_s = w->at_s += 0.01;
    r->clock = w->clock;
    assert_int_equal(history_apply(&w->h, r), ERR_OK);
    assert_int_equal(history_apply(&w->twin, r), ERR_OK);
    record_deinit(r);
}

static void begin(struct world *w)
{
    struct record r;

    memset(w, 0, sizeof(*w));
    history_init(&w->h);
    history_init(&w->twin);
    record_init(&r, RECORD_RUN_STARTED);
    snprintf(r.run_started.run, sizeof(r.run_started.run), "soak-1");
    r.run_started.started_unix_s = 1.75e9;
    r.run_started.limits = (struct record_limits){NAN, 0.98, INFINITY, 5, 9};
    feed(w, &r);
    record_init(&r, RECORD_TABLES);
    r.tables.tables = json_array();
    feed(w, &r);
}

static void end(struct world *w)
{
    history_deinit(&w->h);
    history_deinit(&w->twin);
}

static branch_id fork_of(struct world *w, branch_id parent,
                         enum branch_type type, const char *role)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = w->next;
    r.branch_created.parent = w->next ? parent : BRANCH_NONE;
    r.branch_created.type = type;
    snprintf(r.branch_created.role, sizeof(r.branch_created.role), "%s", role);
    r.branch_created.setting =
        json_pack("{s:f}", "learning_rate", 0.1 * (double)w->search);
    feed(w, &r);
    return w->next++;
}

static void free_branch(struct world *w, branch_id id)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_FREED);
    r.branch_freed.branch = id;
    snprintf(r.branch_freed.reason, sizeof(r.branch_freed.reason), "lost");
    feed(w, &r);
}

static void slice(struct world *w, branch_id id, uint32_t windows)
{
    struct record r;

    record_init(&r, RECORD_SLICE_SCHEDULED);
    r.slice_scheduled.branch = id;
    r.slice_scheduled.first = w->clock;
    r.slice_scheduled.count = windows;
    w->clock += windows;
    feed(w, &r);
    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = id;
    r.progress.first = w->clock - windows;
    r.progress.windows = windows;
    for (uint32_t i = 0; i < windows; i++)
        r.progress.window[i] =
            (struct progress_window){1.0 / (w->at_s + i), 10, 1, .5, 0, .1, .2};
    if (w->search % 2)
        r.progress.values = json_pack("{s:[f]}", "accuracy", w->at_s);
    feed(w, &r);
    record_init(&r, RECORD_SLICE_ENDED);
    r.slice_ended.branch = id;
    r.slice_ended.first = w->clock - windows;
    r.slice_ended.clocks = windows;
    r.slice_ended.reads = 3;
    r.slice_ended.staleness = 1 / 3.0;
    feed(w, &r);
}

static void one_epoch(struct world *w)
{
    branch_id test, kept;
    struct record r;

    slice(w, w->tip, 3);
    test = fork_of(w, w->tip, BRANCH_TESTING, "test");
    slice(w, test, 1);
    record_init(&r, RECORD_EPOCH_ENDED);
    r.epoch_ended.epoch = ++w->epoch;
    r.epoch_ended.branch = w->tip;
    r.epoch_ended.surviving = true;
    r.epoch_ended.best = w->epoch % 7 == 0;
    r.epoch_ended.loss = 1.0 / w->epoch;
    r.epoch_ended.metric = NAN;
    r.epoch_ended.clock = w->clock;
    r.epoch_ended.setting = json_pack("{s:i}", "learning_rate", w->search);
    feed(w, &r);
    free_branch(w, test);
    kept = fork_of(w, w->tip, BRANCH_KEPT, "epoch");
    free_branch(w, kept);
}

static branch_id one_trial(struct world *w, bool wins)
{
    branch_id id = fork_of(w, w->tip, BRANCH_TRAINING, "trial");
    struct record r;

    for (int ended = 0; ended < 2; ended++) {
        record_init(&r, ended ? RECORD_TRIAL_ENDED : RECORD_TRIAL_STARTED);
        r.trial.trial = w->trial += !ended;
        r.trial.search = w->search;
        r.trial.branch = id;
        r.trial.setting = json_pack("{s:f}", "learning_rate", 1.0 / w->trial);
        r.trial.label = !ended ? TRIAL_RUNNING
                        : wins ? TRIAL_CONVERGING
                               : TRIAL_STOPPED;
        r.trial.figures.points = ended ? 2 : 0;
        r.trial.figures.time_s[1] = 0.1;
        r.trial.figures.loss[1] = INFINITY;
        feed(w, &r);
        if (!ended)
            slice(w, id, 5);
    }
    if (!wins)
        free_branch(w, id);
    return id;
}

static void one_search(struct world *w, unsigned trials)
{
    branch_id winner = 0, before = w->tip;
    struct record r;

    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = ++w->search;
    r.search_started.retune = w->search > 1;
    r.search_started.tunables = json_pack("{s:{s:i}}", "rate", "min", 1);
    feed(w, &r);
    for (unsigned i = 0; i < trials; i++)
        winner = one_trial(w, i + 1 == trials);
    record_init(&r, RECORD_ASKING);
    r.asking.search = w->search;
    r.asking.asking = ASKING_CLOSED;
    feed(w, &r);
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = w->search;
    r.search_ended.trials = trials;
    r.search_ended.seconds = 2;
    r.search_ended.clocks = 5;
    feed(w, &r);
    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.branch = winner;
    r.setting_chosen.clock = w->clock;
    r.setting_chosen.setting = json_pack("{s:i}", "learning_rate", w->search);
    feed(w, &r);
    free_branch(w, before);
    w->tip = winner;
    record_init(&r, RECORD_SNAPSHOT_WRITTEN);
    r.snapshot_written.branch = winner;
    snprintf(r.snapshot_written.path, sizeof(r.snapshot_written.path),
             "/s/%06u", w->search);
    r.snapshot_written.state = json_pack("{s:i}", "search", w->search);
    feed(w, &r);
    record_init(&r, RECORD_DECISION);
    snprintf(r.decision.decision, sizeof(r.decision.decision), "retune");
    r.decision.numbers = 1;
    snprintf(r.decision.number[0].name, sizeof(r.decision.number[0].name),
             "trials");
    r.decision.number[0].value = trials;
    feed(w, &r);
}

static void write_down(const struct history *h, enum history_pack_how how,
                       struct text *out)
{
    *out = (struct text){0};
    assert_int_equal(history_pack(h, how, out), ERR_OK);
}

/* The twin is written, and read back in its place. */
static void read_back(struct world *w)
{
    struct history again;
    struct fault f = {0};
    struct text t;

    write_down(&w->twin, HISTORY_PACK_ALL, &t);
    if (history_unpack(t.s, t.len, &again, &f))
        fail_msg("%s", f.text);
    history_deinit(&w->twin);
    w->twin = again;
    text_deinit(&t);
}

static void assert_twins(const struct world *w)
{
    struct text a, b;

    write_down(&w->h, HISTORY_PACK_ALL, &a);
    write_down(&w->twin, HISTORY_PACK_ALL, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.s, b.s, a.len);
    assert_int_equal(w->h.freed_points, w->twin.freed_points);
    text_deinit(&a);
    text_deinit(&b);
}

static void begin_training(struct world *w)
{
    begin(w);
    fork_of(w, 0, BRANCH_INIT, "init");
}

/* What was read back folds on to the same, to the bit. */
static void history_read_back_folds_on_alike(void **state)
{
    struct world w;

    (void)state;
    begin_training(&w);
    for (unsigned i = 0; i < 40; i++) {
        one_search(&w, 3);
        if (i % 3 == 0)
            read_back(&w);
        for (unsigned k = 0; k < 8; k++)
            one_epoch(&w);
        if (i % 5 == 0)
            read_back(&w);
    }
    assert_twins(&w);
    end(&w);
}

static void assert_bounded(const struct world *w)
{
    const struct history *h = &w->h;

    assert_true(h->epochs <= HISTORY_EPOCHS_MAX);
    assert_true(h->branches <= HISTORY_BRANCHES_MAX);
    assert_true(h->trials <= HISTORY_TRIALS_MAX);
    assert_true(h->searches <= HISTORY_SEARCHES_MAX);
    assert_true(h->choices <= HISTORY_CHOICES_MAX);
    assert_true(h->freed_points <= HISTORY_FREED_POINTS_MAX);
}

/* However long a run lasts, its history is bounded and knows what matters: the
 * epochs' number, the best and the last, the trials' and searches' number and
 * cost, the lineage from its beginning; read back meanwhile or not. */
static void history_of_a_long_run_is_bounded(void **state)
{
    struct history_tuning cost;
    unsigned searches = HISTORY_SEARCHES_MAX + 400, ancestors = 0;
    const struct history_branch *b;
    struct world w;
    struct text t;

    (void)state;
    begin_training(&w);
    for (unsigned i = 0; i < searches; i++) {
        one_search(&w, 4);
        for (unsigned k = 0; k < 8; k++)
            one_epoch(&w);
        if (i % 400 == 399)
            read_back(&w);
        assert_bounded(&w);
    }
    assert_true(w.h.epochs_dropped && w.h.branches_dropped &&
                w.h.trials_dropped && w.h.searches_dropped);
    assert_int_equal(history_epochs(&w.h), 8 * searches);
    assert_int_equal(history_best_epoch(&w.h)->e.epoch, 8 * searches / 7 * 7);
    assert_int_equal(history_searches_made(&w.h), searches);
    assert_int_equal(history_trials_made(&w.h), 4 * searches);
    assert_int_equal(history_trial(&w.h, 4 * searches)->t.trial, 4 * searches);
    assert_null(history_trial(&w.h, 1));
    assert_null(history_trial(&w.h, 4 * searches + 1));
    assert_int_equal(history_search(&w.h, searches)->started.search, searches);
    assert_true(history_search(&w.h, searches)->closed);
    cost = history_tuning(&w.h);
    assert_true(cost.seconds == 2.0 * searches);
    assert_int_equal(cost.clocks, 5 * searches);
    for (b = history_branch(&w.h, w.tip); b && b->branch;
         b = history_branch(&w.h, b->parent))
        ancestors++;
    assert_non_null(b); /* the walk ends at the first branch */
    assert_true(ancestors > 100);
    for (size_t i = 0; i < w.h.epochs; i++) {
        const struct history_epoch *e = history_epoch_at(&w.h, i);
        json_t *setting = history_epoch_setting(&w.h, e);

        assert_true(e->e.surviving);
        assert_int_equal(
            json_integer_value(json_object_get(setting, "learning_rate")),
            (e->e.epoch + 7) / 8);
        json_decref(setting);
    }
    /* Thousands of epochs with hundreds of settings. */
    assert_true(w.h.epoch_setting.len < 8 * HISTORY_EPOCHS_MAX);
    assert_twins(&w);
    write_down(&w.h, HISTORY_PACK_ALL, &t);
    assert_true(t.len < 10 << 20);
    text_deinit(&t);
    end(&w);
}

/* ---- what is long over --------------------------------------------------- */

/* An odd setting: names that no other has, values that are no numbers. */
static json_t *setting_of(unsigned i)
{
    if (i % 40 == 7)
        return json_pack("{s:s, s:b}", "rule", "adam", "nesterov", 1);
    if (i % 40 == 9)
        return json_object();
    return json_pack("{s:f, s:i, s:I}", "learning_rate", 0.1 / (1 + i), "slack",
                     -(int)i, "batch", i % 2 ? INT64_MIN : (json_int_t)1 << 40);
}

static struct record_trial trial_of(unsigned number, uint32_t search,
                                    branch_id branch)
{
    struct record_trial t = {.trial = number,
                             .search = search,
                             .branch = branch,
                             .incumbent = number % 6 == 1,
                             .label =
                                 number % 5 ? TRIAL_STOPPED : TRIAL_DIVERGED};

    t.figures = (struct trial_figures){
        .speed = 1.0 / number,
        .speed_unit = SPEED_E_FOLDS_PER_SECOND,
        .noise = 0.1 / number,
        .range = -3.0 / number,
        .window_noise = number % 7 ? 1e300 / number : NAN,
        .seconds = number / 3.0,
        .samples = 1000 * number,
        .clocks = number,
        .tested = number % 4 > 0,
        .result = number % 4 > 0 ? 0.7 / number : 0,
        .points = number % (RECORD_POINTS_MAX + 1),
        .lead = -1.0 / number,
        .pairs = number};
    for (uint32_t k = 0; k < t.figures.points; k++) {
        t.figures.time_s[k] = k / 3.0;
        t.figures.loss[k] = number % 11 ? 1e-200 / (k + 1) : INFINITY;
    }
    snprintf(t.reason, sizeof(t.reason), number % 3 ? "" : "of trial %u",
             number);
    return t;
}

static void assert_nearly(double is, double was, bool exactly)
{
    assert_true(is == was || (isnan(is) && isnan(was)) ||
                (!exactly && fabs(is - was) <= 1e-6 * fabs(was)));
}

static void assert_trial(const struct history *h, unsigned number)
{
    struct history_trial is =
        history_trial_at(h, history_trial_index(h, number));
    struct record_trial was = trial_of(number, is.t.search, is.t.branch);
    const struct trial_figures *a = &is.t.figures, *b = &was.figures;
    json_t *setting = history_trial_setting(h, history_trial_index(h, number));
    json_t *expected = setting_of(number);

    assert_true(is.ended && is.started_at_s < is.ended_at_s);
    assert_int_equal(is.t.trial, number);
    assert_int_equal(is.t.search, 1 + (number - 1) / 6);
    assert_int_equal(is.t.label, was.label);
    assert_int_equal(is.t.incumbent, was.incumbent);
    assert_string_equal(is.t.reason, was.reason);
    assert_true(a->speed == b->speed && a->noise == b->noise &&
                a->range == b->range && a->seconds == b->seconds &&
                a->samples == b->samples && a->clocks == b->clocks &&
                a->tested == b->tested && a->result == b->result &&
                a->speed_unit == b->speed_unit && a->pairs == b->pairs);
    assert_nearly(a->window_noise, b->window_noise, false);
    assert_nearly(a->lead, b->lead, false);
    assert_int_equal(a->points, b->points);
    for (uint32_t k = 0; k < b->points; k++) {
        assert_nearly(a->time_s[k], b->time_s[k], false);
        assert_nearly(a->loss[k], b->loss[k], k + 1 == b->points);
    }
    assert_true(json_equal(setting, expected));
    json_decref(setting);
    json_decref(expected);
}

static void odd_trial(struct world *w, unsigned number)
{
    branch_id id = fork_of(w, w->tip, BRANCH_TRAINING, "trial");
    struct record r;

    for (int ended = 0; ended < 2; ended++) {
        record_init(&r, ended ? RECORD_TRIAL_ENDED : RECORD_TRIAL_STARTED);
        r.trial = trial_of(number, w->search, id);
        r.trial.setting = setting_of(number);
        feed(w, &r);
    }
    free_branch(w, id);
}

static void odd_search(struct world *w)
{
    struct record r;

    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = ++w->search;
    r.search_started.retune = w->search > 1;
    r.search_started.parent = w->tip;
    r.search_started.trials_max = 6;
    snprintf(r.search_started.reason, sizeof(r.search_started.reason),
             "for the %uth time", w->search);
    r.search_started.tunables =
        json_pack("{s:{s:i}}", "rate", "min", w->search / 30);
    feed(w, &r);
    for (unsigned i = 0; i < 6; i++)
        odd_trial(w, 6 * (w->search - 1) + i + 1);
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = w->search;
    r.search_ended.winner = 6 * w->search;
    r.search_ended.trial_s = 1.0 / w->search;
    snprintf(r.search_ended.reason, sizeof(r.search_ended.reason), "done");
    feed(w, &r);
    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.branch = w->tip;
    r.setting_chosen.clock = w->search;
    r.setting_chosen.setting = setting_of(w->search);
    snprintf(r.setting_chosen.reason, sizeof(r.setting_chosen.reason),
             "search %u", w->search);
    feed(w, &r);
}

/* Of a search that a run may go back to no trial loses a bit, however many
 * there are, read back or not. */
static void history_of_a_large_search_is_exact(void **state)
{
    enum { MANY = HISTORY_TRIALS_WHOLE + 500 };
    struct record r;
    struct world w;

    (void)state;
    begin_training(&w);
    for (uint32_t search = 1; search <= 2; search++) {
        record_init(&r, RECORD_SEARCH_STARTED);
        r.search_started.search = w.search = search;
        r.search_started.trials_max = MANY;
        r.search_started.tunables = json_object();
        feed(&w, &r);
        for (unsigned i = 1; i <= MANY && search == 1; i++)
            odd_trial(&w, i);
        if (search == 1) {
            record_init(&r, RECORD_SEARCH_ENDED);
            r.search_ended.search = 1;
            feed(&w, &r);
        }
    }
    for (unsigned i = 1; i <= 100; i++)
        odd_trial(&w, MANY + i);
    assert_true(w.h.cold_trial.rows >= MANY);
    read_back(&w);
    odd_trial(&w, MANY + 101);
    for (unsigned i = 1; i <= MANY + 100; i++) {
        const struct history *h[] = {&w.h, &w.twin};

        for (int k = 0; k < 2; k++) {
            struct history_trial is =
                history_trial_at(h[k], history_trial_index(h[k], i));
            struct record_trial was = trial_of(i, is.t.search, is.t.branch);

            assert_memory_equal(&is.t.figures, &was.figures,
                                sizeof(was.figures));
        }
    }
    assert_twins(&w);
    end(&w);
}

static void assert_search(const struct history *h, size_t i)
{
    struct history_search s = history_search_at(h, i);
    struct history_choice c = history_choice_at(h, i);
    json_t *tunables = history_search_tunables(h, i);
    json_t *setting = history_choice_setting(h, i);
    json_t *expected = setting_of((unsigned)i + 1);
    char reason[64];

    assert_int_equal(s.started.search, i + 1);
    assert_int_equal(s.started.retune, i > 0);
    assert_int_equal(s.started.trials_max, 6);
    snprintf(reason, sizeof(reason), "for the %zuth time", i + 1);
    assert_string_equal(s.started.reason, reason);
    assert_true(s.ended && s.end.trial_s == 1.0 / (double)(i + 1));
    assert_string_equal(s.end.reason, "done");
    assert_int_equal(s.end.winner, 6 * (i + 1));
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(tunables, "rate"), "min")),
                     (i + 1) / 30);
    assert_int_equal(c.c.clock, i + 1);
    snprintf(reason, sizeof(reason), "search %zu", i + 1);
    assert_string_equal(c.c.reason, reason);
    assert_true(json_equal(setting, expected));
    json_decref(tunables);
    json_decref(setting);
    json_decref(expected);
}

/* What is long over reads as it was, in a tenth of the bytes, whether the
 * history was read back meanwhile or not: but for six digits of a trial's
 * course. */
static void history_of_what_is_over_takes_few_bytes(void **state)
{
    struct world w;

    (void)state;
    begin_training(&w);
    for (unsigned i = 0; i < 600; i++) {
        odd_search(&w);
        if (i % 50 == 3)
            read_back(&w);
    }
    assert_twins(&w);
    assert_true(w.h.searches <= HISTORY_SEARCHES_WHOLE);
    assert_true(w.h.choices <= HISTORY_CHOICES_WHOLE);
    assert_true(w.h.trials <= 6 * HISTORY_SEARCHES_WHOLE + 64);
    assert_int_equal(history_trials_len(&w.h), 3600);
    assert_true(w.h.cold_trial.len < 240 * w.h.cold_trial.rows);
    assert_true(w.h.cold_search.len < 160 * w.h.cold_search.rows);
    for (unsigned n = 1; n <= 3600; n++) {
        assert_trial(&w.h, n);
        assert_trial(&w.twin, n);
    }
    for (size_t i = 0; i < 600; i++)
        assert_search(&w.twin, i);
    assert_null(history_trial(&w.h, 1));
    assert_null(history_search(&w.h, 1));
    assert_int_equal(history_trial_index(&w.h, 3601), SIZE_MAX);
    end(&w);
}

/* Whichever allocation fails while much becomes cold: it is refused or taken,
 * and nothing is lost. */
static void history_without_memory_for_the_cold_keeps_them_whole(void **state)
{
    bool passed = false;
    struct record r;
    struct world w;
    struct text t;

    (void)state;
    begin_training(&w);
    while (w.h.searches < HISTORY_SEARCHES_WHOLE)
        odd_search(&w);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = w.search + 1;
    r.at_s = w.at_s + 1;
    write_down(&w.h, HISTORY_PACK_ALL, &t);
    for (int64_t n = 1; !passed; n++) {
        struct history h;
        enum err err;

        assert_int_equal(history_unpack(t.s, t.len, &h, NULL), ERR_OK);
        mem_fail_at(n, 0);
        err = history_apply(&h, &r);
        passed = !mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || (!passed && err == ERR_NOMEM));
        assert_int_equal(history_searches_made(&h), w.search + !err);
        for (size_t i = 0; i < HISTORY_SEARCHES_WHOLE; i++)
            assert_search(&h, i);
        history_deinit(&h);
    }
    text_deinit(&t);
    end(&w);
}

/* With few points nothing but the points of freed branches is missing. */
static void history_packed_with_few_points_keeps_the_rest(void **state)
{
    struct history few;
    struct world w;
    struct text t;

    (void)state;
    begin_training(&w);
    one_search(&w, 3);
    one_epoch(&w);
    write_down(&w.h, HISTORY_PACK_FEW, &t);
    assert_int_equal(history_unpack(t.s, t.len, &few, NULL), ERR_OK);
    assert_int_equal(few.branches, w.h.branches);
    assert_int_equal(few.freed_points, 0);
    assert_int_equal(history_branch(&few, w.tip)->points,
                     history_branch(&w.h, w.tip)->points);
    assert_int_equal(few.trials, w.h.trials);
    assert_int_equal(history_last_snapshot(&few)->s.branch, w.tip);
    text_deinit(&t);
    history_deinit(&few);
    end(&w);
}

/* Whatever byte is wrong, and wherever it is cut off: refused by place, or a
 * history that can be written again. */
static void history_packed_and_damaged_is_refused_or_sound(void **state)
{
    struct world w;
    unsigned refused = 0;
    struct text t, again;

    (void)state;
    begin_training(&w);
    one_search(&w, 1);
    write_down(&w.h, HISTORY_PACK_ALL, &t);
    for (size_t i = 0; i < t.len; i++) {
        struct history h;
        struct fault f = {0};
        enum err err;

        t.s[i] = (char)(t.s[i] ^ (1 << i % 8));
        err = history_unpack(t.s, t.len, &h, &f);
        t.s[i] = (char)(t.s[i] ^ (1 << i % 8));
        if (!err) {
            write_down(&h, HISTORY_PACK_ALL, &again);
            text_deinit(&again);
            history_deinit(&h);
            continue;
        }
        assert_true(f.text[0]);
        refused++;
        if (i % 4 == 0)
            assert_true(history_unpack(t.s, i, &h, &f) == ERR_FORMAT);
    }
    assert_true(refused > t.len / 20);
    text_deinit(&t);
    end(&w);
}

/* Whichever allocation fails: an error, and nothing is left. */
static void history_pack_without_memory_leaves_nothing(void **state)
{
    struct world w;
    struct text t;
    bool passed = false;

    (void)state;
    begin_training(&w);
    while (w.h.cold_trial.rows == 0) /* some are cold */
        odd_search(&w);
    w.trial = 6 * w.search;
    one_search(&w, 1);
    for (int64_t n = 1; !passed; n += 1 + n / 16) {
        int64_t before = mem_outstanding();
        struct history h;
        enum err err;

        t = (struct text){0};
        mem_fail_at(n, 0);
        err = history_pack(&w.h, HISTORY_PACK_ALL, &t);
        if (!err)
            err = history_unpack(t.s, t.len, &h, NULL);
        passed = !mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, passed ? ERR_OK : ERR_NOMEM);
        if (!err)
            history_deinit(&h);
        text_deinit(&t);
        assert_int_equal(mem_outstanding(), before);
    }
    end(&w);
}

struct was {
    uint32_t a;
    double gone;
    char name[8];
    json_t *tree;
};

struct is {
    char name[8];
    uint32_t a, more;
    json_t *tree;
};

/* What another version has written is read by name: members that are gone are
 * passed over, new ones are zero, JSON that is the same is shared. */
static void fields_packed_are_read_by_name(void **state)
{
    static const struct json_field before[] = {{FIELD_OF(was, U32, a)},
                                               {FIELD_OF(was, REAL, gone)},
                                               {FIELD_OF(was, TEXT, name)},
                                               {FIELD_OF(was, OBJECT, tree)},
                                               {.name = NULL}};
    static const struct json_field after[] = {{FIELD_OF(is, TEXT, name)},
                                              {FIELD_OF(is, U32, more)},
                                              {FIELD_OF(is, OBJECT, tree)},
                                              {FIELD_OF(is, U32, a)},
                                              {.name = NULL}};
    struct was x = {300, NAN, "name", json_pack("{s:f}", "rate", 0.1)};
    struct was y = {0xffffffff, 1, "", json_pack("{s:f}", "rate", 0.1)};
    struct is x2 = {.more = 0}, y2 = {.more = 0};
    struct packed_plan *plan;
    struct packed_bytes in;
    struct text t = {0};

    (void)state;
    pack_plan(&t, before);
    assert_int_equal(pack_fields(&t, before, &x, NULL), ERR_OK);
    assert_int_equal(pack_fields(&t, before, &y, &x), ERR_OK);
    in = (struct packed_bytes){(const unsigned char *)t.s, t.len};
    assert_int_equal(unpack_plan(&in, after, &plan), ERR_OK);
    assert_int_equal(unpack_fields(&in, plan, &x2, NULL), ERR_OK);
    assert_int_equal(unpack_fields(&in, plan, &y2, &x2), ERR_OK);
    assert_int_equal(in.left, 0);
    assert_int_equal(x2.a, 300);
    assert_int_equal(y2.a, 0xffffffff);
    assert_string_equal(x2.name, "name");
    assert_string_equal(y2.name, "");
    assert_true(json_equal(x2.tree, x.tree));
    assert_ptr_equal(y2.tree, x2.tree);
    packed_plan_free(plan);
    json_decref(x.tree);
    json_decref(y.tree);
    json_decref(x2.tree);
    json_decref(y2.tree);
    text_deinit(&t);
}

/* A plan that names a member twice is damaged: its second value would lose what
 * the first owns. */
static void fields_packed_twice_are_refused(void **state)
{
    static const struct json_field twice[] = {{FIELD_OF(was, OBJECT, tree)},
                                              {FIELD_OF(was, OBJECT, tree)},
                                              {.name = NULL}};
    static const struct json_field once[] = {{FIELD_OF(is, OBJECT, tree)},
                                             {.name = NULL}};
    int64_t before = mem_outstanding();
    struct packed_plan *plan;
    struct packed_bytes in;
    struct text t = {0};

    (void)state;
    pack_plan(&t, twice);
    in = (struct packed_bytes){(const unsigned char *)t.s, t.len};
    assert_int_equal(unpack_plan(&in, once, &plan), ERR_FORMAT);
    text_deinit(&t);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_packed_are_read_by_name),
        cmocka_unit_test(fields_packed_twice_are_refused),
        cmocka_unit_test(history_read_back_folds_on_alike),
        cmocka_unit_test(history_of_a_long_run_is_bounded),
        cmocka_unit_test(history_of_what_is_over_takes_few_bytes),
        cmocka_unit_test(history_of_a_large_search_is_exact),
        cmocka_unit_test(history_without_memory_for_the_cold_keeps_them_whole),
        cmocka_unit_test(history_packed_with_few_points_keeps_the_rest),
        cmocka_unit_test(history_packed_and_damaged_is_refused_or_sound),
        cmocka_unit_test(history_pack_without_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
