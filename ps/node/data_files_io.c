#include "ps/node/data_files_io.h"

#include "base/crc32c.h"
#include "base/file_io.h"
#include "base/files_read.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* DATA_FILES_MAX paths of FILE_PATH_MAX bytes, each written as \u007f. */
enum { BYTES_MAX = DATA_FILES_MAX * (6 * FILE_PATH_MAX + 64) };

static enum err path_of(const char *keep, char out[FILE_PATH_MAX],
                        struct fault *f)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s.json", keep);

    return n < FILE_PATH_MAX
               ? ERR_OK
               : fault_set(f, ERR_LIMIT, "path too long: %.200s...", keep);
}

/* ---- as JSON ------------------------------------------------------------- */

static json_t *entry(const char *path, uint64_t bytes, uint32_t sum)
{
    return json_pack("{s:s%, s:I, s:I}", "path", path, strlen(path), "bytes",
                     (json_int_t)bytes, "sum", (json_int_t)sum);
}

/* What stands for @file[n]. */
static json_t *rest(const struct file_read *file, size_t n)
{
    char name[48];
    uint64_t bytes = 0;
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        bytes += file[i].bytes;
        sum = crc32c(sum, &file[i].sum, sizeof(file[i].sum));
    }
    snprintf(name, sizeof(name), "%zu further files", n);
    return entry(name, bytes, sum);
}

/* A path that is no text has a name that one can read. */
static json_t *one(const struct file_read *file)
{
    json_t *o = entry(file->path, file->bytes, file->sum);
    char name[48];

    if (o)
        return o;
    snprintf(name, sizeof(name),
             "a file whose name has the checksum %08" PRIx32,
             crc32c(0, file->path, strlen(file->path)));
    return entry(name, file->bytes, file->sum);
}

static json_t *list_of(const struct file_read *file, size_t n)
{
    size_t alone = n <= DATA_FILES_MAX ? n : DATA_FILES_MAX - 1;
    json_t *list = json_array();
    int failed = !list;

    for (size_t i = 0; i < alone && !failed; i++)
        failed = json_array_append_new(list, one(&file[i]));
    if (!failed && alone < n)
        failed = json_array_append_new(list, rest(file + alone, n - alone));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- compared ------------------------------------------------------------ */

static const char *path_in(const json_t *entry)
{
    const char *path = json_string_value(json_object_get(entry, "path"));

    return path ? path : "";
}

static json_int_t bytes_in(const json_t *entry)
{
    return json_integer_value(json_object_get(entry, "bytes"));
}

static bool holds_the_same(const json_t *a, const json_t *b)
{
    return bytes_in(a) == bytes_in(b) &&
           json_integer_value(json_object_get(a, "sum")) ==
               json_integer_value(json_object_get(b, "sum"));
}

/* The entry of @list with the path of @of, which is most often the @at-th. */
static const json_t *namesake(const json_t *list, size_t at, const json_t *of)
{
    const json_t *there = json_array_get(list, at), *item;
    size_t i;

    if (there && strcmp(path_in(there), path_in(of)) == 0)
        return there;
    json_array_foreach((json_t *)list, i, item)
    {
        if (strcmp(path_in(item), path_in(of)) == 0)
            return item;
    }
    return NULL;
}

/* The first entry of @list, from the @from-th on and around, whose path @other
 * lacks. */
static const json_t *lacking(const json_t *list, size_t from,
                             const json_t *other)
{
    size_t n = json_array_size(list);

    for (size_t k = 0; k < n; k++) {
        const json_t *item = json_array_get(list, (from + k) % n);

        if (!namesake(other, from + k, item))
            return item;
    }
    return NULL;
}

static enum err refuse(struct fault *f, const char *path, const char *what)
{
    return fault_set(f, ERR_INVAL,
                     "the data have changed since the run began: %.300s %s; it "
                     "goes on once they are as they were, or with these by "
                     "mltune resume RUN --other-data, in a service by "
                     "mltune continue RUN --other-data",
                     path, what);
}

static enum err refuse_content(struct fault *f, const json_t *was,
                               const json_t *is)
{
    char what[96];

    snprintf(what, sizeof(what),
             bytes_in(was) == bytes_in(is) ? "has other content in its %lld "
                                             "bytes"
                                           : "had %lld bytes and has %lld",
             (long long)bytes_in(was), (long long)bytes_in(is));
    return refuse(f, path_in(was), what);
}

/* Files of other names hold what stood at their places: which of them are
 * trained on, and in which order, is known by the paths alone. */
static enum err compare_places(const json_t *was, const json_t *is,
                               struct fault *f)
{
    size_t n = json_array_size(was), m = json_array_size(is), i = 0;
    const json_t *item;

    while (i < n && i < m &&
           holds_the_same(json_array_get(was, i), json_array_get(is, i)))
        i++;
    if (i == n && i == m)
        return ERR_OK;
    item = lacking(was, i, is);
    if (item)
        return refuse(f, path_in(item), "is not among them any more");
    item = lacking(is, i, was);
    /* Of the same paths each holds what it held: the list is in disorder. */
    return item ? refuse(f, path_in(item), "was not among them") : ERR_OK;
}

static enum err compare(const json_t *was, const json_t *is, struct fault *f)
{
    const json_t *item, *other;
    size_t i;

    json_array_foreach((json_t *)was, i, item)
    {
        other = namesake(is, i, item);
        if (other && !holds_the_same(item, other))
            return refuse_content(f, item, other);
    }
    return compare_places(was, is, f);
}

/* ---- the file ------------------------------------------------------------ */

static enum err write_list(const char *path, const json_t *list,
                           struct fault *f)
{
    char *text = json_write(list, 0);
    enum err err = text ? file_write(path, text, strlen(text), f)
                        : fault_set(f, ERR_NOMEM, "%s: out of memory", path);

    mem_free(text);
    return err;
}

static bool is_entry(const json_t *o)
{
    const json_t *bytes = json_object_get(o, "bytes");
    const json_t *sum = json_object_get(o, "sum");

    return path_in(o)[0] && json_is_integer(bytes) &&
           json_integer_value(bytes) >= 0 && json_is_integer(sum);
}

/* As write_list makes them. */
static bool is_list(const json_t *list)
{
    size_t n = json_array_size(list), whole = 0;

    while (whole < n && is_entry(json_array_get(list, whole)))
        whole++;
    return json_is_array(list) && whole == n && n <= DATA_FILES_MAX;
}

/* ERR_NOENT: there is none, or none that can be read. */
static enum err read_list(const char *path, json_t **out, struct fault *f)
{
    char *text = NULL;
    size_t len = 0;
    enum err err = file_read(path, BYTES_MAX, &text, &len, f);

    if (!err)
        err = json_load(text, len, out, NULL, f);
    mem_free(text);
    if (!err && !is_list(*out)) {
        json_decref(*out);
        *out = NULL;
        err = ERR_FORMAT;
    }
    if (err == ERR_FORMAT || err == ERR_LIMIT) {
        log_event(LOG_WARN, "data_files_damaged", "path=\"%s\"", path);
        err = ERR_NOENT;
    }
    return err;
}

enum err data_files_check(const char *keep, const struct file_read *file,
                          size_t n, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct fault why = {0};
    json_t *was = NULL, *is;
    enum err err = path_of(keep, path, f);

    assert(keep[0] == '/');
    if (err)
        return err;
    is = list_of(file, n);
    if (!is)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    err = read_list(path, &was, &why);
    if (!err)
        err = compare(was, is, f);
    else if (err == ERR_NOENT)
        err = write_list(path, is, f);
    else
        fault_set(f, err, "%s", why.text);
    json_decref(was);
    json_decref(is);
    return err;
}
