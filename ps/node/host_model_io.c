/* The model of a branch, saved: its tables and what the application adds. */
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/disk/model_io.h"
#include "ps/disk/restore_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_internal_io.h"
#include "ps/node/kept_io.h"

#include <assert.h>

#include <string.h>

json_t *host_saved_tables(const struct mlt_ps *ps)
{
    static const char *const types[] = {
        [MLT_F32] = "f32", [MLT_I32] = "i32", [MLT_F64] = "f64"};
    json_t *list = json_array(), *item;

    for (unsigned t = 0; list && t < ps_tables(ps); t++) {
        struct ps_table_info info = ps_table_info(ps, t);

        if (!info.saved)
            continue;
        item = json_pack("{s:s, s:I, s:I, s:s}", "name", info.name, "rows",
                         (json_int_t)info.rows, "width", (json_int_t)info.width,
                         "type", types[info.type]);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

enum err host_take_text(host_text *ask, void *app, const char *dir,
                        json_t **out, struct fault *f)
{
    struct mlt_error e = {0};
    char *text = mem_calloc(1, HOST_SAVE_BYTES);
    enum err err = ERR_OK;
    int code;

    *out = NULL;
    if (!text)
        return fault_set(f, ERR_NOMEM, "save: out of memory");
    code = ask(app, dir, text, HOST_SAVE_BYTES, &e);
    if (code)
        err = host_take_error(code, &e, "saving the model", f);
    else if (!text[0])
        *out = json_object();
    else if (!memchr(text, 0, HOST_SAVE_BYTES))
        err = fault_set(f, ERR_APP, "save: the application's text has no end");
    else
        err = json_load(text, strlen(text), out, NULL, f);
    if (!err && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        err = fault_set(f, ERR_APP, "save: the application gave no object");
    }
    mem_free(text);
    return err;
}

/* The application's part of model.json; {} where it adds nothing. */
static enum err save_app(struct host *h, const char *dir, json_t **out,
                         struct fault *f)
{
    if (h->facts.app->save)
        return host_take_text(h->facts.app->save, h->app, dir, out, f);
    *out = json_object();
    return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
}

void host_keep(struct host *h, const char *dir)
{
    struct fault f = {0};

    assert(h && dir);
    if (ps_node(h->ps) > 0 || !app_keeps(h->facts.app) || kept_there(dir))
        return;
    if (kept_write(h->facts.app, h->app, dir, &f))
        log_event(LOG_WARN, "nothing_kept", "reason=\"%s\"", f.text);
}

enum err host_save(struct host *h, branch_id branch, const char *dir,
                   uint64_t *bytes, json_t **data, struct fault *f)
{
    json_t *app = NULL, *tables;
    enum err err;

    assert(dir && data);
    err = folder_ensure(dir, FOLDER_SHARED, f);
    if (!err)
        err = ps_save(h->ps, branch, dir, bytes, f);
    if (!err && ps_node(h->ps) > 0) { /* the first node's part of the work */
        *data = json_object();
        return *data ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
    }
    if (!err)
        err = save_app(h, dir, &app, f);
    if (err)
        return err;
    tables = host_saved_tables(h->ps);
    *data = json_pack("{s:o, s:o}", "tables", tables, "app", app);
    return *data ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
}

enum err host_restore(struct host *h, branch_id branch, const char *dir,
                      struct fault *f)
{
    assert(h && dir);
    return ps_restore(h->ps, branch, dir, f);
}
