#include "tuner/board/tuner.h"

#include "base/mem.h"
#include "tuner/board/board_state.h"
#include "tuner/board/byhand.h"
#include "tuner/board/resume.h"
#include "tuner/board/rows.h"
#include "tuner/board/steering.h"
#include "tuner/board/strategy.h"
#include "tuner/board/suggest.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tuner {
    struct board board;
    struct byhand hand;
    struct suggest suggest;
    struct rows rows;
};

const struct strategy_ops *const strategies_built_in[] = {
    &strategy_mltuner, &strategy_fixed,    &strategy_hyperband,
    &strategy_asha,    &strategy_complete, NULL,
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

enum err tuner_new(const struct tuner_options *options, struct tuner **out,
                   struct fault *f)
{
    enum err err = check_options(options, f);
    struct tuner *t;

    if (err)
        return err;
    t = mem_alloc(sizeof(*t));
    if (!t)
        return fault_set(f, ERR_NOMEM, "no memory for a tuner");
    err = board_init(&t->board, options, f);
    if (err)
        goto free_tuner;
    byhand_init(&t->hand, &t->board);
    suggest_init(&t->suggest, &t->board);
    rows_init(&t->rows, &t->board);
    err = options->strategy->open(&t->board, options->strategy_settings,
                                  &t->board.strategy, f);
    if (err)
        goto deinit_board;
    steering_recall(&t->board);
    *out = t;
    return ERR_OK;

deinit_board:
    board_deinit(&t->board);
free_tuner:
    mem_free(t);
    return err;
}

void tuner_free(struct tuner *t)
{
    if (!t)
        return;
    t->board.options.strategy->close(t->board.strategy);
    suggest_deinit(&t->suggest);
    board_deinit(&t->board);
    mem_free(t);
}

bool tuner_finished(const struct tuner *t)
{
    return t->board.finished;
}

double tuner_wake_at(const struct tuner *t)
{
    return board_wake_at(&t->board);
}

/* ---- steps --------------------------------------------------------------- */

static enum err reserve(struct tuner_actions *out)
{
    assert(out->count == 0);
    if (out->capacity >= TUNER_ACTIONS_MAX)
        return ERR_OK;
    if (mem_grow((void **)&out->item, &out->capacity, sizeof(*out->item),
                 TUNER_ACTIONS_MAX))
        return ERR_NOMEM;
    return ERR_OK;
}

static enum err take_event(struct board *c, const struct tuner_event *event,
                           struct fault *f)
{
    switch (event->kind) {
    case TUNER_EVENT_MESSAGE:
        return board_message(c, event->message, f);
    case TUNER_EVENT_LOST:
        board_lost(c, event->reason);
        return ERR_OK;
    case TUNER_EVENT_COMMAND:
        c->ticket = event->ticket;
        steering_take(c, event);
        return ERR_OK;
    case TUNER_EVENT_TIMER:
        break;
    }
    return ERR_OK;
}

static void advance(struct tuner *t)
{
    struct board *c = &t->board;

    if (c->finished)
        return;
    if (c->ready)
        board_tick(c);
    steering_advance(c);
    /* A paused run is read back too: it may be stopped as it is. */
    if (c->ready && c->ending.phase == ENDING_NOT && resume_advance(c)) {
        suggest_advance(c);
        byhand_advance(c);
        if (!c->paused && c->ending.phase == ENDING_NOT)
            c->options.strategy->advance(c->strategy);
    }
    rows_advance(c);
    if (c->ending.phase != ENDING_NOT) {
        byhand_end(c);
        rows_end(c);
    }
    board_advance(c);
}

enum err tuner_step(struct tuner *t, const struct tuner_event *event,
                    struct tuner_actions *out)
{
    struct board *c = &t->board;
    struct fault fault = {0};
    enum err err;

    if (c->finished)
        return ERR_OK;
    err = reserve(out);
    if (err)
        return err;
    if (!c->started) {
        c->born_s = event->now_s;
        c->started_s = event->now_s - c->resume.at_s;
    }
    assert(event->now_s >= c->now_s || !c->started);
    c->started = true;
    c->now_s = event->now_s;
    c->step_s = event->step_s;
    c->out = out;
    t->hand.made_room = false;
    err = take_event(c, event, &fault);
    if (err == ERR_PROTO)
        board_violated(c, fault.text);
    advance(t);
    c->out = NULL;
    return err;
}
