#include "tuner/shell/rank_desk_io.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "tuner/shell/socket_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct rank_desk {
    struct tuner_socket socket; /* the thread's own while it runs */
    unsigned size;
    char place[FILE_PATH_MAX];
    atomic_bool stop;
    pthread_t thread;
};

/* ---- what is said -------------------------------------------------------- */

struct pod_request {
    char word[8], host[RANKS_HOST_MAX];
    unsigned rank;
    uint64_t number;
    int code;
};

static bool read_request(const char *text, unsigned size, struct pod_request *r)
{
    return sscanf(text, "%7s %u %16" SCNx64 " %d %255s", r->word, &r->rank,
                  &r->number, &r->code, r->host) == 5 &&
           r->rank > 0 && r->rank < size;
}

static const char *answer_ask(const char *place, const struct pod_request *r,
                              char **work)
{
    char host[RANKS_HOST_MAX];
    uint64_t number;

    if (ranks_is_over(place, r->rank, r->number))
        return "over";
    *work = ranks_answer_to(place, r->rank, r->number);
    if (*work)
        return "work";
    if (!ranks_asked(place, r->rank, &number, host) || number != r->number)
        ranks_ask(place, r->rank, r->number, r->host, NULL);
    return "wait";
}

static const char *answer_end(const char *place, const struct pod_request *r)
{
    ranks_taken(place, r->rank, r->number);
    if (ranks_ended(place, r->rank, r->number, NULL) ||
        ranks_end(place, r->rank, r->number, r->code, NULL) == ERR_OK)
        return "ended";
    return "wait";
}

static const char *answer_to(const char *place, const struct pod_request *r,
                             char **work)
{
    if (strcmp(r->word, "ask") == 0)
        return answer_ask(place, r, work);
    if (strcmp(r->word, "end") == 0)
        return answer_end(place, r);
    if (strcmp(r->word, "left") == 0) {
        ranks_leave(place, r->rank);
        return "ended";
    }
    ranks_taken(place, r->rank, r->number);
    return ranks_stopped(place, r->rank, r->number) ? "stop" : "wait";
}

static void answer(const char *place, unsigned size, const char *text,
                   struct text *out)
{
    struct pod_request r;
    char *work = NULL;

    if (!read_request(text, size, &r))
        return;
    text_printf(out, "%s %016" PRIx64 "\n", answer_to(place, &r, &work),
                r.number);
    if (work)
        text_puts(out, work);
    mem_free(work);
}

/* ---- the thread ---------------------------------------------------------- */

static void take_all(struct rank_desk *d)
{
    for (;;) {
        struct text said = {0};
        struct socket_peer from;
        char *text = NULL;
        size_t len;
        enum err err = socket_receive(&d->socket, &from, &text, &len);

        if (err == ERR_AGAIN || err == ERR_IO)
            return;
        if (!err)
            answer(d->place, d->size, text, &said);
        if (text_length(&said) > 0 && !text_lost(&said))
            socket_send(&d->socket, &from, text_so_far(&said),
                        text_length(&said));
        text_deinit(&said);
        mem_free(text);
    }
}

static void *serve(void *arg)
{
    struct rank_desk *d = arg;
    zmq_pollitem_t item = {.socket = d->socket.router, .events = ZMQ_POLLIN};

    while (!atomic_load(&d->stop))
        if (zmq_poll(&item, 1, RANKS_LOOK_MS) > 0)
            take_all(d);
    return NULL;
}

static enum err start(struct rank_desk *d, const char *address, const char *key,
                      struct fault *f)
{
    struct fault why = {0};
    enum err err = socket_open_outside(
        &d->socket, d->place, address,
        "nothing else in the pod may listen at that port", key, d->size, &why);
    int errnum;

    if (err)
        return fault_set(f, err, "cannot listen for the job's pods: %.400s",
                         why.text);
    errnum = pthread_create(&d->thread, NULL, serve, d);
    if (!errnum)
        return ERR_OK;
    socket_close(&d->socket);
    return fault_errno(f, ERR_IO, errnum, "start a thread");
}

/* Its threads, and those of its socket, are to hear none of the signals that
 * the tuner will listen to. */
enum err rank_desk_open(const char *address, const char *key, unsigned size,
                        const char *place, struct rank_desk **out,
                        struct fault *f)
{
    struct rank_desk *d = mem_calloc(1, sizeof(*d));
    sigset_t all, own;
    enum err err;

    assert(size > 0 && strlen(place) < FILE_PATH_MAX);
    if (!d)
        return fault_set(f, ERR_NOMEM, "out of memory");
    d->size = size;
    snprintf(d->place, sizeof(d->place), "%s", place);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &own);
    err = start(d, address, key, f);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    if (err) {
        mem_free(d);
        return err;
    }
    log_event(LOG_INFO, "desk_opens", "endpoint=%s", d->socket.endpoint);
    *out = d;
    return ERR_OK;
}

void rank_desk_close(struct rank_desk *d)
{
    if (!d)
        return;
    atomic_store(&d->stop, true);
    pthread_join(d->thread, NULL);
    socket_close(&d->socket);
    mem_free(d);
}
