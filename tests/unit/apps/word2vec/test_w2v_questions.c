/* Questions: their forms, their parser, ranks. */
#include "apps/word2vec/w2v_questions.h"

#include <math.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static enum err read_text(const char *text, enum w2v_form form, bool lower,
                          struct w2v_questions *q, struct fault *f)
{
    struct word_map map = {0};
    struct data_stream *s;
    uint32_t n;
    enum err err;

    for (const char *const *w =
             (const char *const[]){"a", "b", "c", "d", "E", NULL};
         *w; w++)
        assert_int_equal(word_map_add(&map, *w, 1, &n), ERR_OK);
    assert_int_equal(data_stream_memory("it", text, strlen(text), &s, NULL),
                     ERR_OK);
    err = w2v_questions_read(q, form, s, &map, lower, UINT64_MAX, f);
    data_stream_close(s);
    word_map_deinit(&map);
    return err;
}

static void forms_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        enum w2v_form form;
    } files[] = {
        {": capitals\nA B C D\n", W2V_ANALOGIES},
        {"\n# from the web\n: x\n", W2V_ANALOGIES},
        {"tiger,cat,7.35\ntiger,tiger,10\n", W2V_SIMILARITIES},
        {"Word 1,Word 2,Score\n", W2V_TEXT},
        {"word1\tword2\tscore\na\tb\t1\n", W2V_SIMILARITIES},
        {"# c\na b 0.5", W2V_SIMILARITIES},
        {"one two 3\nfour five six\n", W2V_TEXT},
        {"First Citizen: speak.\n", W2V_TEXT},
        {"A B C D\n", W2V_TEXT},
        {"", W2V_TEXT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        assert_int_equal(
            w2v_form_of(files[i].text, strlen(files[i].text), true),
            files[i].form);
    /* A last line that is cut off says nothing. */
    assert_int_equal(w2v_form_of("a b 1\nc d", 9, false), W2V_SIMILARITIES);
    assert_int_equal(w2v_form_of("a b 1\nc d", 9, true), W2V_TEXT);
}

static void questions_are_read(void **state)
{
    static const uint32_t analogies[] = {0, 1, 2, 3, 4, WORD_NONE, 0, 1};
    static const uint32_t pairs[] = {0, 1, 0, 0, 4, 3, 0, 0};
    struct w2v_questions q;
    struct fault f = {0};

    (void)state;
    if (read_text(": s\r\nA b C d\r\n\n#x\n: t\nE zz a b", W2V_ANALOGIES, true,
                  &q, &f))
        fail_msg("%s", f.text);
    assert_int_equal(q.count, 2);
    assert_int_equal(q.known, 1);
    assert_memory_equal(q.word, analogies, sizeof(analogies));
    w2v_questions_deinit(&q);
    if (read_text("one,two,score\na,b,7.5\nE , d,\t-1e1\n", W2V_SIMILARITIES,
                  false, &q, &f))
        fail_msg("%s", f.text);
    assert_int_equal(q.count, 2);
    assert_int_equal(q.known, 2);
    assert_memory_equal(q.word, pairs, sizeof(pairs));
    assert_true(q.said[0] > 7.4 && q.said[1] < -9.9);
    w2v_questions_deinit(&q);
    /* Capitals count where they are asked to. */
    assert_int_equal(read_text(": s\nA b c d\n", W2V_ANALOGIES, false, &q, &f),
                     ERR_OK);
    assert_int_equal(q.known, 0);
    w2v_questions_deinit(&q);
}

/* A zero byte is a part of a word, and no word has one. */
static void zero_bytes_match_no_word(void **state)
{
    struct word_map map = {0};
    uint32_t n;

    (void)state;
    assert_int_equal(word_map_add(&map, "a", 1, &n), ERR_OK);
    for (size_t length = 2; length < 40; length++) {
        char word[40] = "a";

        assert_int_equal(word_map_find(&map, word, length), WORD_NONE);
    }
    word_map_deinit(&map);
}

static void malformed_questions_name_the_line(void **state)
{
    static const struct {
        enum w2v_form form;
        const char *text, *says;
    } bad[] = {
        {W2V_ANALOGIES, ": s\na b c\n", "line 2: expected a word (an analogy"},
        {W2V_ANALOGIES, ": s\na b c d e\n", "line 2: expected the end"},
        {W2V_ANALOGIES, ": s\n", "no question in it"},
        {W2V_SIMILARITIES, "a b 1\nc d x\n", "line 2: expected how similar"},
        {W2V_SIMILARITIES, "a b 1\nc d\n", "line 2: expected how similar"},
        {W2V_SIMILARITIES, "a b 1 2\n", "line 1: expected the end"},
        {W2V_SIMILARITIES, "a b 1e999\n", "no question in it"},
    };
    struct w2v_questions q;
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(read_text(bad[i].text, bad[i].form, true, &q, &f),
                         ERR_FORMAT);
        if (!strstr(f.text, bad[i].says))
            fail_msg("%s: wanted %s", f.text, bad[i].says);
    }
}

/* Published: 1 for any rising order, -1 for any falling one; a worked example
 * with two equal values. */
static void spearman_is_the_correlation_of_ranks(void **state)
{
    double a[] = {1, 10, 100, 1000}, b[] = {-3, 0, 2, 2.5};
    double down[] = {4, 3, 2, 1}, up[] = {1, 2, 3, 4};
    double x[] = {1, 2, 2, 3}, y[] = {1, 3, 2, 4}, one[] = {1, 1},
           two[] = {1, 2};
    double r;

    (void)state;
    assert_int_equal(w2v_spearman(a, b, 4, &r), ERR_OK);
    assert_true(fabs(r - 1) < 1e-12);
    assert_int_equal(w2v_spearman(up, down, 4, &r), ERR_OK);
    assert_true(fabs(r + 1) < 1e-12);
    /* Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: 4.5 / sqrt(4.5 x 5). */
    assert_int_equal(w2v_spearman(x, y, 4, &r), ERR_OK);
    assert_true(fabs(r - 4.5 / sqrt(22.5)) < 1e-12);
    assert_int_equal(w2v_spearman(one, two, 2, &r), ERR_OK);
    assert_true(fabs(r) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_told_apart),
        cmocka_unit_test(questions_are_read),
        cmocka_unit_test(zero_bytes_match_no_word),
        cmocka_unit_test(malformed_questions_name_the_line),
        cmocka_unit_test(spearman_is_the_correlation_of_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
