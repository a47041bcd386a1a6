/* What gives way in the history of a long run. */
#include "tuner/history/history_fold.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- searches and trials ------------------------------------------------- */

static void drop_search(struct history *h, const struct history_search *s)
{
    h->dropped_s += s->end.seconds;
    h->dropped_clocks += s->end.clocks;
    json_decref(s->started.tunables);
}

void history_bound_searches(struct history *h)
{
    size_t n = 0;

    if (h->searches < HISTORY_SEARCHES_MAX)
        return;
    while (n < h->searches / 2 && h->search[n].ended)
        drop_search(h, &h->search[n++]);
    h->searches -= n;
    h->searches_dropped += (uint32_t)n;
    memmove(h->search, h->search + n, h->searches * sizeof(*h->search));
}

/* Whether all that is known of trial @t is history: its search is over, and
 * another one has begun since. */
static bool is_over(const struct history *h, const struct history_trial *t)
{
    const struct history_search *s = history_search(h, t->t.search);

    return t->ended && t->t.search < history_searches_made(h) &&
           (!s || s->ended);
}

void history_bound_trials(struct history *h)
{
    size_t n = 0;

    if (h->trials < HISTORY_TRIALS_MAX)
        return;
    for (; n < h->trials / 2 && is_over(h, &h->trial[n]); n++) {
        h->dropped_stopped += h->trial[n].t.label == TRIAL_STOPPED;
        json_decref(h->trial[n].t.setting);
    }
    h->trials -= n;
    h->trials_dropped += (uint32_t)n;
    memmove(h->trial, h->trial + n, h->trials * sizeof(*h->trial));
}

/* ---- epochs and settings ------------------------------------------------- */

void history_bound_epochs(struct history *h)
{
    size_t n = 0, last = 0, best = 0;

    if (h->epochs < HISTORY_EPOCHS_MAX)
        return;
    for (size_t i = 0; i < h->epochs; i++) {
        bool is_last = i + 1 == h->last_epoch, is_best = i + 1 == h->best_epoch;

        if (i < h->epochs / 2 && i % 2 && !is_last && !is_best) {
            json_decref(h->epoch[i].e.setting);
            continue;
        }
        h->epoch[n++] = h->epoch[i];
        last = is_last ? n : last;
        best = is_best ? n : best;
    }
    h->epochs_dropped += h->epochs - n;
    h->epochs = n;
    h->last_epoch = last;
    h->best_epoch = best;
}

void history_bound_choices(struct history *h)
{
    size_t half = h->choices / 2;

    if (h->choices < HISTORY_CHOICES_MAX)
        return;
    for (size_t i = 0; i < half; i++)
        json_decref(h->choice[i].c.setting);
    history_drop_half(h->choice, &h->choices, sizeof(*h->choice),
                      HISTORY_CHOICES_MAX, &h->choices_dropped);
}

/* ---- branches ------------------------------------------------------------ */

/* The newest are kept as they are: they are what is looked at. */
enum { NEWEST = HISTORY_BRANCHES_MAX / 8, ENOUGH = HISTORY_BRANCHES_MAX / 2 };

/* What becomes of each branch; the lower goes the sooner. */
enum fate { SPARE, NAMED, LINEAGE, KEPT, GONE };

static size_t index_of(const struct history *h, branch_id id)
{
    const struct history_branch *b = history_find(h, id);

    return b ? (size_t)(b - h->branch) : SIZE_MAX;
}

static void at_least(unsigned char fate[], size_t index, enum fate least)
{
    if (index != SIZE_MAX && fate[index] < (unsigned char)least)
        fate[index] = (unsigned char)least;
}

static void judge(const struct history *h, unsigned char fate[])
{
    branch_id tip = history_tip(h);

    for (size_t i = 0; i < h->branches; i++) {
        const struct history_branch *b = &h->branch[i];

        fate[i] = isnan(b->freed_at_s) || b->wish != WISH_NONE || b->kept_in ||
                          i + NEWEST >= h->branches
                      ? KEPT
                      : SPARE;
    }
    for (size_t i = 0; i < h->trials; i++)
        at_least(fate, index_of(h, h->trial[i].t.branch),
                 h->trial[i].ended ? NAMED : KEPT);
    for (size_t i = 0; i < h->epochs; i++)
        at_least(fate, index_of(h, h->epoch[i].e.branch), NAMED);
    for (const struct history_branch *b = history_find(h, tip); b;
         b = b->parent < b->branch ? history_find(h, b->parent) : NULL)
        at_least(fate, (size_t)(b - h->branch), LINEAGE);
    for (size_t i = 0; i < h->snapshots; i++)
        at_least(fate, index_of(h, h->snapshot[i].s.branch), KEPT);
    at_least(fate, index_of(h, 0), KEPT);
}

/* The oldest of those with fate @which go, every @step-th, until no more than
 * ENOUGH are left. */
static void let_go(const struct history *h, unsigned char fate[],
                   enum fate which, unsigned step, size_t *left)
{
    unsigned n = 0;

    for (size_t i = 0; i<h->branches && * left> ENOUGH; i++)
        if (fate[i] == which && n++ % step == step - 1) {
            fate[i] = GONE;
            --*left;
        }
}

/* The nearest ancestor of branch @id, or itself, that stays. */
static branch_id stays(const struct history *h, const unsigned char fate[],
                       branch_id id)
{
    size_t i;

    while ((i = index_of(h, id)) != SIZE_MAX && fate[i] == GONE)
        id = h->branch[i].parent;
    return id;
}

/* Epochs that survive are of the lineage still; others are of nobody's. */
static void hand_over(struct history *h, const unsigned char fate[])
{
    for (size_t i = 0; i < h->epochs; i++)
        if (h->epoch[i].e.surviving)
            h->epoch[i].e.branch = stays(h, fate, h->epoch[i].e.branch);
    for (size_t i = 0; i < h->branches; i++)
        if (fate[i] != GONE)
            h->branch[i].parent = stays(h, fate, h->branch[i].parent);
}

static void remove_gone(struct history *h, const unsigned char fate[])
{
    size_t n = 0;

    for (size_t i = 0; i < h->branches; i++) {
        struct history_branch *b = &h->branch[i];

        if (fate[i] != GONE) {
            h->branch[n++] = *b;
            continue;
        }
        h->freed_points -= b->points;
        history_branch_release(b);
    }
    h->branches_dropped += h->branches - n;
    h->branches = n;
}

enum err history_bound_branches(struct history *h)
{
    size_t left = h->branches;
    unsigned char *fate;

    /* Where more than that are in use, not at each of them. */
    if (h->branches < HISTORY_BRANCHES_MAX || h->branches % NEWEST)
        return ERR_OK;
    fate = mem_alloc(h->branches);
    if (!fate)
        return ERR_NOMEM;
    judge(h, fate);
    let_go(h, fate, SPARE, 1, &left);
    let_go(h, fate, NAMED, 1, &left);
    let_go(h, fate, LINEAGE, 2, &left);
    hand_over(h, fate);
    remove_gone(h, fate);
    mem_free(fate);
    assert(h->branches == left);
    return ERR_OK;
}
