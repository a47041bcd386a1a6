#include "ps/rows/consistency.h"

#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The clock that all have reached. The reader itself always counts. */
static int64_t slowest(const struct consistency_view *v)
{
    int64_t min = v->worker[v->self].clock;

    assert(v->self < v->workers);
    for (unsigned i = 0; i < v->workers; i++)
        if (v->worker[i].available && v->worker[i].clock < min)
            min = v->worker[i].clock;
    return min;
}

static int64_t own_clock(const struct consistency_view *v)
{
    return v->worker[v->self].clock;
}

/* A read at clock k sees all updates of clocks < k - staleness. */
static int64_t clock_less_staleness(const struct consistency_view *v)
{
    return own_clock(v) - (int64_t)v->staleness;
}

static bool all_reached_mine(const struct consistency_view *v)
{
    return slowest(v) >= own_clock(v);
}

static bool none_lags_too_far(const struct consistency_view *v)
{
    return slowest(v) >= clock_less_staleness(v);
}

static bool always(const struct consistency_view *v)
{
    (void)v;
    return true;
}

static bool has_come(const struct consistency_view *v, unsigned i)
{
    return !v->worker[i].available ||
           v->worker[i].clock >= clock_less_staleness(v);
}

/* Slower than `slower_than` times the median: than that many times the work
 * time of half of those whose time is known. Soori et al., section VI-C. */
static bool is_slow(const struct consistency_view *v, unsigned i)
{
    unsigned known = 0, faster = 0;

    for (unsigned j = 0; j < v->workers; j++) {
        double time = v->worker[j].task_s;

        known += time > 0;
        faster += time > 0 && v->rule.slower_than * time < v->worker[i].task_s;
    }
    return known > 0 && 2 * faster >= known;
}

/* Of @counted workers those that must have come. */
static unsigned needed(const struct barrier_rule *r, unsigned counted)
{
    unsigned n = counted;

    if (r->k)
        n = r->k;
    else if (r->fraction > 0)
        n = (unsigned)ceil(r->fraction * counted - 1e-9);
    else if (!(r->slower_than > 0))
        n = (counted + 1) / 2;
    return n < counted ? n : counted;
}

/* Soori et al., the barriers of listing 1 as one: k of n must have come within
 * the staleness of the reader. Who has finished its run counts as one that
 * came, so that an answer once yes stays so. */
static bool k_of_n_have_come(const struct consistency_view *v)
{
    unsigned counted = v->workers, came = 0;

    for (unsigned i = 0; i < v->workers; i++) {
        if (has_come(v, i))
            came++;
        else if (v->rule.slower_than > 0 && is_slow(v, i))
            counted--;
    }
    return came >= needed(&v->rule, counted);
}

/* async and barrier promise nothing about every other; a copy is still fetched
 * anew each clock, so that what others did arrives: holds and needs are the own
 * clock. */
static const struct consistency_ops models[] = {
    {.name = "bsp",
     .summary = "all workers meet at every clock; exact and deterministic",
     .barrier = true,
     .pushes = true,
     .may_read = all_reached_mine,
     .bounds = true,
     .holds = slowest,
     .needs = own_clock},
    {.name = "ssp",
     .summary = "reads may lag `staleness` clocks behind the fastest worker",
     .uses_staleness = true,
     .may_read = none_lags_too_far,
     .bounds = true,
     .holds = slowest,
     .needs = clock_less_staleness},
    {.name = "essp",
     .summary = "as ssp, with updates of other nodes pushed before they are "
                "read",
     .uses_staleness = true,
     .pushes = true,
     .may_read = none_lags_too_far,
     .bounds = true,
     .holds = slowest,
     .needs = clock_less_staleness},
    {.name = "async",
     .summary = "nobody ever waits",
     .may_read = always,
     .holds = own_clock,
     .needs = own_clock},
    {.name = "barrier",
     .summary = "reads wait until half of the workers, or those that a rule "
                "says, are within `staleness` clocks",
     .uses_staleness = true,
     .uses_barrier_k = true,
     .may_read = k_of_n_have_come,
     .holds = own_clock,
     .needs = own_clock},
};

enum { MODELS = sizeof(models) / sizeof(models[0]) };

void consistency_rank(struct worker_status worker[], unsigned workers)
{
    int64_t fastest = INT64_MIN;

    assert(workers > 0);
    for (unsigned i = 0; i < workers; i++)
        if (worker[i].clock > fastest)
            fastest = worker[i].clock;
    for (unsigned i = 0; i < workers; i++)
        worker[i].staleness = fastest - worker[i].clock;
}

const struct consistency_ops *consistency_at(size_t i)
{
    return i < MODELS ? &models[i] : NULL;
}

const struct consistency_ops *consistency_find(const char *name)
{
    assert(name);
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *consistency_names(void)
{
    return "bsp, ssp, essp, async, barrier";
}

/* ---- rules as text ------------------------------------------------------- */

static const struct {
    const char *name;
    double least, most;
    bool whole;
} rule_key[] = {{"k", 1, 1e6, true},
                {"fraction", 1e-6, 1, false},
                {"slower_than", 1, 1e6, false}};
enum { RULE_KEYS = sizeof(rule_key) / sizeof(rule_key[0]), PAIR_MAX = 48 };

/* One "key=value". */
static enum err parse_pair(const char *pair, size_t len,
                           double value[RULE_KEYS], struct fault *f)
{
    char text[PAIR_MAX], *end;
    size_t n = 0, i = 0;

    if (len < sizeof(text))
        n = len;
    memcpy(text, pair, n);
    text[n] = '\0';
    for (; i < RULE_KEYS; i++) {
        size_t name = strlen(rule_key[i].name);
        double v;

        if (strncmp(text, rule_key[i].name, name) != 0 || text[name] != '=')
            continue;
        v = strtod(text + name + 1, &end);
        if (end == text + name + 1 || *end || !(v >= rule_key[i].least) ||
            !(v <= rule_key[i].most) || (rule_key[i].whole && v != floor(v)))
            return fault_set(
                f, ERR_INVAL,
                "barrier: %s: expected %s from %g to %g, found "
                "\"%s\"",
                rule_key[i].name, rule_key[i].whole ? "an integer" : "a number",
                rule_key[i].least, rule_key[i].most, text + name + 1);
        value[i] = v;
        return ERR_OK;
    }
    return fault_set(f, ERR_INVAL,
                     "barrier: expected k, fraction or slower_than and \"=\", "
                     "found \"%.*s\"",
                     (int)(len < PAIR_MAX ? len : PAIR_MAX), pair);
}

static enum err parse_rule(const char *p, struct barrier_rule *rule,
                           struct fault *f)
{
    double value[RULE_KEYS] = {0};

    while (*p) {
        size_t len = strcspn(p, "&");
        enum err err = parse_pair(p, len, value, f);

        if (err)
            return err;
        p += len + (p[len] == '&');
    }
    if (value[0] > 0 && value[1] > 0)
        return fault_set(f, ERR_INVAL,
                         "barrier: expected k or fraction, found both");
    *rule = (struct barrier_rule){(unsigned)value[0], value[1], value[2]};
    return ERR_OK;
}

enum err consistency_parse(const char *text, const struct consistency_ops **out,
                           struct barrier_rule *rule, struct fault *f)
{
    static const char with_rule[] = "barrier?";
    struct barrier_rule r = {0};
    enum err err = ERR_OK;

    assert(text && out && rule);
    if (strncmp(text, with_rule, strlen(with_rule)) == 0) {
        err = parse_rule(text + strlen(with_rule), &r, f);
        text = "barrier";
    }
    if (err)
        return err;
    if (!consistency_find(text))
        return fault_set(f, ERR_INVAL,
                         "unknown consistency model \"%.64s\"; there are: %s",
                         text, consistency_names());
    *out = consistency_find(text);
    *rule = r;
    return ERR_OK;
}

void consistency_text(const struct barrier_rule *rule,
                      char out[CONSISTENCY_TEXT_MAX])
{
    const double value[RULE_KEYS] = {rule->k, rule->fraction,
                                     rule->slower_than};
    char number[TEXT_NUMBER_MAX];
    size_t n = (size_t)snprintf(out, CONSISTENCY_TEXT_MAX, "barrier");
    char before = '?';

    for (size_t i = 0; i < RULE_KEYS; i++) {
        if (!(value[i] > 0))
            continue;
        text_number(value[i], number);
        n += (size_t)snprintf(out + n, CONSISTENCY_TEXT_MAX - n, "%c%s=%s",
                              before, rule_key[i].name, number);
        before = '&';
    }
}

enum err consistency_check(const struct barrier_rule *rule, unsigned workers,
                           struct fault *f)
{
    if (rule->k <= workers)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "barrier: k: expected at most the %u workers that there "
                     "are, found %u: so many never come",
                     workers, rule->k);
}
