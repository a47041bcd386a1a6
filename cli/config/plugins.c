#include "cli/config/plugins.h"

#include <assert.h>
#include <dirent.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "FOLDER/NAME"; false where it is too long. */
static bool join(const char *folder, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

bool plugins_program_folder(char out[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    assert(out);
    if (n <= 0)
        return false;
    path[n] = '\0';
    snprintf(out, PATH_MAX, "%s", dirname(path));
    return true;
}

/* Folder number @i in @out, "" where it is to be passed over; false past the
 * last. */
static bool folder_at(size_t i, char out[PATH_MAX])
{
    static const char *const own[] = {"plugins", "../lib/mltune/plugins"};
    const char *path = getenv("MLTUNE_PLUGIN_PATH");
    char program[PATH_MAX];

    *out = '\0';
    for (; path && *path; i--) {
        size_t n = strcspn(path, ":");

        if (i == 0) {
            snprintf(out, PATH_MAX, "%.*s", (int)n, path);
            return true;
        }
        path += n + (path[n] == ':');
    }
    if (i >= sizeof(own) / sizeof(*own))
        return false;
    if (plugins_program_folder(program) && !join(program, own[i], out))
        *out = '\0';
    return true;
}

static bool is_there(const char *path, char out[PATH_MAX])
{
    return access(path, R_OK) == 0 && realpath(path, out);
}

bool plugin_find(const char *folder, const char *name, char out[PATH_MAX])
{
    char path[PATH_MAX], dir[PATH_MAX];

    assert(folder);
    assert(name);
    if (*name == '/')
        return is_there(name, out);
    if (join(folder, name, path) && is_there(path, out))
        return true;
    for (size_t i = 0; !strchr(name, '/') && folder_at(i, dir); i++)
        if (*dir && join(dir, name, path) && is_there(path, out))
            return true;
    return false;
}

static int is_shared_object(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 3 && strcmp(entry->d_name + n - 3, ".so") == 0;
}

void plugins_each(bool (*visit)(void *ctx, const char *path), void *ctx)
{
    char dir[PATH_MAX], path[PATH_MAX];
    bool on = true;

    assert(visit);
    for (size_t i = 0; folder_at(i, dir); i++) {
        struct dirent **entry = NULL;
        int n = *dir ? scandir(dir, &entry, is_shared_object, alphasort) : 0;

        for (int k = 0; k < n; k++) {
            if (on && join(dir, entry[k]->d_name, path))
                on = visit(ctx, path);
            free(entry[k]);
        }
        free(entry);
    }
}
