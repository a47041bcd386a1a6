/* Any bytes as the answer of an event stream: refused, or events; the same
 * however they are cut into pieces. */
#include "base/mem.h"
#include "cli/watch/event_reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t events;
    uint64_t sum; /* of what they said */
};

static void add(struct seen *s, const char *text)
{
    do
        s->sum = (s->sum ^ (unsigned char)*text) * 1099511628211u;
    while (*text++);
}

static enum err take(void *ctx, const struct event_read *e)
{
    struct seen *s = ctx;

    if (!e->kind || !e->kind[0] || !e->data || (!e->numbered && e->id))
        abort();
    s->events++;
    s->sum ^= e->id;
    add(s, e->kind);
    add(s, e->data);
    return ERR_OK;
}

static enum err read_in(const uint8_t *data, size_t size, size_t piece,
                        struct seen *seen)
{
    struct event_reader r = {0};
    enum err err = ERR_OK;

    for (size_t at = 0; at < size && !err; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        err = event_reader_feed(&r, (const char *)data + at, n, take, seen);
    }
    if (err && err != ERR_FORMAT)
        abort();
    event_reader_deinit(&r);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {0}, cut = {0};

    if (read_in(data, size, size ? size : 1, &whole) !=
            read_in(data, size, 1, &cut) ||
        whole.events != cut.events || whole.sum != cut.sum)
        abort();
    return 0;
}
