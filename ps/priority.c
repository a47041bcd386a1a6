#include "ps/priority.h"

#include <assert.h>
#include <string.h>

static const char *const names[PRIORITY_COUNT] = {
    [PRIORITY_RANDOM] = "random",
    [PRIORITY_ROUND_ROBIN] = "round_robin",
    [PRIORITY_ABSOLUTE] = "absolute",
    [PRIORITY_RELATIVE] = "relative",
};

const char *priority_name(enum priority p)
{
    assert(p < PRIORITY_COUNT);
    return names[p];
}

enum priority priority_find(const char *name)
{
    unsigned p = 0;

    while (p < PRIORITY_COUNT && strcmp(names[p], name) != 0)
        p++;
    return (enum priority)p;
}
