#include "apps/samples/data_csv.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

static const struct csv_options as_found = {.header = -1};

static enum err read_text(const char *text, const struct csv_options *o,
                          struct samples *out, struct fault *f)
{
    struct csv_table *t = csv_table_new(o);
    struct data_stream *s = NULL;
    enum err err =
        t ? data_stream_memory("T", text, strlen(text), &s, f) : ERR_NOMEM;

    if (!err)
        err = csv_table_read(t, s, UINT64_MAX, f);
    if (!err)
        err = csv_table_take(t, out, f);
    data_stream_close(s);
    csv_table_free(t);
    return err;
}

static void expect(const char *text, const struct csv_options *o,
                   struct samples *s, uint64_t rows, uint32_t columns,
                   unsigned classes)
{
    struct fault f = {0};

    if (read_text(text, o, s, &f))
        fail_msg("%s: %s", text, f.text);
    assert_int_equal(s->count, rows);
    assert_int_equal(s->channels, columns);
    assert_int_equal(s->height, 1);
    assert_int_equal(s->width, 1);
    assert_int_equal(s->classes, classes);
}

static void refused(const char *text, const struct csv_options *o,
                    enum err code, const char *says)
{
    int64_t before = mem_outstanding();
    struct samples s;
    struct fault f = {0};
    enum err err = read_text(text, o, &s, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s: %s (wanted %s)", text, err_name(err), f.text, says);
    assert_int_equal(mem_outstanding(), before);
}

/* Without a header: values in their places, classes sorted by text. */
static void csv_rows_and_classes_are_read(void **state)
{
    struct samples s;

    (void)state;
    expect("5.1,-3.5e1,virginica\n4.9,.25,setosa\n1,2,virginica", &as_found, &s,
           3, 2, 2);
    assert_float_equal(s.value[0], 5.1f, 0);
    assert_float_equal(s.value[1], -35, 0);
    assert_float_equal(s.value[3], 0.25, 0);
    assert_string_equal(s.class_name[0], "setosa");
    assert_int_equal(s.label[0], 1);
    assert_int_equal(s.label[1], 0);
    assert_int_equal(s.label[2], 1);
    assert_null(s.target);
    samples_deinit(&s);
}

/* Classes that are all numbers go by value, not by text, and 1 is 1.0. */
static void csv_number_classes_go_by_value(void **state)
{
    struct samples s;

    (void)state;
    expect("0,10\n0,9\n0,1.0\n0,1e0\n0,-2\n", &as_found, &s, 5, 1, 4);
    assert_string_equal(s.class_name[0], "-2");
    assert_string_equal(s.class_name[3], "10");
    assert_int_equal(s.label[0], 3);
    assert_int_equal(s.label[1], 2);
    assert_int_equal(s.label[2], 1);
    assert_int_equal(s.label[3], 1);
    assert_int_equal(s.label[4], 0);
    samples_deinit(&s);
}

/* The label column by name, first, last, number, number from the end. */
static void csv_label_is_where_it_is_said_to_be(void **state)
{
    static const struct {
        const char *label;
        float value[2];
        const char *class;
    } t[] = {{NULL, {1, 2}, "3"}, {"last", {1, 2}, "3"}, {"first", {2, 3}, "1"},
             {"y", {1, 3}, "2"},  {"2", {1, 3}, "2"},    {"-2", {1, 3}, "2"},
             {"-3", {2, 3}, "1"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct csv_options o = {.label = t[i].label, .header = -1};
        struct samples s;

        expect("x,y,z\n1,2,3\n", &o, &s, 1, 2, 1);
        assert_memory_equal(s.value, t[i].value, sizeof(t[i].value));
        assert_string_equal(s.class_name[0], t[i].class);
        samples_deinit(&s);
    }
    refused("x,y\n1,2\n", &(struct csv_options){.label = "w", .header = -1},
            ERR_INVAL, "T: line 1: expected a column w");
    refused("1,2\n", &(struct csv_options){.label = "3", .header = -1},
            ERR_INVAL, "column 3");
    refused("1,2\n", &(struct csv_options){.label = "0", .header = -1},
            ERR_INVAL, "column 0");
}

/* A header is found, or taken as said; a missing value makes none. */
static void csv_header_is_found_or_set(void **state)
{
    struct csv_options none = {.header = 0}, one = {.header = 1};
    struct csv_options text = {.header = -1, .plain = true};
    struct samples s;

    (void)state;
    expect("a,b\n1,2\n", &as_found, &s, 1, 1, 1);
    samples_deinit(&s);
    expect("1,b\n2,c\n", &as_found, &s, 2, 1, 2);
    samples_deinit(&s);
    expect("1970,1971\n1,2\n", &one, &s, 1, 1, 1);
    samples_deinit(&s);
    refused("a,b\n1,2\n", &none, ERR_FORMAT,
            "T: line 2, column 1: expected a text, as on line 1 (a column of "
            "numbers and texts is one of categories where the setting "
            "\"categories\" names it, no input where \"ignore\" does), found "
            "\"1\"");
    refused("?,b\n1,2\n", &text, ERR_FORMAT, "line 1, column 1");
    refused("a,b\n", &as_found, ERR_FORMAT, "only a header");
    expect("a,?,c\n1,2,3\n", &as_found, &s, 1, 2, 1);
    samples_deinit(&s);
    expect("a,1970,c\n1,2,3\n", &one, &s, 1, 2, 1);
    samples_deinit(&s);
    refused("1,2.5x,3\n4,5,6\n", &as_found, ERR_FORMAT,
            "T: line 1, column 2: expected only numbers or only names of "
            "columns (or the setting header: true or false), found \"2.5x\"");
    refused("a,b\n1,2\n", &(struct csv_options){.label = "b", .header = 0},
            ERR_INVAL, "the setting header is false, found the name \"b\"");
}

/* Quotes as in RFC 4180: separators, line breaks and doubled quotes inside; the
 * line of a later fault counts the breaks. */
static void csv_quotes_are_rfc_4180(void **state)
{
    struct csv_options o = {.label = "kind, \"x\"", .header = -1};
    struct samples s;

    (void)state;
    expect("\"a\",\"kind, \"\"x\"\"\",\"c\nd\"\r\n"
           "1,\"u, \"\"v\"\"\",2\r\n 3 , w ,\"4\"\r\n",
           &o, &s, 2, 2, 2);
    assert_string_equal(s.class_name[0], "u, \"v\"");
    assert_string_equal(s.class_name[1], "w");
    assert_float_equal(s.value[3], 4, 0);
    samples_deinit(&s);
    refused("\"a\n\",b\n1,2\nx,3\n", &as_found, ERR_FORMAT,
            "T: line 4, column 1 (a?): expected a number, as on line 3 (a "
            "column of numbers and texts");
    refused("1,\"2\n3,4\n", &as_found, ERR_FORMAT, "a closing quote");
    refused("1,2\"2\"\n", &as_found, ERR_FORMAT, "column 2: expected quotes");
    refused("1,\"2\"2\n", &as_found, ERR_FORMAT, "behind the closing quote");
}

/* The separator is told by the first line, or set; blanks may be many. */
static void csv_separator_is_found_or_set(void **state)
{
    static const char *const same[] = {"1,2.5,3\n",
                                       "1;2.5;3\n",
                                       "1\t2.5\t3\n",
                                       "1 2.5 3\n",
                                       "  1   2.5  3 \n",
                                       "\"1\" \"2.5\" 3\n",
                                       "1, 2.5 , 3\n",
                                       "\xef\xbb\xbf"
                                       "1,2.5,3\n",
                                       "\n \n1,2.5,3\n\n"};
    struct csv_options bar = {.header = -1, .separator = '|'};
    struct samples s;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        expect(same[i], &as_found, &s, 1, 2, 1);
        assert_float_equal(s.value[1], 2.5, 0);
        assert_string_equal(s.class_name[0], "3");
        samples_deinit(&s);
    }
    expect("1|2.5|3\n", &bar, &s, 1, 2, 1);
    samples_deinit(&s);
    refused("1;2;3\n1;2,5;3\n", &as_found, ERR_FORMAT,
            "column 2: expected a number with a decimal point, found \"2,5\"");
}

/* With targets the label is a number to predict. */
static void csv_targets_are_numbers(void **state)
{
    struct csv_options o = {.header = -1, .targets = true};
    struct samples s;

    (void)state;
    expect("a,y\n1,452600.5\n2,-3\n", &o, &s, 2, 1, 0);
    assert_float_equal(s.target[0], 452600.5, 0);
    assert_float_equal(s.target[1], -3, 0);
    assert_null(s.label);
    assert_null(s.class_name);
    samples_deinit(&s);
    refused("1,x\n", &o, ERR_FORMAT, "line 1, column 2: expected a number");
}

/* Numbers read as strtod reads them, to the last bit of a float. */
static void csv_numbers_are_exact(void **state)
{
    static const char *const numbers[] = {"0.1",
                                          "-0",
                                          "123456789012345",
                                          "1234567890123456789",
                                          ".5",
                                          "5.",
                                          "1e-38",
                                          "3.4028234e38",
                                          "+17.25",
                                          "0.30000001",
                                          "-1e+5",
                                          "1E5",
                                          "1.40e-45",
                                          "9007199254740993"};
    char text[64];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct samples s;

        snprintf(text, sizeof(text), "%s,1\n", numbers[i]);
        expect(text, &as_found, &s, 1, 1, 1);
        assert_float_equal(s.value[0], (float)strtod(numbers[i], NULL), 0);
        samples_deinit(&s);
    }
}

/* Nothing is guessed: what is missing, too much, or no number is refused with
 * its line and column. */
static void csv_faults_say_line_and_column(void **state)
{
    struct csv_options none = {.header = 0};
    struct csv_options plain = {.header = -1, .plain = true};
    struct csv_options text = {.plain = true};

    (void)state;
    refused("a,b,c\n1,2,3\n4,,6\n", &plain, ERR_FORMAT,
            "T: line 3, column 2 (b): expected a number (fill missing values");
    refused("1,NA,3\n", &plain, ERR_FORMAT, "line 1, column 2");
    refused("1,nan,3\n", &plain, ERR_FORMAT, "line 1, column 2");
    refused("1,x,3\n", &text, ERR_FORMAT,
            "line 1, column 2: expected a number, found \"x\"");
    refused("1,2,\n", &as_found, ERR_FORMAT, "the label is missing");
    refused("1,2\n1,2,3\n", &as_found, ERR_FORMAT,
            "line 2: expected 2 columns, found 3");
    refused("1,2,3\n1,2\n", &as_found, ERR_FORMAT, "expected 3 columns");
    refused("1e39,2\n", &as_found, ERR_FORMAT, "32-bit float");
    refused("0x1,2\n", &none, ERR_FORMAT, "found \"0x1\"");
    refused("inf,2\n", &none, ERR_FORMAT, "found \"inf\"");
    refused("1e,2\n", &text, ERR_FORMAT, "found \"1e\"");
    refused("1-2,2\n", &text, ERR_FORMAT, "found \"1-2\"");
    refused("1\n2\n", &as_found, ERR_FORMAT, "at least two columns");
    refused("", &as_found, ERR_FORMAT, "found nothing");
    refused("\n \n", &as_found, ERR_FORMAT, "found nothing");
}

static char *many_rows(unsigned classes)
{
    char *text = malloc(classes * 16ull), *p = text;
    unsigned i;

    assert_non_null(text);
    for (i = 0; i < classes; i++)
        p += sprintf(p, "%u,c%03u\n", i, i);
    return text;
}

/* 256 classes, no more; and memory within the limit. */
static void csv_limits_hold(void **state)
{
    char *text = many_rows(257);
    struct csv_table *t = csv_table_new(&as_found);
    struct data_stream *stream;
    struct samples s;
    struct fault f = {0};

    (void)state;
    refused(text, &as_found, ERR_LIMIT,
            "T: line 257, column 2: expected at most 256 classes");
    *strstr(text, "256,") = '\0';
    expect(text, &as_found, &s, 256, 1, 256);
    assert_int_equal(s.label[255], 255);
    samples_deinit(&s);
    assert_int_equal(data_stream_memory("T", text, strlen(text), &stream, NULL),
                     ERR_OK);
    assert_int_equal(csv_table_read(t, stream, 100, &f), ERR_LIMIT);
    data_stream_close(stream);
    csv_table_free(t);
    free(text);
}

/* A record that ends nowhere stops at the limit, not at the file's end. */
static void csv_endless_record_is_refused(void **state)
{
    char *text = malloc(2 * CSV_RECORD_MAX);

    (void)state;
    assert_non_null(text);
    memset(text, '1', 2 * CSV_RECORD_MAX);
    memcpy(text, "1,\"", 3);
    text[2 * CSV_RECORD_MAX - 1] = '\0';
    refused(text, &as_found, ERR_FORMAT,
            "T: line 1: expected a record of less");
    free(text);
}

/* Several files are one table, each with the header or without. */
static void csv_files_follow_one_another(void **state)
{
    static const char *const parts[] = {"x,y\n1,b\n", "x,y\n2,a\n", "3,b\n"};
    struct csv_table *t = csv_table_new(&as_found);
    struct samples s;
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct data_stream *stream;

        assert_int_equal(
            data_stream_memory("T", parts[i], strlen(parts[i]), &stream, NULL),
            ERR_OK);
        assert_int_equal(csv_table_read(t, stream, UINT64_MAX, NULL), ERR_OK);
        data_stream_close(stream);
    }
    assert_int_equal(csv_table_take(t, &s, NULL), ERR_OK);
    csv_table_free(t);
    assert_int_equal(s.count, 3);
    assert_float_equal(s.value[2], 3, 0);
    assert_int_equal(s.label[0], 1);
    assert_int_equal(s.label[1], 0);
    assert_int_equal(s.label[2], 1);
    samples_deinit(&s);
}

/* To predict: a, b, c of the model, without labels. */
static const char *const three[] = {"a", "b", "c"};

static struct csv_options inputs(const char *const *name, const char *label)
{
    return (struct csv_options){
        .header = -1, .label = label, .inputs = 3, .input_name = name};
}

/* One row of 1, 2, 3, however the file has it. */
static void reads_one(const char *text, const char *const *name,
                      const char *label)
{
    struct csv_options o = inputs(name, label);
    struct samples s;

    expect(text, &o, &s, 1, 3, 0);
    for (int i = 0; i < 3; i++)
        assert_float_equal(s.value[i], i + 1, 0);
    assert_null(s.label);
    assert_null(s.target);
    assert_null(s.column_name);
    samples_deinit(&s);
}

static void csv_inputs_are_found_by_name_or_place(void **state)
{
    (void)state;
    reads_one("1,2,3\n", three, NULL);
    reads_one("1,2,3\n", NULL, NULL);
    reads_one("a,b,c\n1,2,3\n", NULL, NULL);
    reads_one("a,b,c\n1,2,3\n", three, NULL);
    reads_one("c,x,b,a\n3,?,2,1\n", three, NULL); /* x is passed over */
    reads_one("a,b,c,y\n1,2,3,yes\n", three, "y");
    reads_one("y,a,b,c\nyes,1,2,3\n", NULL, "first");
    reads_one("1,2,3,yes\n", three, NULL); /* the label is the last */
    reads_one("1,yes,2,3\n", NULL, "2");
}

/* A model keeps names as lines; the header may have more. */
static void csv_inputs_of_names_with_breaks_are_found(void **state)
{
    static const char *const broken[] = {"a b", "c"};
    struct csv_options o = {.header = -1, .inputs = 2, .input_name = broken};
    struct samples s;

    (void)state;
    expect("c,\"a\nb\",y\n2,1,7\n", &o, &s, 1, 2, 0);
    assert_float_equal(s.value[0], 1, 0);
    assert_float_equal(s.value[1], 2, 0);
    samples_deinit(&s);
}

/* A name that stands twice is refused with both places, wherever one of the two
 * is of use. */
static void csv_names_stand_once(void **state)
{
    static const char *const both[] = {"1", "3"}, *const one[] = {"1"},
                             *const named[] = {"a"};
    struct csv_options o = {.header = -1, .ignore = both, .ignored = 2};
    struct samples s;

    (void)state;
    refused("a,b,a,y\n1,2,3,0\n", &as_found, ERR_FORMAT,
            "line 1: expected each column's name once, found \"a\" as column "
            "1 and as column 3");
    refused("b,y,a,y\n1,2,3,0\n", &as_found, ERR_FORMAT, /* the label, too */
            "found \"y\" as column 2 and as column 4");
    expect("a,b,a,y\n1,2,3,0\n", &o, &s, 1, 1, 1);
    assert_float_equal(s.value[0], 2, 0);
    samples_deinit(&s);
    o = (struct csv_options){.header = -1, .ignore = one, .ignored = 1};
    refused("a,b,a,y\n1,2,3,0\n", &o, ERR_FORMAT, "as column 1 and");
    o.ignore = named; /* which of them? */
    refused("a,b,a,y\n1,2,3,0\n", &o, ERR_FORMAT, "as column 1 and");
    /* No name is no name, and a value may stand twice. */
    expect(",b,,y\n1,2,3,0\n", &as_found, &s, 1, 3, 1);
    samples_deinit(&s);
    expect("1,2,1,0\n1,2,3,0\n", &as_found, &s, 2, 3, 1);
    samples_deinit(&s);
}

static enum err take_text(const char *text, const struct csv_options *o,
                          struct samples *out, struct fault *f)
{
    struct csv_table *t = csv_table_new(o);
    struct data_stream *s;
    enum err err;

    scratch_text("numbers.csv", text);
    assert_int_equal(data_stream_open(scratch_path("numbers.csv"), &s, f),
                     ERR_OK);
    assert_int_equal(csv_table_read(t, s, UINT64_MAX, f), ERR_OK);
    data_stream_close(s);
    err = csv_table_take(t, out, f);
    csv_table_free(t);
    return err;
}

/* Of several files the one that has it is named; one text makes all classes. */
static void csv_numbers_of_a_later_file_are_named(void **state)
{
    static const char *const name[] = {"one.csv", "two.csv", "three.csv"};
    struct csv_options o = {.header = -1};
    struct samples s;
    struct fault f = {0};

    (void)state;
    scratch_text(name[0], "a,y\n1,1\n2,2\n");
    scratch_text(name[1], "a,y\n1,2\n2,0.5\n3,1.5\n");
    scratch_text(name[2], "a,y\n1,2\n2,many\n");
    for (int files = 2; files <= 3; files++) {
        struct csv_table *t = csv_table_new(&o);

        for (int i = 0; i < files; i++) {
            struct data_stream *in;

            assert_int_equal(data_stream_open(scratch_path(name[i]), &in, &f),
                             ERR_OK);
            assert_int_equal(csv_table_read(t, in, UINT64_MAX, &f), ERR_OK);
            data_stream_close(in);
        }
        assert_int_equal(csv_table_take(t, &s, &f),
                         files == 2 ? ERR_LIMIT : ERR_OK);
        if (files == 2)
            assert_non_null(strstr(f.text, "two.csv: line 3, column 2 (the "
                                           "label): expected a class"));
        else
            samples_deinit(&s);
        csv_table_free(t);
    }
}

/* A label of numbers that are no integers is no class, unless that is said. */
static void csv_numbers_are_no_classes_unless_said(void **state)
{
    static const char prices[] = "a,price\n1,2.5\n2,3\n3,2.5\n";
    static const char *const label[] = {"price"};
    struct csv_options o = {.header = -1};
    struct samples s;
    struct fault f = {0};

    (void)state;
    assert_int_equal(take_text(prices, &o, &s, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "numbers.csv: line 2, column 2 (the "
                                   "label): expected a class, a text or an "
                                   "integer, found \"2.5\""));
    assert_non_null(strstr(f.text, "loss squared"));
    o.targets = true;
    assert_int_equal(take_text(prices, &o, &s, &f), ERR_OK);
    assert_float_equal(s.target[0], 2.5, 0);
    samples_deinit(&s);
    o = (struct csv_options){.header = -1, .category = label, .categories = 1};
    assert_int_equal(take_text(prices, &o, &s, &f), ERR_OK);
    assert_int_equal(s.classes, 2);
    samples_deinit(&s);
    o = (struct csv_options){.header = -1, .goes_on = true};
    assert_int_equal(take_text(prices, &o, &s, &f), ERR_OK);
    assert_int_equal(s.classes, 2);
    samples_deinit(&s);
    o = (struct csv_options){.header =
                                 -1}; /* integers, and a text among them */
    assert_int_equal(take_text("1,2.0\n2,3e0\n", &o, &s, &f), ERR_OK);
    samples_deinit(&s);
    assert_int_equal(take_text("1,2.5\n2,many\n", &o, &s, &f), ERR_OK);
    samples_deinit(&s);
}

/* Columns of one name, which models of before may have, are taken in their
 * order. */
static void csv_inputs_of_one_name_are_several(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    struct csv_options o = inputs(twice, NULL);
    struct samples s;

    (void)state;
    expect("b,a,a\n2,1,3\n", &o, &s, 1, 3, 0);
    assert_float_equal(s.value[0], 1, 0);
    assert_float_equal(s.value[2], 3, 0);
    samples_deinit(&s);
    refused("b,a,a,a\n2,1,3,4\n", &o, ERR_FORMAT,
            "found \"a\" as column 2 and as column 4");
    expect("b,a,a,c,c\n2,1,3,4,5\n", &o, &s, 1, 3, 0); /* passed over */
    samples_deinit(&s);
}

static void csv_inputs_that_lack_are_refused(void **state)
{
    struct csv_options named = inputs(three, NULL);
    struct csv_options placed = inputs(NULL, NULL);
    struct csv_options label = inputs(NULL, "y");

    (void)state;
    named.plain = true;
    refused("a,b,x\n1,2,3\n", &named, ERR_FORMAT, "expected the column \"c\"");
    refused("1,2\n", &placed, ERR_FORMAT, "expected the 3 columns");
    refused("1,2,3,4,5\n", &placed, ERR_FORMAT, "found 5");
    refused("1,2,3,4\n", &label, ERR_INVAL, "none is y");
    refused("c,b,a\n1,,2\n", &named, ERR_FORMAT, "line 2, column 2 (b)");
    refused("a,b,c\n", &named, ERR_FORMAT, "only a header");
}

/* Columns to ignore are no values, hold whatever they like, and do not count
 * where it is told whether there is a header. */
static void csv_columns_to_ignore_are_not_looked_at(void **state)
{
    static const char *const names[] = {"id", "note"}, *const first[] = {"1"};
    struct csv_options o = {.header = -1, .ignore = names, .ignored = 2};
    struct samples s;

    (void)state;
    expect("id,a,note,y\nx1,5,\xff,u\n7,6,,v\n", &o, &s, 2, 1, 2);
    assert_float_equal(s.value[1], 6, 0);
    assert_string_equal(s.column_name[0], "a");
    samples_deinit(&s);
    o = (struct csv_options){.header = -1, .ignore = first, .ignored = 1};
    expect("k1,5,u\nk2,6,v\n", &o, &s, 2, 1, 2); /* no header: 5 is a value */
    assert_float_equal(s.value[0], 5, 0);
    samples_deinit(&s);
}

/* Whoever ignores what is not there, the label, or all, is told so. */
static void csv_columns_to_ignore_must_be_there(void **state)
{
    static const char *const none[] = {"b"}, *const label[] = {"y"},
                             *const all[] = {"a"};
    struct csv_options o = {.header = -1, .ignore = none, .ignored = 1};

    (void)state;
    refused("a,y\n1,u\n", &o, ERR_INVAL, "a column b (the setting ignore)");
    o.header = 0;
    refused("1,u\n", &o, ERR_INVAL, "a column b (the setting ignore)");
    o = (struct csv_options){.header = -1, .ignore = label, .ignored = 1};
    refused("a,y\n1,u\n", &o, ERR_INVAL, "beside the label");
    o.ignore = all;
    refused("a,y\n1,u\n", &o, ERR_INVAL, "that the setting ignore does not");
    o.category = all;
    o.categories = 1;
    refused("a,b,y\n1,2,u\n", &o, ERR_INVAL, "a column a (the setting cat");
}

/* Rows to predict may have the columns that were ignored, and the label, each
 * where it stood in training; or neither. */
static void csv_inputs_pass_over_what_was_ignored(void **state)
{
    static const char *const by_number[] = {"1", "5"};
    struct csv_options o = inputs(NULL, "3");
    static const char *const rows[] = {"1,2,3\n", "id,1,2,x,3\n",
                                       "id,1,yes,2,x,3\n"};
    struct samples s;

    (void)state;
    o.ignore = by_number;
    o.ignored = 2;
    o.header = 0;
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        expect(rows[k], &o, &s, 1, 3, 0);
        for (int i = 0; i < 3; i++)
            assert_float_equal(s.value[i], i + 1, 0);
        samples_deinit(&s);
    }
    refused("1,2,3,4\n", &o, ERR_FORMAT, "expected the 3 columns");
}

static void csv_inputs_without_memory_leave_nothing(void **state)
{
    struct csv_options o = inputs(three, NULL);
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct samples s = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = read_text("c,b,a\n1,2,3\n", &o, &s, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        samples_deinit(&s);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 7);
}

/* Every allocation that fails is reported and undone. */
static void csv_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct samples s = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = read_text("x,y\n1,b\n2,a\n", &as_found, &s, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        samples_deinit(&s);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_rows_and_classes_are_read),
        cmocka_unit_test(csv_number_classes_go_by_value),
        cmocka_unit_test(csv_label_is_where_it_is_said_to_be),
        cmocka_unit_test(csv_header_is_found_or_set),
        cmocka_unit_test(csv_quotes_are_rfc_4180),
        cmocka_unit_test(csv_separator_is_found_or_set),
        cmocka_unit_test(csv_targets_are_numbers),
        cmocka_unit_test(csv_numbers_are_exact),
        cmocka_unit_test(csv_faults_say_line_and_column),
        cmocka_unit_test(csv_limits_hold),
        cmocka_unit_test(csv_endless_record_is_refused),
        cmocka_unit_test(csv_files_follow_one_another),
        cmocka_unit_test(csv_inputs_are_found_by_name_or_place),
        cmocka_unit_test(csv_names_stand_once),
        cmocka_unit_test_setup_teardown(csv_numbers_of_a_later_file_are_named,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(csv_numbers_are_no_classes_unless_said,
                                        scratch_make, scratch_remove),
        cmocka_unit_test(csv_inputs_of_one_name_are_several),
        cmocka_unit_test(csv_inputs_of_names_with_breaks_are_found),
        cmocka_unit_test(csv_inputs_that_lack_are_refused),
        cmocka_unit_test(csv_columns_to_ignore_are_not_looked_at),
        cmocka_unit_test(csv_columns_to_ignore_must_be_there),
        cmocka_unit_test(csv_inputs_pass_over_what_was_ignored),
        cmocka_unit_test(csv_inputs_without_memory_leave_nothing),
        cmocka_unit_test(csv_allocation_failure_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
