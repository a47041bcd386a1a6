#include "apps/samples/encoding_file.h"

#include "apps/samples/csv_field.h"
#include "apps/samples/samples.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ENCODING_VERSION = 1 };

static const char encoding_file[] = "encoding.json";

/* ---- reading ------------------------------------------------------------- */

static enum err bad_member(uint64_t c, const char *member, const char *expected,
                           struct fault *f)
{
    return fault_set(f, ERR_FORMAT, "/columns/%" PRIu64 "%s: expected %s", c,
                     member, expected);
}

/* Exactly the members that a column of its kind has. */
static bool has_members(const json_t *o, bool category)
{
    size_t n = 3 + (json_object_get(o, "name") != NULL);

    return json_object_size(o) == n && json_object_get(o, "missing") &&
           json_object_get(o, category ? "categories" : "fill");
}

static enum err take_name(const json_t *o, uint64_t c, bool named,
                          struct encoded_column *out, struct fault *f)
{
    const char *name = json_string_value(json_object_get(o, "name"));

    if (!json_object_get(o, "name") != !named)
        return bad_member(c, "/name", "names of all columns or of none", f);
    if (!named)
        return ERR_OK;
    if (!name || strlen(name) > SAMPLES_COLUMN_BYTES_MAX ||
        strpbrk(name, "\r\n"))
        return bad_member(c, "/name", "a line of at most 255 bytes", f);
    out->name = mem_strdup(name);
    return out->name ? ERR_OK : fault_set(f, ERR_NOMEM, "out of memory");
}

static enum err take_categories(const json_t *list, uint64_t c,
                                struct categories *out, struct fault *f)
{
    size_t n = json_array_size(list);
    enum err err = ERR_OK;
    uint32_t number = 0;

    if (!json_is_array(list) || n > CATEGORIES_MAX)
        return bad_member(c, "/categories", "a list of at most 1000 texts", f);
    for (size_t i = 0; i < n && !err; i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (!name || !csv_is_name(name))
            return bad_member(c, "/categories",
                              "texts of one line and at most 255 bytes", f);
        err = categories_add(out, name, &number);
        if (!err && number != i)
            return bad_member(c, "/categories", "each category once", f);
    }
    return err ? fault_set(f, err, "out of memory") : ERR_OK;
}

static enum err take_column(const json_t *o, uint64_t c, bool named,
                            struct encoded_column *out, struct fault *f)
{
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const json_t *missing = json_object_get(o, "missing");
    const json_t *fill = json_object_get(o, "fill");
    enum err err;

    out->category = kind && strcmp(kind, "category") == 0;
    if (!kind || (!out->category && strcmp(kind, "number") != 0))
        return bad_member(c, "/kind", "\"number\" or \"category\"", f);
    if (!has_members(o, out->category))
        return bad_member(c, "",
                          out->category
                              ? "name (or none), kind, categories, missing"
                              : "name (or none), kind, fill, missing",
                          f);
    if (!json_is_boolean(missing))
        return bad_member(c, "/missing", "true or false", f);
    out->missing = json_is_true(missing);
    err = take_name(o, c, named, out, f);
    if (err)
        return err;
    if (out->category)
        return take_categories(json_object_get(o, "categories"), c,
                               &out->categories, f);
    out->fill = json_number_value(fill);
    if (!json_is_number(fill) || !isfinite((float)out->fill))
        return bad_member(c, "/fill", "a number that a 32-bit float can hold",
                          f);
    return ERR_OK;
}

static enum err take_all(const json_t *o, struct encoding *out, struct fault *f)
{
    const json_t *list = json_object_get(o, "columns");
    size_t n = json_array_size(list);
    bool named = json_object_get(json_array_get(list, 0), "name") != NULL;
    enum err err;

    if (!json_is_integer(json_object_get(o, "version")) ||
        json_integer_value(json_object_get(o, "version")) != ENCODING_VERSION)
        return fault_set(f, ERR_FORMAT,
                         "/version: expected 1, what this mltune reads");
    if (n < 1 || n > ENCODING_INPUTS_MAX || json_object_size(o) != 2)
        return fault_set(f, ERR_FORMAT,
                         "expected version and columns, a list of 1 to %d",
                         ENCODING_INPUTS_MAX);
    err = encoding_init(out, n);
    if (err)
        return fault_set(f, err, "out of memory");
    for (size_t c = 0; c < n && !err; c++)
        err =
            take_column(json_array_get(list, c), c, named, &out->column[c], f);
    return err ? err : encoding_close(out, f);
}

enum err encoding_parse(const char *text, size_t len, struct encoding *out,
                        struct fault *f)
{
    struct encoding e = {.columns = 0};
    json_error_t error;
    bool lacking = false;
    json_t *o;
    enum err err;

    if (len > ENCODING_TEXT_MAX)
        return fault_set(f, ERR_LIMIT,
                         "expected at most %d MiB, found %zu "
                         "bytes",
                         ENCODING_TEXT_MAX >> 20, len);
    o = json_parse(text, len, 0, &error, &lacking);
    if (!o && lacking)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (!o)
        return fault_set(f, ERR_FORMAT, "line %d, column %d: %s", error.line,
                         error.column, error.text);
    err = take_all(o, &e, f);
    json_decref(o);
    if (!err && e.inputs == 0)
        err = fault_set(f, ERR_FORMAT,
                        "/columns: expected at least one input, "
                        "found categories of none");
    if (err)
        encoding_deinit(&e);
    else
        *out = e;
    return err;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *names_json(const struct categories *c)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < c->count; i++)
        if (json_array_append_new(list, json_string(c->name[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *column_json(const struct encoded_column *column)
{
    json_t *o = column->category
                    ? json_pack("{s:s, s:o, s:b}", "kind", "category",
                                "categories", names_json(&column->categories),
                                "missing", column->missing)
                    : json_pack("{s:s, s:f, s:b}", "kind", "number", "fill",
                                column->fill, "missing", column->missing);

    if (o && column->name &&
        json_object_set_new(o, "name", json_string(column->name)) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *encoding_json(const struct encoding *e)
{
    json_t *list = json_array();

    for (uint64_t c = 0; list && c < e->columns; c++)
        if (json_array_append_new(list, column_json(&e->column[c])) != 0) {
            json_decref(list);
            return NULL;
        }
    return json_pack("{s:i, s:o}", "version", ENCODING_VERSION, "columns",
                     list);
}

enum err encoding_save(const struct encoding *e, const char *dir,
                       struct fault *f)
{
    json_t *o = encoding_json(e);
    char path[FILE_PATH_MAX], *text = o ? json_write(o, 0) : NULL;
    enum err err = text ? file_join(path, dir, encoding_file, f)
                        : fault_set(f, ERR_NOMEM, "encoding: out of memory");

    json_decref(o);
    if (!err)
        err = file_write_line(path, text, f);
    mem_free(text);
    return err;
}

/* Text of the file, NULL where it is not there, and its path. */
static enum err read_file(const char *dir, char path[FILE_PATH_MAX],
                          char **text, size_t *len, struct fault *f)
{
    struct fault own = {0};
    enum err err = file_join(path, dir, encoding_file, f);

    *text = NULL;
    if (err)
        return err;
    err = file_read(path, ENCODING_TEXT_MAX, text, len, &own);
    if (err == ERR_NOENT)
        return ERR_OK;
    return err ? fault_set(f, err, "%s", own.text) : ERR_OK;
}

enum err encoding_load(const char *dir, struct encoding *out, struct fault *f)
{
    char path[FILE_PATH_MAX], *text;
    struct fault own = {0};
    size_t len = 0;
    enum err err = read_file(dir, path, &text, &len, f);

    *out = (struct encoding){.columns = 0};
    if (err || !text)
        return err;
    err = encoding_parse(text, len, out, &own);
    mem_free(text);
    return err ? fault_set(f, err, "%s: %s", path, own.text) : ERR_OK;
}

enum err encoding_text(const char *dir, char **out, struct fault *f)
{
    struct encoding e;
    json_t *o;
    enum err err = encoding_load(dir, &e, f);

    *out = NULL;
    if (err || e.columns == 0)
        return err;
    o = encoding_json(&e);
    *out = o ? json_write(o, 0) : NULL;
    json_decref(o);
    encoding_deinit(&e);
    return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "encoding: out of memory");
}
