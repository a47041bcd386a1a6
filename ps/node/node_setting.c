#include "ps/node/node_setting.h"

#include "ps/rows/rule.h"
#include "ps/server/ps.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool is_listed(const char *const names[], const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static bool whole(const json_t *value, double min, double max, double *out)
{
    double x = json_number_value(value);

    if (!json_is_number(value) || x != floor(x) || x < min || x > max)
        return false;
    *out = x;
    return true;
}

/* Place of @name among the app's own; s->owns where it is not there. */
static unsigned find_own(const struct node_setting *s, const char *name)
{
    unsigned i = 0;

    while (i < s->owns && strcmp(s->own[i].name, name) != 0)
        i++;
    return i;
}

static enum err set_own(struct node_setting *s, const char *name,
                        const json_t *value, struct fault *f)
{
    unsigned i = find_own(s, name);

    assert(s->owns <= PROTO_TUNABLES_MAX);
    if (!json_is_number(value)) /* a category; the interface has numbers only */
        return ERR_OK;
    if (i == PROTO_TUNABLES_MAX || strlen(name) > PROTO_NAME_MAX)
        return fault_set(f, ERR_INVAL, "%s: too many tunables", name);
    strcpy(s->own[i].name, name);
    s->own[i].value = json_number_value(value);
    if (i == s->owns)
        s->owns++;
    return ERR_OK;
}

static bool is_rule(const json_t *value)
{
    uint32_t number;

    return json_is_string(value) &&
           rule_choice(json_string_value(value), &number, NULL) == ERR_OK;
}

static enum err set_value(struct node_setting *s, const char *name,
                          const json_t *value, const char *const app[],
                          struct fault *f)
{
    double x = json_number_value(value);

    if (strcmp(name, "learning_rate") == 0) {
        if (!json_is_number(value) || !(x >= 0 && isfinite(x)))
            return fault_set(f, ERR_INVAL,
                             "learning_rate: expected a number >= 0");
        s->learning_rate = x;
    } else if (strcmp(name, "momentum") == 0) {
        if (!json_is_number(value) || !(x >= 0 && x < 1))
            return fault_set(f, ERR_INVAL,
                             "momentum: expected a number from 0 to below 1");
        s->momentum = x;
    } else if (strcmp(name, "weight_decay") == 0) {
        if (!json_is_number(value) || !(x >= 0 && isfinite((float)x)))
            return fault_set(f, ERR_INVAL,
                             "weight_decay: expected a number >= 0");
        s->weight_decay = is_listed(app, name) ? x : 0;
    } else if (strcmp(name, "update_rule") == 0 &&
               !(is_listed(app, name) && !is_rule(value))) {
        if (!json_is_string(value))
            return fault_set(f, ERR_INVAL, "update_rule: expected a name");
        return rule_choice(json_string_value(value), &s->rule, f);
    } else if (strcmp(name, "warmup") == 0) {
        if (!json_is_number(value) || !(x >= 0 && x <= SETTING_WARMUP_MAX))
            return fault_set(f, ERR_INVAL,
                             "warmup: expected a number from 0 to %d",
                             SETTING_WARMUP_MAX);
        s->warmup = is_listed(app, name) ? x : 0;
    } else if (strcmp(name, "staleness") == 0) {
        if (!whole(value, 0, PS_STALENESS_MAX, &x))
            return fault_set(f, ERR_INVAL,
                             "staleness: expected a whole number from 0 to %d",
                             PS_STALENESS_MAX);
        s->staleness = (unsigned)x;
    } else if (strcmp(name, "k") == 0 && !is_listed(app, name)) {
        if (!whole(value, 1, PS_QUORUM_MAX, &x))
            return fault_set(f, ERR_INVAL,
                             "k: expected a whole number from 1 to %d",
                             PS_QUORUM_MAX);
        s->barrier_k = (unsigned)x;
    } else if (strcmp(name, "batch_size") == 0) {
        if (!whole(value, 1, SETTING_BATCH_MAX, &x))
            return fault_set(f, ERR_INVAL,
                             "batch_size: expected a whole number from 1 to %d",
                             SETTING_BATCH_MAX);
        s->batch_size = (uint64_t)x;
    } else if (strcmp(name, "bandwidth_mbps") == 0) {
        if (!json_is_number(value) ||
            !(x >= PS_BANDWIDTH_LEAST_MBPS && x <= PS_BANDWIDTH_MOST_MBPS))
            return fault_set(f, ERR_INVAL,
                             "bandwidth_mbps: expected a number from %g to %g",
                             PS_BANDWIDTH_LEAST_MBPS, PS_BANDWIDTH_MOST_MBPS);
        s->bandwidth_mbps = x;
    } else if (is_listed(app, name) || find_own(s, name) < s->owns) {
        return set_own(s, name, value, f);
    } else {
        return fault_set(f, ERR_INVAL,
                         "%s: this application has no such tunable", name);
    }
    return ERR_OK;
}

static bool is_known(const char *name)
{
    static const char *const known[] = {
        "learning_rate",  "momentum", "staleness",    "batch_size",
        "bandwidth_mbps", "k",        "weight_decay", "update_rule",
        "warmup",         NULL};

    return is_listed(known, name);
}

/* A tunable that is searched though nobody has it: its value is taken, and read
 * by none. */
static enum err add_free(struct node_setting *s, const char *name,
                         const char *const app[], struct fault *f)
{
    json_t *none;
    enum err err;

    if (is_known(name) || is_listed(app, name))
        return ERR_OK;
    none = json_integer(0);
    err = none ? set_own(s, name, none, f)
               : fault_set(f, ERR_NOMEM, "%s: out of memory", name);
    json_decref(none);
    return err;
}

enum err node_setting_init(struct node_setting *s, const json_t *tunables,
                           const char *const app[], bool any, struct fault *f)
{
    const json_t *spec, *value;
    const char *name;
    enum err err = ERR_OK;

    assert(s);
    *s = (struct node_setting){.learning_rate = 0.01, .batch_size = 64};
    json_object_foreach((json_t *)tunables, name, spec)
    {
        if (!err && (any || json_is_true(json_object_get(spec, "free"))))
            err = add_free(s, name, app, f);
        value = json_object_get(spec, "fixed");
        if (!value)
            value = json_object_get(spec, "default");
        if (!err && value)
            err = set_value(s, name, value, app, f);
    }
    return err;
}

enum err node_setting_read(const struct node_setting *base,
                           const json_t *values, const char *const app[],
                           struct node_setting *out, struct fault *f)
{
    const json_t *value;
    const char *name;
    enum err err = ERR_OK;

    assert(base && out);
    *out = *base;
    json_object_foreach((json_t *)values, name, value)
    {
        if (!err)
            err = set_value(out, name, value, app, f);
    }
    return err;
}

double node_setting_own(const struct node_setting *s, const char *name,
                        double fallback)
{
    unsigned i;

    assert(name);
    for (i = 0; i < s->owns; i++)
        if (strcmp(s->own[i].name, name) == 0)
            return s->own[i].value;
    return fallback;
}
