#include "cli/remote/client.h"

#include "base/clock_io.h"
#include "base/host/local_io.h"
#include "base/host/lookup_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/remote/client_tls.h"
#include "cli/remote/reach.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

const char *client_cacert;

struct client_place {
    bool tls;
    char host[CLIENT_URL_MAX], port[8];
    char authority[CLIENT_URL_MAX]; /* as in Host */
};

/* ---- where to ------------------------------------------------------------ */

static bool is_loopback(const char *host)
{
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0;
}

/* "HOST:PORT", "[IPV6]:PORT"; the port may be missing with TLS. */
static bool split_authority(struct client_place *p)
{
    const char *close =
        p->authority[0] == '[' ? strchr(p->authority, ']') : NULL;
    const char *colon = strchr(close ? close : p->authority, ':');
    size_t n = colon ? (size_t)(colon - p->authority) : strlen(p->authority);
    const char *port = colon ? colon + 1 : p->tls ? "443" : "";

    if (n == 0 || !*port || strlen(port) >= sizeof(p->port) ||
        port[strspn(port, "0123456789")] ||
        (p->authority[0] == '[' && !close) ||
        (close && (size_t)(close + 1 - p->authority) != n))
        return false;
    snprintf(p->port, sizeof(p->port), "%s", port);
    if (close)
        snprintf(p->host, sizeof(p->host), "%.*s", (int)n - 2,
                 p->authority + 1);
    else
        snprintf(p->host, sizeof(p->host), "%.*s", (int)n, p->authority);
    return true;
}

/* "http://HOST:PORT" or "https://HOST[:PORT]", with a path of "/" or none. */
static enum err parse_url(const char *url, struct client_place *out,
                          struct fault *f)
{
    static const char plain[] = "http://", secure[] = "https://";
    const char *host = NULL;
    size_t n;

    *out = (struct client_place){
        .tls = strncasecmp(url, secure, sizeof(secure) - 1) == 0};
    if (out->tls)
        host = url + sizeof(secure) - 1;
    else if (strncasecmp(url, plain, sizeof(plain) - 1) == 0)
        host = url + sizeof(plain) - 1;
    n = host ? strcspn(host, "/") : 0;
    if (n == 0 || n >= sizeof(out->authority) ||
        (host[n] && strcmp(host + n, "/") != 0) ||
        host[strcspn(host, " \t\r\n@?#")])
        goto wrong;
    snprintf(out->authority, sizeof(out->authority), "%.*s", (int)n, host);
    if (!split_authority(out))
        goto wrong;
    if (!out->tls && !is_loopback(out->host))
        return fault_set(f, ERR_INVAL,
                         "%.100s is not on this machine: use https, or forward "
                         "the port (ssh -L) and name the loopback address",
                         url);
    return ERR_OK;

wrong:
    return fault_set(f, ERR_INVAL,
                     "\"%.100s\" is no address: expected "
                     "http://127.0.0.1:PORT/ or https://HOST:PORT/",
                     url);
}

/* ---- connecting ---------------------------------------------------------- */

static enum err nobody(const struct client_exchange *x, int errnum,
                       struct fault *f)
{
    return fault_errno(f, ERR_NODE, errnum, "nobody answers at %s", x->url);
}

/* Begins with the next address; ERR_NODE: there is none, and @errnum is what
 * was wrong with the last one. */
static enum err try_next(struct client_exchange *x, int errnum, struct fault *f)
{
    for (; x->address; x->address = x->address->ai_next) {
        if (x->public_only && !reach_is_public(x->address->ai_addr))
            continue;
        if (x->fd >= 0)
            close(x->fd);
        x->fd = socket(x->address->ai_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (x->fd >= 0 &&
            (connect(x->fd, x->address->ai_addr, x->address->ai_addrlen) == 0 ||
             errno == EINPROGRESS))
            return ERR_OK;
        errnum = errno;
    }
    return nobody(x, errnum, f);
}

static bool has_public(const struct addrinfo *a)
{
    while (a && !reach_is_public(a->ai_addr))
        a = a->ai_next;
    return a != NULL;
}

static enum err dial(const struct client_place *to, struct client_exchange *x,
                     struct fault *f)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV};
    struct fault why = {0};
    enum err err = lookup_host(to->host, to->port, &hints, x->patience_s,
                               &x->addresses, &why);

    if (err)
        return fault_set(f, err, "nobody answers at %s: %s", x->url, why.text);
    x->address = x->addresses;
    if (x->public_only && !has_public(x->addresses))
        return fault_set(f, ERR_INVAL,
                         "%s has no address of the public network, and no "
                         "other is allowed",
                         x->url);
    return try_next(x, EADDRNOTAVAIL, f);
}

/* ---- steps --------------------------------------------------------------- */

static enum err hung_up(const struct client_exchange *x, struct fault *f)
{
    return fault_set(f, ERR_NODE, "the server at %s hung up", x->url);
}

/* Each step: ERR_AGAIN where it has to wait, ERR_OK with the next phase. */
static enum err connect_some(struct client_exchange *x, struct fault *f)
{
    struct pollfd p = {.fd = x->fd, .events = POLLOUT};
    int errnum = 0;
    socklen_t len = sizeof(errnum);
    enum err err;

    if (poll(&p, 1, 0) == 0)
        return ERR_AGAIN;
    getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &errnum, &len);
    if (errnum == 0) {
        x->phase = x->tls ? CLIENT_GREETS : CLIENT_SENDS;
        return ERR_OK;
    }
    x->address = x->address->ai_next;
    err = try_next(x, errnum, f);
    return err ? err : ERR_AGAIN;
}

static enum err greet_some(struct client_exchange *x, struct fault *f)
{
    enum err err = client_tls_greet(x->tls, x->fd, x->url, f);

    if (!err)
        x->phase = CLIENT_SENDS;
    return err;
}

static enum err send_some(struct client_exchange *x, struct fault *f)
{
    const char *at = x->out + x->sent;
    size_t left = x->out_len - x->sent;
    ssize_t n = x->tls ? client_tls_send(x->tls, at, left)
                       : send(x->fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR ? ERR_OK : ERR_AGAIN;
    if (n <= 0)
        return hung_up(x, f);
    x->sent += (size_t)n;
    if (x->sent == x->out_len)
        x->phase = CLIENT_RECEIVES;
    return ERR_OK;
}

static ssize_t receive(const struct client_exchange *x, void *out, size_t size)
{
    return x->tls ? client_tls_receive(x->tls, out, size)
                  : recv(x->fd, out, size, MSG_DONTWAIT);
}

/* Whether the head of an answer is there. Those that only tell that one will
 * come (1xx) are passed over. */
static bool has_head(struct text *in)
{
    const char *end;

    while ((end = strstr(in->s, "\r\n\r\n"))) {
        if (strncmp(in->s, "HTTP/1.1 1", 10) != 0)
            return true;
        in->len -= (size_t)(end + 4 - in->s);
        memmove(in->s, end + 4, in->len + 1);
    }
    return false;
}

/* The answer is there when the server hangs up, or with its head. */
static enum err receive_some(struct client_exchange *x, struct fault *f)
{
    char piece[16384];
    ssize_t n = receive(x, piece, sizeof(piece));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR ? ERR_OK : ERR_AGAIN;
    if (n <= 0) {
        x->phase = CLIENT_DONE;
        return ERR_OK;
    }
    if (x->in.len + (size_t)n > CLIENT_ANSWER_MAX)
        return fault_set(f, ERR_FORMAT, "the answer is too long");
    text_add(&x->in, piece, (size_t)n);
    if (x->in.no_memory)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (x->head_alone && has_head(&x->in))
        x->phase = CLIENT_DONE;
    return ERR_OK;
}

/* Bytes of the body that the head announces; SIZE_MAX: it does not say. */
static size_t announced(const char *head, const char *end)
{
    static const char name[] = "\r\nContent-Length: ";
    const char *at = strcasestr(head, name);

    return at && at < end ? strtoul(at + sizeof(name) - 1, NULL, 10) : SIZE_MAX;
}

static enum err split_answer(struct client_exchange *x, int *status,
                             const char **body, size_t *len, struct fault *f)
{
    const char *end = x->in.s ? strstr(x->in.s, "\r\n\r\n") : NULL;
    size_t want;

    if (x->in.len == 0)
        return hung_up(x, f);
    if (!end || sscanf(x->in.s, "HTTP/1.%*1[01] %3d ", status) != 1 ||
        *status < 100)
        return fault_set(f, ERR_FORMAT, "what answers at %s is no mltune",
                         x->url);
    *body = end + 4;
    *len = x->in.len - (size_t)(*body - x->in.s);
    /* A connection that was cut must not pass for a short answer. */
    want = x->head_alone ? SIZE_MAX : announced(x->in.s, end);
    return want != SIZE_MAX && *len < want ? hung_up(x, f) : ERR_OK;
}

/* @to NULL: by the Unix socket. Owned by the caller, *@size bytes. */
static char *compose(const struct client_request *q,
                     const struct client_place *to, size_t *size)
{
    const char *body = q->bytes ? q->bytes : q->body;
    size_t len = q->bytes ? q->len : body ? strlen(body) : 0;
    struct text t = {0};

    text_printf(&t, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
                q->method, q->target, to ? to->authority : "localhost");
    if (q->key && *q->key)
        text_printf(&t, "Idempotency-Key: %s\r\n", q->key);
    if (q->after)
        text_printf(&t, "Last-Event-ID: %s\r\n", q->after);
    if (q->headers)
        text_puts(&t, q->headers);
    if (q->token && *q->token && to)
        text_printf(&t, "Authorization: Bearer %s\r\n", q->token);
    if (body) {
        text_printf(&t,
                    "Content-Type: application/%s\r\n"
                    "Content-Length: %zu\r\n\r\n",
                    q->bytes ? "octet-stream" : "json", len);
        text_add(&t, body, len);
    } else {
        text_puts(&t, "\r\n");
    }
    *size = t.len;
    return text_take(&t);
}

static time_ns deadline(const struct client_exchange *x)
{
    return clock_monotonic() + (time_ns)(x->patience_s * 1e9);
}

enum err client_open(const struct client_request *q, struct client_exchange *x,
                     struct fault *f)
{
    struct client_place to;
    enum err err = parse_url(q->url, &to, f);
    bool named = q->socket && *q->socket, local;

    assert(q->url && q->method && q->target[0] == '/');
    *x = (struct client_exchange){
        .fd = -1,
        .public_only = q->public_only,
        .head_alone = q->head_alone,
        .patience_s = q->patience_s > 0 ? q->patience_s : CLIENT_SECONDS};
    if (err)
        return err;
    snprintf(x->url, sizeof(x->url), "%s", q->url);
    x->until = deadline(x);
    if (named)
        x->fd = local_connect(q->socket);
    local = x->fd >= 0;
    /* Whoever has the port may be a stranger: it gets no token. */
    if (named && !local && !to.tls)
        return fault_errno(f, ERR_NODE, errno, "nobody answers at %s",
                           q->socket);
    x->out = compose(q, local ? NULL : &to, &x->out_len);
    if (!x->out)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!err && local)
        x->phase = CLIENT_SENDS;
    else if (!err && to.tls)
        err = client_tls_new(to.host, client_cacert, &x->tls, f);
    if (!err && !local)
        err = dial(&to, x, f);
    if (err)
        client_close(x);
    return err;
}

short client_events(const struct client_exchange *x)
{
    if (x->phase > CLIENT_CONNECTS && x->tls)
        return client_tls_writes(x->tls) ? POLLOUT : POLLIN;
    return x->phase < CLIENT_RECEIVES ? POLLOUT : POLLIN;
}

static enum err advance(struct client_exchange *x, struct fault *f)
{
    switch (x->phase) {
    case CLIENT_CONNECTS:
        return connect_some(x, f);
    case CLIENT_GREETS:
        return greet_some(x, f);
    case CLIENT_SENDS:
        return send_some(x, f);
    default:
        return receive_some(x, f);
    }
}

static enum err too_late(const struct client_exchange *x, enum err err,
                         struct fault *f)
{
    if (err != ERR_AGAIN || clock_monotonic() < x->until)
        return err;
    return fault_set(f, ERR_NODE, "the server has not answered in %.3g s",
                     x->patience_s);
}

enum err client_step(struct client_exchange *x, int *status, const char **body,
                     size_t *len, struct fault *f)
{
    enum err err = ERR_OK;

    assert(x->out); /* open */
    while (!err && x->phase != CLIENT_DONE)
        err = advance(x, f);
    if (!err)
        return split_answer(x, status, body, len, f);
    return too_late(x, err, f);
}

enum err client_take(struct client_exchange *x, char *buffer, size_t size,
                     size_t *len, struct fault *f)
{
    enum err err = ERR_OK;
    ssize_t n;

    assert(size > 0);
    assert(len);
    while (!err && x->phase < CLIENT_RECEIVES)
        err = advance(x, f);
    if (err)
        return too_late(x, err, f);
    do
        n = receive(x, buffer, size);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return too_late(x, ERR_AGAIN, f);
    *len = n > 0 ? (size_t)n : 0;
    x->until = deadline(x);
    return ERR_OK;
}

void client_close(struct client_exchange *x)
{
    client_tls_free(x->tls);
    x->tls = NULL;
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
    if (x->addresses)
        freeaddrinfo(x->addresses);
    x->addresses = x->address = NULL;
    mem_free(x->out);
    x->out = NULL;
    text_deinit(&x->in);
}

enum err client_wait(struct client_exchange *x, int *status, const char **body,
                     size_t *len, struct fault *f)
{
    enum err err;

    assert(status);
    assert(body);
    assert(len);
    while ((err = client_step(x, status, body, len, f)) == ERR_AGAIN) {
        struct pollfd p = {.fd = x->fd, .events = client_events(x)};
        time_ns left = x->until - clock_monotonic();

        poll(&p, 1, left > 0 ? (int)(left / 1000000) + 1 : 0);
    }
    return err;
}

bool client_header(const struct client_exchange *x, const char *name,
                   uint64_t *out)
{
    const char *end = x->in.s ? strstr(x->in.s, "\r\n\r\n") : NULL;
    const char *line = end ? strstr(x->in.s, "\r\n") : NULL;
    size_t n = strlen(name);
    char *stop;

    assert(name[0]);
    assert(out);
    for (; line && line < end; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) != 0 || line[n] != ':' ||
            line[n + 1] != ' ' || line[n + 2] < '0' || line[n + 2] > '9')
            continue;
        *out = strtoull(line + n + 2, &stop, 10);
        return *stop == '\r';
    }
    return false;
}

enum err client_ask(const struct client_request *q, struct client_answer *out,
                    struct fault *f)
{
    struct client_exchange x;
    struct fault why = {0};
    const char *body = NULL;
    size_t len = 0;
    enum err err = client_open(q, &x, f);

    assert(q->url);
    assert(out);
    if (err)
        return err;
    err = client_wait(&x, &out->status, &body, &len, f);
    if (!err)
        err = json_load(body, len, &out->json, NULL, &why);
    if (err == ERR_FORMAT)
        fault_set(f, err, "what answers at %s is no mltune", q->url);
    else if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    client_close(&x);
    return err;
}
