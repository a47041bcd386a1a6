#include "ps/node/model_plugin_io.h"

#include "ps/rows/consistency.h"

#include <assert.h>
#include <dlfcn.h>

enum err model_plugin_open(const char *path, const struct mlt_model_ops **out,
                           struct fault *f)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct mlt_model_ops *ops;
    struct consistency_ops checked;
    enum err err;

    assert(out);
    if (!handle)
        return fault_set(f, ERR_NOENT, "cannot load: %.300s", dlerror());
    ops = dlsym(handle, "mltune_model");
    if (!ops)
        return fault_set(f, ERR_INVAL,
                         "%s is no consistency model: it has no symbol "
                         "mltune_model (mltune/model.h)",
                         path);
    err = consistency_user(ops, NULL, path, &checked, f);
    if (!err)
        *out = ops;
    return err;
}
