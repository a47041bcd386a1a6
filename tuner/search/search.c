#include "tuner/search/search.h"

#include "base/mem.h"
#include "base/rng.h"
#include "searchers/space/space_json.h"
#include "tuner/board/suggest.h"
#include "tuner/search/search_ask.h"
#include "tuner/search/search_finalists.h"
#include "tuner/search/search_judge.h"
#include "tuner/search/search_probe.h"
#include "tuner/search/search_recall.h"
#include "tuner/search/search_stop.h"
#include "tuner/search/search_time.h"
#include "tuner/search/search_trials.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SEARCH_LEAST = 7,  /* trials of a re-tune, unless fewer do */
    SEARCH_DOZEN = 12, /* trials at least, epochs at most, of a search */
};
#define SEARCH_ALIKE 0.9 /* the fifth best against the best: stop */

/* ---- life ---------------------------------------------------------------- */

void search_init(struct search *s, struct board *c,
                 const struct search_plan *plan)
{
    struct record_search_started *r;
    struct record_decision *d;

    memset(s, 0, sizeof(*s));
    s->c = c;
    s->plan = *plan;
    s->space = *board_space(c);
    if (plan->retune)
        space_pin_for_retune(&s->space, &plan->incumbent);
    for (size_t i = 0; i < plan->barred_len && i < SEARCH_BARRED_MAX; i++)
        s->barred[s->barred_len++] = plan->barred[i];
    s->plan.barred = NULL;
    s->probe.branch = BRANCH_NONE;
    s->epochs_max = 1;
    s->started_s = board_active_s(c);
    s->waited_s = board_waited_s(c);
    s->started_clocks = board_clocks_run(c);
    suggest_search_open(c);
    if (plan->known)
        return;
    r = &board_record(c, RECORD_SEARCH_STARTED)->search_started;
    r->search = plan->number;
    r->retune = plan->retune;
    r->parent = plan->parent;
    r->trials_max = plan->trials_max;
    r->tunables = space_to_json(&s->space);
    snprintf(r->reason, sizeof(r->reason), "%s", plan->reason);
    d = board_decision(c, plan->retune ? "retune" : "search",
                       "search %u begins, of at most %u trials: %s",
                       plan->number, plan->trials_max, plan->reason);
    board_decision_number(d, "search", plan->number);
    board_decision_number(d, "trials_max", plan->trials_max);
    board_decision_number(d, "tunables", (double)space_dims(&s->space));
    if (board_best(c)->branch != BRANCH_NONE)
        board_decision_number(d, "best_epoch", board_best(c)->epoch);
}

void search_deinit(struct search *s, uint32_t keep)
{
    if (!s->c)
        return;
    board_free(s->c, s->probe.branch, "the search is over");
    for (uint32_t i = 0; i < s->trials; i++) {
        if (s->trial[i].number != keep)
            search_trial_free(s, &s->trial[i], "the search is over");
        else
            search_trial_end(s, &s->trial[i]);
        json_decref(s->trial[i].json);
    }
    json_decref(s->next_json);
    mem_free(s->trial);
    searcher_close(s->searcher);
    memset(s, 0, sizeof(*s));
}

void search_abandon(struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        json_decref(s->trial[i].json);
    json_decref(s->next_json);
    mem_free(s->trial);
    searcher_close(s->searcher);
    memset(s, 0, sizeof(*s));
}

static void over(struct search *s, const char *reason)
{
    snprintf(s->end_reason, sizeof(s->end_reason), "%s", reason);
    s->phase = SEARCH_OVER;
    suggest_search_closed(s->c, s->plan.number);
}

static void open_searcher(struct search *s)
{
    struct board *c = s->c;
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (!s->trial)
        s->trial = mem_calloc(s->plan.trials_max + 1, sizeof(*s->trial));
    if (s->trial)
        err = searcher_open(board_options(c)->searcher, &s->space,
                            board_options(c)->searcher_settings,
                            rng_mix(board_options(c)->seed, s->plan.number),
                            &s->searcher, &fault);
    if (s->trial && !err && s->plan.known)
        err = search_recall(s);
    if (!s->trial || err == ERR_NOMEM) {
        board_retry(c);
    } else if (err) {
        board_decision(c, "searcher", "the searcher does not start: %.300s",
                       fault.text);
        over(s, "the searcher does not start");
    } else {
        s->phase = SEARCH_PROBING;
    }
}

uint32_t search_made(const struct search *s)
{
    return s->trials - (s->trials && s->trial[0].incumbent ? 1 : 0);
}

static uint32_t stopped(const struct search *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->trials; i++)
        n += s->trial[i].summary.label == TRIAL_STOPPED;
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
    struct record_search_ended *r =
        &board_record(s->c, RECORD_SEARCH_ENDED)->search_ended;

    r->search = s->plan.number;
    r->trials = search_made(s);
    r->winner = winner;
    r->trial_s = s->trial_time;
    r->seconds = board_active_s(s->c) - s->started_s;
    r->clocks = board_clocks_run(s->c) - s->started_clocks;
    r->waiting_s = board_waited_s(s->c) - s->waited_s;
    for (uint32_t i = 0; i < s->trials; i++) {
        const struct branch *b = board_branch(s->c, s->trial[i].run.branch);

        if (s->trial[i].number != winner || !b)
            continue;
        r->seconds = fmax(0, r->seconds - b->trace.seconds);
        r->clocks -= b->own_clocks;
    }
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    explain_end(s, r);
    suggest_search_ended(s->c, s->plan.number);
}

/* ---- deciding ------------------------------------------------------------ */

static void give_up(struct search *s)
{
    struct record_decision *d;

    s->gave_up = true;
    d = board_decision(s->c, "trial_time",
                       s->plan.retune
                           ? "no setting converges clearly within the longest "
                             "trial: those that seem ahead go on, if any"
                           : "no setting converges clearly within the longest "
                             "trial: the best speed counts");
    board_decision_number(d, "trial_time", s->trial_time);
    board_decision_number(d, "trials", search_made(s));
    over(s, "no setting converges within the longest trial");
}

bool search_is_wide(const struct search *s)
{
    return !s->plan.retune || s->plan.number == 1;
}

/* Settings that are tried when none converges: as many as the stop rule looks
 * at. Where a given initial setting is all that the run has, as many as it
 * takes: from a bad one, most settings seem to stand still, and the few that do
 * not are what this search is for. */
static uint32_t tries_undecided(const struct search *s)
{
    return s->plan.retune && search_is_wide(s) ? s->plan.trials_max
                                               : SEARCH_TOP;
}

/* Nothing converges yet: more time and one more setting (Algorithm 6). At the
 * bound: more settings, up to a number. */
static void go_on_undecided(struct search *s)
{
    bool longer;

    /* The time is not doubled again and again while the searcher thinks. */
    if (search_may_begin(s) && !search_ask_next(s) && search_has_next(s))
        return;
    longer = search_time_can_double(s) || search_time_raise_bound(s);
    if (longer)
        search_time_double(s);
    else if (search_made(s) >= tries_undecided(s) &&
             search_trials_live(s) > 0 &&
             !(search_wished(s) && search_may_begin(s))) {
        give_up(s);
        return;
    }
    if (search_trials_live(s) >= SEARCH_LIVE_MAX) {
        struct trial *worst = search_slowest_live(s, NULL);

        if (worst)
            search_trial_free(s, worst, "many trials, and it is the slowest");
    }
    if (!search_trial_begin(s) && !longer && !search_may_begin(s))
        give_up(s);
}

/* Frees the branches of trials that will not be finalists. */
static void free_losers(struct search *s)
{
    struct trial *keep[SEARCH_FINALISTS_MAX + 1];
    size_t n = search_finalists(s, keep);

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        bool kept = t->incumbent;

        for (size_t k = 0; k < n; k++)
            kept |= keep[k] == t;
        if (!kept && t->arrived && t->run.branch != BRANCH_NONE)
            search_trial_free(s, t, "slower than others");
    }
}

static bool alike(struct search *s)
{
    struct trial *top[SEARCH_TOP];

    return search_fastest(s, top, SEARCH_TOP) == SEARCH_TOP &&
           top[SEARCH_TOP - 1]->summary.speed >=
               SEARCH_ALIKE * top[0]->summary.speed;
}

/* A re-tune that has found as many settings about as good as the best of them
 * as a first search compares leaves the rest to the finals. */
static bool enough_ahead(struct search *s)
{
    struct trial *found[SEARCH_TOP];

    return search_incumbent(s) &&
           search_challengers(s, found, SEARCH_TOP) == SEARCH_TOP;
}

/* What the trials took so far. */
static double spent(const struct search *s)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->trials; i++)
        sum += s->trial[i].seconds;
    return sum;
}

static bool any_challenger(struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (search_challenges(s, &s->trial[i]))
            return true;
    return false;
}

/* A re-tune may cost what can still be gained by it, which is not known, but
 * hardly more than the training since the last search took; and where a number
 * of trials has found nothing ahead of the setting in use, the next will not
 * either. The steps from the present setting are always made. */
static const char *bound_reached(struct search *s)
{
    if (!search_incumbent(s) || search_made(s) < SEARCH_LEAST)
        return NULL;
    if (spent(s) >= s->plan.time_max)
        return "it has taken as long as the training since the last search";
    if (s->plan.vain_max && search_made(s) >= s->plan.vain_max &&
        !any_challenger(s))
        return "nothing is ahead of the present setting";
    return NULL;
}

/* Where trials have to be long (nothing moves for half an epoch, say), a first
 * search's dozens of them would take longer than training does. */
static bool took_long(const struct search *s)
{
    double epoch = s->unit_s * (double)board_units(s->c);

    return !board_options(s->c)->max_trials && search_made(s) >= SEARCH_DOZEN &&
           spent(s) >= SEARCH_DOZEN * epoch;
}

/* Why the search ends with the trials made; NULL: it goes on. */
static const char *enough(struct search *s)
{
    const char *bound = bound_reached(s);

    /* What the user wants tried is. */
    if (search_wished(s) && search_made(s) < s->plan.trials_max)
        return NULL;
    if (bound)
        return bound;
    if (enough_ahead(s))
        return "five settings are better than the present one";
    if (alike(s))
        return "the five best settings are alike within 10 %";
    if (search_made(s) >= s->plan.trials_max)
        return "the number of trials is used up";
    if (took_long(s))
        return "the trials have taken as long as a dozen epochs";
    return search_has_next(s) ? NULL : "there is no other setting to try";
}

/* @all: no trial is under way. */
static void go_on_decided(struct search *s, bool all)
{
    const char *reason;

    if (search_trials_judge(s))
        free_losers(s);
    if (!all && !search_trials_overlap(s))
        return;
    reason = enough(s);
    if (!reason && !search_trial_begin(s))
        reason = enough(s);
    if (reason && all)
        over(s, reason);
}

static void try_settings(struct search *s)
{
    bool all;

    if (!search_recall_lost(s))
        return;
    /* One pass does what the events brought; a new trial waits for its fork. */
    if (s->trials == 0 && !search_trial_begin(s)) {
        if (!search_has_next(s))
            over(s, "there is no setting to try");
        return;
    }
    search_stop_look(s);
    all = search_trials_arrived(s);
    if (all && !s->decided) {
        search_trials_judge(s);
        if (search_any_clear(s)) {
            if (search_time_shorten(s))
                search_trials_judge(s);
            search_time_decide(s);
            free_losers(s);
        }
    }
    if (s->decided)
        go_on_decided(s, all);
    else if (all && bound_reached(s) && !search_wished(s))
        over(s, bound_reached(s));
    else if (all)
        go_on_undecided(s);
    if (s->phase == SEARCH_TRYING)
        search_trials_arrived(s);
}

enum search_state search_advance(struct search *s)
{
    search_ask_measure(s);
    search_ask_listen(s);
    if (s->phase == SEARCH_OPENING)
        open_searcher(s);
    if (s->phase == SEARCH_PROBING && search_probe_advance(s))
        s->phase = SEARCH_TRYING;
    if (s->phase == SEARCH_TRYING)
        try_settings(s);
    return s->phase == SEARCH_OVER ? SEARCH_DONE : SEARCH_BUSY;
}
