/* Reads over HTTP: 16 clients on kept connections, one request after another.
 *
 *   http_reads
 *
 * http_reads answer=cached    requests/s: the state does not change
 * http_reads answer=built     the state changes before each request, so every
 *                             answer is written anew
 * vs=libmicrohttpd            the bare library with the same body, fixed
 */
#include "api/service/server_io.h"
#include "base/clock_io.h"
#include "tests/bench/bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 16, REQUESTS = 20000, REPLY_MAX = 16384 };

static const char target[] = "/api/v1/runs/bench/trials?page_size=3";

/* ---- a run to be shown --------------------------------------------------- */

static void feed(struct history *h, struct record r)
{
    bench_must(history_apply(h, &r) == ERR_OK, "record");
    record_deinit(&r);
}

static void make_run(struct history *h)
{
    history_init(h);
    feed(h, (struct record){
                .kind = RECORD_RUN_STARTED,
                .run_started = {.run = "bench", .started_unix_s = 1.8e9}});
    for (uint32_t t = 1; t <= 3; t++)
        feed(h,
             (struct record){.kind = RECORD_TRIAL_STARTED,
                             .trial = {.trial = t,
                                       .search = 1,
                                       .branch = t,
                                       .setting = json_pack(
                                           "{s:f}", "learning_rate", 0.1 * t),
                                       .figures.points = 2,
                                       .figures.loss = {2.3, 1.9},
                                       .figures.time_s = {0, 0.1}}});
}

/* ---- the peer ------------------------------------------------------------ */

struct fixed {
    char *body;
    size_t len;
};

static enum MHD_Result answer_fixed(void *cls, struct MHD_Connection *c,
                                    const char *url, const char *method,
                                    const char *version, const char *upload,
                                    size_t *upload_size, void **context)
{
    static int seen;
    const struct fixed *fixed = cls;
    struct MHD_Response *r;
    enum MHD_Result result;

    (void)url;
    (void)method;
    (void)version;
    (void)upload;
    (void)upload_size;
    if (!*context) {
        *context = &seen;
        return MHD_YES;
    }
    r = MHD_create_response_from_buffer(fixed->len, fixed->body,
                                        MHD_RESPMEM_PERSISTENT);
    result = MHD_queue_response(c, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return result;
}

static struct MHD_Daemon *start_peer(struct fixed *fixed, unsigned *port)
{
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL,
                         answer_fixed, fixed, MHD_OPTION_END);

    bench_must(d != NULL, "libmicrohttpd");
    *port = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port;
    return d;
}

/* ---- clients ------------------------------------------------------------- */

struct clients {
    struct pollfd fd[CLIENTS];
    char request[256];
    size_t request_len;
    struct worker_view *changing; /* its version grows before each request */
};

static void clients_open(struct clients *c, unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    memset(c, 0, sizeof(*c));
    c->request_len = (size_t)snprintf(
        c->request, sizeof(c->request),
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: */*\r\n\r\n", target,
        port);
    for (int i = 0; i < CLIENTS; i++) {
        c->fd[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        c->fd[i].events = POLLIN;
        bench_must(connect(c->fd[i].fd, (struct sockaddr *)&to, sizeof(to)) ==
                       0,
                   "connect");
    }
}

static void clients_close(struct clients *c)
{
    for (int i = 0; i < CLIENTS; i++)
        close(c->fd[i].fd);
}

static void ask(struct clients *c, int i)
{
    if (c->changing)
        view_changed(c->changing);
    bench_must(send(c->fd[i].fd, c->request, c->request_len, 0) ==
                   (ssize_t)c->request_len,
               "send");
}

/* Reads one answer, which the loopback device delivers whole; returns the
 * length of its body, which is copied to @body (REPLY_MAX) if not NULL. */
static size_t take(int fd, char *body)
{
    char reply[REPLY_MAX + 1];
    const char *end, *length;
    size_t n = 0, want = 1;

    while (n < want) {
        ssize_t got = recv(fd, reply + n, REPLY_MAX - n, 0);

        bench_must(got > 0, "answer");
        n += (size_t)got;
        reply[n] = '\0';
        end = strstr(reply, "\r\n\r\n");
        length = strstr(reply, "Content-Length: ");
        want = n + 1;
        if (end && length)
            want = (size_t)(end - reply) + 4 + strtoul(length + 16, NULL, 10);
    }
    bench_must(strncmp(reply, "HTTP/1.1 200", 12) == 0, "status 200");
    end = strstr(reply, "\r\n\r\n") + 4;
    if (body)
        memcpy(body, end, n - (size_t)(end - reply));
    return n - (size_t)(end - reply);
}

static double rate(struct clients *c)
{
    unsigned asked = CLIENTS, done = 0;
    time_ns begin = clock_monotonic();

    for (int i = 0; i < CLIENTS; i++)
        ask(c, i);
    while (done < REQUESTS) {
        bench_must(poll(c->fd, CLIENTS, 10000) > 0, "poll");
        for (int i = 0; i < CLIENTS; i++) {
            if (!(c->fd[i].revents & POLLIN))
                continue;
            take(c->fd[i].fd, NULL);
            done++;
            if (asked < REQUESTS) {
                ask(c, i);
                asked++;
            }
        }
    }
    return REQUESTS * 1e9 / (double)(clock_monotonic() - begin);
}

static unsigned port_of(const char *url)
{
    return (unsigned)strtoul(strrchr(url, ':') + 1, NULL, 10);
}

int main(void)
{
    static const struct view_options no_options;
    static struct bench_series cached, built, bare;
    struct api_server_options options = {0};
    struct clients ours, peers;
    struct fixed fixed = {.body = malloc(REPLY_MAX)};
    struct api_server *server;
    struct MHD_Daemon *peer;
    struct history h;
    unsigned port;
    char params[64];

    make_run(&h);
    bench_must(view_new(&no_options, &options.view) == ERR_OK &&
                   view_add_run(options.view, "bench", "", &h) == ERR_OK &&
                   api_server_start(&options, &server, NULL) == ERR_OK,
               "server");
    clients_open(&ours, port_of(api_server_url(server)));
    ask(&ours, 0);
    fixed.len = take(ours.fd[0].fd, fixed.body);
    peer = start_peer(&fixed, &port);
    clients_open(&peers, port);
    for (size_t i = 0; i < bench_rounds(); i++) {
        ours.changing = NULL;
        bench_add(&cached, rate(&ours));
        bench_add(&bare, rate(&peers));
        ours.changing = options.view;
        bench_add(&built, rate(&ours));
    }
    snprintf(params, sizeof(params), "answer=cached clients=16 bytes=%zu",
             fixed.len);
    bench_print("http_reads", params, &cached, "requests/s");
    bench_print_ratio("http_reads", params, "libmicrohttpd", &cached, &bare, 0);
    snprintf(params, sizeof(params), "answer=built clients=16 bytes=%zu",
             fixed.len);
    bench_print("http_reads", params, &built, "requests/s");
    bench_print_ratio("http_reads", params, "libmicrohttpd", &built, &bare, 0);

    clients_close(&ours);
    clients_close(&peers);
    MHD_stop_daemon(peer);
    api_server_stop(server);
    view_free(options.view);
    history_deinit(&h);
    free(fixed.body);
    return 0;
}
