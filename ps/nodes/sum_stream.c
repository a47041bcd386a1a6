#include "ps/nodes/sum_stream.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

uint64_t sum_stream_rows(const struct table *t, uint64_t count, uint64_t bytes)
{
    uint64_t each = sum_stream_bytes(t, 1);

    if (bytes == 0 || !table_is_shared(t) || table_has_own_clock(t) ||
        count * each <= bytes)
        return 0;
    return bytes > each ? bytes / each : 1;
}

uint64_t sum_stream_bytes(const struct table *t, uint64_t limit)
{
    return limit * ((uint64_t)table_value_bytes(t) + sizeof(uint64_t));
}

/* A ring that has gone round is laid out behind its end to grow. */
static uint64_t room_of(uint64_t count, uint64_t limit)
{
    return count > limit ? count + limit : 2 * limit;
}

enum err sum_stream_init(struct sum_stream *s, uint64_t count,
                         uint32_t value_bytes, uint64_t limit)
{
    assert(count >= 1 && limit >= 1 && value_bytes >= 1);
    *s = (struct sum_stream){.room = room_of(count, limit),
                             .count = count,
                             .value_bytes = value_bytes,
                             .ring = limit,
                             .limit = limit};
    s->row = mem_reserve(s->room * sizeof(*s->row));
    s->sum = mem_reserve(s->room * value_bytes);
    if (s->row && s->sum)
        return ERR_OK;
    sum_stream_deinit(s);
    return ERR_NOMEM;
}

void sum_stream_deinit(struct sum_stream *s)
{
    mem_unreserve(s->row, s->room * sizeof(*s->row));
    mem_unreserve(s->sum, s->room * s->value_bytes);
    memset(s, 0, sizeof(*s));
}

/* What lies before the head follows the old end. */
static void widen(struct sum_stream *s)
{
    uint64_t round = s->head + s->n - s->ring;

    assert(s->n == s->ring && s->ring + round <= s->room);
    memcpy(s->row + s->ring, s->row, round * sizeof(*s->row));
    memcpy(s->sum + s->ring * s->value_bytes, s->sum, round * s->value_bytes);
    s->ring = s->room;
}

void *sum_stream_add(struct sum_stream *s, uint64_t row)
{
    uint64_t at;

    assert(row < s->count && row >= s->passed);
    if (s->n == s->ring)
        widen(s);
    at = s->head + s->n++;
    if (at >= s->ring)
        at -= s->ring;
    s->row[at] = row;
    s->passed = row + 1;
    return s->sum + at * s->value_bytes;
}

void *sum_stream_take(struct sum_stream *s)
{
    void *sum = s->sum + s->head * s->value_bytes;

    assert(s->n > 0);
    s->n--;
    s->taken++;
    if (++s->head == s->ring)
        s->head = 0;
    return sum;
}

void sum_stream_reset(struct sum_stream *s)
{
    s->taken += s->n;
    s->n = s->head = s->passed = 0;
    if (s->ring == s->limit)
        return;
    mem_give_back(s->row, s->room * sizeof(*s->row));
    mem_give_back(s->sum, s->room * s->value_bytes);
    s->ring = s->limit;
}

bool sum_stream_owes(const struct sum_stream *s)
{
    return s->taken - s->told >= (s->limit + 1) / 2;
}

uint64_t sum_stream_tell(struct sum_stream *s)
{
    s->told = s->taken;
    return s->told;
}
