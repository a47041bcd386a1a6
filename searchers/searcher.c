#include "searchers/searcher.h"

#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct searcher {
    const struct searcher_ops *ops;
    void *state; /* owned: ops->close */
    uint64_t seed;
    bool fell; /* the fallback has taken over; `fallen` says why */
    char fallen[2 * FAULT_TEXT_MAX];
    struct space space;
    struct observation *told; /* owned, [told_len], by trial number */
    size_t told_len, told_capacity;
};

const char *outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"speed", "diverged", "failed",
                                        "stopped"};

    assert((unsigned)outcome < OUTCOME_COUNT);
    return names[outcome];
}

enum err searcher_settings(const struct searcher_ops *ops, const json_t *given,
                           json_t **out, struct fault *f)
{
    struct problems problems = {0};
    json_t *schema = NULL, *own = NULL;
    char line[FAULT_TEXT_MAX];
    enum err err =
        json_load(ops->settings, strlen(ops->settings), &schema, NULL, f);

    assert(ops && ops->settings);
    assert(out);
    if (err)
        return err;
    own = given ? json_copied(given) : json_object();
    err = own ? ERR_OK : ERR_NOMEM;
    if (own)
        schema_check(schema, own, "", &problems);
    if (problems.no_memory)
        err = ERR_NOMEM;
    else if (problems.errors > 0)
        err = fault_set(f, ERR_INVAL, "%s",
                        problem_text(&problems.item[0], "searcher_settings",
                                     line, sizeof(line)));
    if (!err)
        err = schema_complete(schema, own);
    if (!err)
        *out = own;
    else
        json_decref(own);
    problems_deinit(&problems);
    json_decref(schema);
    return err;
}

enum err searcher_open(const struct searcher_ops *ops,
                       const struct space *space, const json_t *settings,
                       uint64_t seed, struct searcher **out, struct fault *f)
{
    struct searcher *s = mem_calloc(1, sizeof(*s));
    json_t *own = NULL;
    enum err err = ERR_NOMEM;

    assert(out);
    assert(ops->open && ops->close && ops->ask);
    assert(ops->settings);
    assert(space_len(space) <= TUNABLES_MAX);
    if (!s)
        return fault_set(f, err, "%s", err_text(err));
    s->ops = ops;
    s->seed = seed;
    space_copy(&s->space, space);
    err = searcher_settings(ops, settings, &own, f);
    if (!err)
        err = ops->open(&s->space, own, seed, &s->state, f);
    json_decref(own);
    if (err)
        mem_free(s);
    else
        *out = s;
    return err;
}

void searcher_close(struct searcher *s)
{
    if (!s)
        return;
    s->ops->close(s->state);
    mem_free(s->told);
    mem_free(s);
}

const struct searcher_ops *searcher_ops_of(const struct searcher *s)
{
    assert(s);
    return s->ops;
}

const struct space *searcher_space(const struct searcher *s)
{
    assert(s);
    return &s->space;
}

const char *searcher_fallen(const struct searcher *s)
{
    assert(s);
    return s->fell ? s->fallen : NULL;
}

double searcher_patience_s(const struct searcher *s)
{
    return s->ops->patience_s ? s->ops->patience_s(s->state) : (double)NAN;
}

/* ---- the fallback -------------------------------------------------------- */

/* Errors that are answers, or that pass. */
static bool is_answer(enum err err)
{
    return err == ERR_OK || err == ERR_AGAIN || err == ERR_EXHAUSTED ||
           err == ERR_NOMEM;
}

static enum err tell_again(const struct searcher *s,
                           const struct searcher_ops *ops, void *state,
                           struct fault *f)
{
    enum err err = ERR_OK;

    for (size_t i = 0; ops->tell && i < s->told_len && !err; i++)
        err = ops->tell(state, &s->told[i], f);
    return err;
}

/* Puts @ops in the place of the searcher that failed as @why says. Until that
 * is done nothing is changed. */
static enum err take_over(struct searcher *s, const struct searcher_ops *ops,
                          const struct fault *why, struct fault *f)
{
    json_t *settings = NULL;
    void *state = NULL;
    enum err err = searcher_settings(ops, NULL, &settings, f);

    assert(!s->fell);
    assert(ops != s->ops);
    if (!err)
        err = ops->open(&s->space, settings, s->seed, &state, f);
    json_decref(settings);
    if (err)
        return err;
    err = tell_again(s, ops, state, f);
    if (err) {
        ops->close(state);
        return err;
    }
    snprintf(s->fallen, sizeof(s->fallen),
             "%s; %s goes on, with the %zu trials so far", why->text, ops->name,
             s->told_len);
    s->ops->close(s->state);
    s->ops = ops;
    s->state = state;
    s->fell = true;
    return ERR_OK;
}

/* The one that is to take over after @err; NULL: @err is for the caller. */
static const struct searcher_ops *next_in_line(const struct searcher *s,
                                               enum err err)
{
    if (is_answer(err) || s->fell || !s->ops->fallback)
        return NULL;
    return s->ops->fallback(s->state);
}

static enum err ask_once(struct searcher *s, const struct searcher_query *q,
                         struct setting *out, struct fault *f)
{
    struct setting x;
    enum err err;

    memset(&x, 0, sizeof(x));
    err = s->ops->ask(s->state, q, &x, f);
    if (err)
        return err;
    if (space_check(&s->space, &x, f)) {
        fault_wrap(f, "searcher %s proposed a setting outside the space",
                   s->ops->name);
        return ERR_PROTO;
    }
    space_canonical(&s->space, &x);
    *out = x;
    return ERR_OK;
}

enum err searcher_ask(struct searcher *s, const struct setting running[],
                      size_t n, const struct setting *incumbent,
                      struct setting *out, struct fault *f)
{
    const struct searcher_query q = {.told_len = s->told_len,
                                     .told = s->told,
                                     .running_len = n,
                                     .running = running,
                                     .incumbent = incumbent};
    const struct searcher_ops *next;
    struct fault why = {0};
    enum err err;

    assert(running || n == 0);
    assert(out);
    err = ask_once(s, &q, out, &why);
    next = next_in_line(s, err);
    if (next) {
        err = take_over(s, next, &why, f);
        return err ? err : ask_once(s, &q, out, f);
    }
    if (err && f)
        *f = why;
    return err;
}

/* Position of trial @trial among the told, or where it would go. */
static size_t place_of(const struct searcher *s, uint64_t trial)
{
    size_t i = s->told_len;

    while (i > 0 && s->told[i - 1].trial >= trial)
        i--;
    return i;
}

static void take_out(struct searcher *s, size_t i)
{
    assert(i < s->told_len);
    s->told_len--;
    memmove(&s->told[i], &s->told[i + 1], (s->told_len - i) * sizeof(*s->told));
}

static enum err put_in(struct searcher *s, size_t i,
                       const struct observation *o)
{
    if (s->told_len == SEARCHER_OBSERVATIONS_MAX)
        return ERR_LIMIT;
    assert(i == 0 || s->told[i - 1].trial < o->trial);
    assert(i == s->told_len || s->told[i].trial > o->trial);
    if (mem_grow((void **)&s->told, &s->told_capacity, sizeof(*s->told),
                 s->told_len + 1) != 0)
        return ERR_NOMEM;
    memmove(&s->told[i + 1], &s->told[i], (s->told_len - i) * sizeof(*s->told));
    s->told[i] = *o;
    s->told_len++;
    return ERR_OK;
}

static enum err check_observation(const struct searcher *s,
                                  const struct observation *o, struct fault *f)
{
    struct setting x = o->setting;

    if ((unsigned)o->outcome >= OUTCOME_COUNT)
        return fault_set(f, ERR_INVAL, "no such outcome");
    if (!isfinite(o->speed) || o->speed < 0)
        return fault_set(f, ERR_INVAL, "speed %g of trial %llu", o->speed,
                         (unsigned long long)o->trial);
    if (!isfinite(o->resource) || o->resource < 0)
        return fault_set(f, ERR_INVAL, "resource %g of trial %llu", o->resource,
                         (unsigned long long)o->trial);
    /* A tunable may have been pinned since, for a re-tune. */
    space_canonical(&s->space, &x);
    return space_check(&s->space, &x, f);
}

/* To the implementation, or to its fallback, which hears of all. */
static enum err pass_on(struct searcher *s, const struct observation *o,
                        struct fault *f)
{
    struct fault why = {0};
    enum err err = s->ops->tell(s->state, o, &why);
    const struct searcher_ops *next = next_in_line(s, err);

    if (next)
        return take_over(s, next, &why, f);
    if (err && f)
        *f = why;
    return err;
}

enum err searcher_tell(struct searcher *s, const struct observation *o,
                       struct fault *f)
{
    size_t i = place_of(s, o->trial);
    bool again = i < s->told_len && s->told[i].trial == o->trial;
    struct observation before;
    enum err err = check_observation(s, o, f);

    assert(s && o);
    if (err)
        return err;
    if (again && !space_equal(&s->space, &s->told[i].setting, &o->setting))
        return fault_set(f, ERR_INVAL, "trial %llu had another setting",
                         (unsigned long long)o->trial);
    if (again) {
        before = s->told[i];
        s->told[i] = *o;
    } else {
        err = put_in(s, i, o);
        if (err)
            return fault_set(f, err, "%s", err_text(err));
    }
    if (s->ops->tell)
        err = pass_on(s, o, f);
    if (!err)
        return ERR_OK;
    if (again)
        s->told[i] = before;
    else
        take_out(s, i);
    return err;
}

const struct observation *searcher_told(const struct searcher *s, size_t *n)
{
    assert(s && n);
    *n = s->told_len;
    return s->told;
}

bool searcher_seen(const struct space *space, const struct searcher_query *q,
                   const struct setting *x)
{
    assert(q->told || q->told_len == 0);
    assert(q->running || q->running_len == 0);
    if (q->incumbent && space_equal(space, q->incumbent, x))
        return true;
    for (size_t i = 0; i < q->running_len; i++)
        if (space_equal(space, &q->running[i], x))
            return true;
    for (size_t i = 0; i < q->told_len; i++)
        if (space_equal(space, &q->told[i].setting, x))
            return true;
    return false;
}
