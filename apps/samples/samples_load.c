#include "apps/samples/samples_load.h"

#include "apps/data/data.h"
#include "apps/samples/columns.h"
#include "apps/samples/data_samples.h"
#include "apps/samples/encoding_file.h"
#include "apps/samples/scaling.h"
#include "apps/samples/table_summary.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 24 };

static const double default_fraction = 0.1;

/* Columns that a setting lists. */
struct column_list {
    const char **name;            /* [len]: owned */
    char (*number)[NUMBER_BYTES]; /* [len]: owned, of those given so */
    size_t len;
};

/* The settings of tables, and the memory that they are in. */
struct table_settings {
    struct csv_options csv;
    struct column_list categories, ignore;
    char label[NUMBER_BYTES];
    struct encoding model; /* of the model that is used, or zeroed */
};

static void column_list_deinit(struct column_list *l)
{
    mem_free((void *)l->name);
    mem_free(l->number);
}

static void table_settings_deinit(struct table_settings *t)
{
    column_list_deinit(&t->categories);
    column_list_deinit(&t->ignore);
    encoding_deinit(&t->model);
}

/* A column by its name, or by the number that becomes a text in @room. */
static const char *read_column(const json_t *value, char room[NUMBER_BYTES])
{
    if (!json_is_integer(value))
        return json_string_value(value);
    snprintf(room, NUMBER_BYTES, "%" JSON_INTEGER_FORMAT,
             json_integer_value(value));
    return room;
}

static enum err read_list(const struct settings *s, const char *setting,
                          struct column_list *out, struct fault *f)
{
    const json_t *list = json_object_get(s->json, setting);
    size_t n = json_array_size(list);

    out->name = mem_calloc(n + 1, sizeof(*out->name));
    out->number = mem_calloc(n + 1, sizeof(*out->number));
    if (!out->name || !out->number)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    for (; out->len < n; out->len++) {
        size_t i = out->len;

        out->name[i] = read_column(json_array_get(list, i), out->number[i]);
        if (!out->name[i])
            return fault_set(f, ERR_INVAL,
                             "/app/%s/%zu: expected the name or the number of "
                             "a column",
                             setting, i);
    }
    return ERR_OK;
}

static enum err read_options(const struct settings *s, bool targets,
                             struct table_settings *t, struct fault *f)
{
    const json_t *header = json_object_get(s->json, "header");
    const char *separator =
        json_string_value(json_object_get(s->json, "separator"));
    enum err err = read_list(s, "categories", &t->categories, f);

    if (!err)
        err = read_list(s, "ignore", &t->ignore, f);
    if (err)
        return err;
    t->csv = (struct csv_options){
        .label = read_column(json_object_get(s->json, "label"), t->label),
        .header = json_is_boolean(header) ? json_is_true(header) : -1,
        .separator = separator ? *separator : '\0',
        .targets = targets,
        .goes_on = s->goes_on,
        .category = t->categories.name,
        .categories = t->categories.len,
        .ignore = t->ignore.name,
        .ignored = t->ignore.len};
    return ERR_OK;
}

/* The columns of the model that is used; a model of before there were encodings
 * takes numbers. */
static enum err read_model(const struct settings *s, struct table_settings *t,
                           struct fault *f)
{
    enum err err = s->model ? encoding_load(s->model, &t->model, f) : ERR_OK;

    if (t->model.columns)
        t->csv.like = &t->model;
    t->csv.plain = s->model && t->model.columns == 0;
    return err;
}

/* Data that `test` names: of a folder with both halves the test one. Columns of
 * a table are those of @train, by their names where both have them. */
static enum err load_test(const struct settings *s, struct csv_options csv,
                          const struct samples *train, struct samples *test,
                          struct fault *f)
{
    struct samples first = {0}, second = {0};
    enum err err;

    csv.like = train->columns;
    csv.input_name = (const char *const *)train->column_name;
    if (csv.input_name) {
        csv.labelled = true;
        csv.inputs = samples_values(train);
    }
    err = data_load_samples(s->test, s->folder, &csv, &first, &second, f);
    if (err)
        return err;
    samples_deinit(test);
    *test = second.count > 0 ? second : first;
    samples_deinit(second.count > 0 ? &first : &second);
    return ERR_OK;
}

static enum err split(const struct settings *s, struct samples *train,
                      struct samples *test, struct fault *f)
{
    double fraction =
        s->test_fraction < 0 ? default_fraction : s->test_fraction;

    samples_deinit(test);
    if (samples_split(train, fraction, s->seed, test))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    if (train->count == 0)
        return fault_set(f, ERR_INVAL, "%s: no sample is left for training",
                         s->data);
    return ERR_OK;
}

static enum err choose_test(const struct settings *s,
                            const struct csv_options *csv,
                            struct samples *train, struct samples *test,
                            struct fault *f)
{
    if (s->test)
        return load_test(s, *csv, train, test, f);
    if (s->test_fraction < 0 && test->count > 0)
        return ERR_OK;
    return split(s, train, test, f);
}

/* To evaluate: the data's own test set where it has one, else all of it.
 * Whoever asked for 5000 samples is told why fewer are evaluated. */
static void take_all(struct samples *train, struct samples *test)
{
    if (test->count > 0) {
        log_event(LOG_WARN, "only_its_own_test_set",
                  "samples=%" PRIu64 " for_training=%" PRIu64
                  " reason=\"the data have a test set of their own, which "
                  "alone is evaluated\"",
                  test->count, train->count);
        samples_deinit(train);
        *train = *test;
        memset(test, 0, sizeof(*test));
    }
    samples_deinit(test);
}

/* Labels of both mean the same, and both know as many classes. */
static enum err match(const struct settings *s, struct samples *train,
                      struct samples *test, struct fault *f)
{
    const char *name = s->test ? s->test : s->data;
    enum err err = samples_same_shape(train, name, test, f);

    if (!err)
        err = samples_rename(test, name, train->class_name, train->classes, f);
    if (!err && train->classes < test->classes)
        train->classes = test->classes; /* images: names have no gaps */
    return err;
}

static enum err load_pixels(const struct settings *s, struct samples *a,
                            struct samples *b, struct fault *f)
{
    struct images x = {0}, y = {0};
    enum err err = data_load_pixels(s->data, s->folder, &x, &y, f);

    if (err)
        return err;
    samples_of_images(&x, a);
    samples_of_images(&y, b);
    return ERR_OK;
}

/* To predict: what the model reads of a table, or images. To evaluate: with the
 * labels. */
static enum err load_inputs(const struct settings *s, struct csv_options *csv,
                            struct samples *a, struct samples *b,
                            struct fault *f)
{
    const struct encoding *model = csv->like;
    char **name = NULL;
    uint64_t columns = model ? model->columns : 0;
    enum err err = model ? encoding_names(model, &name, f)
                         : scaling_columns(s->model, &columns, f);

    if (err)
        return err;
    if (columns == 0 && s->predict)
        return load_pixels(s, a, b, f);
    if (!model && columns > 0)
        err = columns_load(s->model, columns, &name, f);
    csv->labelled = !s->predict;
    csv->inputs = s->predict || name ? columns : 0;
    csv->input_name = (const char *const *)name;
    if (!err)
        err = data_load_samples(s->data, s->folder, csv, a, b, f);
    columns_free(name, columns);
    csv->input_name = NULL;
    return err;
}

/* ---- encoding ------------------------------------------------------------ */

static enum err encode_half(const struct encoding *e, const char *file,
                            struct samples *s, struct fault *f)
{
    struct encoding_counts counts = {0};
    enum err err = s->columns ? encoding_apply(e, file, s, &counts, f) : ERR_OK;

    if (counts.missing)
        log_event(LOG_WARN, "missing_values", "values=%" PRIu64 " data=%s",
                  counts.missing, file);
    if (counts.unknown)
        log_event(LOG_WARN, "unknown_categories",
                  "values=%" PRIu64 " first_column=%" PRIu64 " data=%s",
                  counts.unknown, counts.column + 1, file);
    return err;
}

/* @like: of the model that is used, or NULL: what the training samples ask for,
 * which @train keeps. */
static enum err encode(const struct settings *s, const struct encoding *like,
                       struct samples *train, struct samples *test,
                       struct fault *f)
{
    struct encoding *own;
    enum err err;

    if (!train->columns)
        return ERR_OK;
    if (like)
        return encode_half(like, s->data, train, f);
    own = mem_calloc(1, sizeof(*own));
    err = own ? encoding_fit(train, own, f)
              : fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    if (!err)
        err = encode_half(own, s->data, train, f);
    if (!err)
        err = encode_half(own, s->test ? s->test : s->data, test, f);
    if (err) {
        if (own)
            encoding_deinit(own);
        mem_free(own);
        return err;
    }
    train->columns = own;
    return ERR_OK;
}

/* What the training samples hold, for who looks at the run. */
static enum err describe(const struct settings *s, struct samples *train,
                         struct fault *f)
{
    train->summary = samples_summary(train);
    return train->summary
               ? ERR_OK
               : fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
}

static enum err load_all(const struct settings *s, struct csv_options *csv,
                         struct samples *a, struct samples *b, struct fault *f)
{
    enum err err = s->model
                       ? load_inputs(s, csv, a, b, f)
                       : data_load_samples(s->data, s->folder, csv, a, b, f);

    if (!err && s->evaluate)
        take_all(a, b);
    else if (!err)
        err = choose_test(s, csv, a, b, f);
    if (!err)
        err = match(s, a, b, f);
    if (!err && !s->evaluate)
        err = describe(s, a, f);
    return err ? err : encode(s, csv->like, a, b, f);
}

enum err samples_load(const struct settings *s, bool targets,
                      struct samples *train, struct samples *test,
                      struct fault *f)
{
    struct table_settings t = {.label = ""};
    struct samples a = {0}, b = {0};
    enum err err = read_options(s, targets, &t, f);

    if (!err)
        err = read_model(s, &t, f);
    if (!err)
        err = load_all(s, &t.csv, &a, &b, f);
    table_settings_deinit(&t);
    if (err) {
        samples_deinit(&a);
        samples_deinit(&b);
        return err;
    }
    *train = a;
    *test = b;
    return ERR_OK;
}
