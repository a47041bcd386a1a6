#include "apps/samples/encoding.h"

#include "apps/formats/data_stream.h"
#include "apps/samples/columns.h"
#include "apps/samples/samples.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static enum err no_memory(struct fault *f)
{
    return fault_set(f, ERR_NOMEM, "columns: out of memory");
}

void encoding_deinit(struct encoding *e)
{
    for (uint64_t c = 0; e->column && c < e->columns; c++) {
        mem_free(e->column[c].name);
        categories_deinit(&e->column[c].categories);
    }
    mem_free(e->column);
    mem_free(e->label);
    memset(e, 0, sizeof(*e));
}

enum err encoding_init(struct encoding *e, uint64_t columns)
{
    assert(columns > 0);
    *e = (struct encoding){.columns = columns};
    e->column = mem_calloc(columns, sizeof(*e->column));
    if (e->column)
        return ERR_OK;
    e->columns = 0;
    return ERR_NOMEM;
}

static enum err copy_column(const struct encoded_column *from,
                            struct encoded_column *to)
{
    to->category = from->category;
    to->missing = from->missing;
    to->fill = from->fill;
    to->name = from->name ? mem_strdup(from->name) : NULL;
    if (from->name && !to->name)
        return ERR_NOMEM;
    return categories_of(&to->categories, from->categories.name,
                         from->categories.count);
}

enum err encoding_copy(const struct encoding *e, struct encoding *out)
{
    enum err err = encoding_init(out, e->columns);

    for (uint64_t c = 0; c < e->columns && !err; c++)
        err = copy_column(&e->column[c], &out->column[c]);
    out->inputs = e->inputs;
    out->label = e->label ? mem_strdup(e->label) : NULL;
    if (e->label && !out->label)
        err = ERR_NOMEM;
    if (err)
        encoding_deinit(out);
    return err;
}

enum err encoding_names(const struct encoding *e, char ***name, struct fault *f)
{
    char **made;

    *name = NULL;
    if (!e->column[0].name)
        return ERR_OK;
    made = mem_calloc(e->columns, sizeof(*made));
    if (!made)
        return no_memory(f);
    for (uint64_t c = 0; c < e->columns; c++) {
        made[c] = mem_strdup(e->column[c].name);
        if (!made[c]) {
            columns_free(made, e->columns);
            return no_memory(f);
        }
    }
    *name = made;
    return ERR_OK;
}

/* Inputs of column @c. */
static uint64_t width_of(const struct encoding *e, uint64_t c)
{
    const struct encoded_column *column = &e->column[c];

    return (column->category ? column->categories.count : 1) +
           (uint64_t)column->missing;
}

enum err encoding_close(struct encoding *e, struct fault *f)
{
    uint64_t inputs = 0, bytes = 0;

    for (uint64_t c = 0; c < e->columns; c++) {
        const struct categories *k = &e->column[c].categories;

        inputs += width_of(e, c);
        for (uint32_t i = 0; i < k->count; i++)
            bytes += strlen(k->name[i]);
    }
    if (inputs > ENCODING_INPUTS_MAX)
        return fault_set(f, ERR_LIMIT,
                         "expected columns of at most %d inputs together, "
                         "found %" PRIu64 " (name columns of many categories "
                         "in the setting \"ignore\")",
                         ENCODING_INPUTS_MAX, inputs);
    if (bytes > ENCODING_NAMES_BYTES_MAX)
        return fault_set(f, ERR_LIMIT,
                         "expected names of categories of at most %d MiB "
                         "together, found %" PRIu64 " bytes (name columns of "
                         "many categories in the setting \"ignore\")",
                         ENCODING_NAMES_BYTES_MAX >> 20, bytes);
    e->inputs = inputs;
    return ERR_OK;
}

/* ---- fitting ------------------------------------------------------------- */

/* Mean of the numbers that are there (0 where none is), and whether one is
 * missing. */
static void fit_numbers(const float *value, uint64_t n, uint64_t stride,
                        struct encoded_column *out)
{
    uint64_t there = 0;
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        float v = value[i * stride];

        if (isnan(v))
            continue;
        sum += (double)v;
        there++;
    }
    out->missing = there < n;
    out->fill = there ? sum / (double)there : 0;
}

/* Those categories of @all that occur. */
static enum err fit_categories(const float *value, uint64_t n, uint64_t stride,
                               const struct categories *all,
                               struct encoded_column *out)
{
    bool seen[CATEGORIES_MAX] = {false};
    enum err err = ERR_OK;
    uint32_t number;

    out->category = true;
    for (uint64_t i = 0; i < n; i++) {
        float v = value[i * stride];

        if (isnan(v))
            out->missing = true;
        else if (v >= 0)
            seen[(uint32_t)v] = true;
    }
    for (uint32_t k = 0; k < all->count && !err; k++)
        if (seen[k])
            err = categories_add(&out->categories, all->name[k], &number);
    return err;
}

static enum err fit_column(const struct samples *train, uint64_t c,
                           struct encoded_column *out)
{
    const struct encoded_column *is = &train->columns->column[c];
    uint64_t stride = samples_values(train);
    const float *value = train->value + c;

    if (train->column_name) {
        out->name = mem_strdup(train->column_name[c]);
        if (!out->name)
            return ERR_NOMEM;
        text_to_utf8(out->name);
    }
    if (is->category)
        return fit_categories(value, train->count, stride, &is->categories,
                              out);
    fit_numbers(value, train->count, stride, out);
    return ERR_OK;
}

enum err encoding_fit(const struct samples *train, struct encoding *out,
                      struct fault *f)
{
    struct encoding e;
    enum err err = encoding_init(&e, samples_values(train));

    assert(train->columns && train->columns->inputs == 0 && train->value);
    for (uint64_t c = 0; c < e.columns && !err; c++)
        err = fit_column(train, c, &e.column[c]);
    err = err ? no_memory(f) : encoding_close(&e, f);
    if (err)
        encoding_deinit(&e);
    else
        *out = e;
    return err;
}

/* ---- applying ------------------------------------------------------------ */

/* Numbers of the table's categories among those of the encoding. */
struct encoding_way {
    const struct encoding *e;
    const struct samples *s;
    uint32_t **number; /* [columns] NULL: numbers; owned */
    struct encoding_counts counts;
};

static void way_deinit(struct encoding_way *w)
{
    for (uint64_t c = 0; w->number && c < w->e->columns; c++)
        mem_free(w->number[c]);
    mem_free((void *)w->number);
}

static enum err way_column(struct encoding_way *w, uint64_t c)
{
    const struct categories *from = &w->s->columns->column[c].categories;
    const struct categories *to = &w->e->column[c].categories;
    uint32_t *number;

    if (!w->e->column[c].category)
        return ERR_OK;
    number = mem_calloc(from->count + 1ull, sizeof(*number));
    if (!number)
        return ERR_NOMEM;
    for (uint32_t k = 0; k < from->count; k++)
        number[k] = categories_find(to, from->name[k]);
    w->number[c] = number;
    return ERR_OK;
}

static enum err way_init(struct encoding_way *w)
{
    enum err err = ERR_OK;

    w->number = mem_calloc(w->e->columns, sizeof(*w->number));
    if (!w->number)
        return ERR_NOMEM;
    for (uint64_t c = 0; c < w->e->columns && !err; c++)
        err = way_column(w, c);
    return err;
}

/* The inputs of the number @v at @out; their count. */
static uint64_t put_number(struct encoding_way *w,
                           const struct encoded_column *column, float v,
                           float *out)
{
    bool missing = isnan(v);

    w->counts.missing += missing;
    out[0] = missing ? (float)column->fill : v;
    if (!column->missing)
        return 1;
    out[1] = missing;
    return 2;
}

/* The inputs of the category @v of column @c. */
static uint64_t put_category(struct encoding_way *w, uint64_t c, float v,
                             float *out)
{
    const struct encoded_column *column = &w->e->column[c];
    uint64_t width = width_of(w->e, c);
    uint32_t k = v >= 0 ? w->number[c][(uint32_t)v] : CATEGORY_NONE;

    memset(out, 0, width * sizeof(*out));
    if (isnan(v)) {
        w->counts.missing++;
        if (column->missing)
            out[width - 1] = 1;
        return width;
    }
    if (k != CATEGORY_NONE)
        out[k] = 1;
    else if (w->counts.unknown++ == 0)
        w->counts.column = c;
    return width;
}

static void put_row(struct encoding_way *w, const float *value, float *out)
{
    for (uint64_t c = 0; c < w->e->columns; c++)
        out += w->e->column[c].category
                   ? put_category(w, c, value[c], out)
                   : put_number(w, &w->e->column[c], value[c], out);
}

/* Whether an input is a column: then values stay where they are. */
static bool is_plain(const struct encoding *e)
{
    for (uint64_t c = 0; c < e->columns; c++)
        if (e->column[c].category)
            return false;
    return e->inputs == e->columns;
}

static enum err encode_values(struct encoding_way *w, const char *file,
                              float **out, struct fault *f)
{
    uint64_t n = w->s->count, inputs = w->e->inputs, columns = w->e->columns;
    bool plain = is_plain(w->e);
    uint64_t bytes = n * inputs * sizeof(float);
    enum err err;
    float *to;

    err =
        plain ? ERR_OK : data_memory_check(file, bytes, data_memory_limit(), f);
    if (err)
        return err;
    to = plain ? w->s->value : mem_alloc(bytes);
    if (!to || way_init(w)) {
        if (!plain)
            mem_free(to);
        return fault_set(f, ERR_NOMEM, "%s: out of memory", file);
    }
    for (uint64_t i = 0; i < n; i++)
        put_row(w, w->s->value + i * columns, to + i * inputs);
    *out = to;
    return ERR_OK;
}

/* ---- names of inputs ----------------------------------------------------- */

static char *name_input(const char *name, const struct encoded_column *column,
                        uint64_t k)
{
    char text[SAMPLES_COLUMN_BYTES_MAX + 1];
    uint64_t own = column->category ? column->categories.count : 1;

    if (k == own)
        snprintf(text, sizeof(text), "%s missing", name);
    else if (column->category)
        snprintf(text, sizeof(text), "%s=%s", name, column->categories.name[k]);
    else
        snprintf(text, sizeof(text), "%s", name);
    text_to_utf8(text); /* the end may be cut */
    return mem_strdup(text);
}

/* By the names of the columns of @s: *@out [inputs], owned by the caller; NULL
 * where it has none. */
static enum err name_inputs(const struct encoding *e, const struct samples *s,
                            char ***out)
{
    char **name;
    uint64_t n = 0;

    *out = NULL;
    if (!s->column_name)
        return ERR_OK;
    name = mem_calloc(e->inputs, sizeof(*name));
    if (!name)
        return ERR_NOMEM;
    for (uint64_t c = 0; c < e->columns; c++) {
        uint64_t width = width_of(e, c);

        for (uint64_t k = 0; k < width; k++) {
            name[n] = name_input(s->column_name[c], &e->column[c], k);
            if (!name[n++]) {
                columns_free(name, e->inputs);
                return ERR_NOMEM;
            }
        }
    }
    *out = name;
    return ERR_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static enum err check_columns(const struct encoding *e, const char *file,
                              const struct samples *s, struct fault *f)
{
    if (samples_values(s) != e->columns)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected the %" PRIu64 " columns that the model "
                         "was trained with, found %" PRIu64,
                         file, e->columns, samples_values(s));
    for (uint64_t c = 0; s->column_name && e->column[0].name && c < e->columns;
         c++) {
        char name[SAMPLES_COLUMN_BYTES_MAX + 1];
        enum err err;

        snprintf(name, sizeof(name), "%s", s->column_name[c]);
        text_to_utf8(name);
        err = columns_compare(file, e->column[c].name, name, f);
        if (err)
            return err;
    }
    return ERR_OK;
}

enum err encoding_apply(const struct encoding *e, const char *file,
                        struct samples *s, struct encoding_counts *counts,
                        struct fault *f)
{
    struct encoding_way w = {.e = e, .s = s};
    char **name = NULL;
    float *value = s->value;
    enum err err = check_columns(e, file, s, f);

    assert(e->inputs > 0 && s->columns && s->columns->inputs == 0);
    if (!err && name_inputs(e, s, &name))
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", file);
    if (!err)
        err = s->count ? encode_values(&w, file, &value, f) : ERR_OK;
    way_deinit(&w);
    if (err) {
        columns_free(name, e->inputs);
        return err;
    }
    samples_encoded(s, value, e->inputs, name);
    *counts = w.counts;
    return ERR_OK;
}
