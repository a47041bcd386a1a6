/* The server with TLS, the command line's client with and without, on sockets
 * of this machine, with a certificate that is made for the test. */
#include "api/http/event_log.h"
#include "api/http/quota.h"
#include "api/http/tls_io.h"
#include "api/service/server_io.h"
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/remote/client.h"
#include "cli/remote/client_tls.h"
#include "tests/unit/fixture/certificate.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static const char *const usual_names[] = {"localhost", "127.0.0.1",
                                          "*.example.org", NULL};

struct world {
    struct http_fixture x;
    struct event_log *log;
    struct api_server *server;
    unsigned port;
};

static void world_start(struct world *w, const char *listen,
                        const struct reaper_limits *limits)
{
    struct api_server_options options = {.listen = listen,
                                         .token = TOKEN,
                                         .tls_cert = scratch_path("cert.pem"),
                                         .tls_key = scratch_path("key.pem"),
                                         .limits = limits};
    struct fault f = {0};

    http_fixture_init(&w->x);
    http_fixture_run(&w->x);
    assert_int_equal(event_log_new(&w->log), ERR_OK);
    view_publish_run(w->x.view, "run-1", w->log);
    options.view = w->x.view;
    if (api_server_start(&options, &w->server, &f) != ERR_OK)
        fail_msg("%s", f.text);
    assert_non_null(strrchr(api_server_url(w->server), ':'));
    w->port = (unsigned)strtoul(strrchr(api_server_url(w->server), ':') + 1,
                                NULL, 10);
}

static void world_stop(struct world *w)
{
    api_server_stop(w->server);
    http_fixture_deinit(&w->x);
    event_log_free(w->log);
}

static int make_certificate(void **state)
{
    int failed = scratch_make(state);

    unsetenv("MLTUNE_CACERT");
    if (!failed)
        certificate_make(usual_names);
    return failed;
}

/* ---- a client that sends what it likes ----------------------------------- */

struct session {
    int fd;
    struct client_tls *tls;
};

static int dial(unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void wait_for(const struct session *s)
{
    struct pollfd p = {.fd = s->fd,
                       .events = client_tls_writes(s->tls) ? POLLOUT : POLLIN};

    assert_int_equal(poll(&p, 1, 30000), 1);
}

static void session_open(struct session *s, unsigned port)
{
    struct fault f = {0};
    enum err err;

    s->fd = dial(port);
    assert_int_equal(
        client_tls_new("localhost", scratch_path("cert.pem"), &s->tls, &f),
        ERR_OK);
    while ((err = client_tls_greet(s->tls, s->fd, "x", &f)) == ERR_AGAIN)
        wait_for(s);
    if (err)
        fail_msg("%s", f.text);
}

static void session_close(struct session *s)
{
    client_tls_free(s->tls);
    close(s->fd);
}

static void session_send(struct session *s, const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = client_tls_send(s->tls, text, len);

        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            wait_for(s);
            continue;
        }
        text += n;
        len -= (size_t)n;
    }
}

/* Reads until @until is there, or (NULL) the server ends the connection. False:
 * it ended before. */
static bool session_read(struct session *s, const char *until, char *out,
                         size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    while (!until || !strstr(out, until)) {
        ssize_t n = client_tls_receive(s->tls, out + len, size - 1 - len);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            wait_for(s);
            continue;
        }
        if (n <= 0)
            return !until;
        len += (size_t)n;
        out[len] = '\0';
    }
    return true;
}

/* Status of the answer to these bytes; 0: closed without one. */
static int raw(unsigned port, const char *bytes)
{
    struct session s;
    char text[65536];
    int status = 0;

    session_open(&s, port);
    session_send(&s, bytes);
    session_read(&s, NULL, text, sizeof(text));
    if (text[0])
        assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    session_close(&s);
    return status;
}

static int raw_with(unsigned port, const char *target, const char *host,
                    const char *more)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "GET %s HTTP/1.1\r\nHost: %s:%u\r\n%sConnection: close\r\n\r\n",
             target, host, port, more);
    return raw(port, text);
}

/* ---- the command line's client ------------------------------------------- */

static enum err ask(const char *url, const char *target, const char *token,
                    int *status, struct fault *f)
{
    struct client_answer answer = {0};
    enum err err = client_ask(
        &(struct client_request){
            .url = url, .method = "GET", .target = target, .token = token},
        &answer, f);

    if (!err) {
        *status = answer.status;
        json_decref(answer.json);
    }
    return err;
}

/* With the certificate as trusted file, by option or by environment, the
 * program's client reads from the server; without it, and under a name that is
 * not the certificate's, it says what is wrong, and sends nothing. */
static void tls_client_trusts_what_it_is_told_to(void **state)
{
    struct world w;
    char url[CLIENT_URL_MAX];
    struct fault f = {0};
    int status = 0;

    (void)state;
    world_start(&w, NULL, NULL);
    assert_int_equal(strncmp(api_server_url(w.server), "https://", 8), 0);
    client_cacert = scratch_path("cert.pem");
    assert_int_equal(
        ask(api_server_url(w.server), "/api/v1/runs", NULL, &status, &f),
        ERR_OK);
    assert_int_equal(status, 200);
    client_cacert = NULL;
    assert_int_equal(
        ask(api_server_url(w.server), "/api/v1/runs", NULL, &status, &f),
        ERR_NODE);
    assert_non_null(strstr(f.text, "--cacert"));
    setenv("MLTUNE_CACERT", scratch_path("cert.pem"), 1);
    assert_int_equal(
        ask(api_server_url(w.server), "/api/v1/runs", NULL, &status, &f),
        ERR_OK);
    snprintf(url, sizeof(url), "https://127.0.0.2:%u", w.port);
    assert_int_equal(ask(url, "/api/v1/runs", NULL, &status, &f), ERR_NODE);
    setenv("MLTUNE_CACERT", scratch_path("absent.pem"), 1);
    assert_int_equal(
        ask(api_server_url(w.server), "/api/v1/runs", NULL, &status, &f),
        ERR_INVAL);
    assert_non_null(strstr(f.text, "absent.pem"));
    unsetenv("MLTUNE_CACERT");
    /* Nor does it speak plainly to a server with TLS. */
    snprintf(url, sizeof(url), "http://localhost:%u", w.port);
    assert_int_equal(ask(url, "/api/v1/runs", NULL, &status, &f), ERR_NODE);
    world_stop(&w);
}

/* ---- the server ---------------------------------------------------------- */

/* Checks come first as without TLS: names, origin, form, length. */
static void tls_server_checks_requests(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, NULL, NULL);
    assert_int_equal(raw_with(w.port, "/", "localhost", ""), 200);
    assert_int_equal(raw_with(w.port, "/", "a.example.org", ""), 200);
    assert_int_equal(raw_with(w.port, "/", "example.org", ""), 421);
    assert_int_equal(raw_with(w.port, "/", "a.b.example.org", ""), 421);
    assert_int_equal(raw_with(w.port, "/", "evil.example", ""), 421);
    assert_int_equal(
        raw_with(w.port, "/", "localhost", "Origin: https://evil.example\r\n"),
        403);
    assert_int_equal(
        raw_with(w.port, "/", "localhost", "Sec-Fetch-Site: cross-site\r\n"),
        403);
    assert_int_equal(raw_with(w.port, "/", "localhost",
                              "Content-Length: 0\r\nContent-Length: 0\r\n"),
                     400);
    assert_int_equal(
        raw_with(w.port, "/", "localhost",
                 "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        400);
    assert_int_equal(raw_with(w.port, "/", "localhost", "A: b\nC: d\r\n"), 400);
    world_stop(&w);
}

/* Where other machines can reach it, reads need the token too, but for the page
 * and for whether it lives. */
static void tls_server_of_all_addresses_wants_the_token(void **state)
{
    static const char bearer[] = "Authorization: Bearer " TOKEN "\r\n";
    static const char wrong[] = "Authorization: Bearer x" TOKEN "\r\n";
    struct world w;

    (void)state;
    world_start(&w, "0.0.0.0:0", NULL);
    assert_non_null(strstr(api_server_url(w.server), "https://localhost:"));
    assert_int_equal(raw_with(w.port, "/", "localhost", ""), 200);
    assert_int_equal(raw_with(w.port, "/web/app.js", "localhost", ""), 200);
    assert_int_equal(raw_with(w.port, "/healthz", "localhost", ""), 200);
    assert_int_equal(raw_with(w.port, "/api/v1/runs", "localhost", ""), 401);
    assert_int_equal(raw_with(w.port, "/metrics", "localhost", ""), 401);
    assert_int_equal(raw_with(w.port, "/%61pi/v1/runs", "localhost", ""), 401);
    assert_int_equal(raw_with(w.port, "/api/v1/runs", "localhost", wrong), 401);
    assert_int_equal(raw_with(w.port, "/api/v1/runs", "localhost", bearer),
                     200);
    world_stop(&w);
}

static bool ends(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&p, 1, 30000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

/* Deadlines hold from the first byte of the handshake on: who says nothing
 * more, half a greeting, or half a head, is cut. */
static void tls_server_cuts_who_is_slow(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 300000000,
                  [REAPER_IDLE] = 300000000,
                  [REAPER_BODY] = 300000000,
                  [REAPER_ANSWER] = 60000000000},
        .crowded = 300000000};
    static const struct reaper_limits handshake = {
        .phase = {[REAPER_HEAD] = 5000000000,
                  [REAPER_IDLE] = 5000000000,
                  [REAPER_BODY] = 5000000000,
                  [REAPER_ANSWER] = 60000000000},
        .crowded = 5000000000};
    static const char half[] = "\x16\x03\x01\x02\x00\x01";
    struct world w;
    struct session s;
    char text[4096];
    int silent, begun;

    (void)state;
    world_start(&w, NULL, &limits);
    silent = dial(w.port);
    begun = dial(w.port);
    assert_int_equal(send(silent, half, 1, MSG_NOSIGNAL), 1);
    assert_int_equal(send(begun, half, sizeof(half) - 1, MSG_NOSIGNAL),
                     sizeof(half) - 1);
    assert_true(ends(silent));
    assert_true(ends(begun));
    close(silent);
    close(begun);
    world_stop(&w);
    /* The handshake and half a head must fit, whatever the machine does. */
    world_start(&w, NULL, &handshake);
    session_open(&s, w.port);
    session_send(&s, "GET / HTTP/1.1\r\nHost: loc");
    session_read(&s, NULL, text, sizeof(text));
    assert_string_equal(text, "");
    session_close(&s);
    world_stop(&w);
}

/* A stream rests and is woken as without TLS, and the server ends with it open.
 */
static void tls_stream_gets_every_event(void **state)
{
    struct world w;
    struct session s;
    char text[65536], want[64];

    (void)state;
    world_start(&w, NULL, NULL);
    session_open(&s, w.port);
    snprintf(text, sizeof(text),
             "GET /api/v1/runs/run-1/events HTTP/1.1\r\nHost: localhost:%u\r\n"
             "\r\n",
             w.port);
    session_send(&s, text);
    assert_true(session_read(&s, "retry: 2000", text, sizeof(text)));
    for (unsigned i = 1; i <= 20; i++) {
        snprintf(text, sizeof(text), "{\"n\":%u}", i);
        event_log_append(w.log, i, "decision", text);
        snprintf(want, sizeof(want), "\"n\":%u}", i);
        assert_true(session_read(&s, want, text, sizeof(text)));
    }
    world_stop(&w);
    session_close(&s);
}

/* ---- files --------------------------------------------------------------- */

static enum err load(const char *cert, const char *key, struct fault *f)
{
    struct listen_address self = {.port = 1};
    struct tls_identity t = {0};
    enum err err = tls_identity_load(cert, key, &t, &self, f);

    if (!err) {
        assert_true(self.tls);
        assert_int_equal(self.names, 3);
        assert_string_equal(self.name[0], "localhost");
        assert_string_equal(self.name[1], "127.0.0.1");
        assert_string_equal(self.name[2], "*.example.org");
    }
    tls_identity_deinit(&t);
    return err;
}

/* Every file that cannot be used is refused by its name. */
static void tls_files_are_checked(void **state)
{
    const char *cert = scratch_path("cert.pem"), *key = scratch_path("key.pem");
    const char *other = scratch_path("other.pem");
    struct fault f = {0};
    unsigned char *old;
    size_t n;

    (void)state;
    assert_int_equal(load(cert, key, &f), ERR_OK);
    assert_int_equal(load(cert, NULL, &f), ERR_INVAL);
    assert_int_equal(load(NULL, key, &f), ERR_INVAL);
    assert_int_equal(load(cert, scratch_path("absent"), &f), ERR_IO);
    assert_non_null(strstr(f.text, "absent"));
    assert_int_equal(load(key, key, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "no certificate"));
    assert_int_equal(load(cert, cert, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "no key"));
    assert_int_equal(load(scratch_folder(), key, &f), ERR_INVAL);
    old = scratch_read("key.pem", &n);
    scratch_write("other.pem", old, n);
    free(old);
    assert_int_equal(chmod(other, 0600), 0);
    assert_int_equal(load(cert, other, &f), ERR_OK);
    assert_int_equal(chmod(other, 0640), 0);
    assert_int_equal(load(cert, other, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "chmod 600"));
    assert_int_equal(chmod(other, 0600), 0);
    certificate_make(usual_names);
    assert_int_equal(
        load(scratch_path("cert.pem"), scratch_path("other.pem"), &f),
        ERR_INVAL);
    assert_non_null(strstr(f.text, "not the key of"));
}

/* ---- a flood ------------------------------------------------------------- */

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

enum {
    FLOOD = 200, /* connections, which begin to greet */
    AT_ONCE = TOLL_BURST / TOLL_TLS + 30,
    IN_TURN = 12, /* in a second: the library takes up to eleven in a turn, and
                   * a second's rest is after it */
    SEEN = 100
};

/* However fast they come, strangers are let in to a handshake at no more than a
 * pace: the longer it takes, the more there may be. */
static void tls_flood_is_let_in_slowly(void **state)
{
    static const struct reaper_limits patient = {
        .phase = {[REAPER_HEAD] = 600000000000,
                  [REAPER_IDLE] = 600000000000,
                  [REAPER_ANSWER] = 600000000000},
        .crowded = 600000000000};
    struct world w;
    int fd[FLOOD];
    unsigned before, in = 0;
    time_ns began = clock_monotonic();

    (void)state;
    world_start(&w, NULL, &patient);
    before = open_files();
    for (unsigned i = 0; i < FLOOD; i++) {
        fd[i] = dial(w.port);
        /* The kernel hands over who has said something. */
        assert_int_equal(send(fd[i], "\x16", 1, MSG_NOSIGNAL), 1);
    }
    while (in < SEEN) {
        double seconds;

        in = open_files() - before - FLOOD;
        seconds = (double)(clock_monotonic() - began) * 1e-9;
        assert_true(in <= AT_ONCE + IN_TURN * seconds);
        assert_true(seconds < 300);
        poll(NULL, 0, 20);
    }
    for (unsigned i = 0; i < FLOOD; i++)
        close(fd[i]);
    world_stop(&w);
}

/* Without memory nothing is left behind, whichever allocation fails. */
static void tls_files_without_memory(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (int64_t n = 1; n < 10; n++) {
        struct fault f = {0};
        enum err err;

        mem_fail_at(n, 0);
        err = load(scratch_path("cert.pem"), scratch_path("key.pem"), &f);
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        if (!err)
            return;
        assert_int_equal(err, ERR_NOMEM);
    }
    fail_msg("it never succeeds");
}

#define WITH_FILES(test)                                                       \
    cmocka_unit_test_setup_teardown(test, make_certificate, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(tls_client_trusts_what_it_is_told_to),
        WITH_FILES(tls_server_checks_requests),
        WITH_FILES(tls_server_of_all_addresses_wants_the_token),
        WITH_FILES(tls_server_cuts_who_is_slow),
        WITH_FILES(tls_stream_gets_every_event),
        WITH_FILES(tls_flood_is_let_in_slowly),
        WITH_FILES(tls_files_are_checked),
        WITH_FILES(tls_files_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
