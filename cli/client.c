#include "cli/client.h"

#include "base/clock_io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

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

static enum err send_all(int fd, const char *text, size_t len, struct fault *f)
{
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

        if (n <= 0)
            return fault_errno(f, ERR_NODE, errno, "the server hung up");
        text += n;
        len -= (size_t)n;
    }
    return ERR_OK;
}

/* Everything until the server hangs up. */
static enum err receive_all(int fd, struct text *out, struct fault *f)
{
    time_ns until = clock_monotonic() + (time_ns)CLIENT_SECONDS * 1000000000;
    char piece[16384];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        time_ns left = until - clock_monotonic();
        ssize_t n;

        if (left <= 0 || poll(&p, 1, (int)(left / 1000000) + 1) == 0)
            return fault_set(f, ERR_NODE, "the server has not answered in %d s",
                             CLIENT_SECONDS);
        n = recv(fd, piece, sizeof(piece), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return out->no_memory
                       ? fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM))
                       : ERR_OK;
        if (out->len + (size_t)n > CLIENT_ANSWER_MAX)
            return fault_set(f, ERR_FORMAT, "the answer is too long");
        text_add(out, piece, (size_t)n);
    }
}

static enum err parse_answer(const struct text *t, const char *url,
                             struct client_answer *out, struct fault *f)
{
    const char *body = t->s ? strstr(t->s, "\r\n\r\n") : NULL;
    struct fault why = {0};
    int status;
    enum err err = ERR_FORMAT;

    if (t->len == 0)
        return fault_set(f, ERR_NODE, "the server at %s hung up", url);
    if (body && sscanf(t->s, "HTTP/1.%*1[01] %3d ", &status) == 1)
        err = json_load(body + 4, t->len - (size_t)(body + 4 - t->s),
                        &out->json, NULL, &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    if (err)
        return fault_set(f, ERR_FORMAT, "what answers at %s is no mltune", url);
    out->status = status;
    return ERR_OK;
}

static char *compose(const struct client_request *q, const struct place *to)
{
    struct text t = {0};

    text_printf(&t, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
                q->method, q->target, to->authority);
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

enum err client_ask(const struct client_request *q, struct client_answer *out,
                    struct fault *f)
{
    struct text answer = {0};
    struct place to;
    char *text;
    int fd = -1;
    enum err err = parse_url(q->url, &to, f);

    if (err)
        return err;
    text = compose(q, &to);
    if (!text)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = dial(&to, q->url, &fd, f);
    if (!err)
        err = send_all(fd, text, strlen(text), f);
    if (!err)
        err = receive_all(fd, &answer, f);
    if (!err)
        err = parse_answer(&answer, q->url, out, f);
    if (fd >= 0)
        close(fd);
    text_deinit(&answer);
    mem_free(text);
    return err;
}
