#include "base/shebang.h"

#include <assert.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool shebang_read(const char *data, size_t len, char out[SHEBANG_MAX])
{
    size_t first = 2, end;

    assert(data || len == 0);
    if (len > SHEBANG_MAX)
        len = SHEBANG_MAX;
    if (len < 2 || memcmp(data, "#!", 2) != 0)
        return false;
    while (first < len && is_blank(data[first]))
        first++;
    end = first;
    while (end < len && !is_blank(data[end]) && data[end] != '\n' &&
           data[end] != '\0')
        end++;
    if (end == first || end == SHEBANG_MAX)
        return false;
    memcpy(out, data + first, end - first);
    out[end - first] = '\0';
    return true;
}
