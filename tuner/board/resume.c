#include "tuner/board/resume.h"

#include "base/json/json.h"
#include "searchers/searcher.h"
#include "tuner/board/board_state.h"
#include "tuner/board/steering.h"
#include "tuner/board/strategy.h"
#include "tuner/board/suggest.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lineages ------------------------------------------------------------ */

static int put(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new(o, name, value);
}

static int put_count(json_t *o, const char *name, uint64_t n)
{
    return put(o, name, json_integer((json_int_t)n));
}

static json_t *complete(json_t *o, int failed)
{
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *result_to_json(const struct epoch_result *r)
{
    json_t *o = json_object();

    return complete(o, put_count(o, "epoch", r->epoch) |
                           put(o, "loss", json_of_number(r->loss)) |
                           put(o, "seconds", json_of_number(r->seconds)) |
                           put_count(o, "clock", r->clock));
}

static json_t *results_to_json(const struct branch *b)
{
    json_t *a = json_array();
    int failed = 0;

    for (size_t i = 0; i < BOARD_EPOCHS_KEPT; i++)
        if (b->result[i].epoch > 0)
            failed |= json_array_append_new(a, result_to_json(&b->result[i]));
    return complete(a, failed);
}

static json_t *lineage_to_json(const struct branch *b)
{
    json_t *o = json_object();

    return complete(o, put_count(o, "clocks", b->clocks) |
                           put_count(o, "epochs", b->epochs) |
                           put(o, "sum", json_of_number(b->now.sum)) |
                           put(o, "seconds", json_of_number(b->now.seconds)) |
                           put_count(o, "samples", b->now.samples) |
                           put_count(o, "epoch_clocks", b->now.clocks) |
                           put_count(o, "increments", b->increments) |
                           put(o, "results", results_to_json(b)));
}

json_t *resume_state(const struct board *c, json_t *saved,
                     const struct branch *main, const struct branch *best,
                     const struct best *outcome)
{
    json_t *o = json_object();
    int failed = put(o, "strategy", json_incref(saved)) |
                 put(o, "main", lineage_to_json(main)) |
                 put(o, "beginning", json_boolean(main->id == 0)) |
                 put_count(o, "workers", c->system.workers) |
                 put_count(o, "samples_per_clock", c->samples_per_clock_seen);

    if (best)
        failed |= put(o, "best", lineage_to_json(best)) |
                  put(o, "best_loss", json_of_number(outcome->loss)) |
                  put(o, "best_metric", json_of_number(outcome->metric));
    return complete(o, failed);
}

static bool count_of(const json_t *o, const char *name, uint64_t *out)
{
    const json_t *v = json_object_get(o, name);

    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool number_of(const json_t *o, const char *name, double *out)
{
    return json_to_number(json_object_get(o, name), out);
}

static bool result_from_json(const json_t *o, struct branch *b)
{
    struct epoch_result r = {0};
    uint64_t epoch = 0;

    if (!count_of(o, "epoch", &epoch) || !number_of(o, "loss", &r.loss) ||
        !number_of(o, "seconds", &r.seconds) ||
        !count_of(o, "clock", &r.clock) || epoch < 1 || epoch > b->epochs)
        return false;
    r.epoch = (uint32_t)epoch;
    b->result[epoch % BOARD_EPOCHS_KEPT] = r;
    return true;
}

/* The position within an epoch must be one that a clock can be run from. */
static bool plausible(const struct board *c, const struct branch *b)
{
    uint64_t at = c->system.parts ? b->now.clocks : b->now.samples;

    return at < board_units(c) && b->clocks >= b->now.clocks &&
           b->epochs <= b->clocks;
}

static bool lineage_from_json(const struct board *c, const json_t *o,
                              struct branch *b)
{
    const json_t *results = json_object_get(o, "results");
    uint64_t epochs = 0;

    if (!count_of(o, "clocks", &b->clocks) || !count_of(o, "epochs", &epochs) ||
        epochs > UINT32_MAX || !number_of(o, "sum", &b->now.sum) ||
        !number_of(o, "seconds", &b->now.seconds) ||
        !count_of(o, "samples", &b->now.samples) ||
        !count_of(o, "epoch_clocks", &b->now.clocks) ||
        !json_is_array(results) || !isfinite(b->now.sum))
        return false;
    b->epochs = (uint32_t)epochs;
    if (!count_of(o, "increments", &b->increments))
        b->increments = 0; /* a snapshot that is older than they */
    for (size_t i = 0; i < json_array_size(results); i++)
        if (!result_from_json(json_array_get(results, i), b))
            return false;
    return plausible(c, b) &&
           (b->epochs == 0 ||
            b->result[b->epochs % BOARD_EPOCHS_KEPT].epoch == b->epochs);
}

/* ---- numbers ------------------------------------------------------------- */

static void resume_folders(struct board *c, const struct history *h)
{
    struct snapshotting *s = &c->snapshot;
    size_t keep = c->options.snapshot_keep;
    size_t from = h->snapshots > keep ? h->snapshots - keep : 0;

    for (size_t i = from; i < h->snapshots; i++) {
        const struct record_snapshot_written *w = &h->snapshot[i].s;

        if (s->written_len + 1 == BOARD_SNAPSHOTS_MAX)
            break;
        s->written[s->written_len].number = history_snapshot_number(w->path);
        s->written[s->written_len++].best =
            history_snapshot_number(w->best_path);
    }
    /* What died may have written one that was not journaled, and may still be
     * writing: each time it goes on begins further up. */
    s->number = h->snapshot_number + 1 + h->resumes;
}

/* A searcher that has failed is not started again. */
static void resume_fallback(struct board *c, const struct history *h)
{
    const struct searcher_ops *ops = searcher_built_in(h->fallback);

    if (!ops || !c->options.searcher || !c->options.searcher->fallback)
        return;
    c->options.searcher = ops;
    c->options.searcher_settings = NULL;
}

void resume_init(struct board *c)
{
    const struct history *h = c->options.resume;

    c->resume.main = 0;
    c->resume.best = BRANCH_NONE;
    if (!h)
        return;
    c->resume.at_s = h->at_s; /* commands may stand before its beginning */
    if (!h->started)
        return;
    c->resume.left = h->snapshots;
    c->resume.searches = (uint32_t)h->searches;
    c->resume.trials = (uint32_t)h->trials;
    c->next_clock = h->clock;
    if (h->slices) { /* scheduled, and perhaps begun, when all was lost */
        const struct record_slice_scheduled *s = &h->slice[h->slices - 1].s;

        if (s->first + s->count > c->next_clock)
            c->next_clock = s->first + s->count;
    }
    c->clocks_run = h->clocks;
    c->increments = h->increments;
    resume_fallback(c, h);
    if (h->branches)
        c->next_branch = h->branch[h->branches - 1].branch + 1;
    resume_folders(c, h);
}

/* ---- what cannot go on --------------------------------------------------- */

static void interrupt_trial(struct board *c, const struct history_trial *t)
{
    struct record *r = board_record(c, RECORD_TRIAL_ENDED);

    r->trial = t->t;
    json_incref(r->trial.setting);
    r->trial.label = TRIAL_INTERRUPTED;
}

static void interrupt_search(struct board *c, const struct history *h,
                             const struct history_search *s)
{
    struct record_search_ended *r;
    uint32_t trials = 0;
    uint64_t clocks = 0;

    for (size_t i = 0; i < h->trials; i++) {
        const struct history_trial *t = &h->trial[i];

        if (t->t.search != s->started.search)
            continue;
        trials += !t->t.incumbent;
        clocks += t->t.clocks;
        if (!t->ended)
            interrupt_trial(c, t);
    }
    r = &board_record(c, RECORD_SEARCH_ENDED)->search_ended;
    r->search = s->started.search;
    r->trials = trials;
    r->trial_s = s->trial_s;
    r->seconds = h->at_s - s->started_at_s;
    r->clocks = clocks;
    snprintf(r->reason, sizeof(r->reason),
             "interrupted: the run went back to before it");
    suggest_search_lost(c);
}

static void interrupt_searches(struct board *c)
{
    const struct history *h = c->options.resume;

    for (size_t i = 0; i < h->searches; i++)
        if (!h->search[i].ended &&
            h->search[i].started.search != c->resume.search)
            interrupt_search(c, h, &h->search[i]);
}

/* ---- attempts ------------------------------------------------------------ */

static void record_resumed(struct board *c,
                           const struct record_snapshot_written *s)
{
    struct record_run_resumed *r =
        &board_record(c, RECORD_RUN_RESUMED)->run_resumed;

    r->search = c->resume.search;
    r->restarts = c->options.restarts;
    r->unix_s = c->options.started_unix_s + c->now_s - c->born_s;
    snprintf(r->reason, sizeof(r->reason), "%s", c->options.resume_reason);
    if (!s)
        return;
    r->from = s->branch;
    r->epoch = s->epoch;
    r->best_epoch = s->best_epoch;
    memcpy(r->path, s->path, sizeof(r->path));
}

/* The search that a strategy saved as its own; 0 for one that never was. */
static uint32_t search_of(const struct history *h, const json_t *saved)
{
    json_int_t n = json_integer_value(json_object_get(saved, "search"));

    return n > 0 && (uint64_t)n <= h->searches ? (uint32_t)n : 0;
}

/* Asks for the folders of @s. There is room: nothing else lives yet. */
static void read_snapshot(struct board *c,
                          const struct record_snapshot_written *s)
{
    struct resuming *r = &c->resume;
    const json_t *saved = json_object_get(s->state, "strategy");

    r->state = s->state;
    r->number = history_snapshot_number(s->path);
    r->search = search_of(c->options.resume, saved);
    record_resumed(c, s);
    r->main = 0;
    if (!json_is_true(json_object_get(s->state, "beginning"))) {
        struct branch *b = board_restore(c, s->path, s->branch);

        assert(b);
        r->main = b->id;
    }
    if (s->best_path[0]) {
        struct branch *b = board_restore(c, s->best_path, s->branch);

        assert(b);
        r->best = b->id;
    }
    r->phase = RESUME_READING;
}

/* From the beginning: a first search there goes on, if it is the strategy's
 * way to know trials again. */
static void begin_anew(struct board *c)
{
    const struct history *h = c->options.resume;
    struct resuming *r = &c->resume;
    bool first = c->options.strategy->recalls && h->searches > 0 &&
                 h->search[0].started.parent == 0 &&
                 !h->search[0].started.retune;

    r->state = NULL;
    r->number = 0;
    r->main = 0;
    r->search = first ? 1 : 0;
    record_resumed(c, NULL);
    if (r->tried > 0)
        board_decision(c, "resume",
                       "no snapshot can be read: the run begins anew");
    else if (h->searches > 0 && !c->options.strategy->recalls)
        board_decision(c, "resume",
                       "strategy %s cannot go on within its search: the run "
                       "begins anew",
                       c->options.strategy->name);
    r->phase = RESUME_HANDING;
}

static void attempt(struct board *c)
{
    const struct history *h = c->options.resume;
    struct resuming *r = &c->resume;

    while (r->left > 0 && r->tried < c->options.snapshot_keep) {
        const struct record_snapshot_written *s = &h->snapshot[--r->left].s;

        if (!s->state)
            continue;
        r->tried++;
        read_snapshot(c, s);
        return;
    }
    begin_anew(c);
}

static void pass_over(struct board *c, const char *why)
{
    struct resuming *r = &c->resume;

    board_decision(c, "resume", "a snapshot cannot be used: %.400s", why);
    c->base = 0;
    c->best = (struct best){.branch = BRANCH_NONE};
    c->snapshot.best_written = BRANCH_NONE;
    if (r->main)
        board_free(c, r->main, "not usable");
    board_free(c, r->best, "not usable");
    r->best = BRANCH_NONE;
    attempt(c);
}

/* ---- the beginning ------------------------------------------------------- */

/* What was loaded now, if it is not what the run began with. */
static bool changed(struct board *c, char *what, size_t size)
{
    const struct record_run_started *was = &c->options.resume->run;
    const struct msg_ready *is = &c->system;

    if (is->samples == was->samples &&
        is->validation_samples == was->validation_samples &&
        is->parts == was->parts && strcmp(is->metric, was->metric) == 0)
        return false;
    snprintf(what, size,
             "the data have changed: the run began with %llu + %llu samples, "
             "now there are %llu + %llu",
             (unsigned long long)was->samples,
             (unsigned long long)was->validation_samples,
             (unsigned long long)is->samples,
             (unsigned long long)is->validation_samples);
    return true;
}

/* Loading is not the run's time; what was journaled meanwhile stays before. */
static void set_time(struct board *c, const struct history *h)
{
    c->resume.at_s = h->at_s;
    c->started_s = c->now_s - h->at_s;
    if (isfinite(h->first_clock_at_s))
        c->first_clock_s = c->started_s + h->first_clock_at_s;
    c->paused_s += history_paused(h);
    c->first_paused_s = h->first_paused_s;
}

bool resume_begin(struct board *c)
{
    const struct history *h = c->options.resume;
    char what[RECORD_TEXT_MAX];

    if (!h)
        return false;
    if (h->started)
        set_time(c, h);
    steering_go_on(c);
    if (!h->started)
        return false;
    if (changed(c, what, sizeof(what))) {
        c->resume.phase = RESUME_READING; /* nothing is to be written */
        board_interrupted(c, "changed", what);
        return true;
    }
    if (c->system.workers != h->run.workers)
        board_decision(c, "resume", "%u workers over all nodes, at first %u",
                       c->system.workers, h->run.workers);
    attempt(c);
    return true;
}

/* The restored branches get their numbers back. */
static bool install(struct board *c)
{
    struct resuming *r = &c->resume;
    struct branch *main = ledger_branch(c, r->main);
    struct branch *best = ledger_branch(c, r->best);
    const json_t *o = r->state;
    uint64_t samples = 0, workers;

    if (!count_of(o, "samples_per_clock", &samples) ||
        (r->main && !lineage_from_json(c, json_object_get(o, "main"), main)))
        return false;
    board_plan_reset(c, main);
    /* A clock of other workers has other samples. */
    if (!count_of(o, "workers", &workers))
        workers = c->options.resume->run.workers; /* of an older version */
    if (workers == c->system.workers && samples > c->samples_per_clock_seen)
        c->samples_per_clock_seen = samples;
    c->base = r->main;
    if (!best)
        return true;
    if (!lineage_from_json(c, json_object_get(o, "best"), best))
        return false;
    board_plan_reset(c, best);
    c->best.branch = best->id;
    if (!number_of(o, "best_loss", &c->best.loss) ||
        !number_of(o, "best_metric", &c->best.metric))
        return false;
    c->best.epoch = best->epochs;
    c->snapshot.best_written = best->id;
    c->snapshot.best_number = history_snapshot_number(
        c->options.resume->snapshot[r->left].s.best_path);
    return true;
}

/* Whether reading it again could not help. */
static bool is_damage(enum err err)
{
    return err == ERR_FORMAT || err == ERR_VERSION || err == ERR_NOENT;
}

/* It may be sound: nothing is given up for want of memory or of a disk, nor
 * where another number of nodes could read it. */
static void not_now(struct board *c)
{
    char what[RECORD_TEXT_MAX];

    snprintf(what, sizeof(what),
             "the snapshot cannot be read now, and is kept: %.240s; resume the "
             "run to try it again, or move its folder away to go on from the "
             "one before",
             c->failure);
    board_interrupted(c, "restore_failed", what);
}

static bool is_refused(const struct branch *b)
{
    return b && b->state == BRANCH_REFUSED;
}

/* READING, until both folders are read or one cannot be. */
static void reading(struct board *c)
{
    struct resuming *r = &c->resume;
    struct branch *main = ledger_branch(c, r->main);
    struct branch *best = ledger_branch(c, r->best);

    if (main->state == BRANCH_FORKING ||
        (best && best->state == BRANCH_FORKING))
        return;
    if ((is_refused(main) && is_damage(main->error)) ||
        (is_refused(best) && is_damage(best->error)))
        pass_over(c, c->failure);
    else if (is_refused(main) || is_refused(best))
        not_now(c);
    else if (!install(c))
        pass_over(c, "its record is damaged");
    else
        r->phase = RESUME_HANDING;
}

/* What was added to rows since is lost with what was trained. */
static void tell_lost_increments(struct board *c)
{
    const struct branch *main = ledger_branch(c, c->resume.main);
    uint64_t kept = main ? main->increments : 0;
    uint64_t all = c->options.resume->increments;
    struct record_decision *d;

    if (all <= kept)
        return;
    d = board_decision(c, "increments_lost",
                       "%llu increments of rows were made after that: they are "
                       "lost with what was trained since, and to be made again "
                       "where they are still right",
                       (unsigned long long)(all - kept));
    board_decision_number(d, "first", (double)(kept + 1));
    board_decision_number(d, "last", (double)all);
}

static void handing(struct board *c)
{
    struct resuming *r = &c->resume;
    const struct strategy_ops *ops = c->options.strategy;
    const json_t *saved = json_object_get(r->state, "strategy");
    enum err err = ops->restore(c->strategy, saved, r->main);

    if (err == ERR_NOMEM) {
        board_retry(c);
        return;
    }
    if (err) {
        pass_over(c, "its record does not fit the strategy");
        return;
    }
    interrupt_searches(c);
    tell_lost_increments(c);
    if (r->main)
        board_drop(c, r->main, "the run goes on from it");
    r->state = NULL;
    r->phase = RESUME_OVER;
    c->snapshot.due_s = c->now_s + c->options.snapshot_every_s;
}

bool resume_advance(struct board *c)
{
    enum { MORE = 2 }; /* a state and one that follows at once */

    for (int i = 0; i < MORE && c->resume.phase == RESUME_READING; i++)
        reading(c);
    if (c->resume.phase == RESUME_HANDING)
        handing(c);
    return c->resume.phase == RESUME_NOT || c->resume.phase == RESUME_OVER;
}
