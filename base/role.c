#include "base/role.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {
    [ROLE_UNSET] = "anybody", [ROLE_ANYBODY] = "anybody", [ROLE_READ] = "read",
    [ROLE_RUN] = "run",       [ROLE_ADMIN] = "admin",
};

const char *role_name(enum role role)
{
    assert((unsigned)role <= ROLE_ADMIN);
    return names[role];
}

enum role role_of_name(const char *name)
{
    assert(name);
    for (enum role r = ROLE_READ; r <= ROLE_ADMIN; r++)
        if (strcmp(names[r], name) == 0)
            return r;
    return ROLE_UNSET;
}
