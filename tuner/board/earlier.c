#include "tuner/board/earlier.h"

#include "base/json/json.h"
#include "base/json/problems.h"
#include "searchers/space/space_json.h"
#include "tuner/history/history_tried.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Winners of two runs that differ by less than this in every tunable, of its
 * range, are one: a trial of each would tell the same. */
#define EARLIER_NEAR 0.05

/* ---- from a history ------------------------------------------------------ */

/* What a trial was to its searcher; OUTCOME_COUNT: nothing is known of it. One
 * that failed is not: it may be for want of memory or time that this run has.
 */
static enum outcome outcome_of(const struct history_tried *t)
{
    switch (t->label) {
    case TRIAL_CONVERGING:
    case TRIAL_UNSTABLE:
        return OUTCOME_SPEED;
    case TRIAL_STOPPED:
        return t->speed > 0 ? OUTCOME_STOPPED : OUTCOME_COUNT;
    case TRIAL_DIVERGED:
        return OUTCOME_DIVERGED;
    default:
        return OUTCOME_COUNT;
    }
}

static bool is_known(const struct history_tried *t)
{
    return t->search == 1 && !t->incumbent && outcome_of(t) != OUTCOME_COUNT;
}

static double fastest(const struct history *h)
{
    double best = 0;

    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_tried t = history_tried_at(h, i);

        if (is_known(&t))
            best = fmax(best, t.speed);
    }
    return best;
}

/* Which trials are told where not all can be: the fastest, beside places for
 * the winner and the first of those that diverged. */
struct told {
    uint32_t winner; /* 0: none */
    size_t diverged; /* places that these take at most */
    size_t len, fastest[EARLIER_OF_RUN_MAX]; /* indices, by speed */
};

static bool is_told_anyway(const struct told *x, const struct history_tried *t)
{
    return t->trial == x->winner || outcome_of(t) == OUTCOME_DIVERGED;
}

/* Puts trial @i among the @room fastest, if it is; of one speed the earlier. */
static void take_fast(struct told *x, size_t room, const struct history *h,
                      size_t i, double speed)
{
    size_t at = x->len;

    while (at > 0 && history_tried_at(h, x->fastest[at - 1]).speed < speed)
        at--;
    if (at == room)
        return;
    x->len += x->len < room;
    memmove(&x->fastest[at + 1], &x->fastest[at],
            (x->len - at - 1) * sizeof(*x->fastest));
    x->fastest[at] = i;
}

static void choose_told(const struct history *h, uint32_t winner,
                        struct told *x)
{
    size_t room = EARLIER_OF_RUN_MAX - 1;

    *x = (struct told){.winner = winner};
    for (size_t i = 0;
         i < history_trials_len(h) && x->diverged < EARLIER_DIVERGED_MAX; i++) {
        struct history_tried t = history_tried_at(h, i);

        x->diverged += is_known(&t) && t.trial != winner &&
                       outcome_of(&t) == OUTCOME_DIVERGED;
    }
    room -= x->diverged;
    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_tried t = history_tried_at(h, i);

        if (is_known(&t) && !is_told_anyway(x, &t))
            take_fast(x, room, h, i, t.speed);
    }
}

/* Whether trial @i is told; those that diverged use up their places. */
static bool is_told(struct told *x, size_t i, const struct history_tried *t)
{
    if (t->trial == x->winner)
        return true;
    if (outcome_of(t) == OUTCOME_DIVERGED)
        return x->diverged > 0 && x->diverged-- > 0;
    for (size_t k = 0; k < x->len; k++)
        if (x->fastest[k] == i)
            return true;
    return false;
}

static json_t *trial_to_json(const struct history *h, size_t i, double most,
                             uint32_t winner)
{
    struct history_tried t = history_tried_at(h, i);
    json_t *setting = history_trial_setting(h, i);
    double share = fmin(t.speed / most, 1);

    if (!setting)
        return NULL;
    return json_pack("{s:o, s:f, s:s, s:b}", "setting", setting, "share", share,
                     "outcome", outcome_name(outcome_of(&t)), "best",
                     t.trial == winner);
}

static bool add_trials(const struct history *h, double most, json_t *trials)
{
    const uint32_t winner =
        history_searches_len(h) > 0 ? history_search_at(h, 0).end.winner : 0;
    struct told told;

    choose_told(h, winner, &told);
    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_tried t = history_tried_at(h, i);

        if (!is_known(&t) || !is_told(&told, i, &t))
            continue;
        if (json_array_append_new(trials, trial_to_json(h, i, most, winner)))
            return false;
    }
    return true;
}

enum err earlier_of(const struct history *h, json_t **out, const char **why)
{
    json_t *trials, *o = NULL;
    double most;

    assert(h && out && why);
    *why = NULL;
    if (!history_started(h) || history_searches_len(h) == 0 ||
        history_search_at(h, 0).started.search != 1 ||
        history_search_at(h, 0).started.retune)
        *why = "it had no first search";
    else if (strcmp(history_run(h)->strategy, "mltuner") != 0)
        *why = "its strategy was another";
    most = *why ? 0 : fastest(h);
    if (!*why && !(most > 0))
        *why = "none of its trials made progress";
    if (*why)
        return ERR_NOENT;
    trials = json_array();
    if (trials && add_trials(h, most, trials))
        o = json_pack(
            "{s:s, s:I, s:I, s:O}", "run", history_run(h)->run, "samples",
            (json_int_t)history_run(h)->samples, "validation_samples",
            (json_int_t)history_run(h)->validation_samples, "trials", trials);
    json_decref(trials);
    if (!o)
        return ERR_NOMEM;
    *out = o;
    return ERR_OK;
}

bool earlier_same_tunables(const struct space *space, const json_t *theirs)
{
    if (json_object_size(theirs) != space_len(space))
        return false;
    for (size_t i = 0; i < space_len(space); i++)
        if (!json_object_get(theirs, space_name(space, i)))
            return false;
    return true;
}

/* ---- from a configuration ------------------------------------------------ */

static bool outcome_named(const char *name, enum outcome *out)
{
    for (int i = 0; name && i < OUTCOME_COUNT; i++)
        if (strcmp(name, outcome_name((enum outcome)i)) == 0) {
            *out = (enum outcome)i;
            return true;
        }
    return false;
}

static bool seen(const struct space *space, const struct earlier *e,
                 const struct setting *x)
{
    for (size_t i = 0; i < e->len; i++)
        if (space_equal(space, &e->trial[i].setting, x))
            return true;
    return false;
}

/* Whether @x is hardly another setting than one of those to be tried first. */
static bool near_one(const struct space *space, const struct earlier *e,
                     const struct setting *x)
{
    double a[TUNABLES_MAX], b[TUNABLES_MAX];
    size_t axis[TUNABLES_MAX], n = space_axes(space, axis);

    space_to_unit(space, x, a);
    for (size_t i = 0; i < e->len; i++) {
        double most = 0;

        if (!e->trial[i].best)
            continue;
        space_to_unit(space, &e->trial[i].setting, b);
        for (size_t k = 0; k < n; k++)
            most = fmax(most, fabs(a[k] - b[k]));
        if (most < EARLIER_NEAR)
            return true;
    }
    return false;
}

static size_t best_of(const struct earlier *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->len; i++)
        n += e->trial[i].best;
    return n;
}

/* One trial; ERR_NOENT: it is not one of this space, or it failed, which an
 * older list may have. */
static enum err take_trial(const struct space *space, const json_t *o,
                           struct earlier *e, struct fault *f)
{
    const json_t *setting = json_object_get(o, "setting");
    const json_t *share = json_object_get(o, "share");
    struct problems problems = {0};
    struct earlier_trial t = {.share = json_number_value(share),
                              .run = (uint32_t)e->runs};
    enum err err;

    if (!json_is_object(setting) || !json_is_number(share) ||
        !(t.share >= 0 && t.share <= 1) ||
        !outcome_named(json_string_value(json_object_get(o, "outcome")),
                       &t.outcome))
        return fault_set(f, ERR_INVAL,
                         "trials with a setting, a share from 0 to 1 and an "
                         "outcome");
    if (t.outcome == OUTCOME_FAILED || !earlier_same_tunables(space, setting))
        return ERR_NOENT;
    err = setting_from_json(space, setting, "", &t.setting, &problems);
    problems_deinit(&problems);
    if (err)
        return err == ERR_INVAL ? ERR_NOENT : err;
    if (e->len == EARLIER_TRIALS_MAX || seen(space, e, &t.setting))
        return ERR_OK;
    t.best = json_is_true(json_object_get(o, "best")) &&
             best_of(e) < EARLIER_BEST_MAX && !near_one(space, e, &t.setting);
    e->trial[e->len++] = t;
    return ERR_OK;
}

static void skip(struct earlier *e, const char *run, const char *reason)
{
    if (e->skips == EARLIER_SKIPPED_MAX || !run)
        return;
    snprintf(e->skipped[e->skips].run, RECORD_NAME_MAX, "%s", run);
    snprintf(e->skipped[e->skips].reason, RECORD_NAME_MAX, "%s",
             reason ? reason : "");
    e->skips++;
}

static uint64_t count_of(const json_t *run, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(run, name));

    return n > 0 ? (uint64_t)n : 0;
}

static enum err take_run(const struct space *space, const json_t *run,
                         struct earlier *e, struct fault *f)
{
    const json_t *trials = json_object_get(run, "trials"), *o;
    const char *id = json_string_value(json_object_get(run, "run"));
    bool any = false;
    size_t i;

    if (!json_is_array(trials) || !id || strlen(id) >= RECORD_NAME_MAX ||
        e->runs == EARLIER_RUNS_MAX)
        return fault_set(f, ERR_INVAL, "at most %d runs with their trials",
                         EARLIER_RUNS_MAX);
    json_array_foreach((json_t *)trials, i, o)
    {
        enum err err = take_trial(space, o, e, f);

        if (err && err != ERR_NOENT)
            return err;
        any |= !err;
    }
    if (!any) {
        skip(e, id, "none of its settings is one of this run's");
        return ERR_OK;
    }
    snprintf(e->run[e->runs].run, RECORD_NAME_MAX, "%s", id);
    e->run[e->runs].samples = count_of(run, "samples");
    e->run[e->runs].validation = count_of(run, "validation_samples");
    e->runs++;
    return ERR_OK;
}

enum err earlier_from_json(const struct space *space, const json_t *json,
                           struct earlier *out, struct fault *f)
{
    const json_t *runs = json_object_get(json, "runs"), *o;
    struct earlier e = {0};
    size_t i;

    assert(space && out);
    if (!json_is_array(runs))
        return fault_set(f, ERR_INVAL, "a list of runs");
    json_array_foreach(json_object_get(json, "skipped"), i, o)
    {
        skip(&e, json_string_value(json_object_get(o, "run")),
             json_string_value(json_object_get(o, "reason")));
    }
    json_array_foreach((json_t *)runs, i, o)
    {
        enum err err = take_run(space, o, &e, f);

        if (err)
            return err;
    }
    *out = e;
    return ERR_OK;
}
