#include "ps/nodes/own_sums.h"

#include "base/mem.h"
#include "ps/rows/rule.h"

#include <assert.h>
#include <string.h>

bool own_sums_are_kept(const struct table *t, bool barrier)
{
    return table_reads_own(t) && !barrier;
}

uint32_t own_sums_room(const struct table *t, uint64_t count, uint32_t workers)
{
    uint64_t room = OWN_SUMS_BYTES / own_sums_bytes(t, 1);
    uint64_t most = count * workers;

    if (most < room)
        room = most;
    return room ? (uint32_t)room : 1;
}

uint64_t own_sums_bytes(const struct table *t, uint64_t room)
{
    return room * (table_value_bytes(t) + (uint64_t)OWN_SUMS_EACH);
}

enum err own_sums_init(struct own_sums *s, uint32_t room, uint32_t value_bytes)
{
    assert(room >= 1 && value_bytes >= 1);
    *s = (struct own_sums){.value_bytes = value_bytes, .room = room};
    s->frame = mem_reserve(room * sizeof(*s->frame));
    s->row = mem_reserve(room * sizeof(*s->row));
    s->before = mem_reserve(room * sizeof(*s->before));
    s->sum = mem_reserve((uint64_t)room * value_bytes);
    if (s->frame && s->row && s->before && s->sum)
        return ERR_OK;
    own_sums_deinit(s);
    return ERR_NOMEM;
}

void own_sums_deinit(struct own_sums *s)
{
    mem_unreserve(s->frame, s->room * sizeof(*s->frame));
    mem_unreserve(s->row, s->room * sizeof(*s->row));
    mem_unreserve(s->before, s->room * sizeof(*s->before));
    mem_unreserve(s->sum, (uint64_t)s->room * s->value_bytes);
    memset(s, 0, sizeof(*s));
}

uint32_t own_sums_add(struct own_sums *s, uint64_t frame, uint64_t row,
                      uint32_t last, const void *sum)
{
    uint32_t at = (uint32_t)(((uint64_t)s->head + s->n) % s->room);

    assert(s->n < s->room);
    s->n++;
    s->frame[at] = frame;
    s->row[at] = row;
    s->before[at] = last;
    memcpy(s->sum + (uint64_t)at * s->value_bytes, sum, s->value_bytes);
    return at + 1;
}

void own_sums_applied(struct own_sums *s, uint64_t through)
{
    while (s->n && s->frame[s->head] <= through) {
        s->n--;
        if (++s->head == s->room)
            s->head = 0;
    }
}

/* How many are older, of those that are kept; s->n or more: it is none. */
static uint32_t age(const struct own_sums *s, uint32_t at)
{
    return at >= s->head ? at - s->head : at + s->room - s->head;
}

/* What a row's latest, or the one before another, names is that sum as long as
 * it is kept; then its place may be a later sum's. */
void own_sums_put(const struct own_sums *s, const struct table *t, uint64_t row,
                  uint32_t last, uint64_t through, void *values)
{
    uint32_t below = s->n;

    while (last && age(s, last - 1) < below && s->row[last - 1] == row &&
           s->frame[last - 1] > through) {
        rule_accumulate(table_value_type(t), table_width(t), values,
                        s->sum + (uint64_t)(last - 1) * s->value_bytes);
        below = age(s, last - 1);
        last = s->before[last - 1];
    }
}
