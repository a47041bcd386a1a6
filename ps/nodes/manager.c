#include "ps/nodes/manager.h"

#include <assert.h>
#include <math.h>

#define NS_PER_S 1e9
#define NS_PER_MS INT64_C(1000000)

/* Ethernet 14, IP 20, TCP 32 with its usual option; and ZeroMQ's own. */
enum {
    SEGMENT_BYTES = 1448,
    SEGMENT_HEADERS = 66,
    MESSAGE_HEADERS = 9,
    ACKS_BYTES = 512 /* room kept for acknowledgements */
};

static size_t segments(size_t bytes)
{
    return (bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;
}

size_t manager_cost(size_t n)
{
    size_t bytes = n + MESSAGE_HEADERS;

    return bytes + segments(bytes) * SEGMENT_HEADERS;
}

/* ---- the bucket ---------------------------------------------------------- */

void manager_init(struct manager *m, size_t frame_min, size_t frame_max)
{
    assert(frame_min >= 1 && frame_min <= frame_max);
    *m = (struct manager){.frame_min = frame_min,
                          .frame_max = frame_max,
                          .waits_since = {-1, -1}};
}

static double level_at(const struct manager *m, int64_t now)
{
    double level = m->level - m->bytes_s * (double)(now - m->at_ns) / NS_PER_S;

    return level > 0 ? level : 0;
}

static void pour(struct manager *m, size_t cost, int64_t now)
{
    assert(now >= m->at_ns);
    m->level = level_at(m, now) + (double)cost;
    m->at_ns = now;
    m->charged += cost;
}

/* Two of the least frames at least: one on its way, one that is made. */
static double queue_of(const struct manager *m, double bytes_s)
{
    double queue = bytes_s * MANAGER_QUEUE_MS / 1000;
    double least = 2.0 * (double)manager_cost(m->frame_min) + ACKS_BYTES;

    return queue > least ? queue : least;
}

void manager_set_budget(struct manager *m, double bytes_s, int64_t now)
{
    assert(bytes_s >= 0 && isfinite(bytes_s));
    m->level = manager_paces(m) ? level_at(m, now) : 0;
    m->at_ns = now;
    m->bytes_s = bytes_s;
    m->queue = bytes_s > 0 ? queue_of(m, bytes_s) : 0;
    if (m->level > m->queue)
        m->level = m->queue;
    m->ahead = 0;
}

int64_t manager_queue_ns(const struct manager *m)
{
    return manager_paces(m) ? (int64_t)(m->queue / m->bytes_s * NS_PER_S) : 0;
}

/* So that MANAGER_FRAMES of them fit, with their headers. */
size_t manager_frame_bytes(const struct manager *m)
{
    double most = (m->queue - ACKS_BYTES) / MANAGER_FRAMES, n;

    if (!manager_paces(m))
        return m->frame_max;
    n = (most - MESSAGE_HEADERS - SEGMENT_HEADERS) * SEGMENT_BYTES /
        (SEGMENT_BYTES + SEGMENT_HEADERS);
    if (n >= (double)m->frame_max)
        return m->frame_max;
    return n > (double)m->frame_min ? (size_t)n : m->frame_min;
}

/* Bytes that may be in the bucket when a whole frame comes. */
static double level_for_frame(const struct manager *m)
{
    return m->queue - ACKS_BYTES - (double)manager_cost(manager_frame_bytes(m));
}

bool manager_has_room(const struct manager *m, int64_t now)
{
    return !manager_paces(m) || level_at(m, now) <= level_for_frame(m);
}

bool manager_has_room_to_ack(const struct manager *m, int64_t now)
{
    return !manager_paces(m) || level_at(m, now) + ACKS_BYTES <= m->queue;
}

int64_t manager_room_at(const struct manager *m)
{
    double over = m->level - level_for_frame(m);

    if (!manager_paces(m) || over <= 0)
        return m->at_ns;
    return m->at_ns + (int64_t)ceil(over / m->bytes_s * NS_PER_S) + 1;
}

/* Whoever had nothing to send for long has no claim to more than a queue. */
static double within(double x, double bound)
{
    return x > bound ? bound : x < -bound ? -bound : x;
}

void manager_charge(struct manager *m, enum manager_stream stream, size_t n,
                    int64_t now)
{
    double bytes = (double)manager_cost(n);

    pour(m, manager_cost(n), now);
    m->ahead = within(m->ahead + (stream == MANAGER_CLIENT ? bytes : -bytes),
                      m->queue);
    assert(!manager_paces(m) || m->level <= m->queue);
}

void manager_charge_ack(struct manager *m, size_t n, int64_t now)
{
    pour(m, manager_cost(n), now);
}

void manager_charge_received(struct manager *m, size_t n, int64_t now)
{
    pour(m, (segments(n + MESSAGE_HEADERS) + 1) / 2 * SEGMENT_HEADERS, now);
}

enum manager_stream manager_turn(const struct manager *m)
{
    return m->ahead > 0 ? MANAGER_SERVER : MANAGER_CLIENT;
}

void manager_note_wait(struct manager *m, enum manager_stream stream,
                       bool waits, int64_t now)
{
    int64_t *since = &m->waits_since[stream];

    if (*since >= 0)
        m->wait_ns[stream] += (uint64_t)(now - *since);
    *since = waits ? now : -1;
}

/* ---- one other node ------------------------------------------------------ */

void manager_peer_init(struct manager_peer *p, uint32_t window_max,
                       uint64_t sent)
{
    assert(window_max >= 1 && window_max <= MANAGER_WINDOW_MAX);
    *p = (struct manager_peer){.sent = sent,
                               .acked = sent,
                               .window_max = window_max,
                               .window = window_max,
                               .least_ns = -1,
                               .paused_at = -1};
}

void manager_peer_allow(struct manager_peer *p, int64_t queue_ns)
{
    assert(queue_ns >= 0);
    p->queue_ns = queue_ns;
}

static int64_t *sent_at(struct manager_peer *p, uint64_t frame)
{
    return &p->sent_ns[frame % MANAGER_WINDOW_MAX];
}

/* Frames after which an acknowledgement must come: the receiver's, which has no
 * longer window. */
static uint32_t ack_every(const struct manager_peer *p)
{
    uint32_t half = (p->window_max + 1) / 2;

    return half < MANAGER_ACK_EVERY ? half : MANAGER_ACK_EVERY;
}

void manager_peer_sent(struct manager_peer *p, int64_t now)
{
    assert(p->sent - p->acked < p->window_max);
    *sent_at(p, ++p->sent) = now;
}

static int64_t late_after(const struct manager_peer *p)
{
    return MANAGER_LATE_MS * NS_PER_MS + p->queue_ns +
           (p->least_ns > 0 ? p->least_ns : 0);
}

/* The oldest frame that an acknowledgement is due for: once so many have come
 * as make one due, all before have been acknowledged. */
static bool has_due(const struct manager_peer *p)
{
    return p->sent - p->acked >= ack_every(p);
}

static int64_t due_at(const struct manager_peer *p)
{
    uint64_t last = p->acked + ack_every(p);

    return p->sent_ns[last % MANAGER_WINDOW_MAX] + late_after(p);
}

/* @late: the frame whose acknowledgement is. */
static void pause(struct manager_peer *p, uint64_t late, int64_t now)
{
    uint32_t least = ack_every(p);

    if (p->paused_at >= 0)
        return;
    p->paused_at = now;
    if (late <= p->halved_after)
        return;
    p->overused++;
    p->halved_after = p->sent;
    p->window = p->window / 2 > least ? p->window / 2 : least;
}

void manager_peer_acked(struct manager_peer *p, uint64_t through, int64_t now)
{
    int64_t delay;

    assert(through <= p->sent);
    if (through <= p->acked)
        return;
    delay = now - *sent_at(p, through);
    if (p->least_ns < 0 || delay < p->least_ns)
        p->least_ns = delay;
    if (delay > late_after(p))
        pause(p, through, now);
    else
        p->window += p->window < p->window_max;
    p->acked = through;
    if (!has_due(p))
        p->paused_at = -1;
}

bool manager_peer_open(struct manager_peer *p, int64_t now)
{
    if (p->paused_at < 0 && has_due(p) && now >= due_at(p))
        pause(p, p->acked + ack_every(p), now);
    if (p->paused_at >= 0 && now - p->paused_at >= MANAGER_PAUSE_MS * NS_PER_MS)
        p->paused_at = -1;
    return p->paused_at < 0 && p->sent - p->acked < p->window;
}

int64_t manager_peer_wake_at(const struct manager_peer *p)
{
    return p->paused_at >= 0 ? p->paused_at + MANAGER_PAUSE_MS * NS_PER_MS
                             : MANAGER_NEVER;
}
