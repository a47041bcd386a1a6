#include "ps/node/node_pulse_io.h"

#include <assert.h>
#include <stdlib.h>

enum {
    LOOK_NS = 500000000,
    LOOK_SHARE = 100 /* of the time between two looks */
};

/* ---- memory -------------------------------------------------------------- */

/* Into @beat where it is among those with most of their own. */
static void keep_largest(struct msg_beat *beat, const struct msg_held *h)
{
    uint32_t least = 0;

    if (beat->held < PROTO_HELD_MAX) {
        beat->hold[beat->held++] = *h;
        return;
    }
    for (uint32_t i = 1; i < beat->held; i++)
        if (beat->hold[i].private_bytes < beat->hold[least].private_bytes)
            least = i;
    if (h->private_bytes > beat->hold[least].private_bytes)
        beat->hold[least] = *h;
}

static int by_number(const void *a, const void *b)
{
    branch_id x = ((const struct msg_held *)a)->branch;
    branch_id y = ((const struct msg_held *)b)->branch;

    return x < y ? -1 : x > y;
}

/* Returns what all branches refer to, each counted by itself. */
static uint64_t look_at_branches(struct msg_beat *beat, const struct mlt_ps *ps)
{
    uint64_t alone = 0;

    beat->held = 0;
    for (size_t i = 0; i < ps_branches(ps); i++) {
        branch_id id = ps_branch_at(ps, i);
        struct store_held held = ps_held(ps, id);
        struct msg_held h = {id, held.shared_bytes, held.private_bytes};

        alone += held.shared_bytes + held.private_bytes;
        if (id < NODE_OWN_BRANCH)
            keep_largest(beat, &h);
    }
    qsort(beat->hold, beat->held, sizeof(beat->hold[0]), by_number);
    return alone;
}

static void look_at_device(struct msg_beat *beat, const struct mlt_ps *ps)
{
    struct ps_device_stats d;

    if (!ps_device_stats(ps, &d))
        return;
    beat->device_bytes = d.used;
    beat->device_limit_bytes = d.limit;
    beat->device_bytes_in = d.in;
    beat->device_bytes_out = d.out;
    beat->device_waits = d.waits;
}

void pulse_look(struct pulse *p, const struct mlt_ps *ps)
{
    struct msg_beat *beat = &p->beat;
    time_ns now = clock_monotonic(), cost;
    struct store_stats stats;
    uint64_t alone;

    if (now < p->due)
        return;
    ps_stats(ps, &stats);
    beat->memory_bytes = stats.in_use_bytes;
    beat->memory_reserved_bytes = stats.reserved_bytes;
    beat->memory_limit_bytes = stats.limit_bytes;
    beat->chunks_shared = stats.chunks_shared;
    beat->chunks_private = stats.chunks_private;
    beat->bytes_copied = stats.bytes_copied;
    beat->branches = stats.branches;
    look_at_device(beat, ps);
    alone = look_at_branches(beat, ps);
    beat->memory_saved_bytes =
        alone > stats.held_bytes ? alone - stats.held_bytes : 0;
    cost = clock_monotonic() - now;
    p->due = now + cost * LOOK_SHARE;
    if (p->due < now + LOOK_NS)
        p->due = now + LOOK_NS;
}

/* ---- time and traffic ---------------------------------------------------- */

void pulse_windows(struct pulse *p, const struct progress_window windows[],
                   uint32_t count)
{
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        p->beat.seconds += windows[i].seconds;
        p->beat.wait_s += windows[i].wait_s;
        p->beat.copy_s += windows[i].copy_s;
        p->beat.stalled_s += windows[i].stalled_s;
    }
}

void pulse_slice(struct pulse *p, struct mlt_ps *ps, struct node_wire *out)
{
    struct ps_traffic traffic;
    struct staleness seen;
    int64_t sum;

    assert(out);
    ps_traffic(ps, &traffic);
    ps_staleness(ps, &seen);
    out->bytes = traffic.bytes_sent - p->bytes;
    out->reads = seen.reads - p->reads;
    sum = seen.sum - p->sum;
    out->staleness = out->reads ? (double)sum / (double)out->reads : 0;
    p->bytes = traffic.bytes_sent;
    p->reads = seen.reads;
    p->sum = seen.sum;
}

static uint64_t over_priorities(const uint64_t rows[PRIORITY_COUNT])
{
    uint64_t sum = 0;

    for (int p = 0; p < PRIORITY_COUNT; p++)
        sum += rows[p];
    return sum;
}

static void tell_traffic(struct msg_beat *beat, const struct ps_traffic *t)
{
    beat->data_bytes_sent = t->bytes_sent;
    beat->data_bytes_received = t->bytes_received;
    beat->data_frames_sent = t->frames_sent;
    beat->data_frames_received = t->frames_received;
    beat->data_frames_ignored = t->frames_ignored;
    beat->rows_updated = t->rows_updated;
    beat->rows_asked = t->rows_asked;
    beat->rows_got = t->rows_got;
    beat->rows_due = t->rows_due;
    beat->rows_early = over_priorities(t->rows_early);
    beat->rows_answered = t->rows_answered;
    beat->rows_pushed = t->rows_pushed;
    beat->rows_pushed_early = over_priorities(t->rows_pushed_early);
    beat->bytes_charged = t->bytes_charged;
    beat->overused = t->overused;
    beat->early_suspended = t->early_suspended;
    beat->client_wait_s = (double)t->client_wait_ns * 1e-9;
    beat->server_wait_s = (double)t->server_wait_ns * 1e-9;
}

struct msg_beat pulse_beat(const struct pulse *p, struct mlt_ps *ps)
{
    struct msg_beat beat = p->beat;
    struct ps_traffic traffic;

    if (!ps)
        return beat;
    ps_traffic(ps, &traffic);
    tell_traffic(&beat, &traffic);
    ps_staleness(ps, &beat.staleness);
    return beat;
}
