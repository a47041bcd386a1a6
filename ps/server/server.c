/* The parameter server's options, settings and tables. */
#include "base/mem.h"
#include "ps/nodes/shard.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/server/peers.h"
#include "ps/server/start.h"
#include "ps/server/versions.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TABLES_MAX = STORE_TABLES_MAX };

/* ---- options ------------------------------------------------------------- */

static enum err take_names(struct mlt_ps *ps, const struct mlt_ps_options *opt,
                           struct fault *f)
{
    const char *consistency = opt->consistency ? opt->consistency : "bsp";
    const char *rule = opt->update_rule ? opt->update_rule : "sgd";

    enum err err = consistency_parse(consistency, &ps->shape.consistency,
                                     &ps->shape.rule, f);

    if (err)
        return err;
    ps->default_rule = rule_find(rule);
    (void)rule_choice("sgd", &ps->params.rule, NULL);
    if (!ps->default_rule)
        return fault_set(f, ERR_INVAL,
                         "unknown update rule \"%s\"; there are: %s", rule,
                         rule_names());
    return ERR_OK;
}

static enum err take_numbers(struct mlt_ps *ps,
                             const struct mlt_ps_options *opt, struct fault *f)
{
    if (ps_set_learning_rate(ps, opt->learning_rate))
        return fault_set(f, ERR_INVAL,
                         "learning rate %g: expected a finite number >= 0",
                         opt->learning_rate);
    if (ps_set_weight_decay(ps, opt->weight_decay))
        return fault_set(f, ERR_INVAL, "weight decay %g: expected >= 0",
                         opt->weight_decay);
    if (ps_set_momentum(ps, opt->momentum))
        return fault_set(f, ERR_INVAL, "momentum %g: expected 0 <= m < 1",
                         opt->momentum);
    if (ps_set_staleness(ps, opt->staleness))
        return fault_set(f, ERR_INVAL, "staleness %u: expected at most %d",
                         opt->staleness, PS_STALENESS_MAX);
    ps->shape.workers = opt->workers;
    if (ps->shape.workers > WORKERS_MAX)
        return fault_set(f, ERR_INVAL, "%u workers: expected at most %d",
                         ps->shape.workers, WORKERS_MAX);
    ps->memory_limit = opt->memory_limit;
    return ERR_OK;
}

static enum err take_access(struct mlt_ps *ps, const char *name)
{
    assert(name);
    ps->shape.places = strcmp(name, "place") == 0;
    ps->shape.gathers = ps->shape.places || strcmp(name, "gather") == 0;
    return ps->shape.gathers || strcmp(name, "off") == 0 ? ERR_OK : ERR_INVAL;
}

static enum err take_ring_bytes(struct mlt_ps *ps, int64_t bytes)
{
    if (bytes < -1 || bytes > RING_BYTES_MAX ||
        (bytes > 0 && bytes < RING_BYTES_MIN))
        return ERR_INVAL;
    if (bytes >= 0)
        ps->shape.ring_bytes =
            bytes ? (uint64_t)bytes : ring_bytes_unless_given(ps->shape.nodes);
    return ERR_OK;
}

static enum err no_such_priority(const char *name, struct fault *f)
{
    char names[96] = "";
    size_t n = 0;

    for (unsigned p = 0; p < PRIORITY_COUNT && n < sizeof(names); p++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                              p ? ", " : "", priority_name((enum priority)p));
    return fault_set(f, ERR_INVAL, "priority \"%s\"; there are: %s", name,
                     names);
}

static enum err take_nodes(struct mlt_ps *ps, const struct mlt_ps_options *opt,
                           struct fault *f)
{
    ps->shape.node = opt->node;
    ps->shape.nodes = opt->nodes ? opt->nodes : 1;
    ps->shape.all_workers = ps->shape.workers * ps->shape.nodes;
    ps->shape.float16 = opt->float16;
    if (consistency_check(&ps->shape.rule, ps->shape.all_workers, f))
        return ERR_INVAL;
    ps->shape.meet_s = opt->meet_s;
    if (ps->shape.nodes > SHARD_NODES_MAX || ps->shape.node >= ps->shape.nodes)
        return fault_set(f, ERR_INVAL,
                         "node %u of %u: expected a number below that of the "
                         "nodes, of which there are %d at most",
                         ps->shape.node, ps->shape.nodes, SHARD_NODES_MAX);
    if (take_access(ps, opt->access ? opt->access : "gather"))
        return fault_set(f, ERR_INVAL,
                         "access knowledge \"%s\"; there are: off, gather, "
                         "place",
                         opt->access);
    if (ps_set_bandwidth(ps, opt->bandwidth_mbps))
        return fault_set(f, ERR_INVAL,
                         "bandwidth %g Mbit/s: expected 0 for none, or %g to "
                         "%g",
                         opt->bandwidth_mbps, PS_BANDWIDTH_LEAST_MBPS,
                         PS_BANDWIDTH_MOST_MBPS);
    ps->shape.priority =
        opt->priority ? priority_find(opt->priority) : PRIORITY_RELATIVE;
    if (ps->shape.priority == PRIORITY_COUNT)
        return no_such_priority(opt->priority, f);
    if (take_ring_bytes(ps, opt->ring_bytes))
        return fault_set(f, ERR_INVAL,
                         "rings of %lld bytes: expected -1 for none, 0 for a "
                         "size by the nodes, or %d to %d",
                         (long long)opt->ring_bytes, RING_BYTES_MIN,
                         RING_BYTES_MAX);
    if (!(ps->shape.meet_s >= 0))
        return fault_set(f, ERR_INVAL, "%g seconds to meet: expected >= 0",
                         ps->shape.meet_s);
    if (ps->shape.nodes == 1)
        return ERR_OK;
    if (!opt->meet)
        return fault_set(f, ERR_INVAL,
                         "%u nodes need a folder or an address to meet at, the "
                         "same for all",
                         ps->shape.nodes);
    ps->shape.meet = mem_strdup(opt->meet);
    ps->shape.listen = opt->listen ? mem_strdup(opt->listen) : NULL;
    if (!ps->shape.meet || (opt->listen && !ps->shape.listen))
        return fault_set(f, ERR_NOMEM, "no memory for a parameter server");
    return ERR_OK;
}

enum err ps_new(const struct mlt_ps_options *opt, const struct peers_ops *ops,
                struct mlt_ps **out, struct fault *f)
{
    struct mlt_ps *ps = mem_calloc(1, sizeof(*ps));
    enum err err;

    assert(opt->size == sizeof(*opt));
    assert(opt->workers > 0);
    if (!ps)
        return fault_set(f, ERR_NOMEM, "no memory for a parameter server");
    ps->wire = ops;
    ps->active = ps->saving.checkpoint = BRANCH_NONE;
    err = take_names(ps, opt, f);
    if (!err)
        err = take_numbers(ps, opt, f);
    if (!err)
        err = take_nodes(ps, opt, f);
    if (err)
        mlt_ps_free(ps);
    else
        *out = ps;
    return err;
}

unsigned mlt_ps_version(void)
{
    return MLT_PS_VERSION;
}

unsigned mlt_ps_workers(const struct mlt_ps *ps)
{
    return ps->shape.all_workers;
}

/* Written so that NaN is refused. */
enum err ps_set_learning_rate(struct mlt_ps *ps, double learning_rate)
{
    if (!(learning_rate >= 0 && isfinite((float)learning_rate)))
        return ERR_INVAL;
    ps->params.learning_rate = (float)learning_rate;
    return ERR_OK;
}

enum err ps_set_momentum(struct mlt_ps *ps, double momentum)
{
    if (!(momentum >= 0 && momentum < 1))
        return ERR_INVAL;
    ps->params.momentum = (float)momentum;
    return ERR_OK;
}

enum err ps_set_weight_decay(struct mlt_ps *ps, double decay)
{
    if (!(decay >= 0 && isfinite((float)decay)))
        return ERR_INVAL;
    ps->params.weight_decay = (float)decay;
    return ERR_OK;
}

void ps_set_warmup(struct mlt_ps *ps, uint64_t clocks, uint64_t done)
{
    assert(clocks < UINT64_C(1) << 53 && done < UINT64_C(1) << 53);
    ps->params.warmup = clocks;
    ps->params.warmed = done;
}

enum err ps_set_rule(struct mlt_ps *ps, uint32_t rule)
{
    if (!rule_is_choice(rule))
        return ERR_INVAL;
    ps->params.rule = rule;
    return ERR_OK;
}

enum err ps_set_staleness(struct mlt_ps *ps, unsigned staleness)
{
    if (staleness > PS_STALENESS_MAX)
        return ERR_INVAL;
    ps->staleness = staleness;
    return ERR_OK;
}

enum err ps_set_quorum(struct mlt_ps *ps, unsigned k)
{
    if (k > PS_QUORUM_MAX)
        return ERR_INVAL;
    ps->quorum = k;
    return ERR_OK;
}

enum err ps_set_bandwidth(struct mlt_ps *ps, double mbps)
{
    if (mbps != 0 &&
        !(mbps >= PS_BANDWIDTH_LEAST_MBPS && mbps <= PS_BANDWIDTH_MOST_MBPS))
        return ERR_INVAL;
    ps->bandwidth_mbps = mbps;
    return ERR_OK;
}

void ps_set_device_memory(struct mlt_ps *ps, uint64_t bytes)
{
    assert(!ps->device);
    ps->device_memory = bytes;
}

int mlt_ps_set_bandwidth(struct mlt_ps *ps, double mbps)
{
    return (int)ps_set_bandwidth(ps, mbps);
}

int mlt_ps_set_learning_rate(struct mlt_ps *ps, double learning_rate)
{
    return (int)ps_set_learning_rate(ps, learning_rate);
}

int mlt_ps_set_momentum(struct mlt_ps *ps, double momentum)
{
    return (int)ps_set_momentum(ps, momentum);
}

int mlt_ps_set_weight_decay(struct mlt_ps *ps, double decay)
{
    return (int)ps_set_weight_decay(ps, decay);
}

int mlt_ps_set_update_rule(struct mlt_ps *ps, const char *name)
{
    uint32_t rule;
    enum err err = rule_choice(name, &rule, NULL);

    return (int)(err ? err : ps_set_rule(ps, rule));
}

int mlt_ps_set_staleness(struct mlt_ps *ps, unsigned staleness)
{
    return (int)ps_set_staleness(ps, staleness);
}

/* ---- tables -------------------------------------------------------------- */

enum err ps_table_find(const struct mlt_ps *ps, const char *name,
                       mlt_table *out)
{
    assert(name && out);
    for (size_t t = 0; t < ps->shape.tables; t++)
        if (strcmp(ps->shape.table[t].name, name) == 0) {
            *out = (mlt_table)t;
            return ERR_OK;
        }
    return ERR_NOENT;
}

static enum err add_table(struct mlt_ps *ps,
                          const struct mlt_table_options *opt, struct fault *f)
{
    const struct rule_ops *rule = ps->default_rule;
    struct table t;
    mlt_table other;
    enum err err;

    if (opt->size == sizeof(*opt) && opt->rule)
        rule = rules_find(&ps->rules, opt->rule);
    err = table_init(&t, opt, rule, f);
    if (err)
        return err;
    if (ps_table_find(ps, t.name, &other) == ERR_OK)
        return fault_set(f, ERR_EXIST, "table %s is declared twice", t.name);
    if (ps->shape.tables == TABLES_MAX)
        return fault_set(f, ERR_LIMIT, "table %s: there are %d already", t.name,
                         TABLES_MAX);
    if (mem_grow((void **)&ps->shape.table, &ps->tables_room,
                 sizeof(*ps->shape.table), ps->shape.tables + 1) != 0)
        return fault_set(f, ERR_NOMEM, "table %s: out of memory", t.name);
    if (mem_grow((void **)&ps->shape.placement, &ps->placement_room,
                 sizeof(*ps->shape.placement), ps->shape.tables + 1) != 0)
        return fault_set(f, ERR_NOMEM, "table %s: out of memory", t.name);
    if (table_has_keys(&t) && ps->shape.nodes > 1)
        return fault_set(f, ERR_UNSUPPORTED,
                         "table %s: keys (MLT_KEYED) work on one node alone, "
                         "this is one of %u",
                         t.name, ps->shape.nodes);
    table_partition(&t, ps->shape.all_workers);
    placement_init(&ps->shape.placement[ps->shape.tables], ps->shape.node,
                   ps->shape.nodes, ps->shape.workers, t.rows);
    ps->shape.table[ps->shape.tables++] = t;
    return ERR_OK;
}

int mlt_ps_table(struct mlt_ps *ps, const struct mlt_table_options *opt,
                 mlt_table *out, struct mlt_error *err)
{
    struct fault f = {0};

    assert(opt && out);
    if (ps->started)
        ps_misuse("mlt_ps_table after mlt_ps_start");
    if (add_table(ps, opt, &f))
        return ps_give_error(err, &f);
    *out = (mlt_table)(ps->shape.tables - 1);
    return ERR_OK;
}

unsigned ps_tables(const struct mlt_ps *ps)
{
    return (unsigned)ps->shape.tables;
}

struct ps_table_info ps_table_info(const struct mlt_ps *ps, mlt_table table)
{
    const struct table *t = &ps->shape.table[table];

    assert(table < ps->shape.tables);
    return (struct ps_table_info){
        .name = t->name,
        .rows = t->rows,
        .width = t->width,
        .type = t->type,
        .access = t->access,
        .rule = t->rule ? t->rule->name : "",
        .rule_of_run = t->rule_of_run,
        .uses_learning_rate = t->rule && t->rule->uses_learning_rate,
        .uses_momentum = t->rule && t->rule->uses_momentum,
        .saved = t->access != MLT_LOCAL && !(t->flags & MLT_NOT_SAVED),
    };
}

void mlt_owned_rows(const struct mlt_ps *ps, mlt_table table, unsigned index,
                    uint64_t *first, uint64_t *count)
{
    if (table >= ps->shape.tables || index >= ps->shape.all_workers)
        ps_misuse("mlt_owned_rows: table %u of %zu, worker %u of %u", table,
                  ps->shape.tables, index, ps->shape.all_workers);
    table_part(&ps->shape.table[table], ps->shape.all_workers, index, first,
               count);
}

/* ---- what is expected ---------------------------------------------------- */

/* Knowledge that has no room is as if it had not been given. */
int mlt_ps_expect(struct mlt_ps *ps, mlt_table table, unsigned worker,
                  uint64_t part, unsigned touch, size_t n,
                  const uint64_t rows[])
{
    const struct table *t;
    unsigned local = worker - ps->shape.node * ps->shape.workers;
    enum err err = ERR_OK;

    if (ps->started || table >= ps->shape.tables ||
        worker >= ps->shape.all_workers ||
        (touch & ~(unsigned)(MLT_READS | MLT_UPDATES)))
        ps_misuse("mlt_ps_expect: %s", ps->started
                                           ? "after mlt_ps_start"
                                           : "no such table, worker or touch");
    t = &ps->shape.table[table];
    if (t->access != MLT_SHARED)
        ps_misuse("mlt_ps_expect: table %s is not shared", t->name);
    for (size_t i = 0; i < n; i++)
        if (rows[i] >= t->rows)
            ps_misuse("mlt_ps_expect: table %s has no row %llu", t->name,
                      (unsigned long long)rows[i]);
    if (!shape_gathers(&ps->shape, t) || local >= ps->shape.workers)
        return ERR_OK;
    for (size_t i = 0; i < n && !err; i++)
        err = placement_expect(&ps->shape.placement[table], local, part,
                               rows[i], touch & MLT_READS, touch & MLT_UPDATES,
                               ps->shape.places);
    return (int)err;
}

uint64_t mlt_row_at(const struct mlt_ps *ps, mlt_table table, uint64_t place)
{
    if (table >= ps->shape.tables || place >= ps->shape.table[table].rows)
        ps_misuse("mlt_row_at: table %u of %zu has no place %llu", table,
                  ps->shape.tables, (unsigned long long)place);
    return table_row_at(&ps->shape.table[table], place);
}

/* ---- the end ------------------------------------------------------------- */

void mlt_ps_free(struct mlt_ps *ps)
{
    if (!ps)
        return;
    start_undo(ps);
    for (size_t t = 0; t < ps->shape.tables; t++)
        versions_free(ps->history[t]);
    device_free(ps->device);
    rules_deinit(&ps->rules);
    mem_free(ps->shape.meet);
    mem_free(ps->shape.listen);
    mem_free(ps->saving.mover);
    mem_free(ps->shape.placement);
    mem_free(ps->shape.table);
    mem_free(ps);
}

/* ---- workers ------------------------------------------------------------- */

struct mlt_worker *ps_worker(struct mlt_ps *ps, unsigned index)
{
    assert(ps->started && index < ps->shape.workers);
    return &ps->shape.worker[index];
}

unsigned ps_worker_local(const struct mlt_worker *w)
{
    return w->index;
}

void ps_worker_set_user(struct mlt_worker *w, void *user)
{
    assert(w);
    w->user = user;
}

void *ps_worker_user(const struct mlt_worker *w)
{
    return w->user;
}

double ps_worker_warmth(const struct mlt_worker *w)
{
    const struct rule_params one = {.learning_rate = 1,
                                    .warmup = w->ps->params.warmup,
                                    .warmed = w->ps->params.warmed};

    return (double)rule_params_at(&one, w->clocks).learning_rate;
}

struct ps_counters ps_worker_counters(const struct mlt_worker *w)
{
    return w->counters;
}
