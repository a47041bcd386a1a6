/* Any text: it is refused with a reason, or is a consistency model whose rule,
 * written out, reads back the same. */
#include "ps/rows/consistency.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_TEXT_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct barrier_rule *rule)
{
    const struct consistency_ops *model;
    struct barrier_rule again;
    char text[CONSISTENCY_TEXT_MAX];

    consistency_text(rule, text);
    if (consistency_parse(text, &model, &again, NULL) || again.k != rule->k ||
        again.fraction != rule->fraction ||
        again.slower_than != rule->slower_than)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[FUZZ_TEXT_MAX];
    const struct consistency_ops *model = NULL;
    struct barrier_rule rule = {0};
    struct fault f = {0};
    size_t n = size < FUZZ_TEXT_MAX - 1 ? size : FUZZ_TEXT_MAX - 1;

    memcpy(text, data, n);
    text[n] = '\0';
    if (consistency_parse(text, &model, &rule, &f) == ERR_OK)
        round_trip(&rule);
    else if (!f.text[0] || model)
        abort();
    return 0;
}
