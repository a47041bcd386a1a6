#include "tuner/search/search_recall.h"

#include "tuner/board/saved.h"
#include "tuner/history/history.h"
#include "tuner/search/search_run.h"
#include "tuner/search/search_trials.h"

#include <math.h>
#include <string.h>

/* Whether there is nothing left to run of it. While the trial time is not found
 * every trial that lives may have to run on. */
static bool is_finished(const struct search *s, const struct history_trial *h)
{
    if (h->t.incumbent) /* it is needed beside others, to compare with */
        return h->ended &&
               (h->t.label == TRIAL_DIVERGED || h->t.label == TRIAL_FAILED);
    if (h->ended)
        return h->t.label != TRIAL_INTERRUPTED;
    return s->decided && h->t.label != TRIAL_RUNNING;
}

static void recall_summary(const struct search *s, struct trial *t,
                           const struct record_trial *r)
{
    t->summary.label = r->label;
    t->summary.speed = r->speed;
    t->summary.noise = r->noise;
    t->summary.range = r->range;
    t->summary.seconds = search_by_samples(s) ? r->run_s : r->seconds;
    t->summary.points = r->points;
    memcpy(t->summary.time_s, r->time_s, sizeof(r->time_s));
    memcpy(t->summary.loss, r->loss, sizeof(r->loss));
    t->samples = r->samples;
    t->clocks = r->clocks;
    t->lead = r->lead;
    t->lead_se = r->lead_se;
    t->pairs = r->pairs;
    t->pace = r->pace;
    t->paced = r->paced;
    t->seconds = r->run_s;
    t->own_s = r->seconds;
}

static enum err recall_trial(struct search *s, const struct history_trial *h)
{
    struct trial *t = &s->trial[s->trials];
    struct setting setting;
    json_t *own;
    enum err err = saved_setting(board_space(s->c), h->t.setting, &setting);

    if (err)
        return err;
    own = json_deep_copy(h->t.setting);
    if (!own)
        return ERR_NOMEM;
    *t = (struct trial){
        .number = h->t.trial,
        .incumbent = h->t.incumbent,
        .setting = setting,
        .json = own,
        .suggestion = h->t.suggestion,
        .run = {.branch = BRANCH_NONE},
    };
    if (is_finished(s, h)) {
        recall_summary(s, t, &h->t);
        t->judged = true;
        t->ended = h->ended;
        t->news = true;
    } else {
        t->lost = true;
    }
    s->started_clocks -= h->t.clocks < s->started_clocks ? h->t.clocks : 0;
    s->trials++;
    s->recalled++;
    return ERR_OK;
}

static void forget(struct search *s)
{
    while (s->trials > 0)
        json_decref(s->trial[--s->trials].json);
    s->recalled = 0;
    s->started_clocks = board_clocks_run(s->c);
}

/* Seconds that the search had taken by the last that is known of its trials;
 * what was lost after that, and the time in between, is not its cost. */
static double spent_before(const struct search *s,
                           const struct history_search *known)
{
    const struct history *h = s->plan.known;
    double last = known->started_at_s;

    for (size_t i = 0; i < h->trials; i++)
        if (h->trial[i].t.search == s->plan.number)
            last = fmax(last, isnan(h->trial[i].ended_at_s)
                                  ? h->trial[i].started_at_s
                                  : h->trial[i].ended_at_s);
    return last - known->started_at_s;
}

enum err search_recall(struct search *s)
{
    const struct history *h = s->plan.known;
    const struct history_search *known = &h->search[s->plan.number - 1];

    s->decided = known->decided;
    if (s->decided) {
        s->trial_time = known->trial_s;
        s->judged_s = known->judged_s;
    }
    s->started_s = board_active_s(s->c) - spent_before(s, known);
    for (size_t i = 0; i < h->trials; i++) {
        enum err err = ERR_OK;

        if (h->trial[i].t.search == s->plan.number &&
            s->trials <= s->plan.trials_max)
            err = recall_trial(s, &h->trial[i]);
        if (err == ERR_NOMEM) {
            forget(s);
            return err;
        }
        if (err)
            board_decision(s->c, "resume",
                           "trial %u is not taken over: its setting is not "
                           "one of this search",
                           h->trial[i].t.trial);
    }
    return ERR_OK;
}

bool search_recall_lost(struct search *s)
{
    struct board *c = s->c;

    for (uint32_t i = 0; i < s->recalled; i++) {
        struct trial *t = &s->trial[i];
        const struct branch *b;

        if (!t->lost)
            continue;
        b = board_fork(c, board_branch(c, s->plan.parent), BRANCH_TRAINING,
                       &t->setting, t->json, "trial");
        if (!b) {
            board_retry(c);
            return false;
        }
        t->lost = false;
        t->run.branch = b->id;
        t->run.goal = search_trial_goal(s);
        search_trial_record(s, t, RECORD_TRIAL_UPDATED);
    }
    return true;
}
