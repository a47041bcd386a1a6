/* A run's model: its folder as it is, or as a file of ONNX. */
#include "apps/mlr/mlr_onnx.h"
#include "apps/nn/nn_onnx.h"
#include "apps/onnx/onnx_graph.h"
#include "apps/onnx/onnx_model.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/export/export.h"
#include "cli/export/zip.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 8, BLOCK_BYTES = 1 << 16 };

/* ---- the folder ---------------------------------------------------------- */

static enum err copy_bytes(int fd, const char *path, FILE *out, struct fault *f)
{
    char *block = mem_alloc(BLOCK_BYTES);
    ssize_t n = 1;

    if (!block)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    while (n > 0 && !ferror(out)) {
        n = read(fd, block, BLOCK_BYTES);
        if (n > 0)
            fwrite(block, 1, (size_t)n, out);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    mem_free(block);
    return n < 0 ? fault_errno(f, ERR_IO, errno, "%s", path) : ERR_OK;
}

/* A device or a pipe would not end, or not begin. */
static enum err open_file(const char *path, int *fd, struct fault *f)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0 && errno != ELOOP && errno != ENXIO)
        return fault_errno(f, ERR_IO, errno, "%s", path);
    if (*fd >= 0 && fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return ERR_OK;
    if (*fd >= 0)
        close(*fd);
    return fault_set(f, ERR_FORMAT,
                     "%s: expected a file of the model, found a link, or "
                     "another kind of file",
                     path);
}

/* The file @ctx, a path. */
static enum err copy_file(const void *ctx, FILE *out, struct fault *f)
{
    const char *path = ctx;
    int fd;
    enum err err = open_file(path, &fd, f);

    if (err)
        return err;
    err = copy_bytes(fd, path, out, f);
    close(fd);
    return err;
}

static enum err check_file(const char *path, struct fault *f)
{
    int fd;
    enum err err = open_file(path, &fd, f);

    if (!err)
        close(fd);
    return err;
}

static int is_content(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static enum err put_folder(const char *dir, const char *within, int depth,
                           const struct export_target *t, struct fault *f);

/* @path, called @name in the export. Without @t it is looked at alone. */
static enum err put_entry(const char *path, const char *name, int depth,
                          const struct export_target *t, struct fault *f)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return fault_errno(f, ERR_IO, errno, "%s", path);
    if (!S_ISDIR(st.st_mode))
        return t ? export_file(t, name, copy_file, path, f)
                 : check_file(path, f);
    if (depth == DEPTH_MAX)
        return fault_set(f, ERR_LIMIT, "%s: folders deeper than %d", path,
                         DEPTH_MAX);
    return put_folder(path, name, depth + 1, t, f);
}

/* All of the folder @dir, in the order of the names, as WITHIN/NAME. */
static enum err put_folder(const char *dir, const char *within, int depth,
                           const struct export_target *t, struct fault *f)
{
    struct dirent **entry = NULL;
    char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    int n = scandir(dir, &entry, is_content, alphasort);
    enum err err = ERR_OK;

    if (n < 0)
        return fault_errno(f, ERR_IO, errno, "%s", dir);
    for (int i = 0; i < n && !err; i++) {
        err = file_join(path, dir, entry[i]->d_name, f);
        if (!err && *within)
            err = file_join(name, within, entry[i]->d_name, f);
        else if (!err)
            snprintf(name, sizeof(name), "%s", entry[i]->d_name);
        if (!err)
            err = put_entry(path, name, depth, t, f);
    }
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
    return err;
}

enum err export_files(const char *dir, const char *within,
                      const struct export_target *t, struct fault *f)
{
    /* An archive that is refused half way is broken off: all before it. */
    enum err err = put_folder(dir, within, 0, NULL, f);

    return err ? err : put_folder(dir, within, 0, t, f);
}

static enum err write_folder(const struct export_model *m,
                             const struct export_target *t, struct fault *f)
{
    return export_files(m->dir, "", t, f);
}

const struct export_ops export_folder = {
    .name = "model",
    .summary = "the model's folder: NumPy arrays and JSON",
    .folder = true,
    .write_model = write_folder,
};

/* As the folder, in one file. */
static enum err write_zip(const struct export_model *m,
                          const struct export_target *t, struct fault *f)
{
    char prefix[RUN_ID_MAX + 32];
    int name = (int)(strlen(t->prefix) - strlen("-zip"));
    struct zip zip = {.at = 0};
    const struct export_target to = {
        .out = t->out, .prefix = prefix, .mtime_s = t->mtime_s, .zip = &zip};
    enum err err;

    assert(name > 0);
    snprintf(prefix, sizeof(prefix), "%.*s-model", name, t->prefix);
    err = write_folder(m, &to, f);
    if (!err)
        err = export_archive_end(&to, f);
    zip_deinit(&zip);
    return err;
}

const struct export_ops export_zip = {
    .name = "zip",
    .summary = "the model's folder as one file, a zip archive",
    .write_model = write_zip,
};

/* ---- ONNX ---------------------------------------------------------------- */

static const struct {
    const char *app;
    onnx_form *form;
} forms[] = {{"mlr", mlr_onnx}, {"nn", nn_onnx}};

static onnx_form *form_of(const char *app)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strcmp(forms[i].app, app) == 0)
            return forms[i].form;
    return NULL;
}

static uint32_t shape_at(const struct model *m, const char *pointer)
{
    json_int_t n = json_integer_value(json_at(m->json, pointer));

    return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}

static enum err write_onnx(const struct export_model *m,
                           const struct export_target *t, struct fault *f)
{
    const struct onnx_source source = {
        .dir = m->dir,
        .channels = shape_at(&m->model, "/details/shape/0"),
        .height = shape_at(&m->model, "/details/shape/1"),
        .width = shape_at(&m->model, "/details/shape/2")};
    onnx_form *form = form_of(m->model.app);
    struct onnx_graph *g;
    enum err err;

    if (!form)
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: a model of %s has no form in ONNX; those of mlr "
                         "and nn have one (its arrays: --format model)",
                         m->dir, m->model.app);
    g = mem_alloc(sizeof(*g));
    if (!g)
        return fault_set(f, ERR_NOMEM, "onnx: out of memory");
    onnx_graph_init(g);
    err = form(&source, g, f);
    if (!err)
        err = onnx_graph_write(g, m->model.app, MLT_VERSION, t->out, f);
    onnx_graph_deinit(g);
    mem_free(g);
    return err;
}

const struct export_ops export_onnx = {
    .name = "onnx",
    .summary = "the model of mlr or nn as one file of ONNX (opset 13)",
    .write_model = write_onnx,
};
