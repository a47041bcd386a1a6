#include "tuner/search/search.h"

#include "base/rng.h"
#include "searchers/space/space_json.h"
#include "tuner/core/suggest.h"
#include "tuner/search/hopeless.h"
#include "tuner/search/ladder.h"
#include "tuner/search/resumed_search.h"
#include "tuner/search/share.h"
#include "tuner/search/trial_run.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SEARCH_LEAST = 7,  /* trials of a re-tune, unless fewer do */
    SEARCH_DOZEN = 12, /* trials at least, epochs at most, of a search */
    /* The same of one that knows what earlier runs found. */
    SEARCH_PRIMED = 6,
    SEARCH_PRIMED_EPOCHS = 4,
};
#define SEARCH_ALIKE 0.9 /* the fifth best against the best: stop */

/* ---- life ---------------------------------------------------------------- */

static void record_start(struct search *s)
{
    const struct search_plan *plan = &s->plan;
    const struct best *best = board_best(s->c);
    struct record_search_started *r = board_record_search_started(s->c);
    struct record_decision *d;

    assert(plan->reason);
    r->search = plan->number;
    r->retune = plan->retune;
    r->parent = plan->parent;
    r->trials_max = plan->trials_max;
    r->tunables = space_to_json(&s->trials.space);
    snprintf(r->reason, sizeof(r->reason), "%s", plan->reason);
    d = board_decision(s->c, plan->retune ? "retune" : "search",
                       "search %u begins, of at most %u trials: %s",
                       plan->number, plan->trials_max, plan->reason);
    board_decision_number(d, "search", plan->number);
    board_decision_number(d, "trials_max", plan->trials_max);
    board_decision_number(d, "tunables", (double)space_dims(&s->trials.space));
    if (best->branch != BRANCH_NONE)
        board_decision_number(d, "best_epoch", best->epoch);
}

void search_init(struct search *s, struct board *c,
                 const struct search_plan *plan)
{
    struct space space;

    assert(plan->trials_max >= 1 && plan->trials_max <= TUNER_TRIALS_MAX);
    assert(plan->barred_len <= PROPOSALS_BARRED_MAX);
    assert(plan->reason);
    assert(plan->ordinal >= 1 && plan->ordinal <= plan->number);
    memset(s, 0, sizeof(*s));
    s->c = c;
    s->plan = *plan;
    space_copy(&space, board_space(c));
    if (plan->retune)
        space_pin_for_retune(&space, &plan->incumbent);
    trials_init(&s->trials, c, &space, plan->number, plan->first_trial);
    s->judge.trials = &s->trials;
    probe_init(&s->judge.probe);
    trial_time_init(&s->time, &s->judge, plan->parent);
    proposals_init(&s->proposals, &s->trials);
    for (size_t i = 0; i < plan->barred_len; i++)
        s->proposals.barred[s->proposals.barred_len++] = plan->barred[i];
    s->started_s = board_active_s(c);
    s->waited_s = board_waited_s(c);
    s->started_clocks = board_clocks_run(c);
    suggest_search_open(c);
    if (!plan->retune && plan->ordinal == 1)
        primed_init(&s->primed, c);
    if (!plan->known) {
        record_start(s);
        primed_explain(&s->primed, c);
    }
    s->plan.barred = NULL;
    s->plan.reason = NULL;
}

void search_abandon(struct search *s)
{
    proposals_deinit(&s->proposals);
    trials_deinit(&s->trials);
    memset(s, 0, sizeof(*s));
}

void search_deinit(struct search *s, uint32_t keep)
{
    if (!s->c)
        return;
    board_free(s->c, s->judge.probe.branch, "the search is over");
    for (uint32_t i = 0; i < s->trials.n; i++) {
        struct trial *x = &s->trials.list[i];

        if (x->number == keep)
            trial_end(s->c, x);
        else
            trial_free(s->c, x, "the search is over");
    }
    search_abandon(s);
}

static void over(struct search *s, const char *reason)
{
    assert(s->phase != SEARCH_OVER);
    if (reason != s->end_reason)
        snprintf(s->end_reason, sizeof(s->end_reason), "%s", reason);
    s->phase = SEARCH_OVER;
    suggest_search_closed(s->c, s->plan.number);
}

/* A wide search is a run's first, whether it is asked for at once or after an
 * epoch with a given initial setting: nothing is known of where good settings
 * are. */
static bool is_wide(const struct search *s)
{
    return !s->plan.retune || s->plan.ordinal == 1;
}

/* Room for the trials, the searcher, and what is known of before a resume. */
static void open_searcher(struct search *s)
{
    uint64_t seed = rng_mix(board_seed(s->c), s->plan.ordinal);
    struct resumed_cost cost = {0};
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (!s->trials.list)
        err = trials_open(&s->trials, s->plan.trials_max);
    if (!err)
        err = proposals_open(&s->proposals, seed, &fault);
    if (!err && s->plan.known)
        err = resumed_search_load(&s->time, s->plan.known, s->started_clocks,
                                  &cost);
    if (err == ERR_NOMEM) {
        board_retry(s->c);
    } else if (err) {
        board_decision(s->c, "searcher", "the searcher does not start: %.300s",
                       fault.text);
        over(s, "the searcher does not start");
    } else {
        if (s->plan.known) {
            s->started_s = board_active_s(s->c) - cost.seconds;
            s->given_up = resumed_search_gave_up(&s->trials, s->plan.known);
            if (!is_wide(s))
                s->steps = ladder_taken(&s->trials, &s->plan.incumbent);
        }
        s->started_clocks -= cost.clocks;
        s->phase = SEARCH_PROBING;
    }
}

static uint32_t stopped(const struct search *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->trials.n; i++)
        n += s->trials.list[i].label == TRIAL_STOPPED;
    return n;
}

static void explain_end(struct search *s, const struct record_search_ended *end)
{
    struct record_search_ended r = *end;
    struct record_decision *d;

    d = r.winner
            ? board_decision(s->c, "search_ended",
                             "search %u ends after %u trials, of which %u were "
                             "stopped early, with trial %u: %s",
                             r.search, r.trials, stopped(s), r.winner, r.reason)
            : board_decision(s->c, "search_ended",
                             "search %u ends after %u trials, of which %u were "
                             "stopped early, without a winner: %s",
                             r.search, r.trials, stopped(s), r.reason);
    board_decision_number(d, "search", r.search);
    board_decision_number(d, "trials", r.trials);
    board_decision_number(d, "stopped", stopped(s));
    board_decision_number(d, "winner", r.winner);
    board_decision_number(d, "trial_time", r.trial_s);
    board_decision_number(d, "seconds", r.seconds);
    board_decision_number(d, "waiting_s", r.waiting_s);
}

void search_record_end(struct search *s, uint32_t winner, const char *reason)
{
    struct record_search_ended *r = board_record_search_ended(s->c);

    assert(s->c && reason);
    r->search = s->plan.number;
    r->trials = trials_made(&s->trials);
    r->winner = winner;
    r->trial_s = s->time.length;
    r->seconds = board_active_s(s->c) - s->started_s;
    r->clocks = board_clocks_run(s->c) - s->started_clocks;
    r->waiting_s = board_waited_s(s->c) - s->waited_s;
    for (uint32_t i = 0; i < s->trials.n; i++) {
        const struct trial *x = &s->trials.list[i];
        const struct branch *b = board_branch(s->c, x->branch);

        if (x->number != winner || !b)
            continue;
        r->seconds = fmax(0, r->seconds - branch_trace(b)->seconds);
        r->clocks -= branch_own_clocks(b);
    }
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    explain_end(s, r);
    suggest_search_ended(s->c, s->plan.number);
}

/* ---- the next trial ------------------------------------------------------ */

/* The next step of the ladder, into the next proposal. The searcher is told of
 * these as of all others. False: there is no further step, or the search is
 * wide. */
static bool take_step(struct search *s)
{
    struct setting *next = &s->proposals.next;

    if (is_wide(s))
        return false;
    while (s->steps < LADDER_STEPS)
        if (ladder_step(&s->judge, &s->plan.incumbent, s->steps++, next) &&
            !proposals_barred(&s->proposals, next) &&
            !trials_of(&s->trials, next) &&
            !space_same(&s->trials.space, next, &s->plan.incumbent))
            return true;
    return false;
}

/* A run's first search tries the defaults first: the user, or the application,
 * has reasons for them. The searcher is told of them as of all others. */
static bool take_default(struct search *s)
{
    struct setting *next = &s->proposals.next;

    if (s->trials.n > 0 || s->plan.retune || s->plan.ordinal > 1 ||
        proposals_outside(&s->proposals))
        return false;
    space_default(&s->trials.space, next);
    return !proposals_barred(&s->proposals, next);
}

/* After them, what won in earlier runs of the same application and data. */
static bool take_earlier(struct search *s)
{
    return !proposals_outside(&s->proposals) &&
           primed_next(&s->primed, &s->proposals, &s->proposals.next);
}

/* Settings that are judged are no longer running ones for the searcher. */
static bool any_runs(const struct search *s)
{
    struct setting running;

    return trials_running(&s->trials, &running, 1) > 0;
}

/* The next trial's setting: the incumbent, a suggestion, the default, a step of
 * the ladder, the searcher's. False: none, or not now (the board is told to try
 * again). */
static bool propose(struct search *s)
{
    struct proposals *p = &s->proposals;
    uint32_t steps = s->steps;
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (p->next_json)
        return true;
    if (s->trials.n == 0 && s->plan.has_incumbent) {
        p->next = s->plan.incumbent;
    } else if (proposals_suggested(p)) {
        proposals_take(p);
    } else if (suggest_more(s->c)) {
        return false; /* they come first, in the next step */
    } else if (!take_default(s) && !take_earlier(s) &&
               (proposals_outside(p) || p->exhausted || !take_step(s))) {
        judge_results(&s->judge);
        err = primed_tell(&s->primed, p);
        if (!err)
            err = proposals_ask(
                p, s->plan.has_incumbent ? &s->plan.incumbent : NULL,
                any_runs(s), &fault);
    }
    if (proposals_settle(p, err, &fault))
        return true;
    s->steps = steps; /* the same again */
    return false;
}

static bool may_begin(struct search *s)
{
    return trials_made(&s->trials) < s->plan.trials_max &&
           proposals_possible(&s->proposals);
}

/* Begins a trial. False: none is to be had (see exhausted), or not now. */
static bool begin_trial(struct search *s)
{
    struct proposals *p = &s->proposals;
    struct trial *x;

    assert(s->phase == SEARCH_TRYING);
    if (!may_begin(s) || !propose(s))
        return false;
    x = trials_next(&s->trials, &p->next, p->next_json, p->next_suggestion);
    x->incumbent = s->trials.n == 0 && s->plan.has_incumbent;
    if (!trial_fork(s->c, x, s->plan.parent)) {
        board_retry(s->c);
        return false;
    }
    x->run.goal = trial_time_shortest(&s->time);
    if (s->time.decided)
        trial_time_goal(&s->time, x, board_branch(s->c, x->branch));
    hopeless_slices(&s->time, x);
    trial_begun(&s->trials, x);
    proposals_begun(p);
    return true;
}

/* ---- stop rules ---------------------------------------------------------- */

/* Whether a suggestion is to be tried before the search ends by its stop rules:
 * not where the searcher has nothing of its own, and suggestions are what these
 * rules are about. */
static bool wished(struct search *s)
{
    return !proposals_outside(&s->proposals) &&
           proposals_suggested(&s->proposals);
}

static bool alike(const struct search *s)
{
    struct trial *top[SEARCH_TOP];

    return judge_fastest(&s->judge, top, SEARCH_TOP) == SEARCH_TOP &&
           top[SEARCH_TOP - 1]->figures.speed >=
               SEARCH_ALIKE * top[0]->figures.speed;
}

/* A re-tune that has found as many settings about as good as the best of them
 * as a first search compares leaves the rest to the finals. */
static bool enough_ahead(const struct search *s)
{
    struct trial *found[SEARCH_TOP];

    return trials_incumbent(&s->trials) &&
           finalists_challengers(&s->judge, found, SEARCH_TOP) == SEARCH_TOP;
}

/* Time that the trials took so far. */
static double spent(const struct search *s)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->trials.n; i++)
        sum += s->trials.list[i].figures.run_s;
    return sum;
}

static bool any_challenger(const struct search *s)
{
    for (uint32_t i = 0; i < s->trials.n; i++)
        if (judge_challenges(&s->judge, &s->trials.list[i]))
            return true;
    return false;
}

/* A re-tune may cost what can still be gained by it, which is not known, but
 * hardly more than the training since the last search took; and where a number
 * of trials has found nothing ahead of the setting in use, the next will not
 * either. The steps from the present setting are always made. */
static const char *bound_reached(const struct search *s)
{
    uint32_t made = trials_made(&s->trials);

    if (!trials_incumbent(&s->trials) || made < SEARCH_LEAST)
        return NULL;
    if (spent(s) >= s->plan.time_max)
        return "it has taken as long as the training since the last search";
    if (s->plan.vain_max && made >= s->plan.vain_max && !any_challenger(s))
        return "nothing is ahead of the present setting";
    return NULL;
}

/* Where trials have to be long (nothing moves for half an epoch, say), a first
 * search's dozens of them would take longer than training does; the sooner
 * where earlier runs have shown where good settings are. */
static bool took_long(const struct search *s)
{
    double epoch = s->judge.probe.unit_s * (double)board_units(s->c);
    bool knows = primed_knows(&s->primed);

    return !board_max_trials(s->c) &&
           trials_made(&s->trials) >= (knows ? SEARCH_PRIMED : SEARCH_DOZEN) &&
           spent(s) >= (knows ? SEARCH_PRIMED_EPOCHS : SEARCH_DOZEN) * epoch;
}

/* Why the search ends with the trials made; NULL: it goes on. */
static const char *enough(struct search *s)
{
    const char *bound = bound_reached(s);
    bool used_up = trials_made(&s->trials) >= s->plan.trials_max;

    /* Suggestions of the user are tried first. */
    if (wished(s) && !used_up)
        return NULL;
    if (bound)
        return bound;
    if (enough_ahead(s))
        return "five settings are better than the present one";
    if (alike(s))
        return "the five best settings are alike within 10 %";
    if (used_up)
        return "the number of trials is used up";
    if (took_long(s))
        return primed_knows(&s->primed)
                   ? "the trials have taken as long as four epochs, and "
                     "earlier runs had shown where to look"
                   : "the trials have taken as long as a dozen epochs";
    return proposals_possible(&s->proposals) ? NULL
                                             : "there is no other setting to "
                                               "try";
}

/* ---- rounds -------------------------------------------------------------- */

static void give_up(struct search *s)
{
    struct record_decision *d;

    assert(!s->judge.lenient);
    s->judge.lenient = true;
    d = board_decision(s->c, "trial_time",
                       s->plan.retune
                           ? "no setting converges clearly within the longest "
                             "trial: those that seem ahead go on, if any"
                           : "no setting converges clearly within the longest "
                             "trial: the best speed counts");
    board_decision_number(d, "trial_time", s->time.length);
    board_decision_number(d, "trials", trials_made(&s->trials));
    over(s, "no setting converges within the longest trial");
}

/* Settings that are tried when none converges: as many as the stop rule looks
 * at. Where a given initial setting is all that the run has, as many as it
 * takes: from a bad one, most settings seem to stand still, and the few that do
 * not are what this search is for. */
static uint32_t tries_undecided(const struct search *s)
{
    return s->plan.retune && is_wide(s) ? s->plan.trials_max : SEARCH_TOP;
}

/* Nothing converges yet: more time and one more setting (Algorithm 6). At the
 * bound: more settings, up to a number. */
static void go_on_undecided(struct search *s)
{
    bool longer;

    assert(!s->time.decided);
    /* It had ended so before the resume: its trials' branches are gone, which
     * is no reason for more of them. */
    if (s->given_up && trials_made(&s->trials) == s->given_up && !wished(s)) {
        give_up(s);
        return;
    }
    /* The time is not doubled again and again while the searcher thinks. */
    if (may_begin(s) && !propose(s) && proposals_possible(&s->proposals))
        return;
    longer = trial_time_can_double(&s->time) ||
             trial_time_raise_bound(&s->time, s->plan.retune);
    if (longer) {
        trial_time_double(&s->time);
    } else if (trials_made(&s->trials) >= tries_undecided(s) &&
               trials_live(&s->trials) > 0 && !(wished(s) && may_begin(s))) {
        give_up(s);
        return;
    }
    if (trials_live(&s->trials) >= TRIALS_LIVE_MAX) {
        struct trial *worst = judge_slowest_live(&s->judge, NULL);

        if (worst)
            trial_free(s->c, worst, "many trials, and it is the slowest");
    }
    if (!begin_trial(s) && !longer && !may_begin(s))
        give_up(s);
}

static bool all_arrived(struct search *s)
{
    return trial_run_all(&s->time, s->plan.parent, s->proposals.decision_s);
}

/* Frees the branches of trials that will not be finalists. */
static void free_losers(struct search *s)
{
    struct trial *keep[FINALISTS_MAX];
    size_t n = search_finalists(s, keep);

    for (uint32_t i = 0; i < s->trials.n; i++) {
        struct trial *x = &s->trials.list[i];
        bool kept = x->incumbent;

        for (size_t k = 0; k < n; k++)
            kept |= keep[k] == x;
        if (!kept && x->arrived && x->branch != BRANCH_NONE)
            trial_free(s->c, x, "slower than others");
    }
}

/* The trial time is known: one trial after another. @all: none is under way. */
static void go_on_decided(struct search *s, bool all)
{
    const char *reason;

    assert(s->time.decided);
    /* A run that was killed may know a result, and not yet what it means. */
    if (judge_arrived(&s->judge) || s->trials.recalled > 0)
        free_losers(s);
    if (!all && !trial_run_overlaps(&s->time))
        return;
    reason = enough(s);
    if (!reason && !begin_trial(s))
        reason = enough(s);
    if (reason && all)
        over(s, reason);
}

/* All trials have run the time tried so far: is it long enough? */
static void find_time(struct search *s)
{
    assert(!s->time.decided);
    judge_arrived(&s->judge);
    if (!judge_any_clear(&s->judge))
        return;
    if (trial_time_shorten(&s->time, s->proposals.decision_s))
        judge_arrived(&s->judge);
    trial_time_decide(&s->time);
    free_losers(s);
}

/* A first search's share of the run's time is used up. True: so it ends, now or
 * as soon as nothing runs. */
static bool out_of_share(struct search *s)
{
    double took_s = fmax(board_active_s(s->c) - s->started_s, 0);

    if (!share_used(&s->judge, s->plan.share, took_s))
        return false;
    /* Not even the trial that was best may be left. */
    if (!share_wind_up(&s->time) ||
        !share_used(&s->judge, s->plan.share, took_s))
        return true;
    share_tell(&s->judge, s->plan.share, took_s, s->end_reason,
               sizeof(s->end_reason));
    s->hurried = true;
    over(s, s->end_reason);
    return true;
}

/* What follows from the trials that have arrived. @all: none is under way. */
static void follow(struct search *s, bool all)
{
    if (all && !s->time.decided)
        find_time(s);
    if (s->time.decided)
        go_on_decided(s, all);
    else if (all && bound_reached(s) && !wished(s))
        over(s, bound_reached(s));
    else if (all)
        go_on_undecided(s);
}

static void try_settings(struct search *s)
{
    double length;
    bool all;

    if (!resumed_search_fork(&s->time, s->plan.parent))
        return;
    /* One pass does what the events brought; a new trial waits for its fork. */
    if (s->trials.n == 0 && !begin_trial(s)) {
        if (!proposals_possible(&s->proposals))
            over(s, "there is no setting to try");
        return;
    }
    if (out_of_share(s))
        return;
    hopeless_look(&s->time);
    all = all_arrived(s);
    /* A longer time may ask no more of trials that ran faster than their kind's
     * pace: no event would come, and the time is doubled again. */
    do {
        length = s->time.length;
        follow(s, all);
        all = s->phase == SEARCH_TRYING && all_arrived(s);
    } while (all && !s->time.decided && s->time.length > length);
}

enum search_state search_advance(struct search *s)
{
    const struct search_plan *plan = &s->plan;

    assert(s->c);
    proposals_measure(&s->proposals);
    if (s->phase == SEARCH_OPENING)
        open_searcher(s);
    if (s->phase == SEARCH_PROBING &&
        probe_advance(&s->judge.probe, s->c, plan->parent, &s->trials.space,
                      plan->has_incumbent ? &plan->incumbent : NULL))
        s->phase = SEARCH_TRYING;
    if (s->phase == SEARCH_TRYING)
        try_settings(s);
    return s->phase == SEARCH_OVER ? SEARCH_DONE : SEARCH_BUSY;
}

/* ---- what was found ------------------------------------------------------ */

size_t search_finalists(const struct search *s,
                        struct trial *out[FINALISTS_MAX])
{
    assert(s->c && out);
    return finalists_of(&s->judge, s->plan.retune, out);
}

size_t search_least_bad(const struct search *s,
                        struct trial *out[FINALISTS_MAX])
{
    return finalists_least_bad(&s->judge, out);
}
