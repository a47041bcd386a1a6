#include "base/proto/extras.h"

#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
static const char others[] = "-.:/ ";

bool extras_name_fits(const char *name)
{
    size_t n = strlen(name), i;

    if (n < 1 || n > EXTRAS_NAME_MAX || strstr(name, "..") ||
        !strchr(letters, name[0]))
        return false;
    for (i = 0; i < n; i++)
        if (!strchr(letters, name[i]) && !strchr(others, name[i]))
            return false;
    return true;
}

int extras_find(const struct extras *e, const char *name)
{
    assert(e->len <= EXTRAS_MAX);
    for (uint32_t i = 0; i < e->len; i++)
        if (strcmp(e->name[i], name) == 0)
            return (int)i;
    return -1;
}

int extras_add(struct extras *e, const char *name)
{
    int at = extras_find(e, name);

    assert(extras_name_fits(name));
    if (at >= 0 || e->len == EXTRAS_MAX)
        return at;
    snprintf(e->name[e->len], sizeof(e->name[0]), "%s", name);
    return (int)e->len++;
}

static const char bad_name[] =
    "values: a name has 1 to 32 letters, digits, spaces and _-.:/ (a to z), "
    "and begins with a letter, a digit or _";

const char *extras_check_names(const json_t *names)
{
    const json_t *name;
    size_t i;

    if (json_array_size(names) > EXTRAS_MAX)
        return "metrics: at most 16";
    json_array_foreach((json_t *)names, i, name)
    {
        if (!json_is_string(name) || !extras_name_fits(json_string_value(name)))
            return bad_name;
    }
    return NULL;
}

static bool is_value(const json_t *value)
{
    double x;

    return json_is_null(value) || json_to_number(value, &x);
}

const char *extras_check(const json_t *values, size_t windows)
{
    const json_t *column, *value;
    const char *name;
    size_t i;

    if (json_object_size(values) > EXTRAS_MAX)
        return "values: at most 16 metrics";
    json_object_foreach((json_t *)values, name, column)
    {
        if (!extras_name_fits(name))
            return bad_name;
        if (!json_is_array(column) || json_array_size(column) != windows)
            return "values: expected an array with an entry a window";
        json_array_foreach((json_t *)column, i, value)
        {
            if (!is_value(value))
                return "values: expected numbers or null";
        }
    }
    return NULL;
}

double extras_at(const json_t *values, const char *name, size_t index)
{
    const json_t *column = json_object_get(values, name);
    double x;

    return json_to_number(json_array_get(column, index), &x) ? x : NAN;
}

static enum err pad(json_t *column, size_t to)
{
    while (json_array_size(column) < to)
        if (json_array_append_new(column, json_null()))
            return ERR_NOMEM;
    return ERR_OK;
}

static enum err append_column(json_t *to, size_t before, const char *name,
                              const json_t *more)
{
    json_t *column = json_object_get(to, name);

    if (!column) {
        column = json_array();
        if (json_object_set_new(to, name, column))
            return ERR_NOMEM;
    }
    return pad(column, before) || json_array_extend(column, (json_t *)more)
               ? ERR_NOMEM
               : ERR_OK;
}

enum err extras_append(json_t **to, size_t before, const json_t *more,
                       size_t windows)
{
    enum err err = ERR_OK;
    const char *name;
    json_t *column;

    if (!*to && json_object_size(more) == 0)
        return ERR_OK;
    if (!*to)
        *to = json_object();
    if (!*to)
        return ERR_NOMEM;
    json_object_foreach((json_t *)more, name, column)
    {
        err = err ? err : append_column(*to, before, name, column);
    }
    json_object_foreach(*to, name, column)
    {
        err = err ? err : pad(column, before + windows);
    }
    return err;
}

/* *@out: NULL where no entry of it is a value. */
static enum err column_part(const json_t *column, size_t from, size_t count,
                            json_t **out)
{
    json_t *part = json_array(), *value;
    bool some = false;
    int failed = !part;

    for (size_t i = from; !failed && i < from + count; i++) {
        value = json_array_get(column, i);
        some |= value && !json_is_null(value);
        failed = json_array_append_new(part, value ? json_incref(value)
                                                   : json_null());
    }
    *out = failed || !some ? NULL : part;
    if (!*out)
        json_decref(part);
    return failed ? ERR_NOMEM : ERR_OK;
}

/* Puts @part, which is transferred even on error, into *@to (NULL: none yet).
 */
static enum err add_part(json_t **to, const char *name, json_t *part)
{
    if (!*to)
        *to = json_object();
    return json_object_set_new(*to, name, part) ? ERR_NOMEM : ERR_OK;
}

enum err extras_part(const struct extras *e, const json_t *values, size_t from,
                     size_t count, json_t **out)
{
    json_t *all = NULL, *column, *part;
    enum err err = ERR_OK;
    const char *name;

    json_object_foreach((json_t *)values, name, column)
    {
        if (err || extras_find(e, name) < 0)
            continue;
        err = column_part(column, from, count, &part);
        if (!err && part)
            err = add_part(&all, name, part);
    }
    if (err)
        json_decref(all);
    else
        *out = all;
    return err;
}
