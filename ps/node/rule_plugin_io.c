#include "ps/node/rule_plugin_io.h"

#include "ps/rows/rule.h"

#include <assert.h>
#include <dlfcn.h>

enum err rule_plugin_open(const char *path, const struct mlt_rule_ops **out,
                          struct fault *f)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct mlt_rule_ops *ops;
    struct rule_ops checked;
    enum err err;

    assert(out);
    if (!handle)
        return fault_set(f, ERR_NOENT, "cannot load: %.300s", dlerror());
    ops = dlsym(handle, "mltune_rule");
    if (!ops)
        return fault_set(f, ERR_INVAL,
                         "%s is no update rule: it has no symbol mltune_rule "
                         "(mltune/rule.h)",
                         path);
    err = rule_user(ops, NULL, path, &checked, f);
    if (!err)
        *out = ops;
    return err;
}
