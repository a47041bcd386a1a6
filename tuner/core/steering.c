#include "tuner/core/steering.h"

#include "base/commands/commands.h"
#include "base/mem.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/run.h"
#include "tuner/board/slices.h"
#include "tuner/board/strategy.h"
#include "tuner/core/answers.h"
#include "tuner/core/ending.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/rows.h"
#include "tuner/core/snapshots.h"
#include "tuner/core/suggest.h"
#include "tuner/core/user_forks.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct steering {
    bool retune_wanted; /* a search, at the next end of an epoch */
    bool unpauses;      /* who resumes the paused run lets it go on */
};

enum err steering_init(struct board *c)
{
    assert(!c->owner->steering);
    c->owner->steering = mem_calloc(1, sizeof(*c->owner->steering));
    return c->owner->steering ? ERR_OK : ERR_NOMEM;
}

void steering_deinit(struct board *c)
{
    mem_free(c->owner->steering);
    c->owner->steering = NULL;
}

/* ---- answers ------------------------------------------------------------- */

/* Tells the journal and the feed what has changed. */
static void journal(struct board *c, enum command_id command, const char *text)
{
    const char *name = command_of(command)->name;
    struct record_command *r = board_record_command(c);

    snprintf(r->command, sizeof(r->command), "%s", name);
    r->paused = clockwork_is_paused(c);
    r->retune = c->owner->steering->retune_wanted;
    r->limits = board_limits(c);
    board_decision(c, name, "%s", text);
}

/* Journals the change and tells who asked. */
static void accept(struct board *c, enum command_id command, const char *text)
{
    journal(c, command, text);
    answers_give(c, ERR_OK, true, "%s", text);
}

/* ---- pause and continue -------------------------------------------------- */

static void take_pause(struct board *c)
{
    if (clockwork_is_paused(c)) {
        answers_give(c, ERR_OK, false, "the run is paused already");
        return;
    }
    clockwork_pause(c);
    c->owner->steering->unpauses = false;
    accept(c, COMMAND_PAUSE,
           "the user pauses the run: what runs is cut short, nothing else "
           "begins");
}

static void take_continue(struct board *c, const struct command_continue *want)
{
    char text[RECORD_TEXT_MAX];
    bool stood = clockwork_stands_still(c);
    double paused_s;

    if (want->other_data) {
        answers_give(c, ERR_UNSUPPORTED, false,
                     "the run is under way and has its data: others can be "
                     "taken where it is begun again");
        return;
    }
    if (!clockwork_is_paused(c)) {
        answers_give(c, ERR_OK, false, "the run is not paused");
        return;
    }
    paused_s = clockwork_continue(c);
    if (stood)
        board_set_status(c, run_status_unpaused(c), "continued by the user");
    snprintf(text, sizeof(text),
             "the user lets the run go on: it was paused for %.3g s, which do "
             "not count as its time",
             paused_s);
    accept(c, COMMAND_CONTINUE, text);
}

void steering_advance(struct board *c)
{
    if (!clockwork_is_paused(c) || !run_ready(c) || lifecycle_ends(c))
        return;
    slices_cut_training(c, UINT64_MAX);
    if (slices_out(c) > 0 || clockwork_stands_still(c))
        return;
    clockwork_stand_still(c);
    board_set_status(c, RUN_PAUSED, "paused by the user");
}

/* ---- re-tune, snapshot --------------------------------------------------- */

bool lifecycle_retune_wanted(const struct board *c)
{
    return c->owner->steering->retune_wanted;
}

void lifecycle_retune_begins(struct board *c)
{
    c->owner->steering->retune_wanted = false;
}

/* Whether any tunable may change in a re-tune. */
static bool may_retune(const struct board *c)
{
    struct space space;
    struct setting setting;

    space_copy(&space, board_space(c));
    space_default(&space, &setting);
    space_pin_for_retune(&space, &setting);
    return board_searcher(c) && space_dims(&space) > 0;
}

static void take_retune(struct board *c)
{
    const struct strategy_ops *ops = run_strategy(c);

    if (!ops->retunes)
        answers_give(c, ERR_UNSUPPORTED, false, "strategy %s does not re-tune",
                     ops->name);
    else if (!may_retune(c))
        answers_give(c, ERR_UNSUPPORTED, false,
                     "there is nothing to tune: every tunable is fixed, or has "
                     "\"retune\": false");
    else if (c->owner->steering->retune_wanted)
        answers_give(c, ERR_OK, false,
                     "a search begins at the next end of an epoch already");
    else {
        c->owner->steering->retune_wanted = true;
        accept(c, COMMAND_RETUNE,
               "the user asks for a search: it begins at the next end of an "
               "epoch of training");
    }
}

static void take_snapshot(struct board *c)
{
    if (!run_ready(c)) {
        answers_give(
            c, ERR_AGAIN, false,
            "the training system is still loading: there is nothing to "
            "write yet");
        return;
    }
    if (snapshots_wanted(c)) {
        answers_give(c, ERR_OK, false, "a snapshot is under way already");
        return;
    }
    snapshots_want(c);
    board_decision(c, "snapshot", "the user asks for a snapshot");
    answers_give(
        c, ERR_OK, true,
        "a snapshot is written, if anything has changed since the last "
        "one");
}

/* ---- limits -------------------------------------------------------------- */

struct limit {
    const char *name;
    double value; /* new; NAN and INFINITY: none */
    double before;
};

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Appends what of @l changes to the sentence @text; true if it does. Numbers
 * have the digits that a person has typed, counts all of theirs. */
static bool describe(const struct limit *l, char *text, size_t size)
{
    size_t n = strlen(text);

    if (same(l->value, l->before))
        return false;
    n += (size_t)snprintf(text + n, size - n, "%s %s ", n ? "," : "", l->name);
    if (isfinite(l->value))
        n += (size_t)snprintf(text + n, size - n, "%.15g", l->value);
    else
        n += (size_t)snprintf(text + n, size - n, "none");
    if (isfinite(l->before))
        snprintf(text + n, size - n, " (was %.15g)", l->before);
    else
        snprintf(text + n, size - n, " (was none)");
    return true;
}

static void take_limits(struct board *c, const struct command_limits *patch)
{
    const struct record_limits is = board_limits(c);
    struct record_limits to = is;
    char list[RECORD_TEXT_MAX - 64] = "", text[RECORD_TEXT_MAX];
    bool changed = false;

    assert(patch);
    if (patch->set & LIMIT_TARGET_LOSS)
        to.target_loss = patch->to.target_loss;
    if (patch->set & LIMIT_TARGET_METRIC)
        to.target_metric = patch->to.target_metric;
    if (patch->set & LIMIT_MAX_TIME)
        to.max_time_s = patch->to.max_time_s;
    if (patch->set & LIMIT_PLATEAU_EPOCHS)
        to.plateau_epochs = patch->to.plateau_epochs;
    if (patch->set & LIMIT_MAX_EPOCHS)
        to.max_epochs = patch->to.max_epochs;
    const struct limit limits[] = {
        {"target_loss", to.target_loss, is.target_loss},
        {"target_metric", to.target_metric, is.target_metric},
        {"max_time", to.max_time_s, is.max_time_s},
        {"plateau_epochs", to.plateau_epochs, is.plateau_epochs},
        {"max_epochs", to.max_epochs, is.max_epochs},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        changed |= describe(&limits[i], list, sizeof(list));
    if (!changed) {
        answers_give(c, ERR_OK, false, "the limits are these already");
        return;
    }
    run_set_limits(c, &to);
    snprintf(text, sizeof(text), "the user sets%s", list);
    accept(c, COMMAND_LIMITS, text);
}

/* ---- commands ------------------------------------------------------------ */

/* A stop now would end the run without the model that its snapshot has. */
static bool reads_snapshot(const struct board *c)
{
    const struct history *h = board_history(c);

    return h && history_snapshots_len(h) > 0 && !run_begun(c);
}

/* Whether there is, or soon will be, anything that a model could be made of. */
static bool trains(const struct board *c)
{
    return slices_out(c) > 0 || board_base(c) != 0 ||
           board_best(c)->branch != BRANCH_NONE || branches_trained(c);
}

static void take_stop(struct board *c)
{
    bool writes = trains(c);

    if (reads_snapshot(c)) {
        answers_give(
            c, ERR_AGAIN, false,
            "the run's snapshot is still being read: a stop now would lose "
            "its model; try again when the run goes on");
        return;
    }
    lifecycle_end(c, RUN_STOPPED, "stopped", "stopped by the user");
    answers_give(c, ERR_OK, true,
                 writes
                     ? "the run ends: a snapshot and the best model are written"
                     : "the run ends: nothing is trained yet, so there is no "
                       "model to write");
}

static void take_interrupt(struct board *c)
{
    bool writes = trains(c) && !reads_snapshot(c);

    lifecycle_end(c, RUN_INTERRUPTED, "interrupted", "interrupted by the user");
    answers_give(c, ERR_OK, true,
                 writes
                     ? "the run is interrupted: a snapshot is written"
                     : "the run is interrupted: there is nothing new to write");
}

void steering_take(struct board *c, const struct tuner_event *event)
{
    enum command_id command = event->command;

    assert(event->kind == TUNER_EVENT_COMMAND);
    assert(event->args || !command_of(command)->args);
    if (lifecycle_ends(c)) {
        bool same = command == COMMAND_STOP || command == COMMAND_INTERRUPT;

        answers_give(c, same ? ERR_OK : ERR_CANCELED, false,
                     "the run is ending already: %.400s", ending_message(c));
        return;
    }
    switch (command) {
    case COMMAND_STOP:
        take_stop(c);
        return;
    case COMMAND_INTERRUPT:
        take_interrupt(c);
        return;
    case COMMAND_PAUSE:
        take_pause(c);
        return;
    case COMMAND_CONTINUE:
        take_continue(c, &event->args->go_on);
        return;
    case COMMAND_RETUNE:
        take_retune(c);
        return;
    case COMMAND_SNAPSHOT:
        take_snapshot(c);
        return;
    case COMMAND_LIMITS:
        take_limits(c, &event->args->limits);
        return;
    case COMMAND_FORK:
        user_forks_fork(c, &event->args->fork);
        return;
    case COMMAND_PROMOTE:
        user_forks_promote(c, event->args->fork.branch);
        return;
    case COMMAND_FREE:
        user_forks_free(c, event->args->fork.branch);
        return;
    case COMMAND_SUGGEST:
        suggest_take(c, &event->args->suggest, event->key);
        return;
    case COMMAND_READ:
        rows_read(c, &event->args->rows);
        return;
    case COMMAND_ADD:
        rows_add(c, &event->args->rows);
        return;
    case COMMAND_SUBMIT: /* the service's */
    case COMMAND_VALIDATE:
    case COMMAND_DELETE:
    case COMMAND_NOTE:
    case COMMAND_UPLOAD:
    case COMMAND_UPLOADED:
    case COMMAND_WITHDRAW:
    case COMMAND_DATA:
    case COMMAND_COUNT:
        break;
    }
    assert(!"no such command");
}

/* ---- after a loss -------------------------------------------------------- */

void steering_recall(struct board *c)
{
    const struct history *h = board_history(c);
    bool resumed_by_user = run_options(c)->restarts == 0;

    assert(!run_ready(c));
    if (!h)
        return;
    c->owner->steering->retune_wanted = history_retune_wanted(h);
    /* A journal may be damaged: what no run has is not taken over. */
    if (history_limits(h)->max_epochs > 0 &&
        history_limits(h)->plateau_epochs > 0 &&
        history_limits(h)->max_time_s > 0)
        run_set_limits(c, history_limits(h));
    if (history_pause_wanted(h) && !resumed_by_user)
        clockwork_pause(c);
    c->owner->steering->unpauses = history_pause_wanted(h) && resumed_by_user;
}

void steering_go_on(struct board *c)
{
    assert(run_ready(c));
    if (c->owner->steering->unpauses)
        journal(c, COMMAND_CONTINUE,
                "the run was paused: who resumes it lets it go on");
    c->owner->steering->unpauses = false;
}
