#include "api/http/event_log.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { KIND_MAX = 32, AROUND_MAX = 128 /* of an event's form */ };

struct event {
    uint64_t id;
    char kind[KIND_MAX];
    char *json; /* owned */
    size_t len;
};

struct event_log {
    pthread_mutex_t lock;
    atomic_uint holders;
    /* Guarded by the lock: */
    struct event event[EVENT_LOG_EVENTS]; /* a ring; number n at n % EVENTS */
    uint64_t first, end; /* ring numbers of the oldest, and past the newest */
    size_t bytes;
    uint64_t newest;  /* id */
    uint64_t dropped; /* id of the last that was dropped or left out */
    bool ended;
    int wake_fd;
};

enum err event_log_new(struct event_log **out)
{
    struct event_log *log = mem_calloc(1, sizeof(*log));

    assert(out);
    if (!log)
        return ERR_NOMEM;
    pthread_mutex_init(&log->lock, NULL);
    atomic_init(&log->holders, 1);
    log->wake_fd = -1;
    *out = log;
    return ERR_OK;
}

static struct event *at(struct event_log *log, uint64_t n)
{
    return &log->event[n % EVENT_LOG_EVENTS];
}

static void drop_oldest(struct event_log *log)
{
    struct event *e = at(log, log->first++);

    assert(log->bytes >= e->len);
    log->bytes -= e->len;
    log->dropped = e->id;
    mem_free(e->json);
    e->json = NULL;
}

struct event_log *event_log_hold(struct event_log *log)
{
    assert(log);
    atomic_fetch_add(&log->holders, 1);
    return log;
}

void event_log_free(struct event_log *log)
{
    if (!log || atomic_fetch_sub(&log->holders, 1) > 1)
        return;
    while (log->first < log->end)
        drop_oldest(log);
    pthread_mutex_destroy(&log->lock);
    mem_free(log);
}

/* The counter is far from full, so it does not fail. */
static void ring(struct event_log *log)
{
    uint64_t one = 1;

    if (log->wake_fd >= 0 &&
        write(log->wake_fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "wake_failed", "errno=%d", errno);
    log->wake_fd = -1;
}

static void append(struct event_log *log, uint64_t id, const char *kind,
                   char *json, size_t len)
{
    struct event *e;

    assert(id > log->newest);
    log->newest = id;
    if (!json) {
        /* Whoever has not read so far must know that one is missing. */
        while (log->first < log->end)
            drop_oldest(log);
        log->dropped = id;
        return;
    }
    while (log->first < log->end &&
           (log->end - log->first == EVENT_LOG_EVENTS ||
            log->bytes + len > EVENT_LOG_BYTES))
        drop_oldest(log);
    e = at(log, log->end++);
    e->id = id;
    e->json = json;
    e->len = len;
    log->bytes += len;
    snprintf(e->kind, sizeof(e->kind), "%s", kind);
}

void event_log_append(struct event_log *log, uint64_t id, const char *kind,
                      const char *json)
{
    size_t len = strlen(json);
    char *copy = len <= EVENT_TEXT_MAX ? mem_strdup(json) : NULL;

    assert(kind[0]);
    pthread_mutex_lock(&log->lock);
    append(log, id, kind, copy, len);
    ring(log);
    pthread_mutex_unlock(&log->lock);
}

void event_log_wake(struct event_log *log, uint64_t after, int fd)
{
    pthread_mutex_lock(&log->lock);
    log->wake_fd = fd;
    if (log->newest > after || log->ended)
        ring(log);
    pthread_mutex_unlock(&log->lock);
}

void event_log_set_ended(struct event_log *log, bool ended)
{
    pthread_mutex_lock(&log->lock);
    log->ended = ended;
    if (ended)
        ring(log);
    pthread_mutex_unlock(&log->lock);
}

bool event_log_ended(struct event_log *log)
{
    bool ended;

    pthread_mutex_lock(&log->lock);
    ended = log->ended;
    pthread_mutex_unlock(&log->lock);
    return ended;
}

void event_log_clear(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    while (log->first < log->end)
        drop_oldest(log);
    pthread_mutex_unlock(&log->lock);
}

void event_log_skip(struct event_log *log, uint64_t id)
{
    pthread_mutex_lock(&log->lock);
    assert(log->newest == 0);
    log->newest = log->dropped = id;
    pthread_mutex_unlock(&log->lock);
}

uint64_t event_log_newest(struct event_log *log)
{
    uint64_t id;

    pthread_mutex_lock(&log->lock);
    id = log->newest;
    pthread_mutex_unlock(&log->lock);
    return id;
}

uint64_t event_log_after(struct event_log *log, const char *text)
{
    uint64_t n = 0;
    size_t i = 0;

    for (; text && text[i] >= '0' && text[i] <= '9' && i < 18; i++)
        n = n * 10 + (uint64_t)(text[i] - '0');
    return i > 0 && !text[i] ? n : event_log_newest(log);
}

/* ---- reading ------------------------------------------------------------- */

/* Ring number of the oldest event past @after, by halving. */
static uint64_t find(struct event_log *log, uint64_t after)
{
    uint64_t low = log->first, high = log->end;

    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (at(log, mid)->id <= after)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t write_event(const struct event *e, enum event_form form,
                          bool first, char *out, size_t size)
{
    int n;

    if (form == EVENT_STREAM)
        n = snprintf(out, size, "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n",
                     e->id, e->kind, e->json);
    else
        n = snprintf(out, size,
                     "%s{\"id\":%" PRIu64 ",\"event\":\"%s\",\"data\":%s}",
                     first ? "" : ",", e->id, e->kind, e->json);
    assert(n > 0 && (size_t)n < size);
    return (size_t)n;
}

/* Whether @kind is among the names of @kinds. */
static bool is_among(const char *kinds, const char *kind)
{
    size_t n = strlen(kind);
    const char *at = kinds;

    while (at && (strncmp(at, kind, n) != 0 || (at[n] && at[n] != ','))) {
        at = strchr(at, ',');
        at += at ? 1 : 0;
    }
    return at != NULL;
}

void event_log_read(struct event_log *log, uint64_t after, const char *kinds,
                    enum event_form form, size_t most, char *buffer,
                    size_t size, struct event_reading *out)
{
    assert(buffer);
    assert(out);
    assert(size >= 2 * (size_t)EVENT_TEXT_MAX);
    *out = (struct event_reading){.last = after};
    pthread_mutex_lock(&log->lock);
    out->missed = after < log->dropped;
    out->kept_after = log->dropped;
    for (uint64_t n = find(log, after); n < log->end && !out->missed; n++) {
        const struct event *e = at(log, n);

        if (kinds && *kinds && !is_among(kinds, e->kind)) {
            out->last = e->id;
            continue;
        }
        if (out->events == most || e->len + AROUND_MAX > size - out->len)
            break;
        out->len += write_event(e, form, out->events == 0, buffer + out->len,
                                size - out->len);
        out->events++;
        out->last = e->id;
    }
    pthread_mutex_unlock(&log->lock);
}
