#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_extras.h"
#include "tuner/history/history_fold.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* An array of @len items in as much memory. */
static void fit(void **items, size_t *cap, size_t len, size_t item)
{
    void *less = len > 0 ? mem_realloc(*items, len * item) : NULL;

    if (len == 0) {
        mem_free(*items);
        *items = NULL;
        *cap = 0;
    } else if (less) {
        *items = less;
        *cap = len;
    }
}

static void rest_searches(struct history *h)
{
    const struct history_tuning cost = history_tuning(h);

    for (size_t i = 0; i < history_trials_len(h); i++)
        h->dropped_stopped += history_trial_at(h, i).t.label == TRIAL_STOPPED;
    h->searches_dropped = history_searches_made(h);
    h->trials_dropped = history_trials_made(h);
    h->choices_dropped += h->cold_choice.rows;
    h->dropped_s = cost.seconds;
    h->dropped_clocks = cost.clocks;
    for (size_t i = 0; i < h->searches; i++)
        json_decref(h->search[i].started.tunables);
    for (size_t i = 0; i < h->trials; i++)
        json_decref(h->trial[i].t.setting);
    for (size_t i = 0; i < h->suggestions; i++)
        json_decref(h->suggestion[i].s.setting);
    h->searches = h->trials = h->suggestions = 0;
    fit((void **)&h->search, &h->searches_cap, 0, 1);
    fit((void **)&h->trial, &h->trials_cap, 0, 1);
    fit((void **)&h->suggestion, &h->suggestions_cap, 0, 1);
}

/* The last setting says where the lineage is. */
static void rest_choices(struct history *h)
{
    for (size_t i = 0; i + 1 < h->choices; i++)
        json_decref(h->choice[i].c.setting);
    if (h->choices > 1) {
        h->choice[0] = h->choice[h->choices - 1];
        h->choices_dropped += h->choices - 1;
        h->choices = 1;
    }
    fit((void **)&h->choice, &h->choices_cap, h->choices, sizeof(*h->choice));
}

static void rest_epochs(struct history *h)
{
    size_t n = 0, last = 0, best = 0;

    for (size_t i = 0; i < h->epochs; i++) {
        bool is_last = i + 1 == h->last_epoch, is_best = i + 1 == h->best_epoch;

        if (!is_last && !is_best) {
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
    fit((void **)&h->epoch, &h->epochs_cap, n, sizeof(*h->epoch));
}

/* The latest value of each further metric in the lineage of @b. */
static void latest(const struct history *h, const struct history_branch *b,
                   double x[EXTRAS_MAX])
{
    for (size_t k = 0; k < EXTRAS_MAX; k++)
        x[k] = NAN;
    for (; b; b = b->parent < b->branch ? history_branch(h, b->parent) : NULL)
        for (size_t k = 0; k < h->extras.len; k++)
            for (size_t i = b->points; i > 0 && isnan(x[k]); i--)
                x[k] = history_extra(b, k, i - 1);
}

/* The nearest of @b and those before it that has a point. */
static struct history_branch *with_point(const struct history *h,
                                         struct history_branch *b)
{
    while (b && b->points == 0)
        b = b->parent < b->branch ? history_find(h, b->parent) : NULL;
    return b;
}

static void keep_last_point(struct history_branch *b)
{
    if (b->points < 2)
        return;
    history_extras_move(b, 0, b->points - 1);
    b->point[0] = b->point[b->points - 1];
    b->points = 1;
    fit((void **)&b->point, &b->capacity, 1, sizeof(*b->point));
    history_extras_shrink(b);
}

/* Branches that live, and that of the lineage, with their last points. */
static void rest_branches(struct history *h)
{
    struct history_branch *tip = history_find(h, history_tip(h));
    struct history_branch *pointed = with_point(h, tip);
    double x[EXTRAS_MAX];
    size_t n = 0;

    latest(h, tip, x);
    if (pointed && pointed != tip)
        tip->parent = pointed->branch;
    for (size_t i = 0; i < h->branches; i++) {
        struct history_branch *b = &h->branch[i];

        if (b != tip && b != pointed && !isnan(b->freed_at_s)) {
            history_branch_release(b);
            continue;
        }
        keep_last_point(b);
        if (b == pointed && h->extras.len) /* without memory: fewer values */
            (void)history_extras_put(b, 0, x, h->extras.len, 1);
        h->branch[n++] = *b;
    }
    h->branches_dropped += h->branches - n;
    h->branches = n;
    h->freed_points = 0;
    fit((void **)&h->branch, &h->branches_cap, n, sizeof(*h->branch));
}

static void rest_snapshots(struct history *h)
{
    for (size_t i = 0; i < h->snapshots; i++)
        json_decref(h->snapshot[i].s.state);
    if (h->snapshots > 1)
        h->snapshot[0] = h->snapshot[h->snapshots - 1];
    h->snapshots = h->snapshots > 0;
    if (h->snapshots)
        h->snapshot[0].s.state = NULL;
    fit((void **)&h->snapshot, &h->snapshots_cap, h->snapshots,
        sizeof(*h->snapshot));
}

void history_rest(struct history *h)
{
    assert(h);
    rest_searches(h);
    rest_branches(h); /* while all choices and epochs say where the tip is */
    rest_choices(h);
    rest_epochs(h);
    rest_snapshots(h);
    cold_deinit(h);
    h->slices_dropped += h->slices;
    h->decisions_dropped += h->decisions;
    h->slices = h->decisions = h->tables = 0;
    fit((void **)&h->slice, &h->slices_cap, 0, 1);
    fit((void **)&h->decision, &h->decisions_cap, 0, 1);
    mem_free(h->table);
    h->table = NULL;
    nodes_deinit(&h->nodes);
    json_decref(h->model.data);
    h->model.data = NULL;
}
