#include "cli/verbs/model_use.h"

#include "apps/formats/data_stream.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/json/registry.h"
#include "cli/config/registry.h"
#include "cli/state/model_find.h"
#include "ps/node/app_plugin_io.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the application ----------------------------------------------------- */

/* The configuration to open the application with: its settings at training, on
 * other data; @memory as its limit, where not NULL. NULL when out of memory. */
static json_t *config_for(const struct model *m, const char *data,
                          const char *memory)
{
    json_t *settings = json_copied(m->settings);

    /* All of the data are used: there is no split. */
    json_object_del(settings, "test");
    json_object_del(settings, "test_fraction");
    if (!settings ||
        json_object_set_new(settings, "data", json_string(data)) != 0) {
        json_decref(settings);
        return NULL;
    }
    return json_pack("{s:o, s:{s:s?}}", "app", settings, "memory", "limit",
                     memory);
}

static enum err find_app(const struct model *m, const char *dir,
                         const struct mlt_app_ops **out, struct fault *f)
{
    const struct registry_entry *e =
        registry_find(cli_registry(), REGISTRY_APP, m->app);
    const char *plugin =
        json_string_value(json_object_get(m->settings, "plugin"));
    char names[256];

    if (json_object_get(m->settings, "command"))
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: the model of a program of your own, %s, which "
                         "alone can use it",
                         dir, m->app);
    if (plugin)
        return app_plugin_open(plugin, out, f);
    if (!e || !e->ops)
        return fault_set(
            f, ERR_UNSUPPORTED, "%s: there is no application %s; there are %s",
            dir, m->app,
            registry_names(cli_registry(), REGISTRY_APP, names, sizeof(names)));
    *out = e->ops;
    return ERR_OK;
}

static enum err open_host(struct model_use *u, const char *data,
                          const char *memory, bool predict, struct fault *f)
{
    char folder[FILE_PATH_MAX];
    struct host_config c = {.folder = folder,
                            .seed = u->model.seed,
                            .evaluate = u->dir,
                            .predict = predict};
    enum err err = find_app(&u->model, u->dir, &c.app, f);

    if (err)
        return err;
    if (!getcwd(folder, sizeof(folder)))
        return fault_set(f, ERR_IO, "the current folder has no name");
    u->config = config_for(&u->model, data, memory);
    if (!u->config)
        return fault_set(f, ERR_NOMEM, "out of memory");
    c.config = u->config;
    data_memory_name("--memory");
    return host_open(&c, &u->host, f);
}

enum err model_use_open(const char *model, const char *state, const char *data,
                        const char *memory, bool predict, struct model_use *out,
                        struct fault *f)
{
    struct found_model found;
    enum err err;

    assert(model && state && data);
    *out = (struct model_use){.host = NULL};
    err = model_find(model, state, &found, f);
    if (!err) {
        memcpy(out->dir, found.dir, sizeof(out->dir));
        err = model_read(out->dir, &out->model, f);
    }
    if (!err)
        err = open_host(out, data, memory, predict, f);
    if (err)
        model_use_close(out);
    return err;
}

void model_use_close(struct model_use *u)
{
    host_close(u->host);
    json_decref(u->config);
    model_deinit(&u->model);
    *u = (struct model_use){.host = NULL};
}
