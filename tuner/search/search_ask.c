#include "tuner/search/search_ask.h"

#include "searchers/space/space_json.h"
#include "tuner/board/suggest.h"
#include "tuner/search/search_finalists.h"

#include <math.h>

enum {
    SEARCH_STEPS = 6,    /* of a re-tune, before the searcher is asked */
    SEARCH_ASKS_MAX = 64 /* proposals in a row that are barred */
};

/* A searcher in another process is looked at again after this part of the time
 * that it has taken, so that looking costs nothing beside it. */
#define SEARCH_LOOK 0.125
#define SEARCH_LOOK_MIN_S 0.001
#define SEARCH_LOOK_MAX_S 0.1

static enum outcome outcome_of(const struct trial *t)
{
    if (t->summary.label == TRIAL_DIVERGED)
        return OUTCOME_DIVERGED;
    if (t->summary.label == TRIAL_FAILED)
        return OUTCOME_FAILED;
    if (t->summary.label == TRIAL_STOPPED)
        return OUTCOME_STOPPED;
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
        if (o.outcome == OUTCOME_SPEED || o.outcome == OUTCOME_STOPPED)
            o.speed = t->summary.speed;
        o.resource = t->summary.seconds;
        if (searcher_tell(s->searcher, &o, NULL))
            return false;
        t->news = false;
    }
    return true;
}

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

bool search_note_fallback(struct board *c, const struct searcher *s)
{
    const char *why = searcher_fallen(s);
    struct record_decision *d;
    size_t told;

    if (!why || board_options(c)->searcher == searcher_ops_of(s))
        return false;
    searcher_told(s, &told);
    d = board_decision(c, "searcher_fallback", "%.470s", why);
    /* A run that goes on knows it by this name (tuner/history/history.h). */
    board_decision_number(d, searcher_ops_of(s)->name, (double)told);
    board_set_searcher(c, searcher_ops_of(s));
    return true;
}

/* Not now: when to ask again. */
static void wait_for_answer(struct search *s)
{
    double since;

    if (!s->asking)
        s->asking_s = board_active_s(s->c);
    s->asking = true;
    since = board_active_s(s->c) - s->asking_s;
    board_retry_after(s->c, fmin(fmax(SEARCH_LOOK * since, SEARCH_LOOK_MIN_S),
                                 SEARCH_LOOK_MAX_S));
}

/* The answer has come: what it took counts as the searcher's decision. Not so
 * the first one's, in which a process starts and hears of earlier trials; nor
 * any of one that has failed: the time that it was given says nothing of its
 * fallback. */
static void answer_came(struct search *s, bool fell)
{
    if (fell)
        s->decision_s = 0;
    else if (s->asking && s->answered)
        s->decision_s = fmax(s->decision_s, board_active_s(s->c) - s->asking_s);
    s->asking = false;
    s->answered = true;
}

/* Asks until a setting comes that is not barred: those are told as diverged. */
static enum err ask(struct search *s, struct fault *f)
{
    struct setting out[SEARCH_LIVE_MAX];
    size_t n = running(s, out);
    enum err err = ERR_EXHAUSTED;
    bool fell;

    if (!tell_all(s))
        return ERR_NOMEM;
    s->asked = true;
    for (int i = 0; i < SEARCH_ASKS_MAX; i++) {
        struct observation o = {.trial = UINT64_MAX - s->barred_told,
                                .outcome = OUTCOME_DIVERGED};

        err = searcher_ask(s->searcher, out, n,
                           s->plan.has_incumbent ? &s->plan.incumbent : NULL,
                           &s->next, f);
        fell = search_note_fallback(s->c, s->searcher);
        if (err != ERR_AGAIN && err != ERR_NOMEM)
            answer_came(s, fell);
        if (err || !is_barred(s, &s->next))
            return err;
        o.setting = s->next;
        err = searcher_tell(s->searcher, &o, f);
        if (err)
            return err;
        s->barred_told++;
    }
    return ERR_EXHAUSTED;
}

/* The trial that has tried @x, or tries it; NULL: none. */
static const struct trial *trial_of(const struct search *s,
                                    const struct setting *x)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (space_same(&s->space, x, &s->trial[i].setting))
            return &s->trial[i];
    return NULL;
}

/* Where a search goes on, the ladder begins again: what was tried is left out.
 *
 * The setting in use at 1/3, 1/10, 3 and 1/30 of its learning rate, then the
 * best of the challengers at about half and twice its own. */
static bool step_setting(struct search *s, uint32_t step, int rate)
{
    static const double ladder[] = {1.0 / 3, 1.0 / 10, 3, 1.0 / 30};
    static const double finer[] = {0.55, 1.8};
    const size_t rungs = sizeof(ladder) / sizeof(ladder[0]);
    const struct tunable *t = &s->space.tunable[rate];
    struct trial *best;
    double wanted;

    s->next = s->plan.incumbent;
    wanted = s->next.value[rate] * (step < rungs ? ladder[step] : 1);
    if (step >= rungs) {
        if (search_challengers(s, &best, 1) == 0)
            return false;
        s->next = best->setting;
        wanted = s->next.value[rate] * finer[step - rungs];
    }
    if (wanted < t->min || wanted > t->max)
        return false;
    s->next.value[rate] = wanted;
    space_clamp(&s->space, &s->next);
    return true;
}

/* A re-tune looks first where schedules go: other learning rates. (Of 5 decades
 * only one or two hold anything better by then, and proposals that are spread
 * over all of them find it late.) The searcher is told of these as of all
 * others. False: there is no further step, or the search is wide. */
static bool take_step(struct search *s)
{
    int rate = space_find(&s->space, "learning_rate");

    if (search_is_wide(s) || !s->plan.retune || rate < 0 ||
        s->space.tunable[rate].fixed || !s->space.tunable[rate].acts)
        return false;
    while (s->steps < SEARCH_STEPS)
        if (step_setting(s, s->steps++, rate) && !is_barred(s, &s->next) &&
            !trial_of(s, &s->next) &&
            !space_same(&s->space, &s->next, &s->plan.incumbent))
            return true;
    return false;
}

/* ---- suggestions --------------------------------------------------------- */

static bool is_outside(const struct search *s)
{
    return s->searcher && !isnan(searcher_patience_s(s->searcher));
}

/* Settles the oldest suggestion where it cannot be tried here. */
static bool settled(struct search *s, const struct suggestion *x)
{
    const struct trial *known = trial_of(s, &x->setting);
    struct setting own = x->setting;

    space_canonical(&s->space, &own);
    if (!space_equal(&s->space, &own, &x->setting))
        suggest_drop(s->c, "it differs in a tunable that is fixed by now");
    else if (is_barred(s, &x->setting))
        suggest_drop(s->c, "training diverged with it here");
    else if (known)
        suggest_known(s->c, known->number);
    else
        return false;
    return true;
}

bool search_suggested(struct search *s)
{
    const struct suggestion *x;

    if (s->next_json && s->next_suggestion)
        return true;
    while ((x = suggest_next(s->c)))
        if (!settled(s, x))
            return true;
    return false;
}

bool search_wished(struct search *s)
{
    return !is_outside(s) && search_suggested(s);
}

static bool take_suggestion(struct search *s)
{
    const struct suggestion *x;

    if (!search_suggested(s))
        return false;
    x = suggest_next(s->c);
    s->next = x->setting;
    s->next_suggestion = x->number;
    suggest_wait_over(s->c);
    return true;
}

bool search_has_next(struct search *s)
{
    return !s->exhausted || search_suggested(s) || suggest_more(s->c);
}

void search_ask_listen(struct search *s)
{
    if (is_outside(s))
        s->exhausted = suggest_asking(s->c) != ASKING_OPEN;
}

/* The searcher has none of its own. While a trial runs it is too early to wait:
 * they may want to see how that one does. */
static enum err ask_outside(struct search *s)
{
    struct setting out[SEARCH_LIVE_MAX];

    if (s->exhausted)
        return ERR_EXHAUSTED;
    if (!tell_all(s))
        return ERR_NOMEM;
    if (running(s, out) > 0) {
        suggest_wait_over(s->c);
        return ERR_AGAIN;
    }
    return suggest_wait(s->c, s->plan.number, searcher_patience_s(s->searcher))
               ? ERR_AGAIN
               : ERR_EXHAUSTED;
}

/* What was not suggested: a step, or the searcher's. */
static enum err propose(struct search *s, struct fault *f)
{
    if (is_outside(s))
        return ask_outside(s);
    if (s->exhausted)
        return ERR_EXHAUSTED;
    return take_step(s) ? ERR_OK : ask(s, f);
}

/* The next trial's setting, into s->next and s->next_json. A searcher that
 * fails has nothing more to say; one that has no memory, or says not now, is
 * asked again. */
bool search_ask_next(struct search *s)
{
    struct fault fault = {0};
    enum err err = ERR_OK;
    uint32_t steps = s->steps;

    if (s->next_json)
        return true;
    s->next_suggestion = 0;
    if (s->trials == 0 && s->plan.has_incumbent)
        s->next = s->plan.incumbent;
    else if (take_suggestion(s))
        err = ERR_OK;
    else if (suggest_more(s->c))
        return false; /* they come first, in the next step */
    else
        err = propose(s, &fault);
    if (!err) {
        s->next_json = setting_to_json(&s->space, &s->next);
        err = s->next_json ? ERR_OK : ERR_NOMEM;
    }
    if (err)
        s->steps = steps; /* the same again */
    if (err == ERR_AGAIN && !is_outside(s))
        wait_for_answer(s);
    if (err == ERR_NOMEM) {
        board_retry(s->c);
    } else if (err && err != ERR_AGAIN) {
        s->exhausted = true;
        if (err != ERR_EXHAUSTED)
            board_decision(s->c, "searcher", "the searcher failed: %.300s",
                           fault.text);
    }
    return !err;
}

void search_ask_measure(struct search *s)
{
    if (s->asked)
        s->decision_s = fmax(s->decision_s, board_step_s(s->c));
    s->asked = false;
}
