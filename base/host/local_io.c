#include "base/host/local_io.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOCAL_QUEUE = 128 };

/* Address of @path. Where it is too long, by its folder, which is open as
 * *@folder then, else -1. Errors: errno. */
static bool address_of(const char *path, struct sockaddr_un *out, int *folder)
{
    const char *name = strrchr(path, '/');
    char parent[4096];
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    *folder = -1;
    if (strlen(path) < sizeof(out->sun_path)) {
        memcpy(out->sun_path, path, strlen(path));
        return true;
    }
    n = snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
    errno = ENAMETOOLONG;
    if (n < 0 || (size_t)n >= sizeof(parent))
        return false;
    *folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0)
        return false;
    n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d%s",
                 *folder, name);
    errno = ENAMETOOLONG;
    return n > 0 && (size_t)n < sizeof(out->sun_path);
}

static bool is_socket(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* The file is made with the mode of the descriptor. */
static bool bind_there(int fd, const char *path)
{
    struct sockaddr_un a;
    int folder, errnum;
    bool ok = address_of(path, &a, &folder);

    if (ok && is_socket(path))
        unlink(path);
    ok = ok && fchmod(fd, 0600) == 0 &&
         bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
    if (ok && listen(fd, LOCAL_QUEUE) != 0) {
        errnum = errno;
        unlink(path);
        errno = errnum;
        ok = false;
    }
    errnum = errno;
    if (folder >= 0)
        close(folder);
    errno = errnum;
    return ok;
}

enum err local_listen(const char *path, int *out, struct fault *f)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int errnum;

    assert(path[0] == '/');
    assert(out);
    if (fd >= 0 && bind_there(fd, path)) {
        *out = fd;
        return ERR_OK;
    }
    errnum = errno;
    if (fd >= 0)
        close(fd);
    return fault_errno(f, ERR_IO, errnum, "cannot listen at %s", path);
}

/* Who is at the other end of @fd; false: it cannot be told. */
static bool peer_of(int fd, uid_t *out)
{
    struct ucred who;
    socklen_t len = sizeof(who);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0 ||
        len != sizeof(who))
        return false;
    *out = who.uid;
    return true;
}

static bool is_own(int fd)
{
    uid_t peer;

    return peer_of(fd, &peer) && (peer == geteuid() || peer == 0);
}

int local_accept(int fd, unsigned *refused)
{
    int got;

    assert(fd >= 0);
    while ((got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (is_own(got))
            return got;
        ++*refused;
        close(got);
    }
    return -1;
}

/* Whether who listens at the other end of @fd may: root asks others' servers in
 * their folders. */
static bool may_listen(int fd, const char *path)
{
    char parent[4096];
    struct stat st;
    uid_t peer;
    int n = (int)(strrchr(path, '/') - path);

    if (!peer_of(fd, &peer))
        return false;
    if (peer == geteuid() || peer == 0)
        return true;
    n = snprintf(parent, sizeof(parent), "%.*s", n > 0 ? n : 1, path);
    return (size_t)n < sizeof(parent) && stat(parent, &st) == 0 &&
           peer == st.st_uid;
}

int local_connect(const char *path)
{
    struct sockaddr_un a;
    int folder, fd = -1, errnum = 0;

    assert(strchr(path, '/'));
    if (address_of(path, &a, &folder))
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0)
        errnum = errno;
    else if (!may_listen(fd, path))
        errnum = EACCES;
    if (fd >= 0 && errnum) {
        close(fd);
        fd = -1;
    }
    if (folder >= 0)
        close(folder);
    errno = errnum;
    return fd;
}
