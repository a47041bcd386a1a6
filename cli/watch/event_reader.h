/* Reads the answer of an event stream as it comes: HTTP/1.1 head, body in
 * chunks or not (RFC 9112), events (WHATWG HTML, section 9.2).
 *
 * Pure: bytes go in, in pieces of any size, events come out. What other peers
 * send is checked: what is no such answer, or is longer than any that mltune
 * sends, is ERR_FORMAT, and nothing more is read.
 */
#ifndef CLI_EVENT_READER_H
#define CLI_EVENT_READER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_READER_HEAD_MAX = 16 * 1024,
    EVENT_READER_LINE_MAX = 256 * 1024, /* also of one event's data */
    EVENT_READER_KIND_MAX = 64
};

/* Borrowed for the visit. */
struct event_read {
    bool numbered;    /* some event so far was */
    uint64_t id;      /* its own, else that of the newest before; 0: none */
    const char *kind; /* "message" where none is said */
    const char *data;
};

typedef enum err event_read_visit(void *ctx, const struct event_read *event);

struct event_reader {
    int status; /* of the answer; 0: its head is not there yet */
    /* Its own: */
    int part; /* of the answer that comes next */
    bool chunked, over, after_cr;
    uint64_t chunk_left;
    struct text head, line, data; /* owned */
    char kind[EVENT_READER_KIND_MAX];
    uint64_t id;
    bool numbered;
};

/* Zeroed is at the beginning of an answer. */
void event_reader_deinit(struct event_reader *r);

/* Takes @bytes[@len] and calls @visit with each event that is complete, which
 * ends it by an error that is passed on. The body of an answer whose status is
 * not 200 is not looked at. Errors: ERR_FORMAT, ERR_NOMEM. */
enum err event_reader_feed(struct event_reader *r, const char *bytes,
                           size_t len, event_read_visit *visit, void *ctx);

/* Whether the body has ended as one in chunks does. */
bool event_reader_over(const struct event_reader *r);

#endif
