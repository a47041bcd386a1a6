/* Any lines, each a --set, over a configuration that is right: refused with
 * what is wrong where, or accepted with an effective configuration that parses
 * to itself. */
#include "tests/fuzz/config_check.h"

enum { SETS_FUZZ_BYTES = 2048, SETS_FUZZ_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"d\"},"
        " \"tunables\": {\"learning_rate\": {}, \"momentum\": {}},"
        " \"stop\": {\"max_epochs\": 9}}";
    char lines[SETS_FUZZ_BYTES + 1];
    struct option_list sets = {0};
    char *at = lines, *line;

    if (size > SETS_FUZZ_BYTES)
        return 0;
    prepare();
    if (size > 0)
        memcpy(lines, data, size);
    lines[size] = '\0';
    while ((line = strsep(&at, "\n")) && sets.len < SETS_FUZZ_MAX)
        sets.item[sets.len++] = line;
    check_parse(text, sizeof(text) - 1, &sets);
    return 0;
}
