#include "tuner/search.h"

#include "base/mem.h"
#include "base/rng.h"
#include "searchers/space_json.h"
#include "tuner/pace.h"
#include "tuner/plateau.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEARCH_TIME_MIN_S 0.05 /* floor of the trial time */
#define SEARCH_SWITCHES 20     /* costs of a switch: floor of the trial time */
#define SEARCH_ALIKE 0.9       /* the fifth best against the best: stop */
#define SEARCH_NEAR 0.8        /* as fast as can be told at this horizon */

enum {
    SEARCH_EPOCHS_FIRST = 3, /* longest trials of a first search */
    SEARCH_PAIRS = 5,        /* least number of pairs whose standard error is
                              * believed */
    SEARCH_FINE = 40,        /* windows aimed at in the shortest trial */
    SEARCH_ASKS_MAX = 64     /* proposals in a row that are barred */
};

/* ---- life ---------------------------------------------------------------- */

void search_init(struct search *s, struct board *c,
                 const struct search_plan *plan)
{
    struct record_search_started *r =
        &board_record(c, RECORD_SEARCH_STARTED)->search_started;

    memset(s, 0, sizeof(*s));
    s->c = c;
    s->plan = *plan;
    s->space = c->space;
    if (plan->retune)
        space_pin_for_retune(&s->space, &plan->incumbent);
    for (size_t i = 0; i < plan->barred_len && i < SEARCH_BARRED_MAX; i++)
        s->barred[s->barred_len++] = plan->barred[i];
    s->plan.barred = NULL;
    s->probe.branch = BRANCH_NONE;
    s->epochs_max = 1;
    s->started_s = c->now_s;
    s->started_clocks = c->clocks_run;
    r->search = plan->number;
    r->retune = plan->retune;
    r->parent = plan->parent;
    r->trials_max = plan->trials_max;
    snprintf(r->reason, sizeof(r->reason), "%s", plan->reason);
}

static void fill_trial(const struct search *s, const struct trial *t,
                       struct record_trial *r)
{
    r->trial = t->number;
    r->search = s->plan.number;
    r->branch = t->run.branch;
    r->setting = json_incref(t->json);
    r->incumbent = t->incumbent;
    r->label = t->summary.label;
    r->speed = t->summary.speed;
    r->noise = t->summary.noise;
    r->range = t->summary.range;
    r->seconds = t->summary.seconds;
    r->samples = t->samples;
    r->clocks = t->clocks;
    r->points = t->summary.points;
    memcpy(r->time_s, t->summary.time_s, sizeof(r->time_s));
    memcpy(r->loss, t->summary.loss, sizeof(r->loss));
}

static void record_trial(struct search *s, const struct trial *t,
                         enum record_kind kind)
{
    fill_trial(s, t, &board_record(s->c, kind)->trial);
}

static void end_trial(struct search *s, struct trial *t)
{
    if (t->ended)
        return;
    if (t->summary.label == TRIAL_RUNNING)
        t->summary.label = TRIAL_STOPPED;
    t->ended = true;
    record_trial(s, t, RECORD_TRIAL_ENDED);
}

static void free_trial(struct search *s, struct trial *t, const char *reason)
{
    end_trial(s, t);
    board_free(s->c, t->run.branch, reason);
    t->run.branch = BRANCH_NONE;
}

void search_deinit(struct search *s, uint32_t keep)
{
    if (!s->c)
        return;
    board_free(s->c, s->probe.branch, "the search is over");
    for (uint32_t i = 0; i < s->trials; i++) {
        if (s->trial[i].number != keep)
            free_trial(s, &s->trial[i], "the search is over");
        else
            end_trial(s, &s->trial[i]);
        json_decref(s->trial[i].json);
    }
    json_decref(s->next_json);
    mem_free(s->trial);
    searcher_close(s->searcher);
    memset(s, 0, sizeof(*s));
}

void search_abandon(struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        json_decref(s->trial[i].json);
    json_decref(s->next_json);
    mem_free(s->trial);
    searcher_close(s->searcher);
    memset(s, 0, sizeof(*s));
}

static void over(struct search *s, const char *reason)
{
    snprintf(s->end_reason, sizeof(s->end_reason), "%s", reason);
    s->phase = SEARCH_OVER;
}

static void open_searcher(struct search *s)
{
    struct board *c = s->c;
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (!s->trial)
        s->trial = mem_calloc(s->plan.trials_max + 1, sizeof(*s->trial));
    if (s->trial)
        err = searcher_open(
            c->options.searcher, &s->space, c->options.searcher_settings,
            rng_mix(c->options.seed, s->plan.number), &s->searcher, &fault);
    if (!s->trial || err == ERR_NOMEM) {
        board_retry(c);
    } else if (err) {
        board_decision(c, "searcher", "the searcher does not start: %.300s",
                       fault.text);
        over(s, "the searcher does not start");
    } else {
        s->phase = SEARCH_PROBING;
    }
}

/* ---- running branches ---------------------------------------------------- */

/* Time is samples where the trial lengths are given in clocks. */
static bool by_samples(const struct search *s)
{
    return s->c->options.trial_clocks > 0;
}

/* Units of position that a branch has run since its fork, and will have when
 * its slices are over. */
static uint64_t units_run(const struct search *s, const struct branch *b)
{
    return s->c->system.parts ? b->own_clocks : b->own_samples;
}

static uint64_t units_planned(const struct search *s, const struct branch *b)
{
    uint64_t units = board_units(s->c);
    uint64_t now = s->c->system.parts ? b->now.clocks : b->now.samples;

    return units_run(s, b) + (b->plan_epochs - b->epochs) * units + b->plan -
           now;
}

static double time_of(const struct search *s, const struct branch *b)
{
    return by_samples(s) ? (double)b->own_samples : b->trace.seconds;
}

static uint64_t clock_units(const struct search *s,
                            const struct setting *setting)
{
    uint64_t n;

    if (s->c->system.parts)
        return 1;
    n = board_samples_per_clock(s->c, setting);
    return n ? n : 1;
}

/* Clocks a window of @setting takes: windows of siblings hold equal samples. */
static uint64_t window_clocks(const struct search *s,
                              const struct setting *setting)
{
    uint64_t step = clock_units(s, setting);
    uint64_t clocks = (s->window + step / 2) / step;

    return clocks ? clocks : 1;
}

/* Clocks that are missing to the end of the window that is begun in the running
 * epoch; 0: none is. */
static uint64_t windows_begun(const struct branch *b, uint64_t step,
                              uint64_t every)
{
    uint64_t clocks = b->plan / step;

    return clocks % every ? every - clocks % every : 0;
}

enum runner_state { RUNNER_BUSY, RUNNER_ARRIVED, RUNNER_BROKEN };

/* Queues slices up to the goal. */
static enum runner_state runner_advance(struct search *s, struct runner *r)
{
    struct branch *b = board_branch(s->c, r->branch);
    uint64_t step, every;
    uint32_t slices;

    assert(b);
    if (b->state == BRANCH_FORKING)
        return RUNNER_BUSY;
    if (b->state == BRANCH_REFUSED || b->nonfinite || b->error)
        return b->slices ? RUNNER_BUSY : RUNNER_BROKEN;
    if (b->after)
        return RUNNER_BUSY;
    step = clock_units(s, &b->setting);
    every = s->window ? window_clocks(s, &b->setting) : 1;
    /* While the size of a clock is not known: one slice at a time. */
    slices = board_samples_per_clock(s->c, &b->setting) ? 2 : 1;
    while (b->slices < slices && units_planned(s, b) < r->goal) {
        uint64_t count = (r->goal - units_planned(s, b) + step - 1) / step;
        uint64_t odd = windows_begun(b, step, every);

        /* Siblings' windows end at the same samples: a window that was left
         * half done (by a cut, or before the size was known) is filled up. */
        count = odd ? odd : (count + every - 1) / every * every;
        board_run(s->c, b, count, every);
    }
    return b->slices ? RUNNER_BUSY : RUNNER_ARRIVED;
}

/* ---- windows and times --------------------------------------------------- */

/* Largest number of units that a clock of any setting takes. */
static uint64_t largest_clock(const struct search *s)
{
    int i = space_find(&s->space, "batch_size");
    const struct tunable *t = i >= 0 ? &s->space.tunable[i] : NULL;
    struct setting setting;

    space_default(&s->space, &setting);
    if (t && !s->c->system.parts)
        setting.value[i] = t->fixed ? t->pinned : t->max;
    return clock_units(s, &setting);
}

static uint64_t windows_in(uint64_t units, uint64_t window)
{
    return (units + window - 1) / window;
}

/* Longest a trial may be, in units: an epoch (more where that was not enough),
 * but K windows at least. */
static uint64_t bound(const struct search *s)
{
    uint64_t a = s->epochs_max * board_units(s->c);
    uint64_t b = SUMMARY_WINDOWS * s->window;

    if (by_samples(s))
        return UINT64_MAX; /* the user has said how long */
    return a > b ? a : b;
}

/* After the probe: windows of so many clocks that the shortest trial has a few
 * times K of them, as far as an epoch allows. */
static void choose_window(struct search *s)
{
    double floor_s =
        fmax(SEARCH_TIME_MIN_S, SEARCH_SWITCHES * board_switch_cost(s->c));

    if (by_samples(s))
        return;
    while (s->unit_s * (double)s->window * SEARCH_FINE < floor_s &&
           s->window * 2 * SUMMARY_WINDOWS <= board_units(s->c))
        s->window *= 2;
}

/* Raises the trial time to what K windows of @b take and to its other floors.
 */
static void raise_floor(struct search *s, const struct branch *b)
{
    double unit = time_of(s, b) / (double)units_run(s, b);
    double least = unit * (double)(SUMMARY_WINDOWS * s->window);

    if (by_samples(s))
        least = unit * (double)(s->c->options.trial_clocks * largest_clock(s));
    else
        least = fmax(
            fmax(least, SEARCH_TIME_MIN_S),
            fmax(SEARCH_SWITCHES * board_switch_cost(s->c), s->decision_s));
    s->trial_time = fmax(s->trial_time, least);
}

/* Units a time unit: at the pace of its kind, where time is a clock's. */
static double rate_for_goal(const struct search *s, struct trial *t,
                            const struct branch *b)
{
    double unit = time_of(s, b) / (double)units_run(s, b);

    if (by_samples(s) || !(unit > 0))
        return 1 / unit;
    t->pace = unit;
    return 1 / pace_pooled(s, t);
}

/* Windows that fill the trial time at the rate measured so far. */
static void set_goal(struct search *s, struct trial *t, const struct branch *b)
{
    struct runner *r = &t->run;
    double rate = rate_for_goal(s, t, b);
    double windows = round(s->trial_time * rate / (double)s->window);
    uint64_t goal;

    if (!(windows >= SUMMARY_WINDOWS) && !by_samples(s))
        windows = SUMMARY_WINDOWS;
    goal =
        windows < (double)bound(s) ? (uint64_t)windows * s->window : bound(s);
    if (goal > bound(s))
        goal = bound(s);
    if (goal > r->goal)
        r->goal = goal;
    r->goal_time = s->trial_time;
}

/* ---- probe --------------------------------------------------------------- */

static bool start_probe(struct search *s)
{
    struct board *c = s->c;
    struct branch *parent = board_branch(c, s->plan.parent), *b;
    struct setting setting = s->plan.incumbent;
    json_t *json;

    if (!s->plan.has_incumbent)
        space_default(&s->space, &setting);
    json = setting_to_json(&s->space, &setting);
    b = json ? board_fork(c, parent, BRANCH_PROBE, &setting, json, "probe")
             : NULL;
    json_decref(json);
    if (!b) {
        board_retry(c);
        return false;
    }
    s->probe.branch = b->id;
    s->probe.goal = 1; /* a clock: it tells how many samples a clock has */
    return true;
}

static bool probe_done(struct search *s, const struct branch *b)
{
    s->loss_before = b->own_sum / (double)b->own_samples;
    s->unit_s = time_of(s, b) / (double)units_run(s, b);
    choose_window(s);
    return true;
}

/* True when the loss before the trials is known. */
static bool probe_advance(struct search *s)
{
    struct board *c = s->c;
    struct branch *b = board_branch(c, s->probe.branch);
    enum runner_state state;

    if (!b && !start_probe(s))
        return false;
    state = runner_advance(s, &s->probe);
    b = board_branch(c, s->probe.branch);
    if (state == RUNNER_BROKEN && b->state == BRANCH_REFUSED) {
        board_end(c, RUN_FAILED, "limit",
                  "no memory for a second copy of the model: %s",
                  err_text(b->error));
        return false;
    }
    if (state == RUNNER_BROKEN) {
        board_end(c, RUN_FAILED, b->nonfinite ? "diverged" : "app",
                  b->nonfinite ? "the loss is not finite before any training"
                               : "the training application failed: %.300s",
                  c->failure);
        return false;
    }
    if (state == RUNNER_BUSY)
        return false;
    s->window = largest_clock(s);
    if (units_run(s, b) < s->window) {
        s->probe.goal = s->window;
        return runner_advance(s, &s->probe) == RUNNER_ARRIVED &&
               probe_done(s, b);
    }
    return probe_done(s, b);
}

/* The probe goes on as far as any trial: what it reports is the choice of
 * samples alone, and is taken off the trials' traces. */
static bool probe_follows(struct search *s)
{
    uint64_t furthest = s->window;
    struct branch *b = board_branch(s->c, s->probe.branch);

    if (!b)
        return true;
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].run.branch != BRANCH_NONE &&
            s->trial[i].run.goal > furthest)
            furthest = s->trial[i].run.goal;
    s->probe.goal = furthest;
    return runner_advance(s, &s->probe) != RUNNER_BUSY;
}

/* ---- judging ------------------------------------------------------------- */

static void time_to_samples(struct curve *curve)
{
    double samples = 0;

    for (uint32_t i = 0; i < curve->len; i++) {
        samples += (double)curve->point[i].samples;
        curve->point[i].seconds = samples;
    }
}

static struct trial *incumbent_of(struct search *s)
{
    return s->trials && s->trial[0].incumbent ? &s->trial[0] : NULL;
}

/* The trial's losses by time, at the pace of its kind. */
static void trial_curve(struct search *s, struct trial *t,
                        const struct branch *b, struct curve *curve)
{
    struct branch *probe = board_branch(s->c, s->probe.branch);

    if (probe)
        trace_curve_against(&b->trace, &probe->trace, s->loss_before, curve);
    else
        trace_curve(&b->trace, curve);
    if (by_samples(s)) {
        time_to_samples(curve);
        return;
    }
    t->pace = time_of(s, b) / (double)units_run(s, b);
    t->paced = pace_pooled(s, t);
    t->seconds = t->paced * (double)units_run(s, b);
    for (uint32_t i = 0; i < curve->len; i++)
        curve->point[i].seconds *= t->paced / t->pace;
}

/* Drops what lies beyond @seconds, a twentieth of it forgiven. */
static void cut_curve(struct curve *curve, double seconds)
{
    while (curve->len > 1 &&
           curve->point[curve->len - 1].seconds > 1.05 * seconds)
        curve->len--;
}

static void judge(struct search *s, struct trial *t, const struct branch *b)
{
    static const struct summary zero;
    struct curve curve;

    t->samples = b->own_samples;
    t->clocks = b->own_clocks;
    t->seconds = time_of(s, b);
    t->judged = true;
    t->summary = zero;
    t->paced = 0;
    if (b->state == BRANCH_REFUSED || b->error) {
        t->summary.label = TRIAL_FAILED;
        return;
    }
    if (b->nonfinite) {
        summary_diverged(&t->summary);
        return;
    }
    trial_curve(s, t, b, &curve);
    if (s->judged_s > 0)
        cut_curve(&curve, s->judged_s);
    summary_of(&curve, s->loss_before, s->c->system.loss_floor, &t->summary);
}

/* How much lower than the incumbent's its loss is, on the same samples. */
static void compare(struct search *s, struct trial *t, const struct branch *b)
{
    struct trial *incumbent = incumbent_of(s);
    struct branch *other;

    if (!incumbent || incumbent == t)
        return;
    other = board_branch(s->c, incumbent->run.branch);
    if (!other || other->nonfinite)
        return;
    t->pairs = trace_paired(&other->trace, &b->trace, &t->lead, &t->lead_se);
}

static enum outcome outcome_of(const struct trial *t)
{
    if (t->summary.label == TRIAL_DIVERGED)
        return OUTCOME_DIVERGED;
    if (t->summary.label == TRIAL_FAILED)
        return OUTCOME_FAILED;
    return OUTCOME_SPEED;
}

/* Tells the searcher what it has not heard yet. False: not now (memory). */
static bool tell_all(struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        struct observation o = {.trial = t->number,
                                .setting = t->setting,
                                .outcome = outcome_of(t)};

        if (!t->news || t->incumbent)
            continue;
        o.speed = o.outcome == OUTCOME_SPEED ? t->summary.speed : 0;
        o.resource = t->summary.seconds;
        if (searcher_tell(s->searcher, &o, NULL))
            return false;
        t->news = false;
    }
    return true;
}

static bool is_distinct(const struct search *s, const struct trial *t,
                        struct trial *const others[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (space_same(&s->space, &t->setting, &others[i]->setting))
            return false;
    return true;
}

/* A trial that may win: converging; or, where none is, one that got anywhere.
 * (MLtuner's code ignored the label once the trial time was decided, so that an
 * unstable setting could win.) */
static bool eligible(const struct trial *t, bool any_converging)
{
    if (t->summary.label == TRIAL_CONVERGING)
        return true;
    return !any_converging && t->summary.label == TRIAL_UNSTABLE &&
           t->summary.speed > 0;
}

static bool any_converging(const struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].summary.label == TRIAL_CONVERGING)
            return true;
    return false;
}

/* Samples a second. */
static double rate_of(const struct trial *t)
{
    return (double)t->samples / fmax(t->seconds, 1e-12);
}

/* Ahead of the incumbent on the same samples, beyond the standard error of the
 * difference; where its own trace rises now and then, clearly so. */
static bool ahead(const struct search *s, const struct trial *t)
{
    double share = fmin((double)t->samples / (double)s->c->system.samples, 1);

    /* Less than what counts as an improvement is not worth a change. */
    if (t->lead < PLATEAU_IMPROVEMENT * share * fabs(s->loss_before))
        return false;
    if (t->summary.label == TRIAL_CONVERGING)
        return t->lead > t->lead_se;
    return t->summary.label == TRIAL_UNSTABLE && t->pairs >= SEARCH_PAIRS &&
           t->lead > 3 * t->lead_se;
}

/* Whether this trial settles how long trials have to be. */
static bool is_clear(const struct search *s, const struct trial *t)
{
    return t->summary.label == TRIAL_CONVERGING ||
           (!t->incumbent && ahead(s, t));
}

static bool any_clear(const struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (is_clear(s, &s->trial[i]))
            return true;
    return false;
}

/* The fastest distinct eligible trials, best first. */
static size_t fastest(struct search *s, struct trial *out[], size_t max)
{
    bool converging = any_converging(s);
    size_t n = 0;

    while (n < max) {
        struct trial *best = NULL;

        for (uint32_t i = 0; i < s->trials; i++) {
            struct trial *t = &s->trial[i];

            if (eligible(t, converging) && is_distinct(s, t, out, n) &&
                (!best || t->summary.speed > best->summary.speed))
                best = t;
        }
        if (!best)
            break;
        out[n++] = best;
    }
    return n;
}

/* ---- finalists ----------------------------------------------------------- */

static double unit_rate(const struct search *s, const struct trial *t, int rate)
{
    double u[TUNABLES_MAX];
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(&s->space, axis);

    space_to_unit(&s->space, &t->setting, u);
    for (size_t k = 0; k < n; k++)
        if (axis[k] == (size_t)rate)
            return u[k];
    return 0;
}

/* The learning rate, if this search moves it; else -1. */
static int moving_rate(const struct search *s)
{
    int rate = space_find(&s->space, "learning_rate");

    if (rate < 0 || s->space.tunable[rate].fixed ||
        !s->space.tunable[rate].acts)
        return -1;
    return rate;
}

/* Whether a trial is about as fast as the fastest, as far as can be told at
 * this horizon. */
static bool is_near(const struct trial *t, const struct trial *best,
                    bool converging)
{
    return eligible(t, converging) &&
           t->summary.speed >= SEARCH_NEAR * best->summary.speed;
}

/* Of the trials near the fastest whose learning rate is on one side of its
 * (@side +1 above, -1 below): the one nearest to the middle of their range in
 * the unit scale. */
static struct trial *beside(struct search *s, struct trial *best, int side)
{
    bool converging = any_converging(s);
    int rate = moving_rate(s);
    double from = unit_rate(s, best, rate), far = 0, gap = INFINITY;
    struct trial *middle = NULL;

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->trials; i++) {
            struct trial *t = &s->trial[i];
            double d = side * (unit_rate(s, t, rate) - from);

            if (d <= 0 || !is_near(t, best, converging))
                continue;
            if (pass == 0) {
                far = fmax(far, d);
            } else if (fabs(d - far / 2) < gap) {
                gap = fabs(d - far / 2);
                middle = t;
            }
        }
    return middle;
}

/* Short-horizon bias (Wu et al. 2018): over a trial many learning rates are
 * about equally fast whose long runs differ, and the fastest may err to either
 * side. So beside the fastest, one of those near it goes on from each side. */
static size_t add_sides(struct search *s, struct trial *out[], size_t n)
{
    for (int side = 1; side >= -1 && moving_rate(s) >= 0; side -= 2) {
        struct trial *t = beside(s, out[0], side);

        if (t && is_distinct(s, t, out, n))
            out[n++] = t;
    }
    return n;
}

static size_t finalists_first(struct search *s,
                              struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *top[SEARCH_FINALISTS_MAX * 2];
    size_t n = fastest(s, top, SEARCH_FINALISTS_MAX * 2), got;

    if (n == 0)
        return 0;
    out[0] = top[0];
    got = add_sides(s, out, 1);
    for (size_t i = 1; i < n && got < SEARCH_FINALISTS_MAX; i++)
        if (is_distinct(s, top[i], out, got))
            out[got++] = top[i];
    return got;
}

/* A re-tune's challengers by what they gain on the incumbent in equal time;
 * without an incumbent (it diverged) by speed. */
static double gain(struct search *s, const struct trial *t)
{
    struct trial *incumbent = incumbent_of(s);

    if (!incumbent)
        return t->summary.speed;
    return t->lead * rate_of(t) / rate_of(incumbent);
}

/* Whether a trial may replace the incumbent; after a divergence there is
 * none. */
static bool challenges(struct search *s, const struct trial *t)
{
    if (t->incumbent)
        return false;
    return incumbent_of(s) ? ahead(s, t) : eligible(t, any_converging(s));
}

static struct trial *best_challenger(struct search *s,
                                     struct trial *const others[], size_t n)
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if (challenges(s, t) && is_distinct(s, t, others, n) &&
            (!best || gain(s, t) > gain(s, best)))
            best = t;
    }
    return best;
}

/* The largest learning rate that gains at least half as much as the best does.
 * Where progress has stopped, a trial always prefers the smallest rates: it
 * sees the noise that they save, not the way that they do not go. */
static struct trial *bold_challenger(struct search *s, struct trial *best)
{
    int rate = moving_rate(s);
    struct trial *bold = NULL;

    for (uint32_t i = 0; i < s->trials && rate >= 0; i++) {
        struct trial *t = &s->trial[i];

        if (challenges(s, t) && is_distinct(s, t, &best, 1) &&
            gain(s, t) >= 0.5 * gain(s, best) &&
            unit_rate(s, t, rate) > unit_rate(s, best, rate) &&
            (!bold || unit_rate(s, t, rate) > unit_rate(s, bold, rate)))
            bold = t;
    }
    return bold;
}

/* A re-tune: the best challenger, a bold one, and the incumbent. */
static size_t finalists_retune(struct search *s,
                               struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *incumbent = incumbent_of(s), *other;

    out[0] = best_challenger(s, out, 0);
    if (!out[0])
        return 0;
    other = bold_challenger(s, out[0]);
    if (!other)
        other = best_challenger(s, out, 1);
    if (!incumbent || incumbent->run.branch == BRANCH_NONE)
        incumbent = NULL;
    out[1] = other ? other : incumbent;
    out[2] = other ? incumbent : NULL;
    return 1 + (out[1] != NULL) + (out[2] != NULL);
}

size_t search_finalists(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX])
{
    return s->plan.retune ? finalists_retune(s, out) : finalists_first(s, out);
}

size_t search_least_bad(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if ((t->summary.label == TRIAL_UNSTABLE ||
             t->summary.label == TRIAL_CONVERGING) &&
            (!best || t->summary.range < best->summary.range))
            best = t;
    }
    out[0] = best;
    return best ? 1 : 0;
}

uint32_t search_made(const struct search *s)
{
    return s->trials - (s->trials && s->trial[0].incumbent ? 1 : 0);
}

void search_record_end(struct search *s, uint32_t winner, const char *reason)
{
    struct record_search_ended *r =
        &board_record(s->c, RECORD_SEARCH_ENDED)->search_ended;

    r->search = s->plan.number;
    r->trials = search_made(s);
    r->winner = winner;
    r->trial_s = s->trial_time;
    r->seconds = s->c->now_s - s->started_s;
    r->clocks = s->c->clocks_run - s->started_clocks;
    for (uint32_t i = 0; i < s->trials; i++) {
        struct branch *b = board_branch(s->c, s->trial[i].run.branch);

        if (s->trial[i].number != winner || !b)
            continue;
        r->seconds = fmax(0, r->seconds - b->trace.seconds);
        r->clocks -= b->own_clocks;
    }
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

/* ---- trials -------------------------------------------------------------- */

static size_t running(const struct search *s, struct setting out[])
{
    size_t n = 0;

    for (uint32_t i = 0; i < s->trials && n < SEARCH_LIVE_MAX; i++)
        if (!s->trial[i].judged)
            out[n++] = s->trial[i].setting;
    return n;
}

static bool is_barred(const struct search *s, const struct setting *x)
{
    for (size_t i = 0; i < s->barred_len; i++)
        if (space_same(&s->space, x, &s->barred[i]))
            return true;
    return false;
}

/* Asks until a setting comes that is not barred: those are told as diverged. */
static enum err ask(struct search *s, struct fault *f)
{
    struct setting out[SEARCH_LIVE_MAX];
    size_t n = running(s, out);
    enum err err = ERR_EXHAUSTED;

    if (!tell_all(s))
        return ERR_NOMEM;
    s->asked = true;
    for (int i = 0; i < SEARCH_ASKS_MAX; i++) {
        struct observation o = {.trial = UINT64_MAX - (uint64_t)i,
                                .outcome = OUTCOME_DIVERGED};

        err = searcher_ask(s->searcher, out, n,
                           s->plan.has_incumbent ? &s->plan.incumbent : NULL,
                           &s->next, f);
        if (err || !is_barred(s, &s->next))
            return err;
        o.setting = s->next;
        err = searcher_tell(s->searcher, &o, f);
        if (err)
            return err;
    }
    return ERR_EXHAUSTED;
}

/* The next trial's setting, into s->next and s->next_json. A searcher that
 * fails has nothing more to say; one that has no memory, or says not now, is
 * asked again. */
static bool propose(struct search *s)
{
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (s->next_json)
        return true;
    if (s->trials == 0 && s->plan.has_incumbent)
        s->next = s->plan.incumbent;
    else
        err = ask(s, &fault);
    if (!err) {
        s->next_json = setting_to_json(&s->space, &s->next);
        err = s->next_json ? ERR_OK : ERR_NOMEM;
    }
    if (err == ERR_NOMEM || err == ERR_AGAIN) {
        board_retry(s->c);
    } else if (err) {
        s->exhausted = true;
        if (err != ERR_EXHAUSTED)
            board_decision(s->c, "searcher", "the searcher failed: %.300s",
                           fault.text);
    }
    return !err;
}

static bool may_begin(const struct search *s)
{
    return !s->exhausted && search_made(s) < s->plan.trials_max;
}

/* Begins a trial. False: none is to be had (see exhausted), or not now. */
static bool begin_trial(struct search *s)
{
    struct board *c = s->c;
    struct trial *t = &s->trial[s->trials];
    struct branch *b;

    if (!may_begin(s) || !propose(s))
        return false;
    b = board_fork(c, board_branch(c, s->plan.parent), BRANCH_TRAINING,
                   &s->next, s->next_json, "trial");
    if (!b) {
        board_retry(c);
        return false;
    }
    *t = (struct trial){
        .number = s->plan.first_trial + s->trials,
        .incumbent = s->trials == 0 && s->plan.has_incumbent,
        .setting = s->next,
        .json = s->next_json,
        .run = {.branch = b->id, .goal = SUMMARY_WINDOWS * s->window},
    };
    if (by_samples(s))
        t->run.goal =
            windows_in(c->options.trial_clocks * largest_clock(s), s->window) *
            s->window;
    if (t->run.goal > bound(s))
        t->run.goal = bound(s);
    s->next_json = NULL;
    s->trials++;
    record_trial(s, t, RECORD_TRIAL_STARTED);
    return true;
}

/* The live trial that has done worst so far, other than @but. */
static struct trial *slowest_live(struct search *s, const struct trial *but)
{
    struct trial *worst = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        struct branch *b = board_branch(s->c, t->run.branch);

        if (!b || t == but || t->incumbent || !t->judged || b->slices)
            continue;
        if (!worst || t->summary.speed < worst->summary.speed)
            worst = t;
    }
    return worst;
}

/* A refused fork costs the slowest trial; the setting is proposed again. */
static void refused(struct search *s, struct trial *t)
{
    struct trial *worst = slowest_live(s, t);
    struct branch *b = board_branch(s->c, t->run.branch);
    enum err err = b->error;

    board_free(s->c, b->id, "refused");
    t->run.branch = BRANCH_NONE;
    if (worst) {
        board_decision(
            s->c, "memory",
            "no memory for trial %u: the slowest, trial %u, is freed",
            t->number, worst->number);
        free_trial(s, worst, "memory");
        b = board_fork(s->c, board_branch(s->c, s->plan.parent),
                       BRANCH_TRAINING, &t->setting, t->json, "trial");
        if (b) {
            t->run.branch = b->id;
            return;
        }
    }
    t->summary.label = TRIAL_FAILED;
    t->judged = true;
    end_trial(s, t);
    board_decision(s->c, "memory", "no memory for trial %u: %s", t->number,
                   err_text(err));
}

/* Takes one trial as far as it goes. False while it is under way. */
static bool trial_arrived(struct search *s, struct trial *t)
{
    struct branch *b = board_branch(s->c, t->run.branch);
    enum runner_state state;

    if (!b)
        return true;
    state = runner_advance(s, &t->run);
    if (b->state == BRANCH_REFUSED) {
        refused(s, t);
        return t->run.branch == BRANCH_NONE;
    }
    if (state == RUNNER_BUSY)
        return false;
    if (state == RUNNER_BROKEN)
        return true;
    if (t->run.goal_time < s->trial_time || s->trial_time == 0) {
        t->judged = false;
        if (!s->decided)
            raise_floor(s, b);
        set_goal(s, t, b);
        return runner_advance(s, &t->run) == RUNNER_ARRIVED;
    }
    return true;
}

static bool all_arrived(struct search *s)
{
    bool all = true;

    for (uint32_t i = 0; i < s->trials; i++)
        all &= trial_arrived(s, &s->trial[i]);
    return probe_follows(s) && all;
}

/* The searcher hears of a trial again when its pace moved by more than this. */
#define SEARCH_PACE_NEWS 0.01

/* All trials at the pooled paces, which the latest measurement has moved. */
static void pace_all(struct search *s, const bool fresh[])
{
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        double longer = by_samples(s) ? 1 : pace_apply(s, t);

        if (fresh[i] || fabs(longer - 1) > SEARCH_PACE_NEWS)
            t->news = true;
    }
}

/* Judges what has run since it was last judged; drops what diverged. */
static void judge_all(struct search *s)
{
    bool fresh[TUNER_TRIALS_MAX + 1] = {false};

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        struct branch *b = board_branch(s->c, t->run.branch);

        if (!b || (t->judged && t->samples == b->own_samples))
            continue;
        judge(s, t, b);
        compare(s, t, b);
        fresh[i] = true;
    }
    pace_all(s, fresh);
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if (!fresh[i])
            continue;
        if (t->summary.label == TRIAL_DIVERGED ||
            t->summary.label == TRIAL_FAILED)
            free_trial(s, t, trial_label_name(t->summary.label));
        else
            record_trial(s, t, RECORD_TRIAL_UPDATED);
    }
}

/* ---- deciding ------------------------------------------------------------ */

static uint32_t live(const struct search *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->trials; i++)
        n += s->trial[i].run.branch != BRANCH_NONE;
    return n;
}

static void decide_time(struct search *s)
{
    struct record_decision *d;

    s->decided = true;
    d = board_decision(s->c, "trial_time",
                       "a trial takes %.4g %s: that is how long it took for a "
                       "setting to converge clearly",
                       s->trial_time, by_samples(s) ? "samples" : "s");
    board_decision_number(d, "trial_time", s->trial_time);
    board_decision_number(d, "trials", search_made(s));
}

/* Whether any live trial would run longer in twice the time. */
/* Whether a shorter look would have shown a converging trial to be one. */
static bool converging_within(struct search *s, double seconds)
{
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        struct branch *b = board_branch(s->c, t->run.branch);
        struct summary summary;
        struct curve curve;

        if (!b || t->summary.label != TRIAL_CONVERGING)
            continue;
        trial_curve(s, t, b, &curve);
        cut_curve(&curve, seconds);
        summary_of(&curve, s->loss_before, s->c->system.loss_floor, &summary);
        if (summary.label == TRIAL_CONVERGING)
            return true;
    }
    return false;
}

/* While no good setting had been proposed, the time was doubled in vain; a
 * converging trial shows how much of it was needed. Algorithm 6 keeps the time;
 * here it is halved as long as that trial would have been converging by then,
 * and all are judged by so much of their traces. True if it was shortened. */
static bool shorten_time(struct search *s)
{
    double least =
        fmax(fmax(SEARCH_TIME_MIN_S, s->decision_s),
             fmax(SEARCH_SWITCHES * board_switch_cost(s->c),
                  s->unit_s * (double)(SUMMARY_WINDOWS * s->window)));
    double time = s->trial_time;

    if (by_samples(s))
        return false;
    while (time / 4 >= least && converging_within(s, time / 4))
        time /= 2;
    if (time == s->trial_time)
        return false;
    s->trial_time = s->judged_s = time;
    for (uint32_t i = 0; i < s->trials; i++)
        s->trial[i].judged = false;
    return true;
}

static bool can_double(const struct search *s)
{
    if (by_samples(s))
        return false; /* lengths are given */
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].run.branch != BRANCH_NONE &&
            s->trial[i].run.goal < bound(s))
            return true;
    return false;
}

static void give_up(struct search *s)
{
    struct record_decision *d;

    s->gave_up = true;
    d = board_decision(s->c, "trial_time",
                       s->plan.retune
                           ? "no setting converges clearly within the longest "
                             "trial: the setting stays"
                           : "no setting converges clearly within the longest "
                             "trial: the best speed counts");
    board_decision_number(d, "trial_time", s->trial_time);
    board_decision_number(d, "trials", search_made(s));
    over(s, "no setting converges within the longest trial");
}

/* A first search may take trials of up to three epochs to find something that
 * converges. */
static bool raise_bound(struct search *s)
{
    if (s->plan.retune || by_samples(s) ||
        s->epochs_max == SEARCH_EPOCHS_FIRST || live(s) == 0)
        return false;
    s->epochs_max++;
    return true;
}

/* Nothing converges yet: more time and one more setting (Algorithm 6). At the
 * bound: more settings, up to as many as the stop rule looks at. */
static void go_on_undecided(struct search *s)
{
    bool longer = can_double(s) || raise_bound(s);

    if (longer)
        s->trial_time *= 2;
    else if (search_made(s) >= SEARCH_TOP && live(s) > 0) {
        give_up(s);
        return;
    }
    if (live(s) >= SEARCH_LIVE_MAX) {
        struct trial *worst = slowest_live(s, NULL);

        if (worst)
            free_trial(s, worst, "many trials, and it is the slowest");
    }
    if (!begin_trial(s) && !longer && (s->exhausted || !may_begin(s)))
        give_up(s);
}

/* Frees the branches of trials that will not be finalists. */
static void free_losers(struct search *s)
{
    struct trial *keep[SEARCH_FINALISTS_MAX + 1];
    size_t n = search_finalists(s, keep);

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        bool kept = t->incumbent;

        for (size_t k = 0; k < n; k++)
            kept |= keep[k] == t;
        if (!kept && t->run.branch != BRANCH_NONE)
            free_trial(s, t, "slower than others");
    }
}

static bool alike(struct search *s)
{
    struct trial *top[SEARCH_TOP];

    return fastest(s, top, SEARCH_TOP) == SEARCH_TOP &&
           top[SEARCH_TOP - 1]->summary.speed >=
               SEARCH_ALIKE * top[0]->summary.speed;
}

/* A re-tune that has found as many better settings as a first search compares
 * leaves the rest to the finals. */
static bool enough_ahead(struct search *s)
{
    struct trial *found[SEARCH_TOP];
    size_t n = 0;

    if (!incumbent_of(s))
        return false;
    for (uint32_t i = 0; i < s->trials && n < SEARCH_TOP; i++)
        if (challenges(s, &s->trial[i]) &&
            is_distinct(s, &s->trial[i], found, n))
            found[n++] = &s->trial[i];
    return n == SEARCH_TOP;
}

static void go_on_decided(struct search *s)
{
    free_losers(s);
    if (enough_ahead(s))
        over(s, "five settings are better than the present one");
    else if (alike(s))
        over(s, "the five best settings are alike within 10 %");
    else if (search_made(s) >= s->plan.trials_max)
        over(s, "the number of trials is used up");
    else if (!begin_trial(s) && s->exhausted)
        over(s, "there is no other setting to try");
}

static void try_settings(struct search *s)
{
    /* One pass does what the events brought; a new trial waits for its fork. */
    if (s->trials == 0 && !begin_trial(s)) {
        if (s->exhausted)
            over(s, "there is no setting to try");
        return;
    }
    if (!all_arrived(s))
        return;
    judge_all(s);
    if (!s->decided && any_clear(s)) {
        if (shorten_time(s))
            judge_all(s);
        decide_time(s);
    }
    if (s->decided)
        go_on_decided(s);
    else
        go_on_undecided(s);
    if (s->phase == SEARCH_TRYING)
        all_arrived(s);
}

static void measure_decision(struct search *s)
{
    if (s->asked)
        s->decision_s = fmax(s->decision_s, s->c->step_s);
    s->asked = false;
}

enum search_state search_advance(struct search *s)
{
    measure_decision(s);
    if (s->phase == SEARCH_OPENING)
        open_searcher(s);
    if (s->phase == SEARCH_PROBING && probe_advance(s))
        s->phase = SEARCH_TRYING;
    if (s->phase == SEARCH_TRYING)
        try_settings(s);
    return s->phase == SEARCH_OVER ? SEARCH_DONE : SEARCH_BUSY;
}
