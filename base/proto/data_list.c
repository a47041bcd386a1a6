#include "base/proto/data_list.h"

#include "base/crc32c.h"
#include "base/files_read.h"
#include "base/json/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

json_t *data_list_new(const struct file_read *file, size_t n, size_t max)
{
    size_t alone = n <= max ? n : max - 1;
    json_t *list = json_array();
    int failed = !list;

    assert(max >= 2);
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

/* Files of other names hold what stood at their places: which of them are
 * trained on, and in which order, is known by the paths alone. */
static enum data_list_change compare_places(const json_t *was, const json_t *is,
                                            struct data_list_diff *out)
{
    size_t n = json_array_size(was), m = json_array_size(is), i = 0;
    const json_t *item;

    while (i < n && i < m &&
           holds_the_same(json_array_get(was, i), json_array_get(is, i)))
        i++;
    if (i == n && i == m)
        return DATA_LIST_SAME;
    item = lacking(was, i, is);
    if (item) {
        out->path = path_in(item);
        return DATA_LIST_LACKS;
    }
    item = lacking(is, i, was);
    if (!item) /* of the same paths each holds what it held */
        return DATA_LIST_SAME;
    out->path = path_in(item);
    return DATA_LIST_ADDS;
}

enum data_list_change data_list_compare(const json_t *was, const json_t *is,
                                        struct data_list_diff *out)
{
    const json_t *item, *other;
    size_t i;

    assert(out);
    json_array_foreach((json_t *)was, i, item)
    {
        other = namesake(is, i, item);
        if (!other || holds_the_same(item, other))
            continue;
        *out = (struct data_list_diff){path_in(item), bytes_in(item),
                                       bytes_in(other)};
        return DATA_LIST_CONTENT;
    }
    return compare_places(was, is, out);
}

static bool is_entry(const json_t *o)
{
    const json_t *bytes = json_object_get(o, "bytes");
    const json_t *sum = json_object_get(o, "sum");

    return path_in(o)[0] && json_is_integer(bytes) &&
           json_integer_value(bytes) >= 0 && json_is_integer(sum);
}

bool data_list_is(const json_t *list, size_t max)
{
    size_t n = json_array_size(list), whole = 0;

    while (whole < n && is_entry(json_array_get(list, whole)))
        whole++;
    return json_is_array(list) && whole == n && n <= max;
}
