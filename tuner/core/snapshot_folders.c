#include "tuner/core/snapshot_folders.h"

#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- names --------------------------------------------------------------- */

void snapshot_folder(const struct board *c, uint32_t number, bool best,
                     char path[PROTO_PATH_MAX])
{
    /* The folder's name is checked for length when the run is made. */
    if (snprintf(path, PROTO_PATH_MAX, "%s/%06u%s",
                 run_options(c)->snapshot_dir, number,
                 best ? "-best" : "") >= PROTO_PATH_MAX)
        path[0] = '\0';
}

void snapshot_folder_of_trial(const struct board *c, uint32_t number,
                              uint32_t trial, char path[PROTO_PATH_MAX])
{
    char name[HISTORY_TRIAL_FOLDER_MAX];

    history_trial_folder(number, trial, name);
    if (snprintf(path, PROTO_PATH_MAX, "%s/%s", run_options(c)->snapshot_dir,
                 name) >= PROTO_PATH_MAX)
        path[0] = '\0';
}

/* ---- which are there ----------------------------------------------------- */

void snapshot_folders_add(struct snapshot_folders *f, uint32_t number,
                          uint32_t best, const struct snapshot_trial trial[],
                          uint32_t trials)
{
    struct written *w = &f->written[f->n];

    assert(f->n < SNAPSHOTS_MAX && trials <= STRATEGY_WAITING_MAX);
    *w = (struct written){.number = number, .best = best, .trials = trials};
    for (uint32_t i = 0; i < trials; i++) {
        w->trial[i].number = trial[i].number;
        w->trial[i].trial = trial[i].trial;
    }
    f->n++;
}

static void recall_one(struct snapshot_folders *f,
                       const struct record_snapshot_written *r)
{
    struct snapshot_trial t[STRATEGY_WAITING_MAX];
    uint32_t n = 0;

    if (!snapshot_state_trials(r->state, t, STRATEGY_WAITING_MAX, &n) ||
        n > STRATEGY_WAITING_MAX)
        n = 0;
    snapshot_folders_add(f, history_snapshot_number(r->path),
                         history_snapshot_number(r->best_path), t, n);
}

void snapshot_folders_recall(struct snapshot_folders *f,
                             const struct history *h, size_t keep)
{
    size_t all = history_snapshots_len(h);

    for (size_t i = all > keep ? all - keep : 0; i < all; i++)
        if (f->n + 1 < SNAPSHOTS_MAX)
            recall_one(f, &history_snapshot_at(h, i)->s);
}

void snapshot_folders_pass_over(struct snapshot_folders *f, uint32_t number)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->n; i++)
        if (f->written[i].number != number)
            f->written[n++] = f->written[i];
    f->n = n;
}

/* ---- which may go -------------------------------------------------------- */

static bool counts_on_trial(const struct snapshot_folders *f, uint32_t number,
                            uint32_t trial)
{
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t k = 0; k < f->written[i].trials; k++)
            if (f->written[i].trial[k].number == number &&
                f->written[i].trial[k].trial == trial)
                return true;
    return false;
}

static bool counts_on_best(const struct snapshot_folders *f, uint32_t best)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->written[i].best == best)
            return true;
    return false;
}

static void remove_oldest(struct board *c, struct snapshot_folders *f,
                          uint32_t best)
{
    const struct written w = f->written[0];

    f->n--;
    memmove(f->written, f->written + 1, f->n * sizeof(f->written[0]));
    snapshot_folder(c, w.number, false, outbox_add(c, TUNER_REMOVE)->path);
    for (uint32_t k = 0; k < w.trials; k++)
        if (!counts_on_trial(f, w.trial[k].number, w.trial[k].trial))
            snapshot_folder_of_trial(c, w.trial[k].number, w.trial[k].trial,
                                     outbox_add(c, TUNER_REMOVE)->path);
    if (w.best != 0 && w.best != best && !counts_on_best(f, w.best))
        snapshot_folder(c, w.best, true, outbox_add(c, TUNER_REMOVE)->path);
}

void snapshot_folders_trim(struct board *c, struct snapshot_folders *f,
                           uint32_t best)
{
    while (f->n > run_options(c)->snapshot_keep || f->n == SNAPSHOTS_MAX)
        remove_oldest(c, f, best);
}
