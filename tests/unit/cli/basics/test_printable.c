/* Text of others on a terminal: what comes of which bytes. */
#include "base/mem.h"
#include "base/rng.h"
#include "cli/basics/printable.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

/* @s[n] in pieces of @step bytes, the caller's. */
static char *printed(const char *s, size_t n, size_t step)
{
    struct printable t = {.len = 0};
    struct text out = {0};

    for (size_t i = 0; i < n; i += step)
        printable_add(&t, s + i, n - i < step ? n - i : step, &out);
    printable_end(&t, &out);
    return text_take(&out);
}

/* What a terminal would obey, or might, becomes '?'. */
static void printable_shows_what_is_harmless(void **state)
{
    static const struct {
        const char *s, *want;
    } cases[] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {"\x1b[31mred\a\x7f", "?[31mred??"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x86\x92 \xf0\x9f\x99\x82",
         "gr\xc3\xbc\xc3\x9f \xe2\x86\x92 \xf0\x9f\x99\x82"},
        {"\xc2\x9b"
         "31m \xc2\x80 \xc2\x9f \xc2\xa0",
         "?31m ? ? \xc2\xa0"},
        {"\x9b"
         "31m",
         "?31m"},                /* C1 of eight bits */
        {"\xe2\x86", "??"},      /* cut short */
        {"\xe2\x86x", "??x"},    /* by another */
        {"\xed\xa0\x80", "???"}, /* a surrogate */
        {"\xe0\x82\x9b", "???"}, /* C1 in more bytes than it needs */
        {"\xf5\x80\xff\xc0\xaf", "?????"},
        {"one\r\ntwo\r\n", "one\ntwo\n"},
        {"10 %\r20 %\rdone\n", "10 %\n20 %\ndone\n"},
        {"hidden\rshown", "hidden\nshown"},
        {"end\r", "end\n"},
        {"\xc2\r\n", "?\n"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (size_t step = 1; step <= 4; step++) {
            char *got = printed(cases[i].s, strlen(cases[i].s), step);

            assert_string_equal(got, cases[i].want);
            mem_free(got);
        }
    {
        char *got = printed("a\0b", 3, 3);

        assert_string_equal(got, "a?b");
        mem_free(got);
    }
}

/* Any bytes in any pieces: always the same text, UTF-8, without controls. */
static void printable_is_one_for_all_pieces(void **state)
{
    struct rng r;
    char s[64];

    (void)state;
    rng_init(&r, 5);
    for (int round = 0; round < 5000; round++) {
        size_t n = (size_t)(rng_next(&r) % sizeof(s));
        char *whole, *bytes;

        for (size_t i = 0; i < n; i++)
            s[i] = (char)(rng_next(&r) % 3 ? 0xc2 - rng_next(&r) % 0x45
                                           : rng_next(&r));
        whole = printed(s, n, sizeof(s));
        bytes = printed(s, n, 1 + (size_t)(rng_next(&r) % 3));
        assert_string_equal(whole, bytes);
        assert_true(text_is_utf8(whole));
        for (const char *c = whole; *c; c++) {
            assert_true((unsigned char)*c >= ' ' || *c == '\n' || *c == '\t');
            assert_true(*c != 127);
            assert_false((unsigned char)c[0] == 0xc2 &&
                         (unsigned char)c[1] < 0xa0);
        }
        mem_free(whole);
        mem_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printable_shows_what_is_harmless),
        cmocka_unit_test(printable_is_one_for_all_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
