#include "tuner/search/search_trials.h"

#include "tuner/board/suggest.h"
#include "tuner/search/pace.h"
#include "tuner/search/search_ask.h"
#include "tuner/search/search_judge.h"
#include "tuner/search/search_probe.h"
#include "tuner/search/search_run.h"
#include "tuner/search/search_stop.h"
#include "tuner/search/search_time.h"

#include <math.h>
#include <string.h>

/* Overlapped is what takes more than this part of a trial. */
#define SEARCH_OVERLAP 0.01

static void fill_trial(const struct search *s, const struct trial *t,
                       struct record_trial *r)
{
    r->trial = t->number;
    r->search = s->plan.number;
    r->branch = t->run.branch;
    r->setting = json_incref(t->json);
    r->incumbent = t->incumbent;
    r->label = t->summary.label;
    r->speed = t->summary.speed;
    r->noise = t->summary.noise;
    r->range = t->summary.range;
    r->window_noise = t->window_noise;
    memcpy(r->reason, t->reason, sizeof(r->reason));
    r->seconds = search_by_samples(s) ? t->own_s : t->summary.seconds;
    r->samples = t->samples;
    r->clocks = t->clocks;
    r->points = t->summary.points;
    memcpy(r->time_s, t->summary.time_s, sizeof(r->time_s));
    memcpy(r->loss, t->summary.loss, sizeof(r->loss));
    r->lead = t->lead;
    r->lead_se = t->lead_se;
    r->pairs = t->pairs;
    r->pace = t->pace;
    r->paced = t->paced;
    r->run_s = t->seconds;
    r->suggestion = t->suggestion;
}

void search_trial_record(struct search *s, const struct trial *t,
                         enum record_kind kind)
{
    fill_trial(s, t, &board_record(s->c, kind)->trial);
}

void search_trial_end(struct search *s, struct trial *t)
{
    if (t->ended)
        return;
    if (t->summary.label == TRIAL_RUNNING)
        t->summary.label = TRIAL_STOPPED;
    t->ended = true;
    search_trial_record(s, t, RECORD_TRIAL_ENDED);
}

void search_trial_free(struct search *s, struct trial *t, const char *reason)
{
    search_trial_end(s, t);
    board_free(s->c, t->run.branch, reason);
    t->run.branch = BRANCH_NONE;
}

/* The live trial that has done worst so far, other than @but. */
struct trial *search_slowest_live(struct search *s, const struct trial *but)
{
    struct trial *worst = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        const struct branch *b = board_branch(s->c, t->run.branch);

        if (!b || t == but || t->incumbent || !t->judged || b->slices)
            continue;
        if (!worst || t->summary.speed < worst->summary.speed)
            worst = t;
    }
    return worst;
}

uint32_t search_trials_live(const struct search *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->trials; i++)
        n += s->trial[i].run.branch != BRANCH_NONE;
    return n;
}

bool search_may_begin(struct search *s)
{
    return search_made(s) < s->plan.trials_max && search_has_next(s);
}

static uint64_t windows_in(uint64_t units, uint64_t window)
{
    return (units + window - 1) / window;
}

uint64_t search_trial_goal(const struct search *s)
{
    uint64_t goal = SUMMARY_WINDOWS * s->window;

    if (search_by_samples(s))
        goal = windows_in(board_options(s->c)->trial_clocks *
                              search_largest_clock(s),
                          s->window) *
               s->window;
    return goal < search_time_bound(s) ? goal : search_time_bound(s);
}

/* Begins a trial. False: none is to be had (see exhausted), or not now. */
bool search_trial_begin(struct search *s)
{
    struct board *c = s->c;
    struct trial *t = &s->trial[s->trials];
    const struct branch *b;

    if (!search_may_begin(s) || !search_ask_next(s))
        return false;
    b = board_fork(c, board_branch(c, s->plan.parent), BRANCH_TRAINING,
                   &s->next, s->next_json, "trial");
    if (!b) {
        board_retry(c);
        return false;
    }
    *t = (struct trial){
        .number = s->plan.first_trial + s->trials - s->recalled,
        .incumbent = s->trials == 0 && s->plan.has_incumbent,
        .setting = s->next,
        .json = s->next_json,
        .suggestion = s->next_suggestion,
        .run = {.branch = b->id, .goal = search_trial_goal(s)},
    };
    search_stop_slices(s, t);
    if (s->decided)
        search_time_goal(s, t, b);
    s->next_json = NULL;
    s->trials++;
    if (t->suggestion)
        suggest_begun(c);
    search_trial_record(s, t, RECORD_TRIAL_STARTED);
    return true;
}

/* A refused fork costs the slowest trial; the setting is proposed again. */
static void refused(struct search *s, struct trial *t)
{
    struct trial *worst = search_slowest_live(s, t);
    const struct branch *b = board_branch(s->c, t->run.branch);
    enum err err = b->error;

    board_free(s->c, b->id, "refused");
    t->run.branch = BRANCH_NONE;
    if (worst) {
        board_decision(
            s->c, "memory",
            "no memory for trial %u: the slowest, trial %u, is freed",
            t->number, worst->number);
        search_trial_free(s, worst, "memory");
        b = board_fork(s->c, board_branch(s->c, s->plan.parent),
                       BRANCH_TRAINING, &t->setting, t->json, "trial");
        if (b) {
            t->run.branch = b->id;
            return;
        }
    }
    t->summary.label = TRIAL_FAILED;
    t->judged = true;
    search_trial_end(s, t);
    board_decision(s->c, "memory", "no memory for trial %u: %s", t->number,
                   err_text(err));
}

/* A trial that cannot win: its slices are cut short, then it ends with what it
 * had. */
static bool wound_up(struct search *s, struct trial *t, const struct branch *b)
{
    if (b->slices) {
        /* Where a cut falls depends on a clock. */
        if (!search_by_samples(s))
            board_cut(s->c, b->id);
        return false;
    }
    search_judge(s, t, b);
    if (t->summary.label != TRIAL_DIVERGED && t->summary.label != TRIAL_FAILED)
        t->summary.label = TRIAL_STOPPED;
    t->news = true;
    search_trial_free(s, t, "it cannot win");
    return true;
}

/* Takes one trial as far as it goes. False while it is under way. */
static bool trial_arrived(struct search *s, struct trial *t)
{
    const struct branch *b = board_branch(s->c, t->run.branch);
    enum runner_state state;

    if (!b)
        return true;
    if (t->stopped)
        return wound_up(s, t, b);
    state = runner_advance(s, &t->run);
    if (b->state == BRANCH_REFUSED) {
        refused(s, t);
        return t->run.branch == BRANCH_NONE;
    }
    if (state == RUNNER_BUSY)
        return false;
    if (state == RUNNER_BROKEN)
        return true;
    if (t->run.goal_time < s->trial_time || s->trial_time == 0) {
        t->judged = false;
        if (!s->decided)
            search_time_floor(s, b);
        search_time_goal(s, t, b);
        return runner_advance(s, &t->run) == RUNNER_ARRIVED;
    }
    return true;
}

bool search_trials_arrived(struct search *s)
{
    bool all = true, probe;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        t->arrived = trial_arrived(s, t);
        all &= t->arrived;
    }
    probe = search_probe_follows(s);
    for (uint32_t i = 0; i < s->trials && !probe; i++)
        s->trial[i].arrived = false;
    return all && probe;
}

bool search_trials_overlap(struct search *s)
{
    struct trial *last = &s->trial[s->trials - 1];

    /* No decision reads a clock where trial lengths are given in clocks. */
    if (search_by_samples(s) || last->arrived || last->stopped ||
        last->run.goal_time < s->trial_time)
        return false;
    for (uint32_t i = 0; i + 1 < s->trials; i++)
        if (!s->trial[i].arrived)
            return false;
    return board_latest_wait_s(s->c) > SEARCH_OVERLAP * s->trial_time &&
           runner_queued(s, &last->run);
}

/* The searcher hears of a trial again when its pace moved by more than this. */
#define SEARCH_PACE_NEWS 0.01

/* All trials at the pooled paces, which the latest measurement has moved. */
static void pace_all(struct search *s, const bool fresh[])
{
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        double longer = search_by_samples(s) ? 1 : pace_apply(s, t);

        if (fresh[i] || fabs(longer - 1) > SEARCH_PACE_NEWS)
            t->news = true;
    }
}

bool search_trials_judge(struct search *s)
{
    bool fresh[TUNER_TRIALS_MAX + 1] = {false}, any = false;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        const struct branch *b = board_branch(s->c, t->run.branch);

        if (!b || !t->arrived || (t->judged && t->samples == b->own_samples))
            continue;
        search_judge(s, t, b);
        search_compare(s, t, b);
        fresh[i] = any = true;
    }
    if (!any)
        return false;
    pace_all(s, fresh);
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if (!fresh[i])
            continue;
        if (t->summary.label == TRIAL_DIVERGED ||
            t->summary.label == TRIAL_FAILED)
            search_trial_free(s, t, trial_label_name(t->summary.label));
        else
            search_trial_record(s, t, RECORD_TRIAL_UPDATED);
    }
    return true;
}
