/* The server's Unix socket: what is let through without a token, its places
 * beside those of TCP, its deadlines, and a server that has none. */
#include "api/http/quota.h"
#include "api/service/server_io.h"
#include "base/clock_io.h"
#include "base/host/local_io.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"
#include "tests/unit/fixture/scratch.h"
#include "tuner/shell/mailbox_io.h"

#include <stdio.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define READS "GET /api/v1/runs HTTP/1.1\r\nHost: %s\r\n\r\n"
#define WRITES "POST /api/v1/runs/run-1:pause HTTP/1.1\r\nHost: %s\r\n"
#define NO_JSON "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"

struct world {
    struct http_fixture x;
    struct mailbox *mailbox;
    struct api_server *server;
    char path[256], host[64];
    struct sockaddr_in tcp;
};

/* NULL: the server's own limits. */
static void world_start(struct world *w, const struct reaper_limits *limits)
{
    struct api_server_options options = {.limits = limits,
                                         .read = READ_TOKEN,
                                         .token = "0123456789abcdef",
                                         .local = w->path};
    struct fault f = {0};
    unsigned port = 0;

    http_fixture_init(&w->x);
    http_fixture_run(&w->x);
    assert_int_equal(mailbox_new(&w->mailbox), ERR_OK);
    view_steer_run(w->x.view, "run-1", w->mailbox);
    options.view = w->x.view;
    if (api_server_start(&options, &w->server, &f) != ERR_OK)
        fail_msg("%s", f.text);
    sscanf(api_server_url(w->server), "http://127.0.0.1:%u/", &port);
    snprintf(w->host, sizeof(w->host), "127.0.0.1:%u", port);
    w->tcp = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int setup(void **state)
{
    static struct world w;

    scratch_make(state);
    snprintf(w.path, sizeof(w.path), "%s", scratch_path("s"));
    world_start(&w, NULL);
    *state = &w;
    return 0;
}

static int setup_impatient(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 100000000,
                  [REAPER_IDLE] = 60000000000,
                  [REAPER_BODY] = 100000000,
                  [REAPER_ANSWER] = 60000000000},
        .crowded = 1000000};
    static struct world w;

    scratch_make(state);
    snprintf(w.path, sizeof(w.path), "%s", scratch_path("s"));
    world_start(&w, &limits);
    *state = &w;
    return 0;
}

/* However slow this machine is just now, nobody is cut. */
static int setup_patient(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 600000000000,
                  [REAPER_IDLE] = 600000000000,
                  [REAPER_BODY] = 600000000000,
                  [REAPER_ANSWER] = 600000000000},
        .crowded = 600000000000};
    static struct world w;

    scratch_make(state);
    snprintf(w.path, sizeof(w.path), "%s", scratch_path("s"));
    world_start(&w, &limits);
    *state = &w;
    return 0;
}

/* A head has all the time; silence after it has little. */
static int setup_restless(void **state)
{
    static const struct reaper_limits limits = {
        .phase = {[REAPER_HEAD] = 600000000000,
                  [REAPER_IDLE] = 100000000,
                  [REAPER_BODY] = 600000000000,
                  [REAPER_ANSWER] = 600000000000},
        .crowded = 600000000000};
    static struct world w;

    scratch_make(state);
    snprintf(w.path, sizeof(w.path), "%s", scratch_path("s"));
    world_start(&w, &limits);
    *state = &w;
    return 0;
}

static int setup_without(void **state)
{
    static struct world w;

    scratch_make(state);
    scratch_mkdir("s");
    snprintf(w.path, sizeof(w.path), "%s", scratch_path("s"));
    world_start(&w, NULL);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    api_server_stop(w->server);
    http_fixture_deinit(&w->x);
    mailbox_free(w->mailbox);
    return scratch_remove(state);
}

static int by_tcp(struct world *w)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(
        connect(fd, (const struct sockaddr *)&w->tcp, sizeof(w->tcp)), 0);
    return fd;
}

static int by_socket(struct world *w)
{
    int fd = local_connect(w->path);

    assert_true(fd >= 0);
    return fd;
}

/* Status of the answer on @fd; 0: hung up. */
static int status_on(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[65536];
    int status = 0;
    ssize_t n;

    assert_int_equal(poll(&p, 1, 30000), 1);
    n = recv(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    sscanf(text, "HTTP/1.1 %d", &status);
    return status;
}

static int ask(int fd, const char *fmt, const char *host)
{
    char text[512];

    snprintf(text, sizeof(text), fmt, host);
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    return status_on(fd);
}

static int ask_and_close(int fd, const char *fmt, const char *host)
{
    int status = ask(fd, fmt, host);

    close(fd);
    return status;
}

/* What needs the token by TCP needs none here, whatever the rule for reads; all
 * else is checked the same. */
static void local_needs_no_token(void **state)
{
    struct world *w = *state;
    int fd = by_socket(w);

    assert_null(api_server_no_local(w->server));
    assert_int_equal(ask_and_close(by_tcp(w), READS, w->host), 401);
    assert_int_equal(ask_and_close(by_tcp(w), WRITES NO_JSON, w->host), 401);
    for (int i = 0; i < 3; i++) /* one connection, kept */
        assert_int_equal(ask(fd, READS, "localhost"), 200);
    close(fd);
    assert_int_equal(ask_and_close(by_socket(w), WRITES NO_JSON, "localhost"),
                     415);
    assert_int_equal(ask_and_close(by_socket(w), READS, "localhost:80"), 200);
    assert_int_equal(ask_and_close(by_socket(w), READS, "other.example"), 421);
    assert_int_equal(ask_and_close(by_socket(w),
                                   "GET / HTTP/1.1\r\nHost: %s\r\n"
                                   "Origin: http://other.example\r\n\r\n",
                                   "localhost"),
                     403);
    assert_int_equal(ask_and_close(by_socket(w), "nonsense %s\r\n\r\n", "x"),
                     400);
}

/* A write is carried to the run and answered, while others read. */
static void local_carries_writes(void **state)
{
    struct world *w = *state;
    int writes = by_socket(w), reads = by_socket(w);
    char text[256];

    snprintf(text, sizeof(text), WRITES "\r\n", "localhost");
    assert_true(send(writes, text, strlen(text), MSG_NOSIGNAL) > 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(reads, READS, "localhost"), 200);
    /* Nobody answers: the end of the server does. */
    api_server_stop(w->server);
    w->server = NULL;
    assert_int_equal(status_on(writes), 503);
    assert_int_equal(access(w->path, F_OK), -1);
    close(writes);
    close(reads);
}

/* All places of one way in keep nobody out at the other; who finds none waits
 * until there is one. */
static void local_places_are_its_own(void **state)
{
    static int taken[REAPER_CONNECTIONS_MAX];
    struct world *w = *state;
    int late;

    for (size_t i = 0; i < REAPER_CONNECTIONS_MAX; i++)
        taken[i] = by_tcp(w);
    assert_int_equal(ask_and_close(by_socket(w), READS, "localhost"), 200);
    for (size_t i = 0; i < REAPER_CONNECTIONS_MAX; i++)
        close(taken[i]);
    for (size_t i = 0; i < REAPER_LOCAL_MAX; i++) {
        taken[i] = by_socket(w);
        assert_int_equal(ask(taken[i], READS, "localhost"), 200);
    }
    late = by_socket(w);
    assert_int_equal(ask_and_close(by_tcp(w), READS, w->host), 401);
    close(taken[0]);
    assert_int_equal(ask_and_close(late, READS, "localhost"), 200);
    for (size_t i = 1; i < REAPER_LOCAL_MAX; i++)
        close(taken[i]);
}

/* Deadlines are those of TCP: half a head. */
static void local_connections_are_cut(void **state)
{
    struct world *w = *state;
    int fd = by_socket(w);

    assert_int_equal(ask(fd, "GET /healthz HTT%.0s", ""), 0);
    close(fd);
}

/* And silence after an answer. */
static void local_connections_are_cut_in_silence(void **state)
{
    struct world *w = *state;
    int fd = by_socket(w);

    assert_int_equal(ask(fd, READS, "localhost"), 200);
    assert_int_equal(status_on(fd), 0);
    close(fd);
}

/* However fast strangers ask, no more of them are answered by TCP than a burst
 * and so many a second; who comes by the socket does not wait for that. */
static void local_does_not_rest(void **state)
{
    struct world *w = *state;
    time_ns began = clock_monotonic();
    int late, waits, n;
    double s;

    for (n = 0; n < TOLL_BURST + 100; n++)
        assert_int_equal(ask_and_close(by_tcp(w), READS, w->host), 401);
    /* 100 more than the burst: two rests at least, where it was that fast. */
    s = (double)(clock_monotonic() - began) * 1e-9;
    assert_true(n <= TOLL_BURST + TOLL_PER_S * (s + 0.1));
    /* Opened now: no head's deadline has run meanwhile. */
    late = by_socket(w);
    waits = by_tcp(w);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ask(late, READS, "localhost"), 200);
    assert_int_equal(ask_and_close(waits, READS, w->host), 401);
    close(late);
}

/* Idle ones are cut sooner where few of the socket's own places are left. */
static void local_places_become_free(void **state)
{
    static int taken[REAPER_LOCAL_MAX];
    struct world *w = *state;

    for (size_t i = 0; i < REAPER_LOCAL_MAX; i++)
        taken[i] = by_socket(w);
    assert_int_equal(ask_and_close(by_socket(w), READS, "localhost"), 200);
    for (size_t i = 0; i < REAPER_LOCAL_MAX; i++)
        close(taken[i]);
}

/* No descriptor is left: who comes waits for one, the server without turning
 * in vain. */
static void local_waits_for_descriptors(void **state)
{
    struct world *w = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct rlimit limit, none;
    int kept = by_socket(w), late = socket(AF_UNIX, SOCK_STREAM, 0), next;
    clock_t began;

    assert_true(strlen(w->path) < sizeof(a.sun_path));
    memcpy(a.sun_path, w->path, strlen(w->path));
    assert_int_equal(ask(kept, READS, "localhost"), 200);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    next = dup(late);
    assert_true(next > 0);
    close(next);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&a, sizeof(a)), 0);
    began = clock();
    usleep(500000);
    assert_true(clock() - began < CLOCKS_PER_SEC / 4);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(ask_and_close(late, READS, "localhost"), 200);
    close(kept);
}

/* Where no socket can be, TCP serves, and the reason is at hand. */
static void local_may_be_missing(void **state)
{
    struct world *w = *state;

    assert_non_null(api_server_no_local(w->server));
    assert_non_null(strstr(api_server_no_local(w->server), w->path));
    assert_int_equal(local_connect(w->path), -1);
    assert_int_equal(ask_and_close(by_tcp(w), READS, w->host), 401);
    api_server_stop(w->server);
    w->server = NULL;
    assert_int_equal(access(w->path, F_OK), 0);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define PATIENT(test)                                                          \
    cmocka_unit_test_setup_teardown(test, setup_patient, teardown)
    const struct CMUnitTest tests[] = {
        WITH(local_needs_no_token),
        WITH(local_carries_writes),
        PATIENT(local_places_are_its_own),
        PATIENT(local_does_not_rest),
        PATIENT(local_waits_for_descriptors),
        cmocka_unit_test_setup_teardown(local_connections_are_cut,
                                        setup_impatient, teardown),
        WITH(local_places_become_free),
        cmocka_unit_test_setup_teardown(local_connections_are_cut_in_silence,
                                        setup_restless, teardown),
        cmocka_unit_test_setup_teardown(local_may_be_missing, setup_without,
                                        teardown),
    };

    assert_true(http_fixture_allow_files(2500));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
