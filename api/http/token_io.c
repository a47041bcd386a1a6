#include "api/http/token_io.h"

#include "base/file_io.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_BYTES = 32 };

static enum err check(const char *token, const char *where, struct fault *f)
{
    size_t n = strlen(token);

    for (size_t i = 0; i < n; i++)
        if (token[i] <= 0x20 || token[i] >= 0x7f)
            return fault_set(f, ERR_INVAL,
                             "%s: a token has printable characters without "
                             "spaces only",
                             where);
    if (n < TOKEN_LEN_MIN || n > TOKEN_LEN_MAX)
        return fault_set(f, ERR_INVAL,
                         "%s: a token has %d to %d characters, this one has "
                         "%zu",
                         where, TOKEN_LEN_MIN, TOKEN_LEN_MAX, n);
    return ERR_OK;
}

/* The file's text; one that others may read is no secret. */
static enum err read_file(int fd, const char *path, char *out, struct fault *f)
{
    char text[TOKEN_LEN_MAX + 2];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) != 0)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return fault_set(f, ERR_INVAL,
                         "%s must be a file of yours that nobody else can "
                         "read: chmod 600 it, or delete it to get another "
                         "token",
                         path);
    n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) <= TOKEN_LEN_MAX)
        memcpy(out, text, strlen(text) + 1);
    return check(text, path, f);
}

static enum err path_of(const char *state, char *out, size_t size,
                        struct fault *f)
{
    assert(state[0]);
    if ((size_t)snprintf(out, size, "%s/token", state) >= size)
        return fault_set(f, ERR_IO, "the name of the state folder is too long");
    return ERR_OK;
}

enum err token_read(const char *state, char out[TOKEN_LEN_MAX + 1],
                    struct fault *f)
{
    const char *given = getenv("MLTUNE_TOKEN");
    char path[PATH_MAX];
    enum err err;
    int fd;

    assert(out);
    assert(state);
    if (given && *given) {
        err = check(given, "MLTUNE_TOKEN", f);
        if (!err)
            memcpy(out, given, strlen(given) + 1);
        return err;
    }
    err = path_of(state, path, sizeof(path), f);
    if (err)
        return err;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno,
                           "read %s", path);
    err = read_file(fd, path, out, f);
    close(fd);
    return err;
}

static enum err make_token(char out[2 * TOKEN_BYTES + 2], struct fault *f)
{
    unsigned char bytes[TOKEN_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return fault_errno(f, ERR_IO, errno, "random bytes for a token");
    for (size_t i = 0; i < TOKEN_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    memcpy(out + 2 * TOKEN_BYTES, "\n", 2);
    return ERR_OK;
}

enum err token_make(const char *state, char out[TOKEN_LEN_MAX + 1],
                    struct fault *f)
{
    enum err err = token_read(state, out, f);
    char path[PATH_MAX], text[2 * TOKEN_BYTES + 2];

    assert(state);
    unsetenv("MLTUNE_TOKEN");
    if (path_of(state, path, sizeof(path), NULL) == ERR_OK)
        file_create_sweep(path);
    if (err != ERR_NOENT)
        return err;
    err = path_of(state, path, sizeof(path), f);
    if (!err)
        err = make_token(text, f);
    if (!err)
        err = file_create(path, text, strlen(text), f);
    if (err == ERR_EXIST)
        err = ERR_OK; /* another run began at the same time: its token counts */
    return err ? err : token_read(state, out, f);
}
