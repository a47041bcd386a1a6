#include "tuner/history/history_suggestions.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void settle(struct history_suggestion *s, enum suggestion_state state,
                   uint32_t trial, double at_s)
{
    s->s.state = state;
    s->s.trial = trial;
    s->settled_at_s = state == SUGGESTION_WAITING ? NAN : at_s;
}

/* Suggestions that waited for what a lost trial would have shown wait for
 * another. */
static void wait_again(struct history *h, uint32_t trial)
{
    for (size_t i = 0; i < h->suggestions; i++)
        if (h->suggestion[i].s.trial == trial)
            settle(&h->suggestion[i], SUGGESTION_WAITING, 0, NAN);
}

void history_suggestion_follow(struct history *h, const struct record *r)
{
    uint32_t n = r->trial.suggestion;

    assert(r->kind == RECORD_TRIAL_STARTED || r->kind == RECORD_TRIAL_UPDATED ||
           r->kind == RECORD_TRIAL_ENDED);
    assert(n <= h->suggestions);
    if (n > 0 && r->kind != RECORD_TRIAL_ENDED &&
        (r->kind == RECORD_TRIAL_STARTED ||
         h->suggestion[n - 1].s.state == SUGGESTION_WAITING))
        settle(&h->suggestion[n - 1], SUGGESTION_BEGUN, r->trial.trial,
               r->at_s);
    if (r->kind == RECORD_TRIAL_ENDED && r->trial.label == TRIAL_INTERRUPTED)
        wait_again(h, r->trial.trial);
}

void history_suggestions_forget(struct history *h, uint32_t next)
{
    assert(next > 0);
    for (size_t i = 0; i < h->suggestions; i++) {
        struct history_suggestion *s = &h->suggestion[i];

        if (s->s.trial < next)
            continue;
        settle(s, SUGGESTION_WAITING, 0, NAN);
        s->s.reason[0] = '\0';
    }
}

void history_suggestions_finish(struct history *h, double at_s)
{
    assert(h->finished);
    if (h->end.status == RUN_INTERRUPTED || h->end.status == RUN_STOPPED)
        return;
    for (size_t i = 0; i < h->suggestions; i++) {
        struct history_suggestion *s = &h->suggestion[i];

        if (s->s.state != SUGGESTION_WAITING)
            continue;
        settle(s, SUGGESTION_DROPPED, 0, at_s);
        snprintf(s->s.reason, sizeof(s->s.reason), "the run ended first");
        s->by_end = true;
    }
}

void history_suggestions_resume(struct history *h)
{
    assert(!h->finished);
    for (size_t i = 0; i < h->suggestions; i++) {
        struct history_suggestion *s = &h->suggestion[i];

        if (!s->by_end)
            continue;
        settle(s, SUGGESTION_WAITING, 0, NAN);
        s->s.reason[0] = '\0';
        s->by_end = false;
    }
}

enum err history_suggestion_apply(struct history *h, const struct record *r)
{
    uint32_t n = r->suggestion.suggestion;
    struct history_suggestion *s;
    char key[sizeof(s->s.key)];

    if (n < 1 || n > h->suggestions + 1 || n > HISTORY_SUGGESTIONS_MAX ||
        r->suggestion.state == SUGGESTION_BEGUN ||
        (n == h->suggestions + 1) !=
            (r->suggestion.state == SUGGESTION_WAITING))
        return ERR_FORMAT;
    if (n == h->suggestions + 1) {
        if (mem_grow((void **)&h->suggestion, &h->suggestions_cap,
                     sizeof(*h->suggestion), n))
            return ERR_NOMEM;
        h->suggestion[n - 1] = (struct history_suggestion){.at_s = r->at_s};
        h->suggestions = n;
    }
    s = &h->suggestion[n - 1];
    json_incref(r->suggestion.setting);
    json_decref(s->s.setting);
    memcpy(key, s->s.key, sizeof(key));
    s->s = r->suggestion;
    s->by_end = false;
    if (s->s.state != SUGGESTION_WAITING) /* it was accepted with a key */
        memcpy(s->s.key, key, sizeof(key));
    settle(s, s->s.state, s->s.trial, r->at_s);
    return ERR_OK;
}

enum err history_asking_apply(struct history *h, const struct record *r)
{
    const struct record_asking *a = &r->asking;
    size_t before = h->searches_dropped + h->cold_search.rows;

    if (a->asking == ASKING_CLOSED) {
        if (a->search < 1 || a->search > history_searches_made(h))
            return ERR_FORMAT;
        if (a->search > before)
            h->search[a->search - 1 - before].closed = true;
        return ERR_OK;
    }
    h->asking = a->asking;
    if (a->asking == ASKING_OPEN && !h->fallback[0])
        h->searcher_failed[0] = '\0'; /* who was silent suggests again */
    memcpy(h->asking_reason, a->reason, sizeof(h->asking_reason));
    return ERR_OK;
}
