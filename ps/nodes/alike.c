#include "ps/nodes/alike.h"

#include <assert.h>
#include <stdio.h>

enum { KIND_BITS = 16 };

uint64_t alike_with(uint64_t digest, enum alike kind, uint64_t hash)
{
    unsigned at = (unsigned)kind * KIND_BITS;

    assert(kind < ALIKE_COUNT);
    assert((uint16_t)(digest >> at) == 0);
    return digest | (uint64_t)(uint16_t)hash << at;
}

const char *alike_differs(uint64_t a, uint64_t b, char *out)
{
    static const char *const names[] = {
        [ALIKE_MODEL] = "consistency model or barrier",
        [ALIKE_ACCESS] = "use of access knowledge (access)",
        [ALIKE_RATES] = ("learning rate, momentum, weight decay, update rule "
                         "or staleness")};
    size_t n = 0;

    out[0] = '\0';
    for (unsigned k = 0; k < ALIKE_COUNT; k++)
        if ((uint16_t)((a ^ b) >> k * KIND_BITS) != 0)
            n += (size_t)snprintf(out + n, ALIKE_TEXT_MAX - n, "%s%s",
                                  n ? ", another " : "", names[k]);
    assert(n < ALIKE_TEXT_MAX);
    if (a != b && n == 0) /* kinds that this node does not know */
        snprintf(out, ALIKE_TEXT_MAX, "version of mltune");
    return out;
}
