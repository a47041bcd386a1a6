#include "apps/formats/data_stream.h"
#include "apps/samples/encoding_file.h"
#include "apps/samples/samples_load.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>

#define LLVMFuzzerTestOneInput fuzz_encoding
#include "tests/fuzz/fuzz_encoding.c"
#undef LLVMFuzzerTestOneInput

#include "tests/unit/fixture/corpus.h"

static char logged[1024];

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n",
             line);
}

/* @model: the folder to evaluate with, or to @predict. */
static enum err load(const char *json, const char *model, bool predict,
                     struct samples *train, struct samples *test,
                     struct fault *f)
{
    struct mlt_app_config config = {.size = sizeof(config),
                                    .settings = json,
                                    .folder = scratch_folder(),
                                    .workers = 1,
                                    .seed = 1,
                                    .evaluate = model != NULL,
                                    .model = model,
                                    .predict = predict};
    struct settings s;
    enum err err = settings_init(&s, &config, f);

    if (err)
        return err;
    logged[0] = '\0';
    log_set_sink(keep_line, NULL);
    err = samples_load(&s, false, train, test, f);
    log_set_sink(NULL, NULL);
    settings_deinit(&s);
    return err;
}

static void refused(const char *text, const char *settings, enum err code,
                    const char *says)
{
    int64_t before = mem_outstanding();
    struct samples a, b;
    struct fault f = {0};
    char json[256];
    enum err err;

    scratch_text("r.csv", text);
    snprintf(json, sizeof(json),
             "{\"data\": \"r.csv\", \"test_fraction\": 0%s}", settings);
    err = load(json, NULL, false, &a, &b, &f);
    if (err != code || !strstr(f.text, says))
        fail_msg("%s: %s: %s (wanted %s)", text, err_name(err), f.text, says);
    assert_int_equal(mem_outstanding(), before);
}

static void row_is(const struct samples *s, uint64_t row, const float *want)
{
    for (uint64_t c = 0; c < s->channels; c++)
        if (fabsf(s->value[row * s->channels + c] - want[c]) > 1e-6f)
            fail_msg("row %d, input %d: %g, not %g", (int)row, (int)c,
                     (double)s->value[row * s->channels + c], (double)want[c]);
}

static const char table[] = "age,plan,zip,y\n"
                            "1,pro,10,a\n"
                            "NA,basic,9.0,b\n"
                            "5,?,9,a\n";
static const char settings[] = "{\"data\": \"t.csv\", \"test\": \"v.csv\","
                               " \"categories\": [\"zip\"]}";

static void load_table(struct samples *a, struct samples *b)
{
    struct fault f = {0};

    scratch_text("t.csv", table);
    scratch_text("v.csv", "age,plan,zip,y\n?,basic,,a\n2,free,9,b\n");
    if (load(settings, NULL, false, a, b, &f))
        fail_msg("%s", f.text);
}

/* A column of numbers is an input, and one for what is missing; one of
 * categories an input each, in sorted order. Means and categories are those of
 * the training rows alone, and what the others have beside is counted. */
static void encoding_is_of_the_training_rows(void **state)
{
    static const char *const names[] = {
        "age",          "age missing", "plan=basic", "plan=pro",
        "plan missing", "zip=9",       "zip=10"};
    struct samples a, b;

    (void)state;
    load_table(&a, &b);
    assert_int_equal(a.channels, 7);
    row_is(&a, 0, (const float[]){1, 0, 0, 1, 0, 0, 1});
    row_is(&a, 1, (const float[]){3, 1, 1, 0, 0, 1, 0});
    row_is(&a, 2, (const float[]){5, 0, 0, 0, 1, 1, 0});
    row_is(&b, 0, (const float[]){3, 1, 1, 0, 0, 0, 0});
    row_is(&b, 1, (const float[]){2, 0, 0, 0, 0, 1, 0});
    for (int i = 0; i < 7; i++)
        assert_string_equal(a.column_name[i], names[i]);
    assert_non_null(a.columns);
    assert_int_equal(a.columns->inputs, 7);
    assert_null(b.columns);
    assert_non_null(strstr(logged, "missing_values values=2 data=t.csv"));
    assert_non_null(strstr(logged, "missing_values values=2 data=v.csv"));
    assert_non_null(strstr(
        logged, "unknown_categories values=1 first_column=2 data=v.csv"));
    samples_deinit(&a);
    samples_deinit(&b);
}

/* Categories that only the validation share has are none of the model's. */
static void encoding_knows_no_more_than_the_training_share(void **state)
{
    struct samples a, b;
    struct fault f = {0};
    char text[4096], *p = text;

    (void)state;
    for (int i = 0; i < 60; i++)
        p += sprintf(p, "own%d,%d,c%d\n", i, i, i % 2);
    scratch_text("t.csv", text);
    assert_int_equal(load("{\"data\": \"t.csv\", \"header\": false,"
                          " \"test_fraction\": 0.3}",
                          NULL, false, &a, &b, &f),
                     ERR_OK);
    assert_true(a.count < 60 && b.count > 0);
    assert_int_equal(a.channels, a.count + 1);
    assert_int_equal(b.channels, a.channels);
    for (uint64_t i = 0; i < b.count; i++)
        for (uint64_t c = 0; c + 1 < b.channels; c++)
            assert_float_equal(b.value[i * b.channels + c], 0, 0);
    samples_deinit(&a);
    samples_deinit(&b);
}

/* A saved model takes other data as its own: columns by name, where one is the
 * model's; else by place. */
static void encoding_of_a_model_is_used(void **state)
{
    struct samples a, b, c, d;
    struct fault f = {0};
    const char *model;

    (void)state;
    load_table(&a, &b);
    scratch_mkdir("model");
    model = scratch_path("model");
    assert_int_equal(encoding_save(a.columns, model, &f), ERR_OK);
    scratch_text("p.csv", "zip,more,plan,age\n9,x,pro,\n8,x,,7\n");
    assert_int_equal(load("{\"data\": \"p.csv\", \"categories\": [\"zip\"]}",
                          model, true, &c, &d, &f),
                     ERR_OK);
    row_is(&c, 0, (const float[]){3, 1, 0, 1, 0, 1, 0});
    row_is(&c, 1, (const float[]){7, 0, 0, 0, 1, 0, 0});
    assert_non_null(strstr(logged, "unknown_categories values=1"));
    samples_deinit(&c);
    assert_int_equal(load(settings, model, false, &c, &d, &f), ERR_OK);
    assert_int_equal(c.count, 3);
    assert_memory_equal(c.value, a.value, sizeof(float) * 3 * 7);
    samples_deinit(&c);
    scratch_text("p.csv", "zip,more,plan,age,y\n9,x,pro,1,a\n");
    assert_int_equal(load("{\"data\": \"p.csv\"}", model, false, &c, &d, &f),
                     ERR_FORMAT); /* which of two is the label, no place says */
    assert_non_null(strstr(f.text, "leave the others out"));
    assert_int_equal(load("{\"data\": \"p.csv\", \"label\": \"y\"}", model,
                          false, &c, &d, &f),
                     ERR_OK);
    row_is(&c, 0, (const float[]){1, 0, 0, 1, 0, 1, 0});
    samples_deinit(&c);
    scratch_text("p.csv", "age,plan,street,y\n1,pro,9,a\n");
    assert_int_equal(load("{\"data\": \"p.csv\"}", model, false, &c, &d, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "p.csv: expected the column \"zip\", which "
                                   "the model was trained with"));
    scratch_text("p.csv", "years,tariff,street,y\n1,pro,9,a\n");
    assert_int_equal(load("{\"data\": \"p.csv\"}", model, false, &c, &d, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "p.csv: expected the columns of the "
                                   "training data"));
    scratch_text("p.csv", "age,plan,zip,y\nold,pro,1,a\n");
    assert_int_equal(load("{\"data\": \"p.csv\"}", model, false, &c, &d, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 2, column 1 (age): expected a number, "
                                   "as in the training data"));
    samples_deinit(&a);
    samples_deinit(&b);
}

/* A model of before there were encodings takes numbers alone, as then. */
static void encoding_of_old_models_is_none(void **state)
{
    struct samples a, b;
    struct fault f = {0};

    (void)state;
    scratch_mkdir("old");
    scratch_text("n.csv", "1,2,a\n3,4,b\n");
    assert_int_equal(
        load("{\"data\": \"n.csv\"}", scratch_path("old"), false, &a, &b, &f),
        ERR_OK);
    assert_int_equal(a.channels, 2);
    assert_null(a.columns);
    samples_deinit(&a);
    scratch_text("n.csv", "1,2,a\n3,,b\n");
    assert_int_equal(
        load("{\"data\": \"n.csv\"}", scratch_path("old"), false, &a, &b, &f),
        ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 2, column 2: expected a number"));
}

/* A folder's files whose names say that they are tables are some, whatever
 * their texts look like; validation data have the columns of training. */
static void encoding_of_a_folder_of_texts(void **state)
{
    struct samples a, b;
    struct fault f = {0};

    (void)state;
    scratch_mkdir("set");
    scratch_text("set/readme.txt", "some words, and others\n");
    scratch_text("set/train.csv", "plan,y\nbasic,a\npro,b\n");
    scratch_text("set/test.csv", "plan,y\npro,b\n7,a\n");
    assert_int_equal(load("{\"data\": \"set\"}", NULL, false, &a, &b, &f),
                     ERR_OK);
    assert_int_equal(a.channels, 2);
    row_is(&b, 0, (const float[]){0, 1});
    row_is(&b, 1, (const float[]){0, 0});
    assert_non_null(strstr(logged, "unknown_categories values=1"));
    samples_deinit(&a);
    samples_deinit(&b);
}

/* What may be a mistake is refused, and said how it can be meant. */
static void encoding_guesses_nothing(void **state)
{
    char *text = malloc(16 * 1002), *p = text;

    (void)state;
    assert_non_null(text);
    refused("a,b,y\n1,x,u\n2,3,u\n", "", ERR_FORMAT,
            "line 3, column 2 (b): expected a text, as on line 2 (a column of "
            "numbers and texts is one of categories where the setting "
            "\"categories\" names it, no input where \"ignore\" does), found "
            "\"3\"");
    refused("a,b,y\n1,2,u\nx,3,u\n", "", ERR_FORMAT,
            "line 3, column 1 (a): expected a number, as on line 2");
    refused("a,b,y\n1,2,u\n", ", \"categories\": [\"c\"]", ERR_INVAL,
            "expected a column c (the setting categories) beside those to");
    refused("1,2,u\n", ", \"categories\": [4]", ERR_INVAL, "a column 4");
    refused("1,2,u\n", ", \"categories\": [true]", ERR_INVAL,
            "/app/categories/0");
    refused("a;b;y\n1;2,5;u\n", "", ERR_FORMAT,
            "a number with a decimal point");
    refused("b,y\n\"x\ny\",u\n", "", ERR_FORMAT, "expected a category: a text");
    refused("b,y\n\xe9,u\n", "", ERR_FORMAT, "a category in UTF-8");
    refused("b,y\nx,?\n", "", ERR_FORMAT, "the label is missing");
    p += sprintf(p, "id,y\n");
    for (int i = 0; i <= CATEGORIES_MAX; i++)
        p += sprintf(p, "n%d,u\n", i);
    refused(text, "", ERR_LIMIT,
            "line 1002, column 1 (id): expected at most 1000 categories in a "
            "column, found one more (name the column in the setting");
    free(text);
}

/* Each allocation that fails is reported and undone. */
static void encoding_without_memory_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    scratch_text("t.csv", table);
    scratch_text("v.csv", "age,plan,zip,y\n?,basic,,a\n2,free,9,b\n");
    for (nth = 1; failed; nth++) {
        struct samples a = {0}, b = {0};
        struct encoding e = {.columns = 0};
        char *text = NULL;
        enum err err;

        mem_fail_at(nth, 0);
        err = load(settings, NULL, false, &a, &b, NULL);
        if (!err)
            err = encoding_save(a.columns, scratch_folder(), NULL);
        if (!err)
            err = encoding_load(scratch_folder(), &e, NULL);
        if (!err)
            err = encoding_text(scratch_folder(), &text, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        mem_free(text);
        encoding_deinit(&e);
        samples_deinit(&a);
        samples_deinit(&b);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 60);
}

/* Memory beyond the limit is refused before it is taken. */
static void encoding_keeps_within_memory(void **state)
{
    char *text = malloc(300000), *p = text;
    struct samples a, b;
    struct fault f = {0};

    (void)state;
    assert_non_null(text);
    p += sprintf(p, "id,y\n");
    for (int i = 0; i < 20000; i++)
        p += sprintf(p, "n%d,u\n", i % 900);
    scratch_text("wide.csv", text);
    free(text);
    data_memory_allow(8 << 20);
    assert_int_equal(load("{\"data\": \"wide.csv\"}", NULL, false, &a, &b, &f),
                     ERR_LIMIT);
    data_memory_allow(0);
    assert_non_null(strstr(f.text, "wide.csv: needs"));
}

/* A file that says what an encoding cannot be is refused by its path. */
static void encoding_files_are_checked(void **state)
{
    struct encoding e;
    struct fault f = {0};

    (void)state;
    scratch_mkdir("bad");
    scratch_text("bad/encoding.json", "{\"version\": 1, \"columns\": [{}]}");
    assert_int_equal(encoding_load(scratch_path("bad"), &e, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "bad/encoding.json: /columns/0/kind"));
    assert_int_equal(e.columns, 0);
    assert_int_equal(encoding_load(scratch_path("none"), &e, &f), ERR_OK);
    assert_int_equal(e.columns, 0);
}

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    struct encoding e;
    bool taken = encoding_parse((const char *)bytes, n, &e, NULL) == ERR_OK;

    fuzz_encoding(bytes, n);
    if (taken)
        encoding_deinit(&e);
    if (taken == (strncmp(name, "bad", 3) == 0))
        fail_msg("%s", name);
}

static void encoding_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("encoding", 14, replay_one);
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(encoding_is_of_the_training_rows),
        IN_FOLDER(encoding_knows_no_more_than_the_training_share),
        IN_FOLDER(encoding_of_a_model_is_used),
        IN_FOLDER(encoding_of_old_models_is_none),
        IN_FOLDER(encoding_of_a_folder_of_texts),
        IN_FOLDER(encoding_guesses_nothing),
        IN_FOLDER(encoding_without_memory_leaves_nothing),
        IN_FOLDER(encoding_keeps_within_memory),
        IN_FOLDER(encoding_files_are_checked),
        cmocka_unit_test(encoding_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
