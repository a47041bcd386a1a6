#include "tuner/core/ending.h"

#include "base/mem.h"
#include "base/text.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/rows.h"
#include "tuner/core/snapshots.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MODEL_TRIES_MAX = 4 }; /* 1, 2 and 4 s apart */

struct ending {
    enum {
        ENDING_NOT, /* running */
        ENDING_DRAIN,
        ENDING_SNAPSHOT,
        ENDING_MODEL,
        ENDING_UNSAVED, /* a snapshot instead of the model */
        ENDING_OVER
    } phase;
    bool asked;    /* the phase's operation is under way */
    bool again;    /* it had ended before a resume: there is no strategy */
    int tries;     /* to write the model, that failed */
    double next_s; /* when it is tried again */
    char trouble[RECORD_TEXT_MAX]; /* why it was not written */
    bool finished;                 /* after FINISH */
    struct tuner_finish finish;
    branch_id fork;  /* for the snapshot or the model */
    branch_id trial; /* the run's model where it has made no epoch; or
                      * BRANCH_NONE */
    double loss;     /* of that */
};

enum err ending_init(struct board *c)
{
    struct ending *e = mem_calloc(1, sizeof(*e));

    assert(!c->owner->ending);
    if (!e)
        return ERR_NOMEM;
    e->fork = e->trial = BRANCH_NONE;
    e->loss = NAN;
    c->owner->ending = e;
    return ERR_OK;
}

void ending_deinit(struct board *c)
{
    mem_free(c->owner->ending);
    c->owner->ending = NULL;
}

bool lifecycle_ends(const struct board *c)
{
    return c->owner->ending->phase != ENDING_NOT;
}

bool ending_finished(const struct board *c)
{
    return c->owner->ending->finished;
}

const char *ending_message(const struct board *c)
{
    return c->owner->ending->finish.message;
}

/* ---- the model ----------------------------------------------------------- */

void ending_model_saved(struct board *c, const struct msg_done *m)
{
    struct record_model_saved *r = board_record_model_saved(c);
    const struct best *best = board_best(c);

    assert(c->owner->ending->phase == ENDING_MODEL);
    assert(c->owner->ending->asked);
    r->branch = c->owner->ending->fork;
    r->epoch = best->epoch;
    r->loss = best->branch == BRANCH_NONE ? c->owner->ending->loss : best->loss;
    r->metric = best->branch == BRANCH_NONE ? NAN : best->metric;
    r->bytes = m->bytes;
    r->data = json_incref(m->data);
    snprintf(r->path, sizeof(r->path), "%s", run_options(c)->model_dir);
    c->owner->ending->phase = ENDING_OVER;
}

/* One try failed, for @reason. */
static void not_saved(struct board *c, const char *reason)
{
    struct ending *e = c->owner->ending;
    double wait_s = ldexp(1, e->tries);

    assert(e->phase == ENDING_MODEL);
    e->asked = false;
    snprintf(e->trouble, sizeof(e->trouble), "%.300s", reason);
    if (++e->tries == MODEL_TRIES_MAX) {
        snapshots_end(c, &e->finish);
        e->phase = ENDING_UNSAVED;
        return;
    }
    board_decision(c, "model",
                   "the model was not saved, and is tried again in %g s: %s",
                   wait_s, e->trouble);
    e->next_s = clockwork_now(c) + wait_s;
    board_retry_after(c, wait_s);
}

void ending_model_not_saved(struct board *c, const struct msg_failed *m)
{
    assert(c->owner->ending->asked);
    not_saved(c, m->reason);
}

/* The model is in a snapshot, or the run goes on from the one before. */
static void keep_the_end(struct board *c)
{
    struct ending *e = c->owner->ending;

    if (snapshots_busy(c))
        return;
    if (!e->asked && !snapshots_end_written(c) && e->fork != BRANCH_NONE) {
        e->asked = true;
        snapshots_take_end(c, e->fork);
        snapshots_want(c);
        snapshots_advance(c);
        if (snapshots_busy(c))
            return;
    }
    e->finish.status = RUN_INTERRUPTED;
    snprintf(e->finish.reason, sizeof(e->finish.reason), "not_saved");
    snprintf(e->finish.message, sizeof(e->finish.message),
             "trained, not saved: the model could not be written in %d tries: "
             "%.240s; make room for it, then resume the run: %s",
             MODEL_TRIES_MAX, e->trouble,
             snapshots_end_written(c)
                 ? "only the model is written then"
                 : "it goes on from its last snapshot, since no further one "
                   "could be written either");
    e->phase = ENDING_OVER;
}

/* ---- the end ------------------------------------------------------------- */

/* The end begins, of which @told says what it is; the first one counts. */
static void end_begins(struct board *c, const struct tuner_finish *told)
{
    struct tuner_finish *finish = &c->owner->ending->finish;
    const struct best *best = board_best(c);
    struct record_decision *d;

    assert(run_status_is_end(told->status));
    if (c->owner->ending->phase != ENDING_NOT)
        return;
    c->owner->ending->phase = ENDING_DRAIN;
    *finish = *told;
    if (finish->status == RUN_FINISHED || finish->status == RUN_STOPPED)
        snapshots_end(c, finish);
    d = board_decision(c, "end", "%s", finish->message);
    if (best->branch != BRANCH_NONE) {
        board_decision_number(d, "best_epoch", best->epoch);
        board_decision_number(d, "best_loss", best->loss);
        board_decision_number(d, "best_metric", best->metric);
    }
}

void lifecycle_end(struct board *c, enum run_status status, const char *reason,
                   const char *format, ...)
{
    struct tuner_finish told = c->owner->ending->finish;
    va_list args;

    assert(run_reason_is_known(reason));
    told.status = status;
    snprintf(told.reason, sizeof(told.reason), "%s", reason);
    va_start(args, format);
    vsnprintf(told.message, sizeof(told.message), format, args);
    va_end(args);
    text_to_utf8(told.message);
    end_begins(c, &told);
}

void lifecycle_refused(struct board *c, enum err err, bool came_on,
                       const char *what)
{
    assert(err);
    if (err_may_pass(err))
        lifecycle_end(c, RUN_INTERRUPTED, err_name(err), "no memory for %s: %s",
                      what, err_text(err));
    else
        lifecycle_end(c, came_on ? RUN_INTERRUPTED : RUN_FAILED, "limit",
                      "no memory for %s: %s; raise memory.limit", what,
                      err_text(err));
}

/* What a snapshot says of the end may be of a newer mltune. */
void ending_again(struct board *c, const struct tuner_finish *end)
{
    assert(!lifecycle_ends(c));
    c->owner->ending->again = true;
    snapshots_end_restored(c);
    end_begins(c, end);
}

static void finish(struct board *c)
{
    struct record_run_finished *r;

    assert(!c->owner->ending->finished);
    r = board_record_run_finished(c);
    r->status = c->owner->ending->finish.status;
    memcpy(r->reason, c->owner->ending->finish.reason, sizeof(r->reason));
    memcpy(r->message, c->owner->ending->finish.message, sizeof(r->message));
    r->waiting_s = board_waited_s(c);
    r->last_words_node = UINT32_MAX; /* the shell's to know */
    run_set_over(c, r->status);
    c->owner->ending->finished = true;
}

void ending_lost(struct board *c, bool program, const char *reason)
{
    struct tuner_finish *f = &c->owner->ending->finish;

    f->status = program ? RUN_FAILED : RUN_INTERRUPTED;
    snprintf(f->reason, sizeof(f->reason), "%s",
             program ? "program_failed" : "node_lost");
    snprintf(f->message, sizeof(f->message), "%s: %.400s",
             program ? "the program failed" : "the training system was lost",
             reason);
    finish(c);
    outbox_add(c, TUNER_FINISH)->finish = *f;
}

static void finish_now(struct board *c)
{
    finish(c);
    memcpy(operations_send_stop(c)->reason, c->owner->ending->finish.message,
           sizeof(c->owner->ending->finish.message));
    outbox_add(c, TUNER_FINISH)->finish = c->owner->ending->finish;
}

void ending_violated(struct board *c, const char *what)
{
    struct tuner_finish *f = &c->owner->ending->finish;

    f->status = run_options(c)->program ? RUN_FAILED : RUN_INTERRUPTED;
    snprintf(f->reason, sizeof(f->reason), "protocol");
    snprintf(f->message, sizeof(f->message),
             "the training system broke the protocol: %.400s", what);
    finish_now(c);
}

void lifecycle_interrupted(struct board *c, const char *reason,
                           const char *what)
{
    struct tuner_finish *f = &c->owner->ending->finish;

    f->status = RUN_INTERRUPTED;
    snprintf(f->reason, sizeof(f->reason), "%s", reason);
    snprintf(f->message, sizeof(f->message), "%.400s", what);
    finish_now(c);
}

/* Makes room in memory for the last forks. */
static void free_the_rest(struct board *c)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        const struct branch *b = branches_slot(c, i);

        if (!b || (b->state != BRANCH_LIVE && b->state != BRANCH_REFUSED))
            continue;
        if (b->id != 0 && b->id != board_base(c) &&
            b->id != board_best(c)->branch &&
            b->id != c->owner->ending->trial && !snapshots_need(c, b->id))
            board_free(c, b->id, RECORD_FREED_AT_END);
    }
}

/* Before `ready`, and before a resumed run goes on, there is nothing to write.
 */
static bool wants_snapshot(const struct board *c)
{
    return run_begun(c) && !c->owner->ending->again &&
           (c->owner->ending->finish.status == RUN_INTERRUPTED ||
            c->owner->ending->finish.status == RUN_STOPPED);
}

/* Mean loss of what @b ran last; INFINITY where it (NULL: none) is no model to
 * be kept. */
static double last_loss(const struct branch *b)
{
    const struct trace_window *w;

    if (!b || b->state != BRANCH_LIVE || b->type != BRANCH_TRAINING ||
        b->nonfinite || b->error || b->trace.len == 0)
        return INFINITY;
    w = &b->trace.window[b->trace.len - 1];
    return w->samples ? w->sum / (double)w->samples : INFINITY;
}

/* A run that ends within its first search has no epoch yet, but trials: the one
 * with the lowest loss is its model. */
static void choose_trial(struct board *c)
{
    const struct branch *base = board_branch(c, board_base(c)), *best = NULL;
    struct record_setting_chosen *r;
    struct record_decision *d;

    if (board_best(c)->branch != BRANCH_NONE || !base ||
        base->type != BRANCH_INIT ||
        c->owner->ending->finish.status == RUN_FAILED ||
        c->owner->ending->finish.status == RUN_INTERRUPTED)
        return;
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        if (last_loss(branches_slot(c, i)) < last_loss(best))
            best = branches_slot(c, i);
    if (!best)
        return;
    c->owner->ending->trial = best->id;
    r = board_record_setting_chosen(c);
    r->clock = best->first_clock;
    r->branch = best->id;
    r->setting = json_incref(best->json);
    snprintf(r->reason, sizeof(r->reason),
             "the best trial when the run ended within its first search");
    c->owner->ending->loss = last_loss(best);
    d = board_decision(c, "model",
                       "the first search was not over: the model is that of "
                       "the best trial so far, without an epoch of its own");
    board_decision_number(d, "branch", best->id);
    board_decision_number(d, "loss", c->owner->ending->loss);
    board_decision_number(d, "samples", (double)best->own_samples);
}

static void drain(struct board *c)
{
    board_cut(c, BRANCH_NONE);
    if (operations_work(c) || rows_adding(c))
        return;
    /* The branch to go on from must not be freed with the rest: where an
     * earlier snapshot is under way, the last one is taken when that is
     * written. */
    if (wants_snapshot(c)) {
        if (snapshots_busy(c))
            return;
        snapshots_take(c);
    }
    choose_trial(c);
    free_the_rest(c);
    c->owner->ending->phase = ENDING_SNAPSHOT;
    c->owner->ending->asked = false;
}

static void last_snapshot(struct board *c)
{
    if (snapshots_busy(c))
        return; /* one that was begun before is under way */
    if (wants_snapshot(c) && !c->owner->ending->asked) {
        c->owner->ending->asked = true;
        snapshots_want(c);
        snapshots_advance(c);
        if (snapshots_busy(c))
            return;
    }
    snapshots_want_none(c);
    c->owner->ending->phase = ENDING_MODEL;
    c->owner->ending->asked = false;
}

/* The best model; before there is one, the state as it is, if it is fit to be
 * saved: then @kept may still have to be forked. */
static const struct branch *model_branch(struct board *c)
{
    const struct branch *trial = board_branch(c, c->owner->ending->trial);
    const struct branch *base = trial ? trial : board_branch(c, board_base(c));

    if (board_best(c)->branch != BRANCH_NONE)
        return board_branch(c, board_best(c)->branch);
    if (c->owner->ending->fork != BRANCH_NONE)
        return board_branch(c, c->owner->ending->fork);
    if (c->owner->ending->finish.status == RUN_FAILED || !base ||
        base->nonfinite)
        return NULL;
    if (base->type != BRANCH_TRAINING)
        return base->type == BRANCH_KEPT ? base : NULL;
    return board_keep(c, base, "model");
}

/* It was trained, and there is no copy of what it was: none could be kept (no
 * memory, no metric), and then its branch was lost. From its last
 * snapshot, or from its beginning, the run can go on. What `max_time` ends may
 * have no model yet, and would be ended again. */
static void no_model(struct board *c)
{
    struct tuner_finish *f = &c->owner->ending->finish;

    c->owner->ending->phase = ENDING_OVER;
    if (f->status != RUN_FINISHED || strcmp(f->reason, "max_time") == 0)
        return;
    f->status = RUN_INTERRUPTED;
    snprintf(f->reason, sizeof(f->reason), "not_saved");
    snprintf(f->message, sizeof(f->message),
             "trained, not saved: no copy of the model could be kept, and its "
             "branch was lost; see the run's log for why, then resume the run");
}

static void save_model(struct board *c)
{
    const struct branch *b = NULL;

    if (c->owner->ending->asked)
        return;
    if (clockwork_now(c) < c->owner->ending->next_s) {
        board_retry_after(c, c->owner->ending->next_s - clockwork_now(c));
        return;
    }
    if (c->owner->ending->finish.status != RUN_INTERRUPTED)
        b = model_branch(c);
    if (!b) {
        no_model(c);
        return;
    }
    /* All else is freed: a copy may be had soon. */
    if (b->state == BRANCH_REFUSED) {
        board_free(c, b->id, "refused");
        c->owner->ending->fork = BRANCH_NONE;
        not_saved(c, "no memory for a copy of the model");
        return;
    }
    c->owner->ending->fork = b->id;
    if (b->state != BRANCH_LIVE)
        return;
    board_set_status(c, RUN_SAVING, "the model is being saved");
    c->owner->ending->asked = true;
    snprintf(operations_send_path(c, MSG_SAVE, b->id)->path, PROTO_PATH_MAX,
             "%s", run_options(c)->model_dir);
}

void ending_advance(struct board *c)
{
    if (c->owner->ending->phase == ENDING_DRAIN)
        drain(c);
    if (c->owner->ending->phase == ENDING_SNAPSHOT)
        last_snapshot(c);
    if (c->owner->ending->phase == ENDING_MODEL)
        save_model(c);
    if (c->owner->ending->phase == ENDING_UNSAVED)
        keep_the_end(c);
    if (c->owner->ending->phase == ENDING_OVER && !c->owner->ending->finished)
        finish_now(c);
}
