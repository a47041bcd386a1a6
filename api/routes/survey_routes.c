#include "api/routes/curve_routes.h"

#include "api/http/value.h"
#include "api/view/long_history.h"
#include "api/view/view.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct shape survey_shapes[] = {
    {"survey", "total:i rows:i columns:o tunables:o"},
    {NULL, NULL},
};

/* A trial whose speed counts. */
struct survey_speed {
    uint32_t search;
    size_t trial; /* index in the history */
    double speed;
};

struct survey_row {
    uint32_t trial, search;
    double standing; /* NAN: not judged */
    branch_id branch;
    enum trial_label label;
    bool incumbent, sampled;
    double speed, noise, seconds, loss;
    uint64_t clocks;
    json_t *setting; /* owned */
};

struct survey {
    int64_t search; /* only of that one; 0: all */
    size_t rows_max;
    size_t matching; /* trials */
    size_t at;       /* next trial */
    size_t group;    /* trials that two rows stand for; 1: each has its own */
    /* In the current group: */
    size_t seen, fastest;
    double fastest_speed;
    bool *take, *sampled;       /* owned: [trials] */
    double *standing;           /* owned: [trials]; NAN: not judged */
    struct survey_speed *speed; /* owned: [trials] */
    size_t speeds;
    size_t trials;
    struct survey_row *row; /* owned */
    size_t rows;
};

static bool matches(const struct survey *s, const struct history_trial *t)
{
    return s->search == 0 || t->t.search == s->search;
}

static bool count_trials(const struct history *h, void *state)
{
    struct survey *s = state;
    size_t end = s->at + PIECE_ITEMS;

    s->trials = history_trials_len(h);
    for (; s->at < s->trials && s->at < end; s->at++) {
        struct history_trial t = history_trial_at(h, s->at);

        s->matching += matches(s, &t);
    }
    return s->at < s->trials;
}

/* The list may have become shorter. */
static void stay_within(struct survey *s, const struct history *h)
{
    if (s->trials > history_trials_len(h))
        s->trials = history_trials_len(h);
}

static bool is_judged(const struct record_trial *t)
{
    return t->label == TRIAL_CONVERGING || t->label == TRIAL_UNSTABLE ||
           t->label == TRIAL_DIVERGED;
}

/* A trial's speed for ranks: one that diverged is slower than all others. */
static double counted_speed(const struct record_trial *t)
{
    return t->label == TRIAL_DIVERGED || isnan(t->figures.speed)
               ? -1
               : t->figures.speed;
}

static void end_group(struct survey *s)
{
    if (s->fastest_speed > 0)
        s->take[s->fastest] = true;
    s->seen = 0;
    s->fastest_speed = 0;
}

/* The first of each group of trials in a row is sampled, and the fastest is
 * taken as well. */
static bool choose_trials(const struct history *h, void *state)
{
    struct survey *s = state;
    size_t end = s->at + PIECE_ITEMS;

    stay_within(s, h);
    for (; s->at < s->trials && s->at < end; s->at++) {
        struct history_trial t = history_trial_at(h, s->at);

        s->standing[s->at] = NAN;
        if (!matches(s, &t))
            continue;
        if (is_judged(&t.t))
            s->speed[s->speeds++] =
                (struct survey_speed){t.t.search, s->at, counted_speed(&t.t)};
        if (s->seen == 0)
            s->take[s->at] = s->sampled[s->at] = true;
        if (t.t.figures.speed > s->fastest_speed) {
            s->fastest_speed = t.t.figures.speed;
            s->fastest = s->at;
        }
        if (++s->seen == s->group)
            end_group(s);
    }
    return s->at < s->trials;
}

static int by_speed(const void *a, const void *b)
{
    const struct survey_speed *x = a, *y = b;

    if (x->search != y->search)
        return x->search < y->search ? -1 : 1;
    return x->speed < y->speed ? -1 : x->speed > y->speed;
}

/* The rank of each judged trial: the part of the others of its search that are
 * slower. Those as fast count half. */
static void find_standings(struct survey *s)
{
    size_t begin = 0, end, same;

    qsort(s->speed, s->speeds, sizeof(*s->speed), by_speed);
    for (; begin < s->speeds; begin = end) {
        for (end = begin + 1;
             end < s->speeds && s->speed[end].search == s->speed[begin].search;)
            end++;
        for (size_t i = begin; i < end; i = same) {
            double place, others = (double)(end - begin - 1);

            for (same = i + 1;
                 same < end && s->speed[same].speed == s->speed[i].speed;)
                same++;
            place = (double)(i - begin) + 0.5 * (double)(same - i - 1);
            for (size_t k = i; k < same; k++)
                s->standing[s->speed[k].trial] =
                    others > 0 ? place / others : 0.5;
        }
    }
}

double survey_loss(const struct record_trial *t)
{
    return t->figures.points > 0 ? t->figures.loss[t->figures.points - 1] : NAN;
}

/* @setting is transferred. */
static void copy_trial(struct survey *s, const struct record_trial *t,
                       json_t *setting)
{
    s->row[s->rows++] = (struct survey_row){
        .trial = t->trial,
        .search = t->search,
        .branch = t->branch,
        .label = t->label,
        .incumbent = t->incumbent,
        .sampled = s->sampled[s->at],
        .standing = s->standing[s->at],
        .speed = t->figures.speed,
        .noise = t->figures.noise,
        .seconds = t->figures.seconds,
        .clocks = t->figures.clocks,
        .loss = survey_loss(t),
        .setting = setting,
    };
}

static bool copy_trials(const struct history *h, void *state)
{
    struct survey *s = state;
    size_t copied = 0;

    stay_within(s, h);
    for (; s->at < s->trials && copied < PIECE_ITEMS / 16; s->at++)
        if (s->take[s->at] && s->rows < s->rows_max) {
            struct history_trial t = history_trial_at(h, s->at);

            copy_trial(s, &t.t, history_trial_setting(h, s->at));
            copied++;
        }
    return s->at < s->trials;
}

/* ---- the answer ---------------------------------------------------------- */

/* Columns are arrays in an object; row @index goes to each. */
static bool put(json_t *columns, const char *name, size_t index, json_t *value)
{
    json_t *column = json_object_get(columns, name);

    assert(name[0]);
    if (!column) {
        column = json_array();
        for (size_t i = 0; column && i < index; i++) {
            if (json_array_append_new(column, json_null()) < 0) {
                json_decref(column);
                column = NULL;
            }
        }
        if (json_object_set_new(columns, name, column) < 0) {
            json_decref(value);
            return false;
        }
    }
    return json_array_append_new(column, value) == 0;
}

/* Columns that row @index has no value for get a null. */
static bool fill(json_t *columns, size_t index)
{
    const char *name;
    json_t *column;

    json_object_foreach(columns, name, column)
    {
        while (json_array_size(column) <= index)
            if (json_array_append_new(column, json_null()) < 0)
                return false;
    }
    return true;
}

static bool put_setting(json_t *columns, size_t index, const json_t *setting)
{
    const char *name;
    json_t *value;

    if (!setting)
        return false;
    json_object_foreach((json_t *)setting, name, value)
    {
        if (!put(columns, name, index, json_incref(value)))
            return false;
    }
    return fill(columns, index);
}

static bool put_row(json_t *to, json_t *tunables, size_t i,
                    const struct survey_row *r)
{
    return put(to, "trial", i, json_integer(r->trial)) &&
           put(to, "search", i, json_integer(r->search)) &&
           put(to, "branch", i, json_integer(r->branch)) &&
           put(to, "label", i, json_string(trial_label_name(r->label))) &&
           put(to, "incumbent", i, json_boolean(r->incumbent)) &&
           put(to, "sampled", i, json_boolean(r->sampled)) &&
           put(to, "speed", i, value_number(r->speed)) &&
           put(to, "standing", i, value_number_or_null(r->standing)) &&
           put(to, "noise", i, value_number(r->noise)) &&
           put(to, "seconds", i, value_number(r->seconds)) &&
           put(to, "clocks", i, json_integer((json_int_t)r->clocks)) &&
           put(to, "loss", i, value_number_or_null(r->loss)) &&
           put_setting(tunables, i, r->setting);
}

static json_t *survey_to_json(const struct survey *s)
{
    json_t *columns = json_object();
    json_t *tunables = json_object();
    bool ok = columns && tunables;

    for (size_t i = 0; ok && i < s->rows; i++)
        ok = put_row(columns, tunables, i, &s->row[i]);
    if (!ok) {
        json_decref(columns);
        json_decref(tunables);
        return NULL;
    }
    return json_pack("{s:I, s:I, s:o, s:o}", "total", (json_int_t)s->matching,
                     "rows", (json_int_t)s->rows, "columns", columns,
                     "tunables", tunables);
}

static bool survey_prepare(struct survey *s)
{
    size_t pairs = s->rows_max / 2;

    s->at = 0;
    s->group = s->matching <= s->rows_max || pairs == 0
                   ? 1
                   : (s->matching + pairs - 1) / pairs;
    s->take = mem_calloc(s->trials + 1, sizeof(*s->take));
    s->sampled = mem_calloc(s->trials + 1, sizeof(*s->sampled));
    s->row = mem_calloc(s->rows_max, sizeof(*s->row));
    s->standing = mem_calloc(s->trials + 1, sizeof(*s->standing));
    s->speed = mem_calloc(s->trials + 1, sizeof(*s->speed));
    return s->take && s->sampled && s->row && s->standing && s->speed;
}

static bool survey_read(const struct route_call *call, struct survey *s,
                        struct response *out)
{
    if (!long_history_read(call, choose_trials, s, out))
        return false;
    if (s->seen > 0)
        end_group(s);
    find_standings(s);
    s->at = 0;
    return long_history_read(call, copy_trials, s, out);
}

void handle_survey(const struct route_call *call, struct response *out)
{
    struct survey s = {
        .search = route_arg(call, "search")->number,
        .rows_max = (size_t)route_arg(call, "max_trials")->number,
    };

    if (!long_history_read(call, count_trials, &s, out))
        return;
    if (!survey_prepare(&s))
        response_json(out, 200, NULL);
    else if (survey_read(call, &s, out))
        response_json(out, 200, survey_to_json(&s));
    for (size_t i = 0; s.row && i < s.rows; i++)
        json_decref(s.row[i].setting);
    mem_free(s.take);
    mem_free(s.sampled);
    mem_free(s.standing);
    mem_free(s.speed);
    mem_free(s.row);
}
