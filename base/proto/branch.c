#include "base/proto/branch.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {"init", "training", "probe", "testing",
                                    "kept"};

const char *branch_type_name(enum branch_type type)
{
    assert((unsigned)type < BRANCH_TYPE_COUNT);
    return names[type];
}

enum branch_type branch_type_of(const char *name)
{
    unsigned i = 0;

    while (i < BRANCH_TYPE_COUNT && strcmp(names[i], name) != 0)
        i++;
    return (enum branch_type)i;
}
