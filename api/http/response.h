/* Responses: what a route answers, as data, before any socket.
 *
 * A response is a status, a media type and a body. Errors are problem documents
 * (RFC 9457) with a stable `code` and one entry in `errors` for each fault,
 * with a pointer to what is wrong: "/path/run", "/query/page_size",
 * "/header/host". Building one cannot fail: without memory it becomes a fixed
 * answer with status 503.
 */
#ifndef API_RESPONSE_H
#define API_RESPONSE_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_log;

enum {
    RESPONSE_ALLOW_MAX = 64,
    RESPONSE_LOCATION_MAX = 96,
    RESPONSE_RUN_MAX = 65,
    RESPONSE_FILE_MAX = 128,
    RESPONSE_COOKIE_MAX = 160,
    RESPONSE_HEADERS_MAX = 16,
    STREAM_KINDS_MAX = 256,  /* bytes of names of kinds of events */
    RESPONSE_ERRORS_MAX = 32 /* entries in `errors`; further faults are
                              * counted in `detail` */
};

struct response {
    int status;       /* 0: not answered yet */
    const char *type; /* media type; static */
    const char *body; /* NULL only while status is 0 */
    size_t len;
    char *owned;                          /* == body where it is to be freed */
    char allow[RESPONSE_ALLOW_MAX];       /* for 405 */
    char location[RESPONSE_LOCATION_MAX]; /* of what was made; "" none */
    bool part; /* of a change: the answer to its last request tells */
    char cookie[RESPONSE_COOKIE_MAX]; /* that a browser gets; "" none */
    bool personal; /* about who asks: never an answer to anybody else */
    bool page;     /* a document or its parts, not data: may load from itself */
    bool close;    /* the connection is not to be used again */
    bool challenge; /* a token is needed: WWW-Authenticate */
    char stream_kinds[STREAM_KINDS_MAX]; /* of it; "": all */
    struct event_log *stream;  /* held: its events are the body; NULL: not a
                                * stream */
    const char *export_format; /* static: an export of export_run is the body;
                                * NULL: none is */
    char export_run[RESPONSE_RUN_MAX];
    char disposition[RESPONSE_FILE_MAX]; /* to be kept as a file; "" not */
    /* A piece of a log (never an answer to be given again): the places of its
     * first byte and behind its last; "" elsewhere. */
    char log_from[24], log_next[24];
};

/* Releases the body; accepts a zeroed response. */
void response_deinit(struct response *r);

/* Answers with @json (always transferred; NULL: out of memory, 503). */
void response_json(struct response *r, int status, json_t *json);

/* Answers with @text[@len], owned (mem_free); @type is static. */
void response_text(struct response *r, int status, const char *type, char *text,
                   size_t len);

/* Answers 200 with a stream of @log's events, of @kinds (as event_log_read has
 * them, shorter than STREAM_KINDS_MAX); the body is empty here. */
void response_stream(struct response *r, struct event_log *log,
                     const char *kinds);

/* Answers 200 with run @run exported as @format, of the media type @type, both
 * static: RESPONSE_TAR is an archive of several files, another one file. The
 * body is empty here. */
#define RESPONSE_TAR "application/x-tar"
void response_export(struct response *r, const char *run, const char *format,
                     const char *type);

/* Answers 200 with the piece @bytes[@len], owned (mem_free), of a log, from
 * byte
 * @from on. */
void response_log(struct response *r, char *bytes, size_t len, uint64_t from);

/* Answers 303: the page, with the cookie that the formatted text is. */
void response_enter(struct response *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Answers 200 with static @body. */
void response_static(struct response *r, const char *type, const char *body,
                     size_t len);

/* ---- problems ------------------------------------------------------------ */

struct response_fault {
    char pointer[96];
    char detail[256];
};

/* Faults of one request, collected before it is refused. Zeroed is empty. */
struct response_faults {
    size_t len; /* found; those past RESPONSE_ERRORS_MAX are only counted */
    struct response_fault item[RESPONSE_ERRORS_MAX];
};

void response_fault_add(struct response_faults *fs, const char *pointer,
                        const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Answers with a problem document. @code: stable, snake_case, a literal;
 * @faults may be NULL; the formatted text is the `detail`, a sentence. */
void response_problem(struct response *r, int status, const char *code,
                      const struct response_faults *faults, const char *fmt,
                      ...) __attribute__((format(printf, 5, 6)));

/* Answers 401: a token is needed. What was wrong is not said. */
void response_unauthorized(struct response *r);

/* "Not Found"; "" for a status that no route uses. */
const char *response_reason(int status);

/* ---- headers ------------------------------------------------------------- */

struct response_header {
    const char *name, *value; /* static, or within the response */
};

/* The headers of @r besides length, date and connection; returns how many.
 * Every response has the security headers. */
size_t response_headers(const struct response *r,
                        struct response_header out[RESPONSE_HEADERS_MAX]);

#endif
