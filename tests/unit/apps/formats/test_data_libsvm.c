/* Sparse samples: the parser of libsvm lines, the loader, the generator. */
#include "apps/data/data.h"
#include "apps/formats/data_text.h"
#include "apps/samples/data_info.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static enum err read_bytes(const char *text, size_t n, uint64_t limit,
                           struct sparse *s, struct fault *f)
{
    struct data_stream *stream;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, n, &stream, f), ERR_OK);
    err = libsvm_read(s, stream, limit, f);
    data_stream_close(stream);
    return err;
}

static void expect(const char *text, const char *samples)
{
    struct sparse s = {0};
    struct fault f = {0};
    char got[256] = "";
    size_t n = 0;

    if (read_bytes(text, strlen(text), UINT64_MAX, &s, &f))
        fail_msg("%s\n%s", f.text, text);
    for (uint64_t i = 0; i < s.count; i++) {
        n += (size_t)snprintf(got + n, sizeof(got) - n, "%g", s.label[i]);
        for (uint64_t e = s.begin[i]; e < s.begin[i + 1]; e++)
            n += (size_t)snprintf(got + n, sizeof(got) - n, " %u:%g",
                                  s.index[e], (double)s.value[e]);
        n += (size_t)snprintf(got + n, sizeof(got) - n, "|");
    }
    assert_string_equal(got, samples);
    sparse_deinit(&s);
}

/* Labels and values of any sign and form are read, with any blanks and line
 * ends, comments, queries, samples without an entry, indexes from 0. */
static void libsvm_forms_are_read(void **state)
{
    (void)state;
    expect("+1 3:1 11:0.5\n-1 1:-2e-1\n", "1 3:1 11:0.5|-1 1:-0.2|");
    expect("# head\n\n 0\t0:1  5:+3 \r\n2.5 # none\n1 2:.5#x", "0 0:1 5:3|2.5|"
                                                               "1 2:0.5|");
    expect("3 qid:7 1:1\n2 qid:8\n", "3 1:1|2|");
    expect("\xef\xbb\xbf-1.25e2 1073741823:1", "-125 1073741823:1|");
}

static void refuse(const char *text, enum err code, const char *says)
{
    struct sparse s = {0};
    struct fault f = {0};
    enum err err = read_bytes(text, strlen(text), 1 << 20, &s, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s\n%s: %s\nwanted %s: %s", text, err_name(err), f.text,
                 err_name(code), says);
    sparse_deinit(&s);
}

/* A malformed text is refused with line, what was expected and found. */
static void libsvm_errors_name_the_line(void **state)
{
    (void)state;
    refuse("", ERR_FORMAT, "no sample in it");
    refuse("# nothing\n\n", ERR_FORMAT, "no sample in it");
    refuse("1 1:1\nx 1:1\n", ERR_FORMAT,
           "it: line 2: expected a label (a finite number), found \"x\"");
    refuse("1e999 1:1\n", ERR_FORMAT, "line 1: expected a label");
    refuse("nan 1:1\n", ERR_FORMAT, "expected a label");
    refuse("1,2 1:1\n", ERR_FORMAT, "expected a blank behind the label");
    refuse("1 2:1 2:1\n", ERR_FORMAT,
           "expected an index above the one before it (they ascend), found "
           "\"2:1\"");
    refuse("1 3:1 2:1\n", ERR_FORMAT, "they ascend");
    refuse("1 -1:1\n", ERR_FORMAT, "expected an index");
    refuse("1 1073741824:1\n", ERR_FORMAT, "expected an index");
    refuse("1 99999999999999999999999:1\n", ERR_FORMAT, "expected an index");
    refuse("1 2\n", ERR_FORMAT, "expected \":\" and a value");
    refuse("1 2:\n", ERR_FORMAT,
           "expected a value (a finite number), found the end of the line");
    refuse("1 2:1e39\n", ERR_FORMAT, "expected a value");
    refuse("1 2:1x\n", ERR_FORMAT, "expected a value");
    refuse("1 2:1:1\n", ERR_FORMAT, "expected a value");
    refuse("1 qid:x 2:1\n", ERR_FORMAT, "expected the number of a query");
    refuse("1 1:1 qid:2\n", ERR_FORMAT, "expected an index");
}

/* A line of many windows is read like any other, and a byte that is zero is
 * refused where it stands. */
static void libsvm_lines_have_no_limit(void **state)
{
    enum { ENTRIES = 200000 };
    char *text = malloc(ENTRIES * 16 + 64);
    struct sparse s = {0};
    struct fault f = {0};
    size_t n = (size_t)sprintf(text, "1");

    (void)state;
    for (int i = 0; i < ENTRIES; i++)
        n += (size_t)sprintf(text + n, " %d:%d", i + 1, i % 7);
    n += (size_t)sprintf(text + n, "\n%300s2 5:1\n", "");
    assert_int_equal(read_bytes(text, n, UINT64_MAX, &s, &f), ERR_OK);
    assert_int_equal(s.entries, ENTRIES + 1);
    assert_int_equal(s.columns, ENTRIES + 1);
    assert_int_equal(s.lowest, 1);
    assert_int_equal(s.count, 2);
    sparse_deinit(&s);
    free(text);
    assert_int_equal(read_bytes("1 1:1\n\0002 1:1\n", 13, UINT64_MAX, &s, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 2: expected a label"));
    sparse_deinit(&s);
}

/* Memory is counted while it loads, not when all is there. */
static void libsvm_memory_is_counted_while_it_loads(void **state)
{
    enum { LINES = 100000 };
    char *text = malloc(LINES * 8 + 1);
    struct sparse s = {0};
    struct fault f = {0};
    size_t n = 0;

    (void)state;
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(text + n, "1 1:1\n");
    assert_int_equal(read_bytes(text, n, 100000, &s, &f), ERR_LIMIT);
    assert_in_range(s.count, 1, LINES / 10);
    sparse_deinit(&s);
    free(text);
}

/* Every allocation that fails is reported and undone. */
static void libsvm_allocation_failure_leaves_nothing(void **state)
{
    static const char text[] = "1 1:1 2:1 3:1\n2 1:1\n3\n4\n5\n6\n7\n8 1:2 2:3 "
                               "3:4 4:5 5:6 6:7\n";
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct data_stream *stream;
        struct sparse s = {0};
        enum err err;

        assert_int_equal(
            data_stream_memory("it", text, strlen(text), &stream, NULL),
            ERR_OK);
        mem_fail_at(nth, 0);
        err = libsvm_read(&s, stream, UINT64_MAX, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        data_stream_close(stream);
        sparse_deinit(&s);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 5);
}

/* The kind is told from a corpus of words by counts that are none. */
static void libsvm_is_known_by_sight(void **state)
{
    static const struct {
        const char *text;
        enum data_kind kind;
    } cases[] = {
        {"-1 3:1 11:1\n+1 5:1\n", DATA_LIBSVM},
        {"2 1:1 3:1\n1 4:2\n", DATA_LDAC},
        {"2 1:1 3:1\n2 4:2\n", DATA_LIBSVM},
        {"2 1:0.5 3:1\n1 4:2\n", DATA_LIBSVM},
        {"# made by hand\n3 qid:1 1:1 2:1\n", DATA_LIBSVM},
        {"1 1:1 # 2 3\n1 2:3\n2 1:1\n", DATA_LIBSVM},
        {"0\n1 4:2\n", DATA_LDAC},
    };
    unsigned dims;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (data_kind_of("it", cases[i].text, strlen(cases[i].text), true,
                         &dims) != cases[i].kind)
            fail_msg("%s", cases[i].text);
}

/* Of a folder the files join by name into two halves, whatever compresses them;
 * one file is training data, whatever its name. */
static void libsvm_folder_has_two_halves(void **state)
{
    static const char text[] = "-1 2:1\n1 1:1\n";
    size_t n;
    unsigned char *gz = scratch_gzip(text, strlen(text), &n);
    struct sparse train = {0}, test = {0};
    struct data_info info;
    json_t *json;

    (void)state;
    scratch_write("a.gz", gz, n);
    free(gz);
    scratch_text("a", text);
    gz = scratch_xz("1 7:1\n", 6, &n);
    scratch_write("a.t.xz", gz, n);
    free(gz);
    assert_int_equal(
        data_load_sparse(".", scratch_folder(), &train, &test, NULL), ERR_OK);
    assert_int_equal(train.count, 2);
    assert_int_equal(test.count, 1);
    assert_int_equal(test.columns, 8);
    sparse_deinit(&train);
    sparse_deinit(&test);
    assert_int_equal(
        data_load_sparse("a.t.xz", scratch_folder(), &train, &test, NULL),
        ERR_OK);
    assert_int_equal(train.count, 1);
    assert_int_equal(test.count, 0);
    sparse_deinit(&train);
    assert_int_equal(data_describe(".", scratch_folder(), NULL, &info, NULL),
                     ERR_OK);
    assert_true(info.readable);
    json = data_info_json(&info);
    assert_int_equal(json_array_size(json_object_get(json, "labels")), 2);
    assert_int_equal(json_integer_value(json_object_get(json, "highest_index")),
                     2);
    json_decref(json);
    data_info_deinit(&info);
    scratch_text("b", "words of text\n");
    {
        struct fault f = {0};

        assert_int_equal(
            data_load_sparse("b", scratch_folder(), &train, &test, &f),
            ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "expected sparse samples"));
    }
}

/* A split deals whole samples out by the seed, in order, and loses none. */
static void sparse_split_deals_samples(void **state)
{
    struct sparse s, test, unused = {0};
    uint64_t entries;

    (void)state;
    assert_int_equal(
        data_load_sparse("gen:libsvm?samples=500", NULL, &s, &unused, NULL),
        ERR_OK);
    entries = s.entries;
    assert_int_equal(sparse_split(&s, 0.2, 7, &test), ERR_OK);
    assert_int_equal(s.count + test.count, 500);
    assert_int_equal(s.entries + test.entries, entries);
    assert_in_range(test.count, 70, 130);
    assert_int_equal(s.columns, test.columns);
    sparse_deinit(&s);
    sparse_deinit(&test);
}

/* What the generator makes reads back the same from the file it is written to,
 * with labels of two classes, of several, and numbers. */
static void gen_libsvm_reads_back(void **state)
{
    static const struct {
        const char *spec;
        size_t labels;
    } cases[] = {{"gen:libsvm?samples=200&columns=50&entries=5", 2},
                 {"gen:libsvm?samples=400&columns=50&classes=3", 3},
                 {"gen:libsvm?samples=200&classes=0&noise=0", 200}};
    char path[512];
    double label[256];

    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("made"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct sparse a = {0}, b = {0}, none = {0};

        assert_int_equal(data_load_sparse(cases[i].spec, NULL, &a, &none, NULL),
                         ERR_OK);
        assert_int_equal(sparse_labels(&a, 256, label), cases[i].labels);
        assert_true(a.lowest >= 1);
        assert_int_equal(data_generate(cases[i].spec, path, NULL), ERR_OK);
        assert_int_equal(data_load_sparse(path, NULL, &b, &none, NULL), ERR_OK);
        assert_int_equal(a.count, b.count);
        assert_int_equal(a.entries, b.entries);
        assert_memory_equal(a.index, b.index, a.entries * sizeof(*a.index));
        assert_memory_equal(a.value, b.value, a.entries * sizeof(*a.value));
        assert_memory_equal(a.label, b.label, a.count * sizeof(*a.label));
        sparse_deinit(&a);
        sparse_deinit(&b);
    }
    {
        struct sparse a = {0}, none = {0};
        struct fault f = {0};

        assert_int_equal(
            data_load_sparse("gen:libsvm?classes=1", NULL, &a, &none, &f),
            ERR_INVAL);
        assert_non_null(strstr(f.text, "found 1"));
    }
}

/* The real files have the shapes that their source states. */
static void libsvm_real_data_has_the_published_shapes(void **state)
{
    static const struct {
        const char *file;
        uint64_t samples;
        uint32_t highest;
        size_t labels;
    } sets[] = {{"a9a.xz", 32561, 123, 2},
                {"a9a.t.xz", 16281, 123, 2},
                {"mushrooms.train.xz", 6513, 126, 2},
                {"letter.scale.xz", 15000, 16, 26},
                {"sector.scale.xz", 6412, 55197, 105},
                {"housing_scale.xz", 506, 13, 229}};
    const char *real = scratch_real_data();
    double label[512];

    (void)state;
    for (size_t i = 0; real && i < sizeof(sets) / sizeof(*sets); i++) {
        struct sparse s = {0}, none = {0};
        struct fault f = {0};

        if (data_load_sparse(sets[i].file, real, &s, &none, &f))
            fail_msg("%s", f.text);
        if (s.count != sets[i].samples || s.columns != sets[i].highest + 1 ||
            sparse_labels(&s, 512, label) != sets[i].labels)
            fail_msg("%s: %llu samples, %u columns, %zu labels", sets[i].file,
                     (unsigned long long)s.count, s.columns,
                     sparse_labels(&s, 512, label));
        sparse_deinit(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_forms_are_read),
        cmocka_unit_test(libsvm_errors_name_the_line),
        cmocka_unit_test(libsvm_lines_have_no_limit),
        cmocka_unit_test(libsvm_memory_is_counted_while_it_loads),
        cmocka_unit_test(libsvm_allocation_failure_leaves_nothing),
        cmocka_unit_test(libsvm_is_known_by_sight),
        cmocka_unit_test_setup_teardown(libsvm_folder_has_two_halves,
                                        scratch_make, scratch_remove),
        cmocka_unit_test(sparse_split_deals_samples),
        cmocka_unit_test_setup_teardown(gen_libsvm_reads_back, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(libsvm_real_data_has_the_published_shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
