#include "cli/check/rules.h"

#include <assert.h>

static const struct {
    const char *label, *text;
} rules[RULE_COUNT] = {
#define RULE_ROW(label, text) {#label, text},
    RULE_LIST(RULE_ROW)
#undef RULE_ROW
};

const char *rule_label(enum rule rule)
{
    assert((unsigned)rule < RULE_COUNT);
    return rules[rule].label;
}

const char *rule_text(enum rule rule)
{
    assert((unsigned)rule < RULE_COUNT);
    return rules[rule].text;
}
