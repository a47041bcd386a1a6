/* Event streams: runs' live events to clients that stay connected
 * (text/event-stream, WHATWG HTML section 9.2).
 *
 * All in the server's thread: a stream that has nothing to say is suspended, a
 * wake-up of its run's log, or the next heartbeat, resumes it. A reader that is
 * too slow for the log to keep what it has not read is told so and dropped; one
 * that reads nothing at all is cut by the reaper.
 */
#ifndef API_STREAM_IO_H
#define API_STREAM_IO_H

#include "api/http/event_log.h"
#include "api/http/reaper.h"
#include "api/http/response.h"

#include <stdint.h>

struct MHD_Connection;
struct MHD_Response;

enum { STREAMS_MAX = 512 }; /* so that there are places for others */

struct stream;

/* Zeroed is empty, but for wake_fd. */
struct streams {
    int wake_fd;       /* the server's eventfd */
    time_ns heartbeat; /* a comment after so long without an event */
    /* Calls of the server's thread: */
    struct stream *first;
    unsigned open;
    bool armed;         /* the logs write wake_fd when there is news */
    time_ns next_flush; /* news is gathered until then */
    bool ending;        /* what has nothing more to say ends */
    char *scratch;      /* owned; EVENT_TEXT_MAX * 2 bytes */
};

/* A stream of @log's events past @after to @connection, in the library's form;
 * @head: its headers. NULL: out of memory, or STREAMS_MAX are open. */
struct MHD_Response *streams_open(struct streams *s,
                                  struct MHD_Connection *connection,
                                  struct reaper_entry *entry,
                                  struct event_log *log, uint64_t after,
                                  const struct response *head);

/* Resumes those that have something to say. Every turn of the thread. */
void streams_serve(struct streams *s, time_ns now);

/* When streams_serve has to be called without a wake-up; INT64_MAX: never. */
time_ns streams_deadline(const struct streams *s);

/* From here on each ends when it has said what there is; none is suspended any
 * more. */
void streams_end(struct streams *s);

/* After the library has stopped. */
void streams_deinit(struct streams *s);

#endif
