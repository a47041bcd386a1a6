#include "api/routes/search_routes.h"

#include "api/http/value.h"
#include "api/view/list.h"
#include "api/view/long_history.h"
#include "base/mem.h"
#include "searchers/built_in.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct shape search_shapes[] = {
    {"search_now",
     "run:s status:@run_status strategy:s? searcher:s? state:s reason:s "
     "asking:@asking_state waits:b wanted:i search:i? retune:b tunables:o? "
     "running:[running_trial] waiting:[waiting_suggestion] "
     "trials:[tried]"},
    {"running_trial", "trial:i suggestion:i? incumbent:b setting:o"},
    {"waiting_suggestion", "suggestion:i setting:o"},
    {"tried", "trial:i suggestion:i? incumbent:b setting:o "
              "outcome:@trial_outcome ended:b "
              "speed:n? noise:n? range:n? seconds:n"},
    {"suggestions", "suggestions:[suggestion]" SHAPE_PAGE},
    {"suggestion",
     "suggestion:i state:@suggestion_state trial:i? setting:o reason:s "
     "suggested_at:t? settled_at:t?"},
    {NULL, NULL},
};

/* ---- what is wanted ------------------------------------------------------ */

struct tried {
    uint32_t trial, suggestion;
    enum trial_label label;
    bool incumbent, ended;
    double speed, noise, range, seconds;
    json_t *setting; /* owned */
};

struct offered {
    uint32_t suggestion;
    json_t *setting; /* owned */
};

/* A copy of all that the document shows. */
struct search_picture {
    char run[RECORD_NAME_MAX], strategy[RECORD_NAME_MAX],
        searcher[RECORD_NAME_MAX];
    enum run_status status;
    bool finished;
    enum asking asking;
    char asking_reason[RECORD_TEXT_MAX], end_reason[RECORD_TEXT_MAX];
    uint32_t search; /* 0: none yet */
    bool retune, ended, closed;
    uint32_t trials_max;
    json_t *tunables;        /* owned */
    struct tried *tried;     /* owned, of the search */
    struct offered *offered; /* owned, waiting */
    size_t trieds, trieds_cap, offereds, offereds_cap;
    bool no_memory;
};

static void copy_run(const struct history *h, struct search_picture *p)
{
    memcpy(p->run, h->run.run, sizeof(p->run));
    memcpy(p->strategy, h->run.strategy, sizeof(p->strategy));
    memcpy(p->searcher, h->run.searcher, sizeof(p->searcher));
    p->status = h->status;
    p->finished = h->finished;
    p->asking = h->asking;
    memcpy(p->asking_reason, h->asking_reason, sizeof(p->asking_reason));
    if (h->finished)
        memcpy(p->end_reason, h->end.message, sizeof(p->end_reason));
}

static void copy_trial(const struct history_trial *t, struct search_picture *p)
{
    if (mem_grow((void **)&p->tried, &p->trieds_cap, sizeof(*p->tried),
                 p->trieds + 1)) {
        p->no_memory = true;
        return;
    }
    p->tried[p->trieds++] = (struct tried){.trial = t->t.trial,
                                           .suggestion = t->t.suggestion,
                                           .label = t->t.label,
                                           .incumbent = t->t.incumbent,
                                           .ended = t->ended,
                                           .speed = t->t.figures.speed,
                                           .noise = t->t.figures.noise,
                                           .range = t->t.figures.range,
                                           .seconds = t->t.figures.seconds,
                                           .setting = value_own(t->t.setting)};
}

/* The one that is open, else the last. A run that has gone back may go on with
 * one that others were begun after. */
static const struct history_search *current(const struct history *h)
{
    for (size_t i = h->searches; i > 0; i--)
        if (!h->search[i - 1].ended)
            return &h->search[i - 1];
    return &h->search[h->searches - 1]; /* the last is kept whole */
}

static void copy_search(const struct history *h, struct search_picture *p)
{
    const struct history_search *s = current(h);
    size_t first = h->trials;

    p->search = s->started.search;
    p->retune = s->started.retune;
    p->ended = s->ended;
    p->closed = s->closed;
    p->trials_max = s->started.trials_max;
    p->tunables = value_own(s->started.tunables);
    p->no_memory |= !p->tunables;
    while (first > 0 && h->trial[first - 1].started_at_s >= s->started_at_s)
        first--;
    for (size_t i = first; i < h->trials; i++)
        if (h->trial[i].t.search == p->search)
            copy_trial(&h->trial[i], p);
}

static void copy_suggestions(const struct history *h, struct search_picture *p)
{
    for (size_t i = 0; i < h->suggestions; i++) {
        const struct record_suggestion *s = &h->suggestion[i].s;

        if (s->state != SUGGESTION_WAITING)
            continue;
        if (mem_grow((void **)&p->offered, &p->offereds_cap,
                     sizeof(*p->offered), p->offereds + 1)) {
            p->no_memory = true;
            return;
        }
        p->offered[p->offereds++] =
            (struct offered){s->suggestion, value_own(s->setting)};
    }
}

static bool take_picture(const struct history *h, void *state)
{
    struct search_picture *p = state;

    copy_run(h, p);
    if (h->searches > 0)
        copy_search(h, p);
    copy_suggestions(h, p);
    return false;
}

static void picture_deinit(struct search_picture *p)
{
    for (size_t i = 0; i < p->trieds; i++)
        json_decref(p->tried[i].setting);
    for (size_t i = 0; i < p->offereds; i++)
        json_decref(p->offered[i].setting);
    json_decref(p->tunables);
    mem_free(p->tried);
    mem_free(p->offered);
}

/* ---- its state ----------------------------------------------------------- */

static bool is_open(const struct search_picture *p)
{
    return !p->finished && p->search && !p->ended && !p->closed &&
           p->status == RUN_TUNING && p->asking != ASKING_OVER;
}

/* Nothing will ever be asked for again. */
static bool is_over(const struct search_picture *p)
{
    return (p->finished && p->status != RUN_INTERRUPTED) ||
           p->asking == ASKING_OVER;
}

static const char *state_of(const struct search_picture *p)
{
    return is_over(p) ? "ended" : is_open(p) ? "open" : "not_now";
}

static const char *reason_of(const struct search_picture *p)
{
    if (p->finished)
        return p->end_reason;
    if (p->asking == ASKING_OVER)
        return p->asking_reason;
    if (p->status == RUN_PAUSED)
        return "the run is paused: suggestions wait";
    if (is_open(p))
        return p->asking == ASKING_OPEN
                   ? "suggestions are tried first"
                   : "suggestions are tried first, but the search waits for "
                     "none";
    return p->closed && !p->ended
               ? "the best trials are compared: suggestions wait for the next "
                 "search"
               : "no search is open: suggestions wait for the next one";
}

static bool is_running(const struct tried *t)
{
    return t->label == TRIAL_RUNNING;
}

static uint32_t begun(const struct search_picture *p)
{
    uint32_t n = 0;

    for (size_t i = 0; i < p->trieds; i++)
        n += !p->tried[i].incumbent;
    return n;
}

/* Suggestions that the search has room for. */
static uint32_t wanted(const struct search_picture *p)
{
    size_t taken = begun(p) + p->offereds;

    return is_open(p) && taken < p->trials_max ? p->trials_max - (uint32_t)taken
                                               : 0;
}

/* The search stands still until there is a suggestion. */
static bool waits(const struct search_picture *p)
{
    if (wanted(p) == 0 || p->offereds || p->asking != ASKING_OPEN ||
        strcmp(p->searcher, searcher_rest.name) != 0)
        return false;
    for (size_t i = 0; i < p->trieds; i++)
        if (is_running(&p->tried[i]))
            return false;
    return true;
}

/* ---- its JSON ------------------------------------------------------------ */

static json_t *number_or_null(uint32_t n)
{
    return n ? json_integer(n) : json_null();
}

static const char *outcome_of(enum trial_label label)
{
    switch (label) {
    case TRIAL_DIVERGED:
        return outcome_name(OUTCOME_DIVERGED);
    case TRIAL_FAILED:
        return outcome_name(OUTCOME_FAILED);
    case TRIAL_STOPPED:
        return outcome_name(OUTCOME_STOPPED);
    default:
        return outcome_name(OUTCOME_SPEED);
    }
}

static json_t *running_to_json(const struct tried *t)
{
    return json_pack("{s:I, s:o, s:b, s:O}", "trial", (json_int_t)t->trial,
                     "suggestion", number_or_null(t->suggestion), "incumbent",
                     t->incumbent, "setting", t->setting);
}

static json_t *tried_to_json(const struct tried *t)
{
    bool number = t->label != TRIAL_DIVERGED && t->label != TRIAL_FAILED;

    return json_pack("{s:I, s:o, s:b, s:O, s:s, s:b, s:o, s:o, s:o, s:o}",
                     "trial", (json_int_t)t->trial, "suggestion",
                     number_or_null(t->suggestion), "incumbent", t->incumbent,
                     "setting", t->setting, "outcome", outcome_of(t->label),
                     "ended", t->ended, "speed",
                     number ? value_number(t->speed) : json_null(), "noise",
                     number ? value_number(t->noise) : json_null(), "range",
                     number ? value_number(t->range) : json_null(), "seconds",
                     value_number(t->seconds));
}

static json_t *trials_to_json(const struct search_picture *p, bool running)
{
    json_t *a = json_array();

    for (size_t i = 0; a && i < p->trieds; i++) {
        const struct tried *t = &p->tried[i];

        if (is_running(t) != running || t->label == TRIAL_INTERRUPTED)
            continue;
        if (json_array_append_new(a, running ? running_to_json(t)
                                             : tried_to_json(t)) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

static json_t *offered_to_json(const struct search_picture *p)
{
    json_t *a = json_array();

    for (size_t i = 0; a && i < p->offereds; i++)
        if (json_array_append_new(
                a, json_pack("{s:I, s:O}", "suggestion",
                             (json_int_t)p->offered[i].suggestion, "setting",
                             p->offered[i].setting)) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *picture_to_json(const struct search_picture *p, const char *run)
{
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:o, s:s, s:b, s:I, s:o, s:b, s:o, s:o, "
        "s:o, s:o}",
        "run", run, "status", run_status_name(p->status), "strategy",
        value_text_or_null(p->strategy), "searcher",
        value_text_or_null(p->searcher), "state", state_of(p), "reason",
        value_text(reason_of(p)), "asking", asking_name(p->asking), "waits",
        waits(p), "wanted", (json_int_t)wanted(p), "search",
        number_or_null(p->search), "retune", p->retune, "tunables",
        p->tunables ? json_incref(p->tunables) : json_null(), "running",
        trials_to_json(p, true), "waiting", offered_to_json(p), "trials",
        trials_to_json(p, false));
}

void handle_search(const struct route_call *call, struct response *out)
{
    struct search_picture p = {.search = 0};

    if (long_history_read(call, take_picture, &p, out))
        response_json(out, 200,
                      p.no_memory
                          ? NULL
                          : picture_to_json(&p, route_arg(call, "run")->text));
    picture_deinit(&p);
}

/* ---- suggestions --------------------------------------------------------- */

static void suggestions_range(const struct history *h, uint64_t *low,
                              uint64_t *len)
{
    *low = 1;
    *len = h->suggestions;
}

static bool suggestion_copy(const struct history *h,
                            const struct route_call *call, size_t index,
                            void *item)
{
    struct history_suggestion *copy = item;

    (void)call;
    *copy = h->suggestion[index];
    copy->s.setting = value_own(copy->s.setting);
    return true;
}

static void suggestion_release(void *item)
{
    struct history_suggestion *copy = item;

    json_decref(copy->s.setting);
}

static json_t *suggestion_to_json(const struct list_scope *scope,
                                  const void *item)
{
    const struct history_suggestion *x = item;

    return json_pack(
        "{s:I, s:s, s:o, s:O, s:o, s:o, s:o}", "suggestion",
        (json_int_t)x->s.suggestion, "state", suggestion_state_name(x->s.state),
        "trial", number_or_null(x->s.trial), "setting", x->s.setting, "reason",
        value_text(x->s.reason), "suggested_at", list_time(scope, x->at_s),
        "settled_at", list_time(scope, x->settled_at_s));
}

static int64_t suggestion_index(const struct history *h,
                                const struct route_call *call)
{
    int64_t n = route_arg(call, "suggestion")->number;

    return n >= 1 && (uint64_t)n <= h->suggestions ? n - 1 : -1;
}

static const struct list_kind suggestions = {
    .name = "suggestions",
    .item_size = sizeof(struct history_suggestion),
    .range = suggestions_range,
    .copy = suggestion_copy,
    .to_json = suggestion_to_json,
    .release = suggestion_release,
};

void handle_suggestions(const struct route_call *call, struct response *out)
{
    list_respond(call, &suggestions, out);
}

void handle_suggestion(const struct route_call *call, struct response *out)
{
    list_respond_one(call, &suggestions, suggestion_index, "suggestion", out);
}
