#include "apps/formats/data_root.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char root_name[] = "MLTUNE_DATA_ROOT";
static const char hidden_name[] = "MLTUNE_DATA_HIDDEN";

static enum err put(const char *name, const char *value)
{
    if (!value)
        unsetenv(name);
    return value && setenv(name, value, 1) != 0 ? ERR_NOMEM : ERR_OK;
}

enum err data_confine(const char *root, const char *hidden)
{
    enum err err = put(root_name, root);

    assert(!root || *root == '/');
    assert(!hidden || *hidden == '/');
    return err ? err : put(hidden_name, root ? hidden : NULL);
}

static bool is_within(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return true;
    return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/');
}

/* Whether what was opened as @fd lies within the bound: its own name, whatever
 * it was called. */
static enum err check_place(int fd, const char *path, struct fault *f)
{
    const char *root = getenv(root_name), *hidden = getenv(hidden_name);
    char link[64], real[PATH_MAX];
    ssize_t n;

    if (!root)
        return ERR_OK;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, real, sizeof(real) - 1);
    if (n < 0)
        return fault_errno(f, ERR_IO, errno, "see where %s lies", path);
    real[n] = '\0';
    if (!is_within(real, root))
        return fault_set(f, ERR_INVAL,
                         "%s leads out of the service's data folder %s", path,
                         root);
    if (hidden && is_within(real, hidden))
        return fault_set(f, ERR_INVAL,
                         "%s leads into the service's state folder", path);
    return ERR_OK;
}

/* A handle that reads nothing: opening it has no effect on what it is. */
static enum err hold(const char *path, int *fd, struct stat *st,
                     struct fault *f)
{
    enum err err;

    *fd = open(path, O_PATH | O_CLOEXEC);
    if (*fd < 0)
        return fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno,
                           "open %s", path);
    err = check_place(*fd, path, f);
    if (!err && fstat(*fd, st) != 0)
        err = fault_errno(f, ERR_IO, errno, "stat %s", path);
    if (err)
        close(*fd);
    return err;
}

enum err data_look(const char *path, struct stat *st, struct fault *f)
{
    int fd;
    enum err err = hold(path, &fd, st, f);

    assert(path && st);
    if (!err)
        close(fd);
    return err;
}

enum err data_open(const char *path, bool folder, int *out, struct fault *f)
{
    char link[64];
    struct stat st = {0};
    int held, fd;
    enum err err = hold(path, &held, &st, f);

    assert(path && out);
    if (err)
        return err;
    if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)) {
        close(held);
        return fault_set(f, ERR_INVAL, "%s: not a %s", path,
                         folder ? "folder" : "regular file");
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", held);
    fd = open(link, O_RDONLY | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
    if (fd < 0)
        err = fault_errno(f, ERR_IO, errno, "open %s", path);
    else
        *out = fd;
    close(held);
    return err;
}
