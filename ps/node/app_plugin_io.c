#include "ps/node/app_plugin_io.h"

#include "base/json/json.h"
#include "base/proto/proto.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

enum {
    VERSION_OLDEST = 1,
    VERSION_PREDICTS = 2,
    VERSION_TRUTH = 3,
    VERSION_VALIDATES = 4,
    VERSION_KEEPS = 6,
    VERSION_PLANS = 7
};

bool app_predicts(const struct mlt_app_ops *ops)
{
    assert(ops);
    return ops->version >= VERSION_PREDICTS && ops->predict && ops->columns;
}

bool app_tells_truth(const struct mlt_app_ops *ops)
{
    return app_predicts(ops) && ops->version >= VERSION_TRUTH && ops->truth;
}

bool app_validates(const struct mlt_app_ops *ops)
{
    return app_tells_truth(ops) && ops->version >= VERSION_VALIDATES;
}

bool app_keeps(const struct mlt_app_ops *ops)
{
    return !ops->save || (ops->version >= VERSION_KEEPS && ops->keep);
}

bool app_plans(const struct mlt_app_ops *ops)
{
    assert(ops);
    return ops->version >= VERSION_PLANS && ops->plan;
}

/* The first part that @ops lacks, or NULL. */
static const char *missing_part(const struct mlt_app_ops *ops)
{
    return !ops->name || !*ops->name ? ".name"
           : !ops->summary           ? ".summary"
           : !ops->schema            ? ".schema"
           : !ops->open              ? ".open"
           : !ops->declare           ? ".declare"
           : !ops->init              ? ".init"
           : !ops->run_clock         ? ".run_clock"
           : !ops->close             ? ".close"
                                     : NULL;
}

static enum err check_schema(const char *text, const char *file,
                             struct fault *f)
{
    json_t *schema = NULL;
    enum err err = json_load(text, strlen(text), &schema, NULL, f);

    if (err)
        fault_wrap(f, "%s: .schema is no JSON schema", file);
    else if (!json_is_object(schema))
        err = fault_set(f, ERR_INVAL, "%s: .schema is no JSON object", file);
    json_decref(schema);
    return err ? ERR_INVAL : ERR_OK;
}

enum err app_plugin_check(const struct mlt_app_ops *ops, const char *file,
                          struct fault *f)
{
    const char *missing;
    size_t n = 0;

    assert(ops && file);
    if (ops->version < VERSION_OLDEST || ops->version > MLT_APP_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%s was built for version %u of mltune/app.h, this "
                         "mltune has version %d: build it again",
                         file, ops->version, MLT_APP_VERSION);
    missing = missing_part(ops);
    if (missing)
        return fault_set(f, ERR_INVAL, "%s: mltune_app lacks %s", file,
                         missing);
    for (; ops->tunables && ops->tunables[n]; n++)
        if (n == PROTO_TUNABLES_MAX ||
            strlen(ops->tunables[n]) > PROTO_NAME_MAX)
            return fault_set(f, ERR_INVAL,
                             "%s: at most %d tunables, with names of at most "
                             "%d bytes",
                             file, PROTO_TUNABLES_MAX, PROTO_NAME_MAX);
    return check_schema(ops->schema, file, f);
}

enum err app_plugin_open(const char *path, const struct mlt_app_ops **out,
                         struct fault *f)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct mlt_app_ops *ops;
    enum err err;

    if (!handle)
        return fault_set(f, ERR_NOENT, "cannot load: %.300s", dlerror());
    ops = dlsym(handle, "mltune_app");
    if (!ops)
        return fault_set(f, ERR_INVAL,
                         "%s is no application: it has no symbol mltune_app "
                         "(mltune/app.h)",
                         path);
    err = app_plugin_check(ops, path, f);
    if (!err)
        *out = ops;
    return err;
}
