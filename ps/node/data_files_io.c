#include "ps/node/data_files_io.h"

#include "base/file_io.h"
#include "base/files_read.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proto/data_list.h"

#include <assert.h>
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

static enum err refuse(struct fault *f, const char *path, const char *what)
{
    return fault_set(f, ERR_INVAL,
                     "the data have changed since the run began: %.300s %s; it "
                     "goes on once they are as they were, or with these by "
                     "mltune resume RUN --other-data, in a service by "
                     "mltune continue RUN --other-data",
                     path, what);
}

static enum err compare(const json_t *was, const json_t *is, struct fault *f)
{
    struct data_list_diff d = {0};
    char what[96];

    switch (data_list_compare(was, is, &d)) {
    case DATA_LIST_CONTENT:
        snprintf(what, sizeof(what),
                 d.was == d.is ? "has other content in its %lld bytes"
                               : "had %lld bytes and has %lld",
                 d.was, d.is);
        return refuse(f, d.path, what);
    case DATA_LIST_LACKS:
        return refuse(f, d.path, "is not among them any more");
    case DATA_LIST_ADDS:
        return refuse(f, d.path, "was not among them");
    default:
        return ERR_OK;
    }
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

/* ERR_NOENT: there is none, or none that can be read. */
static enum err read_list(const char *path, json_t **out, struct fault *f)
{
    char *text = NULL;
    size_t len = 0;
    enum err err = file_read(path, BYTES_MAX, &text, &len, f);

    if (!err)
        err = json_load(text, len, out, NULL, f);
    mem_free(text);
    if (!err && !data_list_is(*out, DATA_FILES_MAX)) {
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
    is = data_list_new(file, n, DATA_FILES_MAX);
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
