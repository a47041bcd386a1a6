/* Strategy `fixed`: trains with one setting, searches nothing.
 *
 * The setting is `initial` where it is given, else every tunable's default. Its
 * learning rate may fall by a schedule (tuner/strategies/decay.h): at the end
 * of an epoch a fork with the next rate takes the branch's place, which costs
 * nothing. */
#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/plateau.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/board/training.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/decay.h"

#include <assert.h>
#include <stdio.h>

struct fixed {
    struct board *c;
    struct setting setting; /* of the epoch that runs or is to run next */
    json_t *json;
    struct decay decay;
    int rate;     /* index of the learning rate; -1: it is not scheduled */
    double first; /* rate of the first epoch */
    bool running;
    branch_id branch;
    branch_id next;  /* takes its place; BRANCH_NONE: none is being forked */
    bool step_due;   /* an epoch is over: what is the next rate? */
    branch_id from;  /* forked from; held where it is a restored one */
    uint32_t epochs; /* of that one, handed over before */
    struct training line;
    struct plateau plateau;
};

static void fixed_close(void *state)
{
    struct fixed *s = state;

    if (!s)
        return;
    json_decref(s->json);
    mem_free(s);
}

/* A schedule needs a learning rate that takes any value. */
static enum err find_rate(struct fixed *s, struct fault *f)
{
    const struct space *space = board_space(s->c);

    s->rate = -1;
    if (s->decay.kind == DECAY_NONE)
        return ERR_OK;
    s->rate = space_find(space, "learning_rate");
    if (s->rate < 0 || space->tunable[s->rate].type != TUNABLE_FLOAT)
        return fault_set(f, ERR_INVAL,
                         "strategy_settings: schedule %s needs a tunable "
                         "learning_rate of type float",
                         decay_name(&s->decay));
    s->first = s->setting.value[s->rate];
    return ERR_OK;
}

static enum err read_settings(struct fixed *s, const json_t *settings,
                              struct fault *f)
{
    json_t *own;
    enum err err = choice_settings(&strategy_fixed, settings, &own, f);

    if (err)
        return err;
    decay_read(own, board_limits(s->c).max_epochs, &s->decay);
    json_decref(own);
    err = choice_initial(s->c, &s->setting, f);
    return err ? err : find_rate(s, f);
}

static enum err fixed_open(struct board *c, const json_t *settings,
                           void **state, struct fault *f)
{
    struct fixed *s = mem_calloc(1, sizeof(*s));
    enum err err;

    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    s->branch = BRANCH_NONE;
    s->next = BRANCH_NONE;
    plateau_init(&s->plateau, board_limits(c).plateau_epochs);
    err = read_settings(s, settings, f);
    if (err)
        goto fail;
    s->json = setting_to_json(board_space(c), &s->setting);
    if (!s->json) {
        err = fault_set(f, ERR_NOMEM, "no memory for a strategy");
        goto fail;
    }
    *state = s;
    return ERR_OK;

fail:
    fixed_close(s);
    return err;
}

/* Forks the training branch; true once it is there. */
static bool begin(struct fixed *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->branch);

    assert(!s->running);
    if (!b) {
        board_set_status(c, RUN_TRAINING, "training with a fixed setting");
        b = board_fork(c, board_branch(c, s->from), BRANCH_TRAINING,
                       &s->setting, s->json, "training");
        assert(b);
        s->branch = branch_number(b);
    }
    if (branch_is_refused(b) && s->from)
        lifecycle_interrupted(c, "restore_failed",
                              "no memory to go on from the snapshot");
    else if (branch_is_refused(b))
        lifecycle_refused(c, branch_error(b), false,
                          "a second copy of the model");
    if (!branch_is_live(b))
        return false;
    choice_record(c, b, s->from ? "the run goes on" : "the strategy is fixed");
    board_set_base(c, branch_number(b));
    training_restore(&s->line, c, branch_number(b), s->epochs, s->from);
    if (s->from)
        board_drop(c, s->from, "the run goes on from it");
    s->running = true;
    return true;
}

static void take_epoch(struct fixed *s, const struct training_epoch *e)
{
    struct board *c = s->c;
    bool best = board_is_better(c, e->e.loss, e->metric);

    assert(e->e.epoch > 0);
    training_record(&s->line, e, true, best);
    if (best && s->line.kept != BRANCH_NONE)
        board_set_best(c, s->line.kept, s->line.branch, &e->e, e->metric);
    board_drop(c, s->line.kept, "not needed"); /* nothing returns to it */
    s->line.kept = BRANCH_NONE;
    s->plateau.limit = stops_patience(c);
    plateau_add(&s->plateau, board_score(c, e->e.loss, e->metric));
    if (stops_check(c, e))
        return;
    if (plateau_reached(&s->plateau))
        stops_converged(c, &s->plateau);
    else
        s->step_due = true;
}

/* ---- the schedule -------------------------------------------------------- */

static double rate_after(const struct fixed *s, uint32_t epochs)
{
    assert(s->rate >= 0);
    return decay_rate(&s->decay, s->first, epochs);
}

static bool rate_changes(const struct fixed *s, uint32_t epochs)
{
    return s->rate >= 0 && rate_after(s, epochs) != s->setting.value[s->rate];
}

/* Forks the branch of the next epoch. False: not now. */
static bool fork_next(struct fixed *s)
{
    struct board *c = s->c;
    struct setting setting = s->setting;
    const struct branch *b = NULL;
    json_t *json;

    assert(s->next == BRANCH_NONE);
    setting.value[s->rate] = rate_after(s, s->line.epochs);
    json = setting_to_json(board_space(c), &setting);
    if (json)
        b = board_fork(c, board_branch(c, s->branch), BRANCH_TRAINING, &setting,
                       json, "training");
    if (b)
        s->next = branch_number(b);
    else
        board_retry(c);
    json_decref(json);
    return b != NULL;
}

/* The next branch takes the place of the one before. */
static void take_place(struct fixed *s, const struct branch *b)
{
    struct board *c = s->c;
    char reason[80];

    assert(branch_number(b) == s->next);
    snprintf(reason, sizeof(reason), "schedule %s, after %u epochs",
             decay_name(&s->decay), s->line.epochs);
    choice_record(c, b, reason);
    training_deinit(&s->line);
    board_free(c, s->branch, "replaced");
    s->setting = *branch_setting(b);
    s->branch = branch_number(b);
    s->next = BRANCH_NONE;
    board_set_base(c, branch_number(b));
    training_init(&s->line, c, branch_number(b), true);
}

/* Goes on with the next epoch, with its rate. False while its branch is being
 * forked. */
static bool stepped(struct fixed *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->next);

    assert(s->running);
    if (!s->step_due)
        return true;
    if (!b && rate_changes(s, s->line.epochs)) {
        fork_next(s);
        return false;
    }
    if (b && (branch_is_forking(b) || branch_waits(b)))
        return false;
    if (b && branch_is_refused(b)) {
        board_decision(c, "schedule",
                       "no memory for a change of the learning rate: it stays "
                       "for another epoch");
        board_free(c, branch_number(b), "refused");
        s->next = BRANCH_NONE;
    } else if (b) {
        take_place(s, b);
    }
    s->step_due = false;
    training_go(&s->line);
    return true;
}

static void fixed_advance(void *state)
{
    struct fixed *s = state;
    struct board *c = s->c;
    struct training_epoch e;
    enum training_state now;

    if (!s->running && !begin(s))
        return;
    board_set_status(c, RUN_TRAINING, "training with a fixed setting");
    do {
        if (!stepped(s))
            return;
        s->line.ahead = !rate_changes(s, s->line.epochs + 1) &&
                        stops_impossible(c, s->line.epochs + 1, &s->plateau);
        now = training_advance(&s->line, &e);
        if (now == TRAINING_EPOCH)
            take_epoch(s, &e);
    } while (now == TRAINING_EPOCH && !lifecycle_ends(c));
    if (now == TRAINING_BROKEN)
        choice_broken(c, board_branch(c, s->branch));
}

/* A schedule goes on from the promoted branch's rate: it falls from there as it
 * would have fallen. */
static enum err fixed_adopt(void *state, branch_id branch)
{
    struct fixed *s = state;
    struct board *c = s->c;
    const struct branch *b = board_branch(c, branch);
    double share;

    assert(b);
    if (!s->running)
        return ERR_AGAIN;
    board_free(c, s->next, "replaced by the user's");
    training_deinit(&s->line);
    board_free(c, s->branch, "replaced by the user's");
    s->branch = branch;
    s->next = BRANCH_NONE;
    s->step_due = false;
    s->setting = *branch_setting(b);
    json_decref(s->json);
    s->json = json_incref(branch_json(b));
    choice_record(c, b, "promoted by the user");
    board_set_base(c, branch);
    training_init(&s->line, c, branch, true);
    plateau_commit(&s->plateau);
    share = decay_rate(&s->decay, 1, s->line.epochs);
    if (s->rate >= 0 && share > 0)
        s->first = s->setting.value[s->rate] / share;
    return ERR_OK;
}

/* The run's part of a snapshot. The rate of a schedule may lie outside of the
 * space, so it is saved apart from the setting that the schedule began with. */
struct saved_fixed {
    uint32_t epochs; /* of its lineage, handed over */
    bool step_due;
    json_t *setting; /* owned */
    double rate;     /* of schedules only */
    struct plateau plateau;
};

static const struct json_field saved_first[] = {
    {FIELD_OF(saved_fixed, U32, epochs)},
    {FIELD_OF(saved_fixed, BOOL, step_due)},
    {FIELD_OF(saved_fixed, OBJECT, setting)},
    {.name = NULL},
};
static const struct json_field saved_rate[] = {
    {FIELD_OF(saved_fixed, REAL, rate), .optional = true},
    {.name = NULL},
};
static const struct json_field saved_last[] = {
    {FIELD_OF(saved_fixed, PART, plateau), .part = saved_plateau},
    {.name = NULL},
};

static json_t *setting_to_save(const struct fixed *s)
{
    struct setting setting = s->setting;

    if (s->rate < 0)
        return json_incref(s->json);
    setting.value[s->rate] = s->first;
    return setting_to_json(board_space(s->c), &setting);
}

static json_t *to_json(const struct fixed *s)
{
    struct saved_fixed saved = {.epochs = s->running ? s->line.epochs : 0,
                                .step_due = s->step_due,
                                .setting = setting_to_save(s),
                                .rate =
                                    s->rate < 0 ? 0 : s->setting.value[s->rate],
                                .plateau = s->plateau};
    json_t *o = saved.setting ? saved_new(saved_first, &saved) : NULL;

    if (o && s->rate >= 0)
        o = saved_add(o, saved_rate, &saved);
    if (o)
        o = saved_add(o, saved_last, &saved);
    fields_deinit(saved_first, &saved);
    return o;
}

/* The setting that was @saved, and as a new object. */
static enum err read_setting(const struct fixed *s,
                             const struct saved_fixed *saved,
                             struct setting *out, json_t **json)
{
    enum err err = saved_setting(board_space(s->c), saved->setting, out);

    if (!err && s->rate >= 0 && !(saved->rate >= 0))
        err = ERR_FORMAT;
    if (err)
        return err;
    if (s->rate >= 0)
        out->value[s->rate] = saved->rate;
    *json = setting_to_json(board_space(s->c), out);
    return *json ? ERR_OK : ERR_NOMEM;
}

static enum err fixed_save(void *state, branch_id *branch, json_t **out)
{
    struct fixed *s = state;
    branch_id of = BRANCH_NONE;
    json_t *o;

    if (s->running)
        of = training_restorable(&s->line);
    else if (lifecycle_ends(s->c) && !s->from)
        of = 0;
    if (of == BRANCH_NONE)
        return ERR_AGAIN;
    o = to_json(s);
    if (!o)
        return ERR_NOMEM;
    *branch = of;
    *out = o;
    return ERR_OK;
}

static enum err fixed_restore(void *state, const json_t *saved,
                              branch_id branch)
{
    struct fixed *s = state;
    struct saved_fixed read = {0};
    struct setting setting;
    json_t *json = NULL;
    enum err err = ERR_FORMAT;

    if (!saved)
        return ERR_OK;
    if (saved_read(saved, saved_first, &read) &&
        saved_read(saved, saved_rate, &read) &&
        saved_read(saved, saved_last, &read) &&
        training_may_restore(board_branch(s->c, branch), read.epochs))
        err = read_setting(s, &read, &setting, &json);
    fields_deinit(saved_first, &read);
    if (err)
        return err;
    read.plateau.limit = s->plateau.limit;
    s->plateau = read.plateau;
    s->epochs = read.epochs;
    s->step_due = read.step_due;
    s->setting = setting;
    json_decref(s->json);
    s->json = json;
    s->from = branch;
    if (branch)
        board_hold(s->c, branch);
    return ERR_OK;
}

const struct strategy_ops strategy_fixed = {
    .name = "fixed",
    .summary = "trains with one setting, or a schedule of its learning rate, "
               "and tunes nothing",
    .settings = "{\"type\": \"object\", \"properties\": {" DECAY_SETTINGS "}}",
    .proposer = PROPOSER_NONE,
    .open = fixed_open,
    .close = fixed_close,
    .advance = fixed_advance,
    .adopt = fixed_adopt,
    .save = fixed_save,
    .restore = fixed_restore,
};
