/* The live events of a run: its latest records, read by many at their own pace.
 *
 * The control loop appends; readers copy whole events from where they are. What
 * is too old is dropped, whoever has not read it yet: memory is bounded, and
 * the loop never waits for a reader. Numbers are those of the run's records, so
 * that they go on where a run is resumed. Thread-safe: a lock of its own, held
 * for no longer than a copy.
 */
#ifndef API_EVENT_LOG_H
#define API_EVENT_LOG_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_LOG_BYTES = 4 * 1024 * 1024, /* of texts that are kept */
    EVENT_LOG_EVENTS = 16384,
    EVENT_TEXT_MAX = 64 * 1024 /* a longer event is left out */
};

struct event_log;

/* Errors: ERR_NOMEM. */
enum err event_log_new(struct event_log **out);

/* For a reader that may outlive its owner. The caller knows that @log lives;
 * each is to be freed. Returns @log. */
struct event_log *event_log_hold(struct event_log *log);

/* Accepts NULL. The last one who holds it frees it. */
void event_log_free(struct event_log *log);

/* Appends event @id, larger than all before; @kind and @json (one line) are
 * copied. Left out without memory, and where it is too long. */
void event_log_append(struct event_log *log, uint64_t id, const char *kind,
                      const char *json);

/* Writes to eventfd @fd at the next append, once, or now if there is something
 * past @after already. @fd must stay open until then; -1: not any more. */
void event_log_wake(struct event_log *log, uint64_t after, int fd);

/* Nothing comes any more, or (not @ended) again: streams end where it is read
 * to its end. A new log goes on. */
void event_log_set_ended(struct event_log *log, bool ended);
bool event_log_ended(struct event_log *log);

/* Gives up the texts of all that is in it, for logs that nobody is likely to
 * read any more: who does is told that it was dropped. */
void event_log_clear(struct event_log *log);

/* Begins the log after event @id: those before were read elsewhere. Nothing was
 * appended to it yet. */
void event_log_skip(struct event_log *log, uint64_t id);

/* Number of the newest event that was appended or left out; 0: none. */
uint64_t event_log_newest(struct event_log *log);

/* Where a client goes on: the number in @text, its Last-Event-ID; without one
 * (NULL, other than 1 to 18 digits) after the newest. */
uint64_t event_log_after(struct event_log *log, const char *text);

/* The form in which events are written: text/event-stream, or as a JSON array's
 * items. */
enum event_form { EVENT_STREAM, EVENT_ITEMS };

struct event_reading {
    size_t len;    /* bytes written */
    size_t events; /* written */
    uint64_t last; /* of the last one, or passed over, or what it was after */
    bool missed;   /* some after that are dropped already: nothing is written */
    uint64_t kept_after; /* all after this one are kept */
};

/* Whole events with numbers above @after, as many as fit into @size >=
 * 2 * EVENT_TEXT_MAX bytes, at most @most; of @kinds only,
 * "decision,epoch_ended" (NULL, "": all). Others are passed over: @out->last
 * counts them. */
void event_log_read(struct event_log *log, uint64_t after, const char *kinds,
                    enum event_form form, size_t most, char *buffer,
                    size_t size, struct event_reading *out);

#endif
