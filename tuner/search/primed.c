#include "tuner/search/primed.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers of earlier trials for the searcher, above those of any search. */
#define PRIMED_FIRST ((uint64_t)1 << 40)

/* A trial whose share is less says little of what a share of 1 is. */
#define PRIMED_SHARE_MIN 0.1

void primed_init(struct primed *x, const struct board *c)
{
    const struct earlier *e = board_earlier(c);
    const struct msg_ready *now = board_system(c);

    *x = (struct primed){.earlier = e};
    for (size_t i = 0; e && i < e->runs; i++)
        x->other[i] = e->run[i].samples != now->samples ||
                      e->run[i].validation != now->validation_samples;
}

/* Trial @i, where its run had our data; else NULL. */
static const struct earlier_trial *known(const struct primed *x, size_t i)
{
    const struct earlier_trial *t = &x->earlier->trial[i];

    assert(i < x->earlier->len && t->run < x->earlier->runs);
    return x->other[t->run] ? NULL : t;
}

bool primed_next(const struct primed *x, const struct proposals *p,
                 struct setting *out)
{
    for (size_t i = 0; x->earlier && i < x->earlier->len; i++) {
        const struct earlier_trial *t = known(x, i);
        struct setting next;

        if (!t || !t->best)
            continue;
        next = t->setting;
        trials_canonical(p->trials, &next);
        if (trials_of(p->trials, &next) || proposals_barred(p, &next))
            continue;
        *out = next;
        return true;
    }
    return false;
}

/* Speed of a share of 1 by the trials that were tried here, too: the least that
 * any of them says, so that what is not tried is not oversold. 0: not known. */
static double scale_of(const struct primed *x, const struct trials *t)
{
    double least = INFINITY;

    for (size_t i = 0; i < x->earlier->len; i++) {
        const struct earlier_trial *e = known(x, i);
        const struct trial *own = e ? trials_of(t, &e->setting) : NULL;

        if (own && isfinite(trial_speed(own)) && e->outcome == OUTCOME_SPEED &&
            e->share >= PRIMED_SHARE_MIN)
            least = fmin(least, trial_speed(own) / e->share);
    }
    return isfinite(least) ? least : 0;
}

static enum err tell(const struct earlier_trial *e, size_t i, double scale,
                     struct proposals *p)
{
    struct observation o = {.trial = PRIMED_FIRST + i,
                            .setting = e->setting,
                            .outcome = e->outcome,
                            .speed = e->share * scale};
    enum err err;

    trials_canonical(p->trials, &o.setting);
    err = searcher_tell(p->searcher, &o, NULL);
    /* One that is not of the space as it is by now. */
    return err == ERR_INVAL ? ERR_OK : err;
}

static bool is_limit(const struct earlier_trial *e)
{
    return e->outcome == OUTCOME_DIVERGED;
}

enum err primed_tell(struct primed *x, struct proposals *p)
{
    double scale;
    enum err err = ERR_OK;

    if (!x->earlier || proposals_outside(p))
        return ERR_OK;
    assert(p->searcher);
    scale = scale_of(x, p->trials);
    for (size_t i = 0; i < x->earlier->len && !err; i++) {
        const struct earlier_trial *e = known(x, i);
        bool news = e && (is_limit(e) ? !x->limits_told
                                      : scale > 0 && scale != x->scale);

        if (news && !trials_of(p->trials, &e->setting))
            err = tell(e, i, is_limit(e) ? 0 : scale, p);
    }
    if (err)
        return err;
    x->scale = scale;
    x->limits_told = true;
    return ERR_OK;
}

bool primed_knows(const struct primed *x)
{
    return x->scale > 0;
}

/* ---- in words ------------------------------------------------------------ */

static void explain_skips(const struct primed *x, struct board *c)
{
    const struct earlier *e = x->earlier;

    for (size_t i = 0; i < e->skips; i++)
        board_decision(c, "warm_start_skipped",
                       "the earlier run %s is of no use: %s", e->skipped[i].run,
                       e->skipped[i].reason);
    for (size_t i = 0; i < e->runs; i++)
        if (x->other[i])
            board_decision(c, "warm_start_skipped",
                           "the earlier run %s is of no use: it had %llu and "
                           "%llu samples for validation, so its data were "
                           "other ones",
                           e->run[i].run, (unsigned long long)e->run[i].samples,
                           (unsigned long long)e->run[i].validation);
}

void primed_explain(const struct primed *x, struct board *c)
{
    const struct earlier *e = x->earlier;
    unsigned runs = 0, trials = 0, best = 0;
    char names[EARLIER_RUNS_MAX * (RECORD_NAME_MAX + 2)] = "";
    struct record_decision *d;

    if (!e)
        return;
    explain_skips(x, c);
    for (size_t i = 0; i < e->runs; i++) {
        size_t len = strlen(names);

        if (!x->other[i])
            snprintf(names + len, sizeof(names) - len, "%s%s",
                     runs++ ? ", " : "", e->run[i].run);
    }
    for (size_t i = 0; i < e->len; i++) {
        trials += known(x, i) != NULL;
        best += known(x, i) && e->trial[i].best;
    }
    d = runs ? board_decision(c, "warm_start",
                              "the search begins with what %u earlier run%s "
                              "found (%s): %u trials, and after the default "
                              "the %u best",
                              runs, runs == 1 ? "" : "s", names, trials, best)
             : board_decision(c, "warm_start",
                              "no earlier run is of use: the search begins "
                              "with nothing");
    board_decision_number(d, "runs", runs);
    board_decision_number(d, "trials", trials);
    board_decision_number(d, "best", best);
}
