#include "tuner/core/resume.h"

#include "base/mem.h"
#include "searchers/built_in.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/models.h"
#include "tuner/board/run.h"
#include "tuner/board/saved.h"
#include "tuner/board/slices.h"
#include "tuner/board/strategy.h"
#include "tuner/core/ending.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/snapshot_state.h"
#include "tuner/core/snapshots.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct resume {
    enum {
        RESUME_NOT,
        RESUME_READING,
        RESUME_CLEARING, /* what an attempt had restored is being freed */
        RESUME_HANDING,
        RESUME_OVER
    } phase;
    size_t left;          /* snapshots of the history not tried yet */
    uint32_t tried;       /* at most snapshot_keep are there */
    uint32_t turn;        /* attempts begun */
    const json_t *state;  /* borrowed from the history; NULL: beginning */
    uint32_t number;      /* of that snapshot; 0: beginning */
    branch_id main, best; /* restored; main may be 0, best BRANCH_NONE */
    uint32_t along;
    struct snapshot_trial trial[STRATEGY_WAITING_MAX]; /* [along] */
    branch_id restored[STRATEGY_WAITING_MAX];          /* [along] from these */
    char why[RECORD_TEXT_MAX]; /* CLEARING: the next attempt's */
    bool best_left;            /* the best of this snapshot cannot be used */
    uint32_t search;           /* that goes on; 0: none */
    uint32_t next_trial;       /* of it, as in record_run_resumed */
    bool unsaved;              /* it ended, but for its model */
    bool closed; /* it ended, model and all, and is to go on still */
    bool ends;   /* the snapshot is of its end: */
    struct tuner_finish end;
    uint32_t searches, trials; /* there were before */
};

/* ---- life ---------------------------------------------------------------- */

/* A searcher that has failed is not started again. */
static void recall_fallback(struct board *c, const struct history *h)
{
    const struct searcher_ops *ops = searcher_built_in(history_fallback(h));
    const struct searcher_ops *is = board_searcher(c);

    if (ops && is && is->fallback)
        board_set_searcher(c, ops);
}

enum err resume_init(struct board *c)
{
    const struct history *h = board_history(c);
    struct resume *r = mem_calloc(1, sizeof(*r));
    const struct record_run_finished *end;

    assert(!c->owner->resume);
    if (!r)
        return ERR_NOMEM;
    r->best = BRANCH_NONE;
    c->owner->resume = r;
    if (!h || !history_started(h))
        return ERR_OK;
    end = history_end(h);
    r->left = history_snapshots_len(h);
    r->unsaved = history_finished(h) && end->status == RUN_INTERRUPTED &&
                 strcmp(end->reason, "not_saved") == 0;
    r->closed =
        history_finished(h) && (end->status != RUN_INTERRUPTED ||
                                strcmp(end->reason, RUN_REASON_RESUMED) == 0);
    r->searches = history_searches_made(h);
    r->trials = history_trials_made(h);
    recall_fallback(c, h);
    return ERR_OK;
}

void resume_deinit(struct board *c)
{
    mem_free(c->owner->resume);
    c->owner->resume = NULL;
}

uint32_t lifecycle_searches_before(const struct board *c)
{
    return c->owner->resume->searches;
}

uint32_t lifecycle_trials_before(const struct board *c)
{
    return c->owner->resume->trials;
}

branch_id lifecycle_restored(const struct board *c, uint32_t trial)
{
    const struct resume *r = c->owner->resume;

    for (uint32_t i = 0; i < r->along; i++)
        if (r->trial[i].trial == trial)
            return r->restored[i];
    return BRANCH_NONE;
}

uint32_t lifecycle_search_resumed(const struct board *c)
{
    return c->owner->resume->search;
}

bool lifecycle_forgets_trial(const struct board *c, uint32_t trial)
{
    const struct resume *r = c->owner->resume;

    return r->next_trial > 0 && trial >= r->next_trial && trial <= r->trials;
}

uint32_t resume_from(const struct board *c)
{
    return c->owner->resume->number;
}

/* ---- what cannot go on --------------------------------------------------- */

static void interrupt_search(struct board *c, const struct history *h,
                             const struct history_search *s)
{
    const uint32_t search = s->started.search;
    const struct history_run_of_search run = history_search_run(h, search);
    struct record_search_ended *r;

    for (uint32_t n = 1; n <= history_trials_made(h); n++) {
        const struct history_trial *t = history_trial(h, n);

        if (t && !t->ended && history_trial_search(t) == search)
            *board_record_trial_ended(c) = history_trial_interrupted(t);
    }
    r = board_record_search_ended(c);
    r->search = search;
    r->trials = run.trials;
    r->trial_s = s->trial_s;
    r->seconds = history_at_s(h) - s->started_at_s;
    r->clocks = run.clocks;
    snprintf(r->reason, sizeof(r->reason), RUN_REASON_SEARCH_GIVEN_UP);
}

static void interrupt_searches(struct board *c)
{
    const struct history *h = board_history(c);

    for (uint32_t n = 1; n <= history_searches_made(h); n++) {
        const struct history_search *s = history_search(h, n);

        if (s && !s->ended && n != c->owner->resume->search)
            interrupt_search(c, h, s);
    }
}

/* ---- attempts ------------------------------------------------------------ */

/* The last epoch that counts. Where the run was over, that is its last one: a
 * contest's snapshot then is of its best model, whose lineage went on. */
static uint32_t survives(const struct board *c,
                         const struct record_snapshot_written *s)
{
    const struct resume *r = c->owner->resume;
    uint32_t last = history_epochs(board_history(c));

    return r->ends && r->end.status == RUN_FINISHED && last > s->epoch
               ? last
               : s->epoch;
}

static void record_resumed(struct board *c,
                           const struct record_snapshot_written *s)
{
    struct record_run_resumed *r = board_record_run_resumed(c);

    r->search = c->owner->resume->search;
    r->next_trial = c->owner->resume->next_trial;
    r->restarts = run_options(c)->restarts;
    r->best_of = BRANCH_NONE;
    r->unix_s = run_options(c)->started_unix_s + clockwork_tuner_s(c);
    snprintf(r->reason, sizeof(r->reason), "%s", run_options(c)->resume_reason);
    if (!s)
        return;
    r->from = s->branch;
    r->epoch = survives(c, s);
    if (!c->owner->resume->best_left) {
        r->best_epoch = s->best_epoch;
        r->best_of = s->best_of;
    }
    memcpy(r->path, s->path, sizeof(r->path));
}

/* Whether the run failed since that search, over, came to no setting. With the
 * same trials it would only fail again; what made them fail may be mended. */
static bool failed_by(const struct history *h, const struct history_search *s)
{
    return history_finished(h) && history_end(h)->status == RUN_FAILED &&
           s->ended && s->end.winner == 0;
}

/* The search that a strategy saved as its own; 0 for one that never was. */
static uint32_t search_of(const struct history *h, const json_t *saved)
{
    uint32_t n = saved_search(saved);

    return history_search(h, n) ? n : 0;
}

/* The trials of @s. More than branches may live are no trials: the strategy
 * does not find what it saved. */
static void read_trials(struct board *c,
                        const struct record_snapshot_written *s)
{
    struct resume *r = c->owner->resume;
    const char *slash = strrchr(s->path, '/');
    int dir = slash ? (int)(slash - s->path + 1) : 0;
    char name[HISTORY_TRIAL_FOLDER_MAX], path[PROTO_PATH_MAX];
    uint32_t n = 0;

    r->along = 0;
    if (r->ends ||
        !snapshot_state_trials(s->state, r->trial, STRATEGY_WAITING_MAX, &n) ||
        n > STRATEGY_WAITING_MAX)
        return;
    for (; r->along < n; r->along++) {
        const struct snapshot_trial *t = &r->trial[r->along];
        const struct branch *b;

        history_trial_folder(t->number, t->trial, name);
        if (snprintf(path, sizeof(path), "%.*s%s", dir, s->path, name) >=
            (int)sizeof(path))
            path[0] = '\0';
        b = branches_restore(c, path, t->of);
        if (!b)
            return;
        r->restored[r->along] = b->id;
    }
}

/* Asks for the folders of @s. There is room: nothing else lives yet. */
static void read_snapshot(struct board *c,
                          const struct record_snapshot_written *s)
{
    struct resume *r = c->owner->resume;
    const json_t *saved = snapshot_state_strategy(s->state);

    r->state = s->state;
    r->number = history_snapshot_number(s->path);
    r->search = r->ends ? 0 : search_of(board_history(c), saved);
    if (run_strategy(c)->recalls && r->search &&
        failed_by(board_history(c),
                  history_search(board_history(c), r->search))) {
        board_decision(c, "resume",
                       "the run failed by search %u: another begins",
                       r->search);
        r->search = 0;
    }
    r->next_trial = r->search ? saved_next_trial(saved) : 0;
    record_resumed(c, s);
    r->main = 0;
    if (!snapshot_state_begins(s->state)) {
        const struct branch *b = branches_restore(c, s->path, s->branch);

        assert(b);
        r->main = b->id;
    }
    if (s->best_path[0] && !r->best_left) {
        const struct branch *b = branches_restore(c, s->best_path, s->branch);

        assert(b);
        r->best = b->id;
    }
    read_trials(c, s);
    r->turn++;
    r->phase = RESUME_READING;
}

static void tell_anew(struct board *c)
{
    const struct strategy_ops *ops = run_strategy(c);
    const char *why = "cannot go on within its search";

    if (ops->waiting)
        why = run_options(c)->snapshot_trials
                  ? "has no snapshot of its search yet"
                  : "has no snapshot of its search (snapshot.trials: anew)";
    board_decision(c, "resume", "strategy %s %s: the run begins anew",
                   ops->name, why);
}

/* The latest search from the run's beginning: after one that failed the run a
 * resume has begun another. NULL: there was none. */
static const struct history_search *first_search(const struct history *h)
{
    for (uint32_t n = history_searches_made(h); n > 0; n--) {
        const struct history_search *s = history_search(h, n);

        if (s && s->started.parent == 0 && !s->started.retune)
            return s;
    }
    return NULL;
}

/* Begins the run anew. Its first search goes on, if it is the strategy's way to
 * know trials again. */
static void begin_anew(struct board *c)
{
    const struct history *h = board_history(c);
    struct resume *r = c->owner->resume;
    const struct history_search *one = first_search(h);
    bool first = run_strategy(c)->recalls && one && !failed_by(h, one);

    r->state = NULL;
    r->ends = false;
    r->number = 0;
    r->main = 0;
    r->search = first ? one->started.search : 0;
    r->next_trial = 0;
    record_resumed(c, NULL);
    if (r->tried > 0)
        board_decision(c, "resume",
                       "no snapshot can be read: the run begins anew");
    else if (one && failed_by(h, one))
        board_decision(c, "resume",
                       "the run failed by its first search: it begins anew, "
                       "with a new search");
    else if (history_searches_made(h) > 0 && !run_strategy(c)->recalls)
        tell_anew(c);
    r->turn++;
    r->phase = RESUME_HANDING;
}

/* A contest goes on with the trials that its snapshot has: of a search that
 * failed the run they would only fail it again. */
static bool is_of_failed(struct board *c,
                         const struct record_snapshot_written *s)
{
    const struct history *h = board_history(c);
    const json_t *saved = snapshot_state_strategy(s->state);
    uint32_t search = search_of(h, saved);

    return run_strategy(c)->waiting && !c->owner->resume->ends && search &&
           failed_by(h, history_search(h, search));
}

/* Whether the run can go on from @state. Where that says how the run ended it
 * is not trained on; but who goes on with a run that the user had stopped, or
 * that failed, wants it trained, once its model is written. */
static bool is_of_use(struct resume *r, const json_t *state)
{
    bool end = snapshot_state_end(state, &r->end);

    r->ends = end && (r->end.status == RUN_FINISHED || r->unsaved ||
                      (r->end.status == RUN_FAILED && !r->closed));
    return state && (r->ends || !end || snapshot_state_strategy(state));
}

/* What was trained is given up by nobody but the user. */
static void none_is_of_use(struct board *c, const char *why)
{
    char what[RECORD_TEXT_MAX];

    snprintf(what, sizeof(what),
             "no snapshot can be used, and all are kept: %.200s; put back what "
             "is missing and resume the run; or mltune save, mltune recover "
             "take what is whole; mltune resume --from-beginning begins anew",
             why);
    c->owner->resume->state = NULL;
    c->owner->resume->phase = RESUME_OVER;
    lifecycle_interrupted(c, "restore_failed", what);
}

/* @why: the one tried before could not be used. */
static void attempt(struct board *c, const char *why)
{
    const struct history *h = board_history(c);
    struct resume *r = c->owner->resume;

    while (r->left > 0 && r->tried < run_options(c)->snapshot_keep) {
        const struct record_snapshot_written *s =
            &history_snapshot_at(h, --r->left)->s;

        if (!is_of_use(r, s->state) || is_of_failed(c, s))
            continue;
        r->tried++;
        r->best_left = false;
        read_snapshot(c, s);
        return;
    }
    if (r->tried > 0 && !run_options(c)->from_beginning)
        none_is_of_use(c, why);
    else
        begin_anew(c);
}

static void give_back(struct board *c)
{
    struct resume *r = c->owner->resume;

    models_forget(c);
    snapshots_restored(c, BRANCH_NONE, 0);
    if (r->main)
        board_free(c, r->main, "not usable");
    if (r->best != BRANCH_NONE)
        board_free(c, r->best, "not usable");
    r->best = BRANCH_NONE;
    for (uint32_t i = 0; i < r->along; i++)
        board_free(c, r->restored[i], "not usable");
    r->along = 0;
}

/* Trials may have taken all slots: those are free again when that is answered.
 */
static bool is_cleared(const struct board *c)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        const struct branch *b = branches_slot(c, i);

        if (b && b->state == BRANCH_FREEING)
            return false;
    }
    return true;
}

/* The next attempt: the same snapshot without its best, or one before. */
static void clearing(struct board *c)
{
    struct resume *r = c->owner->resume;

    if (!is_cleared(c))
        return;
    if (r->best_left)
        read_snapshot(c, &history_snapshot_at(board_history(c), r->left)->s);
    else
        attempt(c, r->why);
}

static void pass_over(struct board *c, const char *why)
{
    struct resume *r = c->owner->resume;

    snprintf(r->why, sizeof(r->why), "%.400s", why);
    board_decision(c, "resume", "snapshot %06u cannot be used: %s", r->number,
                   r->why);
    snapshots_pass_over(c, r->number);
    give_back(c);
    r->best_left = false;
    r->phase = RESUME_CLEARING;
}

/* The same snapshot again: it is whole, but for the best model. */
static void leave_best(struct board *c, const char *why)
{
    struct resume *r = c->owner->resume;

    board_decision(c, "resume",
                   "the best model of snapshot %06u cannot be used: %.300s; "
                   "the run goes on without it, from what was trained last",
                   r->number, why);
    give_back(c);
    r->best_left = true;
    r->phase = RESUME_CLEARING;
}

/* ---- the beginning ------------------------------------------------------- */

/* Of the same data another pass, or another metric. */
static void tell_settings(const struct record_run_started *was,
                          const struct msg_ready *is, char *what, size_t size)
{
    if (is->parts == was->parts)
        snprintf(what, size,
                 "the metric was \"%s\" when the run began, now it is \"%s\"",
                 was->metric, is->metric);
    else if (is->workers != was->workers)
        snprintf(what, size,
                 "a pass has %llu clocks with %u workers over all nodes, and "
                 "had %llu with the %u that the run began with: resume it with "
                 "these (--set cluster.workers=N, of each node)",
                 (unsigned long long)is->parts, is->workers,
                 (unsigned long long)was->parts, was->workers);
    else
        snprintf(what, size,
                 "a pass has %llu clocks, and had %llu when the run began",
                 (unsigned long long)is->parts, (unsigned long long)was->parts);
}

/* Whether other data were loaded now than the run began with, or are cut
 * otherwise; @what: which. */
static bool changed(struct board *c, char *what, size_t size)
{
    const struct record_run_started *was = history_run(board_history(c));
    const struct msg_ready *is = board_system(c);

    if (is->samples == was->samples &&
        is->validation_samples == was->validation_samples &&
        is->parts == was->parts && strcmp(is->metric, was->metric) == 0)
        return false;
    if (is->samples == was->samples &&
        is->validation_samples == was->validation_samples)
        tell_settings(was, is, what, size);
    else
        snprintf(what, size,
                 "the data have changed: the run began with %llu + %llu "
                 "samples, now there are %llu + %llu",
                 (unsigned long long)was->samples,
                 (unsigned long long)was->validation_samples,
                 (unsigned long long)is->samples,
                 (unsigned long long)is->validation_samples);
    return true;
}

bool resume_begin(struct board *c)
{
    const struct history *h = board_history(c);
    char what[RECORD_TEXT_MAX];

    assert(c->owner->resume->phase == RESUME_NOT);
    if (!h || !history_started(h))
        return false;
    c->owner->resume->phase = RESUME_READING;
    if (changed(c, what, sizeof(what))) {
        lifecycle_interrupted(c, "changed", what);
        return true;
    }
    if (board_system(c)->workers != history_run(h)->workers)
        board_decision(c, "resume", "%u workers over all nodes, at first %u",
                       board_system(c)->workers, history_run(h)->workers);
    attempt(c, "");
    return true;
}

/* The restored branches get their numbers back. */
static bool install(struct board *c)
{
    struct resume *r = c->owner->resume;
    const struct history *h = board_history(c);
    struct branch *main = branches_own(c, r->main);
    struct branch *best = branches_own(c, r->best);
    const struct record_snapshot_written *from;
    struct snapshot_numbers is;

    assert(main);
    if (!snapshot_state_read(c, r->state, r->main ? main : NULL, best, &is))
        return false;
    branches_plan_reset(c, main);
    for (uint32_t i = 0; i < r->along; i++) {
        struct branch *b = branches_own(c, r->restored[i]);

        if (!snapshot_state_read_trial(c, r->state, i, b))
            return false;
        branches_plan_reset(c, b);
    }
    /* A clock of other workers has other samples. */
    if ((is.workers ? is.workers : history_run(h)->workers) ==
        board_system(c)->workers)
        slices_see_samples(c, is.samples_per_clock);
    from = &history_snapshot_at(h, r->left)->s;
    is.best.of = from->best_of;
    models_restore(c, r->main, &is.best);
    if (!best)
        return true;
    branches_plan_reset(c, best);
    snapshots_restored(c, best->id, history_snapshot_number(from->best_path));
    return true;
}

static bool is_refused(const struct branch *b)
{
    return b && b->state == BRANCH_REFUSED;
}

/* Whether another snapshot is to be tried. One of a newer version is sound. */
static bool is_lost(const struct branch *b)
{
    return is_refused(b) && (b->error == ERR_FORMAT || b->error == ERR_NOENT);
}

/* It is of other tables, and those come from the data. */
static bool is_of_others(const struct branch *b)
{
    return is_refused(b) && b->error == ERR_INVAL;
}

static void other_tables(struct board *c)
{
    char what[RECORD_TEXT_MAX];

    snprintf(what, sizeof(what),
             "the data have changed: %.320s; the snapshots are kept, and the "
             "run goes on once the data are as they were",
             board_failure(c));
    c->owner->resume->phase = RESUME_OVER;
    lifecycle_interrupted(c, "changed", what);
}

/* The snapshot may be sound: nothing is given up for want of memory or of a
 * disk, nor where another number of nodes could read it. */
static void not_now(struct board *c)
{
    char what[RECORD_TEXT_MAX];

    snprintf(what, sizeof(what),
             "the snapshot cannot be read now, and is kept: %.240s; resume the "
             "run to try it again, or move its folder away to go on from the "
             "one before",
             board_failure(c));
    c->owner->resume->phase = RESUME_OVER;
    lifecycle_interrupted(c, "restore_failed", what);
}

/* A trial's branch that was not to be had; NULL: none. */
static const struct branch *worst_trial(struct board *c, bool *busy)
{
    const struct resume *r = c->owner->resume;
    const struct branch *worst = NULL;

    *busy = false;
    for (uint32_t i = 0; i < r->along; i++) {
        const struct branch *b = board_branch(c, r->restored[i]);

        *busy |= b->state == BRANCH_FORKING;
        if (is_refused(b) && (!worst || !is_lost(b)))
            worst = b;
    }
    return worst;
}

/* READING, until both folders are read or one cannot be. Of an end the best
 * model is all that there is to read. */
static void reading(struct board *c)
{
    struct resume *r = c->owner->resume;
    const struct branch *main = board_branch(c, r->main);
    const struct branch *best = board_branch(c, r->best), *trial;
    bool busy;

    assert(main);
    if (main->state == BRANCH_FORKING ||
        (best && best->state == BRANCH_FORKING))
        return;
    trial = worst_trial(c, &busy);
    if (busy)
        return;
    if (is_of_others(main) || is_of_others(best) || is_of_others(trial))
        other_tables(c);
    else if (is_lost(main) || is_lost(trial) ||
             (r->ends && is_lost(best) && !is_refused(main)))
        pass_over(c, board_failure(c));
    else if (is_refused(main) || is_refused(trial) ||
             (is_refused(best) && !is_lost(best)))
        not_now(c);
    else if (is_lost(best))
        leave_best(c, board_failure(c));
    else if (!install(c))
        pass_over(c, "its record is damaged");
    else
        r->phase = RESUME_HANDING;
}

/* The last increment that is in what the run goes on with. */
static uint64_t increments_kept(const struct board *c)
{
    const struct resume *r = c->owner->resume;
    const struct branch *main = board_branch(c, r->main);
    uint64_t kept = main ? main->increments : 0;

    for (uint32_t i = 0; i < r->along; i++) {
        const struct branch *b = board_branch(c, r->restored[i]);

        if (b && b->increments > kept)
            kept = b->increments;
    }
    return kept;
}

/* Increments that were made since are lost with what was trained. */
static void tell_lost_increments(struct board *c)
{
    uint64_t kept = increments_kept(c);
    uint64_t all = history_increments(board_history(c));
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

/* From here on the run goes on, from a fork of what was restored or, at its
 * end, with that itself. */
static void over(struct board *c)
{
    struct resume *r = c->owner->resume;

    interrupt_searches(c);
    tell_lost_increments(c);
    if (r->main && !r->ends)
        board_drop(c, r->main, "the run goes on from it");
    for (uint32_t i = 0; i < r->along; i++)
        board_drop(c, r->restored[i], "the run goes on from it");
    r->along = 0;
    r->state = NULL;
    r->phase = RESUME_OVER;
    snapshots_begin(c);
    run_begin(c);
}

static void handing(struct board *c)
{
    struct resume *r = c->owner->resume;
    const struct strategy_ops *ops = run_strategy(c);
    const json_t *saved = snapshot_state_strategy(r->state);
    enum err err;

    assert(c->owner->resume->phase == RESUME_HANDING);
    if (r->ends) {
        over(c);
        ending_again(c, &r->end);
        return;
    }
    err = ops->restore(c->owner->strategy, saved, r->main);
    if (err == ERR_NOMEM) {
        board_retry(c);
        return;
    }
    if (err) {
        pass_over(c, "its record does not fit the strategy");
        return;
    }
    over(c);
}

void resume_advance(struct board *c)
{
    const struct resume *r = c->owner->resume;
    uint32_t turn;

    /* One that has no folder is there at once: nothing would come of it. */
    do {
        turn = r->turn;
        if (r->phase == RESUME_READING)
            reading(c);
        if (r->phase == RESUME_HANDING)
            handing(c);
        if (r->phase == RESUME_CLEARING)
            clearing(c);
    } while (r->turn != turn);
}
