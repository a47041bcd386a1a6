#include "tuner/search/trials.h"

#include "base/mem.h"
#include "base/text.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/suggest.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void trials_init(struct trials *t, struct board *c, const struct space *space,
                 uint32_t search, uint32_t first)
{
    assert(c && space);
    assert(search >= 1 && first >= 1);
    memset(t, 0, sizeof(*t));
    t->c = c;
    space_copy(&t->space, space);
    t->search = search;
    t->first = first;
}

enum err trials_open(struct trials *t, uint32_t max)
{
    assert(!t->list);
    assert(max >= 1);
    t->list = mem_calloc(max + 1, sizeof(*t->list));
    if (!t->list)
        return ERR_NOMEM;
    t->max = max;
    return ERR_OK;
}

void trials_deinit(struct trials *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        json_decref(t->list[i].json);
    mem_free(t->list);
    memset(t, 0, sizeof(*t));
}

uint32_t trials_made(const struct trials *t)
{
    assert(t->recalled <= t->n);
    return t->n - (trials_incumbent(t) ? 1 : 0);
}

uint32_t trials_live(const struct trials *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n; i++)
        n += t->list[i].branch != BRANCH_NONE;
    return n;
}

struct trial *trials_incumbent(const struct trials *t)
{
    return t->n && t->list[0].incumbent ? &t->list[0] : NULL;
}

const struct trial *trials_of(const struct trials *t, const struct setting *x)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (space_same(&t->space, x, &t->list[i].setting))
            return &t->list[i];
    return NULL;
}

double trial_speed(const struct trial *x)
{
    return x->judged && x->outcome == OUTCOME_SPEED ? x->speed : (double)NAN;
}

void trials_canonical(const struct trials *t, struct setting *x)
{
    space_canonical(&t->space, x);
}

size_t trials_running(const struct trials *t, struct setting out[], size_t max)
{
    size_t n = 0;

    assert(out || max == 0);
    for (uint32_t i = 0; i < t->n && n < max; i++)
        if (!t->list[i].judged)
            out[n++] = t->list[i].setting;
    return n;
}

bool trials_distinct(const struct trials *t, const struct trial *x,
                     struct trial *const others[], size_t n)
{
    assert(others || n == 0);
    for (size_t i = 0; i < n; i++)
        if (space_same(&t->space, &x->setting, &others[i]->setting))
            return false;
    return true;
}

/* ---- a trial's life ------------------------------------------------------ */

struct trial *trials_next(struct trials *t, const struct setting *setting,
                          json_t *json, uint32_t suggestion)
{
    struct trial *x = &t->list[t->n];

    assert(t->list && t->n <= t->max);
    assert(json);
    *x = (struct trial){
        .number = t->first + t->n - t->recalled,
        .search = t->search,
        .branch = BRANCH_NONE,
        .setting = *setting,
        .json = json,
        .suggestion = suggestion,
    };
    return x;
}

bool trial_fork(struct board *c, struct trial *x, branch_id from)
{
    const struct branch *b;

    assert(x->branch == BRANCH_NONE);
    b = board_fork(c, board_branch(c, from), BRANCH_TRAINING, &x->setting,
                   x->json, "trial");
    if (!b)
        return false;
    x->branch = branch_number(b);
    return true;
}

void trial_begun(struct trials *t, struct trial *x)
{
    assert(x == &t->list[t->n]);
    assert(x->branch != BRANCH_NONE);
    t->n++;
    if (x->suggestion)
        suggest_begun(t->c);
    /* One that was begun before a resume, and lost, begins again. */
    trial_record(t->c, x,
                 x->number <= lifecycle_trials_before(t->c)
                     ? RECORD_TRIAL_UPDATED
                     : RECORD_TRIAL_STARTED);
}

void trial_record(struct board *c, const struct trial *x, enum record_kind kind)
{
    struct record_trial *r;

    assert(kind == RECORD_TRIAL_STARTED || kind == RECORD_TRIAL_UPDATED ||
           kind == RECORD_TRIAL_ENDED);
    r = kind == RECORD_TRIAL_STARTED   ? board_record_trial_started(c)
        : kind == RECORD_TRIAL_UPDATED ? board_record_trial_updated(c)
                                       : board_record_trial_ended(c);
    assert(x->number >= 1);
    r->trial = x->number;
    r->search = x->search;
    r->branch = x->branch;
    r->setting = json_incref(x->json);
    r->incumbent = x->incumbent;
    r->label = x->label;
    r->figures = x->figures;
    r->suggestion = x->suggestion;
    memcpy(r->reason, x->reason, sizeof(r->reason));
    if (kind == RECORD_TRIAL_ENDED && x->label == TRIAL_FAILED)
        board_decision(c, "trial", "trial %u failed: %.400s", x->number,
                       x->reason);
}

void trial_failed(struct trial *x, const char *why)
{
    assert(why);
    x->label = TRIAL_FAILED;
    snprintf(x->reason, sizeof(x->reason), "%s", why);
    text_to_utf8(x->reason);
}

void trial_end(struct board *c, struct trial *x)
{
    if (x->ended)
        return;
    if (x->label == TRIAL_RUNNING)
        x->label = TRIAL_STOPPED;
    x->ended = true;
    trial_record(c, x, RECORD_TRIAL_ENDED);
}

void trial_free(struct board *c, struct trial *x, const char *reason)
{
    assert(reason);
    trial_end(c, x);
    board_free(c, x->branch, reason);
    x->branch = BRANCH_NONE;
}
