#include "ps/space/host.h"

#include "base/mem.h"
#include "ps/space/budget.h"
#include "ps/space/stream.h"

#include <stdio.h>

struct host_space {
    struct memory_space base;
    struct space_budget budget;
};

struct host_event {
    struct space_event base;
    struct fault error; /* of the stream that recorded it */
};

static struct host_space *host_of(struct memory_space *s)
{
    return (struct host_space *)s;
}

/* ---- the space and its memory -------------------------------------------- */

static enum err host_devices(struct space_device *out, size_t max, size_t *n,
                             struct fault *f)
{
    (void)f;
    *n = max > 0;
    if (*n)
        *out = (struct space_device){.name = "host", .what = "this process"};
    return ERR_OK;
}

static enum err host_open(const struct space_options *o,
                          struct memory_space **out, struct fault *f)
{
    struct host_space *h = mem_calloc(1, sizeof(*h));

    if (!h)
        return fault_set(f, ERR_NOMEM, "no memory for a memory space");
    h->base.ops = &space_host;
    budget_init(&h->budget, o->limit);
    *out = &h->base;
    return ERR_OK;
}

static void host_close(struct memory_space *s)
{
    mem_free(s);
}

static enum err host_memory(struct memory_space *s, struct space_memory *out,
                            struct fault *f)
{
    (void)f;
    *out = (struct space_memory){.total = UINT64_MAX, .free = UINT64_MAX};
    budget_tell(&host_of(s)->budget, out);
    return ERR_OK;
}

static enum err host_alloc(struct memory_space *s, size_t bytes, void **out,
                           struct fault *f)
{
    struct space_budget *b = &host_of(s)->budget;
    enum err err = budget_take(b, bytes, f);
    void *at;

    if (err)
        return err;
    at = mem_aligned(SPACE_ALIGN, bytes);
    if (!at) {
        budget_give(b, bytes);
        return fault_set(f, ERR_LIMIT,
                         "%zu bytes were asked for: this machine has no memory "
                         "left; keep fewer branches at a time",
                         bytes);
    }
    *out = at;
    return ERR_OK;
}

static void host_free(struct memory_space *s, void *at, size_t bytes)
{
    if (at)
        budget_give(&host_of(s)->budget, bytes);
    mem_free(at);
}

static enum err host_pinned_alloc(struct memory_space *s, size_t bytes,
                                  void **out, struct fault *f)
{
    void *at = mem_aligned(SPACE_ALIGN, bytes);

    if (!at)
        return fault_set(f, ERR_NOMEM, "no memory for a buffer of %zu bytes",
                         bytes);
    budget_pin(&host_of(s)->budget, bytes);
    *out = at;
    return ERR_OK;
}

static void host_pinned_free(struct memory_space *s, void *at, size_t bytes)
{
    if (at)
        budget_unpin(&host_of(s)->budget, bytes);
    mem_free(at);
}

/* ---- streams and events -------------------------------------------------- */

static void host_put(struct work_stream *st, const struct space_work *w)
{
    struct fault f = {0};

    if (!st->error.code && work_run(w, &f))
        stream_spoil(st, &f);
}

static enum err host_stream_open(struct memory_space *s,
                                 struct space_stream **out, struct fault *f)
{
    struct work_stream *st = mem_alloc(sizeof(*st));

    if (!st)
        return fault_set(f, ERR_NOMEM, "no memory for a stream");
    stream_init(st, s, host_put);
    *out = &st->base;
    return ERR_OK;
}

static void host_stream_close(struct space_stream *st)
{
    if (st)
        stream_deinit((struct work_stream *)st);
    mem_free(st);
}

static enum err host_stream_query(struct space_stream *st, struct fault *f)
{
    return stream_error((struct work_stream *)st, f);
}

static enum err host_stream_sync(struct space_stream *st, int timeout_ms,
                                 struct fault *f)
{
    (void)timeout_ms;
    return host_stream_query(st, f);
}

static enum err host_event_open(struct memory_space *s,
                                struct space_event **out, struct fault *f)
{
    struct host_event *e = mem_calloc(1, sizeof(*e));

    if (!e)
        return fault_set(f, ERR_NOMEM, "no memory for an event");
    e->base.space = s;
    *out = &e->base;
    return ERR_OK;
}

static void host_event_close(struct space_event *e)
{
    mem_free(e);
}

static void host_event_record(struct space_stream *st, struct space_event *e)
{
    ((struct host_event *)e)->error = ((struct work_stream *)st)->error;
}

static void host_event_wait(struct space_stream *st, struct space_event *e)
{
    const struct host_event *own = (struct host_event *)e;

    if (own->error.code)
        stream_spoil((struct work_stream *)st, &own->error);
}

static enum err host_event_query(struct space_event *e, struct fault *f)
{
    const struct host_event *own = (struct host_event *)e;

    return own->error.code
               ? fault_set(f, own->error.code, "%s", own->error.text)
               : ERR_OK;
}

static enum err host_event_sync(struct space_event *e, int timeout_ms,
                                struct fault *f)
{
    (void)timeout_ms;
    return host_event_query(e, f);
}

static uint64_t host_event_between(struct space_event *from,
                                   struct space_event *to)
{
    (void)from, (void)to;
    return 0;
}

static void host_stream_fail(struct space_stream *st, enum err err,
                             const char *text)
{
    struct fault f;

    fault_set(&f, err, "%s", text);
    stream_spoil((struct work_stream *)st, &f);
}

const struct space_ops space_host = {
    .version = SPACE_VERSION,
    .name = "host",
    .devices = host_devices,
    .open = host_open,
    .close = host_close,
    .memory = host_memory,
    .alloc = host_alloc,
    .free = host_free,
    .pinned_alloc = host_pinned_alloc,
    .pinned_free = host_pinned_free,
    .stream_open = host_stream_open,
    .stream_close = host_stream_close,
    .stream_sync = host_stream_sync,
    .stream_query = host_stream_query,
    .event_open = host_event_open,
    .event_close = host_event_close,
    .event_record = host_event_record,
    .event_wait = host_event_wait,
    .event_sync = host_event_sync,
    .event_query = host_event_query,
    .event_between = host_event_between,
    .copy = stream_copy,
    .fill = stream_fill,
    .gather = stream_gather,
    .scatter = stream_scatter,
    .add = stream_add,
    .update = stream_update,
    .call = stream_call,
    .stream_native = stream_native,
    .stream_handle = stream_handle,
    .stream_fail = host_stream_fail,
};
