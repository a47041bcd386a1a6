#include "base/mem.h"
#include "base/text.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

#include <stdio.h>

/* Text written piece by piece comes out as one text, longer than any of the
 * buffer's sizes. */
static void text_many_writes_give_one_text(void **state)
{
    struct text t = {0};
    char *s;

    (void)state;
    for (int i = 0; i < 1000; i++)
        text_printf(&t, "%d,", i % 10);
    text_puts(&t, "end");
    s = text_take(&t);
    assert_non_null(s);
    assert_int_equal(strlen(s), 2003);
    assert_memory_equal(s + 2000 - 4, "8,9,end", 8);
    mem_free(s);
}

/* Nothing written is the empty text, not NULL. */
static void text_nothing_written_is_empty(void **state)
{
    struct text t = {0};
    char *s = text_take(&t);

    (void)state;
    assert_string_equal(s, "");
    mem_free(s);
}

/* What a shell would read otherwise stays as it is, quotes too. */
static void text_shell_word_is_one_word(void **state)
{
    struct text t = {0};

    (void)state;
    text_shell_word(&t, "it's $HOME \\ `ls`");
    text_puts(&t, " ");
    text_shell_word(&t, "");
    assert_string_equal(t.s, "'it'\\''s $HOME \\ `ls`' ''");
    text_deinit(&t);
}

/* Whichever allocation fails, the text is either whole or refused. */
static void text_allocation_failure_is_remembered(void **state)
{
    int64_t before = mem_outstanding();
    int failed = 1;

    (void)state;
    for (int nth = 1; failed; nth++) {
        struct text t = {0};
        char *s;

        mem_fail_at(nth, 0);
        for (int i = 0; i < 100; i++)
            text_puts(&t, "0123456789");
        s = text_take(&t);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(s == NULL, failed);
        assert_true(failed || strlen(s) == 1000);
        mem_free(s);
    }
    assert_int_equal(mem_outstanding(), before);
}

/* Bytes that a terminal would obey, or that are not UTF-8, are made harmless;
 * the rest stays. */
static void text_clean_leaves_only_what_is_harmless(void **state)
{
    static const struct {
        const char *before, *after;
    } cases[] = {{"plain \xc3\xa9", "plain \xc3\xa9"},
                 {"a\x1b[31mb\n", "a?[31mb?"},
                 {"\x7f\xc2\x9b\xc2\xa0", "??\xc2\xa0"},
                 {"cut \xe2\x82", "cut ??"},
                 {"", ""}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char s[64];

        snprintf(s, sizeof(s), "%s", cases[i].before);
        text_clean(s);
        assert_string_equal(s, cases[i].after);
        assert_true(text_is_utf8(s));
    }
}

/* The distance counts edits; neighbours swapped are one edit, case a half. */
static void text_distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("abc", "abc"), 0);
    assert_int_equal(text_distance("abc", ""), 3);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("saerch", "search"), 1);
    assert_int_equal(text_distance("ABCD", "abcd"), 2);
    assert_int_equal(text_distance("A", "a"), 1);
}

/* It is symmetric, and far longer words than it looks at do no harm. */
static void text_distance_is_symmetric_and_bounded(void **state)
{
    char wide[1000];

    (void)state;
    memset(wide, 'x', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    assert_int_equal(text_distance("moment", "momentum"),
                     text_distance("momentum", "moment"));
    assert_int_equal(text_distance(wide, "x"), 63);
}

/* A typing error finds its word, a beginning too, nonsense finds nothing. */
static void text_nearest_finds_what_is_meant(void **state)
{
    static const char *const names[] = {"learning_rate", "momentum",
                                        "batch_size"};

    (void)state;
    assert_string_equal(text_nearest("learningrate", names, 3),
                        "learning_rate");
    assert_string_equal(text_nearest("momentun", names, 3), "momentum");
    assert_string_equal(text_nearest("batch", names, 3), "batch_size");
    assert_string_equal(text_nearest("Momentum", names, 3), "momentum");
    assert_null(text_nearest("layers", names, 3));
    assert_null(text_nearest("", names, 3));
    assert_null(text_nearest("x", names, 0));
}

/* UTF-8 is what RFC 3629 says: shortest forms, no surrogates, nothing past
 * U+10FFFF, nothing cut. */
static void text_is_utf8_by_rfc_3629(void **state)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xff",
                                      "\xc2",
                                      "\xe2\x82",
                                      "\xf0\x90\x80",
                                      "\xc2"
                                      "a",
                                      "a\xe2\x82"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(text_is_utf8(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(text_is_utf8(bad[i]));
    assert_true(text_bytes_are_utf8("\0", 1));
    assert_false(text_bytes_are_utf8("\xc3\xa9", 1)); /* cut */
    assert_int_equal(text_utf8_length("\xe2\x82\xac", 3), 3);
    assert_int_equal(text_utf8_length("\xe2\x82\xac", 2), 0);
    assert_int_equal(text_utf8_length("", 0), 0);
}

/* Every character that is written is read back whole, begins with a byte that
 * says its length and goes on with bytes that say so; C0, DEL and C1 are
 * control characters, and no others. */
static void text_utf8_write_reads_back(void **state)
{
    char s[4];

    (void)state;
    for (unsigned c = 0; c <= 0x10ffff; c += c < 0x900 ? 1 : 61) {
        size_t len;

        if (c >= 0xd800 && c < 0xe000)
            continue;
        len = text_utf8_write(c, s);
        assert_int_equal(text_utf8_length(s, len), len);
        assert_int_equal(text_utf8_begins(s[0]), len);
        for (size_t i = 1; i < len; i++)
            assert_true(text_utf8_goes_on(s[i]) && !text_utf8_begins(s[i]));
        assert_int_equal(text_is_control(s, len),
                         c < 0x20 || (c >= 0x7f && c < 0xa0));
    }
    assert_int_equal(text_utf8_begins((char)0xc1), 0);
    assert_int_equal(text_utf8_begins((char)0xf5), 0);
}

/* A number is written in the fewest digits that read back the same. */
static void text_number_reads_back(void **state)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {3, "3"},
                 {-17, "-17"},
                 {0.1, "0.1"},
                 {1e-5, "1e-05"},
                 {999999999999999, "999999999999999"},
                 {1e15, "1e+15"},
                 {1e300, "1e+300"},
                 {1.0 / 3, "0.3333333333333333"},
                 {-2.2250738585072014e-308, "-2.2250738585072014e-308"}};
    char text[TEXT_NUMBER_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text_number(cases[i].number, text);
        assert_string_equal(text, cases[i].text);
        assert_true(strtod(text, NULL) == cases[i].number);
    }
}

/* Numbers that are not finite have a name. */
static void text_real_names_what_is_not_finite(void **state)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}, {0.5, "0.5"}};
    char text[TEXT_NUMBER_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text_real(cases[i].number, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_many_writes_give_one_text),
        cmocka_unit_test(text_nothing_written_is_empty),
        cmocka_unit_test(text_shell_word_is_one_word),
        cmocka_unit_test(text_allocation_failure_is_remembered),
        cmocka_unit_test(text_is_utf8_by_rfc_3629),
        cmocka_unit_test(text_utf8_write_reads_back),
        cmocka_unit_test(text_number_reads_back),
        cmocka_unit_test(text_real_names_what_is_not_finite),
        cmocka_unit_test(text_clean_leaves_only_what_is_harmless),
        cmocka_unit_test(text_distance_counts_edits),
        cmocka_unit_test(text_distance_is_symmetric_and_bounded),
        cmocka_unit_test(text_nearest_finds_what_is_meant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
