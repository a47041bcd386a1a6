#include "tuner/strategies/contest_ask.h"

#include "base/rng.h"
#include "searchers/built_in.h"
#include "tuner/core/suggest.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define QUALITY_EXPONENT_MAX 600.0 /* exp of it is a number still */

bool contest_searcher(struct board *c, const json_t *settings)
{
    const char *how = json_string_value(json_object_get(settings, "sampling"));

    assert(how);
    if (strcmp(how, "searcher") == 0)
        return true;
    if (board_searcher(c))
        board_set_searcher(c, &searcher_random);
    return false;
}

void contest_sample_anew(struct contest *ct)
{
    proposals_close(&ct->proposals);
    ct->reopens = false;
}

double contest_quality(double first, double score)
{
    double scale = first != 0 ? fabs(first) : 1;
    double x = (first - score) / scale;

    assert(isfinite(first) && isfinite(score));
    return exp(fmax(fmin(x, QUALITY_EXPONENT_MAX), -QUALITY_EXPONENT_MAX));
}

void contest_judge(struct contest *ct, struct contestant *x)
{
    assert(x->t);
    (void)ct;
    x->t->judged = x->t->news = true;
}

/* Sets what the searcher is to hear of each trial. */
static void results(struct contest *ct)
{
    for (uint32_t i = 0; i < ct->trials.n; i++) {
        const struct contestant *x = &ct->x[i];
        struct trial *t = x->t;
        enum trial_label label = t->label;

        t->outcome = OUTCOME_SPEED;
        t->speed = 0;
        t->resource = x->last.e.epoch;
        if (label == TRIAL_FAILED ||
            (x->out && x->last.e.epoch == 0 && label != TRIAL_DIVERGED))
            t->outcome = OUTCOME_FAILED;
        else if (label == TRIAL_DIVERGED || isnan(x->best))
            t->outcome = OUTCOME_DIVERGED;
        else
            t->speed = contest_quality(ct->reference, x->best);
    }
}

/* A contest without a single suggestion tries the first setting there is. */
bool contest_exhausted(const struct contest *ct)
{
    if (suggest_next(ct->c) || suggest_more(ct->c))
        return false;
    return proposals_exhausted(&ct->proposals) &&
           (ct->trials.n > 0 || !proposals_outside(&ct->proposals));
}

static bool any_runs(const struct contest *ct)
{
    for (uint32_t i = 0; i < ct->trials.n; i++)
        if (ct->x[i].running)
            return true;
    return false;
}

/* A searcher that was open when the snapshot was taken hears what it had heard.
 */
static void hear_again(struct contest *ct)
{
    for (uint32_t i = 0; ct->reopens && i < ct->trials.n; i++)
        ct->x[i].t->news |= ct->x[i].t->heard;
    ct->reopens = false;
}

static enum err propose(struct contest *ct, struct fault *f)
{
    bool open = ct->proposals.searcher;
    uint32_t number = ct->searchers + !ct->reopens;
    uint64_t seed = rng_mix(board_seed(ct->c), number);
    enum err err = proposals_open(&ct->proposals, seed, f);

    assert(ct->open);
    if (err)
        return err;
    if (!open) {
        ct->searchers = number;
        hear_again(ct);
    }
    results(ct);
    return proposals_ask(&ct->proposals, NULL, any_runs(ct), f);
}

/* The first is what `initial` says; so it is where there is only one to be
 * tried, or nothing was suggested. */
static enum err choose(struct contest *ct, struct fault *f)
{
    struct proposals *p = &ct->proposals;
    bool first = ct->trials.n == 0, many = ct->trials.max > 1;
    bool outside = proposals_outside(p);
    enum err err = ERR_EXHAUSTED;

    if (!first || !board_initial(ct->c)) {
        if (proposals_suggested(p)) {
            proposals_take(p);
            return ERR_OK;
        }
        if (suggest_more(ct->c))
            return ERR_AGAIN; /* they come first, in the next step */
        if (!first || (many && !(outside && proposals_exhausted(p))))
            err = propose(ct, f);
        if (!first || err != ERR_EXHAUSTED || (many && !outside))
            return err;
    }
    p->next = ct->first;
    return ERR_OK;
}

bool contest_propose(struct contest *ct)
{
    struct proposals *p = &ct->proposals;
    struct fault fault = {0};

    assert(ct->open);
    return p->next_json || proposals_settle(p, choose(ct, &fault), &fault);
}
