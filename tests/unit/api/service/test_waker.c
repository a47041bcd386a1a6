/* Runs that rest are read back beside the server: who asks for another one is
 * answered meanwhile. */
#include "api/service/server_io.h"
#include "api/service/waker_io.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

static struct history h;
static struct view *view;
static sem_t begun, go;
static atomic_bool holds; /* the fetch waits for `go` */
static _Atomic enum err fetch_err;
static atomic_uint fetched;

static enum err fetch(void *ctx, const char *id, struct view_whole *out,
                      struct fault *f)
{
    (void)ctx;
    sem_post(&begun);
    if (holds)
        sem_wait(&go);
    fetched++;
    if (fetch_err)
        return fault_set(f, fetch_err, "it cannot be");
    history_init(&out->history);
    out->config = json_pack("{s:s}", "name", id);
    return ERR_OK;
}

static void add(const char *id, bool rests)
{
    assert_int_equal(view_add_run(view, id, "", &h), ERR_OK);
    if (!rests)
        return;
    view_lock(view);
    view_rest_run(view, id, true);
    view_unlock(view);
}

static int set_up(void **state)
{
    const struct view_options options = {.fetch = fetch};

    (void)state;
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    holds = false;
    fetch_err = ERR_OK;
    fetched = 0;
    history_init(&h);
    assert_int_equal(view_new(&options, &view), ERR_OK);
    add("live", false);
    add("cold", true);
    add("other", true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    view_free(view);
    history_deinit(&h);
    sem_destroy(&begun);
    sem_destroy(&go);
    return 0;
}

/* ---- the server ---------------------------------------------------------- */

static struct api_server *server;
static unsigned port;

static void start(void)
{
    const struct api_server_options options = {.view = view,
                                               .read = READ_EVERYONE};
    struct fault f = {0};

    if (api_server_start(&options, &server, &f) != ERR_OK)
        fail_msg("%s", f.text);
    assert_int_equal(
        sscanf(api_server_url(server), "http://127.0.0.1:%u/", &port), 1);
}

static int ask(const char *path)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[256];

    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    snprintf(text, sizeof(text),
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n"
             "\r\n",
             path, port);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    return fd;
}

/* Status of the answer; -1: none within @ms. Closes @fd where there is one. */
static int answer(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[64] = "";
    int status = 0;

    if (poll(&p, 1, ms) == 0)
        return -1;
    assert_true(recv(fd, text, sizeof(text) - 1, 0) > 12);
    assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    close(fd);
    return status;
}

/* While a run is read, others are answered; then who asked for it is, and who
 * asked for the same, for one reading. */
static void server_answers_others_while_a_run_is_read(void **state)
{
    int first, second;

    (void)state;
    holds = true;
    start();
    first = ask("/api/v1/runs/cold/epochs");
    sem_wait(&begun);
    second = ask("/api/v1/runs/cold/trials");
    for (int i = 0; i < 3; i++)
        assert_int_equal(answer(ask("/api/v1/runs/live/epochs"), PATIENCE_MS),
                         200);
    assert_int_equal(answer(first, 0), -1);
    assert_int_equal(answer(second, 0), -1);
    holds = false;
    sem_post(&go);
    assert_int_equal(answer(first, PATIENCE_MS), 200);
    assert_int_equal(answer(second, PATIENCE_MS), 200);
    assert_int_equal(fetched, 1);
    assert_int_equal(answer(ask("/api/v1/runs/cold/epochs"), PATIENCE_MS), 200);
    assert_int_equal(fetched, 1);
    api_server_stop(server);
}

/* What cannot be read is said, and asked for anew by the next. */
static void server_says_that_a_run_cannot_be_read(void **state)
{
    (void)state;
    start();
    fetch_err = ERR_IO;
    assert_int_equal(answer(ask("/api/v1/runs/cold/epochs"), PATIENCE_MS), 503);
    fetch_err = ERR_NOENT;
    assert_int_equal(answer(ask("/api/v1/runs/cold/epochs"), PATIENCE_MS), 404);
    fetch_err = ERR_OK;
    assert_int_equal(answer(ask("/api/v1/runs/cold/epochs"), PATIENCE_MS), 200);
    assert_int_equal(fetched, 3);
    api_server_stop(server);
}

/* A server that ends meanwhile answers who waits, and leaves nothing behind. */
static void server_ends_while_a_run_is_read(void **state)
{
    int fd;

    (void)state;
    holds = true;
    start();
    fd = ask("/api/v1/runs/cold/epochs");
    sem_wait(&begun);
    sem_post(&go);
    api_server_stop(server);
    assert_in_range(answer(fd, PATIENCE_MS), 200, 503);
}

/* ---- the waker ----------------------------------------------------------- */

/* A run that waits already is waited for together; more than fit are refused.
 */
static void waker_is_bounded(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    struct fault f = {0};
    struct waker *w;
    uint64_t first, second;

    (void)state;
    holds = true;
    assert_int_equal(waker_start(view, fd, &w, &f), ERR_OK);
    first = waker_ask(w, "cold");
    sem_wait(&begun);
    second = waker_ask(w, "other");
    assert_true(first && second > first);
    assert_int_equal(waker_ask(w, "cold"), first);
    assert_int_equal(waker_ask(w, "other"), second);
    for (unsigned i = 2; i < WAKER_MAX; i++) {
        char id[16];

        snprintf(id, sizeof(id), "none-%u", i);
        assert_true(waker_ask(w, id) > second);
    }
    assert_int_equal(waker_ask(w, "one-more"), 0);
    assert_int_equal(waker_collect(w, first, &f), ERR_AGAIN);
    holds = false;
    sem_post(&go);
    while (waker_collect(w, second, &f) == ERR_AGAIN) {
        uint64_t n;

        assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
    }
    assert_int_equal(waker_collect(w, first, &f), ERR_OK);
    assert_int_equal(waker_collect(w, second, &f), ERR_OK);
    assert_false(view_run_sleeps(view, "cold"));
    waker_stop(w);
    close(fd);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(server_answers_others_while_a_run_is_read),
        CASE(server_says_that_a_run_cannot_be_read),
        CASE(server_ends_while_a_run_is_read),
        CASE(waker_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
