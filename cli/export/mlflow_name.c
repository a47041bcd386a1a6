#include "cli/export/mlflow_name.h"

#include "cli/export/export.h"

#include <stdbool.h>
#include <stdio.h>

static bool same_file(const char *a, const char *b)
{
    while (*a && (*a == '/' ? '.' : *a) == (*b == '/' ? '.' : *b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

void mlflow_name(const struct extras *names, uint32_t index, const char *prefix,
                 char *out, size_t size)
{
    const char *name = names->name[index];
    bool taken = false;

    for (uint32_t i = 0; i < index; i++)
        taken |= same_file(names->name[i], name);
    if (taken)
        snprintf(out, size, "%s%s_%u", prefix, name, index);
    else
        snprintf(out, size, "%s%s", prefix, name);
    for (; *out; out++)
        if (*out == '/')
            *out = '.';
}
