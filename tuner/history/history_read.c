#include "tuner/history/history_cold.h"

#include "base/json/json.h"
#include "tuner/history/history_tried.h"

#include <assert.h>

bool history_started(const struct history *h)
{
    return h->started;
}

bool history_finished(const struct history *h)
{
    return h->finished;
}

enum run_status history_status(const struct history *h)
{
    return h->status;
}

const struct record_run_started *history_run(const struct history *h)
{
    return &h->run;
}

const struct record_run_finished *history_end(const struct history *h)
{
    return &h->end;
}

const char *history_fallback(const struct history *h)
{
    return h->fallback;
}

const char *history_searcher_failed(const struct history *h)
{
    return h->searcher_failed;
}

const char *history_warm_start(const struct history *h)
{
    return h->warm_start;
}

const struct record_limits *history_limits(const struct history *h)
{
    return &h->limits;
}

const struct nodes *history_nodes(const struct history *h)
{
    return &h->nodes;
}

const struct extras *history_extras(const struct history *h)
{
    return &h->extras;
}

bool history_pause_wanted(const struct history *h)
{
    return h->pause_wanted;
}

bool history_retune_wanted(const struct history *h)
{
    return h->retune_wanted;
}

uint64_t history_records(const struct history *h)
{
    return h->records;
}

uint32_t history_snapshot_next(const struct history *h)
{
    return h->snapshot_number + 1 + h->resumes;
}

uint64_t history_increments(const struct history *h)
{
    return h->increments;
}

clock_no history_clock(const struct history *h)
{
    return h->clock;
}

uint64_t history_clocks(const struct history *h)
{
    return h->clocks;
}

double history_at_s(const struct history *h)
{
    return h->at_s;
}

double history_first_clock_at_s(const struct history *h)
{
    return h->first_clock_at_s;
}

uint32_t history_searches_made(const struct history *h)
{
    return h->searches_dropped + (uint32_t)history_searches_len(h);
}

uint32_t history_trials_made(const struct history *h)
{
    return h->trials_dropped + (uint32_t)history_trials_len(h);
}

const struct history_search *history_search(const struct history *h,
                                            uint32_t number)
{
    size_t before = h->searches_dropped + h->cold_search.rows;

    return number > before && number <= history_searches_made(h)
               ? &h->search[number - 1 - before]
               : NULL;
}

const struct history_trial *history_trial(const struct history *h,
                                          uint32_t number)
{
    size_t before = h->trials_dropped + h->cold_trial.rows;

    return number > before && number <= history_trials_made(h)
               ? &h->trial[number - 1 - before]
               : NULL;
}

uint32_t history_trial_search(const struct history_trial *t)
{
    return t->t.search;
}

struct record_trial history_trial_interrupted(const struct history_trial *t)
{
    struct record_trial r = t->t;

    json_incref(r.setting);
    r.label = TRIAL_INTERRUPTED;
    return r;
}

struct history_run_of_search history_search_run(const struct history *h,
                                                uint32_t number)
{
    struct history_run_of_search run = {0};

    for (size_t i = 0; i < h->trials; i++)
        if (h->trial[i].t.search == number) {
            run.trials += !h->trial[i].t.incumbent;
            run.clocks += h->trial[i].t.figures.clocks;
        }
    return run;
}

json_t *history_branch_setting(const struct history *h,
                               const struct history_branch *b)
{
    if (b->few)
        return cold_setting_read(h, b->few);
    return b->setting ? json_copied(b->setting) : json_null();
}

size_t history_trial_index(const struct history *h, uint32_t number)
{
    return number > h->trials_dropped && number <= history_trials_made(h)
               ? number - 1 - h->trials_dropped
               : SIZE_MAX;
}

double history_wall_of(const struct history *h, double at_s)
{
    return history_wall(h->era, h->eras, h->run.started_unix_s, at_s);
}

#define HISTORY_LIST(item, items, type)                                        \
    size_t history_##items##_len(const struct history *h)                      \
    {                                                                          \
        return h->items;                                                       \
    }                                                                          \
    const type *history_##item##_at(const struct history *h, size_t i)         \
    {                                                                          \
        assert(i < h->items);                                                  \
        return &h->item[i];                                                    \
    }
HISTORY_LISTS(HISTORY_LIST)

/* ---- lists whose beginning is cold --------------------------------------- */

/* @json: where an item has its own. */
#define HISTORY_LONG(item, items, json, own)                                   \
    size_t history_##items##_len(const struct history *h)                      \
    {                                                                          \
        return h->cold_##item.rows + h->items;                                 \
    }                                                                          \
    struct history_##item history_##item##_at(const struct history *h,         \
                                              size_t i)                        \
    {                                                                          \
        struct history_##item copy;                                            \
                                                                               \
        assert(i < history_##items##_len(h));                                  \
        if (i < h->cold_##item.rows)                                           \
            return cold_##item(h, i);                                          \
        copy = h->item[i - h->cold_##item.rows];                               \
        copy.own = NULL;                                                       \
        return copy;                                                           \
    }                                                                          \
    json_t *history_##item##_##json(const struct history *h, size_t i)         \
    {                                                                          \
        assert(i < history_##items##_len(h));                                  \
        if (i < h->cold_##item.rows)                                           \
            return cold_##item##_##json(h, i);                                 \
        i -= h->cold_##item.rows;                                              \
        return h->item[i].own ? json_copied(h->item[i].own) : json_null();     \
    }

HISTORY_LONG(search, searches, tunables, started.tunables)
HISTORY_LONG(trial, trials, setting, t.setting)
HISTORY_LONG(choice, choices, setting, c.setting)

struct history_tried history_tried_at(const struct history *h, size_t i)
{
    const struct history_trial t = history_trial_at(h, i);
    const double speed = t.t.figures.speed;

    return (struct history_tried){.trial = t.t.trial,
                                  .search = t.t.search,
                                  .incumbent = t.t.incumbent,
                                  .label = t.t.label,
                                  .speed = speed > 0 ? speed : 0};
}
