#include "cli/config/config_tunables.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "ps/rows/acting.h"
#include "ps/rows/rule.h"
#include "searchers/space/space_json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A name with a meaning of its own: what completes its entry, and what no entry
 * may leave. */
struct known {
    const char *name;
    const char *entry; /* as the configuration would write it */
    const char *plain; /* its value where it is not listed, as JSON; NULL: it
                        * is not there then */
    /* With "tunables": "auto" it is searched, too, if not NULL: from this on,
     * as JSON, which is off, or next to it (update_rule: from the run's).
     * Others without a plain value take the place of what the settings say, or
     * hold a run back: they are searched where they are listed. */
    const char *start;
    double least, most;
    bool below_most;  /* `most` itself is out */
    bool of_programs; /* searched where a program lists nothing */
    /* To a tunable of that name of the program's own, or the application's. */
    enum { YIELDS_NEVER, YIELDS_TO_PROGRAMS, YIELDS_TO_ALL } yields;
    const char *help;
};

static const struct known known[] = {
    {"learning_rate",
     "{\"type\": \"float\", \"min\": 1e-5, \"max\": 1, \"scale\": \"log\","
     " \"default\": 0.01}",
     "0.01", NULL, 0, INFINITY, true, true, YIELDS_NEVER, "length of a step"},
    {"momentum",
     "{\"type\": \"float\", \"min\": 0, \"max\": 0.99, \"default\": 0.9}",
     "0.0", NULL, 0, 1, true, false, YIELDS_NEVER,
     "share of the last step in the next (update rules sgd, nesterov)"},
    {"batch_size",
     "{\"type\": \"int\", \"values\": [16, 64, 256], \"default\": 64}", "64",
     NULL, 1, 1e9, false, true, YIELDS_NEVER,
     "samples a worker and clock, where a clock is a mini-batch"},
    {"staleness",
     "{\"type\": \"int\", \"values\": [0, 1, 3, 7], \"default\": 0}", "0", NULL,
     0, 1e6, false, false, YIELDS_NEVER,
     "clocks that what a worker reads may lag (ssp, essp, barrier)"},
    {"k", "{\"type\": \"int\", \"values\": [1, 2, 4, 8], \"default\": 1}", NULL,
     NULL, 1, 1e6, false, false, YIELDS_TO_ALL,
     "workers that a read waits for (consistency barrier); what ps.consistency "
     "says if not listed"},
    {"bandwidth_mbps",
     "{\"type\": \"float\", \"min\": 10, \"max\": 1000, \"scale\": \"log\","
     " \"default\": 1000}",
     NULL, NULL, 1e-3, 1e9, false, false, YIELDS_NEVER,
     "megabits a second that a node may send to others; no bound if not "
     "listed"},
    {"dropout",
     "{\"type\": \"float\", \"min\": 0, \"max\": 0.7, \"default\": 0.2}", NULL,
     NULL, 0, 1, true, false, YIELDS_TO_PROGRAMS,
     "share that the dropout layers drop (nn); each layer's own if not listed"},
    {"label_smoothing",
     "{\"type\": \"float\", \"min\": 0, \"max\": 0.3, \"default\": 0.1}", NULL,
     "0.0", 0, 1, true, false, YIELDS_TO_PROGRAMS,
     "share of a target that all classes get alike (nn); 0 if not listed"},
    {"clip_norm",
     "{\"type\": \"float\", \"min\": 0.1, \"max\": 10, \"scale\": \"log\","
     " \"default\": 1}",
     NULL, "10.0", 0, INFINITY, true, false, YIELDS_TO_PROGRAMS,
     "length that a gradient is cut to (nn); 0, if not listed: none"},
    {"weight_decay",
     "{\"type\": \"float\", \"min\": 1e-5, \"max\": 0.3, \"scale\": \"log\","
     " \"default\": 0.01}",
     NULL, "1e-5", 0, INFINITY, true, false, YIELDS_TO_PROGRAMS,
     "share of a weight that a step takes off, times the rate; 0 if not "
     "listed"},
    {"update_rule",
     "{\"type\": \"categorical\", \"values\": [\"sgd\", \"nesterov\", "
     "\"adam\"]}",
     NULL, "\"sgd\"", 0, INFINITY, true, false, YIELDS_TO_PROGRAMS,
     "update rule of the tables; ps.update_rule, which it starts from, if not "
     "listed"},
    {"warmup", "{\"type\": \"float\", \"min\": 0, \"max\": 5, \"default\": 1}",
     NULL, "0.0", 0, 1e6, false, false, YIELDS_TO_PROGRAMS,
     "epochs at the run's beginning over which the learning rate rises; 0 if "
     "not listed"},
};
enum { KNOWN = sizeof(known) / sizeof(*known), REASON_MAX = 128 };

struct tunables_known {
    json_t *schema; /* of one tunable: searchers/space/space_json.h */
    json_t *entry[KNOWN];
    json_t *plain[KNOWN]; /* {"type": its type, "fixed": its plain value}; NULL:
                           * it has none */
    json_t *start[KNOWN]; /* the entry, its default `start`; NULL: none */
};

static const struct known *known_find(const char *name)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

/* Whether the run has a tunable of its own by the name of @k. */
static bool is_own(const struct tunables_context *c, const struct known *k)
{
    if (c->program)
        return k->yields != YIELDS_NEVER;
    return k->yields == YIELDS_TO_ALL && c->app &&
           registry_uses(c->app, k->name);
}

char *tunables_help(void)
{
    struct text t = {0};

    for (size_t i = 0; i < KNOWN; i++)
        text_printf(&t, "  %-16s%s\n  %16s%s\n", known[i].name, known[i].help,
                    "", known[i].entry);
    return text_take(&t);
}

/* From @text; NULL when out of memory. */
static json_t *value_of(const char *text)
{
    json_t *value = NULL;
    enum err err = json_load(text, strlen(text), &value, NULL, NULL);

    assert(err != ERR_FORMAT);
    return err ? NULL : value;
}

static enum err read_known(const struct known *k, json_t **entry,
                           json_t **plain, json_t **start)
{
    *entry = value_of(k->entry);
    if (!*entry)
        return ERR_NOMEM;
    if (k->plain)
        *plain =
            json_pack("{s:O, s:o}", "type", json_object_get(*entry, "type"),
                      "fixed", value_of(k->plain));
    if (k->start) {
        *start = json_copied(*entry);
        if (!*start ||
            json_object_set_new(*start, "default", value_of(k->start)) != 0)
            return ERR_NOMEM;
    }
    return k->plain && !*plain ? ERR_NOMEM : ERR_OK;
}

enum err tunables_known_new(struct tunables_known **out)
{
    struct tunables_known *k = mem_calloc(1, sizeof(*k));
    const char *schema = space_json_schema();
    enum err err = k ? ERR_OK : ERR_NOMEM;

    assert(out);
    if (!err)
        err = json_load(schema, strlen(schema), &k->schema, NULL, NULL);
    for (size_t i = 0; !err && i < KNOWN; i++)
        err = read_known(&known[i], &k->entry[i], &k->plain[i], &k->start[i]);
    assert(err != ERR_FORMAT);
    if (err)
        tunables_known_free(k);
    else
        *out = k;
    return err;
}

void tunables_known_free(struct tunables_known *k)
{
    if (!k)
        return;
    json_decref(k->schema);
    for (size_t i = 0; i < KNOWN; i++) {
        json_decref(k->entry[i]);
        json_decref(k->plain[i]);
        json_decref(k->start[i]);
    }
    mem_free(k);
}

/* ---- who can act --------------------------------------------------------- */

/* Parts that are not known (because their names were wrong) are no reason. */
static bool uses(const struct registry_entry *e, const char *name)
{
    return !e || registry_uses(e, name);
}

/* Of the rules that the tunable @rules may have, completed. */
static bool any_has_momentum(const json_t *rules)
{
    const json_t *fixed = json_object_get(rules, "fixed"), *one;
    const struct rule_ops *rule;
    size_t i;

    if (json_is_string(fixed)) {
        rule = rule_find(json_string_value(fixed));
        return rule && rule->uses_momentum;
    }
    json_array_foreach(json_object_get(rules, "values"), i, one)
    {
        rule = json_is_string(one) ? rule_find(json_string_value(one)) : NULL;
        if (rule && rule->uses_momentum)
            return true;
    }
    return false;
}

/* Why @name cannot change this run, into @reason; false where it can. */
static bool cannot_act(const struct tunables_context *c, const char *name,
                       char reason[REASON_MAX])
{
    const struct acting_run run = {
        .nodes = c->nodes,
        .workers = c->workers,
        .uses_learning_rate = uses(c->update_rule, "learning_rate"),
        .uses_momentum = c->rules ? any_has_momentum(c->rules)
                                  : uses(c->update_rule, "momentum"),
        .chooses_rule = uses(c->update_rule, "update_rule"),
        .decays = uses(c->update_rule, "weight_decay"),
        .uses_staleness = uses(c->consistency, "staleness"),
        .uses_barrier_k = uses(c->consistency, "k"),
        .shares = !c->is_loop,
        .batch_clocks = c->batch_clocks};

    const char *why;

    *reason = '\0';
    if (c->program)
        return false;
    switch (acting_why_not(&run, name, uses(c->app, name))) {
    case ACTING:
        why = c->app && c->app->idle && c->settings
                  ? c->app->idle(c->settings, name)
                  : NULL;
        if (!why)
            return false;
        snprintf(reason, REASON_MAX, "%s", why);
        break;
    case ACTING_ONE_NODE:
        snprintf(reason, REASON_MAX, "on one node");
        break;
    case ACTING_ONE_WORKER:
        snprintf(reason, REASON_MAX, "with one worker");
        break;
    case ACTING_UNSHARED:
        snprintf(reason, REASON_MAX, "in a loop, where no row is stale");
        break;
    case ACTING_CONSISTENCY:
        snprintf(reason, REASON_MAX, "under consistency %s",
                 c->consistency->name);
        break;
    case ACTING_APP:
        snprintf(reason, REASON_MAX, "in app %s", c->app->name);
        break;
    case ACTING_RULE:
        if (c->rules)
            snprintf(reason, REASON_MAX, "under the rules of update_rule");
        else
            snprintf(reason, REASON_MAX, "under update rule %s",
                     c->update_rule->name);
        break;
    case ACTING_CLOCKS:
        snprintf(reason, REASON_MAX, "where a clock is no mini-batch");
        break;
    }
    return true;
}

/* ---- completing entries -------------------------------------------------- */

static int copy_member(json_t *o, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);

    if (!value || json_object_get(o, key))
        return 0;
    return json_object_set(o, key, value);
}

static bool has(const json_t *o, const char *key)
{
    return json_object_get(o, key) != NULL;
}

static bool fits(const json_t *o, const json_t *value)
{
    double x = json_number_value(value);
    const json_t *values = json_object_get(o, "values");
    json_t *one;
    size_t i;

    if (!values)
        return x >= json_number_value(json_object_get(o, "min")) &&
               x <= json_number_value(json_object_get(o, "max"));
    json_array_foreach(values, i, one)
    {
        if (json_number_value(one) == x)
            return true;
    }
    return false;
}

/* Fills what @o leaves open from the known entry @from: type always; range
 * where it has none of its own; scale and default where they fit its range. */
static int complete_entry(json_t *o, const json_t *from)
{
    bool ranged = has(o, "min") || has(o, "max");
    int failed = copy_member(o, from, "type");

    if (has(o, "fixed") && !ranged && !has(o, "values"))
        return failed;
    if (!ranged && !has(o, "values"))
        failed |= copy_member(o, from, "values");
    if (!has(o, "values")) {
        failed |= copy_member(o, from, "min") | copy_member(o, from, "max");
        if (json_number_value(json_object_get(o, "min")) > 0)
            failed |= copy_member(o, from, "scale");
    }
    if (fits(o, json_object_get(from, "default")))
        failed |= copy_member(o, from, "default");
    return failed;
}

/* The rule of the run is what the tunable starts from, where it may have it. */
static int start_from_rule(const struct tunables_context *c, const char *name,
                           json_t *o)
{
    const json_t *values = json_object_get(o, "values");
    json_t *one;
    size_t i;

    if (strcmp(name, "update_rule") != 0 || !c->update_rule ||
        has(o, "default") || has(o, "fixed"))
        return 0;
    json_array_foreach(values, i, one)
    {
        const char *value = json_string_value(one);

        if (value && strcmp(value, c->update_rule->name) == 0)
            return json_object_set(o, "default", one);
    }
    return 0;
}

/* A copy of @tunables with known names completed; owned by the caller. */
static enum err complete_all(const struct tunables_context *c,
                             const json_t *tunables, json_t **out)
{
    json_t *all = json_copied(tunables);
    enum err err = all ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && i < KNOWN; i++) {
        json_t *o = json_object_get(all, known[i].name);

        if (json_is_object(o) && !is_own(c, &known[i]) &&
            (complete_entry(o, c->known->entry[i]) != 0 ||
             start_from_rule(c, known[i].name, o) != 0))
            err = ERR_NOMEM;
    }
    if (err)
        json_decref(all);
    else
        *out = all;
    return err;
}

/* Whether a known name that is not listed belongs to the run. */
static bool is_implied(const struct tunables_context *c, const struct known *k,
                       bool search)
{
    char reason[REASON_MAX];

    if (c->program)
        return search && k->of_programs;
    return c->app && (k->plain || (search && c->all && k->start)) &&
           !cannot_act(c, k->name, reason);
}

/* Whether update_rule, listed, is the rule of the run's tables. */
static bool chooses_rule(const struct tunables_context *c)
{
    return !c->program && uses(c->app, "update_rule") &&
           uses(c->update_rule, "update_rule");
}

/* The rules that a run searches where nobody says which: those known, and the
 * one that the run would have. Owned by the caller; NULL: out of memory. */
static json_t *all_rules(const struct tunables_context *c, const json_t *entry)
{
    json_t *o = json_copied(entry), *values = json_object_get(o, "values");
    json_t *own = json_string(c->update_rule ? c->update_rule->name : "sgd");
    bool there = false;
    json_t *one;
    size_t i;

    json_array_foreach(values, i, one)
    {
        there |= json_equal(one, own);
    }
    if (!o || !own || (!there && json_array_append(values, own)) ||
        json_object_set(o, "default", own)) {
        json_decref(o);
        o = NULL;
    }
    json_decref(own);
    return o;
}

/* The entry of number @i, which nobody lists; NULL: out of memory. */
static json_t *unlisted(const struct tunables_context *c, size_t i, bool search)
{
    if (!search)
        return json_incref(c->known->plain[i]);
    if (strcmp(known[i].name, "update_rule") == 0)
        return all_rules(c, c->known->entry[i]);
    return json_incref(c->known->start[i] ? c->known->start[i]
                                          : c->known->entry[i]);
}

/* Adds to @all the known names that can act and are not there: to be searched
 * where the configuration lists none at all, else at their plain value. */
static enum err add_unlisted(const struct tunables_context *c, bool search,
                             json_t *all)
{
    struct tunables_context whole = *c;

    for (size_t i = 0; i < KNOWN; i++)
        if (search && c->all && chooses_rule(c) &&
            strcmp(known[i].name, "update_rule") == 0)
            whole.rules = c->known->entry[i]; /* under which momentum acts */
    for (size_t i = 0; i < KNOWN; i++) {
        if (has(all, known[i].name) || !is_implied(&whole, &known[i], search))
            continue;
        if (json_object_set_new(all, known[i].name, unlisted(c, i, search)) !=
            0)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

/* ---- checking ------------------------------------------------------------ */

/* Whether the user asks for it whether it acts or not. */
static bool is_free(const json_t *tunable)
{
    return json_is_true(json_object_get(tunable, "free"));
}

/* Names that neither mltune nor the app knows; that is an error, unless they
 * are "free": what acts on nothing is searched all the same, which shows what
 * more tunables cost (Cui 2017, 5.4.6). */
static void check_names(const struct tunables_context *c,
                        const json_t *tunables, struct problems *problems)
{
    const char *names[KNOWN + TUNABLES_MAX], *name, *near;
    struct text list = {0};
    size_t n = 0;
    json_t *o;

    for (size_t i = 0; i < KNOWN; i++)
        names[n++] = known[i].name;
    for (size_t i = 0; c->app && c->app->tunables && c->app->tunables[i] &&
                       n < KNOWN + TUNABLES_MAX;
         i++)
        if (!known_find(c->app->tunables[i]))
            names[n++] = c->app->tunables[i];
    for (size_t i = 0; i < n; i++)
        text_printf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    json_object_foreach((json_t *)tunables, name, o)
    {
        char pointer[JSON_POINTER_MAX] = "/tunables";
        struct problem *p;

        if (!c->app || c->program || known_find(name) ||
            registry_uses(c->app, name) || is_free(o))
            continue;
        json_pointer_push(pointer, name);
        p = problems_add(problems, pointer, NULL, "one of the tunables %s",
                         list.s ? list.s : "known");
        if (!p)
            continue;
        p->at_key = true;
        snprintf(p->found, sizeof(p->found), "\"%.64s\"", name);
        near = text_nearest(name, names, n);
        if (near)
            snprintf(p->hint, sizeof(p->hint), "did you mean \"%s\"?", near);
    }
    text_deinit(&list);
}

static bool within(const struct known *k, double x)
{
    return x >= k->least && (k->below_most ? x < k->most : x <= k->most);
}

/* Complains about a text that is no update rule that a branch can have. */
static void check_rule_name(const struct known *k, const char *pointer,
                            const json_t *value, struct problems *problems)
{
    const char *name = json_string_value(value);
    struct fault f = {0};
    uint32_t rule;

    if (strcmp(k->name, "update_rule") == 0 && name &&
        rule_choice(name, &rule, &f))
        problems_add(problems, pointer, value, "%s",
                     "one of sgd, nesterov, adagrad, rmsprop, adadelta, adam, "
                     "rpcs");
}

/* Complains about @value at @pointer unless it is a number that the known name
 * may have; what is no number, the space complains about. */
static void check_bound(const struct known *k, const char *pointer,
                        const json_t *value, struct problems *problems)
{
    check_rule_name(k, pointer, value, problems);
    if (!json_is_number(value) || within(k, json_number_value(value)))
        return;
    if (isinf(k->most))
        problems_add(problems, pointer, value, "at least %g", k->least);
    else
        problems_add(problems, pointer, value, "at least %g and %s %g",
                     k->least, k->below_most ? "below" : "at most", k->most);
}

/* Of a type that there is; the others are told by the space. */
static void check_type(const struct known *k, const json_t *type,
                       const char *pointer, struct problems *problems)
{
    const char *want = strstr(k->entry, "\"int\"")           ? "int"
                       : strstr(k->entry, "\"categorical\"") ? "categorical"
                                                             : "float";
    const char *is = json_string_value(type);

    if (is && strcmp(is, want) != 0 && space_type_known(is))
        problems_add(problems, pointer, type, "\"%s\"", want);
}

static void check_entry(const struct known *k, const json_t *o,
                        struct problems *problems)
{
    static const char *const keys[] = {"min", "max", "fixed", "default"};
    char pointer[JSON_POINTER_MAX] = "/tunables";
    size_t before, i;
    json_t *one;

    json_pointer_push(pointer, k->name);
    before = json_pointer_push(pointer, "type");
    check_type(k, json_object_get(o, "type"), pointer, problems);
    json_pointer_cut(pointer, before);
    for (i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        json_pointer_push(pointer, keys[i]);
        check_bound(k, pointer, json_object_get(o, keys[i]), problems);
        json_pointer_cut(pointer, before);
    }
    json_pointer_push(pointer, "values");
    json_array_foreach(json_object_get(o, "values"), i, one)
    {
        size_t at = json_pointer_push_index(pointer, i);

        check_bound(k, pointer, one, problems);
        json_pointer_cut(pointer, at);
    }
}

/* A known name keeps its type, and stays within what it can mean. */
static void check_known(const struct tunables_context *c,
                        const json_t *tunables, struct problems *problems)
{
    for (size_t i = 0; i < KNOWN; i++) {
        const json_t *o = json_object_get(tunables, known[i].name);

        if (json_is_object(o) && !is_own(c, &known[i]))
            check_entry(&known[i], o, problems);
    }
}

/* Pins what cannot act, with a warning where the user may think it does. */
static void pin_idle(const struct tunables_context *c, const json_t *tunables,
                     struct space *s, struct problems *problems)
{
    for (size_t i = 0; i < s->len; i++) {
        struct tunable *t = &s->tunable[i];
        char pointer[JSON_POINTER_MAX] = "/tunables", reason[REASON_MAX];

        if (!cannot_act(c, t->name, reason))
            continue;
        t->acts = false;
        if (t->fixed || t->free)
            continue;
        space_pin(s, i, t->preset);
        if (!has(tunables, t->name))
            continue;
        json_pointer_push(pointer, t->name);
        problems_warn(
            problems, pointer,
            "cannot act %s, so it is pinned at its default (\"free\": "
            "true would search it all the same)",
            reason);
    }
}

/* The space, where c->known is there. */
static enum err make_space(const struct tunables_context *c,
                           const json_t *tunables, struct space *out,
                           struct problems *problems)
{
    json_t *all = NULL, *empty = NULL;
    size_t before = problems_errors(problems);
    struct tunables_context whole = *c;
    enum err err;

    if (!tunables)
        empty = json_object();
    err = complete_all(c, tunables ? tunables : empty, &all);
    if (!err)
        err = add_unlisted(c, !tunables, all);
    if (!err && tunables) {
        check_names(c, tunables, problems);
        check_known(c, tunables, problems);
    }
    if (!err)
        err = space_from_json_by(c->known->schema, all, "/tunables", out,
                                 problems);
    if (!err && problems_errors(problems) > before)
        err = ERR_INVAL;
    if (chooses_rule(c))
        whole.rules = json_object_get(all, "update_rule");
    if (!err)
        pin_idle(&whole, tunables, out, problems);
    if (problems_no_memory(problems))
        err = ERR_NOMEM;
    json_decref(all);
    json_decref(empty);
    return err;
}

enum err tunables_space(const struct tunables_context *c,
                        const json_t *tunables, struct space *out,
                        struct problems *problems)
{
    struct tunables_context whole = *c;
    struct tunables_known *made = NULL;
    enum err err = ERR_OK;

    assert(c->nodes >= 1 && c->workers >= 1);
    if (tunables && !json_is_object(tunables))
        return ERR_INVAL; /* the schema has said so */
    if (!c->known)
        err = tunables_known_new(&made);
    if (made)
        whole.known = made;
    if (!err)
        err = make_space(&whole, tunables, out, problems);
    tunables_known_free(made);
    return err;
}
