/* Texts: words, sentences, vocabularies; the loader, the generator. */
#include "apps/data/data.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static enum err read_bytes(const char *text, size_t n,
                           const struct words_options *o, uint64_t limit,
                           struct text_words *w, struct fault *f)
{
    struct data_stream *stream;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, n, &stream, f), ERR_OK);
    err = words_read(w, stream, o, limit, f);
    data_stream_close(stream);
    return err;
}

/* The words of @w, sentences between bars. */
static void expect_words(const struct text_words *w, const char *wanted)
{
    char text[512] = "";
    size_t n = 0;

    for (uint64_t i = 0; i < w->count; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
                              i && w->word[i] != WORDS_BREAK &&
                                      w->word[i - 1] != WORDS_BREAK
                                  ? " "
                                  : "",
                              w->word[i] == WORDS_BREAK
                                  ? "|"
                                  : vocabulary_word(&w->map.name, w->word[i]));
    assert_string_equal(text, wanted);
}

/* What words and sentences are, by each setting. */
static void words_are_what_the_settings_say(void **state)
{
    static const char text[] =
        "\xef\xbb\xbfThe 'cat's' \xe2\x80\x9c"
        "Don\xe2\x80\x99t!\xe2\x80\x9d\r\n"
        "new_york--\xc3\x89tude \xe2\x80\x94 \xc2\xabna\xc3\xafve\xc2\xbb\n"
        "\n\n3.5 \xe6\x97\xa5\xe6\x9c\xac\xe3\x80\x82\x01x";
    static const struct {
        struct words_options o;
        const char *wanted;
    } forms[] = {
        {{WORDS_LETTERS, WORDS_LINES, false},
         "the cat's don't|new_york \xc3\x89tude na\xc3\xafve|"
         "3 5 \xe6\x97\xa5\xe6\x9c\xac x|"},
        {{WORDS_LETTERS, WORDS_PARAGRAPHS, true},
         "The cat's Don't new_york \xc3\x89tude na\xc3\xafve|"
         "3 5 \xe6\x97\xa5\xe6\x9c\xac x|"},
        {{WORDS_BLANKS, WORDS_FILES, false},
         "the 'cat's' \xe2\x80\x9c"
         "don\xe2\x80\x99t!\xe2\x80\x9d new_york--\xc3\x89tude "
         "\xe2\x80\x94 \xc2\xabna\xc3\xafve\xc2\xbb 3.5 "
         "\xe6\x97\xa5\xe6\x9c\xac\xe3\x80\x82 x|"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct text_words w = {0};
        struct fault f = {0};

        if (read_bytes(text, sizeof(text) - 1, &forms[i].o, UINT64_MAX, &w, &f))
            fail_msg("%s", f.text);
        expect_words(&w, forms[i].wanted);
        words_deinit(&w);
    }
}

/* Rare words go, the others are numbered by how often they occur. */
static void words_are_numbered_by_frequency(void **state)
{
    static const char text[] = "b a c\nrare\na a b d d\n";
    static const uint64_t times[] = {3, 2, 2};
    const struct words_options usual = {0};
    struct text_words w = {0};

    (void)state;
    assert_int_equal(
        read_bytes(text, strlen(text), &usual, UINT64_MAX, &w, NULL), ERR_OK);
    assert_int_equal(w.tokens, 9);
    assert_int_equal(words_finish(&w, 2), ERR_OK);
    expect_words(&w, "b a|a a b d d|");
    assert_int_equal(w.map.name.words, 3);
    assert_string_equal(vocabulary_word(&w.map.name, 0), "a");
    assert_string_equal(vocabulary_word(&w.map.name, 1), "b");
    assert_memory_equal(w.times, times, sizeof(times));
    assert_int_equal(w.tokens, 7);
    assert_int_equal(w.dropped, 2);
    assert_int_equal(word_map_find(&w.map, "d", 1), 2);
    assert_int_equal(word_map_find(&w.map, "rare", 4), WORD_NONE);
    words_deinit(&w);
}

/* Words of any number are found again, in windows of any place. */
static void many_words_are_found(void **state)
{
    enum { MANY = 30000 };
    const struct words_options usual = {0};
    char *text = malloc(MANY * 8), *p = text, word[16];
    struct text_words w = {0};

    (void)state;
    for (int i = 0; i < MANY; i++)
        p += sprintf(p, "w%d ", i);
    assert_int_equal(
        read_bytes(text, (size_t)(p - text), &usual, UINT64_MAX, &w, NULL),
        ERR_OK);
    assert_int_equal(w.map.name.words, MANY);
    for (int i = 0; i < MANY; i++) {
        int n = sprintf(word, "w%d", i);

        assert_int_equal(word_map_find(&w.map, word, (size_t)n), i);
    }
    words_deinit(&w);
    free(text);
}

static void refuse(const char *text, size_t n, uint64_t limit, enum err code,
                   const char *says)
{
    const struct words_options usual = {0};
    struct text_words w = {0};
    struct fault f = {0};
    enum err err = read_bytes(text, n, &usual, limit, &w, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s\nwanted %s: %s", err_name(err), f.text, err_name(code),
                 says);
    words_deinit(&w);
}

/* Latin-1 is refused with the line and what to do; too long words are dropped,
 * memory is counted. */
static void words_errors_say_where(void **state)
{
    const struct words_options usual = {0};
    char *text = malloc(100001);
    struct text_words w = {0};

    (void)state;
    refuse("a\nna\xefve", 7, UINT64_MAX, ERR_FORMAT,
           "it: line 2: expected UTF-8, found the byte 0xef (iconv");
    refuse("a \xe2\x80", 4, UINT64_MAX, ERR_FORMAT, "line 1");
    for (int i = 0; i < 20000; i++)
        sprintf(text + 5 * i, "%04d ", i % 10000);
    refuse(text, 100000, 50000, ERR_LIMIT, "it");
    memset(text, 'x', 600);
    text[600] = ' ';
    text[601] = 'y';
    assert_int_equal(read_bytes(text, 602, &usual, UINT64_MAX, &w, NULL),
                     ERR_OK);
    expect_words(&w, "y|");
    assert_int_equal(w.dropped, 1);
    words_deinit(&w);
    free(text);
}

static enum err know(const char *text, struct text_words *w, struct fault *f)
{
    struct data_stream *stream;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, strlen(text), &stream, f),
                     ERR_OK);
    err = words_know(w, stream, UINT64_MAX, f);
    data_stream_close(stream);
    return err;
}

/* A vocabulary fixes the words: others are dropped, its counts stay. */
static void vocabulary_fixes_the_words(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {{"a 3\nb\n", "line 2: expected how often the word occurs"},
               {"a 0\n", "line 1: expected how often"},
               {"a 1.5\n", "line 1: expected how often"},
               {"a -1\n", "line 1: expected how often"},
               {"a 3 4\n", "line 1: expected the end of the line"},
               {"a 3\na 3\n", "line 2: expected a word that is not there"},
               {" a 3\n", "line 1: expected a word"},
               {"\xff 3\n", "line 1: expected a word (UTF-8"},
               {"", "no word in it"}};
    const struct words_options usual = {0};
    struct text_words w = {0};
    struct fault f = {0};

    (void)state;
    if (know("the 9\ncat 2\n", &w, &f))
        fail_msg("%s", f.text);
    assert_int_equal(
        read_bytes("The cat sat.\n", 13, &usual, UINT64_MAX, &w, NULL), ERR_OK);
    expect_words(&w, "the cat|");
    assert_int_equal(w.dropped, 1);
    assert_int_equal(w.times[0], 9);
    assert_int_equal(w.tokens, 2);
    words_deinit(&w);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(know(bad[i].text, &w, &f), ERR_FORMAT);
        if (!strstr(f.text, bad[i].says))
            fail_msg("%s: wanted %s", f.text, bad[i].says);
    }
}

/* A generated text that is written reads back the same; folders are read file
 * by file; what is no text is refused. */
static void gen_text_reads_back(void **state)
{
    static const char spec[] = "gen:text?tokens=2000&seed=4";
    const struct words_options usual = {0};
    struct text_words a = {0}, b = {0}, c = {0};
    struct fault f = {0};
    char path[512];

    (void)state;
    assert_int_equal(data_load_words(spec, NULL, &usual, &a, &f), ERR_OK);
    assert_int_equal(a.tokens, 2000);
    snprintf(path, sizeof(path), "%s", scratch_path("t.txt"));
    assert_int_equal(data_generate(spec, path, &f), ERR_OK);
    assert_int_equal(data_load_words(path, NULL, &usual, &b, &f), ERR_OK);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.word, b.word, a.count * sizeof(*a.word));
    scratch_text("more.txt", "some more\n");
    scratch_write("x", "\0\1\2", 3);
    assert_int_equal(data_load_words(".", scratch_folder(), &usual, &c, &f),
                     ERR_OK);
    assert_int_equal(c.tokens, 2002);
    words_deinit(&a);
    words_deinit(&b);
    words_deinit(&c);
    assert_int_equal(data_load_words("x", scratch_folder(), &usual, &a, &f),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(f.text, "expected a text, found unknown binary"));
    assert_int_equal(data_load_words("gen:bow", NULL, &usual, &a, &f),
                     ERR_INVAL);
    words_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_what_the_settings_say),
        cmocka_unit_test(words_are_numbered_by_frequency),
        cmocka_unit_test(many_words_are_found),
        cmocka_unit_test(words_errors_say_where),
        cmocka_unit_test(vocabulary_fixes_the_words),
        cmocka_unit_test_setup_teardown(gen_text_reads_back, scratch_make,
                                        scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
