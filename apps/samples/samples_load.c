#include "apps/samples/samples_load.h"

#include "apps/data/data.h"
#include "apps/samples/columns.h"
#include "apps/samples/data_samples.h"
#include "apps/samples/scaling.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 24 };

static const double default_fraction = 0.1;

/* @number is room for a label that is given as one. */
static struct csv_options read_options(const struct settings *s, bool targets,
                                       char number[NUMBER_BYTES])
{
    const json_t *label = json_object_get(s->json, "label");
    const json_t *header = json_object_get(s->json, "header");
    const char *separator =
        json_string_value(json_object_get(s->json, "separator"));

    if (json_is_integer(label))
        snprintf(number, NUMBER_BYTES, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(label));
    return (struct csv_options){
        .label = json_is_integer(label) ? number : json_string_value(label),
        .header = json_is_boolean(header) ? json_is_true(header) : -1,
        .separator = separator ? *separator : '\0',
        .targets = targets};
}

/* Data that `test` names: of a folder with both halves the test one. */
static enum err load_test(const struct settings *s,
                          const struct csv_options *csv, struct samples *test,
                          struct fault *f)
{
    struct samples first = {0}, second = {0};
    enum err err =
        data_load_samples(s->test, s->folder, csv, &first, &second, f);

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
        return load_test(s, csv, test, f);
    if (s->test_fraction < 0 && test->count > 0)
        return ERR_OK;
    return split(s, train, test, f);
}

/* To evaluate: the data's own test set where it has one, else all of it. */
static void take_all(struct samples *train, struct samples *test)
{
    if (test->count > 0) {
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

/* What the model reads of a table, or images. */
static enum err load_inputs(const struct settings *s, struct csv_options *csv,
                            struct samples *a, struct samples *b,
                            struct fault *f)
{
    char **name = NULL;
    uint64_t columns;
    enum err err = scaling_columns(s->predict, &columns, f);

    if (err)
        return err;
    if (columns == 0)
        return load_pixels(s, a, b, f);
    err = columns_load(s->predict, columns, &name, f);
    csv->inputs = columns;
    csv->input_name = (const char *const *)name;
    if (!err)
        err = data_load_samples(s->data, s->folder, csv, a, b, f);
    columns_free(name, columns);
    csv->input_name = NULL;
    return err;
}

enum err samples_load(const struct settings *s, bool targets,
                      struct samples *train, struct samples *test,
                      struct fault *f)
{
    char number[NUMBER_BYTES];
    struct csv_options csv = read_options(s, targets, number);
    struct samples a = {0}, b = {0};
    enum err err = s->predict
                       ? load_inputs(s, &csv, &a, &b, f)
                       : data_load_samples(s->data, s->folder, &csv, &a, &b, f);

    if (!err && s->evaluate)
        take_all(&a, &b);
    else if (!err)
        err = choose_test(s, &csv, &a, &b, f);
    if (!err)
        err = match(s, &a, &b, f);
    if (err) {
        samples_deinit(&a);
        samples_deinit(&b);
        return err;
    }
    *train = a;
    *test = b;
    return ERR_OK;
}
