/* Facts that a host tells the tuner once it is open: the tunables that can act,
 * its tables, and what its data hold. */
#include "base/json/json.h"
#include "base/log.h"
#include "base/proto/table_info.h"
#include "ps/node/host_internal_io.h"
#include "ps/rows/acting.h"
#include "ps/rows/rule.h"

#include <stdio.h>
#include <string.h>

/* ---- tunables ------------------------------------------------------------ */

static bool rules_use(const struct host *h, bool momentum)
{
    for (unsigned t = 0; t < ps_tables(h->ps); t++) {
        struct ps_table_info info = ps_table_info(h->ps, t);

        if (momentum ? info.uses_momentum : info.uses_learning_rate)
            return true;
    }
    return false;
}

/* Whether branches have rules of their own. */
static bool chooses_rule(const struct host *h)
{
    for (unsigned t = 0; t < ps_tables(h->ps); t++)
        if (strcmp(ps_table_info(h->ps, t).rule, RULE_ANY) == 0)
            return true;
    return false;
}

/* Whether it takes its steps itself (mlt_tunable): it has a learning rate, and
 * leaves no table to the rule of the run. */
static bool steps_itself(const struct host *h)
{
    unsigned t = 0;

    while (t < ps_tables(h->ps) && !ps_table_info(h->ps, t).rule_of_run)
        t++;
    return t == ps_tables(h->ps);
}

static bool has_shared(const struct host *h)
{
    unsigned t = 0;

    while (t < ps_tables(h->ps) && ps_table_info(h->ps, t).access != MLT_SHARED)
        t++;
    return t < ps_tables(h->ps);
}

static bool add_acting(json_t *out, const struct acting_run *run,
                       const char *name, bool in_app)
{
    return acting_why_not(run, name, in_app) != ACTING ||
           json_array_append_new(out, json_string(name)) == 0;
}

static bool has_own(const struct mlt_app_ops *app, const char *name)
{
    const char *const *own = app->tunables;

    while (own && *own && strcmp(*own, name) != 0)
        own++;
    return own && *own;
}

json_t *host_tunables(const struct host *h)
{
    const struct acting_run run = {
        .nodes = h->nodes,
        .workers = h->workers * h->nodes,
        .uses_learning_rate = rules_use(h, false) || steps_itself(h),
        .uses_momentum = rules_use(h, true),
        .decays = rules_use(h, false),
        .chooses_rule = chooses_rule(h),
        .uses_staleness = h->uses_staleness,
        .uses_barrier_k = h->uses_barrier_k,
        .shares = has_shared(h),
        .batch_clocks = h->facts.order.parts == 0,
    };
    const char *const *name = h->facts.app->tunables;
    json_t *out = json_array();
    bool added = out != NULL;

    for (; added && name && *name; name++)
        added = add_acting(out, &run, *name, true);
    /* In any app, unless it has one of its own by that name. */
    added = added &&
            (has_own(h->facts.app, "k") || add_acting(out, &run, "k", false));
    added = added && add_acting(out, &run, "bandwidth_mbps", false);
    if (!added) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- tables -------------------------------------------------------------- */

static struct table_info table_info_of(const struct ps_table_info *t)
{
    static const enum table_type types[] = {
        [MLT_F32] = TABLE_F32, [MLT_I32] = TABLE_I32, [MLT_F64] = TABLE_F64};
    static const enum table_access accesses[] = {[MLT_SHARED] = TABLE_SHARED,
                                                 [MLT_EXCLUSIVE] =
                                                     TABLE_EXCLUSIVE,
                                                 [MLT_LOCAL] = TABLE_LOCAL};
    struct table_info info = {
        .rows = t->rows,
        .width = t->width,
        .type = types[t->type],
        .access = accesses[t->access],
        .saved = t->saved,
    };

    snprintf(info.name, sizeof(info.name), "%s", t->name);
    snprintf(info.rule, sizeof(info.rule), "%s", t->rule);
    return info;
}

json_t *host_tables(const struct host *h)
{
    json_t *list = json_array();

    for (unsigned t = 0; list && t < ps_tables(h->ps); t++) {
        struct ps_table_info of = ps_table_info(h->ps, t);
        struct table_info info = table_info_of(&of);

        if (t != h->cursor &&
            json_array_append_new(list, table_info_to_json(&info)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- data ---------------------------------------------------------------- */

json_t *host_data(const struct host *h)
{
    const char *text = h->facts.info.data;
    json_t *data = NULL;
    struct fault f = {0};

    if (!text)
        return NULL;
    if (strlen(text) > MLT_DATA_MAX)
        fault_set(&f, ERR_LIMIT, "expected at most %d bytes", MLT_DATA_MAX);
    else
        json_load(text, strlen(text), &data, NULL, &f);
    if (json_is_object(data))
        return data;
    json_decref(data);
    log_event(LOG_WARN, "data_not_described", "why=%s",
              f.code ? f.text : "expected an object");
    return NULL;
}
