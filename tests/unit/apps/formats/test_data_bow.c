#include "apps/data/data.h"
#include "apps/samples/data_info.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static enum err read_text(const char *text, uint64_t limit, struct corpus *c,
                          struct fault *f)
{
    struct data_stream *s;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, strlen(text), &s, f),
                     ERR_OK);
    err = bow_read(s, limit, c, f);
    data_stream_close(s);
    return err;
}

static void expect(const char *text, uint64_t docs, uint32_t words,
                   const char *entries)
{
    struct corpus c = {0};
    struct fault f = {0};
    char got[256] = "";
    size_t n = 0;

    if (read_text(text, UINT64_MAX, &c, &f))
        fail_msg("%s\n%s", f.text, text);
    assert_int_equal(c.docs, docs);
    assert_int_equal(c.words, words);
    for (uint64_t d = 0; d < docs; d++) {
        for (uint64_t i = c.begin[d]; i < c.begin[d + 1]; i++)
            n += (size_t)snprintf(got + n, sizeof(got) - n, "%u:%u ", c.word[i],
                                  c.count[i]);
        n += (size_t)snprintf(got + n, sizeof(got) - n, "| ");
    }
    assert_string_equal(got, entries);
    corpus_deinit(&c);
}

/* Both forms are read, with any blanks, line ends, and empty documents. */
static void bow_forms_are_read(void **state)
{
    (void)state;
    expect("2 0:1 5:3\n1 2:7\n", 2, 6, "0:1 5:3 | 2:7 | ");
    expect("0\n\n  2\t0:1  5:3 \r\n1 2:7", 3, 6, "| 0:1 5:3 | 2:7 | ");
    expect("\n1 0: 2\n", 1, 1, "0:2 | ");
    expect("2\n9\n3\n1 9 4\n2 1 1\n1 2 2\n", 2, 9, "8:4 1:2 | 0:1 | ");
    expect("3\r\n4\r\n1\r\n2 4 1\r\n\r\n", 3, 4, "| 3:1 | | ");
}

static void refuse(const char *text, enum err code, const char *says)
{
    struct corpus c = {0};
    struct fault f = {0};
    enum err err = read_text(text, 1 << 20, &c, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s\n%s: %s\nwanted %s: %s", text, err_name(err), f.text,
                 err_name(code), says);
    assert_null(c.begin);
}

/* A malformed text is refused with line, what was expected and found. */
static void bow_errors_name_the_line(void **state)
{
    (void)state;
    refuse("", ERR_FORMAT, "line 1: expected a number");
    refuse("0\n0\n", ERR_FORMAT, "no word in it");
    refuse("x\n", ERR_FORMAT, "line 1: expected a number: of word:count");
    refuse("1 0:1\n2 0:1\n", ERR_FORMAT, "expected a word");
    refuse("1 0:1\n1 0:1 1:1\n", ERR_FORMAT,
           "line 2: expected the end of the line");
    refuse("1 0:1\n1 0\n", ERR_FORMAT, "line 2: expected \":\"");
    refuse("1 0:1\n1 0:0\n", ERR_FORMAT, "line 2: expected a count");
    refuse("1 0:-4\n", ERR_FORMAT, "found \"-4\"");
    refuse("1 268435456:1\n", ERR_FORMAT, "line 1: expected a word");
    refuse("1 99999999999999999999:1\n", ERR_FORMAT, "...");
    refuse("2 0:16777216 1:1\n", ERR_LIMIT, "over 16777216 tokens");
    refuse("2\n2\n2\n1 1 1\n", ERR_FORMAT, "line 5: expected a document");
    refuse("2\n2\n1\n3 1 1\n", ERR_FORMAT,
           "line 4: expected a document (a number from 1 to 2), found 3");
    refuse("2\n2\n1\n1 3 1\n", ERR_FORMAT, "line 4: expected a word");
    refuse("2\n2\n1\n1 1 1 1\n", ERR_FORMAT, "line 4: expected the end");
    refuse("2\n2\n1\n1 1 1\n1 1 1\n", ERR_FORMAT, "line 5: expected the end");
    refuse("2\n0\n1\n", ERR_FORMAT, "line 2: expected the number of words");
    refuse("2\n1\nx\n", ERR_FORMAT, "line 3: expected the number of entries");
    refuse("1\n1\n2\n1 1 16777216\n1 1 1\n", ERR_LIMIT, "tokens");
    refuse("2\n2\n1000000\n", ERR_LIMIT, "it");
    refuse("9999999999\n2\n1\n", ERR_FORMAT, "2^32");
}

/* Every allocation that fails is reported and undone. */
static void bow_allocation_failure_leaves_nothing(void **state)
{
    static const char *const texts[] = {"2 0:1 5:3\n1 2:7\n",
                                        "2\n9\n3\n1 9 4\n2 1 1\n1 2 2\n"};
    int64_t before = mem_outstanding();

    (void)state;
    for (int t = 0; t < 2; t++) {
        int nth, failed = 1;

        for (nth = 1; failed; nth++) {
            struct data_stream *s;
            struct corpus c = {0};
            enum err err;

            assert_int_equal(
                data_stream_memory("it", texts[t], strlen(texts[t]), &s, NULL),
                ERR_OK);
            mem_fail_at(nth, 0);
            err = bow_read(s, UINT64_MAX, &c, NULL);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
            data_stream_close(s);
            corpus_deinit(&c);
            assert_int_equal(mem_outstanding(), before);
        }
        assert_true(nth > 4);
    }
}

/* A split deals whole documents out by the seed, in order, and loses none. */
static void corpus_split_deals_documents(void **state)
{
    struct corpus c, test, again, other;
    uint64_t tokens;

    (void)state;
    assert_int_equal(
        data_load_bow("gen:bow?docs=300&words=50&tokens=3000", NULL, &c, NULL),
        ERR_OK);
    tokens = c.tokens;
    assert_int_equal(corpus_split(&c, 0.2, 7, &test), ERR_OK);
    assert_int_equal(c.docs + test.docs, 300);
    assert_int_equal(c.tokens + test.tokens, tokens);
    assert_in_range(test.docs, 35, 85);
    assert_int_equal(c.words, 50);
    assert_int_equal(test.words, 50);
    assert_int_equal(corpus_split(&c, 0, 7, &again), ERR_OK);
    assert_int_equal(again.docs, 0);
    mem_fail_at(3, 0);
    tokens = c.tokens;
    assert_int_equal(corpus_split(&c, 0.5, 7, &other), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(c.tokens, tokens);
    corpus_deinit(&c);
    corpus_deinit(&test);
    corpus_deinit(&again);
}

static enum err read_words(const char *text, struct vocabulary *v,
                           struct fault *f)
{
    struct data_stream *s;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, strlen(text), &s, f),
                     ERR_OK);
    err = vocabulary_read(s, UINT64_MAX, v, f);
    data_stream_close(s);
    return err;
}

/* A vocabulary is a word a line; blank lines at its end are none. */
static void vocabulary_is_a_word_a_line(void **state)
{
    struct vocabulary v;
    struct fault f = {0};
    char line[400];
    int64_t before = mem_outstanding();
    int nth;

    (void)state;
    assert_int_equal(read_words("one\r\ntwo words \nthree\n\n\n", &v, &f),
                     ERR_OK);
    assert_int_equal(v.words, 3);
    assert_string_equal(vocabulary_word(&v, 0), "one");
    assert_string_equal(vocabulary_word(&v, 1), "two words");
    assert_string_equal(vocabulary_word(&v, 2), "three");
    vocabulary_deinit(&v);
    assert_int_equal(read_words("one", &v, &f), ERR_OK);
    vocabulary_deinit(&v);
    assert_int_equal(read_words("\n", &v, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "no word"));
    assert_int_equal(read_words("a\n\nb\n", &v, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 2: expected a word, found none"));
    assert_int_equal(read_words("a\n\x1b[2J\n", &v, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 2: expected a word, found a control"));
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    assert_int_equal(read_words(line, &v, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "at most 255 bytes"));
    for (nth = 1; nth <= 3; nth++) {
        struct data_stream *s;

        assert_int_equal(data_stream_memory("it", "a\nb\n", 4, &s, NULL),
                         ERR_OK);
        mem_fail_at(nth, 0);
        assert_int_equal(vocabulary_read(s, UINT64_MAX, &v, NULL), ERR_NOMEM);
        mem_fail_at(0, 0);
        data_stream_close(s);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* Files are found by content, compressed or not; of several it must be said
 * which. */
static void bow_files_are_found(void **state)
{
    struct corpus c;
    struct vocabulary v;
    struct data_info info;
    struct fault f = {0};
    json_t *json;
    unsigned char *packed;
    size_t n;

    (void)state;
    packed = scratch_xz("2 0:1 5:3\n1 2:7\n", 16, &n);
    scratch_mkdir("set");
    scratch_write("set/docs.xz", packed, n);
    free(packed);
    packed = scratch_gzip("a\nb\nc\nd\ne\nf\n", 12, &n);
    scratch_write("set/vocab.gz", packed, n);
    free(packed);
    assert_int_equal(data_load_bow("set", scratch_folder(), &c, &f), ERR_OK);
    assert_int_equal(c.tokens, 11);
    corpus_deinit(&c);
    assert_int_equal(
        data_load_vocabulary("set/vocab.gz", scratch_folder(), &v, &f), ERR_OK);
    assert_int_equal(v.words, 6);
    vocabulary_deinit(&v);
    assert_int_equal(data_describe("set", scratch_folder(), NULL, &info, &f),
                     ERR_OK);
    assert_int_equal(info.kind, DATA_LDAC);
    json = data_info_json(&info);
    assert_int_equal(json_integer_value(json_object_get(json, "tokens")), 11);
    assert_int_equal(json_integer_value(json_object_get(json, "documents")), 2);
    json_decref(json);
    scratch_text("set/docword.txt", "2\n9\n3\n1 9 4\n2 1 1\n1 2 2\n");
    assert_int_equal(data_load_bow("set", scratch_folder(), &c, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "which file is meant"));
    assert_int_equal(data_load_bow("set/docword.txt", scratch_folder(), &c, &f),
                     ERR_OK);
    corpus_deinit(&c);
    assert_int_equal(
        data_describe("set/docword.txt", scratch_folder(), NULL, &info, &f),
        ERR_OK);
    assert_int_equal(info.kind, DATA_DOCWORD);
    assert_int_equal(info.words, 9);
    assert_int_equal(data_load_bow("set/vocab.gz", scratch_folder(), &c, &f),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(f.text, "vocab.gz: expected a bag of words"));
    scratch_mkdir("none");
    scratch_text("none/text", "some words\n");
    assert_int_equal(data_load_bow("none", scratch_folder(), &c, &f),
                     ERR_UNSUPPORTED);
    assert_int_equal(data_load_vocabulary("nowhere", scratch_folder(), &v, &f),
                     ERR_NOENT);
}

/* ---- generated ----------------------------------------------------------- */

/* Equal texts give equal data, another seed other data, and the counts asked
 * for are met exactly; nips has the shape of that corpus. */
static void gen_bow_is_a_function_of_the_text(void **state)
{
    static const char spec[] = "gen:bow?docs=70&words=90&tokens=5000&topics=3";
    struct corpus a, b, c;
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];

    (void)state;
    assert_int_equal(data_load_bow(spec, NULL, &a, NULL), ERR_OK);
    assert_int_equal(data_load_bow(spec, NULL, &b, NULL), ERR_OK);
    assert_int_equal(data_load_bow("gen:bow?docs=70&words=90&tokens=5000&"
                                   "topics=3&seed=2",
                                   NULL, &c, NULL),
                     ERR_OK);
    assert_int_equal(a.docs, 70);
    assert_int_equal(a.words, 90);
    assert_int_equal(a.tokens, 5000);
    assert_int_equal(a.entries, b.entries);
    assert_memory_equal(a.word, b.word, a.entries * sizeof(*a.word));
    assert_memory_equal(a.count, b.count, a.entries * sizeof(*a.count));
    assert_int_equal(c.tokens, 5000);
    assert_true(a.entries != c.entries ||
                memcmp(a.word, c.word, a.entries * sizeof(*a.word)) != 0);
    corpus_deinit(&a);
    corpus_deinit(&b);
    corpus_deinit(&c);
    assert_int_equal(gen_parse("gen:nips", &kind, v, NULL), ERR_OK);
    assert_true(v[0] == 1500 && v[1] == 12419 && v[2] == 1930000);
}

/* The topics told are those drawn from: with one topic, words come as often as
 * it says. */
static void gen_bow_draws_from_its_topics(void **state)
{
    static const char spec[] = "gen:bow?docs=50&words=20&tokens=100000&topics=1"
                               "&beta=1";
    double topic[20], sum = 0, chi = 0, seen[20] = {0};
    struct corpus c;

    (void)state;
    assert_int_equal(gen_bow_topics(spec, topic, NULL), ERR_OK);
    assert_int_equal(data_load_bow(spec, NULL, &c, NULL), ERR_OK);
    for (uint64_t i = 0; i < c.entries; i++)
        seen[c.word[i]] += c.count[i];
    for (int w = 0; w < 20; w++) {
        sum += topic[w];
        if (100000 * topic[w] > 5)
            chi += pow(seen[w] - 100000 * topic[w], 2) / (100000 * topic[w]);
    }
    assert_true(fabs(sum - 1) < 1e-9);
    assert_true(chi < 60);
    corpus_deinit(&c);
}

/* Written out and read back it is the same. */
static void gen_bow_written_reads_back(void **state)
{
    struct corpus a, b;
    struct fault f = {0};

    (void)state;
    if (data_generate("gen:bow?docs=30", scratch_path("out"), &f))
        fail_msg("%s", f.text);
    assert_int_equal(data_load_bow("gen:bow?docs=30", NULL, &a, &f), ERR_OK);
    assert_int_equal(data_load_bow("out", scratch_folder(), &b, &f), ERR_OK);
    assert_int_equal(a.docs, b.docs);
    assert_int_equal(a.entries, b.entries);
    assert_memory_equal(a.begin, b.begin, (a.docs + 1) * sizeof(*a.begin));
    assert_memory_equal(a.word, b.word, a.entries * sizeof(*a.word));
    assert_memory_equal(a.count, b.count, a.entries * sizeof(*a.count));
    corpus_deinit(&a);
    corpus_deinit(&b);
}

/* Impossible specifications, another generator's, too little memory. */
static void gen_bow_bad_specifications_are_refused(void **state)
{
    int64_t before = mem_outstanding();
    struct fault f = {0};
    struct corpus c;
    int nth, failed = 1;

    (void)state;
    assert_int_equal(gen_bow("gen:bow?docs=10&tokens=9", UINT64_MAX, &c, &f),
                     ERR_INVAL);
    assert_non_null(strstr(f.text, "tokens a document"));
    assert_int_equal(gen_bow("gen:ratings", UINT64_MAX, &c, &f), ERR_INVAL);
    assert_int_equal(gen_bow("gen:bow?word=9", UINT64_MAX, &c, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "did you mean \"words\""));
    assert_int_equal(gen_bow("gen:bow", 1000, &c, &f), ERR_LIMIT);
    for (nth = 1; failed; nth++) {
        enum err err;

        mem_fail_at(nth, 0);
        err = gen_bow("gen:bow?docs=5&words=9&tokens=40&topics=2", UINT64_MAX,
                      &c, &f);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            corpus_deinit(&c);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 8);
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bow_forms_are_read),
        cmocka_unit_test(bow_errors_name_the_line),
        cmocka_unit_test(bow_allocation_failure_leaves_nothing),
        cmocka_unit_test(corpus_split_deals_documents),
        cmocka_unit_test(vocabulary_is_a_word_a_line),
        IN_FOLDER(bow_files_are_found),
        cmocka_unit_test(gen_bow_is_a_function_of_the_text),
        cmocka_unit_test(gen_bow_draws_from_its_topics),
        IN_FOLDER(gen_bow_written_reads_back),
        cmocka_unit_test(gen_bow_bad_specifications_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
