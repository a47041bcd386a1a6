#include "api/service/server_io.h"

#include "api/http/listen_io.h"
#include "api/http/peer_io.h"
#include "api/http/tls_io.h"
#include "api/service/exchange_io.h"
#include "base/clock_io.h"
#include "base/host/local_io.h"
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
#include <sys/un.h>
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
enum { WAIT_MS_MAX = 5000, REST_MS = 10 };

/* Where no descriptor is left for who waits at the Unix socket: until the next
 * try. */
static const time_ns LOCAL_REST = 100000000;

/* How long a connection at most outlives the token that it was opened with: a
 * stream would never ask again. */
static const time_ns REVOKED_LOOK = 1000000000;

/* A way in: by TCP, or the Unix socket, with places of its own, so that
 * strangers who take all the others keep nobody out there. */
struct door {
    struct api_server *server;
    struct MHD_Daemon *daemon; /* NULL: closed */
    struct reaper reaper;
    bool local;       /* only this user and root come in */
    bool place_freed; /* since the library last looked for new connections */
};

struct api_server {
    struct view *view;
    struct listen_address self;
    char url[LISTEN_URL_MAX];
    struct listen_address here; /* as who comes by the Unix socket calls it */
    char *local_path;           /* owned; NULL: there is none */
    char local_fault[256];      /* why not, where there should be one */
    char *token;                /* owned; NULL: nothing is written */
    char *state;                /* owned; NULL: nothing is exported */
    bool audits;
    struct tls_identity identity; /* what the daemon was given */
    int listen_fd;                /* the daemon's, once there is one */
    int local_fd;
    int wake_fd;
    pthread_t thread;
    atomic_bool stopping;
    _Atomic time_ns turned; /* when the thread last went round */
    _Atomic time_ns used;   /* as exchanges.used, or a stream is open */
    /* The server's thread owns these while it runs: */
    struct door tcp, local;
    time_ns local_rests; /* until then; 0: it does not */
    time_ns rests_since; /* TCP; 0: it does not */
    time_ns revoked_due; /* tokens of open connections are looked at again */
    time_ns left_due;    /* as clients that have left */
    uint64_t cut;        /* connections */
    unsigned refused;    /* of other users, at the Unix socket */
    struct exchanges exchanges;
    struct waker *waker; /* NULL: no run rests */
};

/* Over TLS a connection is paid for when it comes, before its handshake: the
 * library lets a few in at a time, and would let in all that there is room for
 * before the first of them ended. */
static void pay_at_once(struct door *d, struct reaper_entry *e)
{
    struct exchanges *x = &d->server->exchanges;

    if (d->local || !d->server->self.tls)
        return;
    toll_take(&x->toll, x->toll_times, clock_monotonic());
    if (e)
        e->paid = true;
}

/* A connection of a stranger is over. The library reads a head in pieces, each
 * time from its beginning: a KiB costs it as much as a connection. */
static void pay(struct api_server *s, const struct reaper_entry *e)
{
    uint64_t kib = peer_sent_kib(e->fd);
    unsigned times = e->paid ? 0 : s->exchanges.toll_times;

    if (kib > CONNECTION_MEMORY / 1024)
        kib = CONNECTION_MEMORY / 1024;
    times += (unsigned)kib;
    if (times > 0)
        toll_take(&s->exchanges.toll, times, clock_monotonic());
}

static void cut(struct door *d, const struct reaper_entry *e)
{
    struct api_server *s = d->server;

    shutdown(e->fd, SHUT_RDWR);
    if (exchanges_worth_logging(++s->cut))
        log_event(LOG_INFO, "http_connection_cut", "used=%zu count=%" PRIu64,
                  d->reaper.used, s->cut);
}

/* For @e, which has come: strangers may have a share of the places. */
static void make_way(struct door *d, struct reaper_entry *e)
{
    const struct reaper_entry *gone;

    e->client = peer_address(e->fd);
    while ((gone = reaper_surplus(&d->reaper, e)))
        cut(d, gone);
}

static void on_connection(void *cls, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct door *d = cls;
    const union MHD_ConnectionInfo *info;
    struct reaper_entry *e;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        e = *context;
        if (e && !e->known && !d->local)
            pay(d->server, e);
        reaper_remove(&d->reaper, *context);
        *context = NULL;
        d->place_freed = true;
        return;
    }
    info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    assert(info);
    e = reaper_add(&d->reaper, info->connect_fd, clock_monotonic());
    if (e)
        e->local = d->local;
    pay_at_once(d, e);
    *context = e;
    if (e && !d->local)
        make_way(d, e);
}

/* ---- thread -------------------------------------------------------------- */

/* Whose deadline was over at @now, when the library began to look at what had
 * come: it has served all who had asked by then. A thread that got no processor
 * for a second cuts nobody for that.
 *
 * The fd is still the connection's: the library tells us (on_connection) before
 * it closes one, and does so in this thread. */
static void reap(struct door *d, time_ns now)
{
    const struct reaper_entry *e;

    assert(d->reaper.used <= REAPER_CONNECTIONS_MAX);
    while ((e = reaper_next(&d->reaper, now)))
        cut(d, e);
}

/* Its client sends no more, and has sent nothing that is not read. */
static bool has_left(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* At most once a second; the library notices most of them itself. */
static void cut_left(struct api_server *s)
{
    time_ns now = clock_monotonic();
    const struct reaper_entry *e;

    if (now < s->left_due)
        return;
    s->left_due = now + REAPER_LEFT;
    while ((e = reaper_left(&s->tcp.reaper, now, has_left)))
        cut(&s->tcp, e);
    while ((e = reaper_left(&s->local.reaper, now, has_left)))
        cut(&s->local, e);
}

static bool token_lives(const void *tokens, uint64_t number)
{
    return tokens_has(tokens, number);
}

/* Connections whose token was revoked meanwhile, streams above all. By the Unix
 * socket nobody has one. */
static void cut_revoked(struct api_server *s)
{
    time_ns now = clock_monotonic();
    const struct named_tokens *tokens;
    struct reaper_entry *e;

    if (now < s->revoked_due || !reaper_has_tokens(&s->tcp.reaper))
        return;
    s->revoked_due = now + REVOKED_LOOK;
    tokens = tokens_watch_look(&s->exchanges.tokens);
    while ((e = reaper_revoked(&s->tcp.reaper, token_lives, tokens)))
        shutdown(e->fd, SHUT_RDWR);
}

/* Further ones wait in the socket's queue. */
static bool local_is_full(const struct api_server *s)
{
    return s->local.reaper.used >= s->local.reaper.places;
}

static bool local_rests(struct api_server *s)
{
    if (s->local_rests && s->local_rests <= clock_monotonic())
        s->local_rests = 0;
    return s->local_rests != 0;
}

/* Those who wait at the Unix socket are the library's from here on, which
 * closes what it has no room for. */
static void let_in(struct api_server *s)
{
    const struct sockaddr_un nameless = {.sun_family = AF_UNIX};
    unsigned refused = s->refused;
    int fd = 0;

    if (!s->local.daemon || local_rests(s))
        return;
    while (!local_is_full(s) &&
           (fd = local_accept(s->local_fd, &s->refused)) >= 0)
        if (MHD_add_connection(s->local.daemon, fd,
                               (const struct sockaddr *)&nameless,
                               sizeof(nameless)) != MHD_YES)
            break;
    /* Who waits would make the poll return at once, for nothing. */
    if (fd < 0 && errno != EAGAIN)
        s->local_rests = clock_monotonic() + LOCAL_REST;
    if (s->refused > refused && exchanges_worth_logging(s->refused))
        log_event(LOG_WARN, "http_other_user", "count=%u", s->refused);
}

/* Strangers cost too much just now: nobody is served by TCP for a moment, which
 * counts for nobody's deadline. */
static time_ns tcp_rest(struct api_server *s)
{
    return toll_rest(&s->exchanges.toll, clock_monotonic());
}

static void serve_door(struct door *d)
{
    struct api_server *s = d->server;
    time_ns began = clock_monotonic();

    if (!d->local && !atomic_load(&s->stopping) && tcp_rest(s) > 0)
        return;
    if (!d->local && s->rests_since) {
        reaper_rested(&d->reaper, clock_monotonic() - s->rests_since);
        s->rests_since = 0;
    }
    if (d->daemon) {
        d->place_freed = false;
        MHD_run(d->daemon);
    }
    reap(d, began);
    if (!d->local && tcp_rest(s) > 0)
        s->rests_since = clock_monotonic();
}

static time_ns earlier(time_ns a, time_ns b)
{
    return a < b ? a : b;
}

/* Milliseconds that the library waits at most, or @ms where that is less. */
static int64_t library_ms(const struct door *d, int64_t ms)
{
    MHD_UNSIGNED_LONG_LONG its;

    return d->daemon && MHD_get_timeout(d->daemon, &its) == MHD_YES &&
                   (int64_t)its < ms
               ? (int64_t)its
               : ms;
}

/* Milliseconds until something has to be done without any event. */
static int wait_ms(struct api_server *s)
{
    time_ns due = exchanges_deadline(&s->exchanges), rest = tcp_rest(s);
    int64_t ms = -1, library;

    assert(s->tcp.daemon);
    /* Where all places were taken, the library listens again only at its next
     * turn, which nothing else might bring about. */
    if ((s->tcp.place_freed && !rest) || s->local.place_freed)
        return 0;
    if (rest)
        due = earlier(due, clock_monotonic() + rest);
    else
        due = earlier(due, reaper_deadline(&s->tcp.reaper));
    due = earlier(due, reaper_deadline(&s->local.reaper));
    if (reaper_has_tokens(&s->tcp.reaper))
        due = earlier(due, s->revoked_due);
    if (s->local_rests)
        due = earlier(due, s->local_rests);
    if (due != INT64_MAX) {
        ms = (due - clock_monotonic()) / 1000000 + 1;
        ms = ms < 0 ? 0 : ms;
    }
    /* What is due by TCP stays due meanwhile: no busy loop. */
    if (rest && ms < REST_MS)
        ms = REST_MS;
    library = library_ms(&s->local, INT64_MAX);
    if (!rest)
        library = library_ms(&s->tcp, library);
    if (library != INT64_MAX && (ms < 0 || library < ms))
        ms = library;
    return ms < 0 || ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)ms;
}

/* Gives those who follow a run its last events, without waiting for one who
 * does not read. */
static void say_last_words(struct api_server *s, struct pollfd libraries[2])
{
    time_ns until = clock_monotonic() + LAST_WORDS;

    streams_end(&s->exchanges.streams);
    exports_end(&s->exchanges.exports);
    do {
        serve_door(&s->tcp);
        serve_door(&s->local);
        if (s->exchanges.streams.first)
            poll(libraries, 2, 10);
    } while (s->exchanges.streams.first && clock_monotonic() < until);
    assert(!s->exchanges.waiting);
}

static int epoll_of(const struct door *d)
{
    return d->daemon ? MHD_get_daemon_info(d->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                           ->epoll_fd
                     : -1;
}

/* Whoever has a page open follows it, or asks every few seconds. */
static void note_use(struct api_server *s)
{
    if (s->exchanges.streams.open > 0)
        s->exchanges.used = clock_monotonic();
    atomic_store(&s->used, s->exchanges.used);
}

static void *serve(void *arg)
{
    struct api_server *s = arg;
    struct pollfd fds[] = {
        {.fd = epoll_of(&s->tcp), .events = POLLIN},
        {.fd = epoll_of(&s->local), .events = POLLIN},
        {.fd = s->wake_fd, .events = POLLIN},
        {.fd = s->exchanges.exports.wake_fd, .events = POLLIN},
        {.events = POLLIN}};
    const int tcp = fds[0].fd;
    uint64_t calls;

    pthread_setname_np(pthread_self(), "http");
    while (!atomic_load(&s->stopping)) {
        fds[0].fd = tcp_rest(s) ? -1 : tcp;
        fds[4].fd = local_is_full(s) || local_rests(s) ? -1 : s->local_fd;
        poll(fds, 5, wait_ms(s));
        atomic_store(&s->turned, clock_monotonic());
        /* Empty where nobody has called; that is no error. */
        (void)!read(s->wake_fd, &calls, sizeof(calls));
        exchanges_collect(&s->exchanges);
        streams_serve(&s->exchanges.streams, clock_monotonic());
        exports_serve(&s->exchanges.exports, clock_monotonic());
        let_in(s);
        cut_revoked(s);
        cut_left(s);
        serve_door(&s->tcp);
        serve_door(&s->local);
        note_use(s);
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
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, &s->tcp, MHD_OPTION_ARRAY,
        s->self.tls ? tls : &none, MHD_OPTION_END);
}

/* A daemon of its own: without TLS, and with its own places. Its connections
 * come from let_in, which has seen whose they are. */
static struct MHD_Daemon *start_local_daemon(struct api_server *s)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0,
        NULL, NULL, exchange_go_on, &s->exchanges, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)REAPER_LOCAL_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, &s->exchanges,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, &s->exchanges,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, &s->local, MHD_OPTION_END);
}

/* Without it the server goes on: there is the address, and the token. */
static void open_local(struct api_server *s, const char *path)
{
    struct fault f = {0};
    enum err err;

    if (!path)
        return;
    s->local_path = mem_strdup(path);
    err = s->local_path ? local_listen(path, &s->local_fd, &f)
                        : fault_set(&f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (err)
        goto none;
    s->local.daemon = start_local_daemon(s);
    if (s->local.daemon)
        return;
    fault_set(&f, ERR_IO, "out of memory or file descriptors");
    close(s->local_fd);
    unlink(path);
    s->local_fd = -1;
none:
    mem_free(s->local_path);
    s->local_path = NULL;
    snprintf(s->local_fault, sizeof(s->local_fault), "%.200s", f.text);
}

static void close_local(struct api_server *s)
{
    if (s->local_path)
        unlink(s->local_path);
    if (s->local.daemon)
        MHD_stop_daemon(s->local.daemon);
    if (s->local_fd >= 0)
        close(s->local_fd);
    mem_free(s->local_path);
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
    s->exchanges.toll_times = s->self.tls ? TOLL_TLS : 1;
    s->exchanges.here = &s->here;
    s->exchanges.readers.token = s->token;
    s->exchanges.readers.entrance = &s->exchanges.entrance;
    tokens_watch_init(&s->exchanges.tokens, s->state);
    s->exchanges.audit = s->audits ? s->state : NULL;
    s->exchanges.reaper = &s->tcp.reaper;
    s->exchanges.stop = &s->stopping;
    s->exchanges.wake_fd = s->exchanges.streams.wake_fd = s->wake_fd;
    if (exports_init(&s->exchanges.exports, s->state) != ERR_OK)
        return fault_errno(f, ERR_IO, errno, "cannot start the HTTP server");
    if (view_options(s->view)->fetch)
        err = waker_start(s->view, s->wake_fd, &s->waker, f);
    if (err)
        return err;
    s->exchanges.waker = s->waker;
    s->tcp.daemon = start_daemon(s);
    if (!s->tcp.daemon)
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
    waker_stop(s->waker);
    close_local(s);
    if (s->tcp.daemon)
        MHD_stop_daemon(s->tcp.daemon);
    streams_deinit(&s->exchanges.streams);
    exports_deinit(&s->exchanges.exports);
    leave_logs(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    replies_deinit(&s->exchanges.replies);
    tokens_watch_deinit(&s->exchanges.tokens);
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
    s->audits = options->audit;
    s->self = self;
    s->identity = identity;
    s->exchanges.readers.rule = options->read;
    s->exchanges.entered = options->entered;
    s->exchanges.entered_ctx = options->entered_ctx;
    s->exchanges.streams.heartbeat =
        options->heartbeat ? options->heartbeat : HEARTBEAT;
    s->local_fd = s->listen_fd = s->wake_fd = s->exchanges.exports.wake_fd = -1;
    if ((options->token && !(s->token = mem_strdup(options->token))) ||
        (options->state && !(s->state = mem_strdup(options->state)))) {
        tls_identity_deinit(&s->identity);
        mem_free(s->token);
        mem_free(s);
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    s->here = (struct listen_address){
        .host = "localhost", .port = 80, .loopback = true};
    s->tcp = (struct door){.server = s};
    s->local = (struct door){.server = s, .local = true};
    reaper_init(&s->tcp.reaper, options->limits ? options->limits : &limits,
                REAPER_CONNECTIONS_MAX);
    reaper_init(&s->local.reaper, options->limits ? options->limits : &limits,
                REAPER_LOCAL_MAX);
    err = open_server(s, f);
    if (err)
        goto fail;
    open_local(s, options->local);
    atomic_store(&s->turned, clock_monotonic());
    s->exchanges.used = clock_monotonic();
    atomic_store(&s->used, s->exchanges.used);
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

const char *api_server_no_local(const struct api_server *s)
{
    return s->local_fault[0] ? s->local_fault : NULL;
}

time_ns api_server_turned(const struct api_server *s)
{
    return atomic_load(&s->turned);
}

time_ns api_server_used(const struct api_server *s)
{
    return atomic_load(&s->used);
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
