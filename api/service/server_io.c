#include "api/service/server_io.h"

#include "api/http/listen_io.h"
#include "api/http/tls_io.h"
#include "api/service/exchange_io.h"
#include "base/clock_io.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The library's, a connection; longer heads it refuses itself, with 414 or 431.
 */
enum { CONNECTION_MEMORY = 32 * 1024 };

/* For streams to be taken to their end when the server stops. */
static const time_ns LAST_WORDS = 1000000000;

/* A comment on a stream that has been silent for so long: so that clients and
 * those between see that it lives, and we that they do. */
static const time_ns HEARTBEAT = 15000000000;

/* The thread goes round at least so often: somebody may watch that it does. */
enum { WAIT_MS_MAX = 5000 };

struct api_server {
    struct view *view;
    struct listen_address self;
    char url[LISTEN_URL_MAX];
    char *token;                  /* owned; NULL: nothing is written */
    char *state;                  /* owned; NULL: nothing is exported */
    struct tls_identity identity; /* what the daemon was given */
    int listen_fd;                /* the daemon's, once there is one */
    int wake_fd;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    atomic_bool stopping;
    _Atomic time_ns turned; /* when the thread last went round */
    /* The server's thread owns these while it runs: */
    struct reaper reaper;
    uint64_t cut;     /* connections */
    bool place_freed; /* since the library last looked for new connections */
    struct exchanges exchanges;
};

static void on_connection(void *cls, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct api_server *s = cls;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        reaper_remove(&s->reaper, *context);
        *context = NULL;
        s->place_freed = true;
        return;
    }
    info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    assert(info);
    *context = reaper_add(&s->reaper, info->connect_fd, clock_monotonic());
}

/* ---- thread -------------------------------------------------------------- */

/* The fd is still the connection's: the library tells us (on_connection) before
 * it closes one, and does so in this thread. */
static void reap(struct api_server *s)
{
    struct reaper_entry *e;

    assert(s->reaper.used <= REAPER_CONNECTIONS_MAX);
    while ((e = reaper_next(&s->reaper, clock_monotonic()))) {
        shutdown(e->fd, SHUT_RDWR);
        if (exchanges_worth_logging(++s->cut))
            log_event(LOG_INFO, "http_connection_cut",
                      "used=%zu count=%" PRIu64, s->reaper.used, s->cut);
    }
}

/* Milliseconds until something has to be done without any event. */
static int wait_ms(struct api_server *s)
{
    MHD_UNSIGNED_LONG_LONG library_ms;
    time_ns due = reaper_deadline(&s->reaper);
    time_ns other_due = exchanges_deadline(&s->exchanges);
    int64_t ms = -1;

    assert(s->daemon);
    /* Where all places were taken, the library listens again only at its next
     * turn, which nothing else might bring about. */
    if (s->place_freed)
        return 0;
    if (other_due < due)
        due = other_due;
    if (due != INT64_MAX) {
        ms = (due - clock_monotonic()) / 1000000 + 1;
        ms = ms < 0 ? 0 : ms;
    }
    if (MHD_get_timeout(s->daemon, &library_ms) == MHD_YES &&
        (ms < 0 || (int64_t)library_ms < ms))
        ms = (int64_t)library_ms;
    return ms < 0 || ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)ms;
}

/* Gives those who follow a run its last events, without waiting for one who
 * does not read. */
static void say_last_words(struct api_server *s, struct pollfd *library)
{
    time_ns until = clock_monotonic() + LAST_WORDS;

    streams_end(&s->exchanges.streams);
    exports_end(&s->exchanges.exports);
    do {
        MHD_run(s->daemon);
        if (s->exchanges.streams.first)
            poll(library, 1, 10);
    } while (s->exchanges.streams.first && clock_monotonic() < until);
    assert(!s->exchanges.waiting);
}

static void *serve(void *arg)
{
    struct api_server *s = arg;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {
        {.fd = info->epoll_fd, .events = POLLIN},
        {.fd = s->wake_fd, .events = POLLIN},
        {.fd = s->exchanges.exports.wake_fd, .events = POLLIN}};
    uint64_t calls;

    pthread_setname_np(pthread_self(), "http");
    while (!atomic_load(&s->stopping)) {
        poll(fds, 3, wait_ms(s));
        s->place_freed = false;
        atomic_store(&s->turned, clock_monotonic());
        /* Empty where nobody has called; that is no error. */
        (void)!read(s->wake_fd, &calls, sizeof(calls));
        exchanges_collect(&s->exchanges);
        streams_serve(&s->exchanges.streams, clock_monotonic());
        exports_serve(&s->exchanges.exports, clock_monotonic());
        MHD_run(s->daemon);
        reap(s);
    }
    exchanges_end(&s->exchanges);
    say_last_words(s, fds);
    return NULL;
}

/* Signals are for the thread that started the program. */
static int start_thread(struct api_server *s)
{
    sigset_t all, old;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

/* ---- start and stop ------------------------------------------------------ */

/* GnuTLS's own choice, without protocols older than TLS 1.2. */
static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

static struct MHD_Daemon *start_daemon(struct api_server *s)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                     (s->self.ipv6 ? MHD_USE_IPv6 : 0) |
                     (s->self.tls ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->identity.cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->identity.key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none = {MHD_OPTION_END, 0, NULL};

    assert(s->listen_fd >= 0);
    return MHD_start_daemon(
        flags, 0, NULL, NULL, exchange_go_on, &s->exchanges,
        MHD_OPTION_LISTEN_SOCKET, s->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)REAPER_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, &s->exchanges,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, &s->exchanges,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_ARRAY,
        s->self.tls ? tls : &none, MHD_OPTION_END);
}

static enum err open_server(struct api_server *s, struct fault *f)
{
    enum err err = listen_open(&s->self, &s->listen_fd, f);

    assert(s->view);
    if (err)
        return err;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return fault_errno(f, ERR_IO, errno, "cannot start the HTTP server");
    s->exchanges.view = s->view;
    s->exchanges.self = &s->self;
    s->exchanges.token = s->token;
    s->exchanges.readers.token = s->token;
    s->exchanges.readers.entrance = &s->exchanges.entrance;
    s->exchanges.reaper = &s->reaper;
    s->exchanges.stop = &s->stopping;
    s->exchanges.wake_fd = s->exchanges.streams.wake_fd = s->wake_fd;
    if (exports_init(&s->exchanges.exports, s->state) != ERR_OK)
        return fault_errno(f, ERR_IO, errno, "cannot start the HTTP server");
    s->daemon = start_daemon(s);
    if (!s->daemon)
        return fault_set(f, ERR_IO,
                         "cannot start the HTTP server on %s:%u (out of "
                         "memory or file descriptors?)",
                         s->self.host, (unsigned)s->self.port);
    s->listen_fd = -1;
    if (s->exchanges.entered)
        exchanges_open_entrance(&s->exchanges);
    return ERR_OK;
}

/* No log may write to a descriptor that will be another one's. */
static void leave_logs(struct api_server *s)
{
    const struct view_run *run;

    view_lock(s->view);
    for (size_t i = 0; (run = view_run_at(s->view, i)); i++)
        if (run->events)
            event_log_wake(run->events, UINT64_MAX, -1);
    view_unlock(s->view);
}

static void close_server(struct api_server *s)
{
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    streams_deinit(&s->exchanges.streams);
    exports_deinit(&s->exchanges.exports);
    leave_logs(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    replies_deinit(&s->exchanges.replies);
    tls_identity_deinit(&s->identity);
    mem_free(s->token);
    mem_free(s->state);
    mem_free(s);
}

enum err api_server_start(const struct api_server_options *options,
                          struct api_server **out, struct fault *f)
{
    static const struct reaper_limits limits = REAPER_LIMITS;
    struct tls_identity identity = {0};
    struct listen_address self;
    struct api_server *s;
    enum err err = listen_parse(options->listen, &self, f);
    int failed;

    assert(out);
    assert(options->view);
    if (!err)
        err = tls_identity_load(options->tls_cert, options->tls_key, &identity,
                                &self, f);
    if (!err)
        err = listen_check(&self, options->token != NULL, self.tls, f);
    s = err ? NULL : mem_calloc(1, sizeof(*s));
    if (!s) {
        tls_identity_deinit(&identity);
        return err ? err : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    s->view = options->view;
    s->self = self;
    s->identity = identity;
    s->exchanges.readers.rule = options->read;
    s->exchanges.entered = options->entered;
    s->exchanges.entered_ctx = options->entered_ctx;
    s->exchanges.streams.heartbeat =
        options->heartbeat ? options->heartbeat : HEARTBEAT;
    s->listen_fd = s->wake_fd = s->exchanges.exports.wake_fd = -1;
    if ((options->token && !(s->token = mem_strdup(options->token))) ||
        (options->state && !(s->state = mem_strdup(options->state)))) {
        tls_identity_deinit(&s->identity);
        mem_free(s->token);
        mem_free(s);
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    reaper_init(&s->reaper, options->limits ? options->limits : &limits);
    err = open_server(s, f);
    if (err)
        goto fail;
    atomic_store(&s->turned, clock_monotonic());
    failed = start_thread(s);
    if (failed) {
        err = fault_errno(f, ERR_IO, failed, "cannot start the HTTP thread");
        goto fail;
    }
    listen_url(&s->self, s->url);
    log_event(LOG_INFO, "http_listening", "url=%s", s->url);
    *out = s;
    return ERR_OK;

fail:
    close_server(s);
    return err;
}

const char *api_server_url(const struct api_server *s)
{
    return s->url;
}

time_ns api_server_turned(const struct api_server *s)
{
    return atomic_load(&s->turned);
}

void api_server_stop(struct api_server *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    atomic_store(&s->stopping, true);
    /* Cannot fail: the counter is far from full. */
    if (write(s->wake_fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "http_wake_failed", "errno=%d", errno);
    pthread_join(s->thread, NULL);
    close_server(s);
}
