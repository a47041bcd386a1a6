#include "cli/check/player.h"

#include "cli/check/player_internal.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Rule W5 says a second; a busy machine gets more. */
static const double SILENCE_S = 3.5, HELLO_S = 60;

/* The way a program is to end, and when at the latest: rule E1 says three
 * seconds, a busy machine gets more. */
static const struct {
    enum rule rule;
    int code;
    double within_s;
    const char *in_time, *with_code;
} ends[] = {
    [END_STOPPED] = {RULE_E1, 0, 6, "an end within 3 s", "exit code 0"},
    [END_LOST] = {RULE_E2, 69, 12, "an end soon after 3 s", "exit code 69"},
    [END_UNLOADED] = {RULE_E3, 1, 6, "an end within 3 s of failed",
                      "exit code 1"},
    [END_SIGNALLED] = {RULE_E4, 128, 6, "an end within 3 s",
                       "exit code 128 + the signal, or an end by it"},
};

/* ---- life ---------------------------------------------------------------- */

static size_t checks_of(const struct player_options *o,
                        const struct trainer_check **list)
{
    *list = o->checks ? o->checks : checks;
    return o->checks ? o->checks_len : (size_t)checks_len;
}

/* Whether @names, with commas between, has @name of @len bytes. */
static bool has_name(const char *names, const char *name, size_t len)
{
    for (size_t n; names; names = names[n] ? names + n + 1 : NULL) {
        n = strcspn(names, ",");
        if (n == len && memcmp(names, name, len) == 0)
            return true;
    }
    return false;
}

static bool is_check(const struct player_options *o, const char *name,
                     size_t len)
{
    const struct trainer_check *list;
    size_t n = checks_of(o, &list);
    bool known = false;

    for (size_t i = 0; i < n && !known; i++)
        known =
            strlen(list[i].name) == len && memcmp(list[i].name, name, len) == 0;
    return known;
}

static bool is_wanted(const struct player_options *o, const char *name)
{
    size_t len = strlen(name);

    return (!o->only || has_name(o->only, name, len)) &&
           !has_name(o->skip, name, len);
}

const char *player_unknown(const struct player_options *o, size_t *len)
{
    const char *lists[] = {o->only, o->skip};

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        for (const char *s = lists[i]; s; s = s[*len] ? s + *len + 1 : NULL) {
            *len = strcspn(s, ",");
            if (!is_check(o, s, *len))
                return s;
        }
    return NULL;
}

/* The configuration with memory for no branch. */
static json_t *without_memory(const json_t *config)
{
    json_t *copy = json_copied(config);

    if (copy && json_object_set_new(copy, "memory",
                                    json_pack("{s:i}", "limit", 1)) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

enum err player_new(const struct player_options *o, struct player **out)
{
    const struct trainer_check *list;
    struct player *p;
    size_t len;

    assert(o->nodes > 0 && o->config && o->folder && o->work);
    assert(checks_of(o, &list) <= CHECKS_MAX);
    if (player_unknown(o, &len))
        return ERR_NOENT;
    p = mem_calloc(1, sizeof(*p));
    if (!p)
        return ERR_NOMEM;
    p->o = *o;
    p->ready.kind = MSG_BEAT;
    p->next_branch = 1;
    p->heard_at_s = mem_calloc(o->nodes, sizeof(*p->heard_at_s));
    p->no_memory = without_memory(o->config);
    if (!p->heard_at_s || !p->no_memory) {
        player_free(p);
        return ERR_NOMEM;
    }
    *out = p;
    return ERR_OK;
}

static void drop_acts(struct player *p)
{
    for (size_t i = 0; i < p->acts; i++)
        if (p->act[i].kind == ACT_SEND)
            msg_deinit(&p->act[i].message);
    p->acts = 0;
}

void player_free(struct player *p)
{
    if (!p)
        return;
    drop_acts(p);
    for (int i = 0; i < SERIES_MAX; i++)
        series_deinit(&p->series[i]);
    msg_deinit(&p->ready);
    json_decref(p->looking);
    json_decref(p->no_memory);
    mem_free(p->heard_at_s);
    mem_free(p);
}

const struct check_result *player_results(const struct player *p, size_t *n)
{
    *n = p->results;
    return p->result;
}

bool player_passed(const struct player *p)
{
    for (size_t i = 0; i < p->results; i++)
        if (p->result[i].outcome == OUTCOME_FAILED)
            return false;
    return true;
}

const json_t *player_looks_for(const struct player *p)
{
    return p->looking;
}

bool player_agrees(const struct player *p)
{
    return p->o.nodes > 1 && p->ready.ready.cuts == CUTS_AGREED;
}

/* ---- what is to be done -------------------------------------------------- */

struct player_act *player_add_act(struct player *p, enum player_act_kind kind)
{
    struct player_act *a;

    assert(p->acts < ACTS_MAX);
    a = &p->act[p->acts++];
    memset(a, 0, sizeof(*a));
    a->kind = kind;
    return a;
}

bool player_next(struct player *p, struct player_act *out)
{
    if (!p->acts)
        return false;
    *out = p->act[0];
    p->acts--;
    memmove(p->act, p->act + 1, p->acts * sizeof(*p->act));
    return true;
}

void player_start_program(struct player *p)
{
    player_add_act(p, ACT_START);
    p->phase = PHASE_HELLO;
    p->phase_at_s = p->step_at_s = p->now_s;
    p->unloadable = false;
    p->hellos = 0;
    for (uint32_t i = 0; i < p->o.nodes; i++)
        p->heard_at_s[i] = INFINITY;
    msg_deinit(&p->ready);
    p->ready.kind = MSG_BEAT;
    p->next_op = 1;
    p->asked_len = 0;
    p->filled = 0;
    memset(p->slot, 0, sizeof(p->slot)); /* of the process before */
    p->slot[0] = (struct player_slot){.live = true, .whole = true};
}

void player_expect_end(struct player *p, enum player_end how)
{
    p->phase = PHASE_ENDING;
    p->end = how;
    p->phase_at_s = p->now_s;
    p->asked_len = 0;
}

/* ---- verdicts ------------------------------------------------------------ */

const struct msg_ready *player_ready(const struct player *p)
{
    return &p->ready.ready;
}

const struct trainer_check *player_check(const struct player *p)
{
    const struct trainer_check *list;
    size_t n = checks_of(&p->o, &list);

    return &list[p->check >= 0 && (size_t)p->check < n ? p->check : 0];
}

enum rule player_rule(const struct player *p)
{
    return player_check(p)->rule;
}

static struct check_result *add_result(struct player *p,
                                       enum check_outcome outcome)
{
    struct check_result *r = &p->result[p->results++];

    assert(p->results <= CHECKS_MAX);
    *r = (struct check_result){.check = player_check(p), .outcome = outcome};
    return r;
}

static void next_check(struct player *p)
{
    const struct trainer_check *list;
    int n = (int)checks_of(&p->o, &list);

    p->step = NULL;
    p->asked_len = 0;
    do
        p->check++;
    while (p->check < n && !is_wanted(&p->o, list[p->check].name));
    if (p->check < n) {
        player_begin_check(p);
        return;
    }
    if (p->phase != PHASE_IDLE)
        player_add_act(p, ACT_KILL);
    player_add_act(p, ACT_OVER);
    p->phase = PHASE_OVER;
}

void player_end_check(struct player *p)
{
    if (!p->judged)
        add_result(p, OUTCOME_PASSED);
    next_check(p);
}

void player_fail(struct player *p, enum rule rule, const char *expected,
                 const char *fmt, ...)
{
    /* A program that cannot load cannot be checked, but where that is the
     * check. */
    bool fatal = (p->phase == PHASE_HELLO || p->phase == PHASE_LOADING) &&
                 !p->unloadable;
    const struct trainer_check *list;
    struct check_result *r;
    va_list ap;

    if (p->phase == PHASE_OVER || p->phase == PHASE_IDLE)
        return;
    r = add_result(p, OUTCOME_FAILED);
    r->rule = rule;
    r->fatal = fatal;
    snprintf(r->expected, sizeof(r->expected), "%s", expected);
    va_start(ap, fmt);
    vsnprintf(r->came, sizeof(r->came), fmt, ap);
    va_end(ap);
    text_to_utf8(r->came);
    drop_acts(p);
    player_add_act(p, ACT_KILL);
    p->phase = PHASE_IDLE;
    p->looks = false;
    if (fatal || p->o.first)
        p->check = (int)checks_of(&p->o, &list);
    next_check(p);
}

void player_not_made(struct player *p, const char *why)
{
    static const struct check_step the_end = {.kind = STEP_END};
    struct check_result *r = add_result(p, OUTCOME_NOT_APPLICABLE);

    snprintf(r->came, sizeof(r->came), "%s", why);
    p->judged = true;
    p->step = &the_end;
    p->begun = false;
}

/* ---- events ---------------------------------------------------------------
 */

void player_start(struct player *p, double now_s)
{
    p->now_s = now_s;
    p->check = -1;
    next_check(p);
    player_play(p);
}

static bool listens(const struct player *p)
{
    return p->phase == PHASE_LOADING || p->phase == PHASE_PLAYING;
}

static void check_silence(struct player *p, uint32_t node)
{
    double silence_s = p->now_s - p->heard_at_s[node];

    if (listens(p) && silence_s > SILENCE_S)
        player_fail(p, RULE_W5, "a word a second",
                    "nothing of process %u for %.1f s", node, silence_s);
}

void player_hear(struct player *p, uint32_t node, double now_s)
{
    assert(node < p->o.nodes);
    p->now_s = now_s;
    check_silence(p, node);
    p->heard_at_s[node] = now_s;
    player_play(p);
}

void player_wrong(struct player *p, enum rule rule, const char *what,
                  double now_s)
{
    p->now_s = now_s;
    if (listens(p) || p->phase == PHASE_HELLO)
        player_fail(p, rule,
                    rule == RULE_M1 ? "processes that agree"
                                    : "a message of docs/protocol.md",
                    "%s", what);
    player_play(p);
}

void player_looked(struct player *p, uint64_t files, uint64_t bytes,
                   const char *missing, double now_s)
{
    p->now_s = now_s;
    if (!p->looks)
        return;
    p->looks = false;
    if (missing)
        player_fail(p, RULE_D2, "the files that done lists, in path",
                    "%s is not there", missing);
    else if (files == 0 || bytes == 0)
        player_fail(p, RULE_D2, "files in the folder path",
                    "%llu files with %llu bytes", (unsigned long long)files,
                    (unsigned long long)bytes);
    player_play(p);
}

/* Whether @code, as subprocess has it, is how it was to end. To a shell an end
 * by a signal is the exit code 128 + the signal. */
static bool ended_well(const struct player *p, int code)
{
    if (p->end == END_SIGNALLED)
        return code == -p->signal || code == 128 + p->signal;
    return code == ends[p->end].code;
}

void player_ended(struct player *p, int code, const char *verdict, double now_s)
{
    p->now_s = now_s;
    if (p->phase != PHASE_ENDING)
        player_fail(p, player_rule(p), "a program that goes on", "%s", verdict);
    else if (!ended_well(p, code))
        player_fail(p, ends[p->end].rule, ends[p->end].with_code,
                    "%s, after %.1f s", verdict, now_s - p->phase_at_s);
    else
        p->phase = PHASE_IDLE;
    if (p->phase == PHASE_IDLE)
        p->asked_len = 0;
    player_play(p);
}

static double deadline(const struct player *p)
{
    switch (p->phase) {
    case PHASE_HELLO:
        return p->phase_at_s + HELLO_S;
    case PHASE_LOADING:
        return p->phase_at_s + 10 * p->o.step_s;
    case PHASE_ENDING:
        return p->phase_at_s + ends[p->end].within_s;
    case PHASE_PLAYING:
        return p->step_at_s + p->o.step_s;
    default:
        return INFINITY;
    }
}

/* No answer, and no report, for as long as a step may take. */
static void answer_is_late(struct player *p)
{
    const struct player_ask *q = p->asked_len ? &p->asked[0] : NULL;

    player_fail(p, q && q->kind != MSG_SCHEDULE ? RULE_C2 : player_rule(p),
                "an answer to each request, and reports",
                "no answer to %s op %llu, and no report, for %.0f s",
                q ? msg_kind_name(q->kind) : "nothing",
                q ? (unsigned long long)q->op : 0, p->now_s - p->step_at_s);
}

static void take_too_long(struct player *p)
{
    double since = p->now_s - p->phase_at_s;

    switch (p->phase) {
    case PHASE_HELLO:
        player_fail(p, RULE_C1, "hello", "nothing for %.0f s", since);
        break;
    case PHASE_LOADING:
        player_fail(p, RULE_C1, "ready or failed", "none for %.0f s", since);
        break;
    case PHASE_ENDING:
        player_fail(p, ends[p->end].rule, ends[p->end].in_time,
                    "it still runs after %.1f s", since);
        break;
    default:
        answer_is_late(p);
    }
}

void player_tick(struct player *p, double now_s)
{
    p->now_s = now_s;
    for (uint32_t i = 0; i < p->o.nodes; i++)
        check_silence(p, i);
    if (now_s >= deadline(p))
        take_too_long(p);
    player_play(p);
}

double player_wake_at(const struct player *p)
{
    double wake = deadline(p);

    return listens(p) ? fmin(wake, p->now_s + 0.25) : wake;
}
