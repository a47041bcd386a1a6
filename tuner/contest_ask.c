#include "tuner/contest_ask.h"

#include "base/rng.h"
#include "searchers/searcher.h"
#include "searchers/space_json.h"
#include "tuner/search_ask.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define QUALITY_EXPONENT_MAX 600.0 /* exp of it is a number still */

bool contest_searcher(struct board *c, const json_t *settings)
{
    const char *how = json_string_value(json_object_get(settings, "sampling"));

    if (strcmp(how, "searcher") == 0)
        return true;
    if (c->options.searcher) {
        c->options.searcher = &searcher_random;
        c->options.searcher_settings = NULL;
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

static enum err ask(struct contest *ct, struct fault *f)
{
    struct board *c = ct->c;
    struct setting running[CONTEST_RUNNING_MAX];
    size_t n = unjudged(ct, running);
    enum err err = ERR_OK;

    if (ct->n == 0 && (c->options.initial || ct->max == 1)) {
        ct->next = ct->first;
        return ERR_OK;
    }
    if (!ct->searcher) {
        err = searcher_open(
            c->options.searcher, &ct->space, c->options.searcher_settings,
            rng_mix(c->options.seed, ct->searchers + 1), &ct->searcher, f);
        if (err)
            return err;
        ct->searchers++;
    }
    err = tell_all(ct);
    if (!err)
        err = searcher_ask(ct->searcher, running, n, NULL, &ct->next, f);
    search_note_fallback(c, ct->searcher);
    return err;
}

bool contest_propose(struct contest *ct)
{
    struct fault fault = {0};
    enum err err = ERR_OK;

    if (ct->next_json)
        return true;
    err = ask(ct, &fault);
    if (!err) {
        ct->next_json = setting_to_json(&ct->space, &ct->next);
        err = ct->next_json ? ERR_OK : ERR_NOMEM;
    }
    if (err == ERR_AGAIN) {
        board_retry_after(ct->c, 0.01); /* it thinks in another process */
    } else if (err == ERR_NOMEM) {
        board_retry(ct->c);
    } else if (err) {
        ct->exhausted = true;
        if (err != ERR_EXHAUSTED)
            board_decision(ct->c, "searcher", "the searcher failed: %.300s",
                           fault.text);
    }
    return !err;
}
