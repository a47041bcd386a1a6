/* Event streams on a real socket. */
#include "api/http/event_log.h"
#include "api/http/stream_io.h"
#include "api/service/server_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <stdio.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct world {
    struct http_fixture x;
    struct event_log *log;
    struct api_server *server;
    unsigned port;
    uint64_t id; /* of the last event */
};

static void world_start(struct world *w, time_ns heartbeat)
{
    struct api_server_options options = {.heartbeat = heartbeat};

    http_fixture_init(&w->x);
    http_fixture_run(&w->x);
    assert_int_equal(event_log_new(&w->log), ERR_OK);
    view_publish_run(w->x.view, "run-1", w->log);
    options.view = w->x.view;
    assert_int_equal(api_server_start(&options, &w->server, NULL), ERR_OK);
    assert_int_equal(
        sscanf(api_server_url(w->server), "http://127.0.0.1:%u/", &w->port), 1);
    w->id = 0;
}

static int setup(void **state)
{
    static struct world w;

    world_start(&w, 0);
    *state = &w;
    return 0;
}

static int setup_lively(void **state)
{
    static struct world w;

    world_start(&w, 50000000);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    api_server_stop(w->server);
    http_fixture_deinit(&w->x);
    event_log_free(w->log);
    return 0;
}

static void append(struct world *w, const char *json)
{
    event_log_append(w->log, ++w->id, "decision", json);
}

/* ---- a client ------------------------------------------------------------ */

struct client {
    int fd;
    size_t len;
    bool ended;
    char text[1 << 20];
};

static struct client client; /* large: not on the stack */

/* @version of HTTP: an answer of 1.0 comes in one piece, without chunks. */
static int ask_as(struct world *w, const char *version, const char *method,
                  const char *query, const char *header, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)w->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 60}; /* of a test that would hang */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[512];

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof(receive_bytes));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    snprintf(text, sizeof(text),
             "%s /api/v1/runs/run-1/events%s HTTP/%s\r\n"
             "Host: 127.0.0.1:%u\r\n%s\r\n",
             method, query, version, w->port, header);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

static int ask(struct world *w, const char *method, const char *query,
               const char *header, int receive_bytes)
{
    return ask_as(w, "1.0", method, query, header, receive_bytes);
}

static void read_from(int fd)
{
    client.fd = fd;
    client.len = 0;
    client.ended = false;
    client.text[0] = '\0';
}

static void open_stream(struct world *w, const char *header)
{
    read_from(ask(w, "GET", "", header, 0));
}

/* Reads until @text has come, or the end. */
static bool comes(const char *text)
{
    while (!strstr(client.text, text) && !client.ended) {
        ssize_t n = recv(client.fd, client.text + client.len,
                         sizeof(client.text) - 1 - client.len, 0);

        client.ended = n <= 0;
        client.len += n > 0 ? (size_t)n : 0;
        client.text[client.len] = '\0';
    }
    return strstr(client.text, text) != NULL;
}

/* Reads to the end; whether @text came last. */
static bool read_to_end(int fd, const char *text)
{
    enum { TAIL = 256 };
    char *at = client.text + TAIL;
    ssize_t n;

    memset(client.text, 0, TAIL + 1);
    while ((n = recv(fd, at, 65536, 0)) > 0) {
        at[n] = '\0';
        memmove(client.text, at + n - TAIL, TAIL);
        client.text[TAIL] = '\0';
    }
    return strstr(client.text, text) != NULL;
}

/* ---- the tests ----------------------------------------------------------- */

/* A stream begins with what comes from now on, and brings each event as it
 * happens, with its number. */
static void stream_brings_events_as_they_happen(void **state)
{
    struct world *w = *state;

    append(w, "{\"n\":\"old\"}");
    open_stream(w, "");
    assert_true(comes("retry: "));
    assert_non_null(strstr(client.text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(client.text, "X-Content-Type-Options: nosniff\r\n"));
    append(w, "{\"n\":\"first\"}");
    assert_true(comes("id: 2\nevent: decision\ndata: {\"n\":\"first\"}\n\n"));
    append(w, "{\"n\":\"second\"}");
    assert_true(comes("id: 3\nevent: decision\ndata: {\"n\":\"second\"}\n\n"));
    assert_null(strstr(client.text, "old"));
    close(client.fd);
}

/* A client that comes back with the last number gets what it missed, in order.
 */
static void stream_goes_on_where_it_was(void **state)
{
    struct world *w = *state;
    char text[64];

    for (int i = 1; i <= 2000; i++) {
        snprintf(text, sizeof(text), "{\"n\":%d}", i);
        append(w, text);
    }
    open_stream(w, "Last-Event-ID: 500\r\n");
    assert_true(comes("id: 2000\n"));
    assert_null(strstr(client.text, "id: 500\n"));
    for (int i = 501; i < 2000; i++) {
        snprintf(text, sizeof(text), "id: %d\nevent: decision\n", i);
        assert_non_null(strstr(client.text, text));
    }
    close(client.fd);
}

/* One that comes back too late is told, with the number from which on all are
 * kept, and the stream ends. */
static void stream_tells_who_is_too_late(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < EVENT_LOG_EVENTS + 10; i++)
        append(w, "{}");
    open_stream(w, "Last-Event-ID: 3\r\n");
    assert_true(comes("event: dropped\ndata: {\"last\":3,\"newest\":16394,"
                      "\"kept_after\":10}\n\n"));
    assert_false(comes("nothing more"));
    assert_true(client.ended);
    close(client.fd);
}

/* Silence is broken by comments. */
static void stream_beats_while_nothing_happens(void **state)
{
    struct world *w = *state;

    open_stream(w, "");
    assert_true(comes(": still here\n\n"));
    append(w, "{\"n\":\"after\"}");
    assert_true(comes("after"));
    close(client.fd);
}

/* A reader that does not read holds neither the others nor the run up, and its
 * memory is bounded; when it reads again it is told that it was dropped. */
static void stream_drops_slow_readers(void **state)
{
    struct world *w = *state;
    static char text[EVENT_TEXT_MAX / 2];
    int slow = ask(w, "GET", "", "", 4096);

    memset(text, ' ', sizeof(text) - 1);
    text[0] = '{';
    text[sizeof(text) - 2] = '}';
    open_stream(w, "");
    assert_true(comes("retry: "));
    for (int i = 0; i < 1000; i++) /* 32 MB: more than sockets and log hold */
        append(w, text);
    append(w, "{\"n\":\"last\"}");
    close(client.fd);
    assert_true(read_to_end(slow, "event: dropped\n"));
    close(slow);
}

/* Polled with a number, the events past it come as JSON, with the number to go
 * on from. */
static void events_can_be_polled(void **state)
{
    struct world *w = *state;
    const char *base = "/api/v1/runs/run-1/events?after=";
    char target[64];
    json_t *json;

    for (int i = 0; i < 1500; i++)
        append(w, "{\"text\":\"why\"}");
    snprintf(target, sizeof(target), "%s0", base);
    json = http_fixture_get(w->x.view, target, 200);
    assert_int_equal(json_array_size(json_object_get(json, "events")), 1000);
    assert_string_equal(json_string_value(json_at(json, "/events/7/data/text")),
                        "why");
    assert_int_equal(json_integer_value(json_at(json, "/next_after")), 1000);
    json_decref(json);
    snprintf(target, sizeof(target), "%s1500", base);
    json = http_fixture_get(w->x.view, target, 200);
    assert_int_equal(json_array_size(json_object_get(json, "events")), 0);
    assert_int_equal(json_integer_value(json_at(json, "/next_after")), 1500);
    json_decref(json);
    for (int i = 0; i < EVENT_LOG_EVENTS; i++)
        append(w, "{}");
    snprintf(target, sizeof(target), "%s1", base);
    json = http_fixture_get(w->x.view, target, 200);
    assert_true(json_is_true(json_object_get(json, "missed")));
    /* Kept events come with the next question. */
    assert_int_equal(json_integer_value(json_at(json, "/next_after")), 1500);
    json_decref(json);
    json_decref(http_fixture_get(w->x.view, "/api/v1/runs/none/events", 404));
}

static bool ends(void)
{
    comes("\1"); /* never */
    return client.ended;
}

/* A log that has ended ends its streams once all is read, those that rest and
 * those that begin later; one that goes on again keeps them. */
static void stream_ends_with_its_log(void **state)
{
    struct world *w = *state;

    open_stream(w, "");
    assert_true(comes("retry: "));
    append(w, "{\"n\":\"last\"}");
    event_log_set_ended(w->log, true);
    assert_true(comes("last"));
    assert_true(ends());
    close(client.fd);
    open_stream(w, "Last-Event-ID: 0\r\n");
    assert_true(comes("last"));
    assert_true(ends());
    close(client.fd);
    event_log_set_ended(w->log, false);
    open_stream(w, "");
    assert_true(comes("retry: "));
    append(w, "{\"n\":\"more\"}");
    assert_true(comes("more"));
    close(client.fd);
}

/* There are so many places for streams; others are served all the same, HEAD
 * holds none, and the server stops under all of them. */
static void streams_are_bounded(void **state)
{
    struct world *w = *state;
    int fd[STREAMS_MAX];

    close(ask(w, "HEAD", "", "", 0));
    for (int i = 0; i < STREAMS_MAX; i++) {
        fd[i] = ask(w, "GET", "", "", 0);
        read_from(fd[i]);
        assert_true(comes("retry: "));
    }
    open_stream(w, "");
    assert_true(comes("too_many_streams"));
    close(client.fd);
    append(w, "{\"n\":\"for all\"}");
    for (int i = 0; i < STREAMS_MAX; i++) {
        read_from(fd[i]);
        assert_true(comes("for all"));
    }
    api_server_stop(w->server);
    w->server = NULL;
    for (int i = 0; i < STREAMS_MAX; i++)
        close(fd[i]);
}

/* An answer to HEAD ends with its headers, and the connection with it: no
 * chunk comes that a client would take for its next answer. */
static void head_of_a_stream_has_no_chunk(void **state)
{
    read_from(ask_as(*state, "1.1", "HEAD", "", "", 0));
    assert_false(comes("\r\n0\r\n"));
    assert_true(client.ended);
    assert_non_null(strstr(client.text, "\r\nConnection: close\r\n"));
    assert_string_equal(client.text + client.len - 4, "\r\n\r\n");
    close(client.fd);
}

static void *append_some(void *arg)
{
    for (int i = 0; i < 3000; i++)
        append(arg, "{}");
    return NULL;
}

/* The run's thread writes while streams are read (tsan watches): nothing is
 * lost. */
static void streams_follow_the_run(void **state)
{
    struct world *w = *state;
    pthread_t thread;

    open_stream(w, "");
    assert_true(comes("retry: "));
    pthread_create(&thread, NULL, append_some, w);
    assert_true(comes("id: 3000\n"));
    pthread_join(thread, NULL);
    for (int i = 1; i <= 3000; i++) {
        char text[32];

        snprintf(text, sizeof(text), "id: %d\n", i);
        assert_non_null(strstr(client.text, text));
    }
    close(client.fd);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(stream_brings_events_as_they_happen),
        WITH(stream_goes_on_where_it_was),
        WITH(stream_tells_who_is_too_late),
        cmocka_unit_test_setup_teardown(stream_beats_while_nothing_happens,
                                        setup_lively, teardown),
        WITH(stream_drops_slow_readers),
        WITH(events_can_be_polled),
        WITH(stream_ends_with_its_log),
        WITH(streams_are_bounded),
        WITH(head_of_a_stream_has_no_chunk),
        WITH(streams_follow_the_run),
    };

    json_count_memory();
    if (!http_fixture_allow_files(2500)) {
        print_error("fewer than 2500 files may be open: ulimit -Hn 2500\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
