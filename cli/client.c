#include "cli/client.h"

#include "base/clock_io.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct place {
    char host[64], port[8];
    char authority[80]; /* as in Host */
};

/* "http://HOST:PORT", with a path of "/" or none. */
static enum err parse_url(const char *url, struct place *out, struct fault *f)
{
    static const char scheme[] = "http://";
    const char *host = url + sizeof(scheme) - 1, *port;
    size_t n;

    if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
        goto wrong;
    n = strcspn(host, "/");
    if (n >= sizeof(out->authority) || (host[n] && strcmp(host + n, "/") != 0))
        goto wrong;
    snprintf(out->authority, sizeof(out->authority), "%.*s", (int)n, host);
    port = strrchr(out->authority, ':');
    if (!port || strlen(port + 1) >= sizeof(out->port) || !port[1] ||
        port[1 + strspn(port + 1, "0123456789")])
        goto wrong;
    snprintf(out->port, sizeof(out->port), "%s", port + 1);
    snprintf(out->host, sizeof(out->host), "%.*s", (int)(port - out->authority),
             out->authority);
    if (strcmp(out->host, "[::1]") == 0)
        snprintf(out->host, sizeof(out->host), "::1");
    else if (strcmp(out->host, "127.0.0.1") != 0 &&
             strcmp(out->host, "localhost") != 0)
        return fault_set(f, ERR_INVAL,
                         "%.100s is not on this machine: forward the port "
                         "(ssh -L) and name the loopback address",
                         url);
    return ERR_OK;

wrong:
    return fault_set(f, ERR_INVAL,
                     "\"%.100s\" is no address: expected "
                     "http://127.0.0.1:PORT/",
                     url);
}

static enum err dial(const struct place *to, const char *url, int *out,
                     struct fault *f)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int fd = -1, errnum = EADDRNOTAVAIL;

    if (getaddrinfo(to->host, to->port, &hints, &list) == 0) {
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
            fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
                errnum = errno;
                close(fd);
                fd = -1;
            }
        }
        freeaddrinfo(list);
    }
    if (fd < 0)
        return fault_errno(f, ERR_NODE, errnum, "nobody answers at %s", url);
    *out = fd;
    return ERR_OK;
}

static enum err hung_up(const struct client_exchange *x, struct fault *f)
{
    return fault_set(f, ERR_NODE, "the server at %s hung up", x->url);
}

/* False: the socket takes no more now, or *@err says why it never will. */
static bool send_some(struct client_exchange *x, enum err *err, struct fault *f)
{
    ssize_t n = send(x->fd, x->out + x->sent, x->out_len - x->sent,
                     MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n > 0)
        x->sent += (size_t)n;
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    else
        *err = hung_up(x, f);
    return !*err;
}

/* The same of the answer, which is whole when the server hangs up. */
static bool receive_some(struct client_exchange *x, enum err *err,
                         struct fault *f)
{
    char piece[16384];
    ssize_t n = recv(x->fd, piece, sizeof(piece), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0)
        x->whole = true;
    else if (x->in.len + (size_t)n > CLIENT_ANSWER_MAX)
        *err = fault_set(f, ERR_FORMAT, "the answer is too long");
    else
        text_add(&x->in, piece, (size_t)n);
    if (x->in.no_memory)
        *err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    return n > 0 && !*err;
}

static enum err split_answer(struct client_exchange *x, int *status,
                             const char **body, size_t *len, struct fault *f)
{
    const char *end = x->in.s ? strstr(x->in.s, "\r\n\r\n") : NULL;

    if (x->in.len == 0)
        return hung_up(x, f);
    if (!end || sscanf(x->in.s, "HTTP/1.%*1[01] %3d ", status) != 1)
        return fault_set(f, ERR_FORMAT, "what answers at %s is no mltune",
                         x->url);
    *body = end + 4;
    *len = x->in.len - (size_t)(*body - x->in.s);
    return ERR_OK;
}

static char *compose(const struct client_request *q, const struct place *to)
{
    struct text t = {0};

    text_printf(&t, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
                q->method, q->target, to->authority);
    if (q->key && *q->key)
        text_printf(&t, "Idempotency-Key: %s\r\n", q->key);
    if (q->token)
        text_printf(&t, "Authorization: Bearer %s\r\n", q->token);
    if (q->body)
        text_printf(&t,
                    "Content-Type: application/json\r\n"
                    "Content-Length: %zu\r\n\r\n%s",
                    strlen(q->body), q->body);
    else
        text_puts(&t, "\r\n");
    return text_take(&t);
}

enum err client_open(const struct client_request *q, struct client_exchange *x,
                     struct fault *f)
{
    struct place to;
    enum err err = parse_url(q->url, &to, f);

    *x = (struct client_exchange){.fd = -1};
    if (err)
        return err;
    snprintf(x->url, sizeof(x->url), "%s", q->url);
    x->until = clock_monotonic() + (time_ns)CLIENT_SECONDS * 1000000000;
    x->out = compose(q, &to);
    if (!x->out)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    x->out_len = strlen(x->out);
    err = dial(&to, q->url, &x->fd, f);
    if (err)
        client_close(x);
    return err;
}

short client_events(const struct client_exchange *x)
{
    return x->sent < x->out_len ? POLLOUT : POLLIN;
}

enum err client_step(struct client_exchange *x, int *status, const char **body,
                     size_t *len, struct fault *f)
{
    enum err err = ERR_OK;

    while (x->sent < x->out_len && send_some(x, &err, f))
        ;
    while (!err && x->sent == x->out_len && !x->whole &&
           receive_some(x, &err, f))
        ;
    if (err)
        return err;
    if (x->whole)
        return split_answer(x, status, body, len, f);
    if (clock_monotonic() >= x->until)
        return fault_set(f, ERR_NODE, "the server has not answered in %d s",
                         CLIENT_SECONDS);
    return ERR_AGAIN;
}

void client_close(struct client_exchange *x)
{
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
    mem_free(x->out);
    x->out = NULL;
    text_deinit(&x->in);
}

enum err client_ask(const struct client_request *q, struct client_answer *out,
                    struct fault *f)
{
    struct client_exchange x;
    struct fault why = {0};
    const char *body = NULL;
    size_t len = 0;
    enum err err = client_open(q, &x, f);

    if (err)
        return err;
    while ((err = client_step(&x, &out->status, &body, &len, f)) == ERR_AGAIN) {
        struct pollfd p = {.fd = x.fd, .events = client_events(&x)};
        time_ns left = x.until - clock_monotonic();

        poll(&p, 1, left > 0 ? (int)(left / 1000000) + 1 : 0);
    }
    if (!err)
        err = json_load(body, len, &out->json, NULL, &why);
    if (err == ERR_FORMAT)
        fault_set(f, err, "what answers at %s is no mltune", q->url);
    else if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    client_close(&x);
    return err;
}
