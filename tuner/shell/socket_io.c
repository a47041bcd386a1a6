#include "tuner/shell/socket_io.h"

#include "base/deadlines.h"
#include "base/host/context_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/run_key_io.h"
#include "base/subprocess_io.h"

#include <assert.h>
#include <string.h>

#include <zmq.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_NAME "tuner"
#define ELSEWHERE "/tmp"
#define FOLDER_NAME "mltune-%ld-%d" /* process, number */
#define OWN_NAME "ipc.tmp"          /* in the run's folder, which sweeps it */

/* Longest path that fits into the system's address of a Unix socket. */
enum { PATH_MAX_UNIX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

/* Names for a folder that are tried: processes before this one that had its
 * number may have left theirs behind. */
enum { FOLDER_TRIES_MAX = 1000 };

enum {
    BEAT_MS = 2000, /* between two signs of life of a connection over TCP */
    SILENT_MS = DEADLINE_TUNER_BEAT_MS
};

enum { UNBORN_S = 60 }; /* from a folder's making to its socket's, at most */

static void set_option(void *router, int option, int value)
{
    int failed = zmq_setsockopt(router, option, &value, sizeof(value));

    assert(!failed); /* only wrong arguments can */
    (void)failed;
}

/* Unknown receivers are errors, not silence; a message longer than any that the
 * protocol has closes the connection before it is read. Whoever comes under a
 * name that is taken has it: one whose connection broke may be back before its
 * last words on the old one have been read, and would never be heard.
 */
static void set_options(void *router)
{
    int64_t size_max = PROTO_BYTES_MAX;
    int failed =
        zmq_setsockopt(router, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max));

    assert(!failed);
    (void)failed;
    set_option(router, ZMQ_LINGER, 0);
    set_option(router, ZMQ_ROUTER_MANDATORY, 1);
    set_option(router, ZMQ_ROUTER_HANDOVER, 1);
    set_option(router, ZMQ_SNDHWM, SOCKET_QUEUE_MAX);
    set_option(router, ZMQ_RCVHWM, SOCKET_QUEUE_MAX);
}

/* Whether @folder holds a socket of ours that nobody answers any more. Its
 * owner may be a process of another container, whose numbers are not ours; and
 * a user may have folders of such names. */
static bool is_abandoned(const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd, n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/" SOCKET_NAME,
                         folder);
    struct stat st;
    bool refused;

    if (n < 0 || (size_t)n >= sizeof(at.sun_path) ||
        lstat(at.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode) ||
        st.st_uid != geteuid())
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    refused = connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 &&
              errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static bool is_socket_name(const char *name)
{
    return strcmp(name, SOCKET_NAME) == 0;
}

/* Whether all that is in the folder @path are sockets. */
static bool holds_sockets(const char *path)
{
    DIR *d = opendir(path);
    bool only = d != NULL;
    struct dirent *e;
    struct stat st;

    while (only && (e = readdir(d)))
        only = e->d_name[0] == '.' ||
               (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISSOCK(st.st_mode));
    if (d)
        closedir(d);
    return only;
}

/* Where its nodes met (session.c, make_meet). */
static void clear_meets(const char *folder)
{
    DIR *d = opendir(folder);
    char path[FILE_PATH_MAX];
    struct dirent *e;
    unsigned number;
    int end;

    while (d && (e = readdir(d))) {
        end = 0;
        if (sscanf(e->d_name, "m%u%n", &number, &end) == 1 && !e->d_name[end] &&
            file_join(path, folder, e->d_name, NULL) == ERR_OK &&
            holds_sockets(path))
            folder_remove(path, NULL);
    }
    if (d)
        closedir(d);
}

/* A folder that its maker, of whatever container, had no time to bind a socket
 * in: it is still empty after a minute. */
static bool is_unborn(const char *path, const struct stat *st)
{
    return time(NULL) - st->st_mtime > UNBORN_S && folder_is_empty(path);
}

static void sweep_one(const char *path, const struct stat *st)
{
    if (is_abandoned(path)) {
        clear_meets(path);
        folder_clear(path, is_socket_name);
    } else if (is_unborn(path, st)) {
        rmdir(path);
    }
}

/* Folders in @dir that tuners of ours have left there who were killed: only the
 * sockets are taken, and the folder where it held nothing else. */
static void sweep(const char *dir)
{
    DIR *d = opendir(dir);
    char path[FILE_PATH_MAX];
    struct dirent *e;
    struct stat st;
    long pid;
    int i, end;

    while (d && (e = readdir(d))) {
        end = 0;
        if (sscanf(e->d_name, FOLDER_NAME "%n", &pid, &i, &end) == 2 &&
            !e->d_name[end] && pid > 0 && pid <= INT_MAX &&
            !subprocess_runs((pid_t)pid) &&
            file_join(path, dir, e->d_name, NULL) == ERR_OK &&
            lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
            st.st_uid == geteuid())
            sweep_one(path, &st);
    }
    if (d)
        closedir(d);
}

void socket_sweep(void)
{
    const char *own = getenv("XDG_RUNTIME_DIR");

    if (own && *own)
        sweep(own);
    sweep(ELSEWHERE);
}

/* A new folder for the socket, with a path that is short enough: in the run's
 * own folder under a name that is swept when the tuner is killed, elsewhere
 * under one that nobody else has. */
static bool make_folder(struct tuner_socket *s, const char *dir, bool own)
{
    for (int i = 0; i < (own ? 1 : FOLDER_TRIES_MAX); i++) {
        char name[32] = OWN_NAME;
        enum err err = ERR_LIMIT;
        int n;

        if (!own)
            snprintf(name, sizeof(name), FOLDER_NAME, (long)getpid(), i);
        n = snprintf(s->folder, sizeof(s->folder), "%s/%s", dir, name);
        if (n > 0 && (size_t)n + sizeof("/" SOCKET_NAME) - 1 <= PATH_MAX_UNIX)
            err = folder_new(s->folder, FOLDER_PRIVATE, NULL);
        if (!err)
            return true;
        if (err != ERR_EXIST)
            break;
    }
    s->folder[0] = '\0';
    return false;
}

static void remove_folder(struct tuner_socket *s)
{
    char path[FILE_PATH_MAX];

    if (!s->folder[0])
        return;
    /* To read a folder takes memory and a descriptor, which may be what was
     * short; what is mostly all of it can be named. */
    if (file_join(path, s->folder, SOCKET_NAME, NULL) == ERR_OK)
        file_remove(path);
    if (rmdir(s->folder) != 0)
        folder_remove(s->folder, NULL);
    s->folder[0] = '\0';
}

static bool listen_in(struct tuner_socket *s, const char *dir, bool own)
{
    int saved;

    if (!dir || !*dir)
        return false;
    if (!own)
        sweep(dir);
    if (!make_folder(s, dir, own))
        return false;
    snprintf(s->endpoint, sizeof(s->endpoint), "ipc://%.*s/" SOCKET_NAME,
             PATH_MAX_UNIX, s->folder);
    if (zmq_bind(s->router, s->endpoint) == 0)
        return true;
    saved = errno;
    remove_folder(s);
    errno = saved;
    return false;
}

static enum err make_router(struct tuner_socket *s, struct fault *f)
{
    enum err err;

    memset(s, 0, sizeof(*s));
    s->context = context_new();
    s->router = s->context ? zmq_socket(s->context, ZMQ_ROUTER) : NULL;
    if (s->router) {
        set_options(s->router);
        return ERR_OK;
    }
    err = fault_errno(f, context_error(), errno, "make the control socket");
    socket_close(s);
    return err;
}

/* The folder is on a file system that others read: a name that was there before
 * may be remembered by them, so what is met in has one of its own. */
static enum err make_shared(struct tuner_socket *s, const char *dir,
                            struct fault *f)
{
    enum err err = file_join(s->folder, dir, OWN_NAME, f);

    if (err)
        return err;
    err = folder_new(s->folder, FOLDER_PRIVATE, f);
    if (err == ERR_EXIST) {
        folder_remove(s->folder, NULL);
        err = folder_new(s->folder, FOLDER_PRIVATE, f);
    }
    if (err)
        s->folder[0] = '\0';
    return err;
}

static enum err bind_outside(struct tuner_socket *s, const char *address,
                             const char *advice, const struct run_key *key,
                             uint32_t nodes, struct fault *f)
{
    size_t size = sizeof(s->endpoint);
    enum err err;

    snprintf(s->endpoint, sizeof(s->endpoint), "tcp://%s", address);
    err = run_key_apply(key, s->router, s->endpoint, true, f);
    set_option(s->router, ZMQ_HEARTBEAT_IVL, BEAT_MS);
    set_option(s->router, ZMQ_HEARTBEAT_TIMEOUT, SILENT_MS);
    if (!err)
        err = gate_open(s->context, s->router, &s->gate, f);
    if (err)
        return err;
    if (zmq_bind(s->router, s->endpoint) != 0)
        return fault_set(f, ERR_IO, "cannot listen for nodes at %s: %s; %s",
                         address, zmq_strerror(errno), advice);
    if (zmq_getsockopt(s->router, ZMQ_LAST_ENDPOINT, s->endpoint, &size) != 0)
        return fault_errno(f, ERR_IO, errno, "listen for nodes");
    return gate_keep(s->gate, nodes, f);
}

enum err socket_open_outside(struct tuner_socket *s, const char *dir,
                             const char *address, const char *advice,
                             const char *key, uint32_t nodes, struct fault *f)
{
    struct run_key known;
    enum err err;

    assert(dir && address && advice && key && nodes > 0);
    err = make_router(s, f);
    if (err)
        return err;
    err = run_key_read(key, &known, f);
    if (!err)
        err = make_shared(s, dir, f);
    if (!err)
        err = bind_outside(s, address, advice, &known, nodes, f);
    if (err)
        socket_close(s);
    return err;
}

enum err socket_open(struct tuner_socket *s, const char *dir, struct fault *f)
{
    enum err err = make_router(s, f);

    assert(dir);
    if (err)
        return err;
    if (listen_in(s, dir, true) ||
        listen_in(s, getenv("XDG_RUNTIME_DIR"), false) ||
        listen_in(s, ELSEWHERE, false))
        return ERR_OK;
    err = fault_set(f, ERR_IO,
                    "control socket: neither %.300s nor /tmp can hold one: %s",
                    dir, zmq_strerror(errno));
    socket_close(s);
    return err;
}

void socket_close(struct tuner_socket *s)
{
    gate_close(s->gate);
    s->gate = NULL;
    if (s->router)
        zmq_close(s->router);
    if (s->context)
        while (zmq_ctx_term(s->context) != 0 && errno == EINTR)
            continue;
    remove_folder(s);
    s->router = s->context = NULL;
}

/* Drops the other parts of a message that is not what it should be. */
static void drop_rest(void *router)
{
    int more = 0;
    size_t size = sizeof(more);

    while (zmq_getsockopt(router, ZMQ_RCVMORE, &more, &size) == 0 && more)
        zmq_recv(router, NULL, 0, ZMQ_DONTWAIT);
}

static enum err receive_text(struct tuner_socket *s, char **text, size_t *len)
{
    zmq_msg_t part;
    enum err err = ERR_OK;
    char *copy = NULL;

    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, s->router, ZMQ_DONTWAIT) < 0)
        err = ERR_IO;
    else if (zmq_msg_more(&part))
        err = ERR_PROTO;
    if (!err && s->gate)
        gate_heard(s->gate, &part);
    if (!err) {
        copy = mem_alloc(zmq_msg_size(&part) + 1);
        err = copy ? ERR_OK : ERR_NOMEM;
    }
    if (!err) {
        *len = zmq_msg_size(&part);
        memcpy(copy, zmq_msg_data(&part), *len);
        copy[*len] = '\0';
        *text = copy;
    }
    zmq_msg_close(&part);
    return err;
}

enum err socket_receive(struct tuner_socket *s, struct socket_peer *from,
                        char **text, size_t *len)
{
    int more = 0,
        n = zmq_recv(s->router, from->id, sizeof(from->id), ZMQ_DONTWAIT);
    size_t size = sizeof(more);
    enum err err;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? ERR_AGAIN : ERR_IO;
    assert(n <= SOCKET_PEER_MAX);
    from->len = (size_t)n;
    if (zmq_getsockopt(s->router, ZMQ_RCVMORE, &more, &size) != 0 || !more)
        return ERR_PROTO;
    err = receive_text(s, text, len);
    if (err)
        drop_rest(s->router);
    return err;
}

/* Its address, and what is sent to it, which is taken. */
static enum err send_parts(struct tuner_socket *s, const struct socket_peer *to,
                           zmq_msg_t *part)
{
    int n;

    do
        n = zmq_send(s->router, to->id, to->len, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EHOSTUNREACH)
        return ERR_NODE;
    if (n < 0)
        return errno == EAGAIN ? ERR_LIMIT : ERR_IO;
    do
        n = zmq_msg_send(part, s->router, ZMQ_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? ERR_IO : ERR_OK;
}

/* The bytes have their memory before the address has left: after an address
 * alone the next message's address would be taken for the bytes. */
enum err socket_send(struct tuner_socket *s, const struct socket_peer *to,
                     const char *text, size_t len)
{
    zmq_msg_t part;
    enum err err;

    assert(text);
    assert(to->len > 0);
    if (zmq_msg_init_size(&part, len) != 0)
        return ERR_NOMEM;
    memcpy(zmq_msg_data(&part), text, len);
    err = send_parts(s, to, &part);
    zmq_msg_close(&part);
    return err;
}

bool socket_peer_same(const struct socket_peer *a, const struct socket_peer *b)
{
    return a->len == b->len && memcmp(a->id, b->id, a->len) == 0;
}
