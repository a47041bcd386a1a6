#include "apps/formats/data_cifar.h"
#include "apps/samples/columns.h"
#include "apps/samples/samples_load.h"
#include "apps/samples/scaling.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static enum err load(const char *json, bool evaluate, bool targets,
                     struct samples *train, struct samples *test,
                     struct fault *f)
{
    struct mlt_app_config config = {.size = sizeof(config),
                                    .settings = json,
                                    .folder = scratch_folder(),
                                    .workers = 1,
                                    .seed = 1,
                                    .evaluate = evaluate};
    struct settings s;
    enum err err = settings_init(&s, &config, f);

    if (err)
        return err;
    err = samples_load(&s, targets, train, test, f);
    settings_deinit(&s);
    return err;
}

static void loads(const char *json, bool evaluate, struct samples *train,
                  struct samples *test)
{
    struct fault f = {0};

    if (load(json, evaluate, false, train, test, &f))
        fail_msg("%s: %s", json, f.text);
}

static void refused(const char *json, bool targets, enum err code,
                    const char *says)
{
    int64_t before = mem_outstanding();
    struct samples a = {.count = 7}, b = {.count = 8};
    struct fault f = {0};
    enum err err = load(json, false, targets, &a, &b, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s: %s (wanted %s)", json, err_name(err), f.text, says);
    assert_int_equal(a.count, 7);
    assert_int_equal(b.count, 8);
    assert_int_equal(mem_outstanding(), before);
}

static void write_rows(const char *name, unsigned n, const char *const class[],
                       unsigned classes)
{
    char text[8192], *p = text;
    unsigned i;

    for (i = 0; i < n; i++)
        p += sprintf(p, "%u,%u,%s\n", i, 1000 + i, class[i % classes]);
    scratch_text(name, text);
}

static const char *const abc[] = {"b", "c", "a"};

/* Each row goes to one half, whole, with its label. */
static void check_halves(const struct samples *train,
                         const struct samples *test, unsigned n)
{
    unsigned seen[256] = {0};
    int h;
    uint64_t i;

    assert_int_equal(train->count + test->count, n);
    for (h = 0; h < 2; h++) {
        const struct samples *s = h ? test : train;

        assert_int_equal(s->classes, 3);
        for (i = 0; i < s->count; i++) {
            unsigned row = (unsigned)s->value[2 * i];

            assert_float_equal(s->value[2 * i + 1], 1000 + (float)row, 0);
            assert_string_equal(s->class_name[s->label[i]], abc[row % 3]);
            assert_int_equal(seen[row]++, 0);
        }
    }
}

/* A tenth by seed, a given share, none; the same for the same seed. */
static void samples_split_by_seed(void **state)
{
    struct samples a, b, c, d;

    (void)state;
    write_rows("t.csv", 200, abc, 3);
    loads("{\"data\": \"t.csv\"}", false, &a, &b);
    check_halves(&a, &b, 200);
    assert_in_range(b.count, 8, 35);
    loads("{\"data\": \"t.csv\"}", false, &c, &d);
    assert_int_equal(b.count, d.count);
    assert_memory_equal(b.value, d.value, b.count * 8);
    samples_deinit(&a);
    samples_deinit(&b);
    samples_deinit(&c);
    samples_deinit(&d);
    loads("{\"data\": \"t.csv\", \"test_fraction\": 0.5}", false, &a, &b);
    check_halves(&a, &b, 200);
    assert_in_range(b.count, 70, 130);
    samples_deinit(&a);
    samples_deinit(&b);
    loads("{\"data\": \"t.csv\", \"test_fraction\": 0}", false, &a, &b);
    assert_int_equal(a.count, 200);
    assert_int_equal(b.count, 0);
    samples_deinit(&a);
    samples_deinit(&b);
    loads("{\"data\": \"t.csv\"}", true, &a, &b);
    assert_int_equal(a.count, 200);
    assert_int_equal(b.count, 0);
    samples_deinit(&a);
}

/* A validation file numbers classes as the training file does, whatever it has
 * of them; one that training has not is refused by name. */
static void samples_test_file_means_the_same_classes(void **state)
{
    struct samples a, b;

    (void)state;
    write_rows("t.csv", 30, abc, 3);
    scratch_text("v.csv", "1,2,c\n3,4,b\n");
    loads("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false, &a, &b);
    assert_int_equal(a.count, 30);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.classes, 3);
    assert_int_equal(b.label[0], 2);
    assert_int_equal(b.label[1], 1);
    samples_deinit(&a);
    samples_deinit(&b);
    scratch_text("v.csv", "1,2,d\n");
    refused("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false, ERR_FORMAT,
            "v.csv: expected only classes that the training data have, found "
            "\"d\"");
    scratch_text("v.csv", "1,a\n");
    refused("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false, ERR_FORMAT,
            "v.csv: line 1: expected 2 columns beside the label as in the "
            "training data, found 1");
    refused("{\"data\": \"gen:digits?samples=9&size=8\", \"test\": \"v.csv\"}",
            false, ERR_FORMAT, "expected images of 1 x 8 x 8");
}

/* A folder's files named test validate, the others join. */
static void samples_folder_has_two_halves(void **state)
{
    struct samples a, b;

    (void)state;
    scratch_mkdir("d");
    write_rows("d/part-1.csv", 5, abc, 3);
    write_rows("d/part-2.csv", 5, abc, 3);
    scratch_text("d/test.csv", "1,2,c\n");
    scratch_text("d/README.txt", "what this is\n");
    loads("{\"data\": \"d\"}", false, &a, &b);
    assert_int_equal(a.count, 10);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.label[0], 2);
    samples_deinit(&a);
    samples_deinit(&b);
    loads("{\"data\": \"d/test*\", \"test_fraction\": 0}", false, &a, &b);
    assert_int_equal(a.count, 1);
    samples_deinit(&a);
    samples_deinit(&b);
    loads("{\"data\": \"d\"}", true, &a, &b);
    assert_int_equal(a.count, 1);
    samples_deinit(&a);
}

/* Label, header and separator of a table come from the settings. */
static void samples_settings_say_how_to_read_tables(void **state)
{
    struct samples a, b;
    struct fault f = {0};

    (void)state;
    scratch_text("t.csv", "1|5|0\n2|6|1\n");
    loads("{\"data\": \"t.csv\", \"label\": 2, \"separator\": \"|\","
          " \"header\": true, \"test_fraction\": 0}",
          false, &a, &b);
    assert_int_equal(a.count, 1);
    assert_string_equal(a.class_name[0], "6");
    samples_deinit(&a);
    samples_deinit(&b);
    assert_int_equal(load("{\"data\": \"t.csv\", \"separator\": \"|\","
                          " \"label\": \"first\", \"test_fraction\": 0}",
                          false, true, &a, &b, &f),
                     ERR_OK);
    assert_float_equal(a.target[1], 2, 0);
    assert_int_equal(a.channels, 2);
    samples_deinit(&a);
    samples_deinit(&b);
    refused("{\"data\": \"gen:digits?samples=9&size=8\"}", true,
            ERR_UNSUPPORTED, "expected a table with numbers to predict");
    scratch_text("w", "some words of text\n");
    refused("{\"data\": \"w\"}", false, ERR_FORMAT, "expected");
    scratch_text("svm", "1 3:1 11:1\n");
    refused("{\"data\": \"svm\"}", false, ERR_UNSUPPORTED,
            "expected images (IDX or CIFAR files) or a table (CSV), found "
            "libsvm lines");
}

/* CIFAR batches of a folder join, the one named test validates; a compressed
 * copy is not counted again. */
static void samples_of_cifar_batches(void **state)
{
    static uint8_t record[1 + CIFAR_PIXELS];
    struct samples a, b;
    unsigned char *xz;
    size_t len;

    (void)state;
    scratch_mkdir("c");
    record[0] = 3;
    record[1 + 2048] = 77;
    scratch_write("c/data_batch_1.bin", record, sizeof(record));
    xz = scratch_xz(record, sizeof(record), &len);
    scratch_write("c/data_batch_1.bin.xz", xz, len);
    free(xz);
    record[0] = 9;
    scratch_write("c/data_batch_2.bin", record, sizeof(record));
    scratch_write("c/test_batch.bin", record, sizeof(record));
    scratch_text("c/readme.html", "<html></html>\n");
    loads("{\"data\": \"c\"}", false, &a, &b);
    assert_int_equal(a.count, 2);
    assert_int_equal(b.count, 1);
    assert_int_equal(a.channels, 3);
    assert_int_equal(a.height, 32);
    assert_int_equal(a.width, 32);
    assert_int_equal(a.classes, 10);
    assert_int_equal(b.classes, 10);
    assert_int_equal(a.label[1], 9);
    assert_int_equal(a.pixel[2048], 77);
    assert_null(a.value);
    samples_deinit(&a);
    samples_deinit(&b);
    loads("{\"data\": \"c/data_batch_1.bin\", \"test\": \"c/test_batch.bin\"}",
          false, &a, &b);
    assert_int_equal(a.count, 1);
    assert_int_equal(b.label[0], 9);
    samples_deinit(&a);
    samples_deinit(&b);
    scratch_mkdir("h"); /* CIFAR-100 has other names: the content tells */
    scratch_write("h/train.bin", record, sizeof(record));
    loads("{\"data\": \"h/train.bin\", \"test_fraction\": 0}", false, &a, &b);
    assert_int_equal(a.count, 1);
    samples_deinit(&a);
    samples_deinit(&b);
}

/* Whatever the setting label says of the training data: there it has a name. */
static void samples_label_of_validation_goes_by_its_name(void **state)
{
    static const char *const label[] = {"", ", \"label\": \"last\"",
                                        ", \"label\": 4", ", \"label\": -1"};
    static const char *const test[] = {
        "a,b,y,id\n1,2,v,7\n", "id,y,b,a,more\n7,v,2,1,8\n", "b,y,a\n2,v,1\n",
        "a,b,y\n1,2,v\n", "no,a,b,y\n7,1,2,v\n"};
    char settings[160];
    struct samples a, b;

    (void)state;
    scratch_text("t.csv", "no,a,b,y\n1,1,2,u\n2,3,4,v\n");
    for (size_t i = 0; i < sizeof(label) / sizeof(*label); i++)
        for (size_t k = 0; k < sizeof(test) / sizeof(*test); k++) {
            scratch_text("v.csv", test[k]);
            snprintf(settings, sizeof(settings),
                     "{\"data\": \"t.csv\", \"test\": \"v.csv\", "
                     "\"ignore\": [\"no\"]%s}",
                     label[i]);
            loads(settings, false, &a, &b);
            assert_int_equal(b.count, 1);
            assert_true(b.value[0] == 1);
            assert_true(b.value[1] == 2);
            assert_int_equal(b.label[0], 1);
            samples_deinit(&a);
            samples_deinit(&b);
        }
    scratch_text("v.csv", "a,b,z,id\n1,2,v,7\n");
    refused("{\"data\": \"t.csv\", \"test\": \"v.csv\", \"ignore\": [\"no\"]}",
            false, ERR_FORMAT,
            "v.csv: line 1: expected one column beside those that have values "
            "in the training data, the label, found 2: which it is, \"z\" or "
            "another, nobody knows");
    scratch_text("v.csv", "y,id,b,a\n1,2,v,7\n");
    scratch_text("t.csv", "a,b,\n1,2,u\n3,4,v\n"); /* it has no name */
    refused("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false, ERR_FORMAT,
            "expected the label as column 4, as the run's setting has it, "
            "found \"a\", which the training data have as a value");
}

/* Names that are no UTF-8 are compared as they were read. */
static void samples_columns_may_have_any_name(void **state)
{
    struct samples a, b;

    (void)state;
    scratch_text("t.csv", "a,\xff\xfe,\xe4\n1,2,u\n3,4,v\n");
    scratch_text("v.csv", "\xe4,\xff\xfe,a\nv,2,1\n");
    loads("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false, &a, &b);
    assert_int_equal(b.count, 1);
    assert_true(b.value[0] == 1);
    assert_true(b.value[1] == 2);
    assert_int_equal(b.label[0], 1);
    samples_deinit(&a);
    samples_deinit(&b);
}

/* Columns keep their names but the label's. A validation file's are found by
 * them, in any order and among others; one that has not all of them is refused,
 * as by a saved model. */
static void samples_columns_are_those_of_training(void **state)
{
    struct samples a, b;
    struct fault f = {0};

    (void)state;
    scratch_text("t.csv", "y,a,\"b\nc\"\nu,1,2\nv,3,4\n");
    scratch_text("swap.csv", "y,\"b\nc\",a\nu,1,2\n");
    scratch_text("more.csv", "id,y,a,\"b\nc\"\n7,v,2,1\n");
    scratch_text("other.csv", "y,a,d\nu,1,2\n");
    scratch_text("bare.csv", "u,1,2\n");
    refused("{\"data\": \"t.csv\", \"test\": \"other.csv\", \"label\":"
            " \"y\"}",
            false, ERR_FORMAT,
            "other.csv: expected the column \"b c\", which the training data "
            "have");
    for (int more = 0; more < 2; more++) {
        loads(more ? "{\"data\": \"t.csv\", \"test\": \"more.csv\", "
                     "\"label\": \"y\"}"
                   : "{\"data\": \"t.csv\", \"test\": \"swap.csv\", "
                     "\"label\": \"first\"}",
              false, &a, &b);
        assert_int_equal(b.count, 1);
        assert_true(b.value[0] == 2);
        assert_true(b.value[1] == 1);
        assert_int_equal(b.label[0], more);
        samples_deinit(&a);
        samples_deinit(&b);
    }
    loads("{\"data\": \"t.csv\", \"test\": \"bare.csv\", \"label\":"
          " \"first\"}",
          false, &a, &b);
    assert_string_equal(a.column_name[0], "a");
    assert_string_equal(a.column_name[1], "b c");
    assert_null(b.column_name);
    assert_int_equal(columns_save(&b, scratch_folder(), &f), ERR_OK);
    samples_deinit(&b);
    assert_int_equal(samples_split(&a, 0.5, 3, &b), ERR_OK);
    assert_int_equal(columns_same(&a, "B", &b, &f), ERR_OK);
    assert_string_equal(b.column_name[1], "b c");
    samples_deinit(&b);
    assert_int_equal(columns_check(&a, "A", scratch_folder(), &f), ERR_OK);
    assert_int_equal(columns_save(&a, scratch_folder(), &f), ERR_OK);
    assert_int_equal(columns_check(&a, "A", scratch_folder(), &f), ERR_OK);
    samples_deinit(&a);
    loads("{\"data\": \"swap.csv\", \"label\": \"first\"}", true, &a, &b);
    assert_int_equal(columns_check(&a, "A", scratch_folder(), &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "A: expected the columns"));
    scratch_text("columns.txt", "b c\n");
    assert_int_equal(columns_check(&a, "A", scratch_folder(), &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "columns.txt: expected the names of as"));
    scratch_text("columns.txt", "b c\na\nd\n");
    assert_int_equal(columns_check(&a, "A", scratch_folder(), &f), ERR_FORMAT);
    samples_deinit(&a);
}

/* Columns become mean 0 and deviation 1 by the training rows alone; a column
 * that never changes becomes 0, and large numbers lose no digits. */
static void scaling_is_of_the_training_rows(void **state)
{
    struct samples a, b;
    struct scaling s;
    struct fault f = {0};
    double mean, squares;
    uint64_t i;
    int j;

    (void)state;
    scratch_text("t.csv", "1,5,1e7,1\n3,5,10000002,2\n5,5,10000004,6\n");
    scratch_text("v.csv", "3,5,10000002,3\n5,6,1e7,7\n");
    assert_int_equal(load("{\"data\": \"t.csv\", \"test\": \"v.csv\"}", false,
                          true, &a, &b, &f),
                     ERR_OK);
    assert_int_equal(scaling_of(&a, &s, NULL), ERR_OK);
    scaling_apply(&s, &a);
    scaling_apply(&s, &b);
    for (j = 0; j < 3; j++) {
        mean = squares = 0;
        for (i = 0; i < 3; i++) {
            mean += (double)a.value[3 * i + j] / 3;
            squares += (double)a.value[3 * i + j] * a.value[3 * i + j] / 3;
        }
        assert_float_equal(mean, 0, 1e-6);
        assert_float_equal(squares, j == 1 ? 0 : 1, 1e-6);
    }
    assert_float_equal(b.value[0], 0, 1e-6);
    assert_float_equal(b.value[4], 0, 0);
    assert_float_equal(b.target[0], 0, 1e-6);
    assert_float_equal(b.target[1], 1.8516402f, 1e-5);
    samples_deinit(&a);
    samples_deinit(&b);
    scaling_deinit(&s);
}

/* Scaling and class names come back from a model folder as they were; one for
 * other columns is refused. Images have neither. */
static void scaling_and_classes_are_saved(void **state)
{
    struct samples a, b;
    struct scaling s, again;
    struct fault f = {0};

    (void)state;
    write_rows("t.csv", 30, abc, 3);
    scratch_text("e.csv", "1,2,c\n");
    loads("{\"data\": \"t.csv\", \"test_fraction\": 0}", false, &a, &b);
    assert_int_equal(scaling_of(&a, &s, NULL), ERR_OK);
    assert_int_equal(scaling_save(&s, scratch_folder(), &f), ERR_OK);
    assert_int_equal(samples_save_classes(&a, scratch_folder(), &f), ERR_OK);
    assert_int_equal(scaling_load(scratch_folder(), &a, &again, &f), ERR_OK);
    assert_memory_equal(s.mean, again.mean, 3 * sizeof(double));
    assert_memory_equal(s.factor, again.factor, 3 * sizeof(double));
    samples_deinit(&a);
    samples_deinit(&b);
    scaling_deinit(&again);
    loads("{\"data\": \"e.csv\"}", true, &a, &b);
    assert_int_equal(a.label[0], 0);
    assert_int_equal(samples_load_classes(&a, "E", scratch_folder(), &f),
                     ERR_OK);
    assert_int_equal(a.label[0], 2);
    assert_int_equal(a.classes, 3);
    scratch_mkdir("none");
    assert_int_equal(samples_load_classes(&a, "E", scratch_path("none"), &f),
                     ERR_NOENT);
    assert_non_null(strstr(f.text, "none/classes.txt: expected the names"));
    a.channels = 1;
    assert_int_equal(scaling_load(scratch_folder(), &a, &again, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "scaling.npy: expected 2 x 2"));
    samples_deinit(&a);
    scaling_deinit(&s);
    scratch_text("classes.txt", "\n");
    loads("{\"data\": \"e.csv\"}", true, &a, &b);
    assert_int_equal(samples_load_classes(&a, "E", scratch_folder(), &f),
                     ERR_FORMAT);
    samples_deinit(&a);
    loads("{\"data\": \"gen:digits?samples=9&size=8\"}", false, &a, &b);
    assert_int_equal(scaling_of(&a, &s, NULL), ERR_OK);
    assert_null(s.mean);
    scaling_apply(&s, &a);
    scratch_mkdir("m");
    assert_int_equal(scaling_save(&s, scratch_path("m"), &f), ERR_OK);
    assert_int_equal(samples_save_classes(&a, scratch_path("m"), &f), ERR_OK);
    assert_int_equal(samples_load_classes(&a, "A", scratch_path("m"), &f),
                     ERR_OK);
    assert_int_equal(scaling_load(scratch_path("m"), &a, &s, &f), ERR_OK);
    assert_null(s.mean);
    samples_deinit(&a);
    samples_deinit(&b);
}

/* Every allocation that fails is reported and undone. */
static void samples_allocation_failure_leaves_nothing(void **state)
{
    static const char *const settings[] = {
        "{\"data\": \"t.csv\", \"test_fraction\": 0.5}",
        "{\"data\": \"t.csv\", \"test\": \"t.csv\"}",
        "{\"data\": \"h.csv\", \"test_fraction\": 0.5}"};
    int64_t before = mem_outstanding();
    size_t i;

    (void)state;
    write_rows("t.csv", 12, abc, 3);
    scratch_text("h.csv", "x,y,c\n1,2,a\n3,4,b\n5,6,c\n7,8,a\n9,1,b\n");
    for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        int nth, failed = 1;

        for (nth = 1; failed; nth++) {
            struct samples a = {0}, b = {0};
            struct scaling s = {0};
            enum err err;

            mem_fail_at(nth, 0);
            err = load(settings[i], false, false, &a, &b, NULL);
            if (!err)
                err = scaling_of(&a, &s, NULL);
            if (!err)
                err = samples_save_classes(&a, scratch_folder(), NULL);
            if (!err)
                err = samples_load_classes(&a, "A", scratch_folder(), NULL);
            if (!err)
                err = columns_save(&a, scratch_folder(), NULL);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
            samples_deinit(&a);
            samples_deinit(&b);
            scaling_deinit(&s);
            assert_int_equal(mem_outstanding(), before);
        }
        assert_true(nth > 20);
    }
}

/* The staged real tables and batches load with the counts of their sources. */
static void samples_of_real_data_have_the_published_counts(void **state)
{
    static const struct {
        const char *file, *label;
        uint64_t count;
        uint32_t channels;
        unsigned classes;
    } t[] = {{"iris.csv", "last", 150, 4, 3},
             {"wine.csv", "first", 178, 13, 3},
             {"covtype.20k.csv.xz", "last", 20000, 54, 7},
             {"optdigits.tra.csv.xz", "last", 3823, 64, 10},
             {"skin_nonskin.tsv.xz", "last", 245057, 3, 2},
             {"cifar10.data_batch_1.bin.xz", "last", 10000, 3, 10}};
    const char *found = scratch_real_data();
    char json[512], real[4096];
    size_t i;

    (void)state;
    if (!found || !realpath(found, real)) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
    }
    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct samples a, b;

        snprintf(json, sizeof(json),
                 "{\"data\": \"%.300s/%s\", \"label\": \"%s\","
                 " \"test_fraction\": 0}",
                 real, t[i].file, t[i].label);
        loads(json, false, &a, &b);
        assert_int_equal(a.count, t[i].count);
        assert_int_equal(a.channels, t[i].channels);
        assert_int_equal(a.classes, t[i].classes);
        samples_deinit(&a);
        samples_deinit(&b);
    }
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(samples_split_by_seed),
        IN_FOLDER(samples_test_file_means_the_same_classes),
        IN_FOLDER(samples_folder_has_two_halves),
        IN_FOLDER(samples_settings_say_how_to_read_tables),
        IN_FOLDER(samples_of_cifar_batches),
        IN_FOLDER(samples_label_of_validation_goes_by_its_name),
        IN_FOLDER(samples_columns_may_have_any_name),
        IN_FOLDER(samples_columns_are_those_of_training),
        IN_FOLDER(scaling_is_of_the_training_rows),
        IN_FOLDER(scaling_and_classes_are_saved),
        IN_FOLDER(samples_allocation_failure_leaves_nothing),
        IN_FOLDER(samples_of_real_data_have_the_published_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
