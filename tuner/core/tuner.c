#include "tuner/core/tuner.h"

#include "base/deadlines.h"
#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/models.h"
#include "tuner/board/operations.h"
#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/board/slices.h"
#include "tuner/board/strategy.h"
#include "tuner/core/answers.h"
#include "tuner/core/ending.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/resume.h"
#include "tuner/core/rows.h"
#include "tuner/core/snapshots.h"
#include "tuner/core/steering.h"
#include "tuner/core/suggest.h"
#include "tuner/core/user_forks.h"
#include "tuner/core/waits.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct strategy_ops *const strategies_built_in[] = {
    &strategy_mltuner,  &strategy_fixed, &strategy_hyperband, &strategy_asha,
    &strategy_complete, &strategy_tupaq, &strategy_pbt,       NULL,
};

/* ---- actions ------------------------------------------------------------- */

void tuner_actions_reset(struct tuner_actions *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->item[i].kind == TUNER_SEND)
            msg_deinit(&a->item[i].message);
        else if (a->item[i].kind == TUNER_RECORD)
            record_deinit(&a->item[i].record);
        else if (a->item[i].kind == TUNER_ANSWER)
            mem_free(a->item[i].answer.value);
    }
    a->count = 0;
}

void tuner_actions_deinit(struct tuner_actions *a)
{
    tuner_actions_reset(a);
    mem_free(a->item);
    *a = (struct tuner_actions){0};
}

/* ---- life ---------------------------------------------------------------- */

static enum err check_options(const struct tuner_options *o, struct fault *f)
{
    assert(o->strategy);
    assert(o->space);
    if (o->plateau_epochs < 1 || o->max_epochs < 1 || o->snapshot_keep < 1)
        return fault_set(f, ERR_INVAL,
                         "plateau_epochs, max_epochs and snapshot.keep must be "
                         "at least 1");
    if (o->max_trials > TUNER_TRIALS_MAX)
        return fault_set(f, ERR_INVAL, "max_trials must be at most %d",
                         TUNER_TRIALS_MAX);
    if (strlen(o->snapshot_dir) + 24 >= PROTO_PATH_MAX ||
        strlen(o->model_dir) >= PROTO_PATH_MAX)
        return fault_set(f, ERR_INVAL, "a folder's name is too long");
    return ERR_OK;
}

static void deinit(struct board *c)
{
    steering_deinit(c);
    user_forks_deinit(c);
    suggest_deinit(c);
    resume_deinit(c);
    ending_deinit(c);
    rows_deinit(c);
    snapshots_deinit(c);
    answers_deinit(c);
    models_deinit(c);
    slices_deinit(c);
    branches_deinit(c);
    operations_deinit(c);
    run_deinit(c);
    outbox_deinit(c);
    clockwork_deinit(c);
}

/* Every part, each after those that it calls; where one fails the others are
 * not there yet. Errors: ERR_NOMEM. */
static enum err init(struct board *c, const struct tuner_options *o)
{
    return clockwork_init(c, o->resume, o->lost_s) || outbox_init(c) ||
                   run_init(c, o) || operations_init(c) || branches_init(c) ||
                   slices_init(c) || models_init(c) || answers_init(c) ||
                   snapshots_init(c) || rows_init(c) || ending_init(c) ||
                   resume_init(c) || suggest_init(c) || user_forks_init(c) ||
                   steering_init(c)
               ? ERR_NOMEM
               : ERR_OK;
}

enum err tuner_new(const struct tuner_options *options, struct tuner **out,
                   struct fault *f)
{
    enum err err = check_options(options, f);
    struct tuner *t;

    if (err)
        return err;
    t = mem_calloc(1, sizeof(*t));
    if (!t)
        return fault_set(f, ERR_NOMEM, "no memory for a tuner");
    t->board.owner = t;
    if (init(&t->board, options))
        err = fault_set(f, ERR_NOMEM, "no memory for a tuner");
    else
        err = options->strategy->open(&t->board, options->strategy_settings,
                                      &t->strategy, f);
    if (err) {
        deinit(&t->board);
        mem_free(t);
        return err;
    }
    steering_recall(&t->board);
    *out = t;
    return ERR_OK;
}

void tuner_free(struct tuner *t)
{
    if (!t)
        return;
    run_strategy(&t->board)->close(t->strategy);
    deinit(&t->board);
    mem_free(t);
}

bool tuner_ends(const struct tuner *t)
{
    return lifecycle_ends(&t->board);
}

/* There is a snapshot, or was: what was trained is not lost. */
static bool has_snapshot(const struct board *c)
{
    const struct history *h = board_history(c);

    return h && history_snapshots_len(h) > 0;
}

/* When the run's time ends it. While it waits for the training system to be
 * ready a pause has not begun, and there may be a model to be written still. */
static double time_is_up(const struct board *c)
{
    double at = clockwork_time_is_up(c, board_limits(c).max_time_s);
    double since_s = clockwork_now(c) - clockwork_tuner_s(c);

    if (run_begun(c) || isinf(at))
        return at;
    if (run_ready(c)) /* what was restored is about to be there */
        return has_snapshot(c) && !lifecycle_ends(c) ? INFINITY : at;
    if (clockwork_is_paused(c))
        return INFINITY;
    return has_snapshot(c) ? fmax(at, since_s + DEADLINE_LATE_READY_MS * 1e-3)
                           : at;
}

double tuner_wake_at(const struct tuner *t)
{
    const struct board *c = &t->board;
    double at;

    if (ending_finished(c))
        return INFINITY;
    if (!clockwork_begun(c))
        return -INFINITY;
    at = clockwork_retry_at(c);
    if (lifecycle_ends(c))
        return at;
    at = fmin(at, time_is_up(c));
    return run_ready(c) ? fmin(at, snapshots_due_at(c)) : at;
}

/* ---- what the training system says --------------------------------------- */

/* The configuration failed. A run that goes on keeps what it has, for when the
 * data are back; and so does one whose machine had no memory or no disk. */
static void load_failed(struct board *c, const struct msg_failed *m)
{
    const struct history *h = board_history(c);

    if ((h && history_started(h)) || err_may_pass(m->code))
        lifecycle_interrupted(c, "load_failed", m->reason);
    else
        lifecycle_end(c, RUN_FAILED, "load_failed", "%s", m->reason);
}

/* A system of ours has seen to it itself; a program of the user's may validate
 * by something else. */
static bool lacks_metric(const struct board *c, const struct msg_ready *m,
                         struct msg_failed *out)
{
    const char *wanted = run_options(c)->metric;
    bool validates = m->validation_samples > 0 && m->metric[0];

    if (!wanted || (validates && strcmp(wanted, m->metric) == 0))
        return false;
    *out = (struct msg_failed){.branch = BRANCH_NONE, .code = ERR_INVAL};
    snprintf(out->reason, sizeof(out->reason),
             "/metric: expected what the program validates by, %s, found "
             "\"%s\"",
             validates ? m->metric : "which is nothing", wanted);
    return true;
}

static enum err take_ready(struct board *c, const struct msg_ready *m,
                           struct fault *f)
{
    const struct history *h = board_history(c);
    struct msg_failed failed;

    if (run_ready(c))
        return fault_set(f, ERR_PROTO, "a second ready");
    if (m->samples == 0 || m->workers == 0)
        return fault_set(f, ERR_PROTO, "ready without samples or workers");
    if (lacks_metric(c, m, &failed)) {
        load_failed(c, &failed);
        return ERR_OK;
    }
    run_take_ready(c, m);
    if (h && history_started(h))
        clockwork_resume(c, h);
    steering_go_on(c);
    if (!resume_begin(c)) {
        run_record_started(c);
        if (run_options(c)->program)
            run_compare_tunables(c, m->tunables);
        run_begin(c);
    }
    if (!ending_finished(c)) /* by other data than the run began with */
        rows_tables(c, m->tables, m->data);
    return ERR_OK;
}

/* Errors: ERR_PROTO, @m does not answer @op. */
static enum err check_answer(struct board *c, const struct operation *op,
                             const struct msg *m, struct fault *f)
{
    const struct branch *b;

    if (!op)
        return fault_set(f, ERR_PROTO,
                         "%s answers operation %llu, which is not out",
                         msg_kind_name(m->kind), (unsigned long long)m->op);
    if (m->kind == MSG_FORKED && op->kind != MSG_FORK)
        return fault_set(f, ERR_PROTO, "operation %llu is no fork",
                         (unsigned long long)m->op);
    if (m->kind == MSG_DONE && op->kind == MSG_SCHEDULE &&
        m->done.clocks != op->reported)
        return fault_set(f, ERR_PROTO,
                         "slice of branch %u ran %llu clocks, but %llu were "
                         "reported",
                         op->branch, (unsigned long long)m->done.clocks,
                         (unsigned long long)op->reported);
    b = op->kind == MSG_FREE ? branches_any(c, op->branch) : NULL;
    if (b && b->slices > 0)
        return fault_set(f, ERR_PROTO,
                         "branch %u is said to be freed before its slices have "
                         "ended",
                         op->branch);
    return ERR_OK;
}

/* Gives what was carried out to the part that had asked for it. */
static void take_done(struct board *c, const struct operation *op,
                      const struct msg_done *m)
{
    if (op->kind == MSG_FORK || op->kind == MSG_RESTORE)
        branches_made(c, op->branch);
    else if (op->kind == MSG_FREE)
        branches_freed(c, op->branch);
    else if (op->kind == MSG_SCHEDULE)
        slices_ended(c, op, m);
    else if (op->kind == MSG_SNAPSHOT)
        snapshots_written(c, m);
    else if (op->kind == MSG_SAVE)
        ending_model_saved(c, m);
    else if (op->kind == MSG_ROWS)
        rows_done(c, op->id, m->data);
}

static void take_failed(struct board *c, const struct operation *op,
                        const struct msg_failed *m)
{
    if (op->kind == MSG_RESTORE)
        branches_note_failure(c, m->reason);
    if (op->kind == MSG_FORK || op->kind == MSG_RESTORE) {
        if (branches_refused(c, op->branch, m) && m->code == ERR_LIMIT)
            user_forks_make_room(c, board_branch(c, op->branch));
    } else if (op->kind == MSG_FREE) {
        branches_freed(c, op->branch);
    } else if (op->kind == MSG_SCHEDULE) {
        slices_failed(c, op, m);
    } else if (op->kind == MSG_SNAPSHOT) {
        snapshots_not_written(c, m->reason);
    } else if (op->kind == MSG_SAVE) {
        ending_model_not_saved(c, m);
    } else if (op->kind == MSG_ROWS) {
        rows_failed(c, op->id, m);
    }
}

static enum err take_answer(struct board *c, const struct msg *m,
                            struct fault *f)
{
    struct operation *out = operations_find(c, m->op), op;
    enum err err = check_answer(c, out, m, f);

    if (err)
        return err;
    op = operations_take(c, out);
    if (m->kind == MSG_FAILED)
        take_failed(c, &op, &m->failed);
    else if (m->kind == MSG_FORKED)
        branches_made(c, op.branch);
    else
        take_done(c, &op, &m->done);
    return ERR_OK;
}

static enum err take_message(struct board *c, const struct msg *m,
                             struct fault *f)
{
    switch (m->kind) {
    case MSG_READY:
        return take_ready(c, &m->ready, f);
    case MSG_FORKED:
    case MSG_DONE:
        return take_answer(c, m, f);
    case MSG_FAILED:
        if (m->op == TUNER_CONFIG_OP)
            load_failed(c, &m->failed);
        else if (m->op != 0)
            return take_answer(c, m, f);
        else
            ending_lost(c, false, m->failed.reason);
        return ERR_OK;
    case MSG_REPORT:
        return slices_report(c, &m->report, f);
    case MSG_BEAT:
        if (m->beat.node < NODES_MAX) /* the last ones of a run are all worth
                                       * a record */
            run_take_beat(c, &m->beat, lifecycle_ends(c));
        return ERR_OK;
    default:
        return ERR_OK; /* hello: the shell's */
    }
}

/* ---- steps --------------------------------------------------------------- */

/* All that the step itself needs, before it changes anything. */
static enum err reserve(struct board *c, const struct tuner_event *event,
                        struct tuner_actions *out)
{
    assert(out->count == 0);
    if (out->capacity < TUNER_ACTIONS_MAX &&
        mem_grow((void **)&out->item, &out->capacity, sizeof(*out->item),
                 TUNER_ACTIONS_MAX))
        return ERR_NOMEM;
    if (event->kind == TUNER_EVENT_MESSAGE &&
        event->message->kind == MSG_REPORT)
        return slices_reserve(c, &event->message->report);
    return ERR_OK;
}

static enum err take_event(struct board *c, const struct tuner_event *event,
                           struct fault *f)
{
    switch (event->kind) {
    case TUNER_EVENT_MESSAGE:
        return take_message(c, event->message, f);
    case TUNER_EVENT_LOST:
        ending_lost(c, event->program, event->reason);
        return ERR_OK;
    case TUNER_EVENT_FULL:
        lifecycle_end(c, RUN_INTERRUPTED, "limit", "%.400s", event->reason);
        return ERR_OK;
    case TUNER_EVENT_COMMAND:
        answers_take(c, event->ticket);
        steering_take(c, event);
        return ERR_OK;
    case TUNER_EVENT_TIMER:
        break;
    }
    return ERR_OK;
}

/* Of a run that ends before it was ready, for people. */
static const char *what_is_left(const struct board *c)
{
    const struct history *h = board_history(c);

    if (has_snapshot(c))
        return "no model was written; `mltune save` makes one of the last "
               "snapshot";
    return h && history_trials_made(h) > 0 ? "it was lost with what its trials "
                                             "had come to, and there is no "
                                             "snapshot"
                                           : "nothing was trained";
}

/* The end of the run's time, snapshots that are due. */
static void take_time(struct board *c)
{
    double max_s = board_limits(c).max_time_s;

    clockwork_retry_take(c);
    if (clockwork_now(c) < time_is_up(c))
        ;
    else if (run_ready(c))
        lifecycle_end(c, RUN_FINISHED, "max_time", "%g s are over", max_s);
    else
        lifecycle_end(c, RUN_FAILED, "max_time",
                      "%g s are over, and the training system is not ready: %s",
                      max_s, what_is_left(c));
    if (run_ready(c))
        snapshots_tick(c);
}

/* Whoever waits for memory asks for another step; with nothing out, that may be
 * for ever. */
static void look_for_want(struct board *c)
{
    if (clockwork_wants(c, operations_any(c)) < DEADLINE_MEMORY_MS * 1e-3 ||
        ending_finished(c))
        return;
    lifecycle_interrupted(c, err_name(ERR_NOMEM),
                          "the tuner had no memory to go on for a minute");
}

static void advance(struct board *c)
{
    if (ending_finished(c))
        return;
    steering_advance(c);
    take_time(c);
    /* A paused run is read back too: it may be stopped as it is. */
    if (run_ready(c) && !lifecycle_ends(c))
        resume_advance(c);
    if (run_begun(c) && !lifecycle_ends(c)) {
        suggest_advance(c);
        user_forks_advance(c);
        if (!clockwork_is_paused(c) && !lifecycle_ends(c))
            run_strategy(c)->advance(c->owner->strategy);
    }
    rows_advance(c);
    if (lifecycle_ends(c)) {
        user_forks_end(c);
        rows_end(c);
    }
    snapshots_advance(c);
    ending_advance(c);
    look_for_want(c);
    waits_check(c);
}

struct tuner_wait tuner_waits(const struct tuner *t)
{
    return waits_for(&t->board, tuner_wake_at(t));
}

enum err tuner_step(struct tuner *t, const struct tuner_event *event,
                    struct tuner_actions *out)
{
    struct board *c = &t->board;
    struct fault fault = {0};
    enum err err;

    if (ending_finished(c))
        return ERR_OK;
    err = reserve(c, event, out);
    if (err)
        return err;
    clockwork_step(c, event->now_s, event->step_s);
    outbox_open(c, out);
    user_forks_step(c);
    err = take_event(c, event, &fault);
    if (err == ERR_PROTO)
        ending_violated(c, fault.text);
    advance(c);
    outbox_close(c);
    return err;
}
