/* Strategy `mltuner`: searches, trains with what won, re-tunes when progress
 * stops (Cui 2017, chapter 5). */
#include "tuner/strategies/mltuner.h"

#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"
#include "tuner/search/failures.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/mltuner_saved.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void mltuner_close(void *state)
{
    struct mltuner *s = state;

    if (!s)
        return;
    search_abandon(&s->search);
    json_decref(s->start_json);
    mem_free(s);
}

static enum err read_settings(struct mltuner *s, const json_t *settings,
                              struct fault *f)
{
    json_t *own;
    enum err err = choice_settings(&strategy_mltuner, settings, &own, f);

    if (err)
        return err;
    s->cool.share = json_number_value(json_object_get(own, "cooldown"));
    s->search_share = json_number_value(json_object_get(own, "search_share"));
    json_decref(own);
    return ERR_OK;
}

static enum err mltuner_open(struct board *c, const json_t *settings,
                             void **state, struct fault *f)
{
    struct mltuner *s = mem_calloc(1, sizeof(*s));
    enum err err;

    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    s->forked = BRANCH_NONE;
    s->cooler = BRANCH_NONE;
    s->held_parent = BRANCH_NONE;
    plateau_init(&s->plateau, board_limits(c).plateau_epochs);
    horizon_init(&s->horizon);
    err = read_settings(s, settings, f);
    if (!err)
        err = choice_initial(c, &s->start, f);
    if (err)
        goto fail;
    err = ERR_NOMEM;
    s->start_json = setting_to_json(board_space(c), &s->start);
    if (!s->start_json) {
        fault_set(f, err, "no memory for a strategy");
        goto fail;
    }
    *state = s;
    return ERR_OK;

fail:
    mltuner_close(s);
    return err;
}

/* ---- searches ------------------------------------------------------------ */

static bool can_search(const struct mltuner *s)
{
    return board_searcher(s->c) && space_dims(board_space(s->c)) > 0;
}

static uint32_t first_trials_max(const struct board *c)
{
    if (board_max_trials(c))
        return board_max_trials(c);
    return 12 + 6 * (uint32_t)space_dims(board_space(c));
}

/* Trials of a re-tune that find nothing ahead end it: the ladder of learning
 * rates, and a few for each tunable. */
static uint32_t vain_max(const struct board *c)
{
    return 6 + 2 * (uint32_t)space_dims(board_space(c));
}

/* Half as many after each re-tune that changed nothing. */
static uint32_t trials_max(const struct mltuner *s)
{
    uint32_t most = first_trials_max(s->c);

    for (uint32_t i = 0; i < s->vain && most > SEARCH_TOP; i++)
        most = most / 2 > SEARCH_TOP ? most / 2 : SEARCH_TOP;
    return most;
}

/* A run that is resumed goes on where a search begins, and where it has ended:
 * so that no trial was run in vain. */
static void want_snapshot(struct mltuner *s, bool wanted)
{
    if (wanted)
        lifecycle_want_snapshot(s->c);
}

/* A search from @parent; @incumbent (NULL: none) competes. @current: what the
 * run trains with. */
static void start_search(struct mltuner *s, branch_id parent, bool retune,
                         const struct setting *current, bool competes,
                         const char *reason)
{
    struct board *c = s->c;
    struct search_plan plan = {
        .number = s->resumed.search ? s->resumed.search : s->searches + 1,
        .ordinal = s->resumed.search ? s->made : s->made + 1,
        .first_trial = s->trials + 1,
        .retune = retune,
        .parent = parent,
        .trials_max = trials_max(s),
        .time_max = INFINITY,
        .has_incumbent = competes,
        .barred = s->barred,
        .barred_len = s->barred_len,
        .reason = reason,
    };

    assert(s->phase != PHASE_SEARCH);
    assert(!competes || current);
    if (current)
        plan.incumbent = *current;
    plan.share = plan.ordinal == 1 ? s->search_share : 0;
    if (competes && plan.ordinal > 1) {
        plan.time_max = s->trained;
        plan.vain_max = vain_max(c);
    }
    if (s->resumed.search) {
        plan.known = board_history(c);
    } else {
        s->searches++;
        s->made++;
        want_snapshot(s, parent != 0);
    }
    s->resumed.search = 0;
    board_set_status(c, RUN_TUNING, reason);
    horizon_interrupt(&s->horizon);
    search_init(&s->search, c, &plan);
    s->phase = PHASE_SEARCH;
}

static void close_search(struct mltuner *s, uint32_t winner, const char *reason)
{
    assert(s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS);
    s->trials += s->search.trials.n - s->search.trials.recalled;
    s->trained = 0;
    want_snapshot(s, true);
    search_record_end(&s->search, winner, reason);
    search_deinit(&s->search, winner);
}

/* ---- the cooldown -------------------------------------------------------- */

struct setting mltuner_steady(const struct mltuner *s)
{
    return cooldown_before(&s->cool,
                           branch_setting(board_branch(s->c, s->line.branch)));
}

static double time_left(const struct mltuner *s)
{
    return clockwork_time_left(s->c, board_limits(s->c).max_time_s);
}

/* The run's last epoch, if @epochs are over now: by max_epochs, or by what fits
 * into max_time. With trial_clocks time decides nothing that training sees: two
 * such runs are the same to the bit. */
static uint32_t last_epoch(const struct mltuner *s, uint32_t epochs)
{
    uint32_t max = board_limits(s->c).max_epochs;

    return board_trial_clocks(s->c)
               ? max
               : horizon_last(&s->horizon, epochs, max, time_left(s));
}

/* @steady as it is in the epoch after @epochs. */
static struct setting cooled(const struct mltuner *s,
                             const struct setting *steady, uint32_t epochs)
{
    return cooldown_setting(&s->cool, steady, epochs, last_epoch(s, epochs));
}

/* Whether the epoch after @epochs, this one or the next, may be one of the
 * run's cooldown. Who wants no re-tunes wants the setting to stay. */
static bool may_cool(const struct mltuner *s, uint32_t epochs)
{
    const struct board *c = s->c;

    return board_retunes(c) && cooldown_possible(board_space(c)) &&
           (s->cool.from ||
            cooldown_early(&s->cool, epochs, last_epoch(s, s->line.epochs),
                           s->plateau.limit));
}

/* Whether the next one is: it begins early where the last epoch has brought
 * nothing, since a steady rate is of use only while it brings something. */
static bool cools(const struct mltuner *s)
{
    uint32_t epochs = s->line.epochs;

    return may_cool(s, epochs) &&
           (s->cool.from || s->plateau.since > 0 ||
            cooldown_near(&s->cool, epochs, last_epoch(s, epochs)));
}

static void release_parent(struct mltuner *s)
{
    board_drop(s->c, s->held_parent, "training goes on from a later state");
    s->held_parent = BRANCH_NONE;
}

/* A search, or the user, chooses anew: what follows has its own cooldown. */
static void end_cooldown(struct mltuner *s)
{
    board_free(s->c, s->cooler, "another setting is chosen");
    s->cooler = BRANCH_NONE;
    if (s->cool.due)
        release_parent(s);
    cooldown_reset(&s->cool);
}

/* ---- training ------------------------------------------------------------ */

static void take_up(struct mltuner *s, branch_id branch, const char *reason)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, branch);

    assert(b && reason);
    board_set_base(c, branch);
    choice_record(c, b, reason);
    board_renew_status(c, RUN_TRAINING, reason);
    s->phase = PHASE_TRAIN;
}

/* Frees the line that was trained so far; its kept fork goes to the caller. */
static branch_id retire_line(struct mltuner *s)
{
    branch_id kept = BRANCH_NONE;

    if (!s->line.c)
        return kept;
    kept = s->line.kept;
    s->line.kept = BRANCH_NONE;
    if (kept != BRANCH_NONE && branch_is_refused(board_branch(s->c, kept))) {
        board_free(s->c, kept, "refused");
        kept = BRANCH_NONE;
    }
    board_free(s->c, s->line.branch, "replaced");
    training_deinit(&s->line);
    return kept;
}

static void begin_line(struct mltuner *s, branch_id branch)
{
    branch_id kept = retire_line(s);

    training_init(&s->line, s->c, branch, true);
    s->line.kept = kept; /* to return to until its first epoch ends */
}

/* @branch was forked from the line's end, or from the held parent before it. */
static void begin_line_from_parent(struct mltuner *s, branch_id branch)
{
    begin_line(s, branch);
    if (s->held_parent == BRANCH_NONE)
        return;
    board_drop(s->c, s->line.kept, "training went back before it");
    s->line.kept = s->held_parent;
    s->held_parent = BRANCH_NONE;
}

/* Starts without a search, with the initial setting or the defaults. */
static void fork_start(struct mltuner *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->forked);

    if (!b) {
        b = board_fork(c, board_branch(c, 0), BRANCH_TRAINING, &s->start,
                       s->start_json, "training");
        assert(b);
        s->forked = branch_number(b);
    }
    if (branch_is_refused(b)) {
        lifecycle_refused(c, branch_error(b), board_has_progress(c),
                          "another copy of the model");
        return;
    }
    if (!branch_is_live(b))
        return;
    begin_line(s, branch_number(b));
    take_up(s, branch_number(b),
            board_initial(c) ? "the given initial setting"
            : can_search(s)  ? "no setting was suggested: the defaults"
                             : "there is nothing to tune");
}

static void take_result(struct mltuner *s, const struct training_epoch *e,
                        branch_id kept)
{
    struct board *c = s->c;
    const struct branch *end = board_branch(c, kept);
    /* Where there was no memory to keep this epoch, @kept is an older one. */
    bool best = board_is_better(c, e->e.loss, e->metric) && end &&
                branch_is_live(end) && branch_epochs(end) == e->e.epoch;

    assert(e->e.epoch > 0);
    training_record(&s->line, e, true, best);
    s->trained +=
        board_trial_clocks(c) ? (double)board_samples(c) : e->e.seconds;
    if (best) {
        board_set_best(c, kept, s->line.branch, &e->e, e->metric);
        s->best_aside = false;
    }
    s->plateau.limit = stops_patience(c);
    plateau_add(&s->plateau, board_score(c, e->e.loss, e->metric));
}

/* Whether a re-tune may change anything. */
static bool can_retune(struct mltuner *s)
{
    struct space space;
    struct setting setting = mltuner_steady(s);

    if (!can_search(s))
        return false;
    space_copy(&space, board_space(s->c));
    space_pin_for_retune(&space, &setting);
    return space_dims(&space) > 0;
}

static bool retune_due(struct mltuner *s)
{
    const struct board *c = s->c;

    if (lifecycle_retune_wanted(c))
        return can_retune(s);
    if (!board_retunes(c))
        return false;
    if (board_initial(c) && !s->made)
        return can_retune(s);
    return plateau_due(&s->plateau) && !cools(s) && can_retune(s);
}

/* Where a run without progress goes on: from the end of the last epoch; or,
 * when the result has become worse since (board_is_better), from the best
 * epoch, which is held: what was trained since then was in vain, and no setting
 * brings it back. Not where only a finalist was better that lost: its metric
 * may be luck, and the winner's training loss was less. (Going back to it all
 * the same, 0.05 of 100 runs of family `hits` missed their target, for 0.01.)
 */
static branch_id best_parent(struct mltuner *s, const char *what)
{
    struct board *c = s->c;
    const struct branch *best = board_branch(c, board_best(c)->branch);

    assert(s->held_parent == BRANCH_NONE);
    if (s->best_aside || !best || !branch_is_live(best) || branch_waits(best) ||
        board_best(c)->epoch >= s->line.epochs)
        return s->line.branch;
    board_decision(c, "return", "the best epoch was %u: %s starts there again",
                   board_best(c)->epoch, what);
    board_hold(c, branch_number(best));
    s->held_parent = branch_number(best);
    return branch_number(best);
}

static branch_id retune_parent(struct mltuner *s)
{
    struct board *c = s->c;

    /* Nobody has vouched for a given initial setting: one epoch at far too
     * large a rate can spoil a model for good (`mf` at 0.6 ended 1 % worse
     * whatever came after), and starting anew costs no more than that epoch. */
    if (board_initial(c) && s->made == 0) {
        board_decision(c, "return",
                       "the search starts where training began: nothing says "
                       "that the initial setting was good");
        board_hold(c, 0);
        s->held_parent = 0;
        return 0;
    }
    return best_parent(s, "the search");
}

static void retune(struct mltuner *s)
{
    struct board *c = s->c;
    struct setting setting = mltuner_steady(s);
    const char *reason = "no progress: is there a better setting by now?";

    assert(can_retune(s));
    if (lifecycle_retune_wanted(c))
        reason = "the user asks for a search";
    else if (board_initial(c) && !s->made)
        reason = "a first search after an epoch with the initial setting";
    lifecycle_retune_begins(c);
    end_cooldown(s);
    s->rescue = false;
    s->barred_len = 0;
    start_search(s, retune_parent(s), true, &setting, true, reason);
}

/* Before one of the run's last epochs. */
static void cool(struct mltuner *s)
{
    struct board *c = s->c;
    uint32_t left = last_epoch(s, s->line.epochs) - s->line.epochs;
    struct setting steady = mltuner_steady(s);
    struct record_decision *d;

    if (s->cool.from == 0) {
        assert(left >= 1);
        cooldown_begin(&s->cool, board_space(c), s->line.epochs, &steady);
        d = board_decision(c, "cooldown",
                           "the last %u epoch%s: the learning rate falls to "
                           "nearly zero",
                           left, left == 1 ? " begins" : "s begin");
        board_decision_number(d, "epochs", left);
        board_decision_number(d, "learning_rate", s->cool.first);
    }
    s->cool.due = true;
}

/* What a cooldown's next branch is forked from. */
static branch_id cooler_parent(const struct mltuner *s)
{
    return s->held_parent != BRANCH_NONE ? s->held_parent : s->line.branch;
}

/* Without progress at a steady rate, that rate's noise may be what is left: a
 * run ends with a cooldown. False: there is to be none. */
static bool cool_in_the_end(struct mltuner *s)
{
    struct board *c = s->c;
    struct setting steady;
    struct record_decision *d;
    uint32_t from, last;

    if (!board_retunes(c) || !cooldown_possible(board_space(c)) ||
        cooldown_last(&s->cool, s->line.epochs,
                      last_epoch(s, s->line.epochs)) == 0)
        return false;
    steady = mltuner_steady(s);
    from = branch_epochs(board_branch(c, best_parent(s, "the cooldown")));
    last = cooldown_last(&s->cool, from, last_epoch(s, from));
    cooldown_begin(&s->cool, board_space(c), from, &steady);
    s->cool.end = last;
    s->cool.due = true;
    d = board_decision(
        c, "cooldown",
        "no improvement by 0.1 %% in %u epoch%s: over %u more the learning "
        "rate falls to nearly zero, unless half of them bring nothing",
        s->plateau.since, s->plateau.since == 1 ? "" : "s", last - from);
    board_decision_number(d, "epochs", last - from);
    board_decision_number(d, "learning_rate", s->cool.first);
    return true;
}

/* After an epoch without a search. In a cooldown a run does not converge: what
 * it brings shows in the end. */
static void next_epoch(struct mltuner *s)
{
    const struct branch *b = board_branch(s->c, s->line.branch);
    bool cooling = cools(s);

    if (cooldown_over(&s->cool, s->line.epochs, s->plateau.since))
        stops_cooled(s->c, s->line.epochs - s->cool.from,
                     s->cool.end - s->cool.from);
    else if (s->cool.from && last_epoch(s, s->line.epochs) == s->line.epochs)
        stops_out_of_time(s->c, s->horizon.epoch_s, time_left(s));
    else if (cooling && branch_idle(b))
        cool(s);
    else if (cooling || !plateau_reached(&s->plateau))
        training_go(&s->line);
    else if (!branch_idle(b) || !cool_in_the_end(s))
        stops_converged(s->c, &s->plateau);
}

/* Decides what follows an epoch. */
static void after_epoch(struct mltuner *s, const struct training_epoch *e)
{
    struct board *c = s->c;

    if (stops_check(c, e))
        return;
    if (retune_due(s) && branch_idle(board_branch(c, s->line.branch)))
        retune(s);
    else
        next_epoch(s);
}

/* Divergence while training: back to the last epoch's end, without the setting
 * that diverged there. */
static void rescue(struct mltuner *s, const struct branch *b)
{
    struct board *c = s->c;
    struct setting current = mltuner_steady(s);
    branch_id parent;

    assert(branch_is_nonfinite(b));
    end_cooldown(s);
    s->returns++;
    if (!can_search(s) || s->returns > TUNER_RETURNS_MAX ||
        s->barred_len == PROPOSALS_BARRED_MAX) {
        choice_broken(c, b);
        return;
    }
    board_decision(c, "divergence",
                   "training diverged: back to the end of epoch %u, and a "
                   "search for another setting",
                   s->line.epochs);
    s->barred[s->barred_len++] = current;
    s->rescue = true;
    parent = retire_line(s);
    if (parent == BRANCH_NONE) {
        parent = 0;
        board_hold(c, parent);
    }
    s->held_parent = parent;
    board_set_base(c, parent);
    start_search(s, parent, parent != 0, &current, false, "training diverged");
}

/* Forks the branch of a cooldown's next epoch. */
static void fork_cooler(struct mltuner *s)
{
    struct board *c = s->c;
    const struct branch *b = NULL;
    const struct branch *parent = board_branch(c, cooler_parent(s));
    struct setting steady = mltuner_steady(s);
    struct setting setting = cooled(s, &steady, branch_epochs(parent));
    json_t *json = setting_to_json(board_space(c), &setting);

    assert(s->cooler == BRANCH_NONE);
    if (json)
        b = board_fork(c, parent, BRANCH_TRAINING, &setting, json, "training");
    json_decref(json);
    if (b)
        s->cooler = branch_number(b);
    else
        board_retry(c);
}

/* Whether the next epoch has its rate: a fork with it takes the line's place,
 * which costs no clock. False while it is being forked. */
static bool rate_set(struct mltuner *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->cooler);

    if (!s->cool.due)
        return true;
    if (!b) {
        fork_cooler(s);
        return false;
    }
    if (branch_is_forking(b) || branch_waits(b))
        return false;
    if (branch_is_refused(b) && s->cool.end) {
        end_cooldown(s);
        stops_converged(c, &s->plateau);
        return false;
    }
    if (branch_is_refused(b)) {
        board_decision(c, "cooldown",
                       "no memory for a change of the learning rate: it stays "
                       "for another epoch");
        board_free(c, s->cooler, "refused");
    } else {
        begin_line_from_parent(s, s->cooler);
        cooldown_takes(&s->cool, branch_setting(b));
        take_up(s, s->cooler, "the cooldown at the end of the run");
    }
    s->cooler = BRANCH_NONE;
    s->cool.due = false;
    training_go(&s->line);
    return true;
}

static void train(struct mltuner *s)
{
    struct board *c = s->c;
    struct training_epoch e;
    enum training_state state;

    assert(s->phase == PHASE_TRAIN);
    board_set_status(c, RUN_TRAINING, "continued");
    do {
        if (!rate_set(s))
            return;
        s->line.ahead = stops_impossible(c, s->line.epochs + 1, &s->plateau) &&
                        !retune_due(s) && !may_cool(s, s->line.epochs + 1);
        state = training_advance(&s->line, &e);
        if (state == TRAINING_EPOCH) {
            take_result(s, &e, s->line.kept);
            horizon_epoch(&s->horizon, board_active_s(s->c), e.e.seconds);
            after_epoch(s, &e);
        }
    } while (state == TRAINING_EPOCH && s->phase == PHASE_TRAIN &&
             !lifecycle_ends(c));
    if (state == TRAINING_BROKEN) {
        const struct branch *b = board_branch(c, s->line.branch);

        if (branch_is_nonfinite(b))
            rescue(s, b);
        else
            choice_broken(c, b);
    }
}

/* ---- what a search found ------------------------------------------------- */

/* The one finalist, or the only one worth it, is trained with as it is. */
static void adopt(struct mltuner *s, struct trial *t)
{
    branch_id branch = t->branch;
    uint32_t number = t->number;
    char reason[RECORD_TEXT_MAX];

    assert(branch != BRANCH_NONE);
    memcpy(reason, s->search.end_reason, sizeof(reason));
    begin_line_from_parent(s, branch);
    horizon_change(&s->horizon, 0);
    if (s->search.plan.retune)
        plateau_commit(&s->plateau);
    close_search(s, number, reason);
    take_up(s, branch, "the winner of the search");
}

/* The winner's epochs count as training; its best model may be the run's. */
static void adopt_finalist(struct mltuner *s, struct finalist *x)
{
    struct board *c = s->c;
    uint32_t number = x->trial->number;
    bool stays = x->trial->incumbent, retune = s->search.plan.retune;
    struct training_epoch last = {.metric = NAN};
    const struct branch *kept;
    branch_id old;

    assert(x->epochs > 0);
    finals_deinit(&s->finals, x);
    old = retire_line(s);
    board_drop(c, old, "training goes on from a later state");
    release_parent(s);
    s->line = x->line;
    assert(s->line.pause_at == 0);
    s->line.keeps = true;
    if (retune && !stays)
        plateau_commit(&s->plateau);
    for (uint32_t i = 0; i < x->epochs; i++) {
        last = x->epoch[i];
        take_result(s, &last, x->kept_at == i ? x->kept : BRANCH_NONE);
    }
    horizon_change(&s->horizon, last.e.seconds);
    board_drop(c, x->kept, "not needed");
    kept = board_keep(c, board_branch(c, x->branch), "epoch");
    s->line.kept = kept ? branch_number(kept) : BRANCH_NONE;
    s->vain = stays ? s->vain + 1 : 0;
    if (stays)
        s->plateau.searched = true;
    close_search(s, number, stays ? "the setting stays" : "a new setting");
    if (stays) {
        board_set_base(c, s->line.branch);
        s->phase = PHASE_TRAIN;
        board_set_status(c, RUN_TRAINING, "the setting stays");
    } else {
        take_up(s, s->line.branch, "the winner of the finals");
    }
    after_epoch(s, &last);
}

/* A search that some setting has to come from found none. Failures (of the
 * application, of memory) are told: they say what is to be mended. */
static void end_without_setting(struct mltuner *s)
{
    struct board *c = s->c;
    struct failures failures = failures_of(&s->search.trials);

    close_search(s, 0, "no setting made progress");
    if (!failures_end(c, &failures))
        lifecycle_end(
            c, RUN_FAILED, "diverged",
            s->rescue ? "training diverged, and no other setting that was "
                        "tried goes on from there"
                      : "no setting that was tried makes progress: widen the "
                        "ranges of the tunables");
}

/* Whether some setting has to come of the search. */
static bool needs_setting(const struct mltuner *s)
{
    return !s->search.plan.retune || s->rescue;
}

/* No finalist. A re-tune: the setting stays. */
static void nothing_found(struct mltuner *s)
{
    struct board *c = s->c;

    assert(s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS);
    if (!needs_setting(s)) {
        s->vain++;
        close_search(s, 0,
                     s->phase == PHASE_FINALS
                         ? "none of those that seemed better is better than "
                           "the best epoch: the setting stays"
                         : s->search.end_reason);
        release_parent(s);
        s->plateau.searched = true;
        s->phase = PHASE_TRAIN;
        board_set_status(c, RUN_TRAINING, "the setting stays");
        next_epoch(s);
        return;
    }
    if (!s->rescue && s->search.trials.n == 0 &&
        board_searcher(c)->patience_s) {
        close_search(s, 0, "no setting was suggested");
        s->phase = PHASE_FORK;
        return;
    }
    end_without_setting(s);
}

static size_t choose_finalists(struct mltuner *s,
                               struct trial *finalist[FINALISTS_MAX])
{
    size_t n = search_finalists(&s->search, finalist);

    if (n == 0 && needs_setting(s))
        n = search_least_bad(&s->search, finalist);
    return n;
}

/* Whether a first search's setting is trained with until its rate falls, and
 * the few epochs of finals show little of that. */
static bool falls_in_the_end(const struct mltuner *s)
{
    const struct board *c = s->c;

    return !s->search.plan.retune && board_retunes(c) &&
           cooldown_possible(board_space(c)) && stops_epochs_are_short(c) &&
           cooldown_certain(&s->cool, board_limits(c).max_epochs,
                            stops_patience(c));
}

static void begin_finals(struct mltuner *s, struct trial *const finalist[],
                         size_t n)
{
    assert(n >= 1);
    finals_init(&s->finals, s->c, s->search.plan.parent, finalist, n,
                falls_in_the_end(s));
}

/* Near the largest rate that trains at all the fastest over a trial diverge
 * within an epoch. Where no finalist is left, and some setting has to come of
 * the search, the finals begin again without those that diverged: each time
 * with a trial less. False: no other trial is left, or all is well. */
static bool finals_again(struct mltuner *s)
{
    struct trial *finalist[FINALISTS_MAX];
    size_t n;

    if (!needs_setting(s) || !finals_diverged(&s->finals))
        return false;
    n = choose_finalists(s, finalist);
    if (n == 0)
        return false;
    board_decision(s->c, "finals",
                   "no finalist is left: the finals begin again, without those "
                   "that diverged");
    begin_finals(s, finalist, n);
    return true;
}

static void search(struct mltuner *s)
{
    struct trial *finalist[FINALISTS_MAX];
    size_t n;

    assert(s->phase == PHASE_SEARCH);
    if (search_advance(&s->search) == SEARCH_BUSY)
        return;
    n = choose_finalists(s, finalist);
    if (s->search.hurried && n > 1 && finalist[0]->branch != BRANCH_NONE)
        n = 1; /* finals would take as much again */
    if (n == 0) {
        nothing_found(s);
    } else if (n == 1 && finalist[0]->branch != BRANCH_NONE) {
        adopt(s, finalist[0]);
    } else {
        begin_finals(s, finalist, n);
        s->phase = PHASE_FINALS;
    }
}

/* A re-tune's new setting has to bring the run forward. Where nothing does, a
 * tiny learning rate wins because it stands still; that is no reason to go on.
 */
static bool worth_it(const struct mltuner *s, const struct finalist *x)
{
    assert(x->trial);
    if (!s->search.plan.retune || s->rescue || x->trial->incumbent)
        return true;
    for (uint32_t i = 0; i < x->epochs; i++)
        if (plateau_improves(&s->plateau, board_score(s->c, x->epoch[i].e.loss,
                                                      x->epoch[i].metric)))
            return true;
    return false;
}

/* Of finalists that the metric does not tell apart the one with the least
 * training loss wins. It may be no better than the best epoch, and another is:
 * then that one goes on. */
static struct finalist *worth_most(struct mltuner *s, struct finalist *winner)
{
    struct finalist *best = finals_best_kept(&s->finals);

    if (worth_it(s, winner) || !best || best->out || best == winner ||
        !worth_it(s, best))
        return winner;
    board_decision(s->c, "finals",
                   "trial %u is no better than the best epoch so far, trial %u "
                   "is: that one goes on",
                   winner->trial->number, best->trial->number);
    return best;
}

/* No finalist is left, or none that is worth it. What was tried and trains may
 * be among those that found no memory: the run goes on another time where some
 * setting has to come of the search. True: the finals begin again. */
static bool none_left(struct mltuner *s)
{
    enum err refused = s->finals.refused;

    finals_deinit(&s->finals, NULL);
    if (finals_again(s))
        return true;
    if (refused && needs_setting(s))
        lifecycle_refused(s->c, refused, true, "the branch of a finalist");
    else
        nothing_found(s);
    return false;
}

/* True: they have begun again, and nothing may be out that brings a step. */
static bool advance_finals(struct mltuner *s)
{
    bool none;
    struct finalist *winner = finals_advance(&s->finals, &none);

    if (winner)
        winner = worth_most(s, winner);
    if (winner && !worth_it(s, winner)) {
        board_decision(s->c, "finals",
                       "trial %u is no better than the best epoch so far: the "
                       "setting stays",
                       winner->trial->number);
        winner = NULL;
        none = true;
    }
    if ((winner || (none && board_has_progress(s->c))) &&
        finals_save_best(&s->finals, winner))
        s->best_aside = true;
    if (none)
        return none_left(s);
    if (winner)
        adopt_finalist(s, winner);
    return false;
}

/* Each time that they begin again it is with a trial less. */
static void finals(struct mltuner *s)
{
    assert(s->phase == PHASE_FINALS);
    while (advance_finals(s))
        continue;
}

/* ---- what the user promotes ---------------------------------------------- */

/* The user says what is trained, not what is best: the finalists' best epoch
 * is kept as if the finals were over. */
static void end_finals(struct mltuner *s)
{
    assert(s->phase == PHASE_FINALS);
    finals_save_best(&s->finals, NULL);
    finals_deinit(&s->finals, NULL);
}

/* Whether the best model so far is none of the line's: the results of its
 * epochs say so as long as the branch remembers them. One that is older is not
 * gone back to, either: the user wants to go on from here. */
static bool best_is_aside(const struct mltuner *s)
{
    const struct best *best = board_best(s->c);
    const struct branch *b = board_branch(s->c, s->line.branch);

    return best->branch != BRANCH_NONE &&
           !branch_had_epoch(b, best->epoch, best->loss);
}

static enum err mltuner_adopt(void *state, branch_id branch)
{
    struct mltuner *s = state;
    char reason[64];

    if (s->phase == PHASE_BEGIN || s->phase == PHASE_FORK ||
        s->phase == PHASE_RESUME ||
        (s->phase == PHASE_FINALS && finals_keeping(&s->finals)))
        return ERR_AGAIN;
    snprintf(reason, sizeof(reason), "the user promotes branch %u", branch);
    if (s->phase == PHASE_FINALS)
        end_finals(s);
    if (s->phase != PHASE_TRAIN)
        close_search(s, 0, reason);
    s->rescue = false;
    end_cooldown(s);
    begin_line(s, branch);
    s->best_aside = best_is_aside(s);
    horizon_change(&s->horizon, 0);
    release_parent(s);
    plateau_commit(&s->plateau);
    take_up(s, branch, "promoted by the user");
    return ERR_OK;
}

/* ---- resuming ------------------------------------------------------------ */

/* Another search for the setting that diverged, from the state before. */
static void go_on_rescuing(struct mltuner *s)
{
    branch_id parent = s->resumed.branch;

    assert(s->resumed.rescue);
    if (parent == 0)
        board_hold(s->c, parent);
    s->rescue = true;
    s->held_parent = parent;
    board_set_base(s->c, parent);
    start_search(s, parent, parent != 0, &s->resumed.setting, false,
                 "the search goes on");
}

static void go_on_searching(struct mltuner *s)
{
    struct board *c = s->c;
    branch_id parent = s->line.branch;

    assert(!s->resumed.rescue);
    s->rescue = false;
    board_set_base(c, parent);
    if (s->resumed.from_best || s->resumed.from_start) {
        parent = s->resumed.from_best ? board_best(c)->branch : 0;
        board_hold(c, parent);
        s->held_parent = parent;
    }
    start_search(s, parent, true, &s->resumed.setting, true,
                 "the search goes on");
}

/* The branch that is trained with, forked from the restored one. */
static const struct branch *forked_again(struct mltuner *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->forked);
    struct setting setting = cooled(s, &s->resumed.setting, s->resumed.epochs);
    json_t *json;

    if (b)
        return b;
    json = setting_to_json(board_space(c), &setting);
    if (json)
        b = board_fork(c, board_branch(c, s->resumed.branch), BRANCH_TRAINING,
                       &setting, json, "training");
    json_decref(json);
    if (b)
        s->forked = branch_number(b);
    else
        board_retry(c);
    return b;
}

static void go_on(struct mltuner *s)
{
    struct board *c = s->c;
    const struct branch *b;

    assert(s->phase == PHASE_RESUME);
    if (s->resumed.rescue) {
        go_on_rescuing(s);
        return;
    }
    b = forked_again(s);
    if (b && branch_is_refused(b))
        lifecycle_refused(c, branch_error(b), true,
                          "another copy of the model");
    if (!b || !branch_is_live(b))
        return;
    training_restore(&s->line, c, branch_number(b), s->resumed.epochs,
                     s->resumed.branch);
    cooldown_takes(&s->cool, branch_setting(b));
    if (s->resumed.branch != 0)
        board_drop(c, s->resumed.branch, "the run goes on from it");
    if (s->resumed.phase == PHASE_TRAIN)
        take_up(s, branch_number(b), "the run goes on");
    else
        go_on_searching(s);
}

/* ---- phases -------------------------------------------------------------- */

static void begin(struct mltuner *s)
{
    struct board *c = s->c;

    if (board_initial(c) || !can_search(s)) {
        board_set_status(c, RUN_TRAINING, "training without a first search");
        s->phase = PHASE_FORK;
    } else {
        start_search(s, 0, false, NULL, false, "a first search");
    }
}

static void step(struct mltuner *s)
{
    switch (s->phase) {
    case PHASE_BEGIN:
        begin(s);
        return;
    case PHASE_FORK:
        fork_start(s);
        return;
    case PHASE_RESUME:
        go_on(s);
        return;
    case PHASE_SEARCH:
        board_set_status(s->c, RUN_TUNING, "continued");
        search(s);
        return;
    case PHASE_FINALS:
        board_set_status(s->c, RUN_TUNING, "continued");
        finals(s);
        return;
    case PHASE_TRAIN:
        train(s);
        return;
    }
}

static void mltuner_advance(void *state)
{
    struct mltuner *s = state;
    enum phase before;

    do {
        before = s->phase;
        step(s);
    } while (s->phase != before && !lifecycle_ends(s->c));
}

const struct strategy_ops strategy_mltuner = {
    .name = "mltuner",
    .summary = "searches by short trials of branches, trains with the fastest, "
               "re-tunes when progress stops",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"cooldown\": {\"type\": \"number\", \"minimum\": 0, "
        "\"maximum\": 1, \"default\": 0.25, \"description\": \"share of "
        "stop.max_epochs, or of the epochs that fit into stop.max_time, over "
        "which the learning rate falls to nearly zero at the end; 0: never, as "
        "for a program with a schedule of its own\"}, "
        "\"search_share\": {\"type\": \"number\", \"minimum\": 0, "
        "\"maximum\": 1, \"default\": 0.25, \"description\": \"share of "
        "stop.max_time that the trials of the first search take at most; then "
        "it ends with the best so far; 0: no bound, as with "
        "tuner.trial_clocks\"}}}",
    .retunes = true,
    .recalls = true,
    .open = mltuner_open,
    .close = mltuner_close,
    .advance = mltuner_advance,
    .adopt = mltuner_adopt,
    .save = mltuner_save,
    .restore = mltuner_restore,
};
