#include "tuner/history/history_fold.h"

#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_extras.h"
#include "tuner/history/history_store.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- progress ------------------------------------------------------------ */

static void point_join(struct history_point *to, const struct history_point *p)
{
    to->branch_clock = p->branch_clock;
    to->clock = p->clock;
    to->at_s = p->at_s;
    window_join(&to->w, &p->w);
}

static void halve(struct history_branch *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->points; i += 2) {
        struct history_point p = b->point[i];

        history_extras_move(b, n, i);
        if (i + 1 < b->points) {
            history_extras_join(b, n, p.w.clocks, i + 1,
                                b->point[i + 1].w.clocks);
            point_join(&p, &b->point[i + 1]);
        }
        b->point[n++] = p;
    }
    /* The last point holds last_merged windows, or, if it took in its full
     * neighbour, as many more. */
    if (b->points % 2 == 0)
        b->last_merged += b->merge;
    b->points = n;
    b->merge *= 2;
}

/* @p is of window @window, with further metrics @values. */
static void point_add(const struct history *h, struct history_branch *b,
                      const struct history_point *p, const json_t *values,
                      size_t window)
{
    size_t last = b->points - 1;

    if (b->points && b->last_merged < b->merge) {
        history_extras_take(h, b, last, b->point[last].w.clocks, values, window,
                            p->w.clocks);
        point_join(&b->point[last], p);
        b->last_merged++;
        return;
    }
    if (b->points == HISTORY_POINTS_MAX) {
        halve(b);
        point_add(h, b, p, values, window);
        return;
    }
    assert(b->points < b->capacity);
    b->point[b->points++] = *p;
    b->last_merged = 1;
    history_extras_set(h, b, b->points - 1, values, window);
}

enum err history_apply_progress(struct history *h, const struct record *r)
{
    const struct record_progress *p = &r->progress;
    struct history_branch *b = history_find(h, p->branch);
    clock_no ran = p->branch_clock;
    size_t need;

    assert(r->kind == RECORD_PROGRESS);
    if (!b)
        return ERR_FORMAT;
    if (history_store_take_out(h, b))
        return ERR_NOMEM;
    need = b->points + p->windows;
    if (need > HISTORY_POINTS_MAX)
        need = HISTORY_POINTS_MAX;
    if (mem_grow((void **)&b->point, &b->capacity, sizeof(*b->point), need) ||
        history_extras_grow(h, b, p->values, b->capacity))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->windows; i++) {
        const struct progress_window *w = &p->window[i];
        struct history_point point = {.w = *w, .at_s = r->at_s};

        point.clock = p->first + (ran - p->branch_clock);
        ran += w->clocks;
        point.branch_clock = ran;
        point_add(h, b, &point, p->values, i);
        b->clocks += w->clocks;
        b->samples += w->samples;
        b->seconds += w->seconds;
    }
    return ERR_OK;
}

/* ---- branches and slices ------------------------------------------------- */

void history_branch_release(struct history *h, struct history_branch *b)
{
    assert(b);
    json_decref(b->setting);
    history_store_release(h, b);
    history_extras_free(b);
}

enum err history_apply_created(struct history *h, const struct record *r)
{
    const struct record_branch_created *c = &r->branch_created;
    struct history_branch b = {
        .branch = c->branch,
        .parent = c->parent,
        .type = c->type,
        .created_at_s = r->at_s,
        .freed_at_s = NAN,
        .created_clock = r->clock,
        .merge = 1,
    };

    assert(r->kind == RECORD_BRANCH_CREATED);
    if (h->branches && h->branch[h->branches - 1].branch >= c->branch)
        return ERR_FORMAT;
    if (history_bound_branches(h) ||
        mem_grow((void **)&h->branch, &h->branches_cap, sizeof(b),
                 h->branches + 1))
        return ERR_NOMEM;
    memcpy(b.role, c->role, sizeof(b.role));
    b.setting = history_hold(
        c->setting, h->branches ? h->branch[h->branches - 1].setting : NULL);
    h->branch[h->branches++] = b;
    return ERR_OK;
}

/* A freed branch keeps at most @most points, in as much memory. */
static void shrink(struct history *h, struct history_branch *b, size_t most)
{
    struct history_point *less;

    while (b->points > most)
        halve(b);
    h->freed_points += b->points;
    if (b->stored) {
        history_store_shrunk(h, b);
        history_extras_shrink(b);
        return;
    }
    less = b->points ? mem_realloc(b->point, b->points * sizeof(*less)) : NULL;
    if (less) { /* else the larger array serves as well */
        b->point = less;
        b->capacity = b->points;
        history_extras_shrink(b);
    }
}

static void shrink_again(struct history *h, struct history_branch *b,
                         size_t most)
{
    if (isnan(b->freed_at_s) || b->points <= most)
        return;
    h->freed_points -= b->points;
    shrink(h, b, most);
}

void history_thin(struct history *h)
{
    if (h->freed_points_each > HISTORY_FREED_POINTS_MIN)
        h->freed_points_each /= 2;
    for (size_t i = 0; i < h->branches; i++)
        shrink_again(h, &h->branch[i], h->freed_points_each);
}

/* Where all that are freed hold too many points together the oldest keep fewer,
 * and fewer still once all have no more than that. */
static void thin_oldest(struct history *h)
{
    enum { ENOUGH = HISTORY_FREED_POINTS_MAX / 4 * 3, STEP = 4 };
    size_t most = HISTORY_POINTS_MAX / 8 / STEP;

    if (h->freed_points <= HISTORY_FREED_POINTS_MAX)
        return;
    for (; most >= HISTORY_FREED_POINTS_MIN; most /= STEP)
        for (size_t i = 0; i < h->branches && h->freed_points > ENOUGH; i++)
            shrink_again(h, &h->branch[i], most);
}

void history_branch_cool(struct history *h, struct history_branch *b)
{
    if (isnan(b->freed_at_s) || b->few ||
        cold_setting(h, b->setting, &b->few, &b->few_len) != ERR_OK)
        return; /* it serves as it is */
    json_decref(b->setting);
    b->setting = NULL;
}

/* @b is freed: less of it is kept. */
static void thin_out(struct history *h, struct history_branch *b)
{
    shrink(h, b, h->freed_points_each);
    thin_oldest(h);
    history_branch_cool(h, b);
    history_store(h, b);
}

/* The promise to train @b is neither in a snapshot yet nor given up: its
 * lineage took the lead, and goes on in another branch. */
static bool is_promised(const struct history *h, const struct history_branch *b)
{
    if (b->wish != WISH_PROMOTE || b->kept_in)
        return false;
    for (size_t i = h->choices; i-- > 0;)
        if (h->choice[i].c.branch == b->branch)
            return true;
    for (size_t i = h->cold_choice.rows; i-- > 0;)
        if (cold_choice_branch(h, i) == b->branch)
            return true;
    return false;
}

enum err history_apply_freed(struct history *h, const struct record *r)
{
    struct history_branch *b = history_find(h, r->branch_freed.branch);

    assert(r->kind == RECORD_BRANCH_FREED);
    if (!b || !isnan(b->freed_at_s))
        return ERR_FORMAT;
    b->freed_at_s = r->at_s;
    memcpy(b->freed_reason, r->branch_freed.reason, sizeof(b->freed_reason));
    /* The run may be resumed, with all that lived at its end. */
    if (strcmp(b->freed_reason, RECORD_FREED_AT_END) != 0 && !is_promised(h, b))
        b->wish = WISH_NONE;
    thin_out(h, b);
    return ERR_OK;
}

/* One branch is trained: who is promoted later takes the place. */
static void promote(struct history *h, struct history_branch *b)
{
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].wish == WISH_PROMOTE)
            h->branch[i].wish =
                h->branch[i].kept_in || !isnan(h->branch[i].freed_at_s)
                    ? WISH_NONE
                    : WISH_RUN;
    b->wish = WISH_PROMOTE;
    b->kept_in = 0;
}

enum err history_apply_user_branch(struct history *h, const struct record *r)
{
    const struct record_user_branch *u = &r->user_branch;
    struct history_branch *b = history_find(h, u->branch);
    struct history_branch *old = history_find(h, u->instead_of);

    assert(r->kind == RECORD_USER_BRANCH);
    if (!b || (!old && u->instead_of != BRANCH_NONE))
        return ERR_FORMAT;
    b->wish = WISH_RUN;
    b->wish_epochs = u->epochs;
    b->wish_clocks = u->clocks;
    if (u->promoted)
        promote(h, b);
    if (old)
        old->wish = WISH_NONE;
    return ERR_OK;
}

static struct history_slice *find_slice(const struct history *h, clock_no first)
{
    for (size_t i = h->slices; i > 0; i--)
        if (h->slice[i - 1].s.first == first)
            return &h->slice[i - 1];
    return NULL;
}

enum err history_apply_slice(struct history *h, const struct record *r)
{
    struct history_slice s = {
        .s = r->slice_scheduled, .scheduled_at_s = r->at_s, .ended_at_s = NAN};

    assert(r->kind == RECORD_SLICE_SCHEDULED);
    if (!history_find(h, s.s.branch))
        return ERR_FORMAT;
    history_drop_half(h->slice, &h->slices, sizeof(s), HISTORY_SLICES_MAX,
                      &h->slices_dropped);
    if (mem_grow((void **)&h->slice, &h->slices_cap, sizeof(s), h->slices + 1))
        return ERR_NOMEM;
    h->slice[h->slices++] = s;
    if (isnan(h->first_clock_at_s)) {
        h->first_clock_at_s = r->at_s;
        h->first_paused_s = history_paused(h);
    }
    return ERR_OK;
}

enum err history_apply_slice_ended(struct history *h, const struct record *r)
{
    const struct record_slice_ended *e = &r->slice_ended;
    struct history_slice *s = find_slice(h, e->first);
    struct history_branch *b = history_find(h, e->branch);

    assert(r->kind == RECORD_SLICE_ENDED);
    if (!s && h->slices_dropped == 0)
        return ERR_FORMAT;
    h->clocks += e->clocks;
    h->waited_s += e->waiting_s;
    if (b) {
        b->data_bytes += e->data_bytes;
        b->reads += e->reads;
        b->staleness += e->staleness * (double)e->reads;
    }
    if (!s)
        return ERR_OK;
    s->ended = true;
    s->clocks = e->clocks;
    s->ended_at_s = r->at_s;
    return ERR_OK;
}

/* ---- snapshots and losses ------------------------------------------------ */

void history_keep_promise(struct history *h,
                          const struct record_snapshot_written *s)
{
    if (!s->state)
        return;
    history_mark_way(h, s->branch, true);
    for (size_t i = 0; i < h->branches; i++) {
        struct history_branch *b = &h->branch[i];

        if (b->wish == WISH_PROMOTE && b->kept_in == 0 && b->on_way)
            b->kept_in = history_snapshot_number(s->path);
    }
    history_mark_way(h, s->branch, false);
}

void history_break_promises(struct history *h, const char *path)
{
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].kept_in > history_snapshot_number(path))
            h->branch[i].kept_in = 0;
}

void history_lose_branches(struct history *h, double at_s)
{
    for (size_t i = 0; i < h->branches; i++) {
        struct history_branch *b = &h->branch[i];

        if (!isnan(b->freed_at_s))
            continue;
        b->freed_at_s = at_s;
        snprintf(b->freed_reason, sizeof(b->freed_reason), "lost");
        thin_out(h, b);
    }
    for (size_t i = 0; i < h->slices; i++) {
        struct history_slice *s = &h->slice[i];

        if (s->ended)
            continue;
        s->ended = true;
        s->ended_at_s = at_s;
    }
}
