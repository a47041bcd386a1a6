/* The server on a real socket, on a port that the system chooses. */
#include "api/http/event_log.h"
#include "api/service/server_io.h"
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"
#include "tuner/shell/mailbox_io.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

struct world {
    struct http_fixture x;
    struct mailbox *mailbox; /* of the run; nobody answers by itself */
    struct api_server *server;
    unsigned port;
    char host[64]; /* "127.0.0.1:41234" */
};

static unsigned port_of(const char *url)
{
    unsigned port = 0;

    assert_int_equal(sscanf(url, "http://127.0.0.1:%u/", &port), 1);
    return port;
}

static void world_start(struct world *w, const struct reaper_limits *limits,
                        enum read_rule read)
{
    struct api_server_options options = {.limits = limits, .read = read};
    struct fault f = {0};

    http_fixture_init(&w->x);
    http_fixture_run(&w->x);
    assert_int_equal(mailbox_new(&w->mailbox), ERR_OK);
    view_steer_run(w->x.view, "run-1", w->mailbox);
    options.view = w->x.view;
    options.token = TOKEN;
    if (api_server_start(&options, &w->server, &f) != ERR_OK)
        fail_msg("%s", f.text);
    w->port = port_of(api_server_url(w->server));
    snprintf(w->host, sizeof(w->host), "127.0.0.1:%u", w->port);
}

static int setup(void **state)
{
    static struct world w;

    world_start(&w, NULL, READ_EVERYONE);
    *state = &w;
    return 0;
}

/* Only where it is crowded connections are cut soon. */
static int setup_crowded(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 60000000000,
                  [REAPER_IDLE] = 60000000000,
                  [REAPER_ANSWER] = 60000000000},
        .crowded = 300000000};
    static struct world w;

    world_start(&w, &limits, READ_EVERYONE);
    *state = &w;
    return 0;
}

/* No connection is cut for its time; who has no token is a stranger. */
static int setup_patient(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 3600000000000,
                  [REAPER_IDLE] = 3600000000000,
                  [REAPER_BODY] = 3600000000000,
                  [REAPER_ANSWER] = 3600000000000},
        .crowded = 3600000000000};
    static struct world w;

    world_start(&w, &limits, READ_TOKEN);
    *state = &w;
    return 0;
}

/* Heads are cut after 100 ms, at once where it is crowded. */
static int setup_impatient(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 100000000,
                  [REAPER_IDLE] = 100000000,
                  [REAPER_BODY] = 100000000,
                  [REAPER_ANSWER] = 60000000000},
        .crowded = 1000000};
    static struct world w;

    world_start(&w, &limits, READ_EVERYONE);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    api_server_stop(w->server);
    http_fixture_deinit(&w->x);
    mailbox_free(w->mailbox);
    return 0;
}

/* ---- a plain client ------------------------------------------------------ */

static int connect_to(unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 30}; /* of a test that would hang */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void send_bytes(int fd, const char *bytes, size_t len)
{
    /* The server may have answered and closed before the last byte. */
    (void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

struct reply {
    int status; /* 0: closed without an answer */
    bool closed;
    size_t len; /* of the body */
    char text[65536];
    char *body;
};

static size_t header_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Reads one answer; @body whether it has one (not for HEAD). */
static void read_reply(int fd, bool body, struct reply *r)
{
    size_t n = 0, want = SIZE_MAX;

    memset(r, 0, sizeof(*r));
    while (n < want) {
        ssize_t got = recv(fd, r->text + n, sizeof(r->text) - 1 - n, 0);
        char *end;

        if (got <= 0) {
            r->closed = true;
            break;
        }
        n += (size_t)got;
        r->text[n] = '\0';
        end = strstr(r->text, "\r\n\r\n");
        if (end && want == SIZE_MAX) {
            r->body = end + 4;
            r->len = body ? header_number(r->text, "Content-Length: ") : 0;
            want = (size_t)(r->body - r->text) + r->len;
        }
    }
    if (r->body)
        assert_int_equal(sscanf(r->text, "HTTP/1.1 %d", &r->status), 1);
}

/* True when the server has ended the connection (waits for it). */
static bool reads_end(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);

    return got == 0 || (got < 0 && errno == ECONNRESET);
}

/* Sends @bytes, reads the answer, and sees whether the connection then ends. */
static void exchange(struct world *w, const char *bytes, size_t len,
                     struct reply *r)
{
    int fd = connect_to(w->port);

    send_bytes(fd, bytes, len);
    read_reply(fd, strncmp(bytes, "HEAD ", 5) != 0, r);
    if (!r->closed && strstr(r->text, "Connection: close"))
        r->closed = reads_end(fd);
    close(fd);
}

/* A request as clients write it; @more: further header lines with CR LF. */
static void request(struct world *w, const char *method, const char *target,
                    const char *more, struct reply *r)
{
    char text[4096];
    int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
                     method, target, w->host, more);

    assert_true(n > 0 && (size_t)n < sizeof(text));
    exchange(w, text, (size_t)n, r);
}

static struct reply r; /* large: not on the stack */

/* ---- serving ------------------------------------------------------------- */

/* A request is answered with its JSON and all security headers. */
static void server_answers_with_security_headers(void **state)
{
    static const char *const headers[] = {
        "Content-Type: application/json\r\n",
        "Content-Security-Policy: default-src 'none'",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff\r\n",
        "X-Frame-Options: DENY\r\n",
        "Referrer-Policy: no-referrer\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Cache-Control: no-store\r\n",
    };

    request(*state, "GET", "/api/v1/runs", "", &r);
    assert_int_equal(r.status, 200);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        assert_non_null(strstr(r.text, headers[i]));
    assert_non_null(strstr(r.body, "\"run-1\""));
    assert_null(strstr(r.text, "Access-Control"));
    assert_false(r.closed);
}

/* HEAD answers as GET does, length included, without the body. */
static void server_head_has_no_body(void **state)
{
    size_t length;

    request(*state, "GET", "/api/v1/runs/run-1/trials", "", &r);
    length = r.len;
    assert_true(length > 100);
    request(*state, "HEAD", "/api/v1/runs/run-1/trials", "", &r);
    assert_int_equal(r.status, 200);
    assert_int_equal(header_number(r.text, "Content-Length: "), length);
    assert_string_equal(r.body, "");
}

/* A connection serves requests one after another, also when they were all sent
 * at once. */
static void server_keeps_connections(void **state)
{
    struct world *w = *state;
    int fd = connect_to(w->port);
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HEAD /version HTTP/1.1\r\nHost: %s\r\n\r\n", w->host);

    for (int i = 0; i < 3; i++) {
        send_bytes(fd, text, (size_t)n);
        read_reply(fd, false, &r);
        assert_int_equal(r.status, 200);
        assert_false(r.closed);
    }
    for (int i = 0; i < 3; i++)
        send_bytes(fd, text, (size_t)n);
    shutdown(fd, SHUT_WR);
    n = 0;
    while (n < 3 && !r.closed) {
        read_reply(fd, false, &r);
        for (char *at = r.text; (at = strstr(at, "HTTP/1.1 200")); at++)
            n++;
    }
    assert_int_equal(n, 3);
    assert_true(r.closed || reads_end(fd));
    close(fd);
}

/* A change shows at once; the rest is the same, byte for byte. */
static void server_answers_follow_the_state(void **state)
{
    static struct reply again;
    struct world *w = *state;

    request(w, "GET", "/api/v1/runs/run-1/decisions", "", &r);
    request(w, "GET", "/api/v1/runs/run-1/decisions", "", &again);
    assert_string_equal(r.body, again.body);
    for (int i = 0; i < 5; i++) {
        char text[32];

        snprintf(text, sizeof(text), "news %d", i);
        http_fixture_decision(&w->x, text);
        request(w, "GET", "/api/v1/runs/run-1/decisions", "", &again);
        assert_non_null(strstr(again.body, text));
    }
}

/* Answers larger than any socket's buffer arrive whole. */
static void server_sends_large_answers(void **state)
{
    struct world *w = *state;
    size_t got = 0, want;
    char text[512];
    int fd, n;

    for (int i = 0; i < 3000; i++)
        http_fixture_window(&w->x, 4, (clock_no)(30 + i), 1, 1.0 / (i + 1));
    n = snprintf(text, sizeof(text),
                 "GET /api/v1/runs/run-1/branches/4/progress?max_points=10000 "
                 "HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 w->host);
    fd = connect_to(w->port);
    send_bytes(fd, text, (size_t)n);
    read_reply(fd, false, &r);
    want = header_number(r.text, "Content-Length: ");
    assert_true(want > sizeof(r.text));
    got = strlen(r.body);
    for (ssize_t more; (more = recv(fd, r.text, sizeof(r.text), 0)) > 0;)
        got += (size_t)more;
    assert_int_equal(got, want);
    close(fd);
}

/* ---- refusals ------------------------------------------------------------ */

/* Methods other than GET and HEAD are refused with what is allowed, with or
 * without a body. */
static void server_refuses_other_methods(void **state)
{
    static const char *const methods[] = {"POST",    "PUT",   "PATCH", "DELETE",
                                          "OPTIONS", "TRACE", "BREW"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        request(*state, methods[i], "/api/v1/apps", "", &r);
        assert_int_equal(r.status, 405);
        assert_non_null(strstr(r.text, "Allow: GET, HEAD\r\n"));
        assert_true(r.closed);
        request(*state, methods[i], "/api/v1/apps",
                "Content-Type: application/json\r\nContent-Length: 0\r\n", &r);
        assert_int_equal(r.status, 405);
    }
    request(*state, "POST", "/api/v1/nothing", "", &r);
    assert_int_equal(r.status, 404);
}

/* A page of another site gets nothing, whatever the method and path. */
static void server_refuses_foreign_pages(void **state)
{
    static const char *const methods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                          "PATCH", "DELETE", "OPTIONS"};
    static const char *const headers[] = {
        "Origin: https://evil.example\r\n", "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",   "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    };
    static const char *const paths[] = {"/", "/api/v1/runs", "/healthz",
                                        "/nothing"};

    for (size_t m = 0; m < 7; m++)
        for (size_t h = 0; h < 5; h++)
            for (size_t p = 0; p < 4; p++) {
                request(*state, methods[m], paths[p], headers[h], &r);
                assert_int_equal(r.status, 403);
                assert_true(r.closed);
            }
}

/* Our own page gets through. */
static void server_serves_its_own_page(void **state)
{
    struct world *w = *state;
    char more[128];

    snprintf(more, sizeof(more),
             "Origin: http://%s\r\nSec-Fetch-Site: same-origin\r\n", w->host);
    request(w, "GET", "/api/v1/runs", more, &r);
    assert_int_equal(r.status, 200);
    request(w, "GET", "/", "Sec-Fetch-Site: none\r\n", &r);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.text, "script-src 'self'"));
}

/* A raw request, "@" in it standing for our host and port. */
struct raw {
    const char *what;
    const char *bytes;
    size_t len;
    int status; /* 0: may also be closed without an answer */
};
#define RAW(what, text, status)                                                \
    {                                                                          \
        what, text, sizeof(text) - 1, status                                   \
    }

static size_t expand(const struct raw *raw, const char *host, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < raw->len; i++) {
        if (raw->bytes[i] != '@') {
            out[n++] = raw->bytes[i];
            continue;
        }
        memcpy(out + n, host, strlen(host));
        n += strlen(host);
    }
    return n;
}

/* A request that could be read in two ways, or was not meant for us, is
 * refused, and the connection ends: nothing that follows on it is taken for a
 * request. */
static void server_refuses_malformed_requests(void **state)
{
    static const struct raw rows[] = {
        RAW("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        RAW("two hosts", "GET / HTTP/1.1\r\nHost: @\r\nHost: evil\r\n\r\n",
            400),
        RAW("foreign host", "GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 421),
        RAW("foreign port", "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 421),
        RAW("two lengths",
            "POST / HTTP/1.1\r\nHost: @\r\nContent-Length: 3\r\n"
            "Content-Length: 5\r\n\r\nabcde",
            400),
        RAW("length and coding",
            "POST / HTTP/1.1\r\nHost: @\r\nContent-Length: 3\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400),
        RAW("unknown coding",
            "GET / HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: gzip\r\n\r\n",
            400),
        RAW("two codings",
            "POST / HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: chunked, "
            "chunked\r\n\r\n",
            400),
        RAW("a body on GET",
            "GET / HTTP/1.1\r\nHost: @\r\nContent-Length: 30\r\n\r\n"
            "GET /smuggled HTTP/1.1\r\n\r\n",
            400),
        RAW("a chunked body on GET",
            "GET / HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: "
            "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            400),
        RAW("10 GB",
            "POST / HTTP/1.1\r\nHost: @\r\nContent-Length: "
            "10000000000\r\n\r\n",
            413),
        RAW("negative length",
            "POST / HTTP/1.1\r\nHost: @\r\nContent-Length: -1\r\n\r\n", 0),
        RAW("lying text",
            "POST / HTTP/1.1\r\nHost: @\r\nContent-Length: "
            "5,5\r\n\r\nhello",
            0),
        RAW("NUL in the target", "GET /healthz\0/x HTTP/1.1\r\nHost: @\r\n\r\n",
            400),
        RAW("NUL in a value", "GET / HTTP/1.1\r\nHost: @\r\nX-A: a\0b\r\n\r\n",
            400),
        RAW("NUL in the host", "GET / HTTP/1.1\r\nHost: @\0.evil\r\n\r\n", 400),
        RAW("control byte in the target",
            "GET /\x01 HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("control byte in a value",
            "GET / HTTP/1.1\r\nHost: @\r\nX-A: \x01\r\n\r\n", 400),
        RAW("8-bit byte in the target",
            "GET /\xc3\xa4 HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("%00", "GET /api/v1/runs/a%00b HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("%0a", "GET /%0a HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("broken code", "GET /%4 HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("bad UTF-8", "GET /%ff HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("bad UTF-8 in the query",
            "GET /?a=%c0%80 HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("folded line", "GET / HTTP/1.1\r\nHost: @\r\nX-A: a\r\n  b\r\n\r\n",
            400),
        RAW("bare line feeds", "GET / HTTP/1.1\nHost: @\n\n", 400),
        RAW("one bare line feed", "GET / HTTP/1.1\r\nHost: @\nX-A: b\r\n\r\n",
            400),
        RAW("carriage return in a value",
            "GET / HTTP/1.1\r\nHost: @\rX-A: b\r\n\r\n", 400),
        RAW("no blank after the colon", "GET / HTTP/1.1\r\nHost:@\r\n\r\n",
            400),
        RAW("two targets", "GET / /x HTTP/1.1\r\nHost: @\r\n\r\n", 0),
        RAW("whole url", "GET http://evil/ HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("asterisk", "OPTIONS * HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("authority", "CONNECT evil:80 HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("fragment", "GET /#a HTTP/1.1\r\nHost: @\r\n\r\n", 400),
        RAW("space before the colon", "GET / HTTP/1.1\r\nHost : @\r\n\r\n", 0),
        RAW("first line folded", "GET / HTTP/1.1\r\n Host: @\r\n\r\n", 0),
        RAW("no colon", "GET / HTTP/1.1\r\nHost: @\r\nabc\r\n\r\n", 0),
        RAW("no name", "GET / HTTP/1.1\r\nHost: @\r\n: v\r\n\r\n", 0),
        RAW("no version", "GET /\r\nHost: @\r\n\r\n", 0),
        RAW("version 2", "GET / HTTP/2.0\r\nHost: @\r\n\r\n", 0),
        RAW("preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
        RAW("tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 0),
        RAW("tabs", "GET\t/\tHTTP/1.1\r\nHost: @\r\n\r\n", 0),
    };
    struct world *w = *state;
    char bytes[1024];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exchange(w, bytes, expand(&rows[i], w->host, bytes), &r);
        if (rows[i].status ? r.status != rows[i].status
                           : r.status != 0 && r.status < 400)
            fail_msg("%s: %d", rows[i].what, r.status);
        if (!r.closed)
            fail_msg("%s: the connection lives on", rows[i].what);
        if (strstr(r.text, "smuggled"))
            fail_msg("%s: smuggled", rows[i].what);
    }
    request(w, "GET", "/healthz", "", &r);
    assert_int_equal(r.status, 200);
}

static void count_line(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    *(atomic_int *)ctx += strstr(line, "http_refused") != NULL;
}

/* A client that is refused over and over does not fill the log. */
static void server_logs_refusals_sparingly(void **state)
{
    atomic_int lines = 0;

    log_set_level(LOG_INFO);
    log_set_sink(count_line, &lines);
    for (int i = 0; i < 200; i++)
        request(*state, "GET", "/", "Origin: null\r\n", &r);
    log_set_sink(NULL, NULL);
    log_set_level(LOG_WARN);
    assert_int_equal(lines, 16 + 3); /* 32, 64, 128 */
}

/* Targets, header fields and heads that are too long are refused by kind. */
static void server_refuses_what_is_too_long(void **state)
{
    static char target[66000], more[70000];
    static char text[140000];
    static const struct {
        size_t target, value, fields;
        int status;
    } rows[] = {
        {2048, 0, 0, 404},   {2049, 0, 0, 414},  {20000, 0, 0, 414},
        {65000, 0, 0, 414},  {10, 9000, 1, 404}, {10, 17000, 1, 431},
        {10, 65000, 1, 431}, {10, 1, 63, 404},   {10, 1, 64, 431},
        {10, 1, 2000, 431},
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = 0;
        int len;

        memset(target, 'a', rows[i].target);
        target[0] = '/';
        target[rows[i].target] = '\0';
        for (size_t k = 0; k < rows[i].fields; k++) {
            n += (size_t)sprintf(more + n, "X-%zu: ", k);
            memset(more + n, 'b', rows[i].value);
            n += rows[i].value;
            n += (size_t)sprintf(more + n, "\r\n");
        }
        more[n] = '\0';
        len = snprintf(text, sizeof(text),
                       "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, w->host,
                       more);
        exchange(w, text, (size_t)len, &r);
        /* A request that the library refuses itself may be cut before all has
         * come. */
        if (r.status != rows[i].status && r.status != 0)
            fail_msg("row %zu: %d", i, r.status);
        if (rows[i].target + rows[i].fields * rows[i].value < 20000)
            assert_int_equal(r.status, rows[i].status);
    }
}

/* ---- time and places ----------------------------------------------------- */

/* A client that dribbles its head is cut, however busy it looks. */
static void server_cuts_slow_heads(void **state)
{
    struct world *w = *state;
    int fd = connect_to(w->port);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    time_ns begin = clock_monotonic();

    /* A byte every 10 ms, until the server has enough of it. */
    while (poll(&p, 1, 10) == 0)
        send_bytes(fd, "X", 1);
    assert_true(reads_end(fd));
    assert_true(clock_monotonic() - begin >= 100000000);
    close(fd);
}

/* A later request of a connection is checked alike, and for one that falls
 * silent after its first byte. One without that comes 30 s after. */
static void server_cuts_idle_connections(void **state)
{
    struct world *w = *state;
    char text[256];
    int n =
        snprintf(text, sizeof(text),
                 "HEAD /version HTTP/1.1\r\nHost: %s\r\n\r\nGET /", w->host);
    int dribbling = connect_to(w->port), silent = connect_to(w->port);

    send_bytes(silent, "G", 1);
    send_bytes(dribbling, text, (size_t)n);
    read_reply(dribbling, false, &r);
    assert_int_equal(r.status, 200);
    assert_true(reads_end(dribbling));
    assert_true(reads_end(silent));
    close(dribbling);
    close(silent);
}

/* More half-open connections than there are places do not keep others out. */
static void server_serves_others_when_crowded(void **state)
{
    enum { ATTACKERS = REAPER_CONNECTIONS_MAX + 50 };
    struct world *w = *state;
    int fd[ATTACKERS];

    for (int i = 0; i < ATTACKERS; i++) {
        fd[i] = connect_to(w->port);
        send_bytes(fd[i], "GET / HTTP/1.1\r\nX", 17);
    }
    request(w, "GET", "/healthz", "", &r);
    assert_int_equal(r.status, 200);
    for (int i = 0; i < ATTACKERS; i++)
        close(fd[i]);
    request(w, "GET", "/healthz", "", &r);
    assert_int_equal(r.status, 200);
}

#define AUTH "Authorization: Bearer " TOKEN "\r\n"

/* More answers that nobody takes than there are places keep out neither who
 * comes with the token nor who has come before with it. */
static void server_serves_others_while_answers_wait(void **state)
{
    enum { ATTACKERS = REAPER_CONNECTIONS_MAX + 50 };
    struct world *w = *state;
    const int small = 2304;
    int fd[ATTACKERS], known = connect_to(w->port);
    char text[512];
    int n =
        snprintf(text, sizeof(text),
                 "HEAD /version HTTP/1.1\r\nHost: %s\r\n" AUTH "\r\n", w->host);

    send_bytes(known, text, (size_t)n);
    read_reply(known, false, &r);
    assert_int_equal(r.status, 200);
    for (int i = 0; i < ATTACKERS; i++) {
        char ask[256];
        int len =
            snprintf(ask, sizeof(ask),
                     "GET /web/uplot.js HTTP/1.1\r\nHost: %s\r\n\r\n", w->host);

        fd[i] = connect_to(w->port);
        setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        send_bytes(fd[i], ask, (size_t)len);
    }
    request(w, "GET", "/api/v1/runs", AUTH, &r);
    assert_int_equal(r.status, 200);
    send_bytes(known, text, (size_t)n);
    read_reply(known, false, &r);
    assert_int_equal(r.status, 200);
    for (int i = 0; i < ATTACKERS; i++)
        close(fd[i]);
    close(known);
}

/* Once places are free again, who waited is served without anything else having
 * to happen. */
static void server_serves_who_waited_for_a_place(void **state)
{
    enum { ATTACKERS = REAPER_CONNECTIONS_MAX + 20 };
    struct world *w = *state;
    int fd[ATTACKERS];

    for (int i = 0; i < ATTACKERS; i++) {
        fd[i] = connect_to(w->port);
        send_bytes(fd[i], "G", 1);
    }
    request(w, "GET", "/healthz", "", &r);
    assert_int_equal(r.status, 200);
    for (int i = 0; i < ATTACKERS; i++)
        close(fd[i]);
}

/* ---- writes -------------------------------------------------------------- */

#define PAUSE "/api/v1/runs/run-1:pause"

struct steered {
    struct world *w;
    unsigned commands; /* to be answered */
};

/* Answers as a run's control loop would. */
static void *steer(void *arg)
{
    struct steered *s = arg;

    for (unsigned i = 0; i < s->commands; i++) {
        struct pollfd p = {.fd = mailbox_fd(s->w->mailbox), .events = POLLIN};
        struct tuner_answer a = {.changed = true, .text = "as you like"};
        struct mailbox_request request;
        mailbox_ticket ticket;

        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_true(mailbox_take(s->w->mailbox, &request, &ticket));
        if (request.command == COMMAND_LIMITS)
            a.limits.max_epochs = request.args.limits.to.max_epochs;
        mailbox_answer(s->w->mailbox, ticket, &a);
    }
    return NULL;
}

/* A write reaches the run and its answer the client, body or not, one after
 * another on one connection, which reads as well. */
static void server_carries_writes_to_the_run(void **state)
{
    struct world *w = *state;
    struct steered s = {w, 6};
    int fd = connect_to(w->port);
    char text[512];
    pthread_t thread;

    pthread_create(&thread, NULL, steer, &s);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text),
                 "POST " PAUSE " HTTP/1.1\r\nHost: %s\r\n" AUTH "\r\n",
                 w->host);
        send_bytes(fd, text, strlen(text));
        read_reply(fd, true, &r);
        assert_int_equal(r.status, 202);
        assert_non_null(strstr(r.body, "as you like"));
        snprintf(text, sizeof(text),
                 "PATCH /api/v1/runs/run-1 HTTP/1.1\r\nHost: %s\r\n" AUTH
                 "Content-Type: application/json\r\n"
                 "Content-Length: 26\r\n\r\n{\"stop\":{\"max_epochs\":4%d}}",
                 w->host, i);
        send_bytes(fd, text, strlen(text) - 7); /* the body in two pieces */
        send_bytes(fd, text + strlen(text) - 7, 7);
        read_reply(fd, true, &r);
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(r.body, "\"max_epochs\":4"));
        snprintf(text, sizeof(text),
                 "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", w->host);
        send_bytes(fd, text, strlen(text));
        read_reply(fd, true, &r);
        assert_int_equal(r.status, 200);
    }
    pthread_join(thread, NULL);
    close(fd);
}

/* Without the token a write is refused before its body is read. */
static void server_refuses_writes_without_the_token(void **state)
{
    static const char *const headers[] = {
        "", "Authorization: Bearer 0123456789abcdef\r\n",
        "Content-Type: application/json\r\nContent-Length: 500000\r\n"};
    struct world *w = *state;
    struct mailbox_request none;
    mailbox_ticket ticket;

    for (size_t i = 0; i < 3; i++) {
        request(w, "POST", PAUSE, headers[i], &r);
        assert_int_equal(r.status, 401);
        assert_non_null(strstr(r.text, "WWW-Authenticate: Bearer\r\n"));
        assert_true(r.closed);
    }
    request(w, "POST", PAUSE, AUTH "Content-Length: 2\r\n", &r);
    assert_int_equal(r.status, 415);
    request(w, "POST", PAUSE, AUTH "Origin: http://evil.example\r\n", &r);
    assert_int_equal(r.status, 403);
    assert_false(mailbox_take(w->mailbox, &none, &ticket));
}

/* Bodies that are too long, announced or in chunks, are refused; memory is
 * bounded by what one may have. */
static void server_refuses_long_bodies(void **state)
{
    static char chunk[65536 + 16];
    struct world *w = *state;
    char text[512];
    int fd = connect_to(w->port);

    request(w, "PATCH", "/api/v1/runs/run-1",
            AUTH "Content-Type: application/json\r\n"
                 "Content-Length: 100000000\r\n",
            &r);
    assert_int_equal(r.status, 413);
    assert_true(r.closed);
    snprintf(text, sizeof(text),
             "PATCH /api/v1/runs/run-1 HTTP/1.1\r\nHost: %s\r\n" AUTH
             "Content-Type: application/json\r\n"
             "Transfer-Encoding: chunked\r\n\r\n",
             w->host);
    send_bytes(fd, text, strlen(text));
    memcpy(chunk, "10000\r\n", 7);
    memset(chunk + 7, ' ', 65536);
    memcpy(chunk + 7 + 65536, "\r\n", 2);
    for (int i = 0; i < 20; i++)
        send_bytes(fd, chunk, 7 + 65536 + 2);
    send_bytes(fd, "0\r\n\r\n", 5);
    read_reply(fd, true, &r);
    assert_int_equal(r.status, 413);
    assert_true(reads_end(fd));
    close(fd);
}

/* A body that dribbles is cut, however busy it looks. */
static void server_cuts_slow_bodies(void **state)
{
    struct world *w = *state;
    int fd = connect_to(w->port);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[512];

    snprintf(text, sizeof(text),
             "PATCH /api/v1/runs/run-1 HTTP/1.1\r\nHost: %s\r\n" AUTH
             "Content-Type: application/json\r\n"
             "Content-Length: 100000\r\n\r\n",
             w->host);
    send_bytes(fd, text, strlen(text));
    while (poll(&p, 1, 10) == 0)
        send_bytes(fd, " ", 1);
    assert_true(reads_end(fd));
    close(fd);
}

static void wait_for_command(struct world *w)
{
    struct pollfd p = {.fd = mailbox_fd(w->mailbox), .events = POLLIN};

    assert_int_equal(poll(&p, 1, 60000), 1);
}

/* A client that leaves before the run has answered leaves nothing behind; one
 * that waits when the server stops is let go. */
static void server_stops_under_waiting_writes(void **state)
{
    struct world *w = *state;
    int fd[2];
    char text[512];

    snprintf(text, sizeof(text),
             "POST " PAUSE " HTTP/1.1\r\nHost: %s\r\n" AUTH "\r\n", w->host);
    for (int i = 0; i < 2; i++) {
        fd[i] = connect_to(w->port);
        send_bytes(fd[i], text, strlen(text));
    }
    wait_for_command(w);
    close(fd[0]);
    request(w, "GET", "/healthz", "", &r); /* others are served meanwhile */
    assert_int_equal(r.status, 200);
    api_server_stop(w->server);
    w->server = NULL;
    while (recv(fd[1], r.text, sizeof(r.text), 0) > 0)
        ;
    close(fd[1]);
}

static void *stop_server(void *arg)
{
    struct world *w = arg;

    api_server_stop(w->server);
    w->server = NULL;
    return NULL;
}

/* A stream from the beginning of the run; @receive_bytes: what its client's
 * socket holds, 0: as the system has it. */
static int open_stream(struct world *w, const char *last, int receive_bytes)
{
    int fd = connect_to(w->port);
    char text[512];

    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof(receive_bytes));
    snprintf(text, sizeof(text),
             "GET /api/v1/runs/run-1/events HTTP/1.0\r\nHost: %s\r\n%s\r\n",
             w->host, last);
    send_bytes(fd, text, strlen(text));
    assert_true(recv(fd, r.text, sizeof(r.text), 0) > 0);
    return fd;
}

/* A write that is complete only while the server says its last words, which a
 * stream that nobody reads draws out, is refused or cut off: it waits for
 * nobody. */
static void server_refuses_writes_while_it_stops(void **state)
{
    enum { EVENTS = 2 * EVENT_LOG_BYTES / EVENT_TEXT_MAX - 2 };
    static char event[EVENT_TEXT_MAX / 2];
    struct world *w = *state;
    struct event_log *log;
    pthread_t stopping;
    int slow, quick, fd;
    char text[512];

    memset(event, ' ', sizeof(event) - 1);
    event[0] = '{';
    event[sizeof(event) - 2] = '}';
    assert_int_equal(event_log_new(&log), ERR_OK);
    view_publish_run(w->x.view, "run-1", log);
    for (unsigned i = 1; i <= EVENTS; i++)
        event_log_append(log, i, "decision", event);
    slow = open_stream(w, "Last-Event-ID: 1\r\n", 4096);
    quick = open_stream(w, "", 0);
    fd = connect_to(w->port);
    snprintf(text, sizeof(text),
             "POST " PAUSE " HTTP/1.1\r\nHost: %s\r\n" AUTH
             "Content-Type: application/json\r\n"
             "Content-Length: 2\r\n\r\n{}",
             w->host);
    send_bytes(fd, text, strlen(text) - 1);
    pthread_create(&stopping, NULL, stop_server, w);
    while (recv(quick, r.text, sizeof(r.text), 0) > 0)
        ; /* its end is among the last words */
    send_bytes(fd, "}", 1);
    read_reply(fd, true, &r);
    pthread_join(stopping, NULL);
    if (r.status != 503 && r.status != 0)
        fail_msg("%s", r.text);
    close(fd);
    close(quick);
    close(slow);
    view_publish_run(w->x.view, "run-1", NULL);
    event_log_free(log);
}

/* ---- starting and stopping ----------------------------------------------- */

/* A port that is taken is refused, with what to do; after the other has
 * stopped, with clients connected, it can be had at once. */
static void server_port_in_use_then_free(void **state)
{
    struct world *w = *state;
    struct api_server_options options = {.listen = w->host, .view = w->x.view};
    struct api_server *second = NULL;
    struct fault f = {0};
    int fd = connect_to(w->port);

    send_bytes(fd, "GET / HT", 8);
    assert_int_equal(api_server_start(&options, &second, &f), ERR_BUSY);
    assert_non_null(strstr(f.text, "address already in use"));
    assert_non_null(strstr(f.text, "ss -ltnp"));
    assert_null(second);

    api_server_stop(w->server);
    w->server = NULL;
    assert_true(reads_end(fd));
    assert_int_equal(api_server_start(&options, &second, &f), ERR_OK);
    request(w, "GET", "/healthz", "", &r);
    assert_int_equal(r.status, 200);
    api_server_stop(second);
    close(fd);
}

/* Stopping does not wait for clients: not for silent ones, not for half a
 * request, not for one that does not read its answer. */
static void server_stops_under_clients(void **state)
{
    struct world *w = *state;
    char text[512];
    int fd[3], n;

    for (int i = 0; i < 3000; i++)
        http_fixture_window(&w->x, 4, (clock_no)(30 + i), 1, 1.0);
    n = snprintf(text, sizeof(text),
                 "GET /api/v1/runs/run-1/branches/4/progress?max_points=10000 "
                 "HTTP/1.1\r\nHost: %s\r\n\r\n",
                 w->host);
    for (int i = 0; i < 3; i++)
        fd[i] = connect_to(w->port);
    send_bytes(fd[1], "GET /", 5);
    for (int i = 0; i < 20; i++)
        send_bytes(fd[2], text, (size_t)n);
    request(w, "GET", "/healthz", "", &r);
    api_server_stop(w->server);
    w->server = NULL;
    /* Who has said nothing yet (TCP_DEFER_ACCEPT) is told when he does. */
    send_bytes(fd[0], "G", 1);
    for (int i = 0; i < 3; i++) {
        errno = 0;
        while (recv(fd[i], r.text, sizeof(r.text), 0) > 0)
            ;
        assert_int_not_equal(errno, EAGAIN);
        close(fd[i]);
    }
}

/* An address that others could reach, or none at all, is refused before
 * anything is opened. */
static void server_refuses_other_addresses(void **state)
{
    struct world *w = *state;
    struct api_server_options options = {.view = w->x.view};
    struct api_server *none = NULL;
    struct fault f = {0};

    options.listen = "0.0.0.0:0";
    assert_int_equal(api_server_start(&options, &none, &f), ERR_UNSUPPORTED);
    assert_non_null(strstr(f.text, "TLS"));
    options.listen = "127.0.0.1:x";
    assert_int_equal(api_server_start(&options, &none, &f), ERR_INVAL);
    assert_null(none);
}

/* Started and stopped, used or not, a server leaves no memory behind; it cannot
 * start without any. */
static void server_start_and_stop_leave_nothing(void **state)
{
    struct world *w = *state;
    struct api_server_options options = {.view = w->x.view};
    struct api_server *s = NULL;
    int64_t before;

    api_server_stop(NULL);
    api_server_stop(w->server);
    w->server = NULL;
    before = mem_outstanding();
    mem_fail_at(1, 0);
    assert_int_equal(api_server_start(&options, &s, NULL), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(api_server_start(&options, &s, NULL), ERR_OK);
    w->port = port_of(api_server_url(s));
    snprintf(w->host, sizeof(w->host), "127.0.0.1:%u", w->port);
    request(w, "GET", "/api/v1/runs", "", &r);
    request(w, "GET", "/nothing", "", &r);
    request(w, "GET", "/%", "", &r);
    api_server_stop(s);
    assert_int_equal(mem_outstanding(), before);
}

/* Descriptors that are open beyond stdio: their set as bits. */
static void open_fds(bool set[256])
{
    memset(set, 0, 256 * sizeof(*set));
    for (int fd = 3; fd < 256; fd++)
        set[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Descriptors of the server are not for children: a node that outlives the
 * tuner must not hold its port. */
static void server_descriptors_stay_in_the_process(void **state)
{
    struct world *w = *state;
    bool before[256], after[256];
    struct api_server_options options = {.view = w->x.view};
    struct api_server *s;
    unsigned opened = 0;
    int client;

    open_fds(before);
    assert_int_equal(api_server_start(&options, &s, NULL), ERR_OK);
    client = connect_to(port_of(api_server_url(s)));
    send_bytes(client, "GET / HTTP/1.1\r\n\r\n", 18);
    read_reply(client, true, &r); /* by now the server has its end */
    open_fds(after);
    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (before[fd] || !after[fd] || flags < 0)
            continue;
        assert_true(flags & FD_CLOEXEC);
        opened++;
    }
    assert_true(opened >= 4); /* listener, wake-up, epoll, client */
    close(client);
    api_server_stop(s);
    open_fds(after);
    assert_memory_equal(before, after, sizeof(before));
}

/* Value of "Name:\t..." in the status of task @task; "" where there is none. */
static void task_status(const char *task, const char *name, char out[64])
{
    char path[64], line[256];
    size_t n = strlen(name);
    FILE *file;

    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", task);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            sscanf(line + n + 1, " %63s", out);
    }
    if (file)
        fclose(file);
}

/* Threads of servers that there are, and in @blocked the signals that one of
 * them blocks. */
static unsigned server_threads(unsigned long long *blocked)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned found = 0;

    while ((entry = readdir(tasks))) {
        char name[64], text[64];

        task_status(entry->d_name, "Name", name);
        if (strcmp(name, "http") != 0)
            continue;
        task_status(entry->d_name, "SigBlk", text);
        *blocked = strtoull(text, NULL, 16);
        found++;
    }
    closedir(tasks);
    return found;
}

/* Signals are for the program's own threads: the server's blocks them all. That
 * of the test before may be listed for a moment after it was joined. */
static void server_thread_takes_no_signal(void **state)
{
    unsigned long long blocked = 0;
    time_ns until = clock_monotonic() + 60 * (time_ns)1000000000;

    request(*state, "GET", "/healthz", "", &r); /* the thread runs by now */
    while (server_threads(&blocked) != 1) {
        assert_true(clock_monotonic() < until);
        usleep(1000);
    }
    /* SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGTERM */
    assert_int_equal(blocked & 0x5a06, 0x5a06);
}

/* ---- threads ------------------------------------------------------------- */

struct load {
    struct world *w;
    atomic_bool done;
    struct reply r;
};

static void *read_all(void *arg)
{
    static const char *const targets[] = {
        "/api/v1/runs",
        "/api/v1/runs/run-1",
        "/api/v1/runs/run-1/trials",
        "/api/v1/runs/run-1/branches?live=true",
        "/api/v1/runs/run-1/branches/4/progress?lineage=true&max_points=50",
        "/api/v1/runs/run-1/decisions?order=desc&page_size=5",
    };
    struct load *load = arg;
    size_t i = 0;

    while (!atomic_load(&load->done)) {
        request(load->w, "GET", targets[i++ % 6], "", &load->r);
        assert_int_equal(load->r.status, 200);
    }
    return NULL;
}

/* Readers and the writer do not disturb each other (tsan watches). */
static void server_reads_while_the_run_goes_on(void **state)
{
    struct world *w = *state;
    static struct load load[2];
    pthread_t thread[2];

    for (int i = 0; i < 2; i++) {
        load[i].w = w;
        atomic_store(&load[i].done, false);
        pthread_create(&thread[i], NULL, read_all, &load[i]);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        http_fixture_window(&w->x, 4, 30 + i, 1, 1.0 / (i + 1));
        if (i % 10 == 0) {
            http_fixture_decision(&w->x, "again");
            http_fixture_branch(&w->x, 6 + i, 4, BRANCH_TRAINING, "trial");
        }
        if (i % 100 == 0)
            request(w, "GET", "/api/v1/runs/run-1", "", &r);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&load[i].done, true);
        pthread_join(thread[i], NULL);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define QUICK(test)                                                            \
    cmocka_unit_test_setup_teardown(test, setup_impatient, teardown)
    const struct CMUnitTest tests[] = {
        WITH(server_answers_with_security_headers),
        WITH(server_head_has_no_body),
        WITH(server_keeps_connections),
        WITH(server_answers_follow_the_state),
        WITH(server_sends_large_answers),
        WITH(server_refuses_other_methods),
        WITH(server_refuses_foreign_pages),
        WITH(server_serves_its_own_page),
        WITH(server_refuses_malformed_requests),
        WITH(server_logs_refusals_sparingly),
        WITH(server_refuses_what_is_too_long),
        WITH(server_carries_writes_to_the_run),
        WITH(server_refuses_writes_without_the_token),
        WITH(server_refuses_long_bodies),
        QUICK(server_cuts_slow_bodies),
        WITH(server_stops_under_waiting_writes),
        WITH(server_refuses_writes_while_it_stops),
        QUICK(server_cuts_slow_heads),
        QUICK(server_cuts_idle_connections),
        QUICK(server_serves_others_when_crowded),
        cmocka_unit_test_setup_teardown(server_serves_others_while_answers_wait,
                                        setup_patient, teardown),
        cmocka_unit_test_setup_teardown(server_serves_who_waited_for_a_place,
                                        setup_crowded, teardown),
        WITH(server_port_in_use_then_free),
        WITH(server_stops_under_clients),
        WITH(server_refuses_other_addresses),
        WITH(server_start_and_stop_leave_nothing),
        WITH(server_descriptors_stay_in_the_process),
        WITH(server_thread_takes_no_signal),
        WITH(server_reads_while_the_run_goes_on),
    };

    json_count_memory();
    if (!http_fixture_allow_files(2500)) {
        print_error("fewer than 2500 files may be open: ulimit -Hn 2500\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
