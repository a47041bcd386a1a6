#include "tuner/core/suggest.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/run.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/answers.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/user_setting.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SUGGEST_WAITING_MAX = 32, /* at a time: more are refused */
    SUGGEST_KEYS = 64         /* latest requests that are known again */
};

/* A wait is said when it has lasted so long: an outside searcher that answers
 * at once is no news. */
#define SUGGEST_SAY_S 2.0

/* Suggestions that waited before a resume go on coming back after that time. */
#define SUGGEST_MORE_S 1e-3

/* A request that was accepted. */
struct suggest_request {
    char key[COMMAND_KEY_MAX + 1]; /* "": the place is free */
    uint32_t first, n;
};

struct suggest {
    struct suggestion waiting[SUGGEST_WAITING_MAX]; /* oldest first */
    size_t len;
    uint32_t last; /* number of the latest accepted */
    enum asking asking;
    char over[RECORD_TEXT_MAX]; /* OVER: why */
    bool never;                 /* OVER: and there never was a search */
    bool closed;                /* the latest search takes no further trial */
    uint32_t last_before;       /* latest accepted before a resume; of these */
    uint32_t recalled;          /* so many have been looked at */
    struct suggest_request request[SUGGEST_KEYS]; /* a ring */
    size_t next_request;
    double since_s; /* a search waits for one, in active time; NAN: none does */
    bool said;      /* that it waits */
    bool begun;     /* the run has begun, perhaps anew */
};

/* ---- life ---------------------------------------------------------------- */

static void remember(struct suggest *s, const char *key, uint32_t first,
                     uint32_t n)
{
    struct suggest_request *r;

    assert(first > 0 || n == 0);
    if (!key[0] || n == 0)
        return;
    r = &s->request[s->next_request++ % SUGGEST_KEYS];
    snprintf(r->key, sizeof(r->key), "%s", key);
    r->first = first;
    r->n = n;
}

/* Remembers the requests of before: suggestions in a row with the same key are
 * of one. */
static void recall_requests(struct suggest *s, const struct history *h)
{
    size_t from = 0;

    for (size_t i = 1; i <= h->suggestions; i++) {
        const char *key = h->suggestion[from].s.key;

        if (i < h->suggestions && strcmp(h->suggestion[i].s.key, key) == 0)
            continue;
        remember(s, key, (uint32_t)from + 1, (uint32_t)(i - from));
        from = i;
    }
}

enum err suggest_init(struct board *c)
{
    const struct history *h = board_history(c);
    struct suggest *s = mem_calloc(1, sizeof(*s));

    assert(!c->owner->suggest);
    if (!s)
        return ERR_NOMEM;
    s->since_s = NAN;
    c->owner->suggest = s;
    if (!h)
        return ERR_OK;
    s->last = s->last_before = (uint32_t)h->suggestions;
    s->closed = h->searches > 0;
    for (size_t i = 0; i < h->searches; i++)
        s->closed &= h->search[i].ended;
    s->asking = h->asking == ASKING_OVER ? ASKING_OPEN : h->asking;
    recall_requests(s, h);
    return ERR_OK;
}

void suggest_deinit(struct board *c)
{
    struct suggest *s = c->owner->suggest;

    if (!s)
        return;
    for (size_t i = 0; i < s->len; i++)
        json_decref(s->waiting[i].json);
    mem_free(s);
    c->owner->suggest = NULL;
}

/* ---- records ------------------------------------------------------------- */

static void journal(struct board *c, const struct suggestion *x,
                    enum suggestion_state state, uint32_t trial,
                    const char *reason, const char *key)
{
    struct record_suggestion *r = board_record_suggestion(c);

    assert(x->number > 0);
    r->suggestion = x->number;
    r->state = state;
    r->trial = trial;
    r->setting = json_incref(x->json);
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    snprintf(r->key, sizeof(r->key), "%s", key);
}

static void ask(struct board *c, enum asking asking, uint32_t search,
                const char *reason)
{
    struct record_asking *r = board_record_asking(c);

    r->search = search;
    r->asking = asking;
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    if (asking != ASKING_CLOSED)
        c->owner->suggest->asking = asking;
}

/* A place is free for one of those that waited before a resume. */
static void remove_first(struct board *c)
{
    struct suggest *s = c->owner->suggest;

    assert(s->len > 0);
    json_decref(s->waiting[0].json);
    s->len--;
    memmove(&s->waiting[0], &s->waiting[1], s->len * sizeof(s->waiting[0]));
    if (suggest_more(c))
        board_retry_after(c, SUGGEST_MORE_S);
}

/* Puts one in the order of their numbers. */
static void put(struct suggest *s, uint32_t number,
                const struct setting *setting, json_t *json)
{
    size_t at = s->len;

    assert(s->len < SUGGEST_WAITING_MAX);
    while (at > 0 && s->waiting[at - 1].number > number)
        at--;
    memmove(&s->waiting[at + 1], &s->waiting[at],
            (s->len++ - at) * sizeof(s->waiting[0]));
    s->waiting[at] = (struct suggestion){number, *setting, json};
}

/* Ends what those outside said of the search that was open: that nothing
 * follows. */
static void reopen(struct suggest *s)
{
    if (s->asking == ASKING_EXHAUSTED)
        s->asking = ASKING_OPEN; /* as the history has it */
}

/* ---- what waited before a resume ----------------------------------------- */

/* The trial's search does not go on, and it had not ended: its record, which
 * may be among this step's, says that it was interrupted. Or that search goes
 * on without it. */
static bool trial_is_lost(const struct board *c, const struct history *h,
                          uint32_t trial)
{
    const struct history_trial *t = history_trial(h, trial);
    const struct history_search *s =
        t ? history_search(h, history_trial_search(t)) : NULL;

    return lifecycle_forgets_trial(c, trial) ||
           (s && !t->ended && !s->ended &&
            history_trial_search(t) != lifecycle_search_resumed(c));
}

static bool still_waits(const struct board *c, const struct history *h,
                        const struct history_suggestion *x)
{
    if (x->s.state == SUGGESTION_WAITING || x->by_end)
        return true;
    return x->s.trial > 0 && trial_is_lost(c, h, x->s.trial);
}

bool suggest_more(const struct board *c)
{
    return c->owner->suggest->recalled < c->owner->suggest->last_before;
}

/* Suggestions come back as places come free, and so many a step: what was
 * accepted before, or lost with its trials, may be more than can wait, and what
 * a step settles is bounded. */
static void recall(struct board *c)
{
    const struct history *h = board_history(c);
    struct suggest *s = c->owner->suggest;

    for (size_t n = 0; n < SUGGEST_WAITING_MAX && suggest_more(c) &&
                       s->len < SUGGEST_WAITING_MAX;
         s->recalled++) {
        const struct history_suggestion *x = &h->suggestion[s->recalled];
        struct suggestion own = {.number = s->recalled + 1};
        enum err err;

        if (!still_waits(c, h, x))
            continue;
        n++;
        err = saved_setting(board_space(c), x->s.setting, &own.setting);
        own.json = json_copied(x->s.setting);
        if (err == ERR_NOMEM || !own.json) {
            json_decref(own.json);
            board_retry(c);
            return;
        }
        if (!err) {
            put(s, own.number, &own.setting, own.json);
            continue;
        }
        journal(c, &own, SUGGESTION_DROPPED, 0,
                "it is not one of this run's settings any more", "");
        json_decref(own.json);
    }
    if (suggest_more(c) && s->len < SUGGEST_WAITING_MAX)
        board_retry_after(c, SUGGEST_MORE_S);
}

/* Number of suggestions that wait, or are about to. */
static size_t waiting(const struct board *c)
{
    const struct suggest *s = c->owner->suggest;
    size_t n = s->len;

    for (uint32_t i = s->recalled; i < s->last_before; i++) {
        const struct history_suggestion *x = &board_history(c)->suggestion[i];

        n += x->s.state == SUGGESTION_WAITING || x->by_end;
    }
    return n;
}

/* ---- what cannot be suggested to ----------------------------------------- */

/* Why this run never tries a suggestion; NULL: it may. */
static const char *never(const struct board *c)
{
    if (run_strategy(c)->proposer == PROPOSER_NONE)
        return "the run's strategy tries no settings";
    if (!board_searcher(c) || space_dims(board_space(c)) == 0)
        return "there is nothing to tune: every tunable is fixed, or cannot "
               "act";
    return NULL;
}

void suggest_over(struct board *c, const char *reason)
{
    struct suggest *s = c->owner->suggest;

    assert(reason[0]);
    if (s->asking == ASKING_OVER)
        return;
    ask(c, ASKING_OVER, 0, reason);
    snprintf(s->over, sizeof(s->over), "%s", reason);
    while (s->len > 0)
        suggest_drop(c, reason);
}

/* A search that does not go on after a resume has ended: it is journaled so. */
static bool search_lost(const struct board *c)
{
    const struct history *h = board_history(c);

    for (size_t i = 0; h && i < h->searches; i++)
        if (!h->search[i].ended &&
            h->search[i].started.search != lifecycle_search_resumed(c))
            return true;
    return false;
}

void suggest_advance(struct board *c)
{
    struct suggest *s = c->owner->suggest;
    const char *why;

    if (!s->begun && search_lost(c))
        reopen(s);
    s->begun = true;
    if (suggest_more(c))
        recall(c);
    if (s->asking == ASKING_OVER) {
        while (s->len > 0)
            suggest_drop(c, s->over);
        return;
    }
    why = never(c);
    if (!why)
        return;
    s->never = true;
    suggest_over(c, why);
}

/* ---- the command --------------------------------------------------------- */

/* A request that was accepted before; NULL: it is new. */
static const struct suggest_request *known_request(const struct suggest *s,
                                                   const char *key)
{
    for (size_t i = 0; key[0] && i < SUGGEST_KEYS; i++)
        if (strcmp(s->request[i].key, key) == 0)
            return &s->request[i];
    return NULL;
}

static bool refuse(struct board *c, const struct command_suggest *want)
{
    const struct suggest *s = c->owner->suggest;
    const char *why = never(c);

    if (why)
        answers_give(c, ERR_UNSUPPORTED, false, "%s", why);
    else if (s->asking == ASKING_OVER)
        answers_give(c, s->never ? ERR_UNSUPPORTED : ERR_EXHAUSTED, false, "%s",
                     s->over);
    else if (want->exhausted && !board_searcher(c)->patience_s)
        answers_give(c, ERR_UNSUPPORTED, false,
                     "searcher %s proposes settings itself: only it knows "
                     "when it is exhausted",
                     board_searcher(c)->name);
    else
        return false;
    return true;
}

/* The setting that the run trains with now, if it trains; else the defaults. */
static void setting_in_use(const struct board *c, struct setting *out)
{
    const struct branch *b = board_branch(c, board_base(c));

    space_default(board_space(c), out);
    if (b && b->id != 0)
        *out = b->setting;
}

/* Suggestions that came at once. */
struct batch {
    struct suggestion item[COMMAND_SUGGESTIONS_MAX];
    size_t n;
};

static void batch_deinit(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        json_decref(b->item[i].json);
}

static enum err read_batch(struct board *c, const struct command_suggest *want,
                           const json_t *settings, struct batch *out,
                           struct problems *problems)
{
    enum err err = ERR_OK;
    struct setting base;
    json_t *given;
    size_t i;

    setting_in_use(c, &base);
    json_array_foreach(settings, i, given)
    {
        struct suggestion x = {.number =
                                   c->owner->suggest->last + 1 + (uint32_t)i};
        char pointer[32];

        snprintf(pointer, sizeof(pointer), "/settings/%zu", i);
        err = user_setting_complete(c, &base, given,
                                    want->single ? "/setting" : pointer,
                                    &x.setting, &x.json, problems);
        if (err == ERR_OK)
            out->item[out->n++] = x;
        else if (err == ERR_NOMEM)
            return err;
    }
    return problems_no_memory(problems) ? ERR_NOMEM
           : problems_errors(problems)  ? ERR_INVAL
                                        : ERR_OK;
}

static void numbers_text(uint32_t first, size_t n, char *out, size_t size)
{
    if (n == 1)
        snprintf(out, size, "suggestion %u", first);
    else
        snprintf(out, size, "suggestions %u to %u", first,
                 first + (uint32_t)n - 1);
}

static void answer(struct board *c, uint32_t first, size_t n, bool changed,
                   const char *text)
{
    struct tuner_answer *a = answers_give(c, ERR_OK, changed, "%s", text);

    a->suggestion = n ? first : 0;
    a->suggestions = (uint32_t)n;
}

static const char *when(const struct board *c)
{
    return run_status(c) == RUN_TUNING && !c->owner->suggest->closed
               ? "tried before anything else in the search that is open"
               : "tried first in the next search";
}

static void decide(struct board *c, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        char setting[160];
        struct record_decision *d;

        setting_text(board_space(c), &b->item[i].setting, setting,
                     sizeof(setting));
        d = board_decision(c, "suggest", "suggestion %u: %s; %s",
                           b->item[i].number, setting, when(c));
        board_decision_number(d, "suggestion", b->item[i].number);
    }
}

static void say_exhausted(struct board *c, const struct command_suggest *want)
{
    enum asking now = want->exhausted ? ASKING_EXHAUSTED : ASKING_OPEN;

    if (c->owner->suggest->asking == now)
        return;
    ask(c, now, 0,
        want->exhausted ? "who suggests settings has no others" : "");
    if (want->exhausted)
        board_decision(c, "suggest",
                       "who suggests settings has no others: the search ends "
                       "with those that were suggested");
}

/* Takes the batch over. */
static void accept(struct board *c, const struct command_suggest *want,
                   const char *key, struct batch *b)
{
    struct suggest *s = c->owner->suggest;
    bool late = b->n == 0 && s->closed;
    bool changed =
        b->n > 0 || (!late && want->exhausted && s->asking != ASKING_EXHAUSTED);
    char numbers[64], text[RECORD_TEXT_MAX];
    uint32_t first = s->last + 1;

    for (size_t i = 0; i < b->n; i++) {
        journal(c, &b->item[i], SUGGESTION_WAITING, 0, "", key);
        put(s, b->item[i].number, &b->item[i].setting, b->item[i].json);
    }
    s->last += (uint32_t)b->n;
    remember(s, key, first, (uint32_t)b->n);
    decide(c, b);
    if (!late)
        say_exhausted(c, want);
    numbers_text(first, b->n, numbers, sizeof(numbers));
    if (b->n > 0)
        snprintf(text, sizeof(text), "%s %s accepted: %s%s", numbers,
                 b->n == 1 ? "is" : "are", when(c),
                 want->exhausted ? "; nothing follows" : "");
    else if (late)
        snprintf(text, sizeof(text),
                 "no search is open: the next one asks again");
    else
        snprintf(text, sizeof(text),
                 "the search ends with what was suggested so far");
    answer(c, first, b->n, changed, text);
    b->n = 0;
}

static void take(struct board *c, const struct command_suggest *want,
                 const char *key, const json_t *settings)
{
    const struct suggest *s = c->owner->suggest;
    struct problems problems = {0};
    struct batch batch = {.n = 0};
    size_t n = json_array_size(settings);
    enum err err;

    assert(n <= COMMAND_SUGGESTIONS_MAX);
    err = read_batch(c, want, settings, &batch, &problems);
    if (err == ERR_INVAL)
        user_setting_refuse(c, &problems);
    else if (err)
        answers_give(c, err, false, "out of memory; try again");
    else if (waiting(c) + n > SUGGEST_WAITING_MAX)
        answers_give(c, ERR_LIMIT, false,
                     "%zu suggestions wait: no more than %d can; try again "
                     "when some have been tried",
                     waiting(c), SUGGEST_WAITING_MAX);
    else if (s->last + n > HISTORY_SUGGESTIONS_MAX)
        answers_give(c, ERR_LIMIT, false,
                     "the run has had %u suggestions: it takes no more",
                     s->last);
    else
        accept(c, want, key, &batch);
    batch_deinit(&batch);
    problems_deinit(&problems);
}

void suggest_take(struct board *c, const struct command_suggest *want,
                  const char *key)
{
    const struct suggest_request *again;
    json_t *settings = NULL;
    char text[96];

    assert(want->settings[0] || want->exhausted);
    key = key ? key : "";
    again = known_request(c->owner->suggest, key);
    if (again) {
        numbers_text(again->first, again->n, text, sizeof(text));
        strcat(text, " of this request were accepted before");
        answer(c, again->first, again->n, false, text);
        return;
    }
    if (refuse(c, want))
        return;
    if (want->settings[0] && json_load(want->settings, strlen(want->settings),
                                       &settings, NULL, NULL) != ERR_OK)
        answers_give(c, ERR_NOMEM, false, "out of memory; try again");
    else
        take(c, want, key, settings);
    json_decref(settings);
}

/* ---- for strategies ------------------------------------------------------ */

const struct suggestion *suggest_next(const struct board *c)
{
    return c->owner->suggest->len ? &c->owner->suggest->waiting[0] : NULL;
}

void suggest_begun(struct board *c)
{
    remove_first(c);
}

void suggest_known(struct board *c, uint32_t trial)
{
    const struct suggestion *x = suggest_next(c);
    char reason[96];

    assert(trial > 0);
    assert(x);
    snprintf(reason, sizeof(reason), "trial %u is of this setting already",
             trial);
    journal(c, x, SUGGESTION_KNOWN, trial, reason, "");
    board_decision(c, "suggest", "suggestion %u is not tried again: %s",
                   x->number, reason);
    remove_first(c);
}

void suggest_drop(struct board *c, const char *reason)
{
    const struct suggestion *x = suggest_next(c);

    assert(x);
    journal(c, x, SUGGESTION_DROPPED, 0, reason, "");
    board_decision(c, "suggest", "suggestion %u is not tried: %s", x->number,
                   reason);
    remove_first(c);
}

static void fall_silent(struct board *c, uint32_t search, double waited_s)
{
    char reason[160];

    snprintf(reason, sizeof(reason),
             "nobody has suggested a setting for %.3g s", waited_s);
    ask(c, ASKING_SILENT, 0, reason);
    board_decision(c, "searcher_silent",
                   "search %u waits no longer: %s; later searches do not wait "
                   "either, until there is a suggestion again",
                   search, reason);
    suggest_wait_over(c);
}

bool suggest_wait(struct board *c, uint32_t search, double patience_s)
{
    struct suggest *s = c->owner->suggest;
    double now = board_active_s(c), waited;

    assert(patience_s > 0);
    if (s->asking != ASKING_OPEN) {
        suggest_wait_over(c);
        return false;
    }
    if (isnan(s->since_s))
        s->since_s = now;
    waited = now - s->since_s;
    if (waited >= patience_s) {
        fall_silent(c, search, waited);
        return false;
    }
    if (!s->said && waited >= SUGGEST_SAY_S) {
        board_decision(c, "suggest",
                       "search %u waits for a suggestion (mltune suggest, or "
                       "POST .../trials:suggest), for at most %.4g s",
                       search, patience_s);
        s->said = true;
    }
    board_retry_after(
        c, fmax(1e-3, s->said ? patience_s - waited
                              : fmin(SUGGEST_SAY_S, patience_s) - waited));
    return true;
}

enum asking suggest_asking(const struct board *c)
{
    return c->owner->suggest->asking;
}

void suggest_wait_over(struct board *c)
{
    c->owner->suggest->since_s = NAN;
    c->owner->suggest->said = false;
}

void suggest_search_open(struct board *c)
{
    c->owner->suggest->closed = false;
}

void suggest_search_closed(struct board *c, uint32_t search)
{
    assert(search > 0);
    c->owner->suggest->closed = true;
    suggest_wait_over(c);
    ask(c, ASKING_CLOSED, search, "");
}

void suggest_search_ended(struct board *c, uint32_t search)
{
    struct suggest *s = c->owner->suggest;

    suggest_wait_over(c);
    s->closed = true;
    reopen(s);
    if (s->len > 0)
        board_decision(c, "suggest",
                       "%zu suggestion%s not tried in search %u: %s for the "
                       "next",
                       s->len, s->len == 1 ? " was" : "s were", search,
                       s->len == 1 ? "it waits" : "they wait");
}
