#include "tuner/history/history.h"

#include "base/mem.h"
#include "tuner/history/history_suggestions.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_init(struct history *h)
{
    memset(h, 0, sizeof(*h));
    h->first_clock_at_s = NAN;
    h->paused_at_s = NAN;
    h->freed_points_each = HISTORY_POINTS_MAX / 8;
}

static void branch_release(struct history_branch *b)
{
    json_decref(b->setting);
    mem_free(b->point);
}

void history_deinit(struct history *h)
{
    for (size_t i = 0; i < h->searches; i++)
        json_decref(h->search[i].started.tunables);
    for (size_t i = 0; i < h->trials; i++)
        json_decref(h->trial[i].t.setting);
    for (size_t i = 0; i < h->suggestions; i++)
        json_decref(h->suggestion[i].s.setting);
    for (size_t i = 0; i < h->branches; i++)
        branch_release(&h->branch[i]);
    for (size_t i = 0; i < h->epochs; i++)
        json_decref(h->epoch[i].e.setting);
    for (size_t i = 0; i < h->choices; i++)
        json_decref(h->choice[i].c.setting);
    for (size_t i = 0; i < h->snapshots; i++)
        json_decref(h->snapshot[i].s.state);
    json_decref(h->model.data);
    nodes_deinit(&h->nodes);
    mem_free(h->table);
    mem_free(h->snapshot);
    mem_free(h->search);
    mem_free(h->trial);
    mem_free(h->suggestion);
    mem_free(h->branch);
    mem_free(h->slice);
    mem_free(h->epoch);
    mem_free(h->choice);
    mem_free(h->decision);
    memset(h, 0, sizeof(*h));
}

/* ---- finding ------------------------------------------------------------- */

/* Branches are created in the order of their numbers. */
static struct history_branch *find(const struct history *h, branch_id id)
{
    size_t low = 0, high = h->branches;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (h->branch[mid].branch < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < h->branches && h->branch[low].branch == id)
        return &h->branch[low];
    return NULL;
}

const struct history_branch *history_branch(const struct history *h,
                                            branch_id branch)
{
    return find(h, branch);
}

const struct table_info *history_table(const struct history *h,
                                       const char *name)
{
    char *end = NULL;
    unsigned long number;

    for (size_t i = 0; i < h->tables; i++)
        if (strcmp(h->table[i].name, name) == 0)
            return &h->table[i];
    if (name[0] < '0' || name[0] > '9' || strlen(name) > 4)
        return NULL;
    number = strtoul(name, &end, 10);
    return *end == '\0' && number < h->tables ? &h->table[number] : NULL;
}

static struct history_search *find_search(const struct history *h, uint32_t n)
{
    return n >= 1 && n <= h->searches ? &h->search[n - 1] : NULL;
}

static struct history_slice *find_slice(const struct history *h, clock_no first)
{
    for (size_t i = h->slices; i > 0; i--)
        if (h->slice[i - 1].s.first == first)
            return &h->slice[i - 1];
    return NULL;
}

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

        if (i + 1 < b->points)
            point_join(&p, &b->point[i + 1]);
        b->point[n++] = p;
    }
    /* The last point holds last_merged windows, or, if it took in its full
     * neighbour, as many more. */
    if (b->points % 2 == 0)
        b->last_merged += b->merge;
    b->points = n;
    b->merge *= 2;
}

static void point_add(struct history_branch *b, const struct history_point *p)
{
    if (b->points && b->last_merged < b->merge) {
        point_join(&b->point[b->points - 1], p);
        b->last_merged++;
        return;
    }
    if (b->points == HISTORY_POINTS_MAX) {
        halve(b);
        point_add(b, p);
        return;
    }
    assert(b->points < b->capacity);
    b->point[b->points++] = *p;
    b->last_merged = 1;
}

static enum err apply_progress(struct history *h, const struct record *r)
{
    const struct record_progress *p = &r->progress;
    struct history_branch *b = find(h, p->branch);
    clock_no ran = p->branch_clock;
    size_t need;

    if (!b)
        return ERR_FORMAT;
    need = b->points + p->windows;
    if (need > HISTORY_POINTS_MAX)
        need = HISTORY_POINTS_MAX;
    if (mem_grow((void **)&b->point, &b->capacity, sizeof(*b->point), need))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->windows; i++) {
        const struct progress_window *w = &p->window[i];
        struct history_point point = {.w = *w, .at_s = r->at_s};

        point.clock = p->first + (ran - p->branch_clock);
        ran += w->clocks;
        point.branch_clock = ran;
        point_add(b, &point);
        b->clocks += w->clocks;
        b->samples += w->samples;
        b->seconds += w->seconds;
    }
    return ERR_OK;
}

/* ---- searches ------------------------------------------------- */

static enum err apply_search_started(struct history *h, const struct record *r)
{
    struct history_search s = {.started = r->search_started,
                               .started_at_s = r->at_s,
                               .paused_before_s = history_paused(h),
                               .ended_at_s = NAN};

    if (s.started.search != h->searches + 1)
        return ERR_FORMAT;
    if (mem_grow((void **)&h->search, &h->searches_cap, sizeof(s),
                 h->searches + 1))
        return ERR_NOMEM;
    json_incref(s.started.tunables);
    h->search[h->searches++] = s;
    h->retune_wanted = false;
    return ERR_OK;
}

static enum err apply_search_ended(struct history *h, const struct record *r)
{
    struct history_search *s = find_search(h, r->search_ended.search);

    if (!s)
        return ERR_FORMAT;
    s->ended = true;
    s->end = r->search_ended;
    s->ended_at_s = r->at_s;
    if (h->asking == ASKING_EXHAUSTED)
        h->asking = ASKING_OPEN;
    return ERR_OK;
}

/* ---- trials -------------------------------------------------------------- */

static enum err apply_trial(struct history *h, const struct record *r)
{
    uint32_t n = r->trial.trial;
    struct history_trial *t;
    branch_id branch;

    if (n < 1 || n > h->trials + 1 ||
        (n == h->trials + 1) != (r->kind == RECORD_TRIAL_STARTED) ||
        r->trial.suggestion > h->suggestions)
        return ERR_FORMAT;
    if (r->kind == RECORD_TRIAL_STARTED) {
        if (mem_grow((void **)&h->trial, &h->trials_cap, sizeof(*h->trial), n))
            return ERR_NOMEM;
        memset(&h->trial[n - 1], 0, sizeof(*h->trial));
        h->trial[n - 1].started_at_s = r->at_s;
        h->trial[n - 1].ended_at_s = NAN;
        h->trials = n;
    }
    t = &h->trial[n - 1];
    branch = r->trial.branch;
    /* A finalist ends when its branch is gone already: it had one. */
    if (branch == BRANCH_NONE && r->kind == RECORD_TRIAL_ENDED)
        branch = t->t.branch;
    json_incref(r->trial.setting);
    json_decref(t->t.setting);
    t->t = r->trial;
    t->t.branch = branch;
    t->ended = r->kind == RECORD_TRIAL_ENDED;
    t->ended_at_s = t->ended ? r->at_s : NAN;
    history_suggestion_follow(h, r);
    return ERR_OK;
}

static enum err apply_search_decided(struct history *h, const struct record *r)
{
    struct history_search *s = find_search(h, r->search_decided.search);

    if (!s)
        return ERR_FORMAT;
    s->decided = true;
    s->trial_s = r->search_decided.trial_s;
    s->judged_s = r->search_decided.judged_s;
    return ERR_OK;
}

/* ---- branches and slices ------------------------------------------------- */

static enum err apply_created(struct history *h, const struct record *r)
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

    if (h->branches && h->branch[h->branches - 1].branch >= c->branch)
        return ERR_FORMAT;
    if (mem_grow((void **)&h->branch, &h->branches_cap, sizeof(b),
                 h->branches + 1))
        return ERR_NOMEM;
    memcpy(b.role, c->role, sizeof(b.role));
    b.setting = json_incref(c->setting);
    h->branch[h->branches++] = b;
    return ERR_OK;
}

/* A freed branch keeps as many points as one may now, in as much memory. */
static void shrink(struct history *h, struct history_branch *b)
{
    struct history_point *less;

    while (b->points > h->freed_points_each)
        halve(b);
    less = b->points ? mem_realloc(b->point, b->points * sizeof(*less)) : NULL;
    if (less) { /* else the larger array serves as well */
        b->point = less;
        b->capacity = b->points;
    }
    h->freed_points += b->points;
}

/* @b is freed: fewer of its points are kept. Where all that are freed hold too
 * many together, each of them gets half. */
static void thin_out(struct history *h, struct history_branch *b)
{
    shrink(h, b);
    while (h->freed_points > HISTORY_FREED_POINTS_MAX &&
           h->freed_points_each > HISTORY_FREED_POINTS_MIN) {
        h->freed_points_each /= 2;
        h->freed_points = 0;
        for (size_t i = 0; i < h->branches; i++)
            if (!isnan(h->branch[i].freed_at_s))
                shrink(h, &h->branch[i]);
    }
}

static enum err apply_freed(struct history *h, const struct record *r)
{
    struct history_branch *b = find(h, r->branch_freed.branch);

    if (!b || !isnan(b->freed_at_s))
        return ERR_FORMAT;
    b->freed_at_s = r->at_s;
    memcpy(b->freed_reason, r->branch_freed.reason, sizeof(b->freed_reason));
    /* The run may be resumed, with all that lived at its end. */
    if (strcmp(b->freed_reason, RECORD_FREED_AT_END) != 0)
        b->wish = WISH_NONE;
    thin_out(h, b);
    return ERR_OK;
}

/* One branch is trained: who is promoted later takes the place. */
static void promote(struct history *h, struct history_branch *b)
{
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].wish == WISH_PROMOTE)
            h->branch[i].wish = h->branch[i].kept_in ? WISH_NONE : WISH_RUN;
    b->wish = WISH_PROMOTE;
    b->kept_in = 0;
}

static enum err apply_user_branch(struct history *h, const struct record *r)
{
    const struct record_user_branch *u = &r->user_branch;
    struct history_branch *b = find(h, u->branch);
    struct history_branch *old = find(h, u->instead_of);

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

/* Makes room for one more in an array of at most @max: the older half goes. */
static void drop_half(void *items, size_t *len, size_t item_size, size_t max,
                      uint64_t *dropped)
{
    size_t half = *len / 2;

    if (*len < max)
        return;
    memmove(items, (char *)items + half * item_size, (*len - half) * item_size);
    *len -= half;
    *dropped += half;
}

static enum err apply_slice(struct history *h, const struct record *r)
{
    struct history_slice s = {
        .s = r->slice_scheduled, .scheduled_at_s = r->at_s, .ended_at_s = NAN};

    if (!find(h, s.s.branch))
        return ERR_FORMAT;
    if (mem_grow((void **)&h->slice, &h->slices_cap, sizeof(s), h->slices + 1))
        return ERR_NOMEM;
    drop_half(h->slice, &h->slices, sizeof(s), HISTORY_SLICES_MAX,
              &h->slices_dropped);
    h->slice[h->slices++] = s;
    if (isnan(h->first_clock_at_s)) {
        h->first_clock_at_s = r->at_s;
        h->first_paused_s = history_paused(h);
    }
    return ERR_OK;
}

static enum err apply_slice_ended(struct history *h, const struct record *r)
{
    const struct record_slice_ended *e = &r->slice_ended;
    struct history_slice *s = find_slice(h, e->first);
    struct history_branch *b = find(h, e->branch);

    if (!s && h->slices_dropped == 0)
        return ERR_FORMAT;
    h->clocks += e->clocks;
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

/* ---- epochs, settings, decisions ----------------------------------------- */

/* A branch that survives does so with all its epochs. Those of others survive
 * only up to where it began: a lineage that went back to an earlier state (a
 * divergence, a re-tune from the best epoch) or lost the lead to another leaves
 * the later epochs of its old branch behind. */
static void surviving_epoch(struct history *h, size_t index)
{
    const struct record_epoch_ended *e = &h->epoch[index].e;
    uint32_t first = e->epoch;

    for (size_t i = 0; i < h->epochs; i++)
        if (h->epoch[i].e.branch == e->branch && h->epoch[i].e.epoch < first)
            first = h->epoch[i].e.epoch;
    for (size_t i = 0; i < h->epochs; i++) {
        struct record_epoch_ended *x = &h->epoch[i].e;

        if (x->branch == e->branch)
            x->surviving |= x->epoch <= e->epoch;
        else if (x->epoch >= first)
            x->surviving = false;
    }
    h->last_epoch = index + 1;
    if (e->best)
        h->best_epoch = index + 1;
}

/* Index of the entry for @e: an epoch is recorded again when its branch turns
 * out to be the surviving one. */
static size_t epoch_index(const struct history *h,
                          const struct record_epoch_ended *e)
{
    for (size_t i = h->epochs; i > 0; i--)
        if (h->epoch[i - 1].e.branch == e->branch &&
            h->epoch[i - 1].e.epoch == e->epoch)
            return i - 1;
    return h->epochs;
}

static enum err apply_epoch(struct history *h, const struct record *r)
{
    size_t i = epoch_index(h, &r->epoch_ended);

    if (i == h->epochs) {
        if (mem_grow((void **)&h->epoch, &h->epochs_cap, sizeof(*h->epoch),
                     h->epochs + 1))
            return ERR_NOMEM;
        h->epoch[h->epochs++] = (struct history_epoch){.at_s = r->at_s};
    }
    json_incref(r->epoch_ended.setting);
    json_decref(h->epoch[i].e.setting);
    h->epoch[i].e = r->epoch_ended;
    if (r->epoch_ended.surviving)
        surviving_epoch(h, i);
    return ERR_OK;
}

/* Whether @branch is @of or one that it was forked from. */
static bool is_ancestor(const struct history *h, branch_id branch, branch_id of)
{
    const struct history_branch *b;

    while (of != branch && (b = find(h, of)) && b->parent < of)
        of = b->parent; /* below it in any sound journal */
    return of == branch;
}

/* The schedule is that of the surviving lineage: what another one was trained
 * with goes. */
static void drop_strangers(struct history *h, branch_id of)
{
    size_t n = 0;

    for (size_t i = 0; i < h->choices; i++)
        if (!find(h, h->choice[i].c.branch) ||
            is_ancestor(h, h->choice[i].c.branch, of))
            h->choice[n++] = h->choice[i];
        else
            json_decref(h->choice[i].c.setting);
    h->choices = n;
}

static enum err apply_choice(struct history *h, const struct record *r)
{
    if (mem_grow((void **)&h->choice, &h->choices_cap, sizeof(*h->choice),
                 h->choices + 1))
        return ERR_NOMEM;
    if (find(h, r->setting_chosen.branch))
        drop_strangers(h, r->setting_chosen.branch);
    h->choice[h->choices].c = r->setting_chosen;
    h->choice[h->choices].at_s = r->at_s;
    json_incref(r->setting_chosen.setting);
    h->choices++;
    return ERR_OK;
}

static enum err apply_decision(struct history *h, const struct record *r)
{
    struct history_decision d = {
        .d = r->decision, .at_s = r->at_s, .clock = r->clock};

    if (mem_grow((void **)&h->decision, &h->decisions_cap, sizeof(d),
                 h->decisions + 1))
        return ERR_NOMEM;
    drop_half(h->decision, &h->decisions, sizeof(d), HISTORY_DECISIONS_MAX,
              &h->decisions_dropped);
    h->decision[h->decisions++] = d;
    if (strcmp(d.d.decision, "searcher_fallback") == 0 && d.d.numbers > 0)
        snprintf(h->fallback, sizeof(h->fallback), "%s", d.d.number[0].name);
    return ERR_OK;
}

/* What was promoted is in the snapshot: from there on it need not be promoted
 * again. */
static void keep_promise(struct history *h,
                         const struct record_snapshot_written *s)
{
    for (size_t i = 0; s->state && i < h->branches; i++) {
        struct history_branch *b = &h->branch[i];

        if (b->wish == WISH_PROMOTE && b->kept_in == 0 &&
            is_ancestor(h, b->branch, s->branch))
            b->kept_in = history_snapshot_number(s->path);
    }
}

static void break_promises(struct history *h, const char *path)
{
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].kept_in > history_snapshot_number(path))
            h->branch[i].kept_in = 0;
}

static void forget_snapshots(struct history *h, const char *path)
{
    while (h->snapshots > 0 &&
           strcmp(h->snapshot[h->snapshots - 1].s.path, path) != 0)
        json_decref(h->snapshot[--h->snapshots].s.state);
}

static enum err apply_snapshot(struct history *h, const struct record *r)
{
    struct history_snapshot *s;

    if (mem_grow((void **)&h->snapshot, &h->snapshots_cap, sizeof(*s),
                 h->snapshots + 1))
        return ERR_NOMEM;
    if (h->snapshots == HISTORY_SNAPSHOTS_MAX) {
        json_decref(h->snapshot[0].s.state);
        memmove(h->snapshot, h->snapshot + 1,
                (HISTORY_SNAPSHOTS_MAX - 1) * sizeof(*s));
        h->snapshots--;
    }
    s = &h->snapshot[h->snapshots++];
    s->s = r->snapshot_written;
    s->at_s = r->at_s;
    if (history_snapshot_number(s->s.path) > h->snapshot_number)
        h->snapshot_number = history_snapshot_number(s->s.path);
    json_incref(s->s.state);
    keep_promise(h, &s->s);
    return ERR_OK;
}

/* ---- status -------------------------------------------------------------- */

/* A pause lasts from the status `paused` to the next one. */
static void take_status(struct history *h, enum run_status status, double at_s)
{
    if (!isnan(h->paused_at_s)) {
        h->paused_s += at_s - h->paused_at_s;
        h->paused_at_s = NAN;
    }
    h->status = status;
    if (status == RUN_PAUSED)
        h->paused_at_s = at_s;
}

/* ---- going back to a snapshot -------------------------------------------- */

/* What lived is lost with the training system. */
static void lose_branches(struct history *h, double at_s)
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

/* The surviving epochs are those of the lineage of branch @from up to @epoch:
 * its own, and before its first one those of the branch it was forked from. */
static void prune_epochs(struct history *h, branch_id from, uint32_t epoch)
{
    uint32_t limit = epoch;

    h->last_epoch = 0;
    for (size_t i = 0; i < h->epochs; i++)
        h->epoch[i].e.surviving = false;
    while (limit > 0) {
        const struct history_branch *b = find(h, from);
        uint32_t lowest = limit + 1;

        for (size_t i = 0; i < h->epochs; i++) {
            struct record_epoch_ended *e = &h->epoch[i].e;

            if (e->branch != from || e->epoch > limit)
                continue;
            e->surviving = true;
            if (e->epoch < lowest)
                lowest = e->epoch;
            if (e->epoch == epoch)
                h->last_epoch = i + 1;
        }
        limit = lowest - 1;
        if (!b || b->parent == BRANCH_NONE)
            return;
        from = b->parent;
    }
}

static void add_era(struct history *h, double at_s, double unix_s)
{
    if (!(unix_s > 0))
        return;
    if (h->eras == HISTORY_ERAS_MAX) {
        h->eras--;
        memmove(h->era, h->era + 1, h->eras * sizeof(h->era[0]));
    }
    h->era[h->eras++] = (struct history_era){at_s, unix_s - at_s};
}

static enum err apply_resumed(struct history *h, const struct record *r)
{
    const struct record_run_resumed *m = &r->run_resumed;
    struct history_search *s = find_search(h, m->search);

    if ((m->search && !s) || (m->from && !find(h, m->from)))
        return ERR_FORMAT;
    if (s)
        s->ended = s->closed = false;
    if (h->asking == ASKING_OVER)
        h->asking = ASKING_OPEN;
    h->finished = false;
    history_suggestions_resume(h);
    take_status(h, RUN_WAITING, r->at_s);
    memcpy(h->status_reason, m->reason, RECORD_TEXT_MAX);
    h->resumes++;
    add_era(h, r->at_s, m->unix_s);
    lose_branches(h, r->at_s);
    nodes_lost(&h->nodes);
    prune_epochs(h, m->from, m->epoch);
    h->best_epoch = 0;
    for (size_t i = 0; i < h->epochs && m->best_epoch; i++)
        if (h->epoch[i].e.surviving && h->epoch[i].e.epoch == m->best_epoch)
            h->best_epoch = i + 1;
    break_promises(h, m->path);
    forget_snapshots(h, m->path);
    return ERR_OK;
}

static void apply_model(struct history *h, const struct record *r)
{
    json_incref(r->model_saved.data);
    json_decref(h->model.data);
    h->model = r->model_saved;
}

static void apply_command(struct history *h, const struct record_command *c)
{
    h->pause_wanted = c->paused;
    h->retune_wanted = c->retune;
    h->limits = c->limits;
}

static void apply_finished(struct history *h, const struct record *r)
{
    take_status(h, r->run_finished.status, r->at_s);
    h->finished = true;
    h->end = r->run_finished;
    history_suggestions_finish(h, r->at_s);
    memcpy(h->status_reason, r->run_finished.message, RECORD_TEXT_MAX);
}

static enum err apply_tables(struct history *h, const struct record *r)
{
    struct table_info *table =
        mem_calloc(TABLE_INFO_TABLES_MAX, sizeof(*table));
    size_t n;

    if (!table)
        return ERR_NOMEM;
    if (table_infos_from_json(r->tables.tables, table, &n)) {
        mem_free(table);
        return ERR_FORMAT;
    }
    mem_free(h->table);
    h->table = table;
    h->tables = n;
    return ERR_OK;
}

static enum err apply_increment(struct history *h, const struct record *r)
{
    if (!find(h, r->increment.branch))
        return ERR_FORMAT;
    if (r->increment.number > h->increments)
        h->increments = r->increment.number;
    return ERR_OK;
}

static enum err apply_kind(struct history *h, const struct record *r)
{
    switch (r->kind) {
    case RECORD_RUN_STARTED:
        h->started = true;
        h->run = r->run_started;
        h->limits = r->run_started.limits;
        return ERR_OK;
    case RECORD_RUN_STATUS:
        take_status(h, r->run_status.status, r->at_s);
        memcpy(h->status_reason, r->run_status.reason, RECORD_TEXT_MAX);
        return ERR_OK;
    case RECORD_RUN_FINISHED:
        apply_finished(h, r);
        return ERR_OK;
    case RECORD_RUN_RESUMED:
        return apply_resumed(h, r);
    case RECORD_COMMAND:
        apply_command(h, &r->command);
        return ERR_OK;
    case RECORD_SEARCH_DECIDED:
        return apply_search_decided(h, r);
    case RECORD_SEARCH_STARTED:
        return apply_search_started(h, r);
    case RECORD_SEARCH_ENDED:
        return apply_search_ended(h, r);
    case RECORD_TRIAL_STARTED:
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        return apply_trial(h, r);
    case RECORD_BRANCH_CREATED:
        return apply_created(h, r);
    case RECORD_BRANCH_FREED:
        return apply_freed(h, r);
    case RECORD_USER_BRANCH:
        return apply_user_branch(h, r);
    case RECORD_SUGGESTION:
        return history_suggestion_apply(h, r);
    case RECORD_ASKING:
        return history_asking_apply(h, r);
    case RECORD_TABLES:
        return apply_tables(h, r);
    case RECORD_INCREMENT:
        return apply_increment(h, r);
    case RECORD_SLICE_SCHEDULED:
        return apply_slice(h, r);
    case RECORD_SLICE_ENDED:
        return apply_slice_ended(h, r);
    case RECORD_PROGRESS:
        return apply_progress(h, r);
    case RECORD_EPOCH_ENDED:
        return apply_epoch(h, r);
    case RECORD_SETTING_CHOSEN:
        return apply_choice(h, r);
    case RECORD_DECISION:
        return apply_decision(h, r);
    case RECORD_SNAPSHOT_WRITTEN:
        return apply_snapshot(h, r);
    case RECORD_MODEL_SAVED:
        apply_model(h, r);
        return ERR_OK;
    case RECORD_NODE:
        return nodes_take(&h->nodes, r->at_s, &r->node.beat);
    case RECORD_KIND_COUNT:
        break;
    }
    return ERR_FORMAT;
}

enum err history_apply(struct history *h, const struct record *r)
{
    struct record own;
    enum err err;

    if (!(r->at_s >= h->at_s))
        return ERR_FORMAT;
    err = record_copy_own(&own, r);
    if (err)
        return err;
    err = apply_kind(h, &own);
    record_deinit(&own);
    if (err)
        return err;
    h->at_s = r->at_s;
    h->clock = r->clock;
    h->records++;
    return ERR_OK;
}
