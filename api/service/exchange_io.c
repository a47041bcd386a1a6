#include "api/service/exchange_io.h"

#include "api/http/peer_io.h"
#include "api/http/reaper.h"
#include "api/service/service.h"
#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    BODY_READ_MAX = 4 * HEAD_BODY_MAX
}; /* of one in chunks that is too
    * long */

/* The time that a run may take to answer a command: its loop is never busy for
 * long, but the disk may be. */
static const time_ns ANSWER_TIME = DEADLINE_COMMAND_MS * 1000000ll;

enum exchange_stage {
    STAGE_HEAD,    /* of which nothing is known yet */
    STAGE_READ,    /* accepted; to be answered when the library asks again */
    STAGE_BODY,    /* of an accepted write: it comes */
    STAGE_EXPORT,  /* an export was begun; nothing is there of it yet */
    STAGE_WAITING, /* the run has been asked */
    STAGE_WAKING,  /* the run is being read */
    STAGE_ANSWERED /* it has answered, or takes too long */
};

struct exchange {
    enum exchange_stage stage;
    struct MHD_Connection *connection;
    char *body;    /* owned */
    bool stranger; /* without token and cookie, and not this user */
    bool last;     /* nothing that follows on the connection is read */
    size_t len, capacity;
    bool no_memory;
    struct asker by; /* READ */
    struct service_write write;
    time_ns asked;   /* WAITING, WAKING: since when */
    uint64_t waking; /* WAKING: the waker's ticket, for: */
    char run[RECORD_NAME_MAX];
    unsigned wakes; /* how often the run was read for it */
    struct exchange *next;
    struct outgoing *outgoing; /* EXPORT */
    struct response reply;     /* ANSWERED; EXPORT: its headers */
    char target[];             /* as it came */
};

/* ---- reads --------------------------------------------------------------- */

static struct reaper_entry *entry_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Where a client left off. */
static uint64_t stream_after(struct MHD_Connection *connection,
                             struct event_log *log)
{
    return event_log_after(log, MHD_lookup_connection_value(connection,
                                                            MHD_HEADER_KIND,
                                                            "Last-Event-ID"));
}

static enum MHD_Result refuse_stranger(struct exchange *x, const char *what)
{
    struct response out = {0};
    enum MHD_Result result;

    response_problem(&out, 429, "too_many_requests", NULL,
                     "without the token this address may have no more %s now",
                     what);
    result = reply_send(x->connection, &out);
    response_deinit(&out);
    return result;
}

/* Whether a stranger may open one more stream or export; it is counted until
 * the connection's next request. */
static bool count_open(struct exchanges *s, struct exchange *x, bool exports)
{
    struct reaper_entry *e = entry_of(x->connection);
    unsigned most = exports ? QUOTA_EXPORTS : QUOTA_STREAMS;

    if (!x->stranger || !e)
        return true;
    if (reaper_count(s->reaper, e->client, exports) >= most)
        return false;
    e->counted = true;
    e->exports = exports;
    return true;
}

static enum MHD_Result send_stream(struct exchanges *s,
                                   struct MHD_Connection *connection,
                                   const struct response *r)
{
    uint64_t after = stream_after(connection, r->stream);
    struct MHD_Response *made = streams_open(
        &s->streams, connection, entry_of(connection), r->stream, after, r);
    struct response full = {0};
    enum MHD_Result result;

    assert(r->stream);
    if (!made) {
        response_problem(&full, 503, "too_many_streams", NULL,
                         "%d streams are open, or memory is short; "
                         "?after= polls",
                         STREAMS_MAX);
        result = reply_send(connection, &full);
        response_deinit(&full);
        return result;
    }
    result = MHD_queue_response(connection, MHD_HTTP_OK, made);
    MHD_destroy_response(made);
    return result;
}

static enum MHD_Result on_write(struct exchanges *s, struct exchange *x,
                                const char *method);

/* The export in @x goes on: what it answers, or rests. */
static enum MHD_Result go_on(struct exchange *x)
{
    struct response other = {0};
    struct MHD_Response *made = exports_answer(&x->outgoing, &x->reply, &other);
    enum MHD_Result result = MHD_YES;

    assert(x->stage == STAGE_EXPORT);
    if (made) {
        result = MHD_queue_response(x->connection, MHD_HTTP_OK, made);
        MHD_destroy_response(made);
    } else if (other.status) {
        result = reply_send(x->connection, &other);
    }
    response_deinit(&other);
    return result;
}

/* Begins the export that @r asks for. */
static enum MHD_Result begin_export(struct exchanges *s, struct exchange *x,
                                    struct response *r)
{
    struct response refusal = {0};
    enum MHD_Result result;

    assert(r->export_format);
    assert(!x->outgoing);
    x->outgoing = exports_start(&s->exports, x->connection,
                                entry_of(x->connection), &x->by, r, &refusal);
    if (x->outgoing) {
        x->stage = STAGE_EXPORT;
        x->reply = *r;
        return MHD_YES;
    }
    result = reply_send(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

static void wait_for(struct exchanges *s, struct exchange *x,
                     enum exchange_stage stage)
{
    x->stage = stage;
    x->asked = clock_monotonic();
    x->next = s->waiting;
    s->waiting = x;
    reaper_enter(entry_of(x->connection), REAPER_ANSWER, x->asked);
    MHD_suspend_connection(x->connection);
}

/* Others may put a run to rest that was just read: so often at most the waker
 * is asked, then it is read here. */
enum { WAKES_MAX = 4 };

/* Whether the run is read first, so that others are answered meanwhile. */
static bool waits_for_run(struct exchanges *s, struct exchange *x,
                          const char *method)
{
    if (!s->waker || atomic_load(s->stop) || x->wakes >= WAKES_MAX ||
        !service_sleeps(s->view, method, x->target, x->run))
        return false;
    x->waking = waker_ask(s->waker, x->run);
    if (!x->waking)
        return false;
    x->wakes++;
    wait_for(s, x, STAGE_WAKING);
    return true;
}

static enum MHD_Result answer(struct exchanges *s, struct exchange *x,
                              const char *method)
{
    struct MHD_Connection *connection = x->connection;
    /* Before the state is read, so that a change in between is not missed. */
    uint64_t version = view_version(s->view);
    struct MHD_Response *made = replies_find(&s->replies, x->target, version);
    struct reaper_entry *entry = entry_of(connection);
    struct response r = {0};
    bool head = strcmp(method, "HEAD") == 0;
    enum MHD_Result result = MHD_NO;

    assert(x->stage == STAGE_READ);
    if (made)
        return MHD_queue_response(connection, MHD_HTTP_OK, made);
    if (waits_for_run(s, x, method))
        return MHD_YES;
    if (!service_respond_to(s->view, &x->by, method, x->target, &r)) {
        if (x->stranger && entry &&
            !quota_take(&s->quota, peer_address(entry->fd), clock_monotonic()))
            return refuse_stranger(x, "rows");
        return on_write(s, x, method);
    }
    if ((r.stream || r.export_format) && !head &&
        !count_open(s, x, !r.stream)) {
        result = refuse_stranger(x, r.stream ? "streams" : "exports");
        response_deinit(&r);
        return result;
    }
    if (r.export_format && !head)
        return begin_export(s, x, &r);
    if (r.stream || r.export_format) {
        result = head ? reply_send_head(connection, &r)
                      : send_stream(s, connection, &r);
        response_deinit(&r);
        return result;
    }
    made = reply_make(&r);
    if (made) {
        result = MHD_queue_response(connection, (unsigned)r.status, made);
        if (r.status == 200 && !r.log_next[0] && !r.personal)
            replies_keep(&s->replies, x->target, version, made, r.len);
        else
            MHD_destroy_response(made);
    }
    response_deinit(&r);
    return result;
}

bool exchanges_worth_logging(uint64_t count)
{
    return count <= 16 || (count & (count - 1)) == 0;
}

/* ---- requests ------------------------------------------------------------ */

void *exchange_begin(void *cls, const char *target,
                     struct MHD_Connection *connection)
{
    size_t size = strlen(target) + 1;
    struct exchange *x = mem_alloc(sizeof(*x) + size);
    struct reaper_entry *entry = entry_of(connection);

    assert(target[0]);
    (void)cls;
    reaper_enter(entry, REAPER_HEAD, clock_monotonic());
    if (entry)
        entry->counted = false;
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

static void count_refusal(struct exchanges *s, const struct exchange *x,
                          int status)
{
    const struct reaper_entry *e = entry_of(x->connection);

    if (!e || !e->local)
        toll_take(&s->toll, s->toll_times, clock_monotonic());
    if (exchanges_worth_logging(++s->refused))
        log_event(LOG_INFO, "http_refused", "status=%d count=%" PRIu64, status,
                  s->refused);
}

/* Asked once a connection, and only where it matters. */
static bool is_own(const struct exchanges *s, struct reaper_entry *e)
{
    if (e->local)
        return true;
    if (!s->self->loopback || s->readers.rule == READ_TOKEN)
        return false;
    if (e->owner == REAPER_UNASKED)
        e->owner = peer_is_own(e->fd) ? REAPER_OWN : REAPER_FOREIGN;
    return e->owner == REAPER_OWN;
}

static bool make_secret(char out[ENTRANCE_LEN + 1])
{
    unsigned char bytes[ENTRANCE_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return true;
}

void exchanges_open_entrance(struct exchanges *s)
{
    struct entrance *e = &s->entrance;

    e->port = s->self->port;
    e->tls = s->self->tls;
    if (!e->pass[0] && !make_secret(e->pass))
        e->pass[0] = '\0';
    if (!make_secret(e->code))
        e->code[0] = '\0';
    if (s->entered)
        s->entered(s->entered_ctx, e->code);
}

/* A browser comes in, and the next one has another address. */
static enum MHD_Result enter(struct exchanges *s, struct exchange *x,
                             const struct head *head)
{
    struct response out = {0};
    enum MHD_Result result;

    if (entrance_answer(&s->entrance, head, &out))
        exchanges_open_entrance(s);
    else
        count_refusal(s, x, out.status);
    out.close = true;
    result = reply_send(x->connection, &out);
    response_deinit(&out);
    return result;
}

/* Who did what, once it is known what came of it. */
static void audit(const struct exchanges *s, const struct exchange *x,
                  const struct response *out)
{
    struct audit_entry entry;
    char status[8];

    if (s->audit && service_audit(&x->write, out, status, &entry))
        audit_note(s->audit, &entry);
}

/* Who asks is no stranger: what was taken of one for the handshake is given
 * back, once. */
static void know(struct exchanges *s, struct reaper_entry *e)
{
    e->known = true;
    if (e->paid)
        toll_give_back(&s->toll, s->toll_times);
    e->paid = false;
}

/* The head is complete. What is queued here closes the connection: right for
 * refusals, whose bodies nobody reads. */
static enum MHD_Result on_head(struct exchanges *s, struct exchange *x,
                               const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head head = {
        .method = method, .target = x->target, .version = version};
    struct reaper_entry *entry = entry_of(x->connection);
    struct service_readers who = s->readers;
    const struct listen_address *self;
    struct asker by;
    struct response refusal = {0};
    enum MHD_Result result;

    assert(x->stage == STAGE_HEAD);
    who.local = entry && entry->local;
    self = who.local ? s->here : s->self;
    assert(info);
    head.bytes = info->header_size;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, on_field,
                                &head);
    if (service_accept(&head, self, &refusal)) {
        bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
        bool own = entry && reads && is_own(s, entry);

        /* A file is looked at: for those who have a token alone. */
        if (head_field(&head, "authorization"))
            who.named = tokens_watch_look(&s->tokens);
        by = service_asker(&who, &head);
        /* The library takes chunks that others may read otherwise. */
        x->last = head_field(&head, "transfer-encoding") != NULL;
        if (entrance_is_asked(&head))
            return enter(s, x, &head);
        x->stranger = !own && by.role == ROLE_ANYBODY;
        if (entry && !x->stranger)
            know(s, entry);
        if (entry)
            entry->token = by.token;
        if (reads && service_may_read(&who, &by, &head, self, own, &refusal)) {
            x->stage = STAGE_READ;
            x->by = by;
            s->used = clock_monotonic();
            if (x->stranger)
                toll_take(&s->toll, s->toll_times, clock_monotonic());
            return MHD_YES;
        }
        if (!reads && service_begin(s->view, &by, &head, &x->write, &refusal)) {
            x->stage = STAGE_BODY;
            s->used = clock_monotonic();
            reaper_enter(entry_of(x->connection), REAPER_BODY, s->used);
            return MHD_YES;
        }
    }
    count_refusal(s, x, refusal.status);
    audit(s, x, &refusal);
    refusal.close = true;
    result = reply_send(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

/* A piece of the body. What is too long is read and forgotten, so that it can
 * be answered; but not for ever. */
static enum MHD_Result on_body(struct exchange *x, const char *data, size_t n)
{
    void *body = x->body;

    assert(x->stage == STAGE_BODY);
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
static enum MHD_Result on_write(struct exchanges *s, struct exchange *x,
                                const char *method)
{
    struct response refusal = {0};
    enum MHD_Result result;

    assert(!x->write.ticket);
    if (x->len > HEAD_BODY_MAX) {
        response_problem(&refusal, 413, "body_too_long", NULL,
                         "the body is longer than %d bytes", HEAD_BODY_MAX);
        refusal.close = true;
    } else if (x->no_memory) {
        response_json(&refusal, 200, NULL); /* 503 */
    } else if (atomic_load(s->stop)) {
        respond_ending(&refusal);
        refusal.close = true;
    } else if (service_write(s->view, method, x->target, x->body ? x->body : "",
                             x->len, s->wake_fd, &x->write, &refusal)) {
        wait_for(s, x, STAGE_WAITING);
        return MHD_YES;
    }
    refusal.close |= x->last;
    audit(s, x, &refusal);
    result = reply_send(x->connection, &refusal);
    response_deinit(&refusal);
    return result;
}

enum MHD_Result exchange_go_on(void *cls, struct MHD_Connection *connection,
                               const char *url, const char *method,
                               const char *version, const char *upload,
                               size_t *upload_size, void **context)
{
    struct exchanges *s = cls;
    struct exchange *x = *context;
    enum MHD_Result result;

    (void)url; /* the library's decoded form; we decode the target ourselves */
    assert(s->view && s->stop && s->wake_fd >= 0);
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
    case STAGE_WAKING:
        return MHD_YES;
    case STAGE_ANSWERED:
        x->reply.close |= x->last;
        audit(s, x, &x->reply);
        return reply_send(connection, &x->reply);
    }
    return MHD_NO;
}

static void leave_waiting(struct exchanges *s, struct exchange *x)
{
    struct exchange **at = &s->waiting;

    while (*at && *at != x)
        at = &(*at)->next;
    if (*at)
        *at = x->next;
}

void exchange_end(void *cls, struct MHD_Connection *connection, void **context,
                  enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *context;

    assert(context);
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

static void wake_up(struct exchanges *s, struct exchange *x,
                    enum exchange_stage stage)
{
    assert(x->stage == STAGE_WAITING || x->stage == STAGE_WAKING);
    leave_waiting(s, x);
    x->stage = stage;
    MHD_resume_connection(x->connection);
}

/* Where the run of @x is read, or cannot be, it goes on. */
static void collect_run(struct exchanges *s, struct exchange *x)
{
    struct fault f = {0};
    enum err err = waker_collect(s->waker, x->waking, &f);

    if (err == ERR_AGAIN && clock_monotonic() - x->asked < ANSWER_TIME)
        return;
    if (err) {
        if (err == ERR_AGAIN)
            fault_set(&f, err, "that takes more than 30 s");
        service_unread(x->run, &f, &x->reply);
    }
    wake_up(s, x, err ? STAGE_ANSWERED : STAGE_READ);
}

void exchanges_collect(struct exchanges *s)
{
    struct exchange *x, *next;

    for (x = s->waiting; x; x = next) {
        next = x->next;
        if (x->stage == STAGE_WAKING) {
            collect_run(s, x);
        } else if (service_collect(&x->write, &x->reply)) {
            wake_up(s, x, STAGE_ANSWERED);
        } else if (clock_monotonic() - x->asked >= ANSWER_TIME) {
            service_forget(&x->write);
            response_problem(&x->reply, 503, "no_answer", NULL,
                             "the run has not answered in 30 s; it may still "
                             "do what was asked");
            wake_up(s, x, STAGE_ANSWERED);
        }
    }
}

void exchanges_end(struct exchanges *s)
{
    while (s->waiting) {
        struct exchange *x = s->waiting;

        service_forget(&x->write);
        respond_ending(&x->reply);
        wake_up(s, x, STAGE_ANSWERED);
    }
}

time_ns exchanges_deadline(const struct exchanges *s)
{
    time_ns due = streams_deadline(&s->streams);

    for (const struct exchange *x = s->waiting; x; x = x->next)
        if (x->asked + ANSWER_TIME < due)
            due = x->asked + ANSWER_TIME;
    return due;
}
