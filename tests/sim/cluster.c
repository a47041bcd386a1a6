#include "tests/sim/cluster.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/cache.h"
#include "ps/nodes/link.h"
#include "ps/nodes/manager.h"
#include "ps/nodes/sum_stream.h"
#include "ps/rows/sum_tree.h"
#include "tests/sim/budget.h"
#include "tests/sim/cluster_oracle.h"
#include "tests/sim/shard_store.h"
#include "tests/sim/timeline.h"
#include "tests/unit/fixture/frame_whole.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 4096, /* bytes of a frame at most; a row fits */
    STEPS_MAX = 5000000,
    WINDOW_MAX = 16,
    BREAKS_MAX = 6, /* of one way */
    OPS_MAX = 48,
    BRANCHES_MAX = ORACLE_BRANCHES_MAX - 1
};

enum phase {
    WAITS_TO_BEGIN,
    WORKS,
    WAITS_TO_READ,
    WAITS_FOR_BATCH,
    WAITS_TO_SEND,
    WAITS,
    GONE
};

enum { BATCH_ROWS = 40 };

/* Rows that a worker has begun to fetch (or waits for, without a number). */
struct sim_batch {
    uint64_t number;
    uint32_t table;
    size_t n;
    uint64_t row[BATCH_ROWS]; /* those that it had are none */
};

struct sim_worker {
    uint32_t index; /* over all nodes */
    enum phase phase;
    double wakes_at; /* while it works */
    int actions;     /* left in this clock */
    int clocks;      /* left in this slice */
    int ended;       /* in this slice */
    uint32_t table;  /* read that it waits for; table whose clock it ends */
    uint64_t row;
    double slow;                               /* factor of its work */
    struct sim_batch batch[CACHE_BATCHES_MAX]; /* of number 0: none */
    struct sim_batch waits_for;
    uint64_t batches; /* that it began */
    struct update update[ORACLE_TABLES];
};

struct sim_node {
    uint32_t index;
    struct shard_store store;
    struct shard *shard;
    struct cache *cache;
    struct sim_worker *worker;
    const struct update **updates; /* [workers] what the cache looks into */
    uint64_t begun;                /* slice that its cache is in */
    struct manager manager;
    struct budget_check check;
    double room_at;      /* of the event that waits; 0: none */
    bool blocked;        /* by the budget, until that */
    uint32_t early_turn; /* node that gets early rows next */
};

/* One way between two nodes. */
struct wire {
    struct link link; /* of the sender, with the peer's acknowledgements */
    struct manager_peer peer;
    double free_at, last_arrival, latency_s, bytes_s;
    double cut_from, cut_until; /* partition */
    bool pump_waits;            /* an event is there already */
    bool shard_turn;

    /* Connections that break: frames that may have to be sent again. */
    unsigned char *kept[WINDOW_MAX]; /* by number; [kept_bytes], owned */
    size_t kept_bytes[WINDOW_MAX];
    unsigned connection; /* the present one's number */
    unsigned breaks_left;
    bool breaks, is_broken;
    bool drops; /* while it is broken what is sent is lost */
    double back_at;
};

/* An operation of the node that controls. */
struct sim_op {
    struct frame frame;
    unsigned sent, answered, failed;
    bool *ok; /* [nodes] */
};

struct cluster {
    struct cluster_result *out;
    uint64_t seed;
    struct rng rng;
    double now;
    uint32_t nodes, workers, all_workers;
    uint64_t run;
    bool half, calm, batches;
    double budget; /* bytes a second of each node; 0: none */
    enum priority priority;
    int staleness;
    struct barrier_rule rule;
    const struct consistency_ops *model;
    struct table table[ORACLE_TABLES];
    struct sim_node *node;
    struct wire *wire; /* [from * nodes + to] */
    struct oracle oracle;

    struct timeline events;

    /* Control. */
    int turns;        /* operations left */
    struct sim_op op; /* the one under way */
    bool op_runs;
    uint64_t ops, slice;
    uint64_t lifted; /* the latest slice in which streams may have no limit */
    int64_t clock;   /* of the next slice */
    uint32_t next_branch;
    unsigned drained; /* nodes */
    bool slice_runs;
    int slice_clocks;
};

static void fail(struct cluster *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct cluster *c, const char *fmt, ...)
{
    char what[400];
    va_list ap;

    if (c->out->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    c->out->failed = true;
    snprintf(c->out->why, sizeof(c->out->why),
             "seed %" PRIu64 " (%s, %u nodes of %u), slice %" PRIu64 ": %s",
             c->seed, c->model->name, c->nodes, c->workers, c->slice, what);
}

static uint64_t below(struct cluster *c, uint64_t n)
{
    return rng_below(&c->rng, n);
}

static bool chance(struct cluster *c, double p)
{
    return rng_uniform(&c->rng) < p;
}

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

/* ---- wires --------------------------------------------------------------- */

static struct wire *wire_of(struct cluster *c, uint32_t from, uint32_t to)
{
    return &c->wire[from * c->nodes + to];
}

/* Sends what is whole and stamped; returns when it arrives. */
static void put_on_wire(struct cluster *c, uint32_t from, uint32_t to,
                        const unsigned char *bytes, size_t n, bool bad)
{
    struct wire *w = wire_of(c, from, to);
    double start = w->free_at > c->now ? w->free_at : c->now;
    struct event e = {.kind = ARRIVES, .from = from, .to = to, .bytes = n};

    w->free_at = start + (double)n / w->bytes_s;
    e.at = w->free_at + w->latency_s * (0.5 + rng_uniform(&c->rng));
    if (e.at >= w->cut_from && e.at < w->cut_until)
        e.at = w->cut_until;
    if (w->is_broken && e.at < w->back_at)
        e.at = w->back_at;
    if (e.at < w->last_arrival)
        e.at = w->last_arrival; /* order is kept */
    w->last_arrival = e.at;
    e.bad = bad;
    e.connection = w->connection - (w->is_broken && w->drops);
    e.frame = mem_alloc(n);
    if (!e.frame)
        abort();
    memcpy(e.frame, bytes, n);
    timeline_put(&c->events, e);
    c->out->frames++;
    c->out->bytes += n;
}

static int64_t now_ns(const struct cluster *c)
{
    return (int64_t)(c->now * 1e9);
}

/* A message to oneself costs nothing. */
static bool is_paced(const struct cluster *c, uint32_t from, uint32_t to)
{
    return c->budget > 0 && from != to;
}

static void charge(struct cluster *c, struct sim_node *n, size_t bytes)
{
    if (!budget_sent(&n->check, &n->manager, c->now,
                     (double)manager_cost(bytes)))
        fail(c, "node %u sends more than its budget", n->index);
}

static void come_again(struct cluster *c, struct sim_node *n, double at)
{
    if (n->room_at > 0 && n->room_at <= at)
        return;
    n->room_at = at;
    timeline_put(
        &c->events,
        (struct event){.at = at, .kind = ROOM_AGAIN, .from = n->index});
}

/* Whether the budget and the network let a frame leave; else comes again when
 * they may. */
static bool may_leave(struct cluster *c, uint32_t from, uint32_t to)
{
    struct sim_node *n = &c->node[from];
    struct wire *w = wire_of(c, from, to);
    int64_t peer_at;

    if (!is_paced(c, from, to))
        return true;
    if (!manager_peer_open(&w->peer, now_ns(c))) {
        peer_at = manager_peer_wake_at(&w->peer);
        if (peer_at != MANAGER_NEVER)
            come_again(c, n, (double)peer_at * 1e-9 + 1e-9);
        return false;
    }
    if (manager_has_room(&n->manager, now_ns(c)))
        return true;
    n->blocked = true;
    budget_waits(&n->check, &n->manager, c->now, true);
    come_again(c, n, (double)manager_room_at(&n->manager) * 1e-9 + 2e-9);
    return false;
}

static void keep(struct wire *w, const unsigned char *bytes, size_t n)
{
    size_t at = w->link.sent % WINDOW_MAX;

    if (!w->breaks)
        return;
    mem_free(w->kept[at]);
    w->kept[at] = mem_alloc(n);
    if (!w->kept[at])
        abort();
    memcpy(w->kept[at], bytes, n);
    w->kept_bytes[at] = n;
}

/* A numbered frame leaves. */
static void send_frame(struct cluster *c, uint32_t from, uint32_t to,
                       unsigned char *bytes, size_t n,
                       enum manager_stream stream)
{
    struct wire *w = wire_of(c, from, to);

    link_send(&w->link, bytes);
    keep(w, bytes, n);
    if (is_paced(c, from, to)) {
        manager_charge(&c->node[from].manager, stream, n, now_ns(c));
        manager_peer_sent(&w->peer, now_ns(c));
        charge(c, &c->node[from], n);
    }
    put_on_wire(c, from, to, bytes, n, false);
    w->pump_waits = true;
    timeline_put(
        &c->events,
        (struct event){.at = w->free_at, .kind = PUMP, .from = from, .to = to});
}

/* A frame that must be refused: sent again, cut off, of another run. */
static void put_bad(struct cluster *c, uint32_t from, uint32_t to,
                    unsigned char *bytes, size_t n)
{
    struct link stranger;

    switch (below(c, 3)) {
    case 0:
        break;
    case 1:
        n = 1 + below(c, n - 1);
        break;
    default:
        link_init(&stranger, c->run + 1, from, to, 1000);
        stranger.sent = stranger.acked = wire_of(c, from, to)->link.sent;
        link_send(&stranger, bytes);
    }
    put_on_wire(c, from, to, bytes, n, true);
}

static size_t next_operation(struct cluster *c, uint32_t to,
                             unsigned char *bytes)
{
    if (!c->op_runs || c->op.sent != to)
        return 0;
    if (c->op.frame.kind == FRAME_FREE && !c->op.ok[to]) {
        c->op.sent++; /* nothing to be freed here */
        c->op.answered++;
        return 0;
    }
    c->op.sent++;
    return frame_whole(&c->op.frame, bytes, ROOM);
}

/* By turns, or by the budget's shares. */
static bool is_shards_turn(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);

    if (is_paced(c, from, to))
        return manager_turn(&c->node[from].manager) == MANAGER_SERVER;
    w->shard_turn = !w->shard_turn;
    return w->shard_turn;
}

static size_t next_frame(struct cluster *c, uint32_t from, uint32_t to,
                         unsigned char *bytes, enum manager_stream *stream)
{
    struct sim_node *n = &c->node[from];
    bool shard_first = is_shards_turn(c, from, to);
    size_t room = ROOM, size = 0;

    if (is_paced(c, from, to))
        room = manager_frame_bytes(&n->manager);
    else if (chance(c, 0.5)) /* small frames too */
        room = shard_frame_bytes(n->shard) + below(c, ROOM / 4);
    *stream = MANAGER_SERVER;
    if (from == 0)
        size = next_operation(c, to, bytes);
    if (!size && shard_first)
        size = shard_next(n->shard, to, bytes, room);
    if (!size) {
        size = cache_next(n->cache, to, bytes, room);
        *stream = size ? MANAGER_CLIENT : MANAGER_SERVER;
    }
    if (!size && !shard_first)
        size = shard_next(n->shard, to, bytes, room);
    if (!size && c->budget > 0)
        size = shard_next_early(n->shard, to, c->priority, bytes, room);
    return size;
}

static void acknowledge(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);
    struct sim_node *node = &c->node[from];
    unsigned char bytes[ROOM];
    size_t n;

    if (!link_owes_ack(&w->link))
        return;
    if (is_paced(c, from, to) &&
        !manager_has_room_to_ack(&node->manager, now_ns(c))) {
        come_again(c, node,
                   (double)manager_room_at(&node->manager) * 1e-9 + 2e-9);
        return;
    }
    n = link_ack(&w->link, bytes, sizeof(bytes));
    if (is_paced(c, from, to)) {
        manager_charge_ack(&node->manager, n, now_ns(c));
        charge(c, node, n);
    }
    put_on_wire(c, from, to, bytes, n, false);
}

/* ---- connections that break ----------------------------------------------
 */

/* What is under way will not arrive. */
static void break_wire(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);
    double wait = rng_uniform(&c->rng) * (chance(c, 0.5) ? 1e-4 : 1e-2);

    w->connection++;
    w->is_broken = true;
    w->drops = chance(c, 0.5);
    w->back_at = c->now + wait;
    w->breaks_left--;
    c->out->breaks++;
    timeline_put(&c->events, (struct event){.at = w->back_at,
                                            .kind = COMES_BACK,
                                            .from = from,
                                            .to = to});
}

static void break_later(struct cluster *c, uint32_t from, uint32_t to)
{
    if (!wire_of(c, from, to)->breaks_left)
        return;
    timeline_put(&c->events,
                 (struct event){.at = c->now + rng_uniform(&c->rng) * 5e-3,
                                .kind = BREAKS,
                                .from = from,
                                .to = to});
}

/* Its frames go again, and its word of what has come. */
static void come_back(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);
    unsigned char bytes[ROOM];

    w->is_broken = false;
    for (uint64_t i = link_again(&w->link); i <= w->link.sent; i++) {
        put_on_wire(c, from, to, w->kept[i % WINDOW_MAX],
                    w->kept_bytes[i % WINDOW_MAX], false);
        c->out->again++;
    }
    if (w->link.got)
        put_on_wire(c, from, to, bytes, link_ack(&w->link, bytes, ROOM), false);
    break_later(c, from, to);
}

/* Whether a good frame is refused since it came before, or before one that was
 * lost: where connections break. */
static bool is_out_of_turn(const struct wire *w, const struct link *back,
                           const struct frame *f)
{
    return w->breaks && f->run == back->run &&
           (f->kind == FRAME_ACK || f->sequence != back->got + 1);
}

static bool has_something(struct cluster *c, uint32_t from, uint32_t to)
{
    struct sim_node *n = &c->node[from];

    return (from == 0 && c->op_runs && c->op.sent == to) ||
           shard_has_next(n->shard, to) || cache_has_next(n->cache, to);
}

/* Sends one frame, if there is one and the way is free, and comes back. */
static void pump(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);
    enum manager_stream stream;
    unsigned char bytes[ROOM];
    size_t n;

    if (w->pump_waits)
        return;
    acknowledge(c, from, to);
    if (!link_open(&w->link))
        return;
    if (is_paced(c, from, to) &&
        !manager_has_room(&c->node[from].manager, now_ns(c)) &&
        !has_something(c, from, to))
        return;
    if (!may_leave(c, from, to))
        return;
    n = next_frame(c, from, to, bytes, &stream);
    if (n == 0)
        return;
    send_frame(c, from, to, bytes, n, stream);
    if (chance(c, 0.01))
        put_bad(c, from, to, bytes, n);
}

/* A worker gives rows away while there is room (in its own thread). */
static void hand_over(struct cluster *c, struct sim_node *n, uint32_t worker)
{
    for (uint32_t i = 0; i < c->nodes && c->budget > 0; i++) {
        uint32_t to = n->early_turn++ % c->nodes;
        struct wire *w = wire_of(c, n->index, to);
        unsigned char bytes[ROOM];
        size_t size;

        if (w->pump_waits || !link_open(&w->link) ||
            !manager_has_room(&n->manager, now_ns(c)) ||
            !may_leave(c, n->index, to))
            continue;
        size = cache_next_early(n->cache, worker, to, c->priority, bytes,
                                manager_frame_bytes(&n->manager));
        if (size)
            send_frame(c, n->index, to, bytes, size, MANAGER_CLIENT);
    }
}

/* ---- workers ------------------------------------------------------------- */

static double work_s(struct cluster *c, const struct sim_worker *w)
{
    return w->slow * rng_uniform(&c->rng) * 1e-4;
}

static void wake_at(struct cluster *c, const struct sim_node *n,
                    struct sim_worker *w, double at)
{
    w->phase = WORKS;
    w->wakes_at = at;
    timeline_put(&c->events, (struct event){.at = at,
                                            .kind = WAKE,
                                            .from = n->index,
                                            .to = (uint32_t)(w - n->worker)});
}

static void *update_of(struct sim_worker *w, uint32_t table, uint64_t row)
{
    struct update *u = &w->update[table];

    return update_has(u, row) ? update_row(u, row)
                              : memset(update_take(u, row), 0, u->value_bytes);
}

/* Whether the worker has ended the table's own clock, and not all since. */
static bool has_ended(const struct cluster *c, const struct sim_worker *w,
                      uint32_t table)
{
    return c->oracle.ended[w->index * ORACLE_TABLES + table];
}

/* One that it may read and update. */
static uint32_t some_table(struct cluster *c, const struct sim_worker *w)
{
    uint32_t table = (uint32_t)below(c, ORACLE_TABLES);

    return has_ended(c, w, table) ? 0 : table;
}

static void add_something(struct cluster *c, struct sim_worker *w)
{
    uint32_t table = some_table(c, w);
    uint64_t row = below(c, c->table[table].rows);
    void *sum = update_of(w, table, row);
    float gradient[ORACLE_LEARNS_WIDTH];

    c->out->updates++;
    if (table == ORACLE_LEARNS) {
        for (int j = 0; j < ORACLE_LEARNS_WIDTH; j++)
            gradient[j] =
                (float)((int)below(c, 17) - 8) / (c->half ? 8.0F : 7.0F);
        rule_accumulate(MLT_F32, ORACLE_LEARNS_WIDTH, sum, gradient);
        oracle_learn(&c->oracle, w->index, row, gradient);
        return;
    }
    switch (c->table[table].type) {
    case MLT_I32:
        ((int32_t *)sum)[w->index]++;
        break;
    case MLT_F32:
        ((float *)sum)[w->index]++;
        break;
    default:
        ((double *)sum)[w->index]++;
    }
    oracle_count(&c->oracle, w->index, table, row, 1);
}

/* The read that @w is at; false while it has to wait. */
static bool try_read(struct cluster *c, struct sim_node *n,
                     struct sim_worker *w)
{
    _Alignas(8) unsigned char values[ROOM];
    char why[256];
    int64_t held;

    if (!cache_read(n->cache, (uint32_t)(w - n->worker), w->table, w->row,
                    values, &held))
        return false;
    c->out->reads++;
    if (!oracle_allows(&c->oracle, w->index, w->table, w->row, values, held,
                       c->half, why, sizeof(why)))
        fail(c, "%s", why);
    return true;
}

static uint32_t owner_of_read(const struct cluster *c,
                              const struct sim_worker *w)
{
    return shard_of(&c->table[w->table], c->nodes, c->workers, w->row);
}

/* Of as many as workers of this cluster have at a time. */
static struct sim_batch *some_batch(struct cluster *c, struct sim_worker *w)
{
    return &w->batch[below(c, 1 + rng_mix(c->seed, 20) % CACHE_BATCHES_MAX)];
}

static void begin_batch(struct cluster *c, struct sim_node *n,
                        struct sim_worker *w, struct sim_batch *b)
{
    b->number = ++w->batches;
    b->table = some_table(c, w);
    b->n = below(c, BATCH_ROWS + 1);
    for (size_t i = 0; i < b->n; i++)
        b->row[i] = below(c, c->table[b->table].rows);
    cache_fetch(n->cache, (uint32_t)(w - n->worker), b->number, b->table, b->n,
                b->row);
    c->out->batches++;
    for (uint32_t i = 0; i < c->nodes; i++)
        pump(c, n->index, i);
}

/* Its rows are the worker's own again. */
static void end_batch(struct sim_node *n, struct sim_worker *w,
                      struct sim_batch *b)
{
    cache_fetch_end(n->cache, (uint32_t)(w - n->worker), b->number);
    memset(b, 0xff, sizeof(*b));
    b->number = 0;
}

static void drop_batches(struct sim_node *n, struct sim_worker *w)
{
    for (int i = 0; i < CACHE_BATCHES_MAX; i++)
        if (w->batch[i].number &&
            (w->table == FRAME_ALL_TABLES || w->batch[i].table == w->table))
            end_batch(n, w, &w->batch[i]);
}

/* All the rows that it waits for; false while some are missing. */
static bool try_batch(struct cluster *c, struct sim_node *n,
                      struct sim_worker *w)
{
    struct sim_batch *b = &w->waits_for;
    size_t missing = 0;

    w->table = b->table;
    for (size_t i = 0; i < b->n; i++) {
        w->row = b->row[i];
        if (!try_read(c, n, w))
            b->row[missing++] = w->row;
    }
    b->n = missing;
    for (uint32_t i = 0; i < c->nodes && missing; i++)
        pump(c, n->index, i);
    return missing == 0;
}

/* Begins a batch or waits for one. False: it has to. */
static bool act_on_batch(struct cluster *c, struct sim_node *n,
                         struct sim_worker *w)
{
    struct sim_batch *b = some_batch(c, w);

    if (!b->number) {
        begin_batch(c, n, w, b);
        return true;
    }
    w->waits_for = *b;
    end_batch(n, w, b);
    if (try_batch(c, n, w))
        return true;
    c->out->batches_waited++;
    w->phase = WAITS_FOR_BATCH;
    return false;
}

/* Steps of a worker while it computes. */
static void act(struct cluster *c, struct sim_node *n, struct sim_worker *w)
{
    bool writes = c->oracle.branch[c->oracle.active].type != BRANCH_KEPT;

    w->actions--;
    if (c->batches && chance(c, 0.25)) {
        if (!act_on_batch(c, n, w))
            return;
    } else if (writes && chance(c, 0.5)) {
        add_something(c, w);
        if (chance(c, 0.3))
            hand_over(c, n, (uint32_t)(w - n->worker));
    } else {
        w->table = some_table(c, w);
        w->row = below(c, c->table[w->table].rows);
        if (!try_read(c, n, w)) {
            c->out->waits++;
            w->phase = WAITS_TO_READ;
            pump(c, n->index, owner_of_read(c, w));
            if (!chance(c, 0.05)) /* else it was only to fetch it early */
                return;
        }
    }
    wake_at(c, n, w, c->now + work_s(c, w));
}

/* All workers of a slice end clocks of the same tables in the same order: under
 * barriers they must. */
static uint32_t table_of_clock(const struct cluster *c,
                               const struct sim_worker *w, int clock)
{
    uint64_t x = rng_mix(c->seed + c->slice, (uint64_t)clock);

    if (clock + 1 >= c->slice_clocks) /* nothing stays behind */
        return FRAME_ALL_TABLES;
    x = x % 3 ? ORACLE_TABLES : x / 3 % ORACLE_TABLES;
    return x == ORACLE_TABLES || has_ended(c, w, (uint32_t)x) ? FRAME_ALL_TABLES
                                                              : (uint32_t)x;
}

static void end_clock(struct cluster *c, struct sim_node *n,
                      struct sim_worker *w)
{
    w->table = table_of_clock(c, w, w->ended++);
    if (w->clocks > 1 || w->table == FRAME_ALL_TABLES)
        w->clocks--; /* the last is one of all tables */
    if (w->table != FRAME_ALL_TABLES &&
        !(c->table[w->table].flags & MLT_OWN_CLOCK))
        c->lifted = c->slice;
    drop_batches(n, w);
    cache_end_clock(n->cache, (uint32_t)(w - n->worker), w->table, 1e-3);
    oracle_end_clock(&c->oracle, w->index, w->table);
    w->phase = WAITS_TO_SEND;
}

static void leave(struct cluster *c, struct sim_node *n, struct sim_worker *w)
{
    w->phase = GONE;
    oracle_drain(&c->oracle, w->index);
    cache_drain(n->cache, (uint32_t)(w - n->worker));
}

static void begin_clock(struct cluster *c, struct sim_worker *w)
{
    w->actions = (int)below(c, 8);
    if (chance(c, 0.05) || c->calm)
        w->actions += 30;
}

static void clear_updates(struct sim_worker *w)
{
    for (uint32_t t = 0; t < ORACLE_TABLES; t++)
        if (w->table == FRAME_ALL_TABLES || w->table == t)
            update_clear(&w->update[t]);
}

/* Lets @w go on as far as it can; true when it went. */
static bool go_on(struct cluster *c, struct sim_node *n, struct sim_worker *w)
{
    uint32_t self = (uint32_t)(w - n->worker);

    switch (w->phase) {
    case WAITS_TO_BEGIN:
        if (n->begun != c->slice || !c->slice_runs || !cache_begun(n->cache))
            return false;
        begin_clock(c, w);
        wake_at(c, n, w, c->now + work_s(c, w));
        return true;
    case WAITS_TO_READ:
        if (!try_read(c, n, w)) { /* but it may have asked anew */
            pump(c, n->index, owner_of_read(c, w));
            return false;
        }
        wake_at(c, n, w, c->now + work_s(c, w));
        return true;
    case WAITS_FOR_BATCH:
        if (!try_batch(c, n, w))
            return false;
        wake_at(c, n, w, c->now + work_s(c, w));
        return true;
    case WAITS_TO_SEND:
        if (!cache_sent(n->cache, self))
            return false;
        if (!c->oracle.model->barrier)
            clear_updates(w);
        w->phase = WAITS;
        return true;
    case WAITS:
        if (!cache_may_go_on(n->cache, self))
            return false;
        if (c->oracle.model->barrier)
            clear_updates(w);
        if (w->clocks == 0) {
            leave(c, n, w);
        } else {
            begin_clock(c, w);
            wake_at(c, n, w, c->now + work_s(c, w));
        }
        return true;
    default:
        return false;
    }
}

/* Of two thirds of the clusters sums of most tables come as streams, of one row
 * or of some. */
static uint64_t stream_bytes(const struct cluster *c)
{
    uint64_t x = rng_mix(c->seed, 16);

    return x % 3 == 0 ? 0 : x % 3 == 1 ? 1 : 1 + x / 3 % 400;
}

/* Sums that streams keep are not more than may be under way. */
static void check_streams(struct cluster *c, const struct sim_node *n)
{
    struct shard_stats stats = shard_stats(n->shard);
    uint64_t bound = 0, first, count, streams = 0;

    for (uint32_t k = 0; k < c->nodes; k++)
        for (uint32_t i = k * c->workers, end = i + c->workers; i < end;
             i += sum_tree_block(i, end))
            streams++;
    for (uint32_t t = 0; t < ORACLE_TABLES; t++) {
        shard_part(&c->table[t], c->nodes, c->workers, n->index, &first,
                   &count);
        bound +=
            sum_stream_rows(&c->table[t], count, stream_bytes(c)) * streams;
    }
    if (stats.kept > bound && c->lifted != c->slice)
        fail(c,
             "node %u keeps %" PRIu64 " sums, and %" PRIu64 " at most may "
             "be under way",
             n->index, stats.kept, bound);
    if (stats.kept_peak > c->out->kept)
        c->out->kept = stats.kept_peak;
}

/* Of two thirds of the clusters with batches a worker may have a few rows under
 * way at a time, so that it comes to that bound. */
static uint32_t reads_max(const struct cluster *c)
{
    uint64_t x = rng_mix(c->seed, 18);

    return c->batches && x % 3 ? c->workers * (1 + (uint32_t)(x / 3 % 8))
                               : SHARD_READS_MAX;
}

/* After something changed at a node: workers, then wires. */
static void settle(struct cluster *c, struct sim_node *n)
{
    struct cache_stats stats = cache_stats(n->cache);
    bool went = true;

    while (went && !c->out->failed) {
        went = false;
        for (uint32_t i = 0; i < c->workers; i++)
            went |= go_on(c, n, &n->worker[i]);
        for (uint32_t i = 0; i < c->nodes; i++)
            pump(c, n->index, i);
    }
    check_streams(c, n);
    if (stats.waiting > (uint64_t)reads_max(c) * c->nodes)
        fail(c, "node %u has %" PRIu64 " reads under way", n->index,
             stats.waiting);
}

/* After something that concerns one wire, unless it lets a worker go on. */
static void settle_wire(struct cluster *c, struct sim_node *n, uint32_t to)
{
    bool went = false;

    pump(c, n->index, to);
    for (uint32_t i = 0; i < c->workers; i++)
        went |= go_on(c, n, &n->worker[i]);
    if (went)
        settle(c, n);
}

static void wake(struct cluster *c, struct sim_node *n, struct sim_worker *w)
{
    if (w->phase != WORKS || w->wakes_at != c->now)
        return;
    if (w->actions == 0) {
        end_clock(c, n, w);
        settle(c, n);
        return;
    }
    act(c, n, w);
}

/* ---- control ------------------------------------------------------------- */

static uint32_t some_branch(struct cluster *c, bool to_run)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t b = (uint32_t)below(c, ORACLE_BRANCHES_MAX);

        if (c->oracle.branch[b].live && (!to_run || b != 0))
            return b;
    }
    return BRANCH_NONE;
}

/* Of the slice: each may have another. */
static uint32_t some_rule(const struct cluster *c)
{
    static const char *const names[] = {"sgd",  "nesterov", "adagrad",
                                        "adam", "adadelta", "rpcs"};
    uint32_t number = 0;

    if (rule_choice(names[rng_mix(c->seed, c->slice) % 6], &number, NULL))
        abort();
    return number;
}

static void plan_slice(struct cluster *c, uint32_t branch)
{
    struct frame *f = &c->op.frame;

    f->kind = FRAME_BEGIN;
    f->slice = ++c->slice;
    f->branch = branch;
    f->clock = c->clock + 1 + (int64_t)below(c, 3);
    f->staleness =
        c->staleness ? (uint32_t)c->staleness - 1 : (uint32_t)below(c, 4);
    f->quorum = chance(c, 0.3) ? (uint32_t)below(c, c->all_workers + 2) : 0;
    f->learning_rate = 0.1;
    f->momentum = chance(c, 0.5) ? 0.9 : 0;
    f->weight_decay = chance(c, 0.5) ? 0.25 : 0;
    f->rule = some_rule(c);
    f->warmup = chance(c, 0.5) ? 1 + below(c, 2 * ORACLE_CLOCKS_MAX) : 0;
    f->warmed = below(c, ORACLE_CLOCKS_MAX);
}

/* The next operation; none when the program has ended. */
static void plan(struct cluster *c)
{
    struct frame *f = &c->op.frame;
    uint32_t some = some_branch(c, true);
    double dice = rng_uniform(&c->rng);

    if (c->turns-- == 0)
        return;
    memset(f, 0, sizeof(*f));
    c->op.sent = c->op.answered = c->op.failed = 0;
    for (uint32_t i = 0; i < c->nodes; i++)
        c->op.ok[i] = true;
    f->op = ++c->ops;
    f->slice = c->slice;
    if (some == BRANCH_NONE || (dice < 0.35 && c->next_branch < BRANCHES_MAX)) {
        f->kind = FRAME_FORK;
        f->parent = some_branch(c, false);
        f->branch = ++c->next_branch;
        f->type = chance(c, 0.2) ? BRANCH_KEPT : BRANCH_TRAINING;
    } else if (dice < 0.45) {
        f->kind = FRAME_FREE;
        f->branch = some;
        oracle_free(&c->oracle, some);
    } else {
        plan_slice(c, some);
    }
    c->op_runs = true;
}

static void go_on_at_all(struct cluster *c)
{
    for (uint32_t i = 0; i < c->nodes && !c->out->failed; i++)
        settle(c, &c->node[i]);
}

/* Every row of a branch at every node. */
static void check_branch(struct cluster *c, uint32_t branch, bool take)
{
    for (uint32_t t = 0; t < ORACLE_TABLES; t++)
        for (uint64_t r = 0; r < c->table[t].rows; r++) {
            uint32_t n = shard_of(&c->table[t], c->nodes, c->workers, r);
            const void *row = shard_store_row(&c->node[n].store, branch, t, r);

            if (!oracle_equals(&c->oracle, branch, t, r, row, take))
                fail(c,
                     "branch %u, table %u, row %" PRIu64 " of node %u is "
                     "not what a sequential run gives",
                     branch, t, r, n);
        }
}

static void check_all_branches(struct cluster *c)
{
    for (uint32_t b = 0; b < ORACLE_BRANCHES_MAX; b++)
        if (c->oracle.branch[b].live)
            check_branch(c, b, b == c->oracle.active);
    for (uint32_t i = 0; i < c->nodes; i++)
        store_check(c->node[i].store.store);
}

static void start_slice(struct cluster *c)
{
    c->slice_runs = true;
    c->drained = 0;
    for (uint32_t i = 0; i < c->all_workers; i++) {
        struct sim_worker *w = &c->node[i / c->workers].worker[i % c->workers];

        w->phase = WAITS_TO_BEGIN;
        w->clocks = c->slice_clocks;
        w->ended = 0;
        if (chance(c, 0.1) &&
            !c->calm) /* workers may end different numbers of clocks */
            w->clocks = 1 + (int)below(c, (uint64_t)c->slice_clocks);
        w->slow = chance(c, 0.1) && !c->calm ? 20 : 1;
    }
}

/* The operation was answered by all. */
static void complete(struct cluster *c)
{
    struct frame *f = &c->op.frame;

    c->op_runs = false;
    switch (f->kind) {
    case FRAME_FORK:
        if (c->op.failed == 0) {
            c->out->forks++;
            oracle_fork(&c->oracle, f->branch, f->parent, f->type);
            check_branch(c, f->branch, false);
            plan(c);
            return;
        }
        c->out->forks_refused++; /* in all shards or in none */
        f->kind = FRAME_FREE;
        f->op = ++c->ops;
        c->op.sent = c->op.answered = 0;
        c->op_runs = true;
        return;
    case FRAME_BEGIN:
        if (c->op.failed)
            fail(c, "slice refused");
        c->out->slices++;
        start_slice(c);
        return;
    default:
        plan(c);
    }
}

static void take_done(struct cluster *c, const struct frame *f)
{
    if (!c->op_runs || f->op != c->op.frame.op) {
        fail(c, "answer to operation %" PRIu64 " that does not run", f->op);
        return;
    }
    c->op.answered++;
    if (f->code) {
        c->op.failed++;
        c->op.ok[f->from] = false;
        if (c->op.frame.kind != FRAME_FORK || f->code != ERR_LIMIT)
            fail(c, "operation %" PRIu64 " failed: %s", f->op,
                 err_text(f->code));
    }
}

static void take_drained(struct cluster *c)
{
    if (++c->drained < c->nodes)
        return;
    c->slice_runs = false;
    oracle_end_slice(&c->oracle);
    check_all_branches(c);
    for (uint32_t i = 0; i < c->all_workers; i++)
        for (uint32_t t = 0; t < ORACLE_TABLES; t++) {
            int64_t clock =
                cache_clock(c->node[i / c->workers].cache, i % c->workers, t);

            c->clock = clock > c->clock ? clock : c->clock;
        }
    plan(c);
}

static void control(struct cluster *c, const struct frame *f)
{
    if (f->kind == FRAME_DONE)
        take_done(c, f);
    else
        take_drained(c);
}

/* Skips over nodes that need not be asked, and ends what all have answered. */
static void drive(struct cluster *c)
{
    while (c->op_runs && !c->out->failed) {
        uint32_t sent = c->op.sent;

        if (c->op.sent < c->nodes)
            pump(c, 0, c->op.sent);
        if (c->op.sent == c->nodes && c->op.answered == c->nodes)
            complete(c);
        else if (c->op.sent == sent)
            return;
        if (c->slice_runs)
            go_on_at_all(c);
    }
}

static bool is_at_end(const struct cluster *c)
{
    return !c->op_runs && !c->slice_runs;
}

/* ---- arrivals ------------------------------------------------------------ */

/* A node's own shard has begun the slice: so does its cache. */
static void begin_at(struct cluster *c, struct sim_node *n,
                     const struct frame *f)
{
    struct rule_params params = {(float)f->learning_rate,
                                 (float)f->momentum,
                                 (float)f->weight_decay,
                                 f->rule,
                                 f->warmup,
                                 f->warmed};

    if (c->oracle.base < f->clock) { /* the first to begin */
        oracle_begin(&c->oracle, f->branch, f->clock, f->staleness, params);
        c->slice_clocks =
            1 + (int)below(c, c->nodes > 50 ? 3 : ORACLE_CLOCKS_MAX - 2);
    }
    n->begun = f->slice;
    cache_begin(n->cache, f->slice, f->clock, f->staleness);
}

static void take_frame(struct cluster *c, struct sim_node *n,
                       const struct frame *f)
{
    struct fault fault = {0};
    enum err err;

    switch (f->kind) {
    case FRAME_ACK:
        return;
    case FRAME_ROWS:
    case FRAME_CLOCKS:
    case FRAME_TAKEN:
    case FRAME_APPLIED:
        err = cache_step(n->cache, f, &fault);
        break;
    case FRAME_DONE:
    case FRAME_DRAINED:
        control(c, f);
        return;
    default:
        err = shard_step(n->shard, f, &fault);
        if (!err && f->kind == FRAME_BEGIN)
            begin_at(c, n, f);
    }
    if (err)
        fail(c, "node %u: %s", n->index, fault.text);
}

static void arrive(struct cluster *c, const struct event *e)
{
    struct sim_node *n = &c->node[e->to];
    struct wire *w = wire_of(c, e->from, e->to);
    struct link *back = &wire_of(c, e->to, e->from)->link;
    struct fault fault = {0};
    struct frame f;
    enum err err = frame_decode(e->frame, e->bytes, &f, &fault);

    if (!err) {
        err = link_take(back, &f, &fault);
        if (err && !e->bad && is_out_of_turn(w, back, &f)) {
            c->out->passed_over++;
            return;
        }
    }
    if (!err && f.kind == FRAME_ACK && is_paced(c, e->to, e->from))
        manager_peer_acked(&wire_of(c, e->to, e->from)->peer, f.through,
                           now_ns(c));
    if (e->bad != (err != ERR_OK)) {
        fail(c, "frame of node %u at node %u: %s", e->from, e->to,
             err ? fault.text : "a bad one was let in");
        return;
    }
    c->out->refused += e->bad;
    if (err)
        return;
    take_frame(c, n, &f);
    drive(c);
    if (f.kind == FRAME_CLOCK || f.kind == FRAME_DRAIN ||
        f.kind == FRAME_BEGIN || (f.kind == FRAME_UPDATE && stream_bytes(c)))
        settle(c, n);
    else
        settle_wire(c, n, e->from);
}

/* The budget or the network may have room. */
static void room_again(struct cluster *c, struct sim_node *n, double at)
{
    if (at != n->room_at)
        return;
    n->room_at = 0;
    n->blocked = false;
    settle(c, n);
    drive(c);
    if (!budget_waits(&n->check, &n->manager, c->now, n->blocked))
        fail(c, "node %u does not use its budget", n->index);
}

static void step(struct cluster *c)
{
    struct event e = timeline_take(&c->events);

    c->now = e.at;
    switch (e.kind) {
    case ARRIVES:
        if (e.connection == wire_of(c, e.from, e.to)->connection)
            arrive(c, &e);
        else
            c->out->lost++;
        mem_free(e.frame);
        break;
    case BREAKS:
        if (!is_at_end(c)) /* what nobody misses may stay away */
            break_wire(c, e.from, e.to);
        break;
    case COMES_BACK:
        come_back(c, e.from, e.to);
        break;
    case PUMP:
        wire_of(c, e.from, e.to)->pump_waits = false;
        settle_wire(c, &c->node[e.from], e.to);
        drive(c);
        break;
    case ROOM_AGAIN:
        room_again(c, &c->node[e.from], e.at);
        break;
    case WAKE:
        wake(c, &c->node[e.from], &c->node[e.from].worker[e.to]);
    }
}

/* ---- a world ------------------------------------------------------------- */

/* Of three quarters of the clusters, one of the tables that count, or both. */
static bool reads_own(const struct cluster *c, uint32_t table)
{
    return table < ORACLE_COUNTERS && rng_mix(c->seed, 17) >> table & 1;
}

static void make_table(struct cluster *c, uint32_t index)
{
    static const enum mlt_type types[] = {MLT_I32, MLT_F64, MLT_F32};
    static const char *const names[] = {"count", "total", "learned"};
    bool learns = index == ORACLE_LEARNS;
    struct mlt_table_options opt = {
        .size = sizeof(opt),
        .name = names[index],
        .rows = 1 + below(c, c->nodes > 20 ? 60 : 24),
        .width = learns ? ORACLE_LEARNS_WIDTH : c->all_workers,
        .type = learns ? MLT_F32 : types[below(c, 3)],
        .rule = !learns            ? "add"
                : c->seed % 3 == 0 ? "adarevision"
                : c->seed % 3 == 1 ? "any"
                                   : "sgd",
        .flags = (index > 0 && chance(c, 0.4) ? MLT_OWN_CLOCK : 0) |
                 (reads_own(c, index) ? MLT_READ_MY_WRITES : 0),
        .chunk_bytes = (uint32_t)(1 + below(c, 2000)),
    };

    if (table_init(&c->table[index], &opt, NULL, NULL) != ERR_OK)
        abort();
    table_partition(&c->table[index], c->all_workers);
}

/* Of every fourth cluster all buffers are dense; of the others none begins so.
 */
static uint64_t dense_bytes(const struct cluster *c)
{
    return c->seed / 8 % 4 == 0 ? SLOTS_DENSE_BYTES : 0;
}

static void make_node(struct cluster *c, uint32_t index, uint64_t limit)
{
    struct sim_node *n = &c->node[index];
    bool own_stay = c->model->barrier && c->seed % 2;
    struct shard_options opt = {.node = index,
                                .nodes = c->nodes,
                                .workers = c->workers,
                                .control = 0,
                                .table = c->table,
                                .tables = ORACLE_TABLES,
                                .consistency = c->model,
                                .rule = c->rule,
                                .dense_bytes = dense_bytes(c),
                                .stream_bytes = stream_bytes(c),
                                .rows = &shard_store_rows,
                                .rows_self = &n->store};
    struct cache_options cache = {.node = index,
                                  .nodes = c->nodes,
                                  .workers = c->workers,
                                  .table = c->table,
                                  .tables = ORACLE_TABLES,
                                  .consistency = c->model,
                                  .half = c->half,
                                  .dense_bytes = dense_bytes(c),
                                  .stream_bytes = stream_bytes(c),
                                  .reads_max = reads_max(c)};

    n->index = index;
    n->worker = zeroed(c->workers, sizeof(*n->worker));
    n->updates = zeroed(c->workers, sizeof(*n->updates));
    for (uint32_t i = 0; i < c->workers; i++) {
        n->worker[i].phase = GONE;
        n->worker[i].index = index * c->workers + i;
        n->updates[i] = n->worker[i].update;
        for (uint32_t t = 0; t < ORACLE_TABLES; t++)
            if (update_init(&n->worker[i].update[t], c->table[t].rows,
                            c->table[t].value_bytes, dense_bytes(c)) != ERR_OK)
                abort();
    }
    cache.update = n->updates;
    cache.own_stay = own_stay;
    opt.own = own_stay ? cache.update : NULL;
    if (shard_store_init(&n->store, &opt, limit, 0) != ERR_OK ||
        shard_new(&opt, &n->shard) != ERR_OK ||
        cache_new(&cache, &n->cache) != ERR_OK)
        abort();
    manager_init(&n->manager, shard_frame_bytes(n->shard), ROOM);
    manager_set_budget(&n->manager, c->budget, 0);
    shard_set_early(n->shard, c->budget > 0);
}

static void make_wire(struct cluster *c, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(c, from, to);

    uint64_t pair = from < to ? (uint64_t)from * c->nodes + to
                              : (uint64_t)to * c->nodes + from;

    /* Both sides of a pair have the same window. */
    link_init(&w->link, c->run, from, to,
              1 + (uint32_t)(rng_mix(c->seed, pair) % WINDOW_MAX));
    manager_peer_init(&w->peer, w->link.window, 0);
    if (c->budget > 0)
        link_ack_every(&w->link, MANAGER_ACK_EVERY);
    w->latency_s = from == to ? 1e-7 : 1e-4 * rng_uniform(&c->rng);
    w->bytes_s = from == to ? 1e10 : chance(c, 0.2) ? 1e6 : 1e8;
    if (c->calm)
        w->bytes_s = 1e9;
    else if (from != to && chance(c, 0.2)) {
        w->cut_from = rng_uniform(&c->rng) * 0.02;
        w->cut_until = w->cut_from + rng_uniform(&c->rng) * 0.01;
    } else if (from != to && c->budget > 0 && chance(c, 0.05)) {
        w->bytes_s = 2e3; /* far less than the budget */
    }
    w->breaks = from != to && !c->calm && rng_mix(c->seed, 29) % 3 == 0;
    w->breaks_left = w->breaks ? (unsigned)below(c, BREAKS_MAX + 1) : 0;
    break_later(c, from, to);
}

static unsigned some_nodes(struct cluster *c)
{
    double dice = rng_uniform(&c->rng);

    if (dice < 0.005)
        return 50 + (unsigned)below(c, 51);
    if (dice < 0.05)
        return 10 + (unsigned)below(c, 20);
    return 2 + (unsigned)below(c, 5);
}

static void make_cluster(struct cluster *c, const struct cluster_options *opt)
{
    size_t models = 0;
    uint64_t limit;

    while (consistency_at(models))
        models++;
    c->seed = opt->seed;
    rng_init(&c->rng, opt->seed);
    c->model = opt->consistency ? consistency_find(opt->consistency)
                                : consistency_at(below(c, models));
    assert(c->model);
    c->nodes = some_nodes(c);
    if (opt->nodes)
        c->nodes = opt->nodes;
    c->workers = c->nodes > 10 ? 1 : 1 + (uint32_t)below(c, 3);
    c->all_workers = c->nodes * c->workers;
    c->run = rng_next(&c->rng);
    c->half = chance(c, 0.3);
    c->staleness = opt->staleness;
    c->calm = opt->calm;
    c->batches = !c->calm && rng_mix(c->seed, 19) % 4;
    c->rule.k = (unsigned)below(c, c->all_workers + 1);
    if (!c->rule.k && chance(c, 0.5))
        c->rule.fraction = 0.1 + 0.9 * rng_uniform(&c->rng);
    if (chance(c, 0.5))
        c->rule.slower_than = 1 + 2 * rng_uniform(&c->rng);
    c->turns = c->nodes > 50   ? 4
               : c->nodes > 10 ? 6
                               : 4 + (int)below(c, OPS_MAX - 4);
    c->budget = opt->budget_bytes_s;
    if (c->budget == 0 && chance(c, 0.5))
        c->budget = pow(10, 4.5 + 3 * rng_uniform(&c->rng));
    if (c->budget < 0)
        c->budget = 0;
    c->priority = (enum priority)below(c, PRIORITY_COUNT);
    for (uint32_t t = 0; t < ORACLE_TABLES; t++)
        make_table(c, t);
    limit = chance(c, 0.3) ? 40000 + below(c, 100000) : 64 << 20;
    c->node = zeroed(c->nodes, sizeof(*c->node));
    c->wire = zeroed((size_t)c->nodes * c->nodes, sizeof(*c->wire));
    c->op.ok = zeroed(c->nodes, sizeof(*c->op.ok));
    for (uint32_t i = 0; i < c->nodes; i++) {
        make_node(c, i, limit);
        for (uint32_t j = 0; j < c->nodes; j++)
            make_wire(c, i, j);
    }
    oracle_init(&c->oracle, c->table, c->all_workers, c->model);
    c->oracle.partial = c->budget > 0 && !c->model->barrier;
}

static void free_cluster(struct cluster *c)
{
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct sim_node *n = &c->node[i];

        c->out->pushes += shard_stats(n->shard).pushes;
        c->out->pushed_early += shard_stats(n->shard).early;
        c->out->early += cache_stats(n->cache).early;
        c->out->waited_s += n->check.waited_s;
        c->out->waited_bytes += n->check.waited_bytes;
        for (uint32_t k = 0; k < c->nodes; k++)
            c->out->overused += wire_of(c, i, k)->peer.overused;
        budget_deinit(&n->check);
        staleness_merge(&c->out->seen, cache_staleness(n->cache));
        shard_free(n->shard);
        cache_free(n->cache);
        shard_store_deinit(&n->store);
        for (uint32_t w = 0; w < c->workers; w++)
            for (uint32_t t = 0; t < ORACLE_TABLES; t++)
                update_deinit(&n->worker[w].update[t]);
        mem_free(n->worker);
        mem_free(n->updates);
    }
    for (uint32_t i = 0; i < c->nodes * c->nodes; i++)
        for (int k = 0; k < WINDOW_MAX; k++)
            mem_free(c->wire[i].kept[k]);
    timeline_deinit(&c->events);
    oracle_deinit(&c->oracle);
    mem_free(c->node);
    mem_free(c->wire);
    mem_free(c->op.ok);
}

void cluster_run(const struct cluster_options *opt, struct cluster_result *out)
{
    struct cluster c = {.out = out};

    memset(out, 0, sizeof(*out));
    make_cluster(&c, opt);
    plan(&c);
    drive(&c);
    while (c.events.events && !out->failed && out->steps < STEPS_MAX) {
        step(&c);
        out->steps++;
    }
    if (!out->failed && !is_at_end(&c))
        fail(&c, "not at an end after %" PRIu64 " steps: nobody can go on",
             out->steps);
    out->consistency = c.model->name;
    out->nodes = c.nodes;
    out->workers = c.workers;
    out->time_s = c.now;
    out->budget_bytes_s = c.budget;
    free_cluster(&c);
}
