/* Update rules that a server has beside the built-in ones: a user's
 * (mltune/rule.h), and those of stored states whose rule is not at hand.
 * Control thread, before mlt_ps_start. */
#ifndef PS_RULES_H
#define PS_RULES_H

#include "base/fault.h"
#include "branches/store.h"
#include "ps/rows/rule.h"

#include <stddef.h>

struct own_rule;

/* Zeroed: none. */
struct own_rules {
    /* Owned; none moves. Of a stored state each table may have one. */
    struct own_rule *rule[MLT_RULES_MAX + STORE_TABLES_MAX];
    unsigned n;
};

/* The server's own rule of that name, or a built-in one; NULL: none. */
const struct rule_ops *rules_find(const struct own_rules *r, const char *name);

void rules_deinit(struct own_rules *r);

#endif
