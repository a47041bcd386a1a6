#include "ps/space/stream.h"

#include <assert.h>

void stream_init(struct work_stream *st, struct memory_space *s,
                 void (*put)(struct work_stream *, const struct space_work *))
{
    *st = (struct work_stream){.base = {s}, .put = put};
}

void stream_deinit(struct work_stream *st)
{
    for (unsigned i = SPACE_HANDLES_MAX; i-- > 0;)
        if (st->handle[i].handle && st->handle[i].close)
            st->handle[i].close(st->handle[i].handle);
}

void stream_spoil(struct work_stream *st, const struct fault *why)
{
    if (!st->error.code)
        st->error = *why;
}

enum err stream_error(const struct work_stream *st, struct fault *f)
{
    return st->error.code ? fault_set(f, st->error.code, "%s", st->error.text)
                          : ERR_OK;
}

static void put(struct space_stream *st, const struct space_work *w)
{
    struct work_stream *own = (struct work_stream *)st;

    own->put(own, w);
}

void stream_copy(struct space_stream *st, void *to, const void *from,
                 size_t bytes, enum space_direction direction)
{
    put(st, &(struct space_work){.kind = WORK_COPY,
                                 .copy = {to, from, bytes, direction}});
}

void stream_fill(struct space_stream *st, void *at, size_t bytes,
                 uint64_t pattern, unsigned pattern_bytes)
{
    assert(pattern_bytes == 1 || pattern_bytes == 4 || pattern_bytes == 8);
    assert(bytes % pattern_bytes == 0);
    put(st, &(struct space_work){.kind = WORK_FILL,
                                 .fill = {at, bytes, pattern, pattern_bytes}});
}

void stream_gather(struct space_stream *st, const struct space_rows *rows,
                   size_t n, size_t bytes, void *out)
{
    put(st, &(struct space_work){
                .kind = WORK_GATHER,
                .move = {.rows = *rows, .n = n, .bytes = bytes, .out = out}});
}

void stream_scatter(struct space_stream *st, const struct space_rows *rows,
                    size_t n, size_t bytes, const void *in)
{
    put(st, &(struct space_work){
                .kind = WORK_SCATTER,
                .move = {.rows = *rows, .n = n, .bytes = bytes, .in = in}});
}

void stream_add(struct space_stream *st, const struct space_rows *rows,
                size_t n, enum mlt_type type, uint32_t width, const void *in)
{
    put(st, &(struct space_work){
                .kind = WORK_ADD,
                .move = {.rows = *rows,
                         .n = n,
                         .bytes = (size_t)width * rule_type_bytes(type),
                         .in = in,
                         .type = type,
                         .width = width}});
}

void stream_update(struct space_stream *st, const struct space_update *u)
{
    put(st, &(struct space_work){.kind = WORK_UPDATE, .update = *u});
}

void stream_call(struct space_stream *st, const struct space_call *c)
{
    put(st, &(struct space_work){.kind = WORK_CALL, .call = *c});
}

struct space_handle *stream_handle(struct space_stream *st, unsigned i)
{
    assert(i < SPACE_HANDLES_MAX);
    return &((struct work_stream *)st)->handle[i];
}

void *stream_native(struct space_stream *st)
{
    (void)st;
    return NULL;
}
