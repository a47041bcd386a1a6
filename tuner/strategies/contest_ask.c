#include "tuner/strategies/contest_ask.h"

#include "base/rng.h"
#include "searchers/searcher.h"
#include "searchers/space/space_json.h"
#include "tuner/board/suggest.h"
#include "tuner/search/search_ask.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define QUALITY_EXPONENT_MAX 600.0 /* exp of it is a number still */

bool contest_searcher(struct board *c, const json_t *settings)
{
    const char *how = json_string_value(json_object_get(settings, "sampling"));

    if (strcmp(how, "searcher") == 0)
        return true;
    if (board_options(c)->searcher) {
        board_set_searcher(c, &searcher_random);
    }
    return false;
}

void contest_sample_anew(struct contest *ct)
{
    searcher_close(ct->searcher);
    ct->searcher = NULL;
    ct->exhausted = false;
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
    (void)ct;
    x->judged = x->news = true;
}

/* ---- asking -------------------------------------------------------------- */

static size_t unjudged(const struct contest *ct, struct setting out[])
{
    size_t n = 0;

    for (uint32_t i = 0; i < ct->n && n < CONTEST_RUNNING_MAX; i++)
        if (!ct->x[i].judged)
            out[n++] = ct->x[i].setting;
    return n;
}

static void observe(const struct contest *ct, const struct contestant *x,
                    struct observation *o)
{
    *o = (struct observation){.trial = x->number, .setting = x->setting};
    o->resource = x->last.e.epoch;
    if (x->label == TRIAL_FAILED ||
        (x->out && x->last.e.epoch == 0 && x->label != TRIAL_DIVERGED))
        o->outcome = OUTCOME_FAILED;
    else if (x->label == TRIAL_DIVERGED || isnan(x->best))
        o->outcome = OUTCOME_DIVERGED;
    else
        o->speed = contest_quality(ct->reference, x->best);
}

static enum err tell_all(struct contest *ct)
{
    struct observation o;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < ct->n && !err; i++) {
        struct contestant *x = &ct->x[i];

        if (!x->news)
            continue;
        observe(ct, x, &o);
        err = searcher_tell(ct->searcher, &o, NULL);
        x->news = err != ERR_OK;
    }
    return err;
}

/* ---- suggestions --------------------------------------------------------- */

static bool is_outside(const struct contest *ct)
{
    return board_options(ct->c)->searcher &&
           board_options(ct->c)->searcher->patience_s;
}

/* Those outside have said that nothing follows, or nothing for too long. */
static bool outside_is_done(const struct contest *ct)
{
    return is_outside(ct) && suggest_asking(ct->c) != ASKING_OPEN;
}

/* A contest without a single suggestion tries the first setting there is. */
bool contest_exhausted(const struct contest *ct)
{
    if (suggest_next(ct->c) || suggest_more(ct->c))
        return false;
    return is_outside(ct) ? outside_is_done(ct) && ct->n > 0 : ct->exhausted;
}

static const struct contestant *known(const struct contest *ct,
                                      const struct setting *setting)
{
    for (uint32_t i = 0; i < ct->n; i++)
        if (space_same(&ct->space, setting, &ct->x[i].setting))
            return &ct->x[i];
    return NULL;
}

/* The oldest suggestion that was not tried yet; those that were are settled. */
static bool take_suggestion(struct contest *ct)
{
    const struct suggestion *x;
    const struct contestant *before;

    while ((x = suggest_next(ct->c))) {
        before = known(ct, &x->setting);
        if (!before)
            break;
        suggest_known(ct->c, before->number);
    }
    if (!x)
        return false;
    ct->next = x->setting;
    ct->next_suggestion = x->number;
    suggest_wait_over(ct->c);
    return true;
}

/* Whether to wait for those outside: not while a trial runs, which they may
 * want to see first. */
static enum err wait_outside(struct contest *ct)
{
    double patience_s = searcher_patience_s(ct->searcher);

    for (uint32_t i = 0; i < ct->n; i++)
        if (ct->x[i].running) {
            suggest_wait_over(ct->c);
            return ERR_AGAIN;
        }
    return suggest_wait(ct->c, ct->search, patience_s) ? ERR_AGAIN
                                                       : ERR_EXHAUSTED;
}

/* ---- the next ------------------------------------------------------------ */

static enum err open_searcher(struct contest *ct, struct fault *f)
{
    struct board *c = ct->c;
    enum err err = ERR_OK;

    if (!ct->searcher) {
        err = searcher_open(board_options(c)->searcher, &ct->space,
                            board_options(c)->searcher_settings,
                            rng_mix(board_options(c)->seed, ct->searchers + 1),
                            &ct->searcher, f);
        ct->searchers += !err;
    }
    return err;
}

static enum err propose(struct contest *ct, struct fault *f)
{
    struct setting running[CONTEST_RUNNING_MAX];
    size_t n = unjudged(ct, running);
    enum err err = open_searcher(ct, f);

    if (err)
        return err;
    err = tell_all(ct);
    if (!err && is_outside(ct))
        return wait_outside(ct);
    if (!err)
        err = searcher_ask(ct->searcher, running, n, NULL, &ct->next, f);
    search_note_fallback(ct->c, ct->searcher);
    return err;
}

/* The first is what `initial` says; so it is where there is only one to be
 * tried, or nothing was suggested. */
static enum err choose(struct contest *ct, struct fault *f)
{
    bool first = ct->n == 0;
    enum err err = ERR_EXHAUSTED;

    ct->next_suggestion = 0;
    if (!first || !board_options(ct->c)->initial) {
        if (take_suggestion(ct))
            return ERR_OK;
        if (suggest_more(ct->c))
            return ERR_AGAIN; /* they come first, in the next step */
        if (!first || (ct->max > 1 && !outside_is_done(ct)))
            err = propose(ct, f);
        if (!first || err != ERR_EXHAUSTED || (ct->max > 1 && !is_outside(ct)))
            return err;
    }
    ct->next = ct->first;
    return ERR_OK;
}

bool contest_propose(struct contest *ct)
{
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (ct->next_json)
        return true;
    err = choose(ct, &fault);
    if (!err) {
        ct->next_json = setting_to_json(&ct->space, &ct->next);
        err = ct->next_json ? ERR_OK : ERR_NOMEM;
    }
    if (err == ERR_AGAIN && !is_outside(ct)) {
        board_retry_after(ct->c, 0.01); /* it thinks in another process */
    } else if (err == ERR_NOMEM) {
        board_retry(ct->c);
    } else if (err && err != ERR_AGAIN) {
        ct->exhausted = true;
        if (err != ERR_EXHAUSTED)
            board_decision(ct->c, "searcher", "the searcher failed: %.300s",
                           fault.text);
    }
    return !err;
}
