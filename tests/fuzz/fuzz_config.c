/* Any bytes as a run configuration, and what follows a zero byte as one --set:
 * refused with located errors, or accepted with an effective configuration that
 * parses to itself. */
#include "tests/fuzz/config_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t len = strnlen(text, size);
    struct option_list sets = {0};
    char set[256] = "";

    prepare();
    if (len < size) {
        size_t n = size - len - 1;

        memcpy(set, text + len + 1, n < sizeof(set) ? n : sizeof(set) - 1);
        sets.item[sets.len++] = set;
    }
    check_parse(text, len, &sets);
    return 0;
}
