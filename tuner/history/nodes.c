#include "tuner/history/nodes.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void nodes_deinit(struct nodes *n)
{
    for (size_t i = 0; i < n->count; i++)
        mem_free(n->node[i].point);
    mem_free(n->node);
    memset(n, 0, sizeof(*n));
}

double nodes_interval(double run_s)
{
    return fmin(fmax(run_s / 256, 0.9), 10);
}

/* ---- what grows ---------------------------------------------------------- */

static size_t const counts[] = {
#define COUNT(member) offsetof(struct msg_beat, member)
    COUNT(device_bytes_in),
    COUNT(device_bytes_out),
    COUNT(device_waits),
    COUNT(bytes_copied),
    COUNT(bytes_sent),
    COUNT(bytes_received),
    COUNT(data_bytes_sent),
    COUNT(data_bytes_received),
    COUNT(data_frames_sent),
    COUNT(data_frames_received),
    COUNT(data_frames_ignored),
    COUNT(rows_updated),
    COUNT(rows_asked),
    COUNT(rows_got),
    COUNT(rows_due),
    COUNT(rows_early),
    COUNT(rows_answered),
    COUNT(rows_pushed),
    COUNT(rows_pushed_early),
    COUNT(bytes_charged),
    COUNT(overused),
    COUNT(early_suspended),
};
static size_t const times[] = {
    COUNT(seconds),   COUNT(wait_s),        COUNT(copy_s),
    COUNT(stalled_s), COUNT(client_wait_s), COUNT(server_wait_s),
#undef COUNT
};

static uint64_t *count_at(struct msg_beat *b, size_t offset)
{
    return (uint64_t *)(void *)((char *)b + offset);
}

static double *time_at(struct msg_beat *b, size_t offset)
{
    return (double *)(void *)((char *)b + offset);
}

/* @to has what grows of @more besides its own. */
static void add(struct msg_beat *to, const struct msg_beat *more)
{
    struct msg_beat from = *more;

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *count_at(to, counts[i]) += *count_at(&from, counts[i]);
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        *time_at(to, times[i]) += *time_at(&from, times[i]);
    staleness_merge(&to->staleness, &from.staleness);
}

static void clear(struct msg_beat *b)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *count_at(b, counts[i]) = 0;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        *time_at(b, times[i]) = 0;
    b->staleness = (struct staleness){0};
}

struct msg_beat nodes_total(const struct node_past *n)
{
    struct msg_beat sum = n->now;

    add(&sum, &n->before);
    return sum;
}

struct staleness nodes_staleness(const struct nodes *n)
{
    struct staleness sum = {0};

    for (size_t i = 0; i < n->count; i++) {
        staleness_merge(&sum, &n->node[i].now.staleness);
        staleness_merge(&sum, &n->node[i].before.staleness);
    }
    return sum;
}

uint64_t nodes_sent(const struct nodes *n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n->count; i++)
        sum +=
            n->node[i].now.data_bytes_sent + n->node[i].before.data_bytes_sent;
    return sum;
}

void nodes_lost(struct nodes *n)
{
    for (size_t i = 0; i < n->count; i++) {
        struct node_past *p = &n->node[i];

        add(&p->before, &p->now);
        clear(&p->now);
        p->now.held = 0;
        p->alive = false;
    }
}

/* ---- what grows, over time ----------------------------------------------- */

/* Every other point stays, the first one among them. */
static void halve(struct node_past *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->points; i += 2)
        p->point[n++] = p->point[i];
    p->points = n;
    p->spacing_s = fmax(2 * p->spacing_s, 1);
}

/* There is room for it. The newest is always there; it makes room for the next
 * where the two before are closer than they should be. */
static void add_point(struct node_past *p, const struct node_point *point)
{
    if (p->points >= 2 &&
        p->point[p->points - 1].at_s - p->point[p->points - 2].at_s <
            p->spacing_s)
        p->points--;
    else if (p->points == NODES_POINTS_MAX)
        halve(p);
    p->point[p->points++] = *point;
}

static enum err reserve(struct nodes *n, uint32_t node)
{
    size_t count = n->count;

    if (node >= NODES_MAX)
        return ERR_FORMAT;
    if (mem_grow((void **)&n->node, &n->capacity, sizeof(*n->node), node + 1))
        return ERR_NOMEM;
    for (; count <= node; count++)
        n->node[count] = (struct node_past){.at_s = NAN};
    n->count = count;
    return ERR_OK;
}

static enum err reserve_point(struct node_past *p)
{
    size_t need = p->points < NODES_POINTS_MAX ? p->points + 1 : p->points;

    return mem_grow((void **)&p->point, &p->capacity, sizeof(*p->point), need)
               ? ERR_NOMEM
               : ERR_OK;
}

enum err nodes_take(struct nodes *n, double at_s, const struct msg_beat *beat)
{
    enum err err = reserve(n, beat->node);
    struct node_past *p;
    struct msg_beat sum;

    if (!err)
        err = reserve_point(&n->node[beat->node]);
    if (err)
        return err;
    p = &n->node[beat->node];
    p->now = *beat;
    p->at_s = at_s;
    p->alive = true;
    sum = nodes_total(p);
    add_point(p,
              &(struct node_point){at_s, sum.data_bytes_sent,
                                   sum.data_bytes_received, sum.memory_bytes});
    return ERR_OK;
}
