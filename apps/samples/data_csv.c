#include "apps/samples/data_csv.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_ROWS = 256, EXCERPT_MAX = 40 };

struct csv_table {
    const struct csv_options *options;
    size_t fields;     /* of a record; 0: none was read yet */
    size_t label;      /* its field; to predict: none */
    size_t *source;    /* to predict: [inputs] field of each value: owned */
    char **name;       /* [fields] of the header: owned, or NULL */
    uint64_t capacity; /* rows */
    struct samples s;  /* labels in order of appearance */
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
    free_names(t->name, t->fields);
    mem_free(t->source);
    samples_deinit(&t->s);
    mem_free(t);
}

/* Values of a row. */
static size_t values_of(const struct csv_table *t)
{
    return t->source ? t->options->inputs : t->fields - 1;
}

/* ---- fields -------------------------------------------------------------- */

static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "?", "NA", "N/A", "NaN", "null"};
    size_t i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

/* A decimal number, the whole text. Up to 15 digits are exact in a double, and
 * so is one division by a power of ten up to 10^22. */
static bool read_number(const char *text, double *out)
{
    static const double power[] = {1,    1e1,  1e2,  1e3, 1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9, 1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15};
    const char *p = text + (*text == '-' || *text == '+');
    int64_t mantissa = 0;
    int digits = 0, fraction = 0;
    char *end;

    for (; isdigit((unsigned char)*p) && digits < 15; p++, digits++)
        mantissa = mantissa * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p) && digits < 15; p++, digits++) {
            mantissa = mantissa * 10 + (*p - '0');
            fraction++;
        }
    }
    if (*p == '\0' && digits > 0) {
        *out = (double)mantissa / power[fraction];
        *out = *text == '-' ? -*out : *out;
        return true;
    }
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

static const char *excerpt(const char *p, char text[EXCERPT_MAX + 4])
{
    size_t n;

    for (n = 0; n < EXCERPT_MAX && p[n]; n++)
        text[n] = isprint((unsigned char)p[n]) ? p[n] : '?';
    text[n] = '\0';
    if (n == EXCERPT_MAX)
        memcpy(text + n, "...", 4);
    return text;
}

/* "FILE: line 3, column 5 (age): expected ..., found "..."". */
static enum err refuse(const struct csv_reader *rd, size_t field,
                       const char *expected)
{
    char text[EXCERPT_MAX + 4], name[EXCERPT_MAX + 4] = "";
    const struct csv_table *t = rd->t;

    if (t->name)
        excerpt(t->name[field], name);
    return fault_set(rd->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ", column %zu%s%s%s: expected %s, "
                     "found \"%s\"",
                     rd->file, rd->r.line, field + 1, *name ? " (" : "", name,
                     *name ? ")" : "", expected,
                     excerpt(rd->r.field[field], text));
}

static enum err read_value(const struct csv_reader *rd, size_t field,
                           float *out)
{
    const char *text = rd->r.field[field];
    double value;

    if (is_missing(text))
        return refuse(rd, field,
                      "a number (fill missing values in, or leave the line "
                      "out)");
    if (!read_number(text, &value))
        return refuse(rd, field,
                      strchr(text, ',') ? "a number with a decimal point"
                                        : "a number");
    if (!(fabs(value) <= (double)FLT_MAX))
        return refuse(rd, field, "a number that a 32-bit float can hold");
    *out = (float)value;
    return ERR_OK;
}

/* ---- classes ------------------------------------------------------------- */

/* @text, or for a number the shortest text that reads back the same, so that 1
 * and 1.0 are one class. */
static void class_text(const char *text, char out[CSV_CLASS_BYTES_MAX + 1])
{
    double value;

    _Static_assert(CSV_CLASS_BYTES_MAX + 1 >= TEXT_NUMBER_MAX, "room");
    if (read_number(text, &value) && isfinite(value))
        text_number(value == 0 ? 0.0 : value, out); /* one zero */
    else
        snprintf(out, CSV_CLASS_BYTES_MAX + 1, "%s", text);
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
    copy = mem_strdup(text);
    if (!copy || mem_grow((void **)&t->s.class_name, &t->class_capacity,
                          sizeof(char *), t->s.classes + 1)) {
        mem_free(copy);
        return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
    }
    t->s.class_name[t->s.classes++] = copy;
    return ERR_OK;
}

static enum err read_label(const struct csv_reader *rd, uint8_t *out)
{
    const struct csv_table *t = rd->t;
    const char *text = rd->r.field[t->label];
    char name[CSV_CLASS_BYTES_MAX + 1];
    unsigned c;
    enum err err;

    if (is_missing(text))
        return refuse(rd, t->label, "a class (the label is missing)");
    if (strlen(text) > CSV_CLASS_BYTES_MAX || strpbrk(text, "\r\n"))
        return refuse(rd, t->label,
                      "a class: a number, or a text of one line and at most "
                      "255 bytes");
    class_text(text, name);
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
    uint64_t width = values_of(t), row = (width + 1) * sizeof(float);
    uint64_t rows = t->capacity ? 2 * t->capacity : FIRST_ROWS;
    enum err err;

    if (t->s.count < t->capacity)
        return ERR_OK;
    err = data_memory_check(rd->file, rows * row, rd->limit_bytes, rd->f);
    if (err)
        return err;
    if (resize((void **)&t->s.value, rows, width * sizeof(float)) ||
        (!t->source && (t->options->targets
                            ? resize((void **)&t->s.target, rows, sizeof(float))
                            : resize((void **)&t->s.label, rows, 1))))
        return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
    t->capacity = rows;
    return ERR_OK;
}

/* The values of a row to predict. */
static enum err read_inputs(struct csv_reader *rd, float *to)
{
    struct csv_table *t = rd->t;
    enum err err = ERR_OK;

    for (size_t i = 0; i < t->options->inputs && !err; i++)
        err = read_value(rd, t->source[i], &to[i]);
    t->s.count += !err;
    return err;
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
    to = t->s.value + t->s.count * values_of(t);
    if (t->source)
        return read_inputs(rd, to);
    for (i = 0; i < t->fields && !err; i++) {
        if (i != t->label)
            err = read_value(rd, i, to++);
    }
    if (err)
        return err;
    err = t->options->targets
              ? read_value(rd, t->label, &t->s.target[t->s.count])
              : read_label(rd, &t->s.label[t->s.count]);
    t->s.count += !err;
    return err;
}

/* ---- the beginning ------------------------------------------------------- */

/* Field of the column @label; false where the record has none such. */
static bool find_label(const struct csv_record *r, const char *label,
                       size_t *out)
{
    long n = (long)r->fields, at;
    char *end;
    size_t i;

    if (!label || strcmp(label, "last") == 0 || strcmp(label, "first") == 0) {
        *out = label && *label == 'f' ? 0 : r->fields - 1;
        return true;
    }
    at = strtol(label, &end, 10);
    if (*end == '\0' && end != label) {
        at = at < 0 ? n + at : at - 1;
        *out = (size_t)at;
        return at >= 0 && at < n;
    }
    for (i = 0; i < r->fields; i++) {
        *out = i;
        if (strcmp(r->field[i], label) == 0)
            return true;
    }
    return false;
}

/* Whether @label is a name, which only a header can have. */
static bool is_name(const char *label)
{
    char *end;

    if (!label || strcmp(label, "last") == 0 || strcmp(label, "first") == 0)
        return false;
    (void)strtol(label, &end, 10);
    return *end != '\0';
}

/* Texts, label aside, are names; numbers are values; of a record with both it
 * cannot be told which is the mistake. */
static enum err find_header(const struct csv_reader *rd, bool *out)
{
    const struct csv_record *r = &rd->r;
    size_t texts = 0, numbers = 0, text = 0, i;
    double value;

    for (i = 0; i < r->fields; i++) {
        if (i == rd->t->label || is_missing(r->field[i]))
            continue;
        if (read_number(r->field[i], &value))
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
            return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
    }
    return t->name ? ERR_OK
                   : fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
}

/* ---- the beginning, to predict ------------------------------------------- */

/* A column's name as a model keeps it: a line of bounded length. In place. */
static void clean_name(char *text)
{
    char *p;

    if (strlen(text) > SAMPLES_COLUMN_BYTES_MAX)
        text[SAMPLES_COLUMN_BYTES_MAX] = '\0';
    for (p = strpbrk(text, "\r\n"); p; p = strpbrk(p, "\r\n"))
        *p = ' ';
}

static bool has_name(const struct csv_table *t, const char *name)
{
    for (size_t i = 0; i < t->fields; i++)
        if (strcmp(t->name[i], name) == 0)
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
    for (i = 0; o->input_name && i < o->inputs; i++)
        if (has_name(rd->t, o->input_name[i]))
            return true;
    for (i = 0; i < r->fields; i++) {
        bool number = read_number(r->field[i], &value);

        numbers += number;
        texts += !number && !is_missing(r->field[i]);
    }
    return texts > 0 && numbers == 0;
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
        return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
    for (size_t i = 0; i < o->inputs && !err; i++) {
        size_t c = 0;

        while (c < t->fields &&
               (taken[c] || strcmp(t->name[c], o->input_name[i]) != 0))
            c++;
        if (c == t->fields) {
            err = fault_set(rd->f, ERR_FORMAT,
                            "%s: expected the column \"%.60s\", which the "
                            "model was trained with, found none of that name",
                            rd->file, o->input_name[i]);
            break;
        }
        taken[c] = true;
        t->source[i] = c;
    }
    mem_free(taken);
    return err;
}

/* Values by the places of their columns. */
static enum err place_inputs(struct csv_reader *rd)
{
    struct csv_table *t = rd->t;
    size_t inputs = t->options->inputs, label = SIZE_MAX, n = 0;

    if (t->fields == inputs + 1 &&
        !find_label(&rd->r, t->options->label, &label))
        return fault_set(rd->f, ERR_INVAL,
                         "%s: expected the %zu columns that the model was "
                         "trained with, found one more, and none is %s",
                         rd->file, inputs, t->options->label);
    if (t->fields != inputs && t->fields != inputs + 1)
        return fault_set(rd->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected the %zu columns that "
                         "the model was trained with (and perhaps the label), "
                         "found %zu",
                         rd->file, rd->r.line, inputs, t->fields);
    for (size_t c = 0; c < t->fields; c++)
        if (c != label)
            t->source[n++] = c;
    return ERR_OK;
}

static enum err begin_inputs(struct csv_reader *rd, bool *header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    enum err err = ERR_OK;

    t->fields = rd->r.fields;
    t->source = mem_calloc(o->inputs, sizeof(*t->source));
    if (!t->source)
        return fault_set(rd->f, ERR_NOMEM, "%s: out of memory", rd->file);
    err = copy_names(rd);
    if (err)
        return err;
    for (size_t c = 0; c < t->fields; c++)
        clean_name(t->name[c]);
    *header = names_columns(rd);
    if (!*header) {
        free_names(t->name, t->fields);
        t->name = NULL;
    }
    return *header && o->input_name ? find_inputs(rd) : place_inputs(rd);
}

/* The first record of the first file: columns and label. *@header: it names
 * the columns. */
static enum err begin_table(struct csv_reader *rd, bool *header)
{
    struct csv_table *t = rd->t;
    const struct csv_options *o = t->options;
    bool named = is_name(o->label);
    enum err err;

    if (o->inputs)
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
    if (!find_label(&rd->r, o->label, &t->label))
        return fault_set(rd->f, ERR_INVAL,
                         "%s: line %" PRIu64 ": expected a column %s (the "
                         "label), found %zu columns and none such",
                         rd->file, rd->r.line, o->label, rd->r.fields);
    *header = named || o->header == 1;
    err = o->header < 0 && !named ? find_header(rd, header) : ERR_OK;
    if (err)
        return err;
    t->fields = rd->r.fields;
    return *header ? copy_names(rd) : ERR_OK;
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
        err = fault_set(rd->f, ERR_FORMAT,
                        "%s: expected rows of numbers, found %s", rd->file,
                        header ? "only a header" : "nothing");
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

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_value(const void *a, const void *b)
{
    double x = 0, y = 0;

    read_number(*(char *const *)a, &x);
    read_number(*(char *const *)b, &y);
    return (x > y) - (x < y);
}

static bool all_numbers(char *const *name, unsigned n)
{
    double value;
    unsigned i;

    for (i = 0; i < n; i++) {
        if (!read_number(name[i], &value))
            return false;
    }
    return true;
}

/* The header's names but the label's, each cut to a line that can be saved. (To
 * predict they have done their work.) */
static enum err take_columns(struct csv_table *t, struct fault *f)
{
    char **name;
    size_t n = 0, i;

    if (!t->name || t->source)
        return ERR_OK;
    name = mem_calloc(t->fields - 1, sizeof(char *));
    if (!name)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (i = 0; i < t->fields; i++) {
        if (i == t->label)
            continue;
        clean_name(t->name[i]);
        name[n++] = t->name[i];
        t->name[i] = NULL;
    }
    t->s.column_name = name;
    return ERR_OK;
}

static void empty(struct csv_table *t)
{
    free_names(t->name, t->fields);
    mem_free(t->source);
    memset(&t->s, 0, sizeof(t->s));
    t->source = NULL;
    t->name = NULL;
    t->fields = 0;
    t->capacity = t->class_capacity = 0;
}

enum err csv_table_take(struct csv_table *t, struct samples *out,
                        struct fault *f)
{
    char **name = NULL;
    unsigned n = t->s.classes, c;
    enum err err = ERR_OK;

    assert(t->s.count > 0 && t->fields > 0);
    t->s.channels = (uint32_t)values_of(t);
    t->s.height = t->s.width = 1;
    if (!t->options->targets && !t->source) {
        name = mem_calloc(n, sizeof(char *));
        if (!name)
            return fault_set(f, ERR_NOMEM, "out of memory");
        for (c = 0; c < n; c++)
            name[c] = t->s.class_name[c];
        qsort((void *)name, n, sizeof(char *),
              all_numbers(name, n) ? by_value : by_text);
        err = samples_rename(&t->s, "csv", name, n, f);
        mem_free((void *)name);
    }
    if (!err)
        err = take_columns(t, f);
    if (err)
        return err;
    *out = t->s;
    empty(t);
    return ERR_OK;
}
