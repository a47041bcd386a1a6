#include "ps/space/open_io.h"

#include "ps/space/fake_io.h"
#include "ps/space/host.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char plugin_file[] = "libmltune-cuda.so";

/* Where the plug-in is, seen from the program's folder. */
static const char *const places[] = {"", "../lib/mltune/"};

/* The plug-in's path; false: there is none. */
static bool find_plugin(char out[PATH_MAX])
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    if (n < 0)
        return false;
    program[n] = '\0';
    slash = strrchr(program, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (snprintf(out, PATH_MAX, "%s%s%s", program, places[i], plugin_file) <
                PATH_MAX &&
            access(out, R_OK) == 0)
            return true;
    return false;
}

static enum err load(const char *path, const struct space_ops **out,
                     struct fault *f)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct space_ops *ops;

    if (!handle)
        return fault_set(f, ERR_NOENT, "cannot load: %.300s", dlerror());
    ops = dlsym(handle, SPACE_PLUGIN_SYMBOL);
    if (!ops)
        return fault_set(f, ERR_INVAL,
                         "%.300s is no memory space: it has no symbol %s", path,
                         SPACE_PLUGIN_SYMBOL);
    if (ops->version != SPACE_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%.300s is of version %u, this mltune has %d: build "
                         "both from one source",
                         path, ops->version, SPACE_VERSION);
    *out = ops;
    return ERR_OK;
}

enum err space_ops_find(const char *name, const char *plugin,
                        const struct space_ops **out, struct fault *f)
{
    static const struct space_ops *const built_in[] = {&space_host,
                                                       &space_fake};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(built_in) / sizeof(*built_in); i++)
        if (strcmp(name, built_in[i]->name) == 0) {
            *out = built_in[i];
            return ERR_OK;
        }
    if (strcmp(name, "cuda") != 0)
        return fault_set(f, ERR_NOENT,
                         "no memory space \"%.60s\": there are host, fake, "
                         "cuda",
                         name);
    if (plugin)
        return load(plugin, out, f);
    if (!find_plugin(path))
        return fault_set(f, ERR_NOENT,
                         "%s is not beside the program nor in "
                         "../lib/mltune: it is built where CUDA's "
                         "compiler is (make CUDA=/usr/local/cuda)",
                         plugin_file);
    return load(path, out, f);
}

/* The number behind "cuda:"; false: it is none. */
static bool device_number(const char *name, int *out)
{
    char *end;
    long n;

    if (*name < '0' || *name > '9')
        return false;
    n = strtol(name, &end, 10);
    *out = (int)n;
    return *end == '\0' && n < SPACE_DEVICES_MAX;
}

enum err space_open(const char *name, const struct space_options *o,
                    struct memory_space **out, struct fault *f)
{
    static const char prefix[] = "cuda:";
    struct space_options options = *o;
    const struct space_ops *ops = NULL;
    enum err err;

    if (strncmp(name, prefix, strlen(prefix)) == 0) {
        if (!device_number(name + strlen(prefix), &options.device))
            return fault_set(f, ERR_NOENT,
                             "no device \"%.60s\": the first one is cuda:0",
                             name);
        name = "cuda";
    }
    err = space_ops_find(name, o->plugin, &ops, f);
    return ops ? ops->open(&options, out, f) : err;
}
