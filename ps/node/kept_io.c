#include "ps/node/kept_io.h"

#include "base/file_io.h"
#include "base/folder_copy_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "ps/disk/model_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_internal_io.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#define APP_FILE "app.json"

bool kept_there(const char *dir)
{
    char path[FILE_PATH_MAX];

    return file_join(path, dir, APP_FILE, NULL) == ERR_OK &&
           access(path, F_OK) == 0;
}

/* ---- written ------------------------------------------------------------- */

static enum err write_text(const json_t *app, const char *dir, struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *text = json_write(app, 0);
    enum err err = text ? file_join(path, dir, APP_FILE, f)
                        : fault_set(f, ERR_NOMEM, "%s: out of memory", dir);

    if (!err)
        err = file_write_line(path, text, f);
    mem_free(text);
    return err;
}

/* Who adds nothing to a model has nothing to keep. */
static enum err keep(const struct mlt_app_ops *ops, void *app, const char *dir,
                     json_t **out, struct fault *f)
{
    if (ops->save)
        return host_take_text(ops->keep, app, dir, out, f);
    *out = json_object();
    return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
}

enum err kept_write(const struct mlt_app_ops *ops, void *app, const char *dir,
                    struct fault *f)
{
    char tmp[FILE_PATH_MAX];
    json_t *object = NULL;
    enum err err;

    assert(ops && dir);
    if (!app_keeps(ops))
        return fault_set(f, ERR_UNSUPPORTED, "%s keeps nothing of its data",
                         ops->name);
    err = folder_begin(dir, tmp, f);
    if (err)
        return err;
    err = keep(ops, app, tmp, &object, f);
    if (!err)
        err = write_text(object, tmp, f);
    json_decref(object);
    if (!err)
        err = folder_publish(tmp, dir, f);
    if (err)
        folder_remove(tmp, NULL);
    return err;
}

/* ---- used ---------------------------------------------------------------- */

static enum err read_text(const char *dir, char **text, json_t **out,
                          struct fault *f)
{
    char path[FILE_PATH_MAX];
    size_t len;
    enum err err = file_join(path, dir, APP_FILE, f);

    if (!err)
        err = file_read(path, HOST_SAVE_BYTES + 1, text, &len, f);
    if (!err)
        err = json_load(*text, len, out, NULL, f);
    if (!err && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        err = fault_set(f, ERR_FORMAT, "expected an object");
    }
    return err ? fault_wrap(f, "%s", path) : ERR_OK;
}

static bool is_file_of_model(const char *name)
{
    return strcmp(name, APP_FILE) != 0;
}

/* The first file of it that could not be read. */
static void take_lost(void *ctx, const char *path, const char *why)
{
    struct fault *f = ctx;

    if (!f->code)
        fault_set(f, ERR_IO, "read %s: %s", path, why);
}

static enum err copy_files(const char *dir, const char *out, struct fault *f)
{
    struct fault lost = {0};
    enum err err = folder_copy(dir, out, is_file_of_model, take_lost, &lost, f);

    return err || !lost.code ? err : fault_set(f, lost.code, "%s", lost.text);
}

static enum err add_files(const struct mlt_app_ops *ops, const char *dir,
                          const char *text, const char *out, struct fault *f)
{
    struct mlt_error e = {0};
    int code;

    if (!ops->save)
        return ERR_OK;
    if (!ops->save_kept)
        return copy_files(dir, out, f);
    code = ops->save_kept(dir, text, out, &e);
    return code ? host_take_error(code, &e, "saving the model", f) : ERR_OK;
}

enum err kept_save(const struct mlt_app_ops *ops, const char *dir,
                   struct mlt_ps *ps, branch_id branch, const char *out,
                   json_t **data, struct fault *f)
{
    json_t *app = NULL;
    char *text = NULL;
    enum err err = read_text(dir, &text, &app, f);

    assert(app_keeps(ops) && data);
    if (!err)
        err = folder_ensure(out, FOLDER_SHARED, f);
    if (!err)
        err = ps_save(ps, branch, out, NULL, f);
    if (!err)
        err = add_files(ops, dir, text, out, f);
    mem_free(text);
    if (err) {
        json_decref(app);
        return err;
    }
    *data =
        json_pack("{s:o, s:o}", "tables", host_saved_tables(ps), "app", app);
    return *data ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
}
