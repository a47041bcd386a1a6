#include "tuner/search/proposals.h"

#include "searchers/searcher.h"
#include "searchers/space/space_json.h"
#include "tuner/core/suggest.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    PROPOSALS_ASKS_MAX = 64 /* proposals in a row that are barred */
};

/* A searcher in another process is looked at again after this part of the time
 * that it has taken, so that looking costs nothing beside it. */
#define PROPOSALS_LOOK 0.125
#define PROPOSALS_LOOK_MIN_S 0.001
#define PROPOSALS_LOOK_MAX_S 0.1

/* ---- life ---------------------------------------------------------------- */

void proposals_init(struct proposals *p, struct trials *t)
{
    assert(t);
    memset(p, 0, sizeof(*p));
    p->trials = t;
}

enum err proposals_open(struct proposals *p, uint64_t seed, struct fault *f)
{
    const struct board *c = p->trials->c;

    assert(board_searcher(c));
    if (p->searcher)
        return ERR_OK;
    return searcher_open(board_searcher(c), &p->trials->space,
                         board_searcher_settings(c), seed, &p->searcher, f);
}

void proposals_close(struct proposals *p)
{
    searcher_close(p->searcher);
    p->searcher = NULL;
    p->exhausted = false;
    for (uint32_t i = 0; p->trials && i < p->trials->n; i++)
        p->trials->list[i].heard = false;
}

void proposals_deinit(struct proposals *p)
{
    json_decref(p->next_json);
    searcher_close(p->searcher);
    memset(p, 0, sizeof(*p));
}

void proposals_measure(struct proposals *p)
{
    if (p->asked)
        p->decision_s = fmax(p->decision_s, board_step_s(p->trials->c));
    p->asked = false;
}

/* ---- what is left -------------------------------------------------------- */

bool proposals_outside(const struct proposals *p)
{
    const struct searcher_ops *ops = board_searcher(p->trials->c);

    return ops && ops->patience_s;
}

bool proposals_exhausted(const struct proposals *p)
{
    if (proposals_outside(p))
        return suggest_asking(p->trials->c) != ASKING_OPEN;
    return p->exhausted;
}

bool proposals_possible(struct proposals *p)
{
    return !proposals_exhausted(p) || proposals_suggested(p) ||
           suggest_more(p->trials->c);
}

bool proposals_barred(const struct proposals *p, const struct setting *x)
{
    assert(p->barred_len <= PROPOSALS_BARRED_MAX);
    for (size_t i = 0; i < p->barred_len; i++)
        if (space_same(&p->trials->space, x, &p->barred[i]))
            return true;
    return false;
}

/* ---- suggestions --------------------------------------------------------- */

/* Settles the oldest suggestion where it cannot be tried here. */
static bool settled(struct proposals *p, const struct suggestion *x)
{
    const struct trials *t = p->trials;
    const struct trial *known = trials_of(t, &x->setting);
    struct setting own = x->setting;

    space_canonical(&t->space, &own);
    if (!space_equal(&t->space, &own, &x->setting))
        suggest_drop(t->c, "it differs in a tunable that is fixed by now");
    else if (proposals_barred(p, &x->setting))
        suggest_drop(t->c, "training diverged with it here");
    else if (known)
        suggest_known(t->c, known->number);
    else
        return false;
    return true;
}

bool proposals_suggested(struct proposals *p)
{
    const struct suggestion *x;

    if (p->next_json && p->next_suggestion)
        return true;
    while ((x = suggest_next(p->trials->c)))
        if (!settled(p, x))
            return true;
    return false;
}

void proposals_take(struct proposals *p)
{
    const struct suggestion *x = suggest_next(p->trials->c);

    assert(x && !p->next_json);
    p->next = x->setting;
    p->next_suggestion = x->number;
    suggest_wait_over(p->trials->c);
}

/* ---- the searcher -------------------------------------------------------- */

static enum err tell_all(struct proposals *p)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < p->trials->n && !err; i++) {
        struct trial *x = &p->trials->list[i];
        struct observation o = {.trial = x->number,
                                .setting = x->setting,
                                .outcome = x->outcome,
                                .speed = x->speed,
                                .resource = x->resource};

        if (!x->news || x->incumbent)
            continue;
        err = searcher_tell(p->searcher, &o, NULL);
        x->news = err != ERR_OK;
        x->heard |= !err;
    }
    return err;
}

/* Where what others wrote has failed, one decision says so, and the rest of the
 * run, later searches too, is its fallback's. True when it has just been said.
 */
static bool note_fallback(struct proposals *p)
{
    struct board *c = p->trials->c;
    const char *why = searcher_fallen(p->searcher);
    const struct searcher_ops *ops = searcher_ops_of(p->searcher);
    struct record_decision *d;
    size_t told;

    if (!why || board_searcher(c) == ops)
        return false;
    searcher_told(p->searcher, &told);
    d = board_decision(c, "searcher_fallback", "%.470s", why);
    /* A run that goes on knows it by this name (tuner/history/history.h). */
    board_decision_number(d, ops->name, (double)told);
    board_set_searcher(c, ops);
    return true;
}

/* The answer has come: what it took counts as the searcher's decision. Not so
 * the first one's, in which a process starts and hears of earlier trials; nor
 * any of one that has failed: the time that it was given says nothing of its
 * fallback. */
static void answer_came(struct proposals *p, bool fell)
{
    double now = board_active_s(p->trials->c);

    if (fell)
        p->decision_s = 0;
    else if (p->asking && p->answered)
        p->decision_s = fmax(p->decision_s, now - p->asking_s);
    p->asking = false;
    p->answered = true;
}

enum err proposals_ask(struct proposals *p, const struct setting *incumbent,
                       bool runs, struct fault *f)
{
    struct board *c = p->trials->c;
    struct setting running[TRIALS_LIVE_MAX];
    size_t n = trials_running(p->trials, running, TRIALS_LIVE_MAX);
    enum err err;

    assert(p->searcher && !p->next_json);
    if (proposals_exhausted(p))
        return ERR_EXHAUSTED;
    err = tell_all(p);
    if (err)
        return err;
    if (proposals_outside(p)) {
        /* It is too early to wait: they may want to see how that one does. */
        if (runs)
            suggest_wait_over(c);
        else if (!suggest_wait(c, p->trials->search,
                               searcher_patience_s(p->searcher)))
            return ERR_EXHAUSTED;
        return ERR_AGAIN;
    }
    p->asked = true;
    for (int i = 0; i < PROPOSALS_ASKS_MAX; i++) {
        struct observation o = {.trial = UINT64_MAX - p->barred_told,
                                .outcome = OUTCOME_DIVERGED};
        bool fell;

        err = searcher_ask(p->searcher, running, n, incumbent, &p->next, f);
        fell = note_fallback(p);
        if (err != ERR_AGAIN && err != ERR_NOMEM)
            answer_came(p, fell);
        if (err || !proposals_barred(p, &p->next))
            return err;
        o.setting = p->next;
        err = searcher_tell(p->searcher, &o, f);
        if (err)
            return err;
        p->barred_told++;
    }
    return ERR_EXHAUSTED;
}

/* The searcher thinks: when to ask again. */
static void wait_for_answer(struct proposals *p)
{
    struct board *c = p->trials->c;
    double since;

    if (!p->asking)
        p->asking_s = board_active_s(c);
    p->asking = true;
    since = board_active_s(c) - p->asking_s;
    board_retry_after(c,
                      fmin(fmax(PROPOSALS_LOOK * since, PROPOSALS_LOOK_MIN_S),
                           PROPOSALS_LOOK_MAX_S));
}

bool proposals_settle(struct proposals *p, enum err err, const struct fault *f)
{
    struct board *c = p->trials->c;

    assert(f);
    assert(!p->next_json);
    if (!err) {
        p->next_json = setting_to_json(&p->trials->space, &p->next);
        err = p->next_json ? ERR_OK : ERR_NOMEM;
    }
    if (err == ERR_AGAIN && !proposals_outside(p)) {
        wait_for_answer(p);
    } else if (err == ERR_NOMEM) {
        board_retry(c);
    } else if (err && err != ERR_AGAIN) {
        p->exhausted = true;
        if (err != ERR_EXHAUSTED)
            board_decision(c, "searcher", "the searcher failed: %.300s",
                           f->text);
    }
    if (err)
        p->next_suggestion = 0;
    return !err;
}

void proposals_begun(struct proposals *p)
{
    assert(p->next_json);
    p->next_json = NULL;
    p->next_suggestion = 0;
}
