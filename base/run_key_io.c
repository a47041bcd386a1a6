#include "base/run_key_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_BYTES = RUN_KEY_LEN / 2,
    HANDSHAKE_MS = 10000,
    /* A packet that is dropped, by a gate or since too many ask at once, is
     * sent again after 1 s, then ever later; a new try sends it at once. */
    CONNECT_MS = 2000,
    BACKLOG = 1024 /* connections that wait to be accepted */
};

enum err run_key_make(char out[RUN_KEY_LEN + 1], struct fault *f)
{
    unsigned char bytes[KEY_BYTES];

    assert(out);
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return fault_errno(f, ERR_IO, errno, "random bytes for a key");
    for (size_t i = 0; i < KEY_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return ERR_OK;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* @text is all digits; the pair that follows from it. */
static enum err read_key(const char *text, const char *where,
                         struct run_key *out, struct fault *f)
{
    uint8_t bytes[KEY_BYTES];
    struct run_key key = {.given = true};
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (digit(text[i]) < 0)
            n = 0;
    if (n != RUN_KEY_LEN)
        return fault_set(f, ERR_INVAL,
                         "%.200s: expected a run's key, %d hexadecimal digits "
                         "(openssl rand -hex 32)",
                         where, RUN_KEY_LEN);
    for (size_t i = 0; i < KEY_BYTES; i++)
        bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    if (!zmq_has("curve") ||
        !zmq_z85_encode(key.secret_half, bytes, sizeof(bytes)) ||
        zmq_curve_public(key.public_half, key.secret_half) != 0)
        return fault_set(f, ERR_UNSUPPORTED,
                         "a run's key needs a libzmq with CURVE, which this "
                         "one is without");
    *out = key;
    return ERR_OK;
}

/* The first line of a descriptor. */
static enum err read_line(int fd, const char *name, char out[RUN_KEY_LEN + 2],
                          struct fault *f)
{
    size_t n = 0;

    while (n < RUN_KEY_LEN + 1) {
        ssize_t got = read(fd, out + n, 1);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_errno(f, ERR_IO, errno, "read %s", name);
        if (got == 0 || out[n] == '\n')
            break;
        n++;
    }
    out[n] = '\0';
    return ERR_OK;
}

static enum err read_file(const char *path, char out[RUN_KEY_LEN + 2],
                          struct fault *f)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum err err;

    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "read the run's key %s", path);
    if (fstat(fd, &st) != 0)
        err = fault_errno(f, ERR_IO, errno, "read the run's key %s", path);
    else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
             (st.st_mode & 077))
        err = fault_set(f, ERR_INVAL,
                        "the run's key %s must be a file of yours that nobody "
                        "else can read: chmod 600 it",
                        path);
    else
        err = read_line(fd, path, out, f);
    close(fd);
    return err;
}

enum err run_key_find(struct run_key *out, struct fault *f)
{
    const char *text = getenv("MLTUNE_KEY"), *path = getenv("MLTUNE_KEY_FILE");
    char line[RUN_KEY_LEN + 2] = "";
    enum err err;

    assert(out);
    *out = (struct run_key){.given = false};
    if (text && *text)
        return read_key(text, "MLTUNE_KEY", out, f);
    if (!path || !*path)
        return ERR_OK;
    if (strcmp(path, "-") != 0) {
        err = read_file(path, line, f);
        return err ? err : read_key(line, path, out, f);
    }
    err = read_line(STDIN_FILENO, "stdin", line, f);
    if (!err)
        err = read_key(line, "stdin", out, f);
    /* It comes once. */
    if (!err && setenv("MLTUNE_KEY", line, 1) != 0)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    return err;
}

enum err run_key_read(const char *text, struct run_key *out, struct fault *f)
{
    assert(text && out);
    return read_key(text, "the run's key", out, f);
}

static bool is_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

bool run_key_is_outside(const char *endpoint)
{
    const char *host = endpoint + 6;

    assert(endpoint);
    if (!is_tcp(endpoint))
        return false;
    if (strncmp(host, "127.", 4) == 0)
        return host[strspn(host, "0123456789.")] != ':';
    return strncmp(host, "localhost:", 10) != 0 &&
           strncmp(host, "[::1]:", 6) != 0;
}

enum err run_key_apply(const struct run_key *key, void *socket,
                       const char *endpoint, bool listens, struct fault *f)
{
    int yes = 1, handshake_ms = HANDSHAKE_MS, failed = 0;
    int connect_ms = CONNECT_MS, backlog = BACKLOG;

    assert(socket && endpoint);
    if (!key->given && run_key_is_outside(endpoint))
        return fault_set(f, ERR_UNSUPPORTED,
                         "%.200s: other machines reach it, so the processes of "
                         "the run need a key: give all the same MLTUNE_KEY, "
                         "or MLTUNE_KEY_FILE (openssl rand -hex 32 >FILE; "
                         "chmod 600 FILE)",
                         endpoint);
    if (!is_tcp(endpoint))
        return ERR_OK;
    failed |= zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &handshake_ms,
                             sizeof(handshake_ms));
    failed |=
        listens ? zmq_setsockopt(socket, ZMQ_BACKLOG, &backlog, sizeof(backlog))
                : zmq_setsockopt(socket, ZMQ_CONNECT_TIMEOUT, &connect_ms,
                                 sizeof(connect_ms));
    if (!key->given)
        goto done;
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, key->secret_half,
                             sizeof(key->secret_half));
    if (listens) {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof(yes));
    } else {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, key->public_half,
                                 sizeof(key->public_half));
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, key->public_half,
                                 sizeof(key->public_half));
    }
done:
    return failed ? fault_errno(f, ERR_IO, errno, "the key of %.200s", endpoint)
                  : ERR_OK;
}
