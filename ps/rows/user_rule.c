/* Update rules of users' own (mltune/rule.h). */
#include "ps/rows/rule.h"

#include <assert.h>
#include <string.h>

enum { NAME_MAX_BYTES = 31 };

/* Rows and sums are of f32, checked where the table was declared. */
void rule_apply_user(const struct rule_ops *rule, const struct rule_batch *b)
{
    const struct mlt_rule_batch batch = {.size = sizeof(batch),
                                         .rows = b->n,
                                         .row = (float *const *)b->row,
                                         .sum = (const float *const *)b->sum,
                                         .width = b->width,
                                         .slots = b->slots,
                                         .tail = rule->tail,
                                         .learning_rate =
                                             b->params.learning_rate,
                                         .momentum = b->params.momentum};

    assert(rule->user && b->type == MLT_F32);
    rule->user->apply(&batch, rule->arg);
}

static bool is_name(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n > 0 && n <= NAME_MAX_BYTES && name[n] == '\0';
}

/* What makes no rule of it, in words with its name; NULL: nothing. */
static const char *lacks(const struct mlt_rule_ops *ops)
{
    if (!ops->summary)
        return "lacks .summary";
    if (!ops->apply)
        return "lacks .apply";
    if (ops->slots > MLT_RULE_SLOTS_MAX || ops->tail > MLT_RULE_TAIL_MAX)
        return "remembers too much: at most 8 slots and a tail of 1024";
    if (ops->uses & ~(unsigned)(MLT_RULE_LEARNING_RATE | MLT_RULE_MOMENTUM))
        return "uses settings that there are not";
    return NULL;
}

enum err rule_user(const struct mlt_rule_ops *ops, void *arg, const char *file,
                   struct rule_ops *out, struct fault *f)
{
    const char *why;

    assert(ops && file && out);
    if (ops->version != MLT_RULE_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%s was built for version %u of mltune/rule.h, this "
                         "mltune has version %d: build it again",
                         file, ops->version, MLT_RULE_VERSION);
    if (!is_name(ops->name))
        return fault_set(f, ERR_INVAL,
                         "%s: expected a name of 1 to %d of a-z, 0-9 and _",
                         file, NAME_MAX_BYTES);
    if (rule_find(ops->name))
        return fault_set(f, ERR_INVAL,
                         "%s: a built-in rule is called %s already", file,
                         ops->name);
    why = lacks(ops);
    if (why)
        return fault_set(f, ERR_INVAL, "%s: the rule %s %s", file, ops->name,
                         why);
    *out = (struct rule_ops){.name = ops->name,
                             .summary = ops->summary,
                             .types = 1u << MLT_F32,
                             .uses_learning_rate =
                                 ops->uses & MLT_RULE_LEARNING_RATE,
                             .uses_momentum = ops->uses & MLT_RULE_MOMENTUM,
                             .tail = ops->tail,
                             .user = ops,
                             .arg = arg};
    return ERR_OK;
}
