#include "apps/samples/csv_column.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool csv_column_is_name(const char *column)
{
    char *end;

    if (!column || strcmp(column, "last") == 0 || strcmp(column, "first") == 0)
        return false;
    (void)strtol(column, &end, 10);
    return *end != '\0';
}

bool csv_column_find(char *const *name, size_t n, const char *column,
                     size_t *out)
{
    long at;
    char *end;

    assert(n > 0 && out);
    if (!column || strcmp(column, "last") == 0 ||
        strcmp(column, "first") == 0) {
        *out = column && *column == 'f' ? 0 : n - 1;
        return true;
    }
    at = strtol(column, &end, 10);
    if (*end == '\0' && end != column) {
        at = at < 0 ? (long)n + at : at - 1;
        *out = (size_t)at;
        return at >= 0 && at < (long)n;
    }
    for (size_t i = 0; name && i < n; i++) {
        *out = i;
        if (strcmp(name[i], column) == 0)
            return true;
    }
    return false;
}
