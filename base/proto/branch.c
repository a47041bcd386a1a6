#include "base/proto/branch.h"

#include <assert.h>

static const char *const names[] = {"init", "training", "probe", "testing",
                                    "kept"};

const char *branch_type_name(enum branch_type type)
{
    assert((unsigned)type < BRANCH_TYPE_COUNT);
    return names[type];
}
