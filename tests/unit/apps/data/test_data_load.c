#include "apps/data/data.h"
#include "apps/data/data_path.h"
#include "apps/samples/data_info.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static const uint8_t labels3[] = {0, 0, 8, 1, 0, 0, 0, 3, 4, 0, 1};
static const uint8_t images3[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0,
                                  1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};
static const uint8_t labels1[] = {0, 0, 8, 1, 0, 0, 0, 1, 6};
static const uint8_t images1[] = {0, 0, 8, 3, 0, 0, 0, 1, 0,
                                  0, 0, 1, 0, 0, 0, 2, 8, 9};

static void write_gzip(const char *name, const void *bytes, size_t n)
{
    size_t len;
    unsigned char *gz = scratch_gzip(bytes, n, &len);

    scratch_write(name, gz, len);
    free(gz);
}

static void write_mnist(const char *prefix)
{
    char name[128];

    snprintf(name, sizeof(name), "%strain-images-idx3-ubyte.gz", prefix);
    write_gzip(name, images3, sizeof(images3));
    snprintf(name, sizeof(name), "%strain-labels-idx1-ubyte", prefix);
    scratch_write(name, labels3, sizeof(labels3));
    snprintf(name, sizeof(name), "%st10k-images-idx3-ubyte", prefix);
    scratch_write(name, images1, sizeof(images1));
    snprintf(name, sizeof(name), "%st10k-labels-idx1-ubyte", prefix);
    scratch_write(name, labels1, sizeof(labels1));
}

static void expect_images(const char *spec, uint64_t train, uint64_t test)
{
    struct images a = {0}, b = {0};
    struct fault f = {0};

    if (data_load_images(spec, scratch_folder(), &a, &b, &f))
        fail_msg("%s: %s", spec, f.text);
    assert_int_equal(a.count, train);
    assert_int_equal(b.count, test);
    assert_int_equal(images_width(&a), 2);
    if (train == 3) {
        assert_memory_equal(a.pixel, images3 + 16, 6);
        assert_memory_equal(a.label, labels3 + 8, 3);
        assert_int_equal(a.classes, 5);
    }
    if (test)
        assert_memory_equal(b.pixel, images1 + 16, 2);
    images_deinit(&a);
    images_deinit(&b);
}

static void expect_no_images(const char *spec, enum err code, const char *says)
{
    int64_t before = mem_outstanding();
    struct images a = {.count = 77}, b = {.count = 78};
    struct fault f = {0};
    enum err err = data_load_images(spec, scratch_folder(), &a, &b, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s: %s (wanted %s)", spec, err_name(err), f.text, says);
    assert_int_equal(a.count, 77);
    assert_int_equal(b.count, 78);
    assert_int_equal(mem_outstanding(), before);
}

static void expect_ratings(const char *spec, uint64_t count)
{
    struct ratings r = {0};
    struct fault f = {0};

    if (data_load_ratings(spec, scratch_folder(), &r, &f))
        fail_msg("%s: %s", spec, f.text);
    assert_int_equal(r.count, count);
    ratings_deinit(&r);
}

static void expect_no_ratings(const char *spec, enum err code, const char *says)
{
    int64_t before = mem_outstanding();
    struct ratings r = {.count = 77};
    struct fault f = {0};
    enum err err = data_load_ratings(spec, scratch_folder(), &r, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s: %s (wanted %s)", spec, err_name(err), f.text, says);
    assert_int_equal(r.count, 77);
    assert_int_equal(mem_outstanding(), before);
}

/* The four files of a folder, under any prefix, compressed or not and among
 * others, become training and test images; a glob selects, a single file finds
 * its partner, and a lone test pair is what one asked for. */
static void load_images_from_folder_glob_and_file(void **state)
{
    (void)state;
    scratch_mkdir("m");
    write_mnist("m/any-prefix-");
    scratch_text("m/README", "hello\n");
    scratch_text("m/.hidden", "x");
    scratch_mkdir("m/sub");
    expect_images("m", 3, 1);
    expect_images("m/any*", 3, 1);
    expect_images("m/any-prefix-train*", 3, 0);
    expect_images("m/any-prefix-t10k*", 1, 0);
    expect_images("m/any-prefix-train-images-idx3-ubyte.gz", 3, 0);
    expect_images("m/any-prefix-t10k-labels-idx1-ubyte", 1, 0);
    expect_images(scratch_path("m"), 3, 1);
}

/* A file and its compressed copy side by side are one file. */
static void load_images_ignores_a_compressed_twin(void **state)
{
    (void)state;
    scratch_mkdir("m");
    write_mnist("m/");
    scratch_write("m/train-images-idx3-ubyte", images3, sizeof(images3));
    expect_images("m", 3, 1);
    expect_images("m/train-images-idx3-ubyte", 3, 0);
}

/* Names by suffix alone are enough. */
static void load_images_pairs_by_suffix(void **state)
{
    (void)state;
    scratch_write("digits.idx3-ubyte", images3, sizeof(images3));
    scratch_write("digits.idx1-ubyte", labels3, sizeof(labels3));
    expect_images("digits.idx3-ubyte", 3, 0);
    expect_images(".", 3, 0);
}

/* Data missing, ambiguous, of another kind or damaged are refused by name,
 * and the outputs stay untouched. */
static void load_images_refuses_what_is_no_set(void **state)
{
    (void)state;
    scratch_mkdir("m");
    expect_no_images("m", ERR_NOENT, "no file in it");
    expect_no_images("none", ERR_NOENT, "none");
    expect_no_images("no*ne", ERR_NOENT, "no file matches");
    expect_no_images("*/*/n[o]/n?", ERR_NOENT, "no file matches");
    expect_no_images("*/../*/../*/../*/../*/x", ERR_INVAL, "at most 4 may");
    scratch_text("m/a.csv", "1,2,3,4,5\n");
    scratch_text("r.tsv", "1\t2\t3\n");
    expect_no_images("m", ERR_UNSUPPORTED, "found a.csv (csv)");
    expect_no_images("r.tsv", ERR_UNSUPPORTED,
                     "or CIFAR batches), found ratings");
    scratch_write("m/x-images-idx3-ubyte", images3, sizeof(images3));
    expect_no_images("m", ERR_NOENT, "expected a file of labels");
    expect_no_images("m/x-images-idx3-ubyte", ERR_NOENT, "labels");
    scratch_write("m/x-labels-idx1-ubyte", labels1, sizeof(labels1));
    expect_no_images("m", ERR_FORMAT, "(1), found 3");
    scratch_write("m/x-labels-idx1-ubyte", labels3, sizeof(labels3) - 1);
    expect_no_images("m", ERR_FORMAT, "byte 10: expected 1 more");
    scratch_write("m/x-labels-idx1-ubyte", labels3, sizeof(labels3));
    expect_images("m", 3, 0);
    scratch_write("m/y-images-idx3-ubyte", images3, sizeof(images3));
    expect_no_images("m", ERR_INVAL, "several image files");
    unlink(scratch_path("m/y-images-idx3-ubyte"));
    {
        uint8_t wide[sizeof(images1)];

        memcpy(wide, images1, sizeof(wide));
        wide[15] = 1;
        scratch_write("m/x-test-images-idx3-ubyte", wide, sizeof(wide) - 1);
        scratch_write("m/x-test-labels-idx1-ubyte", labels1, sizeof(labels1));
    }
    expect_no_images("m", ERR_FORMAT, "have 2 pixels");
}

/* Ratings come from a file, a glob of files, a folder of parts, or the file
 * that is called ratings among others. */
static void load_ratings_from_folder_glob_and_file(void **state)
{
    size_t len;
    unsigned char *xz;

    (void)state;
    scratch_mkdir("p");
    scratch_text("p/part-0", "1,2,3\n2,2,3\n");
    scratch_text("p/part-1", "u,i,r\n1,7,3\n");
    expect_ratings("p", 3);
    expect_ratings("p/part-1", 1);
    expect_ratings("p/part-*", 3);
    scratch_mkdir("ml");
    xz = scratch_xz("1::2::3::4\n", 11, &len);
    scratch_write("ml/ratings.dat.xz", xz, len);
    free(xz);
    scratch_text("ml/movies.dat", "1::Toy Story (1995)::Animation\n");
    scratch_text("ml/users.dat", "1::F::1::10::48067\n");
    expect_ratings("ml", 1);
    scratch_text("ml/tags.csv", "5,6,7\n");
    expect_ratings("ml", 1);
}

/* Other kinds are refused by what they are; several candidates are listed. */
static void load_ratings_refuses_what_is_none(void **state)
{
    (void)state;
    scratch_text("svm", "1 3:1 11:1\n-1 2:1 4:1\n");
    scratch_text("lda", "2 3:1 11:1\n1 2:1\n");
    scratch_text("edges", "# nodes\n1\t2\n");
    scratch_text("csv", "1,2,3,4,5\n");
    scratch_text("text", "Call me Ishmael.\n");
    scratch_text("empty", "");
    scratch_write("bin", "\1\2\3\0", 4);
    expect_no_ratings("svm", ERR_UNSUPPORTED, "found libsvm lines");
    expect_no_ratings("lda", ERR_UNSUPPORTED, "found LDA-C lines");
    expect_no_ratings("edges", ERR_UNSUPPORTED, "found an edge list");
    expect_no_ratings("csv", ERR_UNSUPPORTED, "found a table of numbers");
    expect_no_ratings("text", ERR_UNSUPPORTED, "found text");
    expect_no_ratings("bin", ERR_UNSUPPORTED, "found unknown binary data");
    expect_no_ratings("empty", ERR_UNSUPPORTED, "found nothing");
    expect_no_ratings(".", ERR_UNSUPPORTED, "csv (csv)");
    scratch_text("a.tsv", "1\t2\t3\n");
    scratch_text("b.tsv", "1\t2\t3\n");
    expect_no_ratings(".", ERR_INVAL, "Name one of a.tsv (ratings), b.tsv");
    expect_no_ratings("none", ERR_NOENT, "none");
}

/* Nothing half-loaded: an error late in the second file leaves the outputs and
 * the memory as they were. */
static void load_ratings_error_in_a_later_file_undoes_all(void **state)
{
    (void)state;
    scratch_text("a", "1,2,3\n");
    scratch_text("b", "1,2,3\n1,2,x\n");
    expect_no_ratings("[ab]", ERR_FORMAT, "b: line 2: expected a rating");
}

/* Every allocation that fails while loading is reported and undone. */
static void load_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    scratch_mkdir("m");
    write_mnist("m/");
    scratch_text("r", "1,2,3\n");
    for (nth = 1; failed; nth++) {
        struct images a = {0}, b = {0}, c = {0}, d = {0};
        struct ratings r = {0};
        struct fault f = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = data_load_images("m", scratch_folder(), &a, &b, &f);
        if (!err)
            err = data_load_images("m/train-labels-idx1-ubyte",
                                   scratch_folder(), &c, &d, &f);
        if (!err)
            err = data_load_ratings("r", scratch_folder(), &r, &f);
        failed = mem_failed();
        mem_fail_at(0, 0);
        if (err != (failed ? ERR_NOMEM : ERR_OK))
            fail_msg("allocation %d: %s: %s", nth, err_name(err), f.text);
        images_deinit(&a);
        images_deinit(&b);
        images_deinit(&c);
        images_deinit(&d);
        ratings_deinit(&r);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 50);
}

/* A folder whose name is a pattern is no pattern. */
static void load_folder_with_wildcards_in_its_name(void **state)
{
    struct data_files files;

    (void)state;
    scratch_mkdir("a[b]*");
    scratch_text("a[b]*/x1", "1,2,3\n");
    assert_int_equal(data_files_find("x?", scratch_path("a[b]*"), &files, NULL),
                     ERR_OK);
    assert_int_equal(files.count, 1);
    data_files_deinit(&files);
}

/* ".*" matches hidden folders, never the way up. */
static void load_glob_does_not_climb(void **state)
{
    struct data_files files;

    (void)state;
    scratch_mkdir("in");
    scratch_mkdir("in/.hidden");
    scratch_text("in/.hidden/x1", "1,2,3\n");
    scratch_text("x2", "1,2,3\n");
    assert_int_equal(data_files_find(".*/x?", scratch_path("in"), &files, NULL),
                     ERR_OK);
    assert_int_equal(files.count, 1);
    data_files_deinit(&files);
}

/* Forty folders, entered and left three times over: 2.6 million names. */
static void load_glob_reads_so_many_names(void **state)
{
    struct data_files files;
    struct fault f = {0};
    char name[16];

    (void)state;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        scratch_mkdir(name);
    }
    assert_int_equal(
        data_files_find("*/../*/../*/../none*", scratch_folder(), &files, &f),
        ERR_INVAL);
    assert_non_null(strstr(f.text, "more than 1000000 names"));
    assert_int_equal(
        data_files_find("d*/../nothing*", scratch_folder(), &files, NULL),
        ERR_NOENT);
}

/* A description counts what is there; what cannot be loaded is still named. */
static void load_description_counts(void **state)
{
    struct data_info info;
    json_t *json;

    (void)state;
    scratch_mkdir("m");
    write_mnist("m/");
    scratch_text("r", "1,2,3\n1,3,5\n2,2,1\n");
    scratch_text("svm", "1 3:1 11:1\n");
    assert_int_equal(data_describe("r", scratch_folder(), NULL, &info, NULL),
                     ERR_OK);
    assert_int_equal(info.kind, DATA_RATINGS);
    assert_int_equal(info.samples, 3);
    assert_int_equal(info.users, 2);
    assert_int_equal(info.items, 2);
    assert_float_equal(info.min, 1, 0);
    assert_float_equal(info.max, 5, 0);
    assert_float_equal(info.mean, 3, 0);
    json = data_info_json(&info);
    assert_int_equal(json_integer_value(json_object_get(json, "users")), 2);
    json_decref(json);
    assert_int_equal(data_describe("m", scratch_folder(), NULL, &info, NULL),
                     ERR_OK);
    assert_int_equal(info.kind, DATA_IDX);
    assert_int_equal(info.files, 4);
    assert_int_equal(info.samples, 3);
    assert_int_equal(info.test_samples, 1);
    assert_int_equal(info.width, 2);
    assert_int_equal(info.classes, 7);
    assert_int_equal(info.class_samples[4], 1);
    json = data_info_json(&info);
    assert_int_equal(json_array_size(json_object_get(json, "class_samples")),
                     7);
    json_decref(json);
    scratch_text("c.csv", "1,2,4,a\n1,2,3,b\n1,3,3,a\n");
    assert_int_equal(
        data_describe("c.csv", scratch_folder(), NULL, &info, NULL), ERR_OK);
    assert_int_equal(info.kind, DATA_CSV);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.class_samples[0], 2);
    json = data_info_json(&info);
    assert_int_equal(json_array_size(json_object_get(json, "columns")), 4);
    json_decref(json);
    data_info_deinit(&info);
    assert_int_equal(data_describe("svm", scratch_folder(), NULL, &info, NULL),
                     ERR_OK);
    assert_true(info.readable);
    assert_string_equal(data_kind_name(info.kind), "libsvm");
    json = data_info_json(&info);
    assert_int_equal(json_integer_value(json_object_get(json, "lowest_index")),
                     3);
    json_decref(json);
    data_info_deinit(&info);
    scratch_text("graph", "1 2\n2 3\n");
    assert_int_equal(
        data_describe("graph", scratch_folder(), NULL, &info, NULL), ERR_OK);
    assert_true(info.readable);
    json = data_info_json(&info);
    assert_string_equal(json_string_value(json_object_get(json, "kind")),
                        "edges");
    assert_int_equal(json_integer_value(json_object_get(json, "nodes")), 3);
    assert_int_equal(json_integer_value(json_object_get(json, "edges")), 2);
    assert_int_equal(json_integer_value(json_object_get(json, "dangling")), 1);
    json_decref(json);
    scratch_text("prose", "words and nothing else\n");
    assert_int_equal(
        data_describe("prose", scratch_folder(), NULL, &info, NULL), ERR_OK);
    assert_true(info.readable);
    json = data_info_json(&info);
    assert_int_equal(json_integer_value(json_object_get(json, "tokens")), 4);
    assert_int_equal(json_integer_value(json_object_get(json, "words")), 4);
    json_decref(json);
    data_info_deinit(&info);
    scratch_text("latin1", "caf\xe9 au lait\n");
    assert_int_equal(
        data_describe("latin1", scratch_folder(), NULL, &info, NULL), ERR_OK);
    assert_false(info.readable);
    json = data_info_json(&info);
    assert_non_null(strstr(json_string_value(json_object_get(json, "why")),
                           "line 1: expected UTF-8"));
    assert_non_null(json_object_get(json, "advice"));
    json_decref(json);
    assert_int_equal(data_describe("gen:nothing", NULL, NULL, &info, NULL),
                     ERR_INVAL);
    assert_int_equal(data_describe("none", scratch_folder(), NULL, &info, NULL),
                     ERR_NOENT);
}

/* The staged real data load with the counts that their source states. */
static void load_real_data_has_the_published_counts(void **state)
{
    const char *real = scratch_real_data();
    struct images train = {0}, test = {0};
    struct ratings r = {0};
    struct fault f = {0};

    (void)state;
    if (!real) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
    }
    if (data_load_ratings("ml1m.train90.tsv.xz", real, &r, &f))
        fail_msg("%s", f.text);
    assert_int_equal(r.count, 900188);
    assert_int_equal(r.users.count, 6040);
    ratings_deinit(&r);
    if (data_load_images("mnist-*", real, &train, &test, &f))
        fail_msg("%s", f.text);
    assert_int_equal(train.count, 60000);
    assert_int_equal(test.count, 10000);
    assert_int_equal(images_width(&train), 784);
    assert_int_equal(train.classes, 10);
    images_deinit(&train);
    images_deinit(&test);
}

#define CASE(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(load_images_from_folder_glob_and_file),
        CASE(load_images_ignores_a_compressed_twin),
        CASE(load_images_pairs_by_suffix),
        CASE(load_images_refuses_what_is_no_set),
        CASE(load_ratings_from_folder_glob_and_file),
        CASE(load_ratings_refuses_what_is_none),
        CASE(load_ratings_error_in_a_later_file_undoes_all),
        CASE(load_allocation_failure_leaves_nothing),
        CASE(load_folder_with_wildcards_in_its_name),
        CASE(load_glob_does_not_climb),
        CASE(load_glob_reads_so_many_names),
        CASE(load_description_counts),
        CASE(load_real_data_has_the_published_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
