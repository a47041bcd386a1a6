/* What gives way in the history of a long run. */
#include "tuner/history/history_fold.h"

#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_epochs.h"
#include "tuner/history/history_extras.h"
#include "tuner/history/history_store.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- searches and trials ------------------------------------------------- */

/* The first @n of @items, which own nothing any more, go. */
static void take_off(void *items, size_t *len, size_t item_size, size_t n)
{
    *len -= n;
    if (n > 0)
        memmove(items, (char *)items + n * item_size, *len * item_size);
}

/* What cannot be cooled for want of memory is whole still, and is the next time
 * that it is looked at. */
static void cool_searches(struct history *h, size_t most)
{
    size_t n = 0;

    while (n < most && h->search[n].ended &&
           cold_add_search(h, &h->search[n]) == ERR_OK)
        json_decref(h->search[n++].started.tunables);
    take_off(h->search, &h->searches, sizeof(*h->search), n);
}

static void drop_searches(struct history *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct history_search s = cold_search(h, i);

        h->dropped_s += s.end.seconds;
        h->dropped_clocks += s.end.clocks;
    }
    cold_drop(&h->cold_search, n);
    h->searches_dropped += (uint32_t)n;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void history_bound_searches(struct history *h)
{
    if (h->searches >= HISTORY_SEARCHES_WHOLE)
        cool_searches(h, h->searches / 2);
    if (history_searches_len(h) >= HISTORY_SEARCHES_MAX)
        drop_searches(h,
                      smaller(HISTORY_SEARCHES_MAX / 2, h->cold_search.rows));
}

/* Trials are looked at when there are a multiple of so many. */
enum { LOOK_EVERY = 64 };

/* Who has made so many of all that are kept will make them all. */
enum { MANY_PART = 8 };

/* Whether all that is known of trial @t is history: its search is over, and
 * another one has begun since. */
static bool is_over(const struct history *h, const struct history_trial *t)
{
    const struct history_search *s = history_search(h, t->t.search);

    return t->ended && t->t.search < history_searches_made(h) &&
           (!s || s->ended);
}

/* Those of a search that is whole are, too, unless there are very many: the run
 * may go back to it. */
static size_t coolable(const struct history *h)
{
    bool many = h->trials >= HISTORY_TRIALS_WHOLE;
    size_t n = 0;

    while (n < h->trials && is_over(h, &h->trial[n]) &&
           (many || !history_search(h, h->trial[n].t.search)))
        n++;
    return n;
}

static void cool_trials(struct history *h, size_t most)
{
    size_t n = 0;

    while (n < most && cold_add_trial(h, &h->trial[n]) == ERR_OK)
        json_decref(h->trial[n++].t.setting);
    if (h->cold_trial.rows >= HISTORY_TRIALS_MAX / MANY_PART)
        cold_take_room(&h->cold_trial, HISTORY_TRIALS_MAX);
    take_off(h->trial, &h->trials, sizeof(*h->trial), n);
}

static void drop_trials(struct history *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h->dropped_stopped += cold_trial(h, i).t.label == TRIAL_STOPPED;
    cold_drop(&h->cold_trial, n);
    h->trials_dropped += (uint32_t)n;
}

void history_bound_trials(struct history *h)
{
    if (h->trials % LOOK_EVERY == 0)
        cool_trials(h, coolable(h));
    if (history_trials_len(h) >= HISTORY_TRIALS_MAX)
        drop_trials(h, smaller(HISTORY_TRIALS_MAX / 2, h->cold_trial.rows));
}

/* ---- epochs and settings ------------------------------------------------- */

static bool stays_when_old(const struct history *h, size_t i)
{
    return i >= h->epochs / 2 || i % 2 == 0 || i + 1 == h->last_epoch ||
           i + 1 == h->best_epoch;
}

void history_bound_epochs(struct history *h)
{
    if (h->epochs >= HISTORY_EPOCHS_MAX)
        history_keep_epochs(h, stays_when_old);
}

static void cool_choices(struct history *h, size_t most)
{
    size_t n = 0;

    while (n < most && cold_add_choice(h, &h->choice[n]) == ERR_OK)
        json_decref(h->choice[n++].c.setting);
    take_off(h->choice, &h->choices, sizeof(*h->choice), n);
}

void history_bound_choices(struct history *h)
{
    size_t half = HISTORY_CHOICES_MAX / 2;

    if (h->choices >= HISTORY_CHOICES_WHOLE)
        cool_choices(h, h->choices / 2);
    if (history_choices_len(h) < HISTORY_CHOICES_MAX)
        return;
    half = smaller(half, h->cold_choice.rows);
    cold_drop(&h->cold_choice, half);
    h->choices_dropped += half;
}

/* ---- read back ----------------------------------------------------------- */

/* An array of @len items in as much memory; as it was where there is none. */
static void shrink(void **items, size_t *cap, size_t len, size_t item)
{
    void *less = len > 0 ? mem_realloc(*items, len * item) : NULL;

    if (len == 0)
        mem_free(*items);
    else if (!less)
        return;
    *items = less;
    *cap = len;
}

/* A checkpoint has all of them whole: arrays for that many are not needed. */
enum err history_cool(struct history *h, uint64_t searches, uint64_t trials,
                      uint64_t choices)
{
    if (searches > h->searches || trials > h->trials || choices > h->choices)
        return ERR_FORMAT;
    for (size_t i = 0; i < searches; i++)
        if (!h->search[i].ended)
            return ERR_FORMAT;
    for (size_t i = 0; i < trials; i++)
        if (!h->trial[i].ended)
            return ERR_FORMAT;
    cool_searches(h, searches); /* which says what trials lose */
    cool_trials(h, trials);
    cool_choices(h, choices);
    shrink((void **)&h->search, &h->searches_cap, h->searches,
           sizeof(*h->search));
    shrink((void **)&h->trial, &h->trials_cap, h->trials, sizeof(*h->trial));
    shrink((void **)&h->choice, &h->choices_cap, h->choices,
           sizeof(*h->choice));
    return h->cold_search.rows < searches || h->cold_trial.rows < trials ||
                   h->cold_choice.rows < choices
               ? ERR_NOMEM
               : ERR_OK;
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
    for (size_t i = 0; i < h->cold_trial.rows; i++)
        at_least(fate, index_of(h, cold_trial_branch(h, i)), NAMED);
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
        history_branch_release(h, b);
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

/* ---- runs that are over ------------------------------------------------- */

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
    shrink((void **)&h->search, &h->searches_cap, 0, 1);
    shrink((void **)&h->trial, &h->trials_cap, 0, 1);
    shrink((void **)&h->suggestion, &h->suggestions_cap, 0, 1);
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
    shrink((void **)&h->choice, &h->choices_cap, h->choices,
           sizeof(*h->choice));
}

static bool stays_at_rest(const struct history *h, size_t i)
{
    return i + 1 == h->last_epoch || i + 1 == h->best_epoch;
}

static void rest_epochs(struct history *h)
{
    history_keep_epochs(h, stays_at_rest);
    epoch_settings_thaw(h);
    shrink((void **)&h->epoch, &h->epochs_cap, h->epochs, sizeof(*h->epoch));
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
    assert(b);
    if (b->points < 2)
        return;
    history_extras_move(b, 0, b->points - 1);
    b->point[0] = b->point[b->points - 1];
    b->points = 1;
    shrink((void **)&b->point, &b->capacity, 1, sizeof(*b->point));
    history_extras_shrink(b);
}

/* In few bytes it names a shape, and those go. Without memory: no setting. */
static void thaw_setting(const struct history *h, struct history_branch *b)
{
    assert(b);
    if (!b->few)
        return;
    b->setting = cold_setting_read(h, b->few);
    mem_free(b->few);
    b->few = NULL;
}

/* Without memory: @b has no points, and no setting. */
static void lose(struct history *h, struct history_branch *b)
{
    history_store_release(h, b);
    history_extras_free(b);
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
            history_branch_release(h, b);
            continue;
        }
        if (history_store_take_out(h, b))
            lose(h, b);
        thaw_setting(h, b);
        keep_last_point(b);
        if (b == pointed && b->points > 0 &&
            h->extras.len) /* without memory: fewer */
            (void)history_extras_put(b, 0, x, h->extras.len, 1);
        h->branch[n++] = *b;
    }
    h->branches_dropped += h->branches - n;
    h->branches = n;
    h->freed_points = 0;
    history_store_deinit(h);
    shrink((void **)&h->branch, &h->branches_cap, n, sizeof(*h->branch));
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
    shrink((void **)&h->snapshot, &h->snapshots_cap, h->snapshots,
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
    shrink((void **)&h->slice, &h->slices_cap, 0, 1);
    shrink((void **)&h->decision, &h->decisions_cap, 0, 1);
    mem_free(h->table);
    h->table = NULL;
    nodes_deinit(&h->nodes);
    json_decref(h->model.data);
    h->model.data = NULL;
    json_decref(h->data);
    h->data = NULL;
}
