/* The way a run ends: slices, then a snapshot, then the model. */
#include "tuner/board/board_state.h"

#include "tuner/board/rows.h"
#include "tuner/board/snapshots.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- answers ------------------------------------------------------------- */

static void model_saved(struct board *c, const struct msg_done *m)
{
    struct record_model_saved *r =
        &board_record(c, RECORD_MODEL_SAVED)->model_saved;

    r->branch = c->ending.fork;
    r->epoch = c->best.epoch;
    r->loss = c->best.branch == BRANCH_NONE ? c->ending.loss : c->best.loss;
    r->metric = c->best.branch == BRANCH_NONE ? NAN : c->best.metric;
    r->bytes = m->bytes;
    r->data = json_incref(m->data);
    memcpy(r->path, c->model_dir, sizeof(r->path));
    c->ending.phase = ENDING_OVER;
}

void board_written(struct board *c, enum msg_kind kind,
                   const struct msg_done *m)
{
    if (kind == MSG_SNAPSHOT)
        snapshots_written(c, m);
    else
        model_saved(c, m);
}

void board_not_written(struct board *c, enum msg_kind kind,
                       const struct msg_failed *m)
{
    if (kind == MSG_SNAPSHOT) {
        snapshots_not_written(c, m->reason);
        return;
    }
    c->ending.finish.status = RUN_FAILED;
    snprintf(c->ending.finish.reason, RECORD_NAME_MAX, "%s", err_name(m->code));
    snprintf(c->ending.finish.message, RECORD_TEXT_MAX,
             "the model was not saved: %.400s", m->reason);
    c->ending.phase = ENDING_OVER;
}

/* ---- the end ------------------------------------------------------------- */

void board_end(struct board *c, enum run_status status, const char *reason,
               const char *format, ...)
{
    struct tuner_finish *finish = &c->ending.finish;
    struct record_decision *d;
    va_list args;

    assert(run_status_is_end(status));
    if (c->ending.phase != ENDING_NOT)
        return;
    c->ending.phase = ENDING_DRAIN;
    finish->status = status;
    snprintf(finish->reason, sizeof(finish->reason), "%s", reason);
    va_start(args, format);
    vsnprintf(finish->message, sizeof(finish->message), format, args);
    va_end(args);
    d = board_decision(c, "end", "%s", finish->message);
    if (c->best.branch != BRANCH_NONE) {
        board_decision_number(d, "best_epoch", c->best.epoch);
        board_decision_number(d, "best_loss", c->best.loss);
        board_decision_number(d, "best_metric", c->best.metric);
    }
}

static void finish(struct board *c)
{
    struct record_run_finished *r;

    r = &board_record(c, RECORD_RUN_FINISHED)->run_finished;
    r->status = c->ending.finish.status;
    memcpy(r->reason, c->ending.finish.reason, sizeof(r->reason));
    memcpy(r->message, c->ending.finish.message, sizeof(r->message));
    r->waiting_s = c->waited_s;
    c->status = r->status;
    c->finished = true;
}

void board_lost(struct board *c, const char *reason)
{
    struct tuner_finish *f = &c->ending.finish;

    f->status = RUN_FAILED;
    snprintf(f->reason, sizeof(f->reason), "node_lost");
    snprintf(f->message, sizeof(f->message),
             "the training system was lost: %.400s", reason);
    finish(c);
    board_action(c, TUNER_FINISH)->finish = *f;
}

static void finish_now(struct board *c)
{
    struct msg *m;

    finish(c);
    m = board_send(c, MSG_STOP, BRANCH_NONE);
    memcpy(m->stop.reason, c->ending.finish.message,
           sizeof(c->ending.finish.message));
    board_action(c, TUNER_FINISH)->finish = c->ending.finish;
}

void board_violated(struct board *c, const char *what)
{
    struct tuner_finish *f = &c->ending.finish;

    f->status = RUN_FAILED;
    snprintf(f->reason, sizeof(f->reason), "protocol");
    snprintf(f->message, sizeof(f->message),
             "the training system broke the protocol: %.400s", what);
    finish_now(c);
}

void board_interrupted(struct board *c, const char *reason, const char *what)
{
    struct tuner_finish *f = &c->ending.finish;

    f->status = RUN_INTERRUPTED;
    snprintf(f->reason, sizeof(f->reason), "%s", reason);
    snprintf(f->message, sizeof(f->message), "%.400s", what);
    finish_now(c);
}

static bool slices_out(const struct board *c)
{
    for (uint32_t i = 0; i < c->ops; i++)
        if (c->op[i].kind == MSG_SCHEDULE || c->op[i].kind == MSG_FORK)
            return true;
    return false;
}

/* Makes room in memory for the last forks. */
static void free_the_rest(struct board *c)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        struct branch *b = &c->branch[i];

        if (b->state != BRANCH_LIVE && b->state != BRANCH_REFUSED)
            continue;
        if (b->id != 0 && b->id != c->base && b->id != c->best.branch &&
            b->id != c->ending.trial && !snapshots_need(c, b->id))
            board_free(c, b->id, RECORD_FREED_AT_END);
    }
}

/* Before `ready`, and before a resumed run goes on, there is nothing to write.
 */
static bool wants_snapshot(const struct board *c)
{
    return c->ready &&
           (c->resume.phase == RESUME_NOT || c->resume.phase == RESUME_OVER) &&
           (c->ending.finish.status == RUN_INTERRUPTED ||
            c->ending.finish.status == RUN_STOPPED);
}

/* Mean loss of what @b ran last; INFINITY where it is no model to be kept. */
static double last_loss(const struct branch *b)
{
    const struct trace_window *w;

    if (b->state != BRANCH_LIVE || b->type != BRANCH_TRAINING || b->nonfinite ||
        b->error || b->trace.len == 0)
        return INFINITY;
    w = &b->trace.window[b->trace.len - 1];
    return w->samples ? w->sum / (double)w->samples : INFINITY;
}

/* A run that ends within its first search has no epoch yet, but trials: the one
 * with the lowest loss is its model. */
static void choose_trial(struct board *c)
{
    const struct branch *base = ledger_branch(c, c->base), *best = NULL;
    struct record_setting_chosen *r;
    struct record_decision *d;

    if (c->best.branch != BRANCH_NONE || !base || base->type != BRANCH_INIT ||
        c->ending.finish.status == RUN_FAILED ||
        c->ending.finish.status == RUN_INTERRUPTED)
        return;
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        if (last_loss(&c->branch[i]) < (best ? last_loss(best) : INFINITY))
            best = &c->branch[i];
    if (!best)
        return;
    c->ending.trial = best->id;
    r = &board_record(c, RECORD_SETTING_CHOSEN)->setting_chosen;
    r->clock = best->first_clock;
    r->branch = best->id;
    r->setting = json_incref(best->json);
    snprintf(r->reason, sizeof(r->reason),
             "the best trial when the run ended within its first search");
    c->ending.loss = last_loss(best);
    d = board_decision(c, "model",
                       "the first search was not over: the model is that of "
                       "the best trial so far, without an epoch of its own");
    board_decision_number(d, "branch", best->id);
    board_decision_number(d, "loss", c->ending.loss);
    board_decision_number(d, "samples", (double)best->own_samples);
}

static void drain(struct board *c)
{
    board_cut(c, BRANCH_NONE);
    if (slices_out(c) || rows_adding(c))
        return;
    /* The branch to go on from must not be freed with the rest. */
    if (wants_snapshot(c) && c->snapshot.phase == SNAPSHOT_IDLE)
        snapshots_take(c);
    choose_trial(c);
    free_the_rest(c);
    c->ending.phase = ENDING_SNAPSHOT;
    c->ending.asked = false;
}

static void last_snapshot(struct board *c)
{
    if (c->snapshot.phase != SNAPSHOT_IDLE)
        return; /* one that was begun before is under way */
    if (wants_snapshot(c) && !c->ending.asked) {
        c->ending.asked = true;
        c->snapshot.wanted = true;
        snapshots_advance(c);
        if (c->snapshot.phase != SNAPSHOT_IDLE)
            return;
    }
    c->ending.phase = ENDING_MODEL;
    c->ending.asked = false;
}

/* The best model; before there is one, the state as it is, if it is fit to be
 * saved: then @kept may still have to be forked. */
static const struct branch *model_branch(struct board *c)
{
    struct branch *trial = ledger_branch(c, c->ending.trial);
    struct branch *base = trial ? trial : ledger_branch(c, c->base);

    if (c->best.branch != BRANCH_NONE)
        return ledger_branch(c, c->best.branch);
    if (c->ending.fork != BRANCH_NONE)
        return ledger_branch(c, c->ending.fork);
    if (c->ending.finish.status == RUN_FAILED || !base || base->nonfinite)
        return NULL;
    if (base->type != BRANCH_TRAINING)
        return base->type == BRANCH_KEPT ? base : NULL;
    return board_keep(c, base, "model");
}

static void save_model(struct board *c)
{
    const struct branch *b = NULL;
    struct msg *m;

    if (c->ending.asked)
        return;
    if (c->ending.finish.status != RUN_INTERRUPTED)
        b = model_branch(c);
    if (!b || b->state == BRANCH_REFUSED) {
        c->ending.phase = ENDING_OVER;
        return;
    }
    c->ending.fork = b->id;
    if (b->state != BRANCH_LIVE)
        return;
    board_set_status(c, RUN_SAVING, "the model is being saved");
    c->ending.asked = true;
    m = board_send(c, MSG_SAVE, b->id);
    m->save.branch = b->id;
    memcpy(m->save.path, c->model_dir, sizeof(m->save.path));
}

static void ending_advance(struct board *c)
{
    if (c->ending.phase == ENDING_DRAIN)
        drain(c);
    if (c->ending.phase == ENDING_SNAPSHOT)
        last_snapshot(c);
    if (c->ending.phase == ENDING_MODEL)
        save_model(c);
    if (c->ending.phase == ENDING_OVER && !c->finished)
        finish_now(c);
}

/* ---- time ---------------------------------------------------------------- */

/* From the first clock, or from when a search first waited for a suggestion.
 * Pauses do not count; during one it is not known. */
static double time_is_up(const struct board *c)
{
    if (!isnan(c->pause_began_s))
        return INFINITY;
    if (c->first_wait_s < c->first_clock_s)
        return c->first_wait_s + c->options.max_time_s + c->paused_s -
               c->wait_paused_s;
    return c->first_clock_s + c->options.max_time_s + c->paused_s -
           c->first_paused_s;
}

void board_tick(struct board *c)
{
    if (c->now_s >= c->retry_s)
        c->retry_s = INFINITY;
    if (c->now_s >= time_is_up(c))
        board_end(c, RUN_FINISHED, "max_time", "%g s are over",
                  c->options.max_time_s);
    if (c->snapshot.due_s == INFINITY && c->snapshot.phase == SNAPSHOT_IDLE &&
        !c->snapshot.wanted)
        c->snapshot.due_s = c->first_clock_s + c->options.snapshot_every_s;
    if (c->now_s >= c->snapshot.due_s) {
        c->snapshot.wanted = true;
        c->snapshot.due_s = INFINITY;
    }
}

void board_advance(struct board *c)
{
    snapshots_advance(c);
    if (c->ending.phase != ENDING_NOT)
        ending_advance(c);
}

double board_wake_at(const struct board *c)
{
    double at;

    if (c->finished || !c->ready)
        return INFINITY;
    at = c->retry_s;
    if (c->ending.phase == ENDING_NOT) {
        at = fmin(at, time_is_up(c));
        at = fmin(at, c->snapshot.due_s);
    }
    return at;
}
