/* Exports on their way: each is written by a process, `mltune export`, whose
 * output is the body.
 *
 * A process of its own, because an export reads the whole journal: it takes
 * memory with the number of trials, and time. So the server holds a pipe and a
 * block of each, the run's control loop is not asked at all, and a client that
 * takes its time holds nothing up but that process, which waits in its pipe. It
 * yields to the training (nice 10) and ends when the server does.
 *
 * All in the server's thread. A connection rests until there is something for
 * it: first for the first bytes, so that an export that fails at once is
 * answered with an error; then whenever the pipe is empty. One that fails later
 * breaks its connection off, and does not pass for a whole one.
 */
#ifndef API_EXPORT_IO_H
#define API_EXPORT_IO_H

#include "api/http/asker.h"
#include "api/http/reaper.h"
#include "api/http/response.h"
#include "base/subprocess_io.h"

struct MHD_Connection;
struct MHD_Response;

enum {
    EXPORTS_MAX = 4,        /* at a time; the last place is an admin's */
    EXPORTS_EACH = 2,       /* of these, of a named token */
    EXPORTS_DYING_MAX = 64, /* given up, and not gone yet */
    EXPORT_BLOCK = 32 * 1024
};

struct outgoing;

struct exports {
    const char *state; /* folder whose runs are exported; NULL: none are */
    int wake_fd;       /* epoll: readable when a pipe is; -1 */
    struct outgoing *first;
    unsigned open;
    bool ending;
    struct subprocess dying[EXPORTS_DYING_MAX];
    size_t dying_len;
};

/* Errors: ERR_IO. */
enum err exports_init(struct exports *e, const char *state);

/* Starts what @by asks for in @r (response_export) and lets @connection rest.
 * NULL: @out refuses it. */
struct outgoing *exports_start(struct exports *e,
                               struct MHD_Connection *connection,
                               struct reaper_entry *entry,
                               const struct asker *by, const struct response *r,
                               struct response *out);

/* When the connection is resumed: the answer, in the library's form, with the
 * headers of @r. *@x goes over to it, also where that fails (*@x is NULL then);
 * NULL: @out is another answer, or where it has no status the connection rests
 * again. */
struct MHD_Response *exports_answer(struct outgoing **x,
                                    const struct response *r,
                                    struct response *out);

/* Gives up an export that was not answered. Accepts NULL. */
void exports_drop(struct outgoing *x);

/* Resumes those that have something. Every turn of the thread. */
void exports_serve(struct exports *e, time_ns now);

/* No more: all that is open is broken off, and rests no more. */
void exports_end(struct exports *e);

/* After the library has stopped. Waits for processes that were killed. */
void exports_deinit(struct exports *e);

#endif
