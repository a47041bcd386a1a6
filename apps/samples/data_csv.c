#include "apps/samples/data_csv.h"

#include "apps/samples/csv_column.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_ROWS = 256,
    EXPECTED_MAX = 200,
    CATEGORY_BYTES = 64, /* of memory beside its name, about */
};

/* What a column's values are, once one of them was seen. */
enum csv_kind {
    CSV_OPEN,
    CSV_NUMBERS,
    CSV_TEXTS,      /* categories, and none of them is a number */
    CSV_CATEGORIES, /* so it was said: by the settings, or in training */
};

struct csv_column {
    size_t field;
    enum csv_kind kind;
    uint64_t line; /* of the first value; 0: the kind was known before */
};

struct csv_table {
    const struct csv_options *options;
    size_t fields;     /* of a record; 0: none was read yet */
    size_t label;      /* its field; to predict: SIZE_MAX */
    bool classes_said; /* the setting categories names the label */
    char *odd_file;    /* of the first class that is a number and no
                        * integer: owned; NULL: none */
    uint64_t odd_line;
    unsigned odd;              /* that class */
    bool texts;                /* a class is no number */
    bool *ignored;             /* [fields] or NULL: owned; not looked at */
    size_t values;             /* of a row */
    struct csv_column *column; /* [values]: owned */
    struct encoding found;     /* [values] categories in order of appearance */
    uint64_t names, names_bytes; /* of all categories */
    char **name;                 /* [fields] of the header: owned, or NULL */
    uint64_t capacity;           /* rows */
    struct samples s;            /* labels in order of appearance */
    size_t class_capacity;
};

/* State of reading a row. */
struct csv_reader {
    struct csv_table *t;
    struct csv_record r;
    const char *file;
    uint64_t limit_bytes;
    struct fault *f;
};

static void free_names(char **name, size_t n)
{
    size_t i;

    for (i = 0; name && i < n; i++)
        mem_free(name[i]);
    mem_free((void *)name);
}

struct csv_table *csv_table_new(const struct csv_options *options)
{
    struct csv_table *t = mem_calloc(1, sizeof(*t));

    if (t)
        t->options = options;
    return t;
}

void csv_table_free(struct csv_table *t)
{
    if (!t)
        return;
    mem_free(t->odd_file);
    free_names(t->name, t->fields);
    mem_free(t->ignored);
    mem_free(t->column);
    encoding_deinit(&t->found);
    samples_deinit(&t->s);
    mem_free(t);
}

static bool has_labels(const struct csv_table *t)
{
    return t->options->inputs == 0 || t->options->labelled;
}

static enum err no_memory(const struct csv_reader *rd)
{
    return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
}

/* ---- fields -------------------------------------------------------------- */

/* "FILE: line 3, column 5 (age): expected ..., found "..."". */
static enum err refuse(const struct csv_reader *rd, size_t field,
                       const char *expected)
{
    char text[CSV_EXCERPT_ROOM], name[CSV_EXCERPT_ROOM] = "";
    const struct csv_table *t = rd->t;

    if (t->name)
        csv_excerpt(t->name[field], name);
    return fault_set(rd->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ", column %zu%s%s%s: expected %s, "
                     "found \"%s\"",
                     rd->file, rd->r.line, field + 1, *name ? " (" : "", name,
                     *name ? ")" : "", expected,
                     csv_excerpt(rd->r.field[field], text));
}

static enum err take_number(const struct csv_reader *rd, size_t field,
                            double value, float *out)
{
    if (!(fabs(value) <= (double)FLT_MAX))
        return refuse(rd, field, "a number that a 32-bit float can hold");
    *out = (float)value;
    return ERR_OK;
}

/* A number to predict. */
static enum err read_target(const struct csv_reader *rd, float *out)
{
    size_t field = rd->t->label;
    const char *text = rd->r.field[field];
    double value;

    if (csv_is_missing(text))
        return refuse(rd, field, "a number (the label is missing)");
    if (!csv_number(text, &value))
        return refuse(rd, field,
                      strchr(text, ',') ? "a number with a decimal point"
                                        : "a number");
    return take_number(rd, field, value, out);
}

/* ---- columns of numbers and of categories -------------------------------- */

/* The value of @column is none of its kind. */
static enum err other_kind(const struct csv_reader *rd,
                           const struct csv_column *column, const char *wanted)
{
    char expected[EXPECTED_MAX];

    if (rd->t->options->plain)
        return refuse(rd, column->field, wanted);
    if (column->line == 0)
        snprintf(expected, sizeof(expected), "%s, as in the training data",
                 wanted);
    else if (column->line == rd->r.line)
        snprintf(expected, sizeof(expected), "%s", wanted);
    else
        snprintf(expected, sizeof(expected),
                 "%s, as on line %" PRIu64 " (a column of numbers and texts is "
                 "one of categories where the setting \"categories\" names "
                 "it, no input where \"ignore\" does)",
                 wanted, column->line);
    return refuse(rd, column->field, expected);
}

static enum err read_number(const struct csv_reader *rd,
                            const struct csv_column *column, float *out)
{
    const char *text = rd->r.field[column->field];
    double value;

    if (csv_number(text, &value))
        return take_number(rd, column->field, value, out);
    return csv_is_almost_number(text) && strchr(text, ',')
               ? refuse(rd, column->field, "a number with a decimal point")
               : other_kind(rd, column, "a number");
}

/* Memory of all rows that there is room for, and of all names. */
static enum err check_memory(const struct csv_reader *rd, uint64_t rows)
{
    const struct csv_table *t = rd->t;
    uint64_t row = (t->values + 1ull) * sizeof(float);
    uint64_t columns =
        t->values * (sizeof(*t->column) + sizeof(*t->found.column));

    return data_memory_check(rd->file,
                             rows * row + columns + t->names_bytes +
                                 t->names * CATEGORY_BYTES,
                             rd->limit_bytes, rd->f);
}

static enum err too_many(const struct csv_reader *rd, size_t field)
{
    char name[CSV_EXCERPT_ROOM] = "";

    if (rd->t->name)
        csv_excerpt(rd->t->name[field], name);
    return fault_set(rd->f, ERR_LIMIT,
                     "%s: line %" PRIu64 ", column %zu%s%s%s: expected at most "
                     "%d categories in a column, found one more (name the "
                     "column in the setting \"ignore\", or give rare ones one "
                     "name)",
                     rd->file, rd->r.line, field + 1, *name ? " (" : "", name,
                     *name ? ")" : "", CATEGORIES_MAX);
}

static enum err add_category(struct csv_reader *rd, size_t i, const char *name,
                             uint32_t *out)
{
    struct csv_table *t = rd->t;
    struct categories *c = &t->found.column[i].categories;
    uint32_t before = c->count;
    enum err err = categories_add(c, name, out);

    if (err == ERR_LIMIT)
        return too_many(rd, t->column[i].field);
    if (err)
        return no_memory(rd);
    if (c->count == before)
        return ERR_OK;
    t->names++;
    t->names_bytes += strlen(name);
    return check_memory(rd, t->capacity);
}

static enum err read_category(struct csv_reader *rd, size_t i, float *out)
{
    const struct csv_column *column = &rd->t->column[i];
    const char *text = rd->r.field[column->field];
    char name[CSV_NAME_ROOM];
    uint32_t number;
    double value;
    enum err err;

    if (!csv_is_name(text))
        return refuse(rd, column->field,
                      "a category: a text of one line and at most 255 bytes");
    if (!text_is_utf8(text))
        return refuse(rd, column->field,
                      "a category in UTF-8 (iconv -f LATIN1 -t UTF-8)");
    if (column->kind == CSV_TEXTS && csv_number(text, &value))
        return other_kind(rd, column, "a text");
    csv_name(text, name);
    if (rd->t->options->like) {
        number = categories_find(&rd->t->found.column[i].categories, name);
        *out = number == CATEGORY_NONE ? ENCODING_UNKNOWN : (float)number;
        return ERR_OK;
    }
    err = add_category(rd, i, name, &number);
    if (!err)
        *out = (float)number;
    return err;
}

/* The first value of a column says what all are. */
static void choose_kind(struct csv_reader *rd, size_t i)
{
    struct csv_column *column = &rd->t->column[i];
    const char *text = rd->r.field[column->field];
    double value;

    column->kind = rd->t->options->plain || csv_number(text, &value) ||
                           csv_is_almost_number(text)
                       ? CSV_NUMBERS
                       : CSV_TEXTS;
    column->line = rd->r.line;
    rd->t->found.column[i].category = column->kind == CSV_TEXTS;
}

static enum err read_value(struct csv_reader *rd, size_t i, float *out)
{
    struct csv_column *column = &rd->t->column[i];

    if (csv_is_missing(rd->r.field[column->field])) {
        *out = NAN;
        return rd->t->options->plain
                   ? refuse(rd, column->field,
                            "a number (fill missing values in, or leave the "
                            "line out)")
                   : ERR_OK;
    }
    if (column->kind == CSV_OPEN)
        choose_kind(rd, i);
    return column->kind == CSV_NUMBERS ? read_number(rd, column, out)
                                       : read_category(rd, i, out);
}

/* ---- classes ------------------------------------------------------------- */

/* Remembers where a class stands that is a number and no integer. */
static enum err note_class(const struct csv_reader *rd, const char *text)
{
    struct csv_table *t = rd->t;
    double value = 0;

    t->texts |= !csv_number(text, &value);
    if (t->texts || t->odd_file || value == floor(value))
        return ERR_OK;
    t->odd_file = mem_strdup(rd->file);
    t->odd_line = rd->r.line;
    t->odd = t->s.classes;
    return t->odd_file ? ERR_OK : no_memory(rd);
}

static enum err add_class(const struct csv_reader *rd, const char *text)
{
    struct csv_table *t = rd->t;
    char *copy;

    if (t->s.classes == SAMPLES_CLASSES_MAX)
        return fault_set(rd->f, ERR_LIMIT,
                         "%s: line %" PRIu64 ", column %zu: expected at most "
                         "%d classes, found one more (is another column the "
                         "label, or is it a number to predict: nn with loss "
                         "squared?)",
                         rd->file, rd->r.line, t->label + 1,
                         SAMPLES_CLASSES_MAX);
    if (note_class(rd, text))
        return ERR_NOMEM;
    copy = mem_strdup(text);
    if (!copy || mem_grow((void **)&t->s.class_name, &t->class_capacity,
                          sizeof(char *), t->s.classes + 1)) {
        mem_free(copy);
        return no_memory(rd);
    }
    t->s.class_name[t->s.classes++] = copy;
    return ERR_OK;
}

static enum err read_label(const struct csv_reader *rd, uint8_t *out)
{
    const struct csv_table *t = rd->t;
    const char *text = rd->r.field[t->label];
    char name[CSV_NAME_ROOM];
    unsigned c;
    enum err err;

    if (csv_is_missing(text))
        return refuse(rd, t->label, "a class (the label is missing)");
    if (!csv_is_name(text))
        return refuse(rd, t->label,
                      "a class: a number, or a text of one line and at most "
                      "255 bytes");
    csv_name(text, name);
    for (c = 0; c < t->s.classes; c++) {
        if (strcmp(t->s.class_name[c], name) == 0)
            break;
    }
    err = c == t->s.classes ? add_class(rd, name) : ERR_OK;
    *out = (uint8_t)c;
    return err;
}

/* ---- rows ---------------------------------------------------------------- */

static int resize(void **p, uint64_t count, uint64_t size)
{
    void *q = mem_realloc(*p, count * size);

    if (!q)
        return -1;
    *p = q;
    return 0;
}

static enum err reserve_row(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    uint64_t rows = t->capacity ? 2 * t->capacity : FIRST_ROWS;
    enum err err;

    if (t->s.count < t->capacity)
        return ERR_OK;
    err = check_memory(rd, rows);
    if (err)
        return err;
    if (resize((void **)&t->s.value, rows, t->values * sizeof(float)) ||
        (has_labels(t) &&
         (t->options->targets
              ? resize((void **)&t->s.target, rows, sizeof(float))
              : resize((void **)&t->s.label, rows, 1))))
        return no_memory(rd);
    t->capacity = rows;
    return ERR_OK;
}

static enum err read_row(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    float *to;
    size_t i;
    enum err err;

    if (rd->r.fields != t->fields)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected %zu columns, found "
                         "%zu",
                         rd->file, rd->r.line, t->fields, rd->r.fields);
    err = reserve_row(rd);
    if (err)
        return err;
    to = t->s.value + t->s.count * t->values;
    for (i = 0; i < t->values && !err; i++)
        err = read_value(rd, i, &to[i]);
    if (!err && has_labels(t))
        err = t->options->targets ? read_target(rd, &t->s.target[t->s.count])
                                  : read_label(rd, &t->s.label[t->s.count]);
    t->s.count += !err;
    return err;
}

/* ---- the beginning ------------------------------------------------------- */

static bool find_column(const struct csv_reader *rd, const char *column,
                        size_t *out)
{
    return csv_column_find(rd->r.field, rd->r.fields, column, out);
}

static bool is_ignored(const struct csv_table *t, size_t field)
{
    return t->ignored && t->ignored[field];
}

/* The columns that the settings leave out. @header: names may be in use. */
static enum err mark_ignored(struct csv_reader *rd, bool header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    size_t field;

    if (o->ignored == 0)
        return ERR_OK;
    t->ignored = mem_calloc(rd->r.fields, sizeof(*t->ignored));
    if (!t->ignored)
        return no_memory(rd);
    for (size_t k = 0; k < o->ignored; k++) {
        const char *name = o->ignore[k];

        if ((csv_column_is_name(name) && !header) ||
            !find_column(rd, name, &field) || field == t->label)
            return fault_set(rd->f, ERR_INVAL,
                             "%s: line %" PRIu64 ": expected a column %s (the "
                             "setting ignore) beside the label, found %zu "
                             "columns and none such",
                             rd->file, rd->r.line, name, rd->r.fields);
        t->ignored[field] = true;
    }
    return ERR_OK;
}

/* Texts, label aside, are names; numbers are values; of a record with both it
 * cannot be told which is the mistake. */
static enum err find_header(const struct csv_reader *rd, bool *out)
{
    const struct csv_record *r = &rd->r;
    size_t texts = 0, numbers = 0, text = 0, i;
    double value;

    for (i = 0; i < r->fields; i++) {
        if (i == rd->t->label || is_ignored(rd->t, i) ||
            csv_is_missing(r->field[i]))
            continue;
        if (csv_number(r->field[i], &value))
            numbers++;
        else if (texts++ == 0)
            text = i;
    }
    if (texts && numbers)
        return refuse(rd, text,
                      "only numbers or only names of columns (or the setting "
                      "header: true or false)");
    *out = texts > 0;
    return ERR_OK;
}

static enum err copy_names(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    size_t i;

    t->name = mem_calloc(t->fields, sizeof(char *));
    for (i = 0; t->name && i < t->fields; i++) {
        t->name[i] = mem_strdup(rd->r.field[i]);
        if (!t->name[i])
            return no_memory(rd);
    }
    return t->name ? ERR_OK : no_memory(rd);
}

/* A name of the header, and where it stands. */
struct placed_name {
    const char *name;
    size_t field;
};

static int by_name_and_place(const void *a, const void *b)
{
    const struct placed_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->field > y->field) - (x->field < y->field);
}

static enum err refuse_twins(const struct csv_reader *rd,
                             const struct placed_name *a,
                             const struct placed_name *b)
{
    char text[CSV_EXCERPT_ROOM];

    return fault_set(rd->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ": expected each column's name once, "
                     "found \"%s\" as column %zu and as column %zu",
                     rd->file, rd->r.line, csv_excerpt(a->name, text),
                     a->field + 1, b->field + 1);
}

/* Of two columns of one name nobody knows which is meant, unless both are
 * ignored. Columns without a name are not meant by one. */
static enum err names_differ(const struct csv_reader *rd)
{
    const struct csv_table *t = rd->t;
    struct placed_name *all = mem_calloc(t->fields, sizeof(*all));
    enum err err = all ? ERR_OK : no_memory(rd);
    size_t n = 0;

    for (size_t i = 0; all && i < t->fields; i++)
        if (*t->name[i])
            all[n++] = (struct placed_name){t->name[i], i};
    if (n > 1)
        qsort(all, n, sizeof(*all), by_name_and_place);
    for (size_t i = 1; i < n && !err; i++)
        if (strcmp(all[i - 1].name, all[i].name) == 0 &&
            !(is_ignored(t, all[i - 1].field) && is_ignored(t, all[i].field)))
            err = refuse_twins(rd, &all[i - 1], &all[i]);
    mem_free(all);
    return err;
}

/* The columns are those of `like`. */
static enum err begin_like(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    const struct encoding *like = t->options->like;
    enum err err = ERR_OK;

    if (like->columns != t->values)
        return fault_set(
            rd->f, ERR_FORMAT,
            "%s: line %" PRIu64 ": expected %" PRIu64
            " columns beside the label as in the training data, found %zu",
            rd->file, rd->r.line, like->columns, t->values);
    for (size_t i = 0; i < t->values && !err; i++) {
        const struct encoded_column *is = &like->column[i];

        t->column[i].kind = is->category ? CSV_CATEGORIES : CSV_NUMBERS;
        t->found.column[i].category = is->category;
        err = categories_of(&t->found.column[i].categories, is->categories.name,
                            is->categories.count);
    }
    return err ? no_memory(rd) : ERR_OK;
}

/* The columns that the settings call categories. */
static enum err begin_categories(struct csv_reader *rd, bool header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    size_t field, i;

    for (size_t k = 0; k < o->categories; k++) {
        const char *name = o->category[k];

        if ((csv_column_is_name(name) && !header) ||
            !find_column(rd, name, &field) || is_ignored(t, field))
            return fault_set(rd->f, ERR_INVAL,
                             "%s: line %" PRIu64 ": expected a column %s (the "
                             "setting categories) beside those "
                             "to ignore, found %zu columns and none such",
                             rd->file, rd->r.line, name, rd->r.fields);
        if (field == t->label && o->targets)
            return fault_set(rd->f, ERR_INVAL,
                             "%s: the setting categories names the label, %s, "
                             "which loss squared predicts as a number: choose "
                             "one of the two",
                             rd->file, name);
        if (field == t->label) {
            t->classes_said = true;
            continue;
        }
        for (i = 0; t->column[i].field != field;)
            i++;
        t->column[i].kind = CSV_CATEGORIES;
        t->found.column[i].category = true;
    }
    return ERR_OK;
}

/* Room for what is known of each column. */
static enum err reserve_columns(struct csv_reader *rd, size_t values)
{
    struct csv_table *t = rd->t;

    t->values = values;
    t->column = mem_calloc(values, sizeof(*t->column));
    return t->column && !encoding_init(&t->found, values) ? ERR_OK
                                                          : no_memory(rd);
}

/* A row's values are all fields but the label and what is ignored. */
static enum err begin_columns(struct csv_reader *rd, bool header)
{
    struct csv_table *t = rd->t;
    size_t values = 0, i = 0;
    enum err err;

    for (size_t c = 0; c < t->fields; c++)
        values += c != t->label && !is_ignored(t, c);
    if (values == 0)
        return fault_set(rd->f, ERR_INVAL,
                         "%s: line %" PRIu64 ": expected a column beside the "
                         "label that the setting ignore does not name, found "
                         "%zu columns and none such",
                         rd->file, rd->r.line, t->fields);
    err = reserve_columns(rd, values);
    if (err)
        return err;
    for (size_t c = 0; c < t->fields; c++)
        if (c != t->label && !is_ignored(t, c))
            t->column[i++].field = c;
    return t->options->like ? begin_like(rd) : begin_categories(rd, header);
}

/* ---- the beginning, to predict ------------------------------------------- */

/* A column's name as a model keeps it: a line of bounded length. In place. */
static void clean_name(char *text, bool utf8)
{
    char *p;

    if (utf8)
        text_to_utf8(text);
    if (strlen(text) > SAMPLES_COLUMN_BYTES_MAX)
        text[SAMPLES_COLUMN_BYTES_MAX] = '\0';
    for (p = strpbrk(text, "\r\n"); p; p = strpbrk(p, "\r\n"))
        *p = ' ';
}

/* Where a column of that name stands; t->fields: nowhere. */
static size_t field_named(const struct csv_table *t, const char *name)
{
    size_t c = 0;

    while (c < t->fields && strcmp(t->name[c], name) != 0)
        c++;
    return c;
}

/* Beside training data, not by a model that was saved. */
static bool is_validation(const struct csv_options *o)
{
    return o->like && o->like->inputs == 0;
}

/* A model's names are UTF-8, those of training data as they were read. */
static void clean_names(struct csv_table *t)
{
    const struct csv_options *o = t->options;

    for (size_t c = 0; c < t->fields; c++)
        clean_name(t->name[c], o->like && !is_validation(o));
}

static bool names_an_input(const struct csv_table *t)
{
    const struct csv_options *o = t->options;

    for (size_t i = 0; o->input_name && i < o->inputs; i++)
        if (field_named(t, o->input_name[i]) < t->fields)
            return true;
    return false;
}

/* Whether the first record names columns: it has a name of the model's, or
 * texts alone (a label may be a text beside numbers). */
static bool names_columns(const struct csv_reader *rd)
{
    const struct csv_options *o = rd->t->options;
    const struct csv_record *r = &rd->r;
    size_t texts = 0, numbers = 0, i;
    double value;

    if (o->header >= 0)
        return o->header;
    if (names_an_input(rd->t))
        return true;
    for (i = 0; i < r->fields; i++) {
        bool number = csv_number(r->field[i], &value);

        numbers += number;
        texts += !number && !csv_is_missing(r->field[i]);
    }
    return texts > 0 && numbers == 0;
}

/* A column that no value was @taken[fields] from is not called as one that was:
 * nobody knows which is meant. */
static enum err rest_differs(const struct csv_reader *rd, const bool *taken)
{
    const struct csv_table *t = rd->t;

    for (size_t c = 0; c < t->fields; c++) {
        for (size_t i = 0; i < t->options->inputs && !taken[c]; i++) {
            size_t field = t->column[i].field, first = c < field ? c : field;
            struct placed_name a = {t->name[first], first};
            struct placed_name b = {t->name[c], c + field - first};

            if (*t->name[c] && strcmp(t->name[c], t->name[field]) == 0)
                return refuse_twins(rd, &a, &b);
        }
    }
    return ERR_OK;
}

/* Values by the names of their columns, each the first of that name that no
 * value has yet. */
static enum err find_inputs(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    bool *taken = mem_calloc(t->fields, sizeof(*taken));
    enum err err = ERR_OK;

    if (!taken)
        return no_memory(rd);
    if (has_labels(t))
        taken[t->label] = true;
    for (size_t i = 0; i < o->inputs && !err; i++) {
        size_t c = 0;

        while (c < t->fields &&
               (taken[c] || strcmp(t->name[c], o->input_name[i]) != 0))
            c++;
        if (c == t->fields) {
            err = fault_set(rd->f, ERR_FORMAT,
                            "%s: expected the column \"%.60s\", which the %s, "
                            "found none of that name",
                            rd->file, o->input_name[i],
                            is_validation(o) ? "training data have"
                                             : "model was trained with");
            break;
        }
        taken[c] = true;
        t->column[i].field = c;
    }
    if (!err)
        err = rest_differs(rd, taken);
    mem_free(taken);
    return err;
}

/* Field of @column: a name's in this table, a number's in a row of @whole
 * fields. */
static bool find_among(const struct csv_table *t, size_t whole,
                       const char *column, size_t *out)
{
    return csv_column_is_name(column)
               ? csv_column_find(t->name, t->fields, column, out)
               : csv_column_find(NULL, whole, column, out);
}

/* Marks in @skip[fields] what is no input: the columns to ignore, and the label
 * where it is there. Numbers count in a row of training, which has it. */
static enum err skip_others(struct csv_reader *rd, bool *skip)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    size_t whole = o->inputs + o->ignored + 1, label = SIZE_MAX, field;
    bool labelled = t->fields == whole;

    if (!find_among(t, whole, o->label, &label) && labelled)
        return fault_set(rd->f, ERR_INVAL,
                         "%s: expected the %zu columns that the model was "
                         "trained with, found %zu more, and none is %s",
                         rd->file, o->inputs, t->fields - o->inputs, o->label);
    if (labelled)
        skip[label] = true;
    for (size_t k = 0; k < o->ignored; k++) {
        bool number = !csv_column_is_name(o->ignore[k]);

        if (!find_among(t, whole, o->ignore[k], &field) || field == label)
            return fault_set(rd->f, ERR_INVAL,
                             "%s: expected a column %s (the setting ignore), "
                             "found %zu columns and none such",
                             rd->file, o->ignore[k], t->fields);
        skip[field - (number && !labelled && field > label)] = true;
    }
    return ERR_OK;
}

/* Values by the places of their columns. */
static enum err place_inputs(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    size_t inputs = t->options->inputs, ignored = t->options->ignored, n = 0;
    bool *skip;
    enum err err;

    if (t->fields != inputs && t->fields != inputs + ignored &&
        t->fields != inputs + ignored + 1)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected the %zu columns that "
                         "the model was trained with (and perhaps the label), "
                         "found %zu",
                         rd->file, rd->r.line, inputs, t->fields);
    skip = mem_calloc(t->fields, sizeof(*skip));
    if (!skip)
        return no_memory(rd);
    err = t->fields > inputs ? skip_others(rd, skip) : ERR_OK;
    for (size_t c = 0; c < t->fields && n < inputs && !err; c++)
        if (!skip[c])
            t->column[n++].field = c;
    mem_free(skip);
    return err || n == inputs
               ? err
               : fault_set(rd->f, ERR_INVAL,
                           "%s: expected %zu columns beside those that the "
                           "setting ignore names, found %zu",
                           rd->file, inputs, n);
}

static enum err begin_inputs(struct csv_reader *rd, bool *header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    enum err err = ERR_OK;

    t->fields = rd->r.fields;
    t->label = SIZE_MAX;
    err = reserve_columns(rd, o->inputs);
    if (!err)
        err = copy_names(rd);
    if (!err && o->like)
        err = begin_like(rd);
    if (err)
        return err;
    clean_names(t);
    *header = names_columns(rd);
    if (!*header) {
        free_names(t->name, t->fields);
        t->name = NULL;
    }
    return *header && o->input_name ? find_inputs(rd) : place_inputs(rd);
}

/* ---- the beginning, to evaluate ------------------------------------------ */

static bool is_input(const struct csv_table *t, size_t field)
{
    for (size_t i = 0; i < t->options->inputs; i++)
        if (strcmp(t->name[field], t->options->input_name[i]) == 0)
            return true;
    return false;
}

static bool names_ignored(const struct csv_table *t, size_t field)
{
    for (size_t k = 0; k < t->options->ignored; k++)
        if (strcmp(t->name[field], t->options->ignore[k]) == 0)
            return true;
    return false;
}

/* The label, where the setting says its place in the training data: another
 * table may have other columns there. So it is the only one that the model
 * neither reads nor ignores; columns that it ignores by their places are as
 * many more. */
static enum err place_label(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    size_t others = 0, first = 0, ignored = 0, inputs = 0;
    bool data = is_validation(t->options);

    for (size_t k = 0; k < t->options->ignored; k++)
        ignored += !csv_column_is_name(t->options->ignore[k]);
    for (size_t c = 0; c < t->fields; c++)
        if (is_input(t, c))
            inputs++;
        else if (!names_ignored(t, c) && others++ == 0)
            first = c;
    if (is_input(t, t->label) && others != 1)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected the label as column "
                         "%zu, as the %s setting has it, found \"%.60s\", "
                         "which %s",
                         rd->file, rd->r.line, t->label + 1,
                         data ? "run's" : "model's", t->name[t->label],
                         data ? "the training data have as a value"
                              : "the model reads");
    /* Where one that it reads is not there, that is what is wrong. */
    if (inputs >= t->options->inputs && others > 1 + ignored)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected one column beside "
                         "those that %s, the label, found %zu: which it is, "
                         "\"%.60s\" or another, %s, for %s setting label has a "
                         "place and no name; leave the others out",
                         rd->file, rd->r.line,
                         data ? "have values in the training data"
                              : "the model reads",
                         others, t->name[first],
                         data ? "nobody knows" : "the model does not know",
                         data ? "the" : "its");
    if (is_input(t, t->label) || names_ignored(t, t->label))
        t->label = first;
    return ERR_OK;
}

static enum err no_label(const struct csv_reader *rd)
{
    return fault_set(rd->f, ERR_INVAL,
                     "%s: line %" PRIu64 ": expected a column %s (the "
                     "label), found %zu columns and none such",
                     rd->file, rd->r.line, rd->t->options->label, rd->r.fields);
}

/* Whether the label is called as that of the training data. */
static bool name_label(struct csv_table *t)
{
    const struct csv_options *o = t->options;
    const char *name = is_validation(o) ? o->like->label : NULL;
    char own[SAMPLES_COLUMN_BYTES_MAX + 1];
    size_t field;

    if (!name || !*name)
        return false;
    snprintf(own, sizeof(own), "%s", name);
    clean_name(own, false);
    field = field_named(t, own);
    if (field == t->fields)
        return false;
    t->label = field;
    return true;
}

/* It is the only one of its name. */
static enum err find_label(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    bool named = name_label(t) || csv_column_is_name(t->options->label);

    if (t->label == SIZE_MAX)
        return no_label(rd);
    for (size_t c = 0; c < t->fields && *t->name[t->label]; c++)
        if (c != t->label && strcmp(t->name[c], t->name[t->label]) == 0) {
            size_t first = c < t->label ? c : t->label;
            struct placed_name a = {t->name[c], first};
            struct placed_name b = {t->name[c], c + t->label - first};

            return refuse_twins(rd, &a, &b);
        }
    return named ? ERR_OK : place_label(rd);
}

/* Values by the names of their columns, as to predict, and the label. Not
 * where no name is the model's: *@header is false then. */
static enum err begin_named(struct csv_reader *rd, bool *header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    enum err err;

    t->fields = rd->r.fields;
    err = copy_names(rd);
    if (!err)
        clean_names(t);
    *header = !err && names_an_input(t);
    if (!*header) {
        free_names(t->name, t->fields);
        t->name = NULL;
        return err;
    }
    err = reserve_columns(rd, o->inputs);
    if (!err)
        err = find_label(rd);
    if (!err)
        err = find_inputs(rd);
    return err || !o->like ? err : begin_like(rd);
}

/* The first record of the first file: columns and label. *@header: it names
 * the columns. */
static enum err begin_table(struct csv_reader *rd, bool *header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    bool named = csv_column_is_name(o->label);
    enum err err;

    for (size_t k = 0; k < o->categories && o->header != 0; k++)
        named |= csv_column_is_name(o->category[k]);
    for (size_t k = 0; k < o->ignored && o->header != 0; k++)
        named |= csv_column_is_name(o->ignore[k]);
    if (!has_labels(t))
        return begin_inputs(rd, header);
    if (named && o->header == 0)
        return fault_set(rd->f, ERR_INVAL,
                         "%s: expected the label's number, first or last where "
                         "the setting header is false, found the name \"%s\"",
                         rd->file, o->label);
    if (rd->r.fields < 2)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected at least two columns, "
                         "a value and a label, found one",
                         rd->file, rd->r.line);
    if (!find_column(rd, o->label, &t->label))
        t->label = SIZE_MAX;
    if (o->input_name && o->header != 0) {
        err = begin_named(rd, header);
        if (err || *header)
            return err;
    }
    if (t->label == SIZE_MAX)
        return no_label(rd);
    *header = named || o->header == 1;
    err = mark_ignored(rd, *header);
    if (!err && o->header < 0 && !named)
        err = find_header(rd, header);
    if (err)
        return err;
    t->fields = rd->r.fields;
    err = *header ? copy_names(rd) : ERR_OK;
    if (!err && *header)
        err = names_differ(rd);
    return err ? err : begin_columns(rd, *header);
}

/* The first record of a file that follows another: *@header, it is the same
 * header again. */
static enum err begin_file(struct csv_reader *rd, bool *header)
{
    const struct csv_table *t = rd->t;
    size_t i;

    *header = t->name && rd->r.fields == t->fields;
    for (i = 0; *header && i < t->fields; i++)
        *header = strcmp(rd->r.field[i], t->name[i]) == 0;
    return ERR_OK;
}

static enum err read_rows(struct csv_reader *rd)
{
    bool got, header = false;
    uint64_t before = rd->t->s.count;
    enum err err = csv_record_next(&rd->r, &got, rd->f);

    if (!err && got)
        err = rd->t->fields == 0 ? begin_table(rd, &header)
                                 : begin_file(rd, &header);
    if (!err && got && header)
        err = csv_record_next(&rd->r, &got, rd->f);
    while (!err && got) {
        err = read_row(rd);
        if (!err)
            err = csv_record_next(&rd->r, &got, rd->f);
    }
    if (!err && rd->t->s.count == before)
        err = fault_set(rd->f, ERR_FORMAT, "%s: expected rows, found %s",
                        rd->file, header ? "only a header" : "nothing");
    return err;
}

enum err csv_table_read(struct csv_table *t, struct data_stream *s,
                        uint64_t limit_bytes, struct fault *f)
{
    struct csv_reader rd = {.t = t,
                            .file = data_stream_name(s),
                            .limit_bytes = limit_bytes,
                            .f = f};
    enum err err = csv_record_init(&rd.r, s, t->options->separator, f);

    if (!err)
        err = read_rows(&rd);
    csv_record_deinit(&rd.r);
    return err;
}

/* ---- the end ------------------------------------------------------------- */

/* The labels are not what a newcomer takes for classes by mistake: all numbers,
 * and one no integer (scikit-learn's type_of_target calls such "continuous").
 * A model's, and those of a run that goes on, are what they were. */
static enum err check_classes(const struct csv_table *t, struct fault *f)
{
    const struct csv_options *o = t->options;
    char text[CSV_EXCERPT_ROOM];

    if (o->like || o->plain || o->goes_on || t->classes_said || t->texts ||
        !t->odd_file)
        return ERR_OK;
    return fault_set(f, ERR_LIMIT,
                     "%s: line %" PRIu64 ", column %zu (the label): expected a "
                     "class, a text or an integer, found \"%s\": nn and glm "
                     "predict numbers with loss squared; where they are "
                     "classes, name the label in the setting categories",
                     t->odd_file, t->odd_line, t->label + 1,
                     csv_excerpt(t->s.class_name[t->odd], text));
}

/* Classes in sorted order. */
static enum err sort_classes(struct csv_table *t, struct fault *f)
{
    unsigned n = t->s.classes;
    char **name = mem_calloc(n, sizeof(char *));
    enum err err;

    if (!name)
        return fault_set(f, ERR_NOMEM, "out of memory");
    memcpy((void *)name, (void *)t->s.class_name, n * sizeof(*name));
    csv_sort_names(name, n);
    err = samples_rename(&t->s, "csv", name, n, f);
    mem_free((void *)name);
    return err;
}

/* Categories in sorted order. */
static enum err sort_column(struct csv_table *t, size_t i)
{
    uint32_t place[CATEGORIES_MAX];
    enum err err = categories_sort(&t->found.column[i].categories, place);

    for (uint64_t r = 0; r < t->s.count && !err; r++) {
        float *v = &t->s.value[r * t->values + i];

        if (*v >= 0) /* neither missing nor unknown */
            *v = (float)place[(uint32_t)*v];
    }
    return err;
}

/* What was found of the columns goes with the rows. */
static enum err take_found(struct csv_table *t, struct fault *f)
{
    struct encoding *own;
    enum err err = ERR_OK;

    if (t->options->plain)
        return ERR_OK;
    for (size_t i = 0; i < t->values && !err; i++)
        if (t->found.column[i].category)
            err = sort_column(t, i);
    own = err ? NULL : mem_alloc(sizeof(*own));
    if (!own)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (t->name && has_labels(t)) {
        t->found.label = t->name[t->label];
        t->name[t->label] = NULL;
    }
    *own = t->found;
    t->found = (struct encoding){.columns = 0};
    t->s.columns = own;
    return ERR_OK;
}

/* The header's names of the values, each cut to a line that can be saved. (To
 * predict they have done their work.) */
static enum err take_columns(struct csv_table *t, struct fault *f)
{
    char **name;

    if (!t->name || !has_labels(t))
        return ERR_OK;
    name = mem_calloc(t->values, sizeof(char *));
    if (!name)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < t->values; i++) {
        size_t field = t->column[i].field;

        clean_name(t->name[field], false);
        name[i] = t->name[field];
        t->name[field] = NULL;
    }
    t->s.column_name = name;
    return ERR_OK;
}

static void empty(struct csv_table *t)
{
    const struct csv_options *options = t->options;

    free_names(t->name, t->fields);
    mem_free(t->odd_file);
    mem_free(t->ignored);
    mem_free(t->column);
    encoding_deinit(&t->found);
    *t = (struct csv_table){.options = options};
}

enum err csv_table_take(struct csv_table *t, struct samples *out,
                        struct fault *f)
{
    enum err err = ERR_OK;

    assert(t->s.count > 0 && t->fields > 0);
    t->s.channels = (uint32_t)t->values;
    t->s.height = t->s.width = 1;
    if (!t->options->targets && has_labels(t)) {
        err = check_classes(t, f);
        if (!err)
            err = sort_classes(t, f);
    }
    if (!err)
        err = take_columns(t, f);
    if (!err)
        err = take_found(t, f);
    if (err)
        return err;
    *out = t->s;
    empty(t);
    return ERR_OK;
}
