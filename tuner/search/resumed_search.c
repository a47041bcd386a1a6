#include "tuner/search/resumed_search.h"

#include "base/json/json.h"
#include "tuner/board/saved.h"
#include "tuner/history/history.h"
#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Whether there is nothing left to run of it. While the trial time is not found
 * every trial that lives may have to run on. */
static bool is_finished(const struct history_trial *h, bool decided)
{
    if (h->t.incumbent) /* it is needed beside others, to compare with */
        return h->ended &&
               (h->t.label == TRIAL_DIVERGED || h->t.label == TRIAL_FAILED);
    if (h->ended)
        return h->t.label != TRIAL_INTERRUPTED;
    return decided && h->t.label != TRIAL_RUNNING;
}

/* Whether a finished trial had its branch all the same, and it is known how far
 * that was run. */
static bool had_branch(const struct board *c, const struct history_trial *h,
                       bool decided)
{
    return (!h->ended || h->outlived) && h->t.figures.clocks > 0 &&
           h->t.figures.samples > 0 && (decided || units_by_samples(c));
}

static enum err recall_trial(struct trials *t, const struct history_trial *h,
                             bool decided)
{
    struct setting setting;
    struct trial *x;
    json_t *own;
    enum err err = saved_setting(board_space(t->c), h->t.setting, &setting);

    assert(t->n <= t->max);
    if (err)
        return err;
    own = json_copied(h->t.setting);
    if (!own)
        return ERR_NOMEM;
    x = trials_next(t, &setting, own, h->t.suggestion);
    x->number = h->t.trial;
    x->incumbent = h->t.incumbent;
    if (is_finished(h, decided)) {
        x->label = h->t.label;
        x->figures = h->t.figures;
        if (x->figures.points > 1) { /* an older tuner had another unit */
            x->figures.speed =
                summary_speed(&x->figures, board_loss_floor(t->c));
            x->figures.speed_unit = judge_speed_unit(t->c, &x->figures);
        }
        memcpy(x->reason, h->t.reason, sizeof(x->reason));
        x->resource =
            units_by_samples(t->c) ? x->figures.run_s : x->figures.seconds;
        x->judged = x->news = true;
        x->ended = h->ended;
        x->lost = x->again = had_branch(t->c, h, decided);
    } else {
        x->lost = true;
    }
    t->n++;
    t->recalled++;
    return ERR_OK;
}

/* Seconds that the search had taken by the last that is known of its trials;
 * what was lost after that, and the time in between, is not its cost. */
static double spent_s(const struct history *h, uint32_t search)
{
    double began = history_search(h, search)->started_at_s, last = began;

    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_trial t = history_trial_at(h, i);

        if (t.t.search == search)
            last =
                fmax(last, isnan(t.ended_at_s) ? t.started_at_s : t.ended_at_s);
    }
    return last - began;
}

static void forget(struct trials *t)
{
    while (t->n > 0)
        json_decref(t->list[--t->n].json);
    t->recalled = 0;
}

enum err resumed_search_load(struct trial_time *time, const struct history *h,
                             uint64_t clocks_run, struct resumed_cost *cost)
{
    struct trials *t = time->judge->trials;
    const struct history_search *known = history_search(h, t->search);
    uint64_t clocks = 0;

    assert(t->n == 0 && t->list);
    assert(known);
    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_trial x = history_trial_at(h, i);
        enum err err = ERR_OK;

        if (x.t.search != t->search || t->n > t->max)
            continue;
        x.t.setting = history_trial_setting(h, i);
        err = x.t.setting ? recall_trial(t, &x, known->decided) : ERR_NOMEM;
        json_decref(x.t.setting);
        if (err == ERR_NOMEM) {
            forget(t);
            return err;
        }
        if (err)
            board_decision(t->c, "resume",
                           "trial %u is not taken over: its setting is not "
                           "one of this search",
                           x.t.trial);
        else if (x.t.figures.clocks < clocks_run - clocks)
            clocks += x.t.figures.clocks;
    }
    time->decided = known->decided;
    if (known->decided) {
        time->length = known->trial_s;
        time->judge->judged_s = known->judged_s;
    }
    *cost = (struct resumed_cost){spent_s(h, t->search), clocks};
    return ERR_OK;
}

/* Where a trial that runs again is over for now. Where no decision reads a
 * clock it comes as far as it did by the same steps; else it is known how far
 * that was. */
static uint64_t goal_again(const struct trial_time *time, const struct trial *x)
{
    const struct board *c = time->judge->trials->c;

    if (!x->again || units_by_samples(c))
        return trial_time_shortest(time);
    return board_has_parts(c) ? x->figures.clocks : x->figures.samples;
}

bool resumed_search_fork(const struct trial_time *time, branch_id parent)
{
    struct trials *t = time->judge->trials;

    assert(t->recalled <= t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        double wait_s = x->fork_at_s - board_active_s(t->c);

        if (!x->lost)
            continue;
        if (wait_s > 0) {
            board_retry_after(t->c, wait_s);
            return false;
        }
        if (!trial_fork(t->c, x, parent)) {
            board_retry(t->c);
            return false;
        }
        x->lost = false;
        x->run.goal = goal_again(time, x);
        if (!x->ended)
            trial_record(t->c, x, RECORD_TRIAL_UPDATED);
    }
    return true;
}

uint32_t resumed_search_gave_up(const struct trials *t, const struct history *h)
{
    const struct history_search *known = history_search(h, t->search);

    assert(known);
    if (known->decided || known->end.search != t->search)
        return 0;
    for (uint32_t i = 0; i < t->recalled; i++)
        if (t->list[i].lost && !t->list[i].again)
            return 0;
    return known->end.trials == trials_made(t) ? known->end.trials : 0;
}
