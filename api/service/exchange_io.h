/* Exchanges: each HTTP request from its first line to its answer.
 *
 * The HTTP library calls exchange_begin, exchange_go_on (with the head; then
 * with pieces of the body, at its end, and when a connection is resumed) and
 * exchange_end, with a struct exchanges for @cls. Reads are answered at once,
 * but for those of a run that rests, which the waker reads first. A write, and
 * a read that the run itself has to answer, is posted. A connection rests until
 * exchanges_collect finds the answer, or the run read. One owner thread, the
 * server's.
 */
#ifndef API_EXCHANGE_IO_H
#define API_EXCHANGE_IO_H

#include "api/http/listen.h"
#include "api/http/quota.h"
#include "api/http/reaper.h"
#include "api/http/stream_io.h"
#include "api/http/tokens_io.h"
#include "api/routes/export_io.h"
#include "api/service/reply_io.h"
#include "api/service/service.h"
#include "api/service/waker_io.h"
#include "api/view/view.h"

#include <stdatomic.h>

struct exchanges {
    struct view *view;                 /* borrowed */
    const struct listen_address *self; /* borrowed */
    const struct listen_address *here; /* the same, by the Unix socket */
    struct service_readers readers;
    struct tokens_watch tokens; /* those with names */
    const char *audit;          /* folder whose audit has each change, borrowed;
                                 * NULL: none has */
    struct entrance entrance;
    void (*entered)(void *ctx, const char *code); /* there is a new code */
    void *entered_ctx;
    const struct reaper *reaper; /* borrowed */
    struct quota quota;          /* of strangers, for what costs the run */
    struct toll toll;            /* of all of them, by TCP */
    unsigned toll_times;         /* for one of them */
    int wake_fd;                 /* written when an answer is there; borrowed */
    const atomic_bool *stop;     /* borrowed; set: no write is begun */
    struct streams streams;
    struct exports exports;
    struct replies replies;
    struct exchange *waiting; /* for their run's answer, or that it is read;
                               * suspended */
    struct waker *waker;      /* borrowed; NULL: no run rests */
    uint64_t refused;         /* requests */
    time_ns used;             /* when one was let in last */
};

void *exchange_begin(void *cls, const char *target,
                     struct MHD_Connection *connection);
enum MHD_Result exchange_go_on(void *cls, struct MHD_Connection *connection,
                               const char *url, const char *method,
                               const char *version, const char *upload,
                               size_t *upload_size, void **context);
void exchange_end(void *cls, struct MHD_Connection *connection, void **context,
                  enum MHD_RequestTerminationCode code);

/* A new code for the page's way in, and at first the cookie's secret; tells
 * whoever wants to know it. Without random bytes nobody comes in. */
void exchanges_open_entrance(struct exchanges *s);

/* Goes on with those whose run has answered, or takes too long. */
void exchanges_collect(struct exchanges *s);

/* When something is to be done without any event; INT64_MAX: never. */
time_ns exchanges_deadline(const struct exchanges *s);

/* Answers all that wait: no connection may be suspended when the library stops.
 * @stop is set. */
void exchanges_end(struct exchanges *s);

/* Whether the @count-th of what a client can do as often as it likes goes to
 * the log: it must not fill the disk. The first ones do, then the 32nd, 64th,
 * 128th, ... */
bool exchanges_worth_logging(uint64_t count);

#endif
