#include "tuner/board/training.h"

#include "tuner/board/branch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TRAINING_WINDOWS = 200, /* reports an epoch */
    TRAINING_FIRST_PART =
        16,                 /* of an epoch, while the cost of a clock is unknown
                             */
    TRAINING_TRIES_MAX = 50 /* to fork a testing branch, a tenth of a second
                             * apart */
};
#define TRAINING_SLICE_S                                                       \
    10.0 /* long slices, but snapshots must find their turn                    \
          */
#define TRAINING_BRIEF_S 1.0 /* of a line whose neighbours wait */
#define TRAINING_REPORT_S 0.5

static const struct training_closing nothing_closing = {
    .kept = BRANCH_NONE,
    .test = BRANCH_NONE,
};

void training_init(struct training *l, struct board *c, branch_id branch,
                   bool keeps)
{
    const struct branch *b = board_branch(c, branch);

    assert(b);
    *l = (struct training){.c = c, .branch = branch, .keeps = keeps};
    /* Epochs that ended within a trial before the last were not tested. */
    l->epochs = b->epochs;
    if (b->plan == 0 && b->epochs > 0 && b->scheduled && b->own_clocks > 0)
        l->epochs = b->epochs - 1;
    l->goal = l->epochs + 1;
    l->leg_sum = b->all_sum - b->own_sum;
    l->leg_samples = b->all_samples - b->own_samples;
    l->kept = BRANCH_NONE;
    l->closing = nothing_closing;
}

/* After the slices that are out the branch is within the epoch after those that
 * were handed over, or at its very end. */
static bool within_next(const struct training *l, const struct branch *b)
{
    return b->plan_epochs == l->epochs ||
           (b->plan_epochs == l->epochs + 1 && b->plan == 0);
}

bool training_may_restore(const struct branch *b, uint32_t epochs)
{
    const struct epoch_result *last = &b->result[b->epochs % BOARD_EPOCHS_KEPT];

    return b->epochs == epochs ||
           (b->epochs == epochs + 1 && last->epoch == b->epochs);
}

branch_id training_restorable(const struct training *l)
{
    const struct branch *b = board_branch(l->c, l->branch);
    const struct branch *kept = board_branch(l->c, l->kept);
    const struct branch *closing = board_branch(l->c, l->closing.kept);

    assert(l->c);
    if (!b) /* freed with the rest, at the end of the run */
        return BRANCH_NONE;
    if (!b->nonfinite && !b->error && b->state == BRANCH_LIVE && !b->after &&
        within_next(l, b))
        return b->id;
    /* It has gone ahead of an epoch whose test is not known yet. Where the end
     * of the run has cut that epoch's slice, the fork is from within it. */
    if (closing && closing->state == BRANCH_LIVE && !closing->after &&
        !closing->nonfinite && training_may_restore(closing, l->epochs))
        return closing->id;
    /* It may be older than the last epoch, where there was no memory to keep
     * that one. */
    if (kept && kept->state == BRANCH_LIVE && !kept->after &&
        kept->epochs == l->epochs)
        return kept->id;
    return BRANCH_NONE;
}

void training_restore(struct training *l, struct board *c, branch_id branch,
                      uint32_t epochs, branch_id kept)
{
    training_init(l, c, branch, true);
    l->epochs = epochs;
    l->goal = epochs + 1;
    if (kept == 0)
        return;
    board_hold(c, kept);
    l->kept = kept;
}

static void closing_release(struct training *l)
{
    board_drop(l->c, l->closing.kept, "not needed");
    board_free(l->c, l->closing.test, "not needed");
    l->closing = nothing_closing;
}

void training_deinit(struct training *l)
{
    if (!l->c)
        return;
    closing_release(l);
    board_drop(l->c, l->kept, "not needed");
    l->kept = BRANCH_NONE;
    l->c = NULL;
}

void training_go(struct training *l)
{
    assert(l->c);
    l->goal = l->epochs + 1;
}

/* ---- slices -------------------------------------------------------------- */

static uint64_t report_every(const struct training *l, uint64_t epoch_clocks,
                             double clock_s)
{
    uint64_t every = (epoch_clocks + TRAINING_WINDOWS - 1) / TRAINING_WINDOWS;

    if (board_trial_clocks(l->c) == 0 && clock_s > 0 &&
        (double)every * clock_s > TRAINING_REPORT_S)
        every = (uint64_t)(TRAINING_REPORT_S / clock_s);
    return every ? every : 1;
}

/* Clocks that may still be queued before the pause. */
static uint64_t clocks_to_pause(const struct training *l,
                                const struct branch *b)
{
    uint64_t planned = b->clocks + board_clocks_out(l->c, b);

    return l->pause_at > planned ? l->pause_at - planned : 0;
}

static void queue_slice(struct training *l, const struct branch *b)
{
    struct board *c = l->c;
    uint64_t left = board_clocks_left(c, b), count = left;
    uint64_t step =
        board_has_parts(c) ? 1 : board_samples_per_clock(c, &b->setting);
    uint64_t clocks = step ? board_units(c) / step + 1 : 1;
    double clock_s =
        b->own_clocks ? b->trace.seconds / (double)b->own_clocks : 0;

    assert(b->state == BRANCH_LIVE);
    /* With trial lengths in clocks nothing here may depend on time. */
    if (board_trial_clocks(c) == 0 && clock_s > 0) {
        double most_s = l->brief ? TRAINING_BRIEF_S : TRAINING_SLICE_S;

        if ((double)count * clock_s > most_s)
            count = (uint64_t)(most_s / clock_s);
    } else if (board_trial_clocks(c) == 0 || l->brief) {
        count = clocks / TRAINING_FIRST_PART;
    }
    if (count == 0)
        count = 1;
    if (l->pause_at && count > clocks_to_pause(l, b))
        count = clocks_to_pause(l, b);
    if (count)
        board_run(c, b, count, report_every(l, clocks, clock_s));
}

/* Epoch that may be run to. */
static uint32_t horizon(const struct training *l)
{
    bool settled =
        l->closing.begun && (l->closing.asked || !board_validates(l->c));

    return l->ahead && settled ? l->epochs + 2 : l->goal;
}

static void queue_slices(struct training *l, const struct branch *b)
{
    /* The end of an epoch waits for its forks; while the size of a clock is
     * not known, one slice shows it. */
    uint32_t most = board_samples_per_clock(l->c, &b->setting) ? 2 : 1;

    if (branch_waits(b) || (b->slices > 0 && board_plan_is_behind(l->c, b)))
        return;
    while (b->slices < most && b->plan_epochs < horizon(l) &&
           (b->plan_epochs == l->epochs || l->closing.begun) &&
           (!l->pause_at || clocks_to_pause(l, b) > 0))
        queue_slice(l, b);
}

/* ---- the end of an epoch ------------------------------------------------- */

/* All slices of the epoch are out, and none beyond. Where clocks turned out
 * larger than they were thought to be, the end has been passed by a few. */
static bool at_end(const struct training *l, const struct branch *b)
{
    if (b->slices == 0 && b->epochs > l->epochs)
        return true;
    return b->plan_epochs == l->epochs + 1 && b->plan == 0;
}

/* Runs nothing, within an epoch, where it was to pause. */
static bool paused(const struct training *l, const struct branch *b)
{
    return l->pause_at && b->clocks >= l->pause_at && b->slices == 0 &&
           b->epochs == l->epochs && !l->closing.begun;
}

static void close_begin(struct training *l, const struct branch *b)
{
    const struct branch *kept;

    if (l->closing.begun || !at_end(l, b))
        return;
    l->closing.begun = true;
    if (l->keeps) {
        kept = board_keep(l->c, b, "epoch");
        if (kept)
            l->closing.kept = kept->id;
    }
}

static void test_fork(struct training *l, const struct branch *b)
{
    const struct branch *t =
        board_fork(l->c, b, BRANCH_TESTING, &b->setting, b->json, "test");

    l->closing.tries++;
    if (t)
        l->closing.test = t->id;
    else
        board_retry(l->c);
}

/* Whether the test has its result; forks and runs it. */
static bool tested(struct training *l, const struct branch *b)
{
    struct board *c = l->c;
    const struct branch *t = board_branch(c, l->closing.test);
    uint64_t whole = board_system(c)->validation_samples;

    if (whole == 0)
        return true;
    if (!t && (at_end(l, b) || paused(l, b)))
        test_fork(l, b);
    else if (t && t->state == BRANCH_REFUSED) {
        board_free(c, t->id, "refused");
        l->closing.test = BRANCH_NONE;
        board_retry(c);
        if (l->closing.tries >= TRAINING_TRIES_MAX)
            board_set_error(c, b->id, ERR_LIMIT, "no memory for its test");
    } else if (t && t->state == BRANCH_LIVE && t->slices == 0) {
        if (t->error)
            board_set_error(c, b->id, t->error, branch_failure(t));
        else if (!l->closing.asked)
            board_test(c, t, 1);
        else if (t->own_samples >= whole || t->own_samples == 0)
            return true;
        else /* a clock tests a part of the data: now the others */
            board_test(c, t,
                       (whole - t->own_samples + t->own_samples - 1) /
                           t->own_samples);
        l->closing.asked = true;
    }
    return false;
}

static double reduce(const struct board *c, const struct branch *t)
{
    double mean = t->own_sum / (double)t->own_samples;

    if (t->nonfinite || t->own_samples == 0)
        return NAN;
    if (strcmp(board_system(c)->metric_reduction, "sqrt_mean") == 0)
        return sqrt(mean);
    if (strcmp(board_system(c)->metric_reduction, "exp_mean") == 0)
        return exp(mean);
    return mean;
}

/* The kept fork is answered; a refused one is done without. */
static bool kept_settled(struct training *l)
{
    const struct branch *kept = board_branch(l->c, l->closing.kept);

    if (!kept)
        return true;
    if (kept->state == BRANCH_REFUSED) {
        board_decision(l->c, "keep",
                       "no memory to keep the end of epoch %u; the one before "
                       "stays",
                       l->epochs + 1);
        board_free(l->c, kept->id, "refused");
        l->closing.kept = BRANCH_NONE;
        return true;
    }
    return kept->state == BRANCH_LIVE && kept->after == 0;
}

static void hand_over(struct training *l, const struct branch *b,
                      struct training_epoch *out)
{
    const struct branch *t = board_branch(l->c, l->closing.test);

    l->epochs++;
    out->e = *branch_epoch(b, l->epochs);
    out->metric = t ? reduce(l->c, t) : NAN;
    if (t && t->own_samples > 0)
        board_note_metric(l->c, b, l->epochs, out->metric);
    if (l->closing.kept != BRANCH_NONE) {
        board_drop(l->c, l->kept, "a later epoch ended");
        l->kept = l->closing.kept;
        l->closing.kept = BRANCH_NONE;
    }
    closing_release(l);
}

static void hand_over_pause(struct training *l, const struct branch *b,
                            struct training_epoch *out)
{
    const struct branch *t = board_branch(l->c, l->closing.test);
    double samples = (double)(b->all_samples - l->leg_samples);

    *out = (struct training_epoch){0};
    out->e.loss = (b->all_sum - l->leg_sum) / samples;
    out->metric = t ? reduce(l->c, t) : NAN;
    if (t && t->own_samples > 0)
        board_note_metric(l->c, b, l->epochs + 1, out->metric);
    l->leg_sum = b->all_sum;
    l->leg_samples = b->all_samples;
    l->pause_at = 0;
    closing_release(l);
}

/* An application whose clocks grow, or a snapshot that says they are smaller,
 * runs past ends of epochs before anybody can cut it: of more than the branch
 * remembers nothing can be handed over. */
static void passed_by(const struct training *l, const struct branch *b)
{
    char what[96];

    if (b->error || b->epochs <= l->epochs + BOARD_EPOCHS_KEPT)
        return;
    snprintf(what, sizeof(what), "one slice ran from epoch %u to epoch %u",
             l->epochs + 1, b->epochs);
    board_set_error(l->c, b->id, ERR_APP, what);
}

enum training_state training_advance(struct training *l,
                                     struct training_epoch *out)
{
    const struct branch *b = board_branch(l->c, l->branch);

    assert(l->c);
    assert(out);
    assert(b);
    passed_by(l, b);
    if (b->nonfinite || b->error)
        return b->slices ? TRAINING_BUSY : TRAINING_BROKEN;
    /* The size of a clock was guessed wrong: the epoch is not over after all.
     */
    if (l->closing.begun && b->slices == 0 && b->epochs == l->epochs)
        closing_release(l);
    queue_slices(l, b);
    close_begin(l, b);
    if (l->closing.begun && tested(l, b) && kept_settled(l) &&
        b->epochs > l->epochs) {
        hand_over(l, b, out);
        return TRAINING_EPOCH;
    }
    queue_slices(l, b);
    if (paused(l, b) && tested(l, b)) {
        hand_over_pause(l, b, out);
        return TRAINING_PAUSED;
    }
    if (b->error && b->slices == 0)
        return TRAINING_BROKEN;
    return TRAINING_BUSY;
}

void training_record(const struct training *l, const struct training_epoch *e,
                     bool surviving, bool best)
{
    const struct branch *b = board_branch(l->c, l->branch);

    assert(b);
    training_record_of(l->c, l->branch, b->json, e, surviving, best);
}

void training_record_of(struct board *c, branch_id branch, json_t *json,
                        const struct training_epoch *e, bool surviving,
                        bool best)
{
    struct record_epoch_ended *r = board_record_epoch_ended(c);

    assert(json);
    assert(e->e.epoch > 0);
    r->epoch = e->e.epoch;
    r->branch = branch;
    r->surviving = surviving;
    r->setting = json_incref(json);
    r->clock = e->e.clock;
    r->loss = e->e.loss;
    r->metric = e->metric;
    r->best = best;
    r->seconds = e->e.seconds;
}
