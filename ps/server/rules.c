#include "ps/server/rules.h"

#include "base/mem.h"
#include "mltune/rule.h"
#include "ps/server/core.h"
#include "ps/server/errors.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { STORED_NAME_MAX = 32 };

struct own_rule {
    struct rule_ops ops;
    struct mlt_rule_ops stored; /* of one that is known by its name alone */
    char name[STORED_NAME_MAX + 1];
};

const struct rule_ops *rules_find(const struct own_rules *r, const char *name)
{
    assert(name);
    for (unsigned i = 0; i < r->n; i++)
        if (!r->rule[i]->name[0] && strcmp(r->rule[i]->ops.name, name) == 0)
            return &r->rule[i]->ops;
    return rule_find(name);
}

/* Those that a program has added. */
static unsigned added(const struct own_rules *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->n; i++)
        n += !r->rule[i]->name[0];
    return n;
}

/* NULL: out of memory. */
static struct own_rule *add(struct own_rules *r)
{
    struct own_rule *x = mem_calloc(1, sizeof(*x));

    assert(r->n < sizeof(r->rule) / sizeof(*r->rule));
    if (x)
        r->rule[r->n++] = x;
    return x;
}

/* Errors: those of rule_user; ERR_EXIST, ERR_LIMIT, ERR_NOMEM. */
static enum err rules_add(struct own_rules *r, const struct mlt_rule_ops *ops,
                          void *arg, struct fault *f)
{
    struct rule_ops checked;
    struct own_rule *x;
    enum err err = rule_user(ops, arg, "the update rule", &checked, f);

    if (err)
        return err;
    if (rules_find(r, ops->name))
        return fault_set(f, ERR_EXIST, "update rule %s is added twice",
                         ops->name);
    if (added(r) == MLT_RULES_MAX)
        return fault_set(f, ERR_LIMIT, "update rule %s: %d were added already",
                         ops->name, MLT_RULES_MAX);
    x = add(r);
    if (!x)
        return fault_set(f, ERR_NOMEM, "update rule %s: out of memory",
                         ops->name);
    x->ops = checked;
    return ERR_OK;
}

/* Workers of a server that holds a stored state run nothing. */
static void apply_none(const struct mlt_rule_batch *batch, void *arg)
{
    (void)batch;
    (void)arg;
    assert(!"a stored rule is applied");
}

/* A rule that is known by its @name alone and remembers @numbers of each row,
 * which nothing will ever be applied by. It is not found by name. NULL: out of
 * memory. */
static const struct rule_ops *
rules_add_stored(struct own_rules *r, const char *name, unsigned numbers)
{
    struct own_rule *x = add(r);

    if (!x)
        return NULL;
    snprintf(x->name, sizeof(x->name), "%s", name);
    x->stored = (struct mlt_rule_ops){.version = MLT_RULE_VERSION,
                                      .name = x->name,
                                      .summary = "of a stored state",
                                      .apply = apply_none};
    x->ops = (struct rule_ops){.name = x->name,
                               .summary = x->stored.summary,
                               .types = 1u << MLT_F32,
                               .tail = numbers,
                               .user = &x->stored};
    return &x->ops;
}

void rules_deinit(struct own_rules *r)
{
    for (unsigned i = 0; i < r->n; i++)
        mem_free(r->rule[i]);
    *r = (struct own_rules){.n = 0};
}

int mlt_ps_add_rule(struct mlt_ps *ps, const struct mlt_rule_ops *ops,
                    void *arg, struct mlt_error *err)
{
    struct fault f = {0};

    assert(ps && ops);
    if (ps->started)
        ps_misuse("mlt_ps_add_rule after mlt_ps_start");
    return rules_add(&ps->rules, ops, arg, &f) ? ps_give_error(err, &f) : 0;
}

int mlt_ps_default_rule(struct mlt_ps *ps, const char *name,
                        struct mlt_error *err)
{
    const struct rule_ops *rule = rules_find(&ps->rules, name);
    struct fault f = {0};

    if (ps->started)
        ps_misuse("mlt_ps_default_rule after mlt_ps_start");
    if (rule) {
        ps->default_rule = rule;
        return 0;
    }
    fault_set(&f, ERR_INVAL, "unknown update rule \"%.80s\"; built in are: %s",
              name, rule_names());
    return ps_give_error(err, &f);
}

enum err ps_table_stored(struct mlt_ps *ps, const struct mlt_table_options *opt,
                         uint32_t row_bytes, struct fault *f)
{
    struct mlt_table_options o = *opt;
    const struct rule_ops *rule;
    struct mlt_error e = {0};
    mlt_table unused;
    int code;

    if (o.rule && ps_tables(ps) < STORE_TABLES_MAX &&
        !rules_find(&ps->rules, o.rule)) {
        if (o.type != MLT_F32 || row_bytes % sizeof(float) != 0 ||
            row_bytes / sizeof(float) < o.width)
            return fault_set(f, ERR_FORMAT,
                             "table %s: %u bytes a row, as no update rule has "
                             "them",
                             o.name, row_bytes);
        rule = rules_add_stored(&ps->rules, o.rule,
                                row_bytes / sizeof(float) - o.width);
        if (!rule)
            return fault_set(f, ERR_NOMEM, "table %s: out of memory", o.name);
        ps->default_rule = rule;
        o.rule = NULL;
    }
    code = mlt_ps_table(ps, &o, &unused, &e);
    if (code == 0)
        return ERR_OK;
    return fault_set(f, code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP,
                     "%s", e.text);
}
