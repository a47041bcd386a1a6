/* Any bytes as what others wrote, to be shown: what comes of them is UTF-8
 * without anything that a terminal would obey, and the same however they are
 * cut into pieces. What is plain stays as it is. */
#include "base/mem.h"
#include "cli/basics/printable.h"
#include "tests/fuzz/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const char *s, size_t n, size_t piece, struct text *out)
{
    struct printable p = {.len = 0};

    for (size_t at = 0; at < n; at += piece)
        printable_add(&p, s + at, n - at < piece ? n - at : piece, out);
    printable_end(&p, out);
    must(!text_lost(out));
}

static void check_shown(const char *s, size_t n)
{
    must(text_bytes_are_utf8(s, n));
    for (size_t i = 0; i < n;) {
        size_t k = text_utf8_length(s + i, n - i);

        must(k > 0);
        must(s[i] == '\n' || s[i] == '\t' || !text_is_control(s + i, k));
        i += k;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct text whole = {0}, cut = {0}, again = {0};

    show((const char *)data, size, size ? size : 1, &whole);
    show((const char *)data, size, 1, &cut);
    must(text_length(&whole) == text_length(&cut));
    must(strcmp(text_so_far(&whole), text_so_far(&cut)) == 0);
    check_shown(text_so_far(&whole), text_length(&whole));
    show(text_so_far(&whole), text_length(&whole), 3, &again);
    must(strcmp(text_so_far(&again), text_so_far(&whole)) == 0);
    text_deinit(&whole);
    text_deinit(&cut);
    text_deinit(&again);
    must(mem_outstanding() == before);
    return 0;
}
