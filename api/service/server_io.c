#include "api/service/server_io.h"

#include "api/http/stream_io.h"
#include "api/http/tls_io.h"
#include "api/routes/export_io.h"
#include "api/service/service.h"
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

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CACHE_SLOTS = 32,
    CACHE_BODY_MAX = 256 * 1024,   /* so at most 8 MiB are kept */
    CONNECTION_MEMORY = 32 * 1024, /* the library's, a connection; longer heads
                                    * it refuses itself, with 414 or 431 */
    BODY_READ_MAX = 4 * HEAD_BODY_MAX, /* of one in chunks that is too long */
    LISTEN_QUEUE = 1024 /* so that clients wait here, not in retransmissions */
};

/* How long a run may take to answer a command: its loop is never busy for long,
 * but the disk may be. */
static const time_ns ANSWER_TIME = 30000000000;

/* For streams to be taken to their end when the server stops. */
static const time_ns LAST_WORDS = 1000000000;

/* A comment on a stream that has been silent for so long: so that clients and
 * those between see that it lives, and we that they do. */
static const time_ns HEARTBEAT = 15000000000;

/* A finished answer and the version of the view that it was built from. */
struct cached {
    char *target; /* owned; NULL: empty */
    uint64_t version;
    struct MHD_Response *response; /* one reference */
};

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
    /* Of the server's thread while it runs. */
    struct reaper reaper;
    uint64_t refused, cut; /* requests; connections */
    bool place_freed; /* since the library last looked for new connections */
    struct cached cache[CACHE_SLOTS];
    struct exchange *waiting; /* for their run's answer; suspended */
    struct streams streams;
    struct exports exports;
};

enum stage {
    STAGE_HEAD,    /* of which nothing is known yet */
    STAGE_READ,    /* accepted; to be answered when the library asks again */
    STAGE_BODY,    /* of an accepted write: it comes */
    STAGE_EXPORT,  /* an export was begun; nothing is there of it yet */
    STAGE_WAITING, /* the run has been asked */
    STAGE_ANSWERED /* it has answered, or takes too long */
};

/* One request, from its first line to its answer. */
struct exchange {
    enum stage stage;
    struct MHD_Connection *connection;
    char *body; /* owned */
    size_t len, capacity;
    bool no_memory;
    struct service_write write;
    time_ns asked; /* WAITING: since when */
    struct exchange *next;
    struct outgoing *outgoing; /* EXPORT */
    struct response reply;     /* ANSWERED; EXPORT: its headers */
    char target[];             /* as it came */
};

/* ---- answers ------------------------------------------------------------- */

/* The library's form of @r, whose body goes along. NULL: out of memory. */
static struct MHD_Response *make_response(struct response *r)
{
    struct response_header header[RESPONSE_HEADERS_MAX];
    size_t i, n = response_headers(r, header);
    struct MHD_Response *made;

    /* The library does not write to what it is told is persistent. */
    if (r->owned)
        made = MHD_create_response_from_buffer_with_free_callback(
            r->len, r->owned, mem_free);
    else
        made = MHD_create_response_from_buffer(r->len, (void *)r->body,
                                               MHD_RESPMEM_PERSISTENT);
    if (!made)
        return NULL;
    r->owned = NULL;
    for (i = 0; i < n; i++) {
        if (MHD_add_response_header(made, header[i].name, header[i].value) !=
            MHD_YES) {
            MHD_destroy_response(made);
            return NULL;
        }
    }
    return made;
}

static enum MHD_Result send_response(struct MHD_Connection *connection,
                                     struct response *r)
{
    struct MHD_Response *made = make_response(r);
    enum MHD_Result result = MHD_NO;

    if (made) {
        result = MHD_queue_response(connection, (unsigned)r->status, made);
        MHD_destroy_response(made);
    }
    return result;
}

/* ---- cache --------------------------------------------------------------- */

static struct cached *cache_slot(struct api_server *s, const char *target)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *target; target++)
        hash = (hash ^ (unsigned char)*target) * 16777619u;
    return &s->cache[hash % CACHE_SLOTS];
}

static void cached_deinit(struct cached *c)
{
    if (!c->target)
        return;
    mem_free(c->target);
    MHD_destroy_response(c->response);
    c->target = NULL;
}

/* Takes @response over into @c; false: it was not kept, nothing changed. */
static bool cache_put(struct cached *c, const char *target, uint64_t version,
                      struct MHD_Response *response)
{
    char *copy = mem_strdup(target);

    if (!copy)
        return false;
    cached_deinit(c);
    *c = (struct cached){copy, version, response};
    return true;
}

static struct reaper_entry *entry_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Where a client left off; without a number, now. */
static uint64_t stream_after(struct MHD_Connection *connection,
                             struct event_log *log)
{
    const char *last = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                   "Last-Event-ID");
    uint64_t n = 0;
    size_t i = 0;

    for (; last && last[i] >= '0' && last[i] <= '9' && i < 18; i++)
        n = n * 10 + (uint64_t)(last[i] - '0');
    return i > 0 && !last[i] ? n : event_log_newest(log);
}

static enum MHD_Result send_stream(struct api_server *s,
                                   struct MHD_Connection *connection,
                                   const struct response *r)
{
    uint64_t after = stream_after(connection, r->stream);
    struct MHD_Response *made = streams_open(
        &s->streams, connection, entry_of(connection), r->stream, after, r);
    struct response full = {0};
    enum MHD_Result result;

    if (!made) {
        response_problem(&full, 503, "too_many_streams", NULL,
                         "%d streams are open, or memory is short; "
                         "?after= polls",
                         STREAMS_MAX);
        result = send_response(connection, &full);
        response_deinit(&full);
        return result;
    }
    result = MHD_queue_response(connection, MHD_HTTP_OK, made);
    MHD_destroy_response(made);
    return result;
}

static enum MHD_Result on_write(struct api_server *s, struct exchange *x,
                                const char *method);

/* The export in @x goes on: what it answers, or rests. */
static enum MHD_Result go_on(struct exchange *x)
{
    struct response other = {0};
    struct MHD_Response *made = exports_answer(&x->outgoing, &x->reply, &other);
    enum MHD_Result result = MHD_YES;

    if (made) {
        result = MHD_queue_response(x->connection, MHD_HTTP_OK, made);
        MHD_destroy_response(made);
    } else if (other.status) {
        result = send_response(x->connection, &other);
    }
    response_deinit(&other);
    return result;
}

/* Begins the export that @r asks for; of HEAD there is nothing to begin. */
static enum MHD_Result begin_export(struct api_server *s, struct exchange *x,
                                    const char *method, struct response *r)
{
    struct response refusal = {0};
    struct MHD_Response *head;
    enum MHD_Result result = MHD_NO;

    if (strcmp(method, "HEAD") == 0) {
        head = exports_head(r);
        if (head) {
            result = MHD_queue_response(x->connection, MHD_HTTP_OK, head);
            MHD_destroy_response(head);
        }
        return result;
    }
    x->outgoing = exports_start(&s->exports, x->connection,
                                entry_of(x->connection), r, &refusal);
    if (x->outgoing) {
        x->stage = STAGE_EXPORT;
        x->reply = *r;
        return MHD_YES;
    }
    result = send_response(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

static enum MHD_Result answer(struct api_server *s, struct exchange *x,
                              const char *method)
{
    struct MHD_Connection *connection = x->connection;
    const char *target = x->target;
    struct cached *c = cache_slot(s, target);
    /* Before the state is read, so that a change in between is not missed. */
    uint64_t version = view_version(s->view);
    struct MHD_Response *made;
    struct response r = {0};
    enum MHD_Result result = MHD_NO;

    if (c->target && c->version == version && strcmp(c->target, target) == 0)
        return MHD_queue_response(connection, MHD_HTTP_OK, c->response);
    if (!service_respond(s->view, method, target, &r))
        return on_write(s, x, method);
    if (r.stream) {
        result = send_stream(s, connection, &r);
        response_deinit(&r);
        return result;
    }
    if (r.export_format)
        return begin_export(s, x, method, &r);
    made = make_response(&r);
    if (made) {
        result = MHD_queue_response(connection, (unsigned)r.status, made);
        if (r.status != 200 || r.len > CACHE_BODY_MAX ||
            !cache_put(c, target, version, made))
            MHD_destroy_response(made);
    }
    response_deinit(&r);
    return result;
}

/* A client may do what is logged as often as it likes, but not fill the disk:
 * the first ones are logged, then the 32nd, 64th, 128th, ... */
static bool worth_logging(uint64_t count)
{
    return count <= 16 || (count & (count - 1)) == 0;
}

/* ---- requests ------------------------------------------------------------ */

/* The first line of a request is there. */
static void *on_target(void *cls, const char *target,
                       struct MHD_Connection *connection)
{
    size_t size = strlen(target) + 1;
    struct exchange *x = mem_alloc(sizeof(*x) + size);

    (void)cls;
    reaper_enter(entry_of(connection), REAPER_HEAD, clock_monotonic());
    if (!x)
        return NULL;
    memset(x, 0, sizeof(*x));
    x->connection = connection;
    memcpy(x->target, target, size);
    return x;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind,
                                const char *name, size_t name_len,
                                const char *value, size_t value_len)
{
    struct head *head = cls;

    (void)kind;
    if (head->fields < HEAD_HEADERS_MAX)
        head->field[head->fields] = (struct head_field){
            name, value ? value : "", name_len, value ? value_len : 0};
    head->fields++;
    return MHD_YES;
}

static void count_refusal(struct api_server *s, int status)
{
    if (worth_logging(++s->refused))
        log_event(LOG_INFO, "http_refused", "status=%d count=%" PRIu64, status,
                  s->refused);
}

/* The head is complete. What is queued here closes the connection: right for
 * refusals, whose bodies nobody reads. */
static enum MHD_Result on_head(struct api_server *s, struct exchange *x,
                               const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head head = {
        .method = method, .target = x->target, .version = version};
    struct response refusal = {0};
    enum MHD_Result result;

    assert(info);
    head.bytes = info->header_size;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, on_field,
                                &head);
    if (service_accept(&head, &s->self, &refusal)) {
        bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

        if (reads && service_may_read(s->token, &head, &s->self, &refusal)) {
            x->stage = STAGE_READ;
            return MHD_YES;
        }
        if (!reads &&
            service_begin(s->view, s->token, &head, &x->write, &refusal)) {
            x->stage = STAGE_BODY;
            reaper_enter(entry_of(x->connection), REAPER_BODY,
                         clock_monotonic());
            return MHD_YES;
        }
    }
    count_refusal(s, refusal.status);
    refusal.close = true;
    result = send_response(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

/* A piece of the body. What is too long is read and forgotten, so that it can
 * be answered; but not for ever. */
static enum MHD_Result on_body(struct exchange *x, const char *data, size_t n)
{
    void *body = x->body;

    if (n > BODY_READ_MAX - x->len)
        return MHD_NO;
    if (x->len + n <= HEAD_BODY_MAX && !x->no_memory) {
        x->no_memory = mem_grow(&body, &x->capacity, 1, x->len + n) != 0;
        x->body = body;
        if (!x->no_memory)
            memcpy(x->body + x->len, data, n);
    }
    x->len += n;
    return MHD_YES;
}

static void respond_ending(struct response *out)
{
    response_problem(out, 503, "not_ready", NULL,
                     "the program is about to end");
}

/* The request is complete, and the run's to answer: it is asked, and the
 * connection rests until the run has answered. Not once the server stops:
 * nobody would wake it. */
static enum MHD_Result on_write(struct api_server *s, struct exchange *x,
                                const char *method)
{
    struct response refusal = {0};
    enum MHD_Result result;

    if (x->len > HEAD_BODY_MAX) {
        response_problem(&refusal, 413, "body_too_long", NULL,
                         "the body is longer than %d bytes", HEAD_BODY_MAX);
        refusal.close = true;
    } else if (x->no_memory) {
        response_json(&refusal, 200, NULL); /* 503 */
    } else if (atomic_load(&s->stopping)) {
        respond_ending(&refusal);
        refusal.close = true;
    } else if (service_write(s->view, method, x->target, x->body ? x->body : "",
                             x->len, s->wake_fd, &x->write, &refusal)) {
        x->stage = STAGE_WAITING;
        x->asked = clock_monotonic();
        x->next = s->waiting;
        s->waiting = x;
        MHD_suspend_connection(x->connection);
        return MHD_YES;
    }
    result = send_response(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

/* Called with the head complete; then, when MHD_YES was all the answer, with
 * pieces of the body, at its end, and when a connection is resumed. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection,
                                  const char *url, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **context)
{
    struct api_server *s = cls;
    struct exchange *x = *context;
    enum MHD_Result result;

    (void)url; /* the library's decoded form; we decode the target ourselves */
    if (!x)
        return MHD_NO;
    if (x->stage == STAGE_BODY && *upload_size > 0) {
        result = on_body(x, upload, *upload_size);
        *upload_size = 0;
        return result;
    }
    reaper_enter(entry_of(connection), REAPER_ANSWER, clock_monotonic());
    switch (x->stage) {
    case STAGE_HEAD:
        return on_head(s, x, method, version);
    case STAGE_READ:
        return answer(s, x, method);
    case STAGE_BODY:
        return on_write(s, x, method);
    case STAGE_EXPORT:
        return go_on(x);
    case STAGE_WAITING:
        return MHD_YES;
    case STAGE_ANSWERED:
        return send_response(connection, &x->reply);
    }
    return MHD_NO;
}

static void leave_waiting(struct api_server *s, struct exchange *x)
{
    struct exchange **at = &s->waiting;

    while (*at && *at != x)
        at = &(*at)->next;
    if (*at)
        *at = x->next;
}

static void on_completed(void *cls, struct MHD_Connection *connection,
                         void **context, enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *context;

    (void)code;
    if (x) {
        leave_waiting(cls, x);
        service_forget(&x->write);
        exports_drop(x->outgoing);
        response_deinit(&x->reply);
        mem_free(x->body);
        mem_free(x);
    }
    *context = NULL;
    reaper_enter(entry_of(connection), REAPER_IDLE, clock_monotonic());
}

/* ---- runs that answer ---------------------------------------------------- */

static void wake_up(struct api_server *s, struct exchange *x)
{
    leave_waiting(s, x);
    x->stage = STAGE_ANSWERED;
    MHD_resume_connection(x->connection);
}

/* Goes on with those whose run has answered, or takes too long. */
static void collect(struct api_server *s)
{
    struct exchange *x, *next;

    for (x = s->waiting; x; x = next) {
        next = x->next;
        if (service_collect(&x->write, &x->reply)) {
            wake_up(s, x);
        } else if (clock_monotonic() - x->asked >= ANSWER_TIME) {
            service_forget(&x->write);
            response_problem(&x->reply, 503, "no_answer", NULL,
                             "the run has not answered in 30 s; it may still "
                             "do what was asked");
            wake_up(s, x);
        }
    }
}

/* No connection may be suspended when the library stops; on_write suspends no
 * more. */
static void end_waiting(struct api_server *s)
{
    while (s->waiting) {
        struct exchange *x = s->waiting;

        service_forget(&x->write);
        respond_ending(&x->reply);
        wake_up(s, x);
    }
}

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

    while ((e = reaper_next(&s->reaper, clock_monotonic()))) {
        shutdown(e->fd, SHUT_RDWR);
        if (worth_logging(++s->cut))
            log_event(LOG_INFO, "http_connection_cut",
                      "used=%zu count=%" PRIu64, s->reaper.used, s->cut);
    }
}

/* Milliseconds until something has to be done without any event; -1: never. */
static int wait_ms(struct api_server *s)
{
    MHD_UNSIGNED_LONG_LONG library_ms;
    time_ns due = reaper_deadline(&s->reaper);
    time_ns stream_due = streams_deadline(&s->streams);
    int64_t ms = -1;

    /* Where all places were taken, the library listens again only at its next
     * turn, which nothing else might bring about. */
    if (s->place_freed)
        return 0;
    if (stream_due < due)
        due = stream_due;
    for (const struct exchange *x = s->waiting; x; x = x->next)
        if (x->asked + ANSWER_TIME < due)
            due = x->asked + ANSWER_TIME;
    if (due != INT64_MAX) {
        ms = (due - clock_monotonic()) / 1000000 + 1;
        ms = ms < 0 ? 0 : ms;
    }
    if (MHD_get_timeout(s->daemon, &library_ms) == MHD_YES &&
        (ms < 0 || (int64_t)library_ms < ms))
        ms = (int64_t)library_ms;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Who follows a run gets its last events; who does not read is not waited for.
 */
static void say_last_words(struct api_server *s, struct pollfd *library)
{
    time_ns until = clock_monotonic() + LAST_WORDS;

    streams_end(&s->streams);
    exports_end(&s->exports);
    do {
        MHD_run(s->daemon);
        if (s->streams.first)
            poll(library, 1, 10);
    } while (s->streams.first && clock_monotonic() < until);
    assert(!s->waiting);
}

static void *serve(void *arg)
{
    struct api_server *s = arg;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = s->wake_fd, .events = POLLIN},
                           {.fd = s->exports.wake_fd, .events = POLLIN}};
    uint64_t calls;

    pthread_setname_np(pthread_self(), "http");
    while (!atomic_load(&s->stopping)) {
        poll(fds, 3, wait_ms(s));
        s->place_freed = false;
        /* Empty where nobody has called; that is no error. */
        (void)!read(s->wake_fd, &calls, sizeof(calls));
        collect(s);
        streams_serve(&s->streams, clock_monotonic());
        exports_serve(&s->exports, clock_monotonic());
        MHD_run(s->daemon);
        reap(s);
    }
    end_waiting(s);
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

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t make_address(const struct listen_address *from,
                              union any_address *to)
{
    memset(to, 0, sizeof(*to));
    if (from->ipv6) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_port = htons(from->port);
        memcpy(&to->v6.sin6_addr, from->ip, 16);
        return sizeof(to->v6);
    }
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons(from->port);
    memcpy(&to->v4.sin_addr, from->ip, 4);
    return sizeof(to->v4);
}

static enum err listen_failed(const struct listen_address *self, int errnum,
                              struct fault *f)
{
    if (errnum == EADDRINUSE)
        return fault_set(f, ERR_BUSY,
                         "cannot listen on %s:%u: address already in use; "
                         "end what uses it (ss -ltnp shows it) or choose "
                         "another port (port 0: any free one)",
                         self->host, (unsigned)self->port);
    if (errnum == EACCES)
        return fault_set(f, ERR_IO,
                         "cannot listen on %s:%u: permission denied; ports "
                         "below 1024 are reserved, choose another",
                         self->host, (unsigned)self->port);
    return fault_errno(f, ERR_IO, errnum, "cannot listen on %s:%u", self->host,
                       (unsigned)self->port);
}

/* A listening socket; on success @self->port is the one that it has. */
static enum err open_socket(struct listen_address *self, int *out,
                            struct fault *f)
{
    union any_address address;
    socklen_t len = make_address(self, &address);
    int one = 1, errnum;
    int fd = socket(address.any.sa_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* A port that was ours a moment ago may be ours again; one that somebody
     * listens on may not. */
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, &address.any, len) < 0 || listen(fd, LISTEN_QUEUE) < 0 ||
        getsockname(fd, &address.any, &len) < 0) {
        errnum = errno;
        if (fd >= 0)
            close(fd);
        return listen_failed(self, errnum, f);
    }
    self->port = ntohs(self->ipv6 ? address.v6.sin6_port : address.v4.sin_port);
    *out = fd;
    return ERR_OK;
}

/* What is current with GnuTLS, without what is older than TLS 1.2. */
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

    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
        s->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)REAPER_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_ARRAY, s->self.tls ? tls : &none, MHD_OPTION_END);
}

static enum err open_server(struct api_server *s, struct fault *f)
{
    enum err err = open_socket(&s->self, &s->listen_fd, f);

    if (err)
        return err;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return fault_errno(f, ERR_IO, errno, "cannot start the HTTP server");
    s->streams.wake_fd = s->wake_fd;
    if (exports_init(&s->exports, s->state) != ERR_OK)
        return fault_errno(f, ERR_IO, errno, "cannot start the HTTP server");
    s->daemon = start_daemon(s);
    if (!s->daemon)
        return fault_set(f, ERR_IO,
                         "cannot start the HTTP server on %s:%u (out of "
                         "memory or file descriptors?)",
                         s->self.host, (unsigned)s->self.port);
    s->listen_fd = -1;
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
    streams_deinit(&s->streams);
    exports_deinit(&s->exports);
    leave_logs(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    for (size_t i = 0; i < CACHE_SLOTS; i++)
        cached_deinit(&s->cache[i]);
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
    s->streams.heartbeat = options->heartbeat ? options->heartbeat : HEARTBEAT;
    s->listen_fd = s->wake_fd = s->exports.wake_fd = -1;
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
