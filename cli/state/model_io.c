#include "cli/state/model_io.h"

#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODEL_BYTES_MAX = 4 * 1024 * 1024 };

/* @value, or @otherwise (transferred) where there is none. */
static json_t *or_else(const json_t *value, json_t *otherwise)
{
    if (!value)
        return otherwise;
    json_decref(otherwise);
    return json_incref((json_t *)value);
}

static json_t *model_object(const struct model_facts *m)
{
    const json_t *saved = m->saved;

    return json_pack(
        "{s:i, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:o, "
        "s:o, s:O*}",
        "version", MODEL_VERSION, "mltune", MLT_VERSION, "run", m->run, "app",
        m->app, "settings", or_else(m->settings, json_object()), "folder",
        m->folder, "data",
        or_else(json_object_get(m->settings, "data"), json_null()), "setting",
        or_else(m->setting, json_object()), "metric",
        or_else(m->metric, json_null()), "loss",
        isnan(m->loss) ? json_null() : json_of_number(m->loss), "epoch",
        (json_int_t)m->epoch, "seed", (json_int_t)m->seed, "tables",
        or_else(json_object_get(saved, "tables"), json_array()), "details",
        or_else(json_object_get(saved, "app"), json_object()), "files",
        json_object_get(saved, "files"));
}

enum err model_write(const char *dir, const struct model_facts *facts,
                     struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, MODEL_FILE, f);
    json_t *model;
    char *text;

    assert(facts->app && facts->run);
    if (err)
        return err;
    model = model_object(facts);
    text = model ? json_write(model, 2) : NULL;
    if (text)
        err = file_write_shared(path, text, strlen(text), f);
    else
        err = fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    mem_free(text);
    json_decref(model);
    return err;
}

enum err model_place(const char *out, char dir[FILE_PATH_MAX], struct fault *f)
{
    char marker[FILE_PATH_MAX];
    struct stat st;
    enum err err = folder_absolute(out, dir, f);

    if (!err)
        err = file_join(marker, dir, MODEL_FILE, f);
    if (err) {
        fault_wrap(f, "--out");
        return err;
    }
    if (lstat(dir, &st) != 0 || folder_is_empty(dir) ||
        access(marker, F_OK) == 0)
        return ERR_OK;
    return fault_set(f, ERR_EXIST,
                     "--out %s exists and is no model; name a folder that is "
                     "new, empty, or an earlier model",
                     out);
}

/* NAN is null. */
static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

/* NULL: out of memory. */
static json_t *metric_object(const struct history *h,
                             const struct history_epoch *e)
{
    if (!history_run(h)->metric[0])
        return json_null();
    return json_pack("{s:s, s:b, s:o}", "name", history_run(h)->metric,
                     "higher_better", history_run(h)->metric_higher_better,
                     "value", number(e ? e->e.metric : NAN));
}

enum err model_write_epoch(const char *dir, const struct history *h,
                           const struct history_epoch *e, const char *run,
                           const char *folder, const json_t *config,
                           const json_t *saved, struct fault *f)
{
    json_t *metric = metric_object(h, e);
    json_t *setting = e ? history_epoch_setting(h, e) : NULL;
    const struct model_facts facts = {
        .run = run,
        .app = history_run(h)->app,
        .folder = folder,
        .settings = json_object_get(config, "app"),
        .setting = json_is_null(setting) ? NULL : setting,
        .saved = saved,
        .metric = metric,
        .loss = e ? e->e.loss : NAN,
        .epoch = e ? e->e.epoch : 0,
        .seed = history_run(h)->seed,
    };
    enum err err;

    assert(dir && h);
    /* A model without one of these is another. */
    err = !metric || (e && !setting)
              ? fault_set(f, ERR_NOMEM, "write %s/%s: out of memory", dir,
                          MODEL_FILE)
              : model_write(dir, &facts, f);
    json_decref(metric);
    json_decref(setting);
    return err;
}

static enum err take_members(struct model *m, const char *path, struct fault *f)
{
    const json_t *version = json_object_get(m->json, "version");
    const json_t *seed = json_object_get(m->json, "seed");

    m->app = json_string_value(json_object_get(m->json, "app"));
    m->folder = json_string_value(json_object_get(m->json, "folder"));
    m->settings = json_object_get(m->json, "settings");
    m->setting = json_object_get(m->json, "setting");
    m->seed = (uint64_t)json_integer_value(seed);
    if (!json_is_integer(version))
        return fault_set(f, ERR_FORMAT, "%s: /version: expected a number",
                         path);
    if (json_integer_value(version) != MODEL_VERSION)
        return fault_set(
            f, ERR_VERSION, "%s: version %lld, this program reads version %d",
            path, (long long)json_integer_value(version), MODEL_VERSION);
    if (!m->app || !m->folder)
        return fault_set(f, ERR_FORMAT, "%s: /%s: expected a string", path,
                         m->app ? "folder" : "app");
    if (!json_is_object(m->settings) || !json_is_object(m->setting))
        return fault_set(f, ERR_FORMAT, "%s: /%s: expected an object", path,
                         json_is_object(m->settings) ? "setting" : "settings");
    if (!json_is_integer(seed) || json_integer_value(seed) < 0)
        return fault_set(f, ERR_FORMAT, "%s: /seed: expected a number", path);
    return ERR_OK;
}

enum err model_read(const char *dir, struct model *out, struct fault *f)
{
    struct model m = {0};
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t len;
    enum err err = file_join(path, dir, MODEL_FILE, f);

    assert(dir);
    assert(out);
    if (!err)
        err = file_read(path, MODEL_BYTES_MAX, &text, &len, f);
    if (err)
        return err;
    err = json_load(text, len, &m.json, NULL, f);
    mem_free(text);
    if (err)
        fault_wrap(f, "%s", path);
    else
        err = take_members(&m, path, f);
    if (err) {
        model_deinit(&m);
        return err;
    }
    *out = m;
    return ERR_OK;
}

void model_deinit(struct model *m)
{
    json_decref(m->json);
    memset(m, 0, sizeof(*m));
}
