#include "tuner/shell/rank_call_io.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/host/context_io.h"
#include "base/host/lookup_io.h"
#include "base/mem.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

struct rank_call {
    void *context, *socket; /* owned; socket NULL: not connected */
    struct run_key key;
    unsigned rank;
    char host[LOOKUP_HOST_MAX], port[LOOKUP_PORT_MAX];
    char own[RANKS_HOST_MAX]; /* this machine's name */
    char why[600];
    time_ns heard, connected;
};

enum err rank_call_open(const char *place, const char *key, unsigned rank,
                        struct rank_call **out, struct fault *f)
{
    struct rank_call *c = mem_calloc(1, sizeof(*c));
    char end;
    enum err err;

    if (!c)
        return fault_set(f, ERR_NOMEM, "out of memory");
    c->rank = rank;
    err = run_key_read(key, &c->key, f);
    if (!err &&
        sscanf(place, "tcp://%255[^:/]:%7[0-9]%c", c->host, c->port, &end) != 2)
        err = fault_set(f, ERR_INVAL,
                        "%.200s: expected tcp://HOST:PORT of rank 0", place);
    if (!err) {
        c->context = context_new();
        if (!c->context)
            err = fault_errno(f, context_error(), errno, "make a socket");
    }
    if (err) {
        mem_free(c);
        return err;
    }
    ranks_own_host(rank, c->own);
    c->heard = clock_monotonic();
    snprintf(c->why, sizeof(c->why), "nobody was asked");
    *out = c;
    return ERR_OK;
}

static void hang_up(struct rank_call *c)
{
    if (c->socket)
        zmq_close(c->socket);
    c->socket = NULL;
}

void rank_call_close(struct rank_call *c)
{
    if (!c)
        return;
    hang_up(c);
    while (zmq_ctx_term(c->context) != 0 && errno == EINTR)
        continue;
    mem_free(c);
}

/* ---- connecting ---------------------------------------------------------- */

/* As numbers: ZeroMQ would look the name up in silence. */
static bool find_desk(struct rank_call *c, char out[64])
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    char address[INET_ADDRSTRLEN];
    struct addrinfo *found;
    struct sockaddr_in to;
    struct fault f = {0};

    if (lookup_host(c->host, c->port, &hints, DEADLINE_POD_STARTS_MS * 1e-3,
                    &found, &f) != ERR_OK) {
        snprintf(c->why, sizeof(c->why), "%s: %.300s", c->host, f.text);
        return false;
    }
    memcpy(&to, found->ai_addr, sizeof(to));
    freeaddrinfo(found);
    inet_ntop(AF_INET, &to.sin_addr, address, sizeof(address));
    snprintf(out, 64, "tcp://%s:%s", address, c->port);
    snprintf(c->why, sizeof(c->why),
             "nobody with this job's key answers at %s, which is %s", address,
             c->host);
    return true;
}

static void set(void *socket, int option, int value)
{
    int failed = zmq_setsockopt(socket, option, &value, sizeof(value));

    assert(!failed); /* only wrong arguments can */
    (void)failed;
}

/* What is said to nobody is lost, and said again. */
static bool dial(struct rank_call *c)
{
    char endpoint[64];
    struct fault f = {0};

    c->connected = clock_monotonic();
    if (!find_desk(c, endpoint))
        return false;
    c->socket = zmq_socket(c->context, ZMQ_DEALER);
    if (!c->socket) {
        snprintf(c->why, sizeof(c->why), "%s", zmq_strerror(errno));
        return false;
    }
    set(c->socket, ZMQ_LINGER, 0);
    set(c->socket, ZMQ_IMMEDIATE, 1);
    if (run_key_apply(&c->key, c->socket, endpoint, false, &f) == ERR_OK &&
        zmq_connect(c->socket, endpoint) == 0)
        return true;
    snprintf(c->why, sizeof(c->why), "%s",
             *f.text ? f.text : zmq_strerror(errno));
    hang_up(c);
    return false;
}

static int ms_since(time_ns t)
{
    int64_t ms = (clock_monotonic() - t) / 1000000;

    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

/* A connection that brings nothing is given up. One that nobody takes waits:
 * the caller's loop is not to be a busy one. */
static bool is_connected(struct rank_call *c)
{
    time_ns silent = c->heard > c->connected ? c->heard : c->connected;

    if (c->socket && ms_since(silent) > RANK_CALL_AGAIN_MS)
        hang_up(c);
    if (c->socket || dial(c))
        return true;
    poll(NULL, 0, RANK_CALL_MS);
    return false;
}

/* ---- one message --------------------------------------------------------- */

static char *text_of(zmq_msg_t *part)
{
    size_t n = zmq_msg_size(part);
    char *text = n <= RANKS_TEXT_MAX + 64 ? mem_alloc(n + 1) : NULL;

    if (text) {
        memcpy(text, zmq_msg_data(part), n);
        text[n] = '\0';
    }
    return text;
}

/* The next answer that is one to @number, its word into @word and what is
 * behind its first line in *@more (owned by the caller). False: none came. */
static bool hear(struct rank_call *c, uint64_t number, char word[8],
                 char **more)
{
    time_ns began = clock_monotonic();
    int left;

    while ((left = RANK_CALL_MS - ms_since(began)) > 0) {
        zmq_pollitem_t item = {.socket = c->socket, .events = ZMQ_POLLIN};
        zmq_msg_t part;
        uint64_t n = 0;
        int end = 0;

        if (zmq_poll(&item, 1, left) <= 0)
            continue;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, c->socket, ZMQ_DONTWAIT) >= 0) {
            *more = text_of(&part);
            c->heard = clock_monotonic();
        }
        zmq_msg_close(&part);
        if (*more &&
            sscanf(*more, "%7s %16" SCNx64 "%n", word, &n, &end) == 2 &&
            n == number && (*more)[end] == '\n') {
            memmove(*more, *more + end + 1, strlen(*more + end + 1) + 1);
            return true;
        }
        mem_free(*more);
        *more = NULL;
    }
    return false;
}

static enum rank_told call(struct rank_call *c, const char *word,
                           uint64_t number, int code, struct ranks_work *work)
{
    char text[RANKS_HOST_MAX + 64], answer[8] = "", *more = NULL;
    enum rank_told told = RANK_TOLD_NOTHING;
    int n = snprintf(text, sizeof(text), "%s %u %016" PRIx64 " %d %s", word,
                     c->rank, number, code, c->own);

    if (!is_connected(c))
        return told;
    if (zmq_send(c->socket, text, (size_t)n, ZMQ_DONTWAIT) < 0) {
        poll(NULL, 0, RANK_CALL_MS);
        return told;
    }
    if (!hear(c, number, answer, &more))
        return told;
    if (work && strcmp(answer, "work") == 0) {
        if (ranks_read_work(more, work)) /* takes the text */
            told = RANK_TOLD_WORK;
        return told;
    }
    mem_free(more);
    if (strcmp(answer, "over") == 0)
        told = RANK_TOLD_OVER;
    else if (strcmp(answer, "stop") == 0)
        told = RANK_TOLD_STOP;
    else if (strcmp(answer, "ended") == 0)
        told = RANK_TOLD_ENDED;
    return told;
}

enum rank_told rank_call_ask(struct rank_call *c, uint64_t number,
                             struct ranks_work *work)
{
    return call(c, "ask", number, 0, work);
}

enum rank_told rank_call_run(struct rank_call *c, uint64_t number)
{
    return call(c, "run", number, 0, NULL);
}

enum rank_told rank_call_end(struct rank_call *c, uint64_t number, int code)
{
    return call(c, "end", number, code, NULL);
}

enum rank_told rank_call_leave(struct rank_call *c)
{
    return call(c, "left", 0, 0, NULL);
}

int64_t rank_call_silent_ms(const struct rank_call *c)
{
    return ms_since(c->heard);
}

const char *rank_call_why(const struct rank_call *c)
{
    return c->why;
}
