#include "tests/sim/virtual.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/cache.h"
#include "ps/nodes/link.h"
#include "ps/nodes/manager.h"
#include "tests/sim/shard_store.h"
#include "tests/sim/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 16384, WINDOW = 64, STEPS_MAX = 100000000 };
#define STORE_BYTES ((uint64_t)1 << 30)

enum phase { BEGINS, READS, WORKS, SENDS, WAITS, GONE };

struct worker {
    enum phase phase;
    int clock, clocks; /* of the program; left in this slice */
    const uint64_t *row;
    size_t rows, at, asked; /* visits: all, the present one, asked for */
    unsigned char *values;  /* of the present row */
    size_t known_rows;      /* as of when its clock began */
    struct update update;
};

struct node {
    struct shard_store store;
    struct shard *shard;
    struct cache *cache;
    struct worker *worker;
    const struct update **updates;
    struct manager manager;
    bool room_waits; /* an event is there already */
    uint32_t turn;   /* node that a worker sends early rows to next */
};

struct wire {
    struct link link;
    double free_at;
    bool pump_waits, shard_turn;
};

struct virtual
{
    struct virtual_options opt;
    struct table table;
    struct node *node;
    struct wire *wire; /* [from * nodes + to] */
    struct timeline events;
    double now;
    uint64_t slice, op;
    int64_t clock;
    uint32_t drained;
    struct virtual_stats stats;
};

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

static uint64_t place_of(const struct virtual *v, uint64_t row)
{
    return v->opt.place ? v->opt.place[row] : row;
}

/* ---- wires --------------------------------------------------------------- */

static struct wire *wire_of(const struct virtual *v, uint32_t from, uint32_t to)
{
    return &v->wire[from * v->opt.nodes + to];
}

static void put_on_wire(struct virtual *v, uint32_t from, uint32_t to,
                        const unsigned char *bytes, size_t n)
{
    struct wire *w = wire_of(v, from, to);
    struct event e = {.kind = ARRIVES, .from = from, .to = to, .bytes = n};

    if (w->free_at < v->now)
        w->free_at = v->now;
    if (from != to) {
        w->free_at += (double)n / v->opt.bytes_s;
        v->stats.messages++;
        v->stats.bytes += n;
    }
    e.at = w->free_at + (from == to ? 0 : v->opt.latency_s);
    e.frame = zeroed(n, 1);
    memcpy(e.frame, bytes, n);
    timeline_put(&v->events, e);
}

static int64_t now_ns(const struct virtual *v)
{
    return (int64_t)(v->now * 1e9);
}

static bool is_paced(const struct virtual *v, uint32_t from, uint32_t to)
{
    return v->opt.budget_bytes_s > 0 && from != to;
}

/* Whether the budget lets a frame leave; else comes again when it does. */
static bool has_room(struct virtual *v, uint32_t from, uint32_t to)
{
    struct node *n = &v->node[from];
    struct event e = {.kind = ROOM_AGAIN, .from = from};

    if (!is_paced(v, from, to) || manager_has_room(&n->manager, now_ns(v)))
        return true;
    e.at = (double)manager_room_at(&n->manager) * 1e-9 + 2e-9;
    if (!n->room_waits)
        timeline_put(&v->events, e);
    n->room_waits = true;
    return false;
}

static size_t next_frame(struct virtual *v, uint32_t from, uint32_t to,
                         unsigned char *bytes, enum manager_stream *stream)
{
    struct node *n = &v->node[from];
    struct wire *w = wire_of(v, from, to);
    size_t size = 0, room = v->opt.frame_bytes;

    if (is_paced(v, from, to))
        room = manager_frame_bytes(&n->manager);

    w->shard_turn = is_paced(v, from, to)
                        ? manager_turn(&n->manager) == MANAGER_SERVER
                        : !w->shard_turn;
    *stream = MANAGER_SERVER;
    if (w->shard_turn)
        size = shard_next(n->shard, to, bytes, room);
    if (!size) {
        size = cache_next(n->cache, to, bytes, room);
        *stream = size ? MANAGER_CLIENT : MANAGER_SERVER;
    }
    if (!size && !w->shard_turn)
        size = shard_next(n->shard, to, bytes, room);
    if (!size && v->opt.budget_bytes_s > 0)
        size = shard_next_early(n->shard, to, v->opt.priority, bytes, room);
    return size;
}

static void send_frame(struct virtual *v, uint32_t from, uint32_t to,
                       unsigned char *bytes, size_t n,
                       enum manager_stream stream)
{
    struct wire *w = wire_of(v, from, to);

    link_send(&w->link, bytes);
    if (is_paced(v, from, to))
        manager_charge(&v->node[from].manager, stream, n, now_ns(v));
    put_on_wire(v, from, to, bytes, n);
    w->pump_waits = true;
    timeline_put(
        &v->events,
        (struct event){.at = w->free_at, .kind = PUMP, .from = from, .to = to});
}

/* One frame, if the way is free; it comes back when it is again. */
static void pump(struct virtual *v, uint32_t from, uint32_t to)
{
    struct wire *w = wire_of(v, from, to);
    enum manager_stream stream;
    unsigned char bytes[ROOM];
    size_t n;

    if (w->pump_waits)
        return;
    if (link_owes_ack(&w->link)) {
        n = link_ack(&w->link, bytes, sizeof(bytes));
        if (is_paced(v, from, to))
            manager_charge_ack(&v->node[from].manager, n, now_ns(v));
        put_on_wire(v, from, to, bytes, n);
    }
    if (!link_open(&w->link) || !has_room(v, from, to))
        return;
    n = next_frame(v, from, to, bytes, &stream);
    if (n)
        send_frame(v, from, to, bytes, n, stream);
}

/* A worker gives rows away while there is room. */
static void hand_over(struct virtual *v, uint32_t index, uint32_t worker)
{
    struct node *n = &v->node[index];

    for (uint32_t i = 0; i < v->opt.nodes && v->opt.budget_bytes_s > 0; i++) {
        uint32_t to = n->turn++ % v->opt.nodes;
        struct wire *w = wire_of(v, index, to);
        unsigned char bytes[ROOM];
        size_t size;

        if (w->pump_waits || !link_open(&w->link) || !has_room(v, index, to))
            continue;
        size = cache_next_early(n->cache, worker, to, v->opt.priority, bytes,
                                manager_frame_bytes(&n->manager));
        if (size)
            send_frame(v, index, to, bytes, size, MANAGER_CLIENT);
    }
}

/* ---- workers ------------------------------------------------------------- */

/* A row of which nothing is recorded is one for reads and updates. */
static void record(struct virtual *v, uint32_t number, uint64_t row, bool reads)
{
    bool missing = rng_mix(number, row) % 100 < v->opt.missing_percent;

    if (v->opt.record && !missing)
        knowledge_note(v->opt.record, number, row, reads);
}

/* Preparations of a worker, once it knows more than before. */
static void prepare(const struct virtual *v, uint32_t number, struct worker *w)
{
    if (v->opt.known)
        knowledge_rows(v->opt.known, number, &w->known_rows);
}

static void begin_clock(struct virtual *v, uint32_t number, struct worker *w)
{
    const struct virtual_program *p = &v->opt.program;

    w->rows = p->plan(p->self, number, w->clock, &w->row);
    w->at = w->asked = 0;
    w->phase = READS;
    prepare(v, number, w);
}

static bool read_row(struct virtual *v, struct node *n, struct worker *w,
                     uint64_t row)
{
    return cache_read(n->cache, (uint32_t)(w - n->worker), 0, place_of(v, row),
                      w->values, NULL);
}

/* In order, so that what is needed first comes first. */
static void ask_for_all(struct virtual *v, uint32_t number, struct worker *w)
{
    const uint64_t *row = w->row;
    size_t n = w->rows;

    if (v->opt.known)
        row = knowledge_rows(v->opt.known, number, &n);
    for (; w->asked < n; w->asked++)
        read_row(v, &v->node[number / v->opt.workers], w, row[w->asked]);
}

static void visit(struct virtual *v, uint32_t index, struct worker *w)
{
    const struct virtual_program *p = &v->opt.program;
    struct node *n = &v->node[index];
    uint32_t i = (uint32_t)(w - n->worker);
    uint32_t number = index * v->opt.workers + i;
    uint64_t row = w->row[w->at];
    double seconds = p->visit(p->self, v, number, w->clock, w->at, w->values);

    record(v, number, row, true);
    v->stats.visits++;
    if (v->opt.known &&
        !knowledge_has(v->opt.known, number, w->known_rows, row)) {
        v->stats.unforeseen++;
        knowledge_note(v->opt.known, number, row, true);
    }
    hand_over(v, index, i);
    w->at++;
    w->phase = WORKS;
    timeline_put(
        &v->events,
        (struct event){.at = v->now + seconds * (number ? 1 : v->opt.slow),
                       .kind = WAKE,
                       .from = index,
                       .to = i});
}

/* Lets the worker go on as far as it can; true when it went. */
static bool go_on(struct virtual *v, uint32_t index, struct worker *w)
{
    struct node *n = &v->node[index];
    uint32_t i = (uint32_t)(w - n->worker);

    switch (w->phase) {
    case BEGINS:
        if (!cache_begun(n->cache))
            return false;
        begin_clock(v, index * v->opt.workers + i, w);
        return true;
    case READS:
        if (v->opt.prefetch)
            ask_for_all(v, index * v->opt.workers + i, w);
        if (w->at < w->rows) {
            if (!read_row(v, n, w, w->row[w->at]))
                return false;
            visit(v, index, w);
            return true;
        }
        cache_end_clock(n->cache, i, FRAME_ALL_TABLES, 0);
        w->phase = SENDS;
        return true;
    case SENDS:
        if (!cache_sent(n->cache, i))
            return false;
        update_clear(&w->update);
        w->clock++;
        if (v->opt.record)
            knowledge_end_clock(v->opt.record, index * v->opt.workers + i);
        w->phase = WAITS;
        return true;
    case WAITS:
        if (!cache_may_go_on(n->cache, i))
            return false;
        if (--w->clocks > 0) {
            begin_clock(v, index * v->opt.workers + i, w);
        } else {
            cache_drain(n->cache, i);
            w->phase = GONE;
        }
        return true;
    default:
        return false;
    }
}

static void settle(struct virtual *v, uint32_t index)
{
    bool went = true;

    while (went) {
        went = false;
        for (uint32_t i = 0; i < v->opt.workers; i++)
            went |= go_on(v, index, &v->node[index].worker[i]);
    }
    for (uint32_t i = 0; i < v->opt.nodes; i++)
        pump(v, index, i);
}

void virtual_add(struct virtual *v, uint32_t worker, uint64_t row,
                 const void *values)
{
    uint32_t n = worker / v->opt.workers, i = worker % v->opt.workers;
    struct update *u = &v->node[n].worker[i].update;
    uint64_t at = place_of(v, row);

    if (!update_has(u, at)) {
        memset(update_take(u, at), 0, u->value_bytes);
    }
    rule_accumulate(v->table.type, v->table.width, update_row(u, at), values);
    record(v, worker, row, false);
}

/* ---- events -------------------------------------------------------------- */

static void take_frame(struct virtual *v, uint32_t to, const struct frame *f)
{
    struct node *n = &v->node[to];
    struct fault fault = {0};
    enum err err = ERR_OK;

    switch (f->kind) {
    case FRAME_ACK:
        break;
    case FRAME_ROWS:
    case FRAME_CLOCKS:
    case FRAME_APPLIED:
        err = cache_step(n->cache, f, &fault);
        break;
    case FRAME_DRAINED:
        v->drained++;
        break;
    default:
        err = shard_step(n->shard, f, &fault);
    }
    if (err)
        abort();
}

static void step(struct virtual *v)
{
    struct event e = timeline_take(&v->events);
    struct frame f;

    v->now = e.at;
    v->stats.steps++;
    if (e.kind == ARRIVES) {
        if (frame_decode(e.frame, e.bytes, &f, NULL) != ERR_OK ||
            link_take(&wire_of(v, e.to, e.from)->link, &f, NULL) != ERR_OK)
            abort();
        take_frame(v, e.to, &f);
        mem_free(e.frame);
        settle(v, e.to);
    } else if (e.kind == PUMP) {
        wire_of(v, e.from, e.to)->pump_waits = false;
        pump(v, e.from, e.to);
        settle(v, e.from); /* what was sent may let a worker go on */
    } else if (e.kind == ROOM_AGAIN) {
        v->node[e.from].room_waits = false;
        settle(v, e.from);
    } else {
        v->node[e.from].worker[e.to].phase = READS;
        settle(v, e.from);
    }
}

/* ---- slices -------------------------------------------------------------- */

/* The node that controls is not simulated: its word is there at once. */
static void begin_slice(struct virtual *v)
{
    struct frame f = {.kind = FRAME_BEGIN,
                      .slice = ++v->slice,
                      .clock = v->clock,
                      .staleness = v->opt.staleness,
                      .learning_rate = (double)v->opt.params.learning_rate,
                      .momentum = (double)v->opt.params.momentum};
    unsigned char bytes[ROOM];

    f.op = ++v->op;
    for (uint32_t i = 0; i < v->opt.nodes; i++) {
        struct frame done;
        size_t n;

        if (shard_step(v->node[i].shard, &f, NULL) != ERR_OK)
            abort();
        n = shard_next(v->node[i].shard, 0, bytes, sizeof(bytes));
        if (frame_decode(bytes, n, &done, NULL) != ERR_OK ||
            done.kind != FRAME_DONE || done.code)
            abort();
        cache_begin(v->node[i].cache, f.slice, f.clock, f.staleness);
    }
}

static int64_t highest_clock(const struct virtual *v)
{
    int64_t clock = 0;

    for (uint32_t i = 0; i < v->opt.nodes * v->opt.workers; i++) {
        int64_t own = cache_clock(v->node[i / v->opt.workers].cache,
                                  i % v->opt.workers, 0);

        clock = own > clock ? own : clock;
    }
    return clock;
}

void virtual_run(struct virtual *v, int clocks)
{
    v->clock = highest_clock(v) + 1;
    begin_slice(v);
    v->drained = 0;
    for (uint32_t i = 0; i < v->opt.nodes; i++)
        for (uint32_t k = 0; k < v->opt.workers; k++) {
            v->node[i].worker[k].phase = BEGINS;
            v->node[i].worker[k].clocks = clocks;
        }
    for (uint32_t i = 0; i < v->opt.nodes; i++)
        settle(v, i);
    while (v->events.events && v->stats.steps < STEPS_MAX)
        step(v);
    if (v->drained < v->opt.nodes)
        abort();
}

/* ---- a world ------------------------------------------------------------- */

static void make_node(struct virtual *v, uint32_t index)
{
    const struct virtual_options *o = &v->opt;
    struct node *n = &v->node[index];
    struct shard_options shard = {.node = index,
                                  .nodes = o->nodes,
                                  .workers = o->workers,
                                  .table = &v->table,
                                  .tables = 1,
                                  .consistency =
                                      consistency_find(o->consistency),
                                  .rows = &shard_store_rows,
                                  .rows_self = &n->store};
    struct cache_options cache = {.node = index,
                                  .nodes = o->nodes,
                                  .workers = o->workers,
                                  .table = &v->table,
                                  .tables = 1,
                                  .consistency = shard.consistency};

    n->worker = zeroed(o->workers, sizeof(*n->worker));
    n->updates = zeroed(o->workers, sizeof(*n->updates));
    for (uint32_t i = 0; i < o->workers; i++) {
        n->worker[i].phase = GONE;
        n->worker[i].values = zeroed(v->table.value_bytes, 1);
        n->updates[i] = &n->worker[i].update;
        if (update_init(&n->worker[i].update, o->rows, v->table.value_bytes, 0))
            abort();
    }
    cache.update = n->updates;
    if (shard_store_init(&n->store, &shard, STORE_BYTES, 0) != ERR_OK ||
        shard_new(&shard, &n->shard) != ERR_OK ||
        cache_new(&cache, &n->cache) != ERR_OK ||
        store_activate(n->store.store, 0) != ERR_OK)
        abort();
    for (uint32_t i = 0; i < o->nodes; i++)
        link_init(&wire_of(v, index, i)->link, 1, index, i, WINDOW);
    manager_init(&n->manager, shard_frame_bytes(n->shard), o->frame_bytes);
    manager_set_budget(&n->manager, o->budget_bytes_s, 0);
    shard_set_early(n->shard, o->budget_bytes_s > 0);
}

static void make_table(const struct virtual_options *opt, struct table *out)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = opt->rows,
                                      .width = opt->width,
                                      .type = opt->type,
                                      .rule = opt->rule,
                                      .flags = MLT_NO_MOMENTUM,
                                      .chunk_bytes = 1024};

    if (table_init(out, &table, NULL, NULL) != ERR_OK)
        abort();
    table_partition(out, opt->nodes * opt->workers);
}

void virtual_parts(const struct virtual_options *opt, uint64_t first[],
                   uint64_t count[])
{
    struct table t;

    make_table(opt, &t);
    for (uint32_t i = 0; i < opt->nodes; i++)
        shard_part(&t, opt->nodes, opt->workers, i, &first[i], &count[i]);
}

struct virtual *virtual_new(const struct virtual_options *opt)
{
    struct virtual *v = zeroed(1, sizeof(*v));

    v->opt = *opt;
    if (!opt->frame_bytes || opt->frame_bytes > ROOM)
        v->opt.frame_bytes = ROOM;
    make_table(opt, &v->table);
    v->node = zeroed(opt->nodes, sizeof(*v->node));
    v->wire = zeroed((size_t)opt->nodes * opt->nodes, sizeof(*v->wire));
    for (uint32_t i = 0; i < opt->nodes; i++)
        make_node(v, i);
    return v;
}

void virtual_free(struct virtual *v)
{
    for (uint32_t i = 0; i < v->opt.nodes; i++) {
        struct node *n = &v->node[i];

        cache_free(n->cache);
        shard_free(n->shard);
        shard_store_deinit(&n->store);
        for (uint32_t k = 0; k < v->opt.workers; k++) {
            mem_free(n->worker[k].values);
            update_deinit(&n->worker[k].update);
        }
        mem_free(n->worker);
        mem_free(n->updates);
    }
    timeline_deinit(&v->events);
    mem_free(v->node);
    mem_free(v->wire);
    mem_free(v);
}

static uint32_t owner_of(const struct virtual *v, uint64_t at)
{
    return shard_of(&v->table, v->opt.nodes, v->opt.workers, at);
}

void virtual_init_row(struct virtual *v, uint64_t row, const void *values)
{
    uint64_t at = place_of(v, row);
    struct shard_store *s = &v->node[owner_of(v, at)].store;

    memcpy(store_write(s->store, store_map(s->store, 0), 0, at - s->first[0]),
           values, v->table.value_bytes);
}

const void *virtual_row(const struct virtual *v, uint64_t row)
{
    uint64_t at = place_of(v, row);

    return shard_store_row(&v->node[owner_of(v, at)].store, 0, 0, at);
}

double virtual_now(const struct virtual *v)
{
    return v->now;
}

struct virtual_stats virtual_stats(const struct virtual *v)
{
    struct virtual_stats out = v->stats;

    out.time_s = v->now;
    for (uint32_t i = 0; i < v->opt.nodes; i++) {
        struct shard_stats s = shard_stats(v->node[i].shard);

        out.snapshots_peak += s.snapshots_peak;
        out.snapshots_missed += s.snapshots_missed;
        out.pushed_early += s.early;
        out.early += cache_stats(v->node[i].cache).early;
    }
    return out;
}
