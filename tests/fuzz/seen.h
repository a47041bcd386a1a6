/* What a target has looked at lately, so that it need not look again: what it
 * says is what another look would find. So an input that shows a fault does so
 * alone as well.
 */
#ifndef FUZZ_SEEN_H
#define FUZZ_SEEN_H

#include "base/crc32c.h"

#include <stdbool.h>
#include <stddef.h>

struct seen {
    struct {
        size_t len;
        uint32_t sum;
        int mark;
    } at[256];
};

/* Whether @bytes[@len], with that @mark (not 0), came lately; it has now. */
static inline bool seen_lately(struct seen *s, const void *bytes, size_t len,
                               int mark)
{
    uint32_t sum = crc32c(0, bytes, len);
    bool same = s->at[sum % 256].sum == sum && s->at[sum % 256].len == len &&
                s->at[sum % 256].mark == mark;

    s->at[sum % 256].sum = sum;
    s->at[sum % 256].len = len;
    s->at[sum % 256].mark = mark;
    return same;
}

#endif
