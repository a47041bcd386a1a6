/* Any bytes as the beginning of a script: no interpreter, or one that is a
 * piece of the line, without blanks, and found again when it is written anew.
 */
#include "base/shebang.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[SHEBANG_MAX], again[SHEBANG_MAX], line[SHEBANG_MAX + 8];
    char *text = malloc(size ? size : 1); /* exactly: reads past it are found */
    int n;

    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    if (shebang_read(text, size, name)) {
        if (!*name || strpbrk(name, " \t\n") ||
            !memmem(text, size, name, strlen(name)))
            abort();
        n = snprintf(line, sizeof(line), "#!%s -x\n", name);
        if (!shebang_read(line, (size_t)n, again) || strcmp(name, again) != 0)
            abort();
    }
    free(text);
    return 0;
}
