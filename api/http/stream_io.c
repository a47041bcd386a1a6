#include "api/http/stream_io.h"

#include "api/http/headers_io.h"
#include "base/clock_io.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

enum {
    BLOCK_BYTES = 32 * 1024, /* that the library asks for at a time */
    SCRATCH_BYTES = 2 * EVENT_TEXT_MAX
};

/* A page is not drawn more often, and a wake-up for each of a thousand records
 * a second would cost the run more than they are worth. */
static const time_ns GATHER = 50000000;

struct stream {
    struct streams *owner;
    struct stream *next;
    struct MHD_Connection *connection;
    struct reaper_entry *entry;
    struct event_log *log;
    char kinds[STREAM_KINDS_MAX]; /* that its client wants; "": all */
    uint64_t after;
    char *text; /* owned: written, but not taken by the library yet */
    size_t len, at, capacity;
    time_ns said; /* when something was written last */
    bool suspended, over;
};

/* ---- what a stream says -------------------------------------------------- */

static bool say(struct stream *s, const char *text, size_t len)
{
    void *grown = s->text;

    assert(len > 0);
    assert(s->at == s->len);
    s->at = s->len = 0;
    if (mem_grow(&grown, &s->capacity, 1, len) != 0)
        return false;
    s->text = grown;
    memcpy(s->text, text, len);
    s->len = len;
    return true;
}

static bool say_dropped(struct stream *s, uint64_t kept_after)
{
    char text[192];
    int n = snprintf(text, sizeof(text),
                     "event: dropped\ndata: {\"last\":%" PRIu64
                     ",\"newest\":%" PRIu64 ",\"kept_after\":%" PRIu64 "}\n\n",
                     s->after, event_log_newest(s->log), kept_after);

    s->over = true;
    return say(s, text, (size_t)n);
}

/* False: there is nothing to say now. Without memory the stream ends: its
 * client comes again with the last number that it has. */
static bool refill(struct stream *s, time_ns now)
{
    static const char beat[] = ": still here\n\n";
    struct event_reading r;
    bool ok;

    assert(s->at == s->len);
    assert(s->owner->scratch);
    event_log_read(s->log, s->after, s->kinds, EVENT_STREAM, SIZE_MAX,
                   s->owner->scratch, SCRATCH_BYTES, &r);
    if (r.len == 0 && !r.missed)
        s->after = r.last; /* none of them is one that the client wants */
    if (r.missed)
        ok = say_dropped(s, r.kept_after);
    else if (r.len > 0)
        ok = say(s, s->owner->scratch, r.len);
    else if (now - s->said >= s->owner->heartbeat)
        ok = say(s, beat, sizeof(beat) - 1);
    else
        return false;
    s->after = r.last;
    s->over |= !ok;
    return true;
}

/* The library's question for more; -1 ends the answer. */
static ssize_t on_read(void *cls, uint64_t position, char *buffer, size_t max)
{
    struct stream *s = cls;
    time_ns now = clock_monotonic();
    /* Asked first: what came before the end is read then. */
    bool ended = event_log_ended(s->log);
    size_t n;

    (void)position;
    if (s->at == s->len && !s->over && !refill(s, now)) {
        if (s->owner->ending || ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        s->suspended = true;
        s->owner->armed = false; /* for this one */
        MHD_suspend_connection(s->connection);
        return 0;
    }
    if (s->at == s->len)
        return MHD_CONTENT_READER_END_OF_STREAM;
    n = s->len - s->at < max ? s->len - s->at : max;
    memcpy(buffer, s->text + s->at, n);
    s->at += n;
    s->said = now;
    reaper_enter(s->entry, REAPER_STREAM, now);
    return (ssize_t)n;
}

/* ---- life ---------------------------------------------------------------- */

static void on_free(void *cls)
{
    struct stream *s = cls;
    struct stream **at = &s->owner->first;

    assert(s->owner->open > 0);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->owner->open--;
    event_log_free(s->log);
    mem_free(s->text);
    mem_free(s);
}

static struct stream *stream_new(struct streams *owner)
{
    struct stream *s;

    if (!owner->scratch)
        owner->scratch = mem_alloc(SCRATCH_BYTES);
    if (!owner->scratch || owner->open == STREAMS_MAX)
        return NULL;
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->owner = owner;
    s->next = owner->first;
    owner->first = s;
    owner->open++;
    return s;
}

struct MHD_Response *streams_open(struct streams *owner,
                                  struct MHD_Connection *connection,
                                  struct reaper_entry *entry,
                                  struct event_log *log, uint64_t after,
                                  const struct response *head)
{
    static const char greeting[] = "retry: 2000\n\n";
    struct stream *s = stream_new(owner);
    struct MHD_Response *made;

    assert(owner->wake_fd >= 0);
    assert(connection && log && head->stream == log);
    if (!s)
        return NULL;
    s->connection = connection;
    s->entry = entry;
    s->log = event_log_hold(log);
    s->after = after;
    memcpy(s->kinds, head->stream_kinds, sizeof(s->kinds));
    s->said = clock_monotonic();
    if (!say(s, greeting, sizeof(greeting) - 1)) {
        on_free(s);
        return NULL;
    }
    made = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                             on_read, s, on_free);
    if (!made) {
        on_free(s);
        return NULL;
    }
    if (!headers_add(made, head)) {
        MHD_destroy_response(made);
        return NULL;
    }
    return made;
}

static void wake_up(struct stream *s)
{
    assert(s->suspended);
    s->suspended = false;
    MHD_resume_connection(s->connection);
}

void streams_serve(struct streams *s, time_ns now)
{
    bool gathered = now >= s->next_flush, woken = false, rests = false;

    assert(s->open == 0 || s->first);
    for (struct stream *x = s->first; x; x = x->next) {
        if (!x->suspended)
            continue;
        if ((gathered && (event_log_newest(x->log) > x->after ||
                          event_log_ended(x->log))) ||
            now - x->said >= s->heartbeat) {
            wake_up(x);
            woken = true;
        } else {
            rests = true;
        }
    }
    if (woken) {
        s->next_flush = now + GATHER;
        s->armed = false;
    } else if (gathered && rests && !s->armed) {
        s->armed = true;
        for (struct stream *x = s->first; x; x = x->next)
            if (x->suspended)
                event_log_wake(x->log, x->after, s->wake_fd);
    }
}

time_ns streams_deadline(const struct streams *s)
{
    time_ns least = INT64_MAX;

    for (const struct stream *x = s->first; x; x = x->next) {
        if (!x->suspended)
            continue;
        if (x->said + s->heartbeat < least)
            least = x->said + s->heartbeat;
        if (!s->armed && s->next_flush < least)
            least = s->next_flush;
    }
    return least;
}

void streams_end(struct streams *s)
{
    s->ending = true;
    for (struct stream *x = s->first; x; x = x->next)
        if (x->suspended)
            wake_up(x);
}

void streams_deinit(struct streams *s)
{
    assert(!s->first);
    mem_free(s->scratch);
    s->scratch = NULL;
}
