/* The command line's client against a server of a few lines, on this machine.
 * With TLS, and against the real server: tests/unit/api/http/test_tls.c. */
#include "base/host/local_io.h"
#include "cli/remote/client.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

/* A server that answers one request with a text, and hangs up. */
struct server {
    int fd;
    char url[CLIENT_URL_MAX];
    char request[4096]; /* that came */
};

static void server_open(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(s->fd, 1), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u",
             (unsigned)ntohs(at.sin_port));
}

/* Takes @q's request in, gives @text for an answer, and steps @x to its end. */
static enum err exchange(struct server *s, struct client_request q,
                         const char *text, struct client_exchange *x,
                         int *status, const char **body, size_t *len,
                         struct fault *f)
{
    ssize_t n;
    enum err err;
    int fd;

    q.url = s->url;
    assert_int_equal(client_open(&q, x, f), ERR_OK);
    fd = accept(s->fd, NULL, NULL);
    while ((err = client_step(x, status, body, len, f)) == ERR_AGAIN &&
           x->phase != CLIENT_RECEIVES)
        ;
    n = recv(fd, s->request, sizeof(s->request) - 1, 0);
    assert_true(n > 0);
    s->request[n] = '\0';
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL),
                     (ssize_t)strlen(text));
    close(fd);
    while ((err = client_step(x, status, body, len, f)) == ERR_AGAIN)
        ;
    return err;
}

/* A request has what was asked for, and nothing that was not; the answer's
 * status, numbers of its head and body are read. */
static void client_asks_and_reads(void **state)
{
    static const char answer[] = "HTTP/1.1 202 Accepted\r\nX-Next: 17\r\n"
                                 "X-Word: a1\r\nContent-Length: 8\r\n\r\n"
                                 "{\"a\": 1}";
    struct client_request q = {.method = "POST",
                               .target = "/api/v1/runs/x:pause",
                               .token = TOKEN,
                               .key = "once",
                               .body = "{}"};
    struct client_exchange x;
    struct server s;
    struct fault f = {0};
    const char *body;
    uint64_t next = 0;
    size_t len;
    int status;

    (void)state;
    server_open(&s);
    assert_int_equal(exchange(&s, q, answer, &x, &status, &body, &len, &f),
                     ERR_OK);
    assert_int_equal(status, 202);
    assert_int_equal(len, 8);
    assert_memory_equal(body, "{\"a\": 1}", 8);
    assert_true(client_header(&x, "x-next", &next));
    assert_int_equal(next, 17);
    assert_false(client_header(&x, "X-Word", &next));
    assert_false(client_header(&x, "X-Absent", &next));
    assert_int_equal(
        strncmp(s.request, "POST /api/v1/runs/x:pause HTTP/1.1\r\n", 36), 0);
    assert_non_null(strstr(s.request, "\r\nIdempotency-Key: once\r\n"));
    assert_non_null(strstr(s.request, "\r\nAuthorization: Bearer " TOKEN));
    assert_non_null(strstr(s.request, "\r\nContent-Length: 2\r\n\r\n{}"));
    assert_null(strstr(s.request, "Last-Event-ID"));
    client_close(&x);
    q = (struct client_request){.method = "GET", .target = "/", .after = "9"};
    assert_int_equal(exchange(&s, q, answer, &x, &status, &body, &len, &f),
                     ERR_OK);
    assert_non_null(strstr(s.request, "\r\nLast-Event-ID: 9\r\n"));
    assert_null(strstr(s.request, "Authorization"));
    assert_null(strstr(s.request, "Content-Length"));
    client_close(&x);
    close(s.fd);
}

/* By a Unix socket goes no token; where nobody listens there, the address is
 * not asked: whoever listens at it would get the token. */
static void client_asks_by_the_socket(void **state)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\n\r\n{}";
    struct client_request q = {.method = "GET",
                               .target = "/api/v1/runs",
                               .token = TOKEN,
                               .socket = scratch_path("s")};
    struct client_exchange x;
    struct server s, by_socket;
    struct fault f = {0};
    const char *body;
    size_t len;
    int status;

    (void)state;
    server_open(&s);
    by_socket = s;
    assert_int_equal(local_listen(q.socket, &by_socket.fd, &f), ERR_OK);
    assert_int_equal(
        exchange(&by_socket, q, answer, &x, &status, &body, &len, &f), ERR_OK);
    assert_int_equal(status, 200);
    assert_non_null(strstr(by_socket.request, "\r\nHost: localhost\r\n"));
    assert_null(strstr(by_socket.request, TOKEN));
    client_close(&x);
    close(by_socket.fd);
    q.url = s.url;
    assert_int_equal(client_open(&q, &x, &f), ERR_NODE);
    assert_non_null(strstr(f.text, q.socket));
    assert_int_equal(fcntl(s.fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(accept(s.fd, NULL, NULL), -1);
    close(s.fd);
}

/* A server that speaks something else is named as such, one that hangs up
 * without a word, too. */
static void client_knows_who_is_no_mltune(void **state)
{
    static const struct {
        const char *answer, *text;
        enum err err;
    } cases[] = {
        {"220 mail.example ESMTP\r\n\r\n", "is no mltune", ERR_FORMAT},
        {"HTTP/2 200\r\n\r\n{}", "is no mltune", ERR_FORMAT},
        {"HTTP/1.1 200 OK\r\n", "is no mltune", ERR_FORMAT},
        {"", "hung up", ERR_NODE},
    };
    const struct client_request q = {.method = "GET", .target = "/"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct client_exchange x;
        struct server s;
        struct fault f = {0};
        const char *body;
        size_t len;
        int status;

        server_open(&s);
        assert_int_equal(
            exchange(&s, q, cases[i].answer, &x, &status, &body, &len, &f),
            cases[i].err);
        assert_non_null(strstr(f.text, cases[i].text));
        assert_non_null(strstr(f.text, s.url));
        client_close(&x);
        close(s.fd);
    }
}

/* Where nobody listens the address is named. */
static void client_names_who_does_not_answer(void **state)
{
    struct client_request q = {.method = "GET", .target = "/"};
    struct client_answer answer = {0};
    struct server s;
    struct fault f = {0};

    (void)state;
    server_open(&s);
    close(s.fd);
    q.url = s.url;
    assert_int_equal(client_ask(&q, &answer, &f), ERR_NODE);
    assert_non_null(strstr(f.text, s.url));
}

/* An address without TLS is loopback's; what is no address is refused. */
static void client_keeps_tokens_from_the_network(void **state)
{
    static const char *const urls[] = {"http://example.org:80/",
                                       "http://192.168.0.1:8080",
                                       "http://127.0.0.1.x:80/",
                                       "ftp://localhost:1/",
                                       "https://user@localhost:1/",
                                       "https://localhost:x/",
                                       "https://localhost:1/a",
                                       "https://[::1:80/",
                                       "https:///",
                                       "http://localhost/",
                                       "https://[]:1/x?",
                                       "localhost:80"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        const struct client_request q = {
            .url = urls[i], .method = "GET", .target = "/", .token = TOKEN};
        struct client_answer answer = {0};
        struct fault f = {0};

        if (client_ask(&q, &answer, &f) != ERR_INVAL)
            fail_msg("%s: %s", urls[i], f.text);
    }
}

/* A connection that is cut in the middle of an answer is no answer. */
static void client_notices_a_cut_answer(void **state)
{
    static const char part[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}";
    const struct client_request q = {.method = "GET", .target = "/"};
    struct client_exchange x;
    struct server s;
    struct fault f = {0};
    const char *body;
    size_t len;
    int status;

    (void)state;
    server_open(&s);
    assert_int_equal(exchange(&s, q, part, &x, &status, &body, &len, &f),
                     ERR_NODE);
    client_close(&x);
    close(s.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_asks_and_reads),
        cmocka_unit_test_setup_teardown(client_asks_by_the_socket, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(client_knows_who_is_no_mltune),
        cmocka_unit_test(client_names_who_does_not_answer),
        cmocka_unit_test(client_keeps_tokens_from_the_network),
        cmocka_unit_test(client_notices_a_cut_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
