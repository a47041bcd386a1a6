#include "tuner/history/history_fold.h"

#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_epochs.h"
#include "tuner/history/history_extras.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- epochs, settings, snapshots ----------------------------------------- */

/* Whether entry @index is of the epoch after the one before it, the last that
 * survives, on the same branch: then nothing else changes. */
static bool follows_the_last(const struct history *h, size_t index)
{
    const struct record_epoch_ended *e = &h->epoch[index].e, *before;

    if (index == 0 || index + 1 != h->epochs || h->last_epoch != index)
        return false;
    before = &h->epoch[index - 1].e;
    return before->branch == e->branch && before->surviving &&
           before->epoch + 1 == e->epoch;
}

/* Index of the last epoch up to @limit of branch @of; SIZE_MAX: it has none. */
static size_t last_up_to(const struct history *h, branch_id of, uint32_t limit)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < h->epochs; i++)
        if (h->epoch[i].e.branch == of && h->epoch[i].e.epoch <= limit &&
            (found == SIZE_MAX ||
             h->epoch[found].e.epoch < h->epoch[i].e.epoch))
            found = i;
    return found;
}

/* The epochs up to @limit are those of the branches that @of was forked from: a
 * lineage that goes on from a finalist that had lost (it had the best model)
 * has its epochs, and no longer the winner's. Those of an ancestor that
 * survives do so with all before them. */
static void ancestors_survive(struct history *h, branch_id of, uint32_t limit)
{
    const struct history_branch *b;

    while (limit > 0 && (b = history_find(h, of)) && b->parent < of) {
        size_t last = last_up_to(h, b->parent, limit);
        uint32_t lowest = limit + 1;

        of = b->parent;
        if (last == SIZE_MAX)
            continue;
        if (h->epoch[last].e.surviving)
            return;
        for (size_t i = 0; i < h->epochs; i++)
            if (h->epoch[i].e.branch == of && h->epoch[i].e.epoch < lowest)
                lowest = h->epoch[i].e.epoch;
        for (size_t i = 0; i < h->epochs; i++) {
            struct record_epoch_ended *x = &h->epoch[i].e;

            if (x->epoch >= lowest && x->epoch <= limit)
                x->surviving = x->branch == of;
        }
        limit = lowest - 1;
    }
}

/* A branch that survives does so with all its epochs. Those of others survive
 * only up to where it began: a lineage that went back to an earlier state (a
 * divergence, a re-tune from the best epoch) or lost the lead to another leaves
 * the later epochs of its old branch behind. */
static void surviving_epoch(struct history *h, size_t index)
{
    const struct record_epoch_ended *e = &h->epoch[index].e;
    uint32_t first = e->epoch;

    assert(index < h->epochs);
    if (follows_the_last(h, index)) {
        h->last_epoch = index + 1;
        if (e->best)
            h->best_epoch = index + 1;
        return;
    }
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
    ancestors_survive(h, e->branch, first - 1);
    h->last_epoch = index + 1;
    if (e->best)
        h->best_epoch = index + 1;
}

/* Index of the entry for @e: an epoch is recorded again when its branch turns
 * out to be the surviving one. */
static size_t epoch_index(const struct history *h,
                          const struct record_epoch_ended *e)
{
    const struct record_epoch_ended *last =
        h->epochs ? &h->epoch[h->epochs - 1].e : NULL;

    /* The epochs of a branch come in order. */
    assert(h->epochs == 0 || h->epoch);
    if (last && last->branch == e->branch && last->epoch < e->epoch)
        return h->epochs;
    for (size_t i = h->epochs; i > 0; i--)
        if (h->epoch[i - 1].e.branch == e->branch &&
            h->epoch[i - 1].e.epoch == e->epoch)
            return i - 1;
    return h->epochs;
}

enum err history_apply_epoch(struct history *h, const struct record *r)
{
    size_t i = epoch_index(h, &r->epoch_ended);

    assert(r->kind == RECORD_EPOCH_ENDED);
    if (i == h->epochs) {
        history_bound_epochs(h);
        i = h->epochs;
        if (mem_grow((void **)&h->epoch, &h->epochs_cap, sizeof(*h->epoch),
                     h->epochs + 1))
            return ERR_NOMEM;
    }
    if (epoch_setting_put(h, i, r->epoch_ended.setting))
        return ERR_NOMEM;
    if (i == h->epochs) {
        h->epoch[h->epochs] = (struct history_epoch){.at_s = r->at_s};
        history_extras_epoch(h, r->epoch_ended.branch,
                             h->epoch[h->epochs++].extra);
    }
    h->epoch[i].e = r->epoch_ended;
    h->epoch[i].e.setting = NULL;
    if (r->epoch_ended.surviving)
        surviving_epoch(h, i);
    else if (r->epoch_ended.best) /* of a finalist that lost, of a contest */
        h->best_epoch = i + 1;
    return ERR_OK;
}

/* The schedule is that of the surviving lineage: what another one was trained
 * with goes. */
static void drop_strangers(struct history *h, branch_id of)
{
    const struct history_branch *b;
    size_t n = 0;

    history_mark_way(h, of, true);
    for (size_t i = h->cold_choice.rows; i-- > 0;) {
        b = history_find(h, cold_choice_branch(h, i));
        if (b && !b->on_way)
            cold_remove(&h->cold_choice, i);
    }
    for (size_t i = 0; i < h->choices; i++) {
        b = history_find(h, h->choice[i].c.branch);
        if (!b || b->on_way)
            h->choice[n++] = h->choice[i];
        else
            json_decref(h->choice[i].c.setting);
    }
    h->choices = n;
    history_mark_way(h, of, false);
}

enum err history_apply_choice(struct history *h, const struct record *r)
{
    const struct history_branch *b = history_find(h, r->setting_chosen.branch);

    assert(r->kind == RECORD_SETTING_CHOSEN);
    history_bound_choices(h);
    if (mem_grow((void **)&h->choice, &h->choices_cap, sizeof(*h->choice),
                 h->choices + 1))
        return ERR_NOMEM;
    if (b)
        drop_strangers(h, r->setting_chosen.branch);
    h->choice[h->choices].c = r->setting_chosen;
    h->choice[h->choices].at_s = r->at_s;
    h->choice[h->choices].c.setting =
        history_hold(r->setting_chosen.setting, b ? b->setting : NULL);
    h->choices++;
    return ERR_OK;
}

void history_forget_snapshots(struct history *h, uint32_t number)
{
    while (h->snapshots > 0 &&
           history_snapshot_number(h->snapshot[h->snapshots - 1].s.path) !=
               number)
        json_decref(h->snapshot[--h->snapshots].s.state);
}

static bool moved(char path[RECORD_PATH_MAX], const char *dir, bool really)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char to[RECORD_PATH_MAX];
    int n = snprintf(to, sizeof(to), "%s/%s", dir, name);

    if (name[0] == '\0') /* there is none */
        return true;
    if (n < 0 || (size_t)n >= sizeof(to))
        return false;
    if (really)
        memcpy(path, to, (size_t)n + 1);
    return true;
}

enum err history_move_snapshots(struct history *h, const char *dir)
{
    assert(h);
    assert(dir);
    for (int really = 0; really < 2; really++)
        for (size_t i = 0; i < h->snapshots; i++)
            if (!moved(h->snapshot[i].s.path, dir, really) ||
                !moved(h->snapshot[i].s.best_path, dir, really))
                return ERR_LIMIT;
    return ERR_OK;
}

enum err history_apply_snapshot(struct history *h, const struct record *r)
{
    struct history_snapshot *s;

    assert(r->kind == RECORD_SNAPSHOT_WRITTEN);
    if (h->snapshot_back)
        history_forget_snapshots(h, h->snapshot_back);
    h->snapshot_back = 0;
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
    history_keep_promise(h, &s->s);
    return ERR_OK;
}

/* ---- going back to a snapshot -------------------------------------------- */

void history_prune_epochs(struct history *h, branch_id from, uint32_t epoch)
{
    uint32_t limit = epoch;

    h->last_epoch = 0;
    for (size_t i = 0; i < h->epochs; i++)
        h->epoch[i].e.surviving = false;
    while (limit > 0) {
        const struct history_branch *b = history_find(h, from);
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
