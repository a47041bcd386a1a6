#include "tuner/search/finals.h"

#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"
#include "tuner/search/finals_judge.h"
#include "tuner/search/pace.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Time of an epoch at a trial's pooled pace; 0: not known. */
static double known_epoch(const struct finals *f, const struct trial *t)
{
    /* No decision reads a clock where trial lengths are given in clocks. */
    if (board_trial_clocks(f->c))
        return 1;
    return pace_of(t) > 0 ? pace_of(t) * (double)board_units(f->c) : 0;
}

void finals_init(struct finals *f, struct board *c, branch_id parent,
                 struct trial *const trial[], size_t n, bool falls)
{
    uint32_t base = branch_epochs(board_branch(c, parent));
    uint32_t last = board_limits(c).max_epochs;

    assert(n >= 1 && n <= FINALISTS_MAX);
    memset(f, 0, sizeof(*f));
    f->c = c;
    f->n = n;
    f->parent = parent;
    f->falls = falls;
    f->epochs_left = last > base ? last - base : 1;
    f->step = known_epoch(f, trial[0]);
    for (size_t i = 0; i < n; i++) {
        f->f[i].trial = trial[i];
        f->f[i].branch = trial[i]->branch;
        f->f[i].base = base;
        f->f[i].kept = BRANCH_NONE;
        fallen_init(&f->f[i].fallen);
    }
}

/* ---- one finalist -------------------------------------------------------- */

/* Whether it holds the end of an epoch that can be the run's model. */
static bool has_kept(const struct finals *f, const struct finalist *x)
{
    const struct branch *kept = board_branch(f->c, x->kept);

    return kept && branch_is_live(kept);
}

bool finals_keeping(const struct finals *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct branch *kept = board_branch(f->c, f->f[i].kept);

        if (kept && branch_is_forking(kept))
            return true;
    }
    return false;
}

static const struct training_epoch *kept_epoch(const struct finalist *x)
{
    assert(x->kept_at < x->epochs);
    return &x->epoch[x->kept_at];
}

/* Which epoch is the better model, as of the run's best (board_is_better). */
static bool better(const struct finals *f, const struct training_epoch *a,
                   const struct training_epoch *b)
{
    double x = finals_score(f, a), y = finals_score(f, b);

    return x < y || (x == y && a->e.loss < b->e.loss);
}

struct finalist *finals_best_kept(struct finals *f)
{
    struct finalist *best = NULL;

    for (size_t i = 0; i < f->n; i++)
        if (has_kept(f, &f->f[i]) &&
            (!best || better(f, kept_epoch(&f->f[i]), kept_epoch(best))))
            best = &f->f[i];
    return best;
}

/* A finalist that is out may have had the best model: others with less training
 * loss may have won, which are no better by the metric. */
static void drop_kept(struct finals *f, struct finalist *x)
{
    if (finals_best_kept(f) == x)
        return;
    board_drop(f->c, x->kept, "its finalist is out");
    x->kept = BRANCH_NONE;
}

static void drop_out(struct finals *f, struct finalist *x, const char *why)
{
    assert(!x->out);
    assert(why);
    board_decision(f->c, "finalist", "trial %u is out: %s", x->trial->number,
                   why);
    fallen_deinit(&x->fallen, f->c);
    if (x->started)
        training_deinit(&x->line);
    drop_kept(f, x);
    board_free(f->c, x->branch, "lost the finals");
    x->trial->branch = BRANCH_NONE;
    x->out = true;
}

bool finals_save_best(struct finals *f, const struct finalist *winner)
{
    const struct finalist *x = finals_best_kept(f);
    const struct training_epoch *e;

    if (!x || x == winner)
        return false;
    e = kept_epoch(x);
    board_decision(f->c, "best",
                   "trial %u, which is not trained with, has the best model: "
                   "that of epoch %u is kept",
                   x->trial->number, e->e.epoch);
    training_record_of(f->c, x->branch, x->trial->json, e, false, true);
    board_set_best(f->c, x->kept, x->branch, &e->e, e->metric);
    return true;
}

/* Time of an epoch of @x, at its trial's pooled pace: finalists are compared at
 * equal time, and the machine's noise must not decide. */
static double epoch_time(const struct finals *f, const struct finalist *x,
                         const struct epoch_result *e)
{
    double known = known_epoch(f, x->trial);

    return known > 0 ? known : e->seconds;
}

/* Where an epoch of the fastest (or its own trial, if that took longer) is over
 * long before its next epoch, it is looked at on its way. */
static void plan_look(struct finals *f, struct finalist *x)
{
    const struct branch *b = board_branch(f->c, x->branch);
    double units = (double)board_units(f->c);
    double epoch = known_epoch(f, x->trial), now, time;
    uint64_t clock = board_has_parts(f->c)
                         ? 1
                         : board_samples_per_clock(f->c, branch_setting(b));

    if (board_trial_clocks(f->c) || !(f->step > 0) || !(epoch > 0) ||
        clock == 0 || x->line.epochs != branch_epochs(b))
        return;
    now = epoch / units * (double)board_units_run(f->c, b);
    time = fmax(now, f->step);
    if ((x->before + 1) * epoch <= FINALS_DEAR * time)
        return;
    x->line.pause_at = branch_clocks(b) + (uint64_t)ceil((time - now) / epoch *
                                                         units / (double)clock);
    x->look_time = time;
}

/* Its branch is there and a line runs it. */
static bool started(struct finals *f, struct finalist *x)
{
    const struct branch *b = board_branch(f->c, x->branch);

    if (x->started)
        return true;
    if (!b) {
        b = board_fork(f->c, board_branch(f->c, f->parent), BRANCH_TRAINING,
                       &x->trial->setting, x->trial->json, "finalist");
        if (!b) {
            board_retry(f->c);
            return false;
        }
        x->branch = branch_number(b);
        x->trial->branch = branch_number(b);
    }
    if (branch_is_refused(b)) {
        f->refused = branch_error(b);
        drop_out(f, x, "no memory for its branch");
        return false;
    }
    if (!branch_is_live(b) || branch_waits(b))
        return false;
    training_init(&x->line, f->c, branch_number(b), false);
    x->before = x->line.epochs - x->base;
    x->started = true;
    plan_look(f, x);
    return true;
}

/* Keeps the end of its latest epoch if that would be the best model so far. */
static void keep_if_best(struct finals *f, struct finalist *x)
{
    const struct training_epoch *e = &x->epoch[x->epochs - 1];
    const struct branch *b = board_branch(f->c, x->branch), *kept;

    assert(x->epochs > 0);
    if (!board_is_better(f->c, e->e.loss, e->metric))
        return;
    if (x->kept != BRANCH_NONE &&
        finals_score(f, e) >= finals_score(f, &x->epoch[x->kept_at]))
        return;
    kept = board_keep(f->c, b, "best");
    if (!kept)
        return;
    board_drop(f->c, x->kept, "a later epoch is better");
    x->kept = branch_number(kept);
    x->kept_at = x->epochs - 1;
}

/* Its kept fork is answered; a refused one is done without. (A winner's becomes
 * the run's best model, which must be there for snapshots and the end.) */
static bool kept_settled(struct finals *f, struct finalist *x)
{
    const struct branch *kept = board_branch(f->c, x->kept);

    if (!kept)
        return true;
    if (branch_is_live(kept)) {
        for (size_t i = 0; i < f->n; i++)
            if (f->f[i].out)
                drop_kept(f, &f->f[i]);
        return true;
    }
    if (!branch_is_refused(kept))
        return false;
    board_decision(f->c, "keep",
                   "no memory to keep epoch %u of trial %u, the best so far",
                   x->epoch[x->kept_at].e.epoch, x->trial->number);
    board_free(f->c, branch_number(kept), "refused");
    x->kept = BRANCH_NONE;
    return true;
}

static void take_epoch(struct finals *f, struct finalist *x,
                       const struct training_epoch *e)
{
    assert(e->e.epoch > 0);
    training_record(&x->line, e, false, false);
    /* Where clocks are few the look may fall on the epoch's end: it is over,
     * and whoever goes on with the line waits for none. */
    x->line.pause_at = 0;
    assert(x->epochs < FINALS_EPOCHS_MAX);
    if (x->epochs == 0) /* those within its trial, which were not tested */
        x->run = x->before * epoch_time(f, x, &e->e);
    x->run += epoch_time(f, x, &e->e);
    x->time[x->epochs] = x->run;
    x->epoch[x->epochs++] = *e;
    keep_if_best(f, x);
}

/* When @x has its first result. */
static double first_time(const struct finalist *x)
{
    assert(x->looked || x->epochs > 0);
    return x->looked ? x->look_time : x->time[0];
}

/* Whether it has run as far as the stage asks; an end is where @x's clock falls
 * on or just short of it. */
static bool far_enough(const struct finals *f, const struct finalist *x)
{
    double time = f->stage == 2 ? f->horizon : f->first;

    if (x->epochs == 0 && f->stage == 2)
        return false;
    if (f->stage == 0)
        return x->epochs > 0 || x->looked;
    return x->epochs == FINALS_EPOCHS_MAX ||
           x->line.epochs - x->base >= f->epochs_left ||
           fmax(x->run, x->looked ? x->look_time : 0) >= 0.99 * time;
}

/* Out it is, but for trouble of the machine, which says nothing of it: the run
 * goes on with these finals another time. True: out. */
static bool broken(struct finals *f, struct finalist *x)
{
    const struct branch *b = board_branch(f->c, x->branch);

    if (branch_is_nonfinite(b)) {
        x->trial->fell = true;
        drop_out(f, x, "it diverged");
    } else if (err_may_pass(branch_error(b))) {
        lifecycle_end(f->c, RUN_INTERRUPTED, err_name(branch_error(b)),
                      "the training application failed: %.300s",
                      board_failure(f->c));
        return false;
    } else {
        drop_out(f, x, "the application failed");
    }
    return true;
}

/* True when it has run the stage, or is out. */
static bool ran_stage(struct finals *f, struct finalist *x)
{
    struct training_epoch e;
    enum training_state state = TRAINING_EPOCH;

    if (x->out)
        return true;
    if (!started(f, x))
        return x->out;
    while ((state == TRAINING_EPOCH || state == TRAINING_PAUSED) &&
           !far_enough(f, x)) {
        training_go(&x->line);
        state = training_advance(&x->line, &e);
        if (state == TRAINING_EPOCH) {
            take_epoch(f, x, &e);
        } else if (state == TRAINING_PAUSED) {
            x->look = e;
            x->looked = true;
        }
    }
    if (state == TRAINING_BROKEN && !broken(f, x))
        return false;
    return x->out || (far_enough(f, x) && kept_settled(f, x));
}

/* ---- deciding ------------------------------------------------------------ */

static size_t left(const struct finals *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        n += !f->f[i].out;
    return n;
}

/* The better two go on; only the best, where another is no worse. */
static struct finalist *halve(struct finals *f)
{
    struct finalist *best = finals_best(f, f->first, NULL);
    struct finalist *second = finals_best(f, f->first, best);

    assert(f->stage == 1);
    for (size_t i = 0; i < f->n; i++) {
        struct finalist *x = &f->f[i];

        if (!x->out && x != best && x != second)
            drop_out(f, x, "two others are better after an epoch's time");
    }
    /* A finalist that is taken up has ended an epoch. */
    if (second && best->epochs > 0 && finals_alike(f, best, second, f->first))
        return best;
    return NULL;
}

static struct finalist *target_reached(struct finals *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!f->f[i].out && f->f[i].epochs > 0 &&
            stops_target(f->c, &f->f[i].epoch[f->f[i].epochs - 1]))
            return &f->f[i];
    return NULL;
}

/* All have a first result: up to the last of these they are compared at first.
 */
static void set_first(struct finals *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct finalist *x = &f->f[i];

        if (x->out)
            continue;
        f->first = fmax(f->first, first_time(x));
        if (f->step == 0) /* nothing was known of the pace */
            f->step = epoch_time(f, x, &x->epoch[0].e);
    }
}

/* As much again, and as far as shows where the slower of those left is going:
 * to the end of its first epoch, where it was looked at on its way. */
static void set_horizon(struct finals *f)
{
    f->horizon = f->first + f->step;
    for (size_t i = 0; i < f->n; i++) {
        const struct finalist *x = &f->f[i];

        if (!x->out && x->looked && x->epochs == 0)
            f->horizon =
                fmax(f->horizon, (x->before + 1) * known_epoch(f, x->trial));
    }
}

static void record_winner(struct finals *f, const struct finalist *x)
{
    struct record_decision *d = board_decision(
        f->c, "finals", "trial %u is the best of %zu after %u epoch%s of it",
        x->trial->number, f->n, x->epochs, x->epochs == 1 ? "" : "s");
    /* No horizon yet: the target was reached, with the latest results. */
    double time = f->horizon > 0 ? f->horizon : INFINITY;

    for (size_t i = 0; i < f->n; i++) {
        char name[32] = "result_of_trial_";
        double result = finals_score_at(f, &f->f[i], time);
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

/* The best in the end. A finalist that is taken up has ended an epoch. */
static struct finalist *taken(struct finals *f)
{
    struct finalist *best = finals_best(f, f->horizon, NULL);

    return best && best->epochs > 0 ? best : NULL;
}

/* Whether the two that are left are looked at with a lower rate: so far only
 * the steady one is known, where an error's fall says little of its end. */
static bool looks_fallen(const struct finals *f)
{
    if (!f->falls || left(f) != 2)
        return false;
    for (size_t i = 0; i < f->n; i++) {
        const struct finalist *x = &f->f[i];

        if (!x->out && (x->epochs == 0 || !finals_has_outlook(f, x) ||
                        x->line.epochs - x->base >= f->epochs_left))
            return false;
    }
    return true;
}

/* True when it was looked at, or is out. */
static bool ran_fallen(struct finals *f, struct finalist *x)
{
    struct record_decision *d;

    if (x->out || x->fallen.over)
        return true;
    if (!fallen_advance(&x->fallen, f->c, x->branch, &x->trial->setting))
        return false;
    if (!x->fallen.seen) {
        board_decision(f->c, "finalist",
                       "trial %u: no look at it with a lower learning rate",
                       x->trial->number);
        return true;
    }
    d = board_decision(f->c, "finalist",
                       "trial %u was looked at with a lower learning rate",
                       x->trial->number);
    board_decision_number(d, "result", x->fallen.epoch.metric);
    return true;
}

static bool ran(struct finals *f)
{
    bool all = true;

    for (size_t i = 0; i < f->n; i++)
        all &= f->stage == 3 ? ran_fallen(f, &f->f[i]) : ran_stage(f, &f->f[i]);
    return all;
}

/* The winner by the stage that is over; NULL: there is another one. */
static struct finalist *decided(struct finals *f)
{
    struct finalist *winner = target_reached(f);

    if (!winner && f->stage == 1) {
        winner = halve(f);
        set_horizon(f);
    }
    if (!winner && f->stage == 3)
        winner = finals_best_fallen(f);
    if (!winner && (f->stage == 3 || (f->stage == 2 && !looks_fallen(f)) ||
                    (f->stage == 1 && left(f) == 1)))
        winner = taken(f);
    return winner;
}

struct finalist *finals_advance(struct finals *f, bool *none)
{
    assert(f->n > 0);
    assert(none);
    *none = false;
    for (;;) {
        struct finalist *winner;
        bool all = ran(f);

        if (left(f) == 0) {
            *none = true;
            return NULL;
        }
        if (!all)
            return NULL;
        if (f->stage == 0)
            set_first(f);
        winner = decided(f);
        if (winner) {
            record_winner(f, winner);
            return winner;
        }
        f->stage++;
    }
}

bool finals_diverged(const struct finals *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->f[i].trial->fell)
            return true;
    return false;
}

void finals_deinit(struct finals *f, struct finalist *winner)
{
    for (size_t i = 0; i < f->n; i++)
        if (&f->f[i] != winner) {
            if (!f->f[i].out)
                drop_out(f, &f->f[i],
                         winner ? "another is better" : "the finals are over");
            board_drop(f->c, f->f[i].kept, "the finals are over");
            f->f[i].kept = BRANCH_NONE;
        }
}
