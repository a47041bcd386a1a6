#include "tuner/strategies/contest.h"

#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"
#include "tuner/core/suggest.h"
#include "tuner/search/failures.h"
#include "tuner/search/summary.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_ask.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------- */

enum err contest_init(struct contest *ct, struct board *c, struct fault *f)
{
    assert(c);
    memset(ct, 0, sizeof(*ct));
    ct->c = c;
    ct->reference = NAN;
    return choice_initial(c, &ct->first, f);
}

void contest_deinit(struct contest *ct)
{
    proposals_deinit(&ct->proposals);
    trials_deinit(&ct->trials);
    mem_free(ct->x);
    json_decref(ct->own.json);
    memset(ct, 0, sizeof(*ct));
}

void contest_unit(struct contest *ct, const json_t *settings)
{
    const json_t *unit = json_object_get(settings, "unit");

    assert(settings);
    ct->unit_clocks = (uint64_t)json_integer_value(unit); /* 0 of a text */
    if (ct->unit_clocks)
        snprintf(ct->unit, sizeof(ct->unit), "times %llu clocks",
                 (unsigned long long)ct->unit_clocks);
    else
        snprintf(ct->unit, sizeof(ct->unit), "epochs");
}

bool contest_start(struct contest *ct, uint32_t max, const char *reason)
{
    struct board *c = ct->c;
    struct record_search_started *r;

    assert(max >= 1);
    assert(reason);
    if (ct->open)
        return true;
    if (board_max_trials(c) && board_max_trials(c) < max)
        max = board_max_trials(c);
    if (max > TUNER_TRIALS_MAX)
        max = TUNER_TRIALS_MAX;
    if (!board_searcher(c) || space_dims(board_space(c)) == 0)
        max = 1;
    /* By now it is known which tunables act. */
    trials_init(&ct->trials, c, board_space(c),
                lifecycle_searches_before(c) + 1,
                lifecycle_trials_before(c) + 1);
    ct->x = mem_calloc(max, sizeof(*ct->x));
    if (!ct->x || trials_open(&ct->trials, max)) {
        mem_free(ct->x);
        ct->x = NULL;
        board_retry(c);
        return false;
    }
    proposals_init(&ct->proposals, &ct->trials);
    ct->open = true;
    ct->started_s = board_active_s(c);
    ct->started_clocks = board_clocks_run(c);
    r = board_record_search_started(c);
    r->search = ct->trials.search;
    r->parent = 0;
    r->trials_max = max;
    r->tunables = space_to_json(&ct->trials.space);
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    board_set_status(c, RUN_TUNING, reason);
    return true;
}

struct contestant *contest_trial(struct contest *ct, uint32_t number)
{
    assert(number >= ct->trials.first);
    assert(number - ct->trials.first < ct->trials.n);
    return &ct->x[number - ct->trials.first];
}

uint32_t contest_number(const struct contestant *x)
{
    return x->t->number;
}

const struct setting *contest_setting(const struct contestant *x)
{
    return &x->t->setting;
}

void contest_take_over(struct contest *ct, branch_id branch,
                       const struct setting *setting, json_t *json)
{
    assert(setting && json);
    json_decref(ct->own.json);
    ct->own = (struct trial){
        .branch = branch, .json = json, .setting = *setting, .judged = true};
    ct->adopted = (struct contestant){.t = &ct->own, .score = NAN, .best = NAN};
    ct->has_adopted = true;
}

uint32_t contest_index(const struct contest *ct, const struct contestant *x)
{
    assert(contest_number(x) >= ct->trials.first);
    return contest_number(x) - ct->trials.first;
}

bool contest_before(const struct contestant *a, const struct contestant *b)
{
    assert(a && b);
    if (isnan(a->score) || isnan(b->score))
        return isnan(a->score)
                   ? isnan(b->score) && contest_number(a) < contest_number(b)
                   : true;
    return a->score < b->score ||
           (a->score == b->score && contest_number(a) < contest_number(b));
}

/* ---- records ------------------------------------------------------------- */

/* Speed and label of a branch, as far as its trace shows the loss by time.
 * There is no probe: the first window stands for the loss before. */
static enum trial_label summarise(const struct contest *ct,
                                  const struct branch *b,
                                  struct trial_figures *out)
{
    struct curve curve;

    summary_none(out);
    if (branch_is_nonfinite(b))
        return TRIAL_DIVERGED;
    trace_curve(branch_trace(b), &curve);
    if (curve.len == 0)
        return TRIAL_RUNNING;
    return summary_of(&curve, curve.point[0].loss, board_loss_floor(ct->c),
                      out);
}

/* What shows how the trial runs: its branch, or what that is to be forked from
 * after a resume; NULL: it has none. */
static const struct branch *shown_by(const struct contest *ct,
                                     const struct contestant *x)
{
    const struct branch *b = board_branch(ct->c, x->t->branch);

    return b || !ct->restoring ? b : board_branch(ct->c, x->from);
}

void contest_record(struct contest *ct, struct contestant *x,
                    enum record_kind kind)
{
    struct trial_figures *f = &x->t->figures;
    const struct branch *b = shown_by(ct, x);

    summary_none(f);
    if (b)
        summarise(ct, b, f);
    if (f->points > 1)
        f->speed_unit = speed_unit_of(
            summary_is_relative(f->loss[0], board_loss_floor(ct->c)), false);
    f->tested = !isnan(x->score);
    f->result = f->tested ? board_result(ct->c, x->score) : 0;
    f->seconds = x->seconds + (b ? branch_trace(b)->seconds : 0);
    f->samples = x->samples + (b ? branch_own_samples(b) : 0);
    f->clocks = x->clocks + (b ? branch_own_clocks(b) : 0);
    trial_record(ct->c, x->t, kind);
}

/* The label of a trial that goes on or is dropped: what its losses show. */
static void label(struct contest *ct, struct contestant *x)
{
    struct trial *t = x->t;
    const struct branch *b = shown_by(ct, x);

    if (x->parked)
        return; /* as it was */
    if (b && branch_own_samples(b) > 0)
        t->label = summarise(ct, b, &t->figures);
    else if (t->label == TRIAL_RUNNING) /* else as before a resume */
        t->label = TRIAL_STOPPED;
}

/* The run's present state is the leader's branch; without it, its model. */
static void base_without(struct contest *ct, branch_id gone)
{
    struct board *c = ct->c;

    if (board_base(c) == gone)
        board_set_base(c, board_best(c)->branch != BRANCH_NONE
                              ? board_best(c)->branch
                              : 0);
}

void contest_count_spent(const struct contest *ct, struct contestant *x)
{
    const struct branch *b = shown_by(ct, x);

    if (!b)
        return;
    x->seconds += branch_trace(b)->seconds;
    x->clocks += branch_own_clocks(b);
    x->samples += branch_own_samples(b);
}

/* Its branch goes, its record closes with the label it has. */
static void put_out(struct contest *ct, struct contestant *x,
                    const char *reason)
{
    struct board *c = ct->c;

    assert(!x->out);
    if (!ct->ended)
        contest_record(ct, x, RECORD_TRIAL_ENDED);
    contest_count_spent(ct, x);
    base_without(ct, x->t->branch);
    if (x->started)
        training_deinit(&x->line);
    if (x->t->branch != BRANCH_NONE)
        board_cut(c, x->t->branch);
    board_free(c, x->t->branch, reason);
    x->t->branch = BRANCH_NONE;
    if (ct->restoring) {
        board_drop(c, x->from, reason);
        x->from = BRANCH_NONE;
    }
    x->out = true;
    x->running = x->parked = false;
    if (!x->t->judged)
        contest_judge(ct, x);
}

void contest_drop(struct contest *ct, struct contestant *x, const char *reason)
{
    assert(reason);
    if (x->out)
        return;
    label(ct, x);
    put_out(ct, x, reason);
}

void contest_diverged(struct contest *ct, struct contestant *x)
{
    assert(x->t->branch == BRANCH_NONE);
    x->diverged = false;
    x->t->label = TRIAL_DIVERGED;
    ct->refused = 0;
    put_out(ct, x, trial_label_name(x->t->label));
}

bool contest_spent(const struct contest *ct)
{
    return contest_exhausted(ct) || ct->trials.n == ct->trials.max ||
           ct->refused >= CONTEST_REFUSED ||
           (isnan(ct->reference) && ct->trials.n >= CONTEST_HOPELESS);
}

bool contest_lacks_memory(const struct contestant *x)
{
    return !x->out && !x->started && x->refusals > 0;
}

uint32_t contest_shortages(struct contest *ct)
{
    uint32_t n = ct->shortages - ct->told;

    ct->told = ct->shortages;
    return n;
}

uint32_t contest_begun(const struct contest *ct)
{
    return ct->trials.n;
}

uint32_t contest_left(const struct contest *ct)
{
    return ct->trials.max - ct->trials.n;
}

/* ---- memory -------------------------------------------------------------- */

/* The trial that waits (or, with @running, runs beside @but) and is worth
 * least: run least, then worst. Neither the leader nor the champion. */
static struct contestant *worst_of(struct contest *ct, bool running,
                                   const struct contestant *but)
{
    struct contestant *worst = NULL;

    for (uint32_t i = 0; i < ct->trials.n; i++) {
        struct contestant *x = &ct->x[i];

        if (x->out || x->running != running || x == but ||
            contest_number(x) == ct->leader ||
            contest_number(x) == ct->champion)
            continue;
        if (!worst || x->line.epochs < worst->line.epochs ||
            (x->line.epochs == worst->line.epochs && contest_before(worst, x)))
            worst = x;
    }
    return worst;
}

/* The leader, where it waits and what it would go on from is the best model
 * that is kept anyway, rows that users added to since included; NULL: it is not
 * so. */
static struct contestant *can_park(struct contest *ct)
{
    struct board *c = ct->c;
    struct contestant *x = ct->leader ? contest_trial(ct, ct->leader) : NULL;
    const struct branch *b = x ? board_branch(c, x->t->branch) : NULL;
    const struct branch *best = board_branch(c, board_best(c)->branch);

    if (!b || !best || x->running || !x->started || !branch_idle(b) ||
        !branch_idle(best))
        return NULL;
    return branch_is_copy(best, b) ? x : NULL;
}

/* Gives its branch up; it is forked from the best model when it goes on. */
static void park(struct contest *ct, struct contestant *x)
{
    struct board *c = ct->c;

    assert(contest_number(x) == ct->leader);
    assert(!x->parked);
    board_decision(c, "memory",
                   "memory is short: trial %u waits as the best model",
                   contest_number(x));
    contest_count_spent(ct, x);
    base_without(ct, x->t->branch);
    training_deinit(&x->line);
    board_free(c, x->t->branch, "waits as the best model");
    x->t->branch = BRANCH_NONE;
    x->started = false;
    x->parked = true;
}

/* Frees the worst trial that waits, for @x; where only the leader does, it
 * waits as the best model. False: nothing is to be had. */
static bool make_room(struct contest *ct, const struct contestant *x)
{
    struct contestant *worst = worst_of(ct, false, x);
    struct contestant *leader = worst ? NULL : can_park(ct);

    ct->shortages++;
    if (leader)
        park(ct, leader);
    if (!worst)
        return leader != NULL;
    board_decision(ct->c, "memory",
                   "no memory for trial %u: trial %u, the worst of those that "
                   "wait, is freed",
                   contest_number(x), contest_number(worst));
    contest_drop(ct, worst, "memory");
    return true;
}

/* Frees the worst trial beside @x where none waits: trials that run side by
 * side must not all starve. */
static void make_room_beside(struct contest *ct, const struct contestant *x)
{
    struct contestant *worst = worst_of(ct, true, x);

    if (!worst)
        return;
    board_decision(ct->c, "memory",
                   "no memory to test trial %u: trial %u beside it is freed",
                   contest_number(x), contest_number(worst));
    contest_drop(ct, worst, "memory");
}

/* Others that have a branch, or were not refused one yet: trials that all wait
 * for memory would wait for one another. */
static bool others_run(const struct contest *ct, const struct contestant *x)
{
    for (uint32_t i = 0; i < ct->trials.n; i++) {
        const struct branch *b = board_branch(ct->c, ct->x[i].t->branch);

        if (ct->x[i].running && &ct->x[i] != x && b && !branch_is_refused(b))
            return true;
    }
    return false;
}

/* ---- a trial's branch ---------------------------------------------------- */

static bool fork_branch(struct contest *ct, struct contestant *x)
{
    branch_id from = 0;

    assert(x->t->branch == BRANCH_NONE);
    if (x->parked)
        from = board_best(ct->c)->branch;
    else if (x->parent)
        from = contest_trial(ct, x->parent)->t->branch;
    else if (x == &ct->adopted)
        from = ct->from;
    if (trial_fork(ct->c, x->t, from))
        return true;
    make_room(ct, x);
    board_retry(ct->c);
    return false;
}

#define CONTEST_WAIT_MAX_S 10.0
enum { CONTEST_REFUSALS_MAX = 60 }; /* in a row, the last after nine minutes */

/* While nothing runs, nothing gives memory back: the fork is asked for again
 * after a tenth of a second, and ever later. */
static void note_refusal(struct contest *ct, struct contestant *x)
{
    uint64_t clocks = board_clocks_run(ct->c);
    double wait_s;

    if (x->refused_clocks != clocks)
        x->refusals = 0;
    wait_s = fmin(ldexp(0.1, (int)x->refusals), CONTEST_WAIT_MAX_S);
    x->refusals++;
    x->refused_clocks = clocks;
    x->fork_at_s = board_active_s(ct->c) + wait_s;
    board_retry_after(ct->c, wait_s);
}

/* Its fork is to wait. */
static bool has_to_wait(const struct contest *ct, const struct contestant *x)
{
    double left_s = x->fork_at_s - board_active_s(ct->c);

    if (x->refused_clocks != board_clocks_run(ct->c) || left_s <= 0 ||
        lifecycle_made_room(ct->c))
        return false;
    board_retry_after(ct->c, left_s);
    return true;
}

/* A refused fork costs the worst trial that waits; while others run, memory may
 * come back by itself. */
static void refused(struct contest *ct, struct contestant *x,
                    const struct branch *b)
{
    struct board *c = ct->c;
    enum err err = branch_error(b);
    char why[RECORD_TEXT_MAX];
    bool others;

    assert(branch_is_refused(b));
    snprintf(why, sizeof(why), "%s", branch_failure(b));
    board_free(c, branch_number(b), "refused");
    x->t->branch = BRANCH_NONE;
    if (make_room(ct, x) || lifecycle_made_room(c)) {
        x->fork_at_s = 0;
        board_retry(c);
        return;
    }
    others = others_run(ct, x);
    /* They may be behind it, and wait for it. */
    if ((others || ct->ended) && x->refusals < CONTEST_REFUSALS_MAX) {
        note_refusal(ct, x);
        return;
    }
    if (ct->ended) { /* the winner: there is no other to go on with */
        lifecycle_end(c, RUN_INTERRUPTED, "limit",
                      "no memory for another copy of the model, to go on with "
                      "trial %u: raise memory.limit",
                      contest_number(x));
        return;
    }
    if (ct->from) {
        lifecycle_interrupted(c, "restore_failed",
                              "no memory to go on from the snapshot");
        return;
    }
    if (ct->leader == 0 && !others) {
        lifecycle_end(c, err_may_pass(err) ? RUN_INTERRUPTED : RUN_FAILED,
                      err_may_pass(err) ? err_name(err) : "limit",
                      "no memory for a second copy of the model: %.320s", why);
        return;
    }
    trial_failed(x->t, why);
    ct->refused++;
    put_out(ct, x, "refused");
}

/* The fork of what was restored takes its place. */
static void go_on(struct contest *ct, const struct branch *b)
{
    struct board *c = ct->c;

    assert(ct->from != 0);
    choice_record(c, b, "the run goes on");
    board_set_base(c, branch_number(b));
    training_restore(&ct->adopted.line, c, branch_number(b), ct->from_epochs,
                     ct->from);
    board_drop(c, ct->from, "the run goes on from it");
    ct->from = 0;
}

/* Its fork was refused, and meanwhile the trial that it was to go on from has
 * given up its branch. */
static bool is_orphan(struct contest *ct, const struct contestant *x)
{
    const struct contestant *p =
        x->parent && !x->parked ? contest_trial(ct, x->parent) : NULL;

    return p && (p->out || p->t->branch == BRANCH_NONE);
}

/* Its branch is there and a line runs it. */
static bool started(struct contest *ct, struct contestant *x)
{
    struct board *c = ct->c;
    const struct branch *b = board_branch(c, x->t->branch);

    if (x->started)
        return true;
    if (!b && is_orphan(ct, x)) {
        x->t->label = TRIAL_STOPPED;
        put_out(ct, x, "what it was to go on from is gone");
        return false;
    }
    if (!b) {
        if (!has_to_wait(ct, x))
            fork_branch(ct, x);
        return false;
    }
    if (branch_is_refused(b)) {
        refused(ct, x, b);
        return false;
    }
    if (!branch_is_live(b))
        return false;
    if (x == &ct->adopted)
        go_on(ct, b);
    else
        training_init(&x->line, c, branch_number(b), true);
    x->started = true;
    if (x->parked && contest_number(x) == ct->leader)
        board_set_base(c, x->t->branch);
    x->parked = false;
    return true;
}

struct contestant *contest_begin(struct contest *ct)
{
    struct contestant *x = &ct->x[ct->trials.n];
    const struct proposals *p = &ct->proposals;

    assert(ct->open && !ct->ended);
    if (contest_spent(ct) || !contest_propose(ct))
        return NULL;
    *x = (struct contestant){
        .t = trials_next(&ct->trials, &p->next, p->next_json,
                         p->next_suggestion),
        .running = true,
        .score = NAN,
        .best = NAN,
    };
    plateau_init(&x->plateau, board_limits(ct->c).plateau_epochs);
    if (!fork_branch(ct, x))
        return NULL;
    trial_begun(&ct->trials, x->t);
    proposals_begun(&ct->proposals);
    return x;
}

struct contestant *contest_inherit(struct contest *ct,
                                   const struct contestant *parent,
                                   const struct setting *setting)
{
    struct contestant *x = &ct->x[ct->trials.n];
    json_t *json;

    assert(ct->open && !ct->ended && contest_left(ct) > 0);
    assert(parent->started && !parent->out && !parent->running);
    json = setting_to_json(board_space(ct->c), setting);
    if (!json) {
        board_retry(ct->c);
        return NULL;
    }
    *x = *parent;
    x->t = trials_next(&ct->trials, setting, json, 0);
    x->parent = contest_number(parent);
    x->line = (struct training){0};
    x->started = x->over = false;
    x->running = true;
    x->seconds = 0;
    x->clocks = x->samples = 0;
    x->tries = 0;
    plateau_commit(&x->plateau);
    if (!fork_branch(ct, x)) {
        json_decref(json);
        return NULL;
    }
    trial_begun(&ct->trials, x->t);
    return x;
}

enum contest_state contest_ready(struct contest *ct, struct contestant *x)
{
    if (!x->out && !x->started && !started(ct, x))
        return x->out ? CONTEST_OUT : CONTEST_BUSY;
    return x->out ? CONTEST_OUT : CONTEST_ARRIVED;
}

/* ---- epochs -------------------------------------------------------------- */

static void take_lead(struct contest *ct, struct contestant *x,
                      const char *reason)
{
    struct board *c = ct->c;

    assert(reason);
    ct->leader = contest_number(x);
    board_set_base(c, x->t->branch);
    choice_record_leader(c, board_branch(c, x->t->branch), reason);
}

/* A new leader: its lineage is the run's from now on (the history takes its
 * earlier epochs along). */
static void maybe_lead(struct contest *ct, struct contestant *x, bool lead)
{
    struct contestant *old = ct->leader ? contest_trial(ct, ct->leader) : NULL;
    char reason[RECORD_TEXT_MAX];

    assert(x->started);
    if (!lead || ct->leader == contest_number(x))
        return;
    if (old && old->parked) /* what it waits as is replaced */
        put_out(ct, old, "memory");
    snprintf(reason, sizeof(reason),
             "trial %u has the best model so far, after epoch %u",
             contest_number(x), x->last.e.epoch);
    take_lead(ct, x, reason);
}

static void end_at_target(struct contest *ct, struct contestant *x)
{
    assert(x->last.e.epoch > 0);
    if (!ct->ended)
        contest_end(ct, x, "the target is reached");
    stops_check(ct->c, &x->last);
}

static void score(struct contest *ct, struct contestant *x,
                  const struct training_epoch *e)
{
    double s = board_score(ct->c, e->e.loss, e->metric);

    x->score = isfinite(s) ? s : NAN;
    x->best = fmin(x->best, x->score); /* a NAN gives way */
    if (isnan(ct->reference))
        ct->reference = x->score;
}

static void take_epoch(struct contest *ct, struct contestant *x,
                       const struct training_epoch *e)
{
    struct board *c = ct->c;
    bool target = stops_target(c, e);
    bool best =
        board_is_better(c, e->e.loss, e->metric) && x->line.kept != BRANCH_NONE;

    assert(x->started);
    assert(e->e.epoch > x->last.e.epoch);
    x->last = *e;
    ct->refused = ct->troubles = 0;
    score(ct, x, e);
    x->plateau.limit = stops_patience(c);
    plateau_add(&x->plateau, board_score(c, e->e.loss, e->metric));
    maybe_lead(ct, x, best || target || ct->leader == 0);
    training_record(&x->line, e, ct->leader == contest_number(x), best);
    if (best)
        board_set_best(c, x->line.kept, x->line.branch, &e->e, e->metric);
    board_drop(c, x->line.kept, "not needed");
    x->line.kept = BRANCH_NONE;
    x->over = plateau_reached(&x->plateau) ||
              e->e.epoch >= board_limits(c).max_epochs;
    if (!ct->ended) {
        label(ct, x);
        contest_record(ct, x, RECORD_TRIAL_UPDATED);
    }
    if (target)
        end_at_target(ct, x);
}

/* Trouble of the machine is not the setting's: the trial is given up as it is,
 * while there are others. Where it lasts, or nothing has come to a result yet,
 * the run is interrupted. */
static void troubled(struct contest *ct, struct contestant *x, enum err err)
{
    if (isnan(ct->reference) || ++ct->troubles > 1) {
        lifecycle_end(ct->c, RUN_INTERRUPTED, err_name(err),
                      "the training application failed: %.300s",
                      board_failure(ct->c));
        return;
    }
    board_decision(ct->c, "trial",
                   "trial %u is given up, which is no fault of its setting: "
                   "%.200s",
                   contest_number(x), board_failure(ct->c));
    x->t->label = TRIAL_STOPPED;
    put_out(ct, x, "trouble of the machine");
}

/* It diverged, or the application or the memory failed. */
static void broken(struct contest *ct, struct contestant *x)
{
    const struct branch *b = board_branch(ct->c, x->t->branch);

    assert(b && (branch_is_nonfinite(b) || branch_error(b)));
    if (ct->ended) {
        choice_broken(ct->c, b);
        return;
    }
    if (!branch_is_nonfinite(b) && err_may_pass(branch_error(b))) {
        troubled(ct, x, branch_error(b));
        return;
    }
    ct->refused = branch_error(b) == ERR_LIMIT ? ct->refused + 1 : 0;
    if (branch_is_nonfinite(b))
        x->t->label = TRIAL_DIVERGED;
    else
        trial_failed(x->t, branch_failure(b));
    put_out(ct, x, trial_label_name(x->t->label));
}

/* A test that finds no memory takes that of the worst trial that waits. */
static void help(struct contest *ct, struct contestant *x)
{
    uint32_t failed = x->line.closing.tries > 1 ? x->line.closing.tries - 1 : 0;

    if (failed > x->tries && !make_room(ct, x))
        make_room_beside(ct, x);
    x->tries = failed;
}

/* True when it has come on by an epoch, or to where it was to pause. */
static bool came_on(struct contest *ct, struct contestant *x, uint32_t goal)
{
    struct training_epoch e;
    enum training_state state;

    assert(x->started && !x->over);
    training_go(&x->line);
    x->line.ahead = !ct->unit_clocks && x->line.epochs + 2 <= goal &&
                    stops_impossible(ct->c, x->line.epochs + 1, &x->plateau);
    state = training_advance(&x->line, &e);
    if (state == TRAINING_EPOCH) {
        take_epoch(ct, x, &e);
        if (!ct->unit_clocks)
            x->spent = x->line.epochs;
    } else if (state == TRAINING_PAUSED) {
        score(ct, x, &e);
        x->spent = goal;
        if (!ct->ended)
            contest_record(ct, x, RECORD_TRIAL_UPDATED);
    } else if (state == TRAINING_BROKEN) {
        broken(ct, x);
    } else {
        help(ct, x);
    }
    return state == TRAINING_EPOCH || state == TRAINING_PAUSED;
}

/* Its turn comes when the snapshot is written: a kill is to cost the turn that
 * was under way. */
static bool has_no_turn(const struct contest *ct, const struct contestant *x)
{
    return ct->in_turns && ct->turn != contest_number(x) &&
           lifecycle_writes_trials(ct->c);
}

enum contest_state contest_run(struct contest *ct, struct contestant *x,
                               uint32_t goal)
{
    struct board *c = ct->c;
    bool to_the_end = goal == CONTEST_TO_THE_END;

    assert(goal >= 1);
    if (!x->out && !x->over && x->spent < goal) {
        if (has_no_turn(ct, x))
            return CONTEST_BUSY;
        ct->turn = contest_number(x);
        x->running = true;
        if (!started(ct, x))
            return x->out ? CONTEST_OUT : CONTEST_BUSY;
        x->line.pause_at = to_the_end ? 0 : goal * ct->unit_clocks;
        while (!x->over && x->spent < goal)
            if (!came_on(ct, x, goal) || lifecycle_ends(c))
                return x->out ? CONTEST_OUT : CONTEST_BUSY;
    }
    x->running = false;
    ct->turn = 0;
    return x->out ? CONTEST_OUT : CONTEST_ARRIVED;
}

/* ---- the end ------------------------------------------------------------- */

static void record_end(struct contest *ct, const struct contestant *winner,
                       const char *reason)
{
    struct board *c = ct->c;
    struct record_search_ended *r = board_record_search_ended(c);
    const struct branch *b = winner ? board_branch(c, winner->t->branch) : NULL;
    uint64_t own;

    assert(reason);
    r->search = ct->trials.search;
    r->trials = ct->trials.n;
    r->winner = winner ? contest_number(winner) : 0;
    r->seconds = board_active_s(c) - ct->started_s;
    r->clocks = board_clocks_run(c) - ct->started_clocks;
    if (winner) {
        r->trial_s = winner->seconds + (b ? branch_trace(b)->seconds : 0);
        r->seconds = fmax(0, r->seconds - r->trial_s);
        own = winner->clocks + (b ? branch_own_clocks(b) : 0);
        r->clocks -= own < r->clocks ? own : r->clocks;
    }
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

void contest_end(struct contest *ct, struct contestant *winner,
                 const char *reason)
{
    char text[RECORD_TEXT_MAX];

    assert(!ct->ended);
    record_end(ct, winner, reason);
    for (uint32_t i = 0; i < ct->trials.n; i++)
        if (&ct->x[i] != winner)
            contest_drop(ct, &ct->x[i], "another is better");
    ct->ended = true;
    lifecycle_want_snapshot(ct->c); /* a resume goes on from here */
    proposals_close(&ct->proposals);
    suggest_over(ct->c, "the strategy makes one search, and that is over");
    if (!winner || winner->out)
        return;
    contest_record(ct, winner, RECORD_TRIAL_ENDED);
    if (ct->leader != contest_number(winner)) {
        snprintf(text, sizeof(text), "trial %u wins: %.300s",
                 contest_number(winner), reason);
        take_lead(ct, winner, text);
        if (winner->last.e.epoch > 0)
            training_record(&winner->line, &winner->last, true, false);
    }
}

void contest_train(struct contest *ct, struct contestant *winner)
{
    struct board *c = ct->c;

    assert(winner);
    if (!winner->over)
        board_set_status(c, RUN_TRAINING, "the winner of the search");
    if (contest_run(ct, winner, CONTEST_TO_THE_END) != CONTEST_ARRIVED)
        return;
    if (plateau_reached(&winner->plateau))
        stops_converged(c, &winner->plateau);
    else
        lifecycle_end(c, RUN_FINISHED, "max_epochs", "%u epochs are over",
                      winner->last.e.epoch);
}

void contest_finish(struct contest *ct, struct contestant *winner,
                    const char *text)
{
    struct board *c = ct->c;
    bool whole = winner && winner->last.e.epoch >= board_limits(c).max_epochs &&
                 !plateau_reached(&winner->plateau);

    assert(text);
    contest_end(ct, winner, text);
    if (winner)
        lifecycle_end(c, RUN_FINISHED, whole ? "max_epochs" : "converged",
                      "%s: trial %u is the best", text, contest_number(winner));
    else
        contest_failed(ct);
}

void contest_failed(struct contest *ct)
{
    struct failures failures = failures_of(&ct->trials);

    if (!failures_end(ct->c, &failures))
        lifecycle_end(
            ct->c, RUN_FAILED, "diverged",
            "no setting that was tried makes progress: widen the ranges of "
            "the tunables");
}
