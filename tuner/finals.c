#include "tuner/finals.h"

#include "tuner/stops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void finals_init(struct finals *f, struct board *c, branch_id parent,
                 struct trial *const trial[], size_t n, bool retune)
{
    uint32_t base = board_branch(c, parent)->epochs;
    uint32_t last = c->options.max_epochs;

    assert(n >= 1 && n <= SEARCH_FINALISTS_MAX);
    memset(f, 0, sizeof(*f));
    f->c = c;
    f->n = n;
    f->parent = parent;
    f->epochs = retune ? FINALS_EPOCHS_RETUNE : FINALS_EPOCHS;
    f->halved = retune;
    f->epochs_left = last > base ? last - base : 1;
    for (size_t i = 0; i < n; i++) {
        f->f[i].trial = trial[i];
        f->f[i].branch = trial[i]->run.branch;
        f->f[i].base = base;
        f->f[i].kept = BRANCH_NONE;
    }
}

/* ---- one finalist -------------------------------------------------------- */

static void drop_out(struct finals *f, struct finalist *x, const char *why)
{
    board_decision(f->c, "finalist", "trial %u is out: %s", x->trial->number,
                   why);
    if (x->started)
        line_deinit(&x->line);
    board_drop(f->c, x->kept, "its finalist is out");
    x->kept = BRANCH_NONE;
    board_free(f->c, x->branch, "lost the finals");
    x->trial->run.branch = BRANCH_NONE;
    x->out = true;
}

/* What an epoch takes @x, at its trial's pooled pace: finalists are compared at
 * equal time, and the machine's noise must not decide. No decision reads a
 * clock where trial lengths are given in clocks. */
static double epoch_time(const struct finals *f, const struct finalist *x,
                         const struct epoch_result *e)
{
    if (f->c->options.trial_clocks)
        return 1;
    if (x->trial->paced > 0)
        return x->trial->paced * (double)board_units(f->c);
    return e->seconds;
}

/* Its branch is there and a line runs it. */
static bool started(struct finals *f, struct finalist *x)
{
    struct branch *b = board_branch(f->c, x->branch);

    if (x->started)
        return true;
    if (!b) {
        b = board_fork(f->c, board_branch(f->c, f->parent), BRANCH_TRAINING,
                       &x->trial->setting, x->trial->json, "finalist");
        if (!b) {
            board_retry(f->c);
            return false;
        }
        x->branch = b->id;
        x->trial->run.branch = b->id;
    }
    if (b->state == BRANCH_REFUSED) {
        drop_out(f, x, "no memory for its branch");
        return false;
    }
    if (b->state != BRANCH_LIVE || b->after)
        return false;
    line_init(&x->line, f->c, b->id, false);
    x->before = x->line.epochs - x->base;
    x->started = true;
    return true;
}

static double score_of(const struct finals *f, const struct line_epoch *e)
{
    return board_score(f->c, e->e.loss, e->metric);
}

/* Keeps the end of its latest epoch if that would be the best model so far. */
static void keep_if_best(struct finals *f, struct finalist *x)
{
    const struct line_epoch *e = &x->epoch[x->epochs - 1];
    struct branch *b = board_branch(f->c, x->branch), *kept;

    if (!board_is_better(f->c, e->e.loss, e->metric))
        return;
    if (x->kept != BRANCH_NONE &&
        score_of(f, e) >= score_of(f, &x->epoch[x->kept_at]))
        return;
    kept = board_keep(f->c, b, "best");
    if (!kept)
        return;
    board_drop(f->c, x->kept, "a later epoch is better");
    x->kept = kept->id;
    x->kept_at = x->epochs - 1;
}

static void forget_refused(struct finals *f, struct finalist *x)
{
    struct branch *kept = board_branch(f->c, x->kept);

    if (!kept || kept->state != BRANCH_REFUSED)
        return;
    board_free(f->c, kept->id, "refused");
    x->kept = BRANCH_NONE;
}

static void take_epoch(struct finals *f, struct finalist *x,
                       const struct line_epoch *e)
{
    line_record(&x->line, e, false, false);
    assert(x->epochs < FINALS_EPOCHS_MAX);
    if (x->epochs == 0) /* those within its trial, which were not tested */
        x->run = x->before * epoch_time(f, x, &e->e);
    x->run += epoch_time(f, x, &e->e);
    x->time[x->epochs] = x->run;
    x->epoch[x->epochs++] = *e;
    keep_if_best(f, x);
}

/* Time up to which finalists run in this stage. */
static double stage_time(const struct finals *f)
{
    return f->stage == 1 ? f->horizon * 2 / 3 : f->horizon;
}

/* Whether it has run as far as the stage asks; an end is where @x's clock falls
 * on or just short of it. */
static bool far_enough(const struct finals *f, const struct finalist *x)
{
    if (x->epochs == 0)
        return false;
    return f->stage == 0 || x->epochs == FINALS_EPOCHS_MAX ||
           x->line.epochs - x->base >= f->epochs_left ||
           x->run >= 0.99 * stage_time(f);
}

/* True when it has run the stage, or is out. */
static bool ran_stage(struct finals *f, struct finalist *x)
{
    struct line_epoch e;
    enum line_state state = LINE_EPOCH;

    if (x->out)
        return true;
    if (!started(f, x))
        return x->out;
    forget_refused(f, x);
    while (state == LINE_EPOCH && !far_enough(f, x)) {
        line_go(&x->line);
        state = line_advance(&x->line, &e);
        if (state == LINE_EPOCH)
            take_epoch(f, x, &e);
    }
    if (state == LINE_BROKEN)
        drop_out(f, x,
                 board_branch(f->c, x->branch)->nonfinite
                     ? "it diverged"
                     : "the application failed");
    return x->out || far_enough(f, x);
}

/* ---- deciding ------------------------------------------------------------ */

/* Score at a time, between epochs on the line that joins them; less is better.
 * A finalist that ended before (a bound on epochs) has its last score. */
static double score_at(const struct finals *f, const struct finalist *x,
                       double time)
{
    uint32_t i = 0;
    double a, b, share;

    if (x->epochs == 0)
        return NAN;
    while (i + 1 < x->epochs && x->time[i] < time)
        i++;
    b = score_of(f, &x->epoch[i]);
    if (i == 0 || time >= x->time[i])
        return b;
    a = score_of(f, &x->epoch[i - 1]);
    share = (time - x->time[i - 1]) / (x->time[i] - x->time[i - 1]);
    return a + share * (b - a);
}

/* Where the score is going: each epoch brings about half of what the one before
 * brought, so as much again is to come as the last one brought. (The fraction
 * measured over three epochs instead chose slow settings with much left to
 * gain.) The training loss falls fastest where it began highest (a rate that is
 * too large starts with a jump), so there the value itself counts. */
static double outlook(const struct finals *f, const struct finalist *x,
                      double time)
{
    double now = score_at(f, x, time);
    double before = score_at(f, x, time - f->step);

    if (f->c->system.validation_samples == 0 || isnan(before))
        return now;
    return 2 * now - before;
}

/* NaN is worse than any number. */
static bool less(double a, double b)
{
    return !isnan(a) && (isnan(b) || a < b);
}

static struct finalist *leader(struct finals *f)
{
    struct finalist *best = NULL;

    for (size_t i = 0; i < f->n; i++) {
        struct finalist *x = &f->f[i];

        if (!x->out && (!best || less(outlook(f, x, f->horizon),
                                      outlook(f, best, f->horizon))))
            best = x;
    }
    return best;
}

static size_t left(const struct finals *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        n += !f->f[i].out;
    return n;
}

/* The better two of a re-tune's finalists go on. */
static void drop_worse(struct finals *f)
{
    while (left(f) > 2) {
        struct finalist *worst = NULL;

        for (size_t i = 0; i < f->n; i++) {
            struct finalist *x = &f->f[i];

            if (!x->out && (!worst || !less(score_at(f, x, f->step),
                                            score_at(f, worst, f->step))))
                worst = x;
        }
        assert(worst);
        drop_out(f, worst, "two others are better after an epoch");
    }
}

/* Who would still be behind another that stood still, is not worth more. */
static void drop_dominated(struct finals *f)
{
    double time = stage_time(f);

    for (size_t i = 0; i < f->n; i++)
        for (size_t j = 0; j < f->n && !f->f[i].out; j++)
            if (j != i && !f->f[j].out && f->f[i].epochs > 1 &&
                f->f[j].epochs > 1 &&
                less(score_at(f, &f->f[j], time),
                     fmin(score_at(f, &f->f[i], time),
                          outlook(f, &f->f[i], time))))
                drop_out(f, &f->f[i], "too far behind another");
}

static struct finalist *target_reached(struct finals *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!f->f[i].out && f->f[i].epochs > 0 &&
            stops_target(f->c, &f->f[i].epoch[f->f[i].epochs - 1]))
            return &f->f[i];
    return NULL;
}

/* After an epoch each it is known what an epoch takes: the horizon is three
 * (two in a re-tune) of the fastest finalist's, and one more than the slowest
 * has made by now, so that each shows where it is going. */
static void set_horizon(struct finals *f)
{
    double latest = 0;

    f->step = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct finalist *x = &f->f[i];
        double epoch;

        if (x->out)
            continue;
        epoch = epoch_time(f, x, &x->epoch[0].e);
        if (f->step == 0) {
            f->step = epoch;
            f->horizon = f->epochs * epoch;
        }
        latest = fmax(latest, x->time[0]);
    }
    f->horizon = fmax(f->horizon, latest + f->step);
}

static void record_winner(struct finals *f, const struct finalist *x)
{
    struct record_decision *d = board_decision(
        f->c, "finals", "trial %u is the best of %zu after %u epochs of it",
        x->trial->number, f->n, x->epochs);

    for (size_t i = 0; i < f->n; i++) {
        char name[32] = "result_of_trial_";
        double result = score_at(f, &f->f[i], f->horizon);
        uint32_t n = f->f[i].trial->number;
        size_t at = strlen(name), digits = 1;

        for (uint32_t m = n; m >= 10; m /= 10)
            digits++;
        for (size_t k = digits; k > 0; k--, n /= 10)
            name[at + k - 1] = (char)('0' + n % 10);
        name[at + digits] = '\0';
        board_decision_number(d, name, board_result(f->c, result));
    }
}

struct finalist *finals_advance(struct finals *f, bool *none)
{
    *none = false;
    for (;;) {
        struct finalist *winner;
        bool all = true;

        for (size_t i = 0; i < f->n; i++)
            all &= ran_stage(f, &f->f[i]);
        if (left(f) == 0) {
            *none = true;
            return NULL;
        }
        if (!all)
            return NULL;
        if (f->stage == 0)
            set_horizon(f);
        winner = target_reached(f);
        if (!winner && f->stage == 0 && f->halved)
            drop_worse(f);
        if (!winner && f->stage == 1 && !f->halved)
            drop_dominated(f);
        if (!winner && (f->stage == 2 || left(f) == 1))
            winner = leader(f);
        if (winner) {
            record_winner(f, winner);
            return winner;
        }
        f->stage++;
    }
}

void finals_deinit(struct finals *f, struct finalist *winner)
{
    for (size_t i = 0; i < f->n; i++)
        if (&f->f[i] != winner && !f->f[i].out)
            drop_out(f, &f->f[i], "another is better");
}
