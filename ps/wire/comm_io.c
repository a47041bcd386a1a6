#include "ps/wire/comm_io.h"

#include "base/host/context_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/own_sums.h"
#include "ps/nodes/sum_stream.h"
#include "ps/server/memory_plan.h"
#include "ps/wire/comm_internal_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Clocks of a run: so many from its first one on. Above what any run can reach,
 * and a run's first is above all of the runs before. */
#define RUN_CLOCKS ((int64_t)1 << 32)

#define NS INT64_C(1000000000)

/* ---- sockets ------------------------------------------------------------- */

/* Buffers of frames come and go by the thousand, ZeroMQ's on the way in too.
 * Given back to the system each time, as the C library does with what is large,
 * they would be mapped and zeroed anew, page by page: half of what dense rows
 * cost. So the process keeps as much as may be under way. */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, COMM_WAY_BYTES);
    mallopt(M_TRIM_THRESHOLD, COMM_FREED_BYTES);
}

/* Who has the key is known by it; without one there are no strangers, over a
 * Unix socket neither. */
static bool has_strangers(struct comm *c)
{
    char endpoint[MEET_ENDPOINT_MAX];
    size_t size = sizeof(endpoint);

    return c->meet.key.given &&
           zmq_getsockopt(c->pull, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0 &&
           strncmp(endpoint, "tcp://", 6) == 0;
}

static enum err keep_gate(struct comm *c, struct fault *f)
{
    if (has_strangers(c))
        return gate_keep(c->gate, c->shape->nodes - 1, f);
    gate_close(c->gate);
    c->gate = NULL;
    return ERR_OK;
}

/* From where the others come, as far as they say. */
static enum err know_peers(struct comm *c, struct fault *f)
{
    uint32_t *ipv4 = mem_calloc(c->shape->nodes, sizeof(*ipv4)), n = 0;
    enum err err = ipv4 ? ERR_OK : ERR_NOMEM;

    for (uint32_t i = 0; i < c->shape->nodes && !err; i++) {
        unsigned char at[4];
        const char *endpoint = c->meet.peer[i].endpoint;

        if (sscanf(endpoint, "tcp://%hhu.%hhu.%hhu.%hhu:", &at[0], &at[1],
                   &at[2], &at[3]) == 4)
            ipv4[n++] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
                        (uint32_t)at[2] << 8 | at[3];
    }
    if (!err)
        err = gate_know(c->gate, n, ipv4);
    mem_free(ipv4);
    return err ? fault_set(f, err, "no memory to keep a gate") : ERR_OK;
}

static enum err open_pull(struct comm *c, struct fault *f)
{
    int64_t size_max = FRAME_BYTES_MAX;
    int waiting_max = COMM_WAITING_MAX;
    enum err err;

    c->context = context_new();
    c->pull = c->context ? zmq_socket(c->context, ZMQ_PULL) : NULL;
    if (!c->pull ||
        zmq_setsockopt(c->pull, ZMQ_RCVHWM, &waiting_max,
                       sizeof(waiting_max)) != 0 ||
        zmq_setsockopt(c->pull, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max)))
        return fault_errno(f, context_error(), errno,
                           "make a socket for other nodes");
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake_fd < 0)
        return fault_errno(f, ERR_IO, errno, "make a socket for other nodes");
    err = gate_open(c->context, c->pull, &c->gate, f);
    if (!err)
        err = meet_open(&c->meet, c->pull, c->shape->meet, c->shape->listen,
                        c->shape->node, c->shape->nodes, f);
    return err ? err : keep_gate(c, f);
}

static void comm_close(struct peers *p);

static enum err comm_open(struct mlt_ps *ps, const struct ps_shape *shape,
                          struct peers **out, struct fault *f)
{
    struct comm *c = mem_calloc(1, sizeof(*c));
    enum err err;

    assert(shape->nodes > 1);
    if (!c)
        return fault_set(f, ERR_NOMEM, "no memory to talk to other nodes");
    keep_freed_memory();
    c->peers.ops = &comm_peers;
    c->ps = ps;
    c->shape = shape;
    c->wake_fd = c->offers_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    err = open_pull(c, f);
    if (err) {
        comm_close(&c->peers);
        return err;
    }
    comm_ring_open(c);
    *out = &c->peers;
    return ERR_OK;
}

static void close_peers(struct comm *c)
{
    int none = 0;

    /* The readers of events go last: without one ZeroMQ's own thread would wait
     * for it, holding what stopping the monitor needs. */
    for (uint32_t i = 0; c->peer && i < c->shape->nodes; i++) {
        struct comm_peer *p = &c->peer[i];

        comm_release(c, i, p->link.sent);
        comm_stop_asking(p);
        if (p->push)
            zmq_socket_monitor(p->push, NULL, 0);
        if (p->monitor) {
            zmq_setsockopt(p->monitor, ZMQ_LINGER, &none, sizeof(none));
            zmq_close(p->monitor);
        }
        if (p->push && !p->connected && !p->refusing)
            zmq_setsockopt(p->push, ZMQ_LINGER, &none, sizeof(none));
        if (p->push)
            zmq_close(p->push);
    }
}

void comm_wake(struct comm *c)
{
    uint64_t one = 1;
    ssize_t n = write(c->wake_fd, &one, sizeof(one));

    assert(n == sizeof(one));
    (void)n;
}

static void stop_thread(struct comm *c)
{
    assert(c->wake_fd >= 0 || !c->has_thread);
    if (!c->has_thread)
        return;
    comm_lock(c);
    c->stop = true;
    comm_unlock(c);
    comm_wake(c);
    pthread_join(c->thread, NULL);
}

static void comm_close(struct peers *p)
{
    struct comm *c = comm_of(p);

    stop_thread(c);
    comm_ring_close(c);
    if (c->ignored > 1)
        log_event(LOG_WARN, "frames_ignored", "node=%u count=%llu",
                  c->shape->node, (unsigned long long)c->ignored);
    close_peers(c);
    gate_close(c->gate);
    if (c->pull)
        zmq_close(c->pull);
    if (c->context)
        while (zmq_ctx_term(c->context) != 0 && errno == EINTR)
            continue;
    meet_close(&c->meet);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    cache_free(c->cache);
    courier_free(c->courier);
    shard_free(c->shard);
    agreement_free(c->accord);
    for (unsigned i = 0; c->update && i < c->shape->workers; i++)
        mem_free(c->update[i]);
    mem_free(c->update);
    mem_free(c->peer);
    mem_free(c->item);
    mem_free(c->bytes);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

/* ---- cores --------------------------------------------------------------- */

/* A row in the cache: its values, their clock, and where own sums of it are. */
static uint32_t cached_bytes(const struct ps_shape *shape,
                             const struct table *t)
{
    bool own = own_sums_are_kept(t, shape->consistency->barrier);

    return t->value_bytes + (uint32_t)sizeof(int64_t) +
           (own ? (uint32_t)sizeof(uint32_t) : 0);
}

/* Own sums that have left for all the shards. */
static uint64_t memory_of_own(const struct ps_shape *shape,
                              const struct table *t)
{
    uint64_t bytes = 0, first, count;

    for (uint32_t node = 0; node < shape->nodes; node++) {
        shard_part(t, shape->nodes, shape->workers, node, &first, &count);
        bytes += own_sums_bytes(t, own_sums_room(t, count, shape->workers));
    }
    return bytes;
}

/* The cache holds the rows that the node's workers read, the shard the sums of
 * all other nodes for its part. */
static void comm_bytes(const struct ps_shape *shape, double touched,
                       struct mlt_ps_memory *m)
{
    double by_any = fmin(1, touched * shape->workers);

    assert(shape->nodes > 1);
    for (size_t i = 0; i < shape->tables; i++) {
        const struct table *t = &shape->table[i];

        if (t->access == MLT_LOCAL)
            continue;
        if (own_sums_are_kept(t, shape->consistency->barrier))
            m->caches += memory_of_own(shape, t);
        m->caches += memory_of_rows(t->rows, cached_bytes(shape, t), by_any,
                                    table_is_small(t)) +
                     t->rows / 8 * (shape->workers + 3);
        if (t->access == MLT_SHARED && shape->consistency->barrier)
            m->sums += memory_of_sums(shape, t, touched);
        if (shape->consistency->pushes && !shape->consistency->barrier)
            m->sums +=
                t->rows / shape->nodes * (sizeof(float) + shape->nodes / 8 + 1);
    }
    m->caches +=
        (uint64_t)shape->nodes * SHARD_READS_MAX * 32 + COMM_ROOM_BYTES;
    m->frames = 2 * (uint64_t)(shape->nodes - 1) *
                (comm_way_bytes(shape->nodes) + COMM_ROOM_BYTES);
}

static enum err new_updates(struct comm *c)
{
    const struct ps_shape *shape = c->shape;

    c->update = mem_calloc(shape->workers, sizeof(*c->update));
    if (!c->update)
        return ERR_NOMEM;
    for (unsigned i = 0; i < shape->workers; i++) {
        c->update[i] = mem_calloc(shape->tables, sizeof(**c->update));
        if (!c->update[i])
            return ERR_NOMEM;
        for (size_t t = 0; t < shape->tables; t++)
            c->update[i][t] = shape->worker[i].view[t].update;
    }
    return ERR_OK;
}

/* In which each of the cores has room for its largest record. */
static size_t frame_bytes_min(const struct comm *c)
{
    size_t shard = shard_frame_bytes(c->shard);
    size_t cache = cache_frame_bytes(c->cache);
    size_t courier = courier_frame_bytes(c->courier);
    size_t most = shard > cache ? shard : cache;

    return most > courier ? most : courier;
}

static enum err new_cores(struct comm *c)
{
    const struct ps_shape *shape = c->shape;
    struct shard_options shard = {.node = shape->node,
                                  .nodes = shape->nodes,
                                  .workers = shape->workers,
                                  .control = shape->node,
                                  .table = shape->table,
                                  .tables = (uint32_t)shape->tables,
                                  .consistency = shape->consistency,
                                  .rule = shape->rule,
                                  .options = shape_options(shape),
                                  .dense_bytes = SLOTS_DENSE_BYTES,
                                  .stream_bytes = SUM_STREAM_BYTES,
                                  .rows = &comm_rows,
                                  .rows_self = c};
    struct courier_options courier = {.node = shape->node,
                                      .nodes = shape->nodes,
                                      .workers = shape->workers,
                                      .table = shape->table,
                                      .tables = (uint32_t)shape->tables};
    struct cache_options cache = {.node = shape->node,
                                  .nodes = shape->nodes,
                                  .workers = shape->workers,
                                  .table = shape->table,
                                  .tables = (uint32_t)shape->tables,
                                  .consistency = shape->consistency,
                                  .half = shape->float16,
                                  .dense_bytes = SLOTS_DENSE_BYTES,
                                  .stream_bytes = SUM_STREAM_BYTES};
    enum err err = new_updates(c);
    size_t frame_min;

    assert(shape->worker);
    c->wake_at = c->sleeps_to = MANAGER_NEVER;
    cache.update = (const struct update *const *)c->update;
    cache.own_stay = shape->consistency->barrier;
    shard.own = cache.own_stay ? cache.update : NULL;
    if (!err)
        err = shard_new(&shard, &c->shard);
    if (!err)
        err = cache_new(&cache, &c->cache);
    if (!err)
        err = courier_new(&courier, &c->courier);
    if (!err)
        err = agreement_new(shape->node, shape->nodes, &c->accord);
    if (err)
        return err;
    frame_min = frame_bytes_min(c);
    c->room = frame_min > COMM_ROOM_BYTES ? frame_min : COMM_ROOM_BYTES;
    manager_init(&c->manager, frame_min, c->room);
    c->bytes = mem_alloc(c->room);
    c->peer = mem_calloc(shape->nodes, sizeof(*c->peer));
    return c->bytes && c->peer ? ERR_OK : ERR_NOMEM;
}

/* ---- the thread ---------------------------------------------------------- */

/* The receiving socket, the descriptor, the monitors of all peers, and what
 * rings have. */
static int poll_items(struct comm *c, zmq_pollitem_t *item)
{
    int n = 2;

    item[0] = (zmq_pollitem_t){.socket = c->pull, .events = ZMQ_POLLIN};
    item[1] = (zmq_pollitem_t){.fd = c->wake_fd, .events = ZMQ_POLLIN};
    for (uint32_t i = 0; i < c->shape->nodes; i++)
        if (c->peer[i].monitor)
            item[n++] = (zmq_pollitem_t){.socket = c->peer[i].monitor,
                                         .events = ZMQ_POLLIN};
    return n + comm_ring_items(c, item + n);
}

/* Until a connection is to be looked at again or the budget has room. */
static long sleep_ms(struct comm *c)
{
    long ms = comm_watch_ms(c);
    time_ns now;

    c->sleeps_to = c->wake_at;
    if (c->wake_at == MANAGER_NEVER)
        return ms;
    now = clock_monotonic();
    if (c->wake_at <= now)
        return 0;
    if (ms < 0 || (c->wake_at - now) / 1000000 < ms)
        ms = (long)((c->wake_at - now) / 1000000 + 1);
    return ms;
}

static void *thread_main(void *arg)
{
    struct comm *c = arg;
    bool stop = false;
    long wait_ms = -1;
    uint64_t woken;

    while (!stop) {
        int n;

        comm_lock(c);
        if (comm_ring_sleep(c))
            wait_ms = 0;
        n = poll_items(c, c->item);
        comm_unlock(c);
        zmq_poll(c->item, n, wait_ms);
        if (read(c->wake_fd, &woken, sizeof(woken)) < 0)
            assert(errno == EAGAIN || errno == EINTR);
        comm_lock(c);
        comm_receive(c);
        comm_watch(c);
        comm_pump(c);
        wait_ms = sleep_ms(c);
        stop = c->stop;
        comm_unlock(c);
        runtime_progress(c->ps);
    }
    return NULL;
}

static enum err start_thread(struct comm *c, struct fault *f)
{
    int errnum;

    c->item = mem_calloc(2 * (size_t)c->shape->nodes + 3, sizeof(*c->item));
    if (!c->item)
        return fault_set(f, ERR_NOMEM, "no memory to talk to other nodes");
    errnum = pthread_create(&c->thread, NULL, thread_main, c);
    if (errnum)
        return fault_errno(f, ERR_IO, errnum, "start the communication thread");
    c->has_thread = true;
    return ERR_OK;
}

/* ---- start --------------------------------------------------------------- */

/* Rows are placed from what went both ways. */
static bool is_ready(const struct comm_peer *p)
{
    return comm_has_greeted(p) && p->ring.settled;
}

static bool has_placed(const struct comm_peer *p)
{
    return p->placed && !p->placed_due;
}

static bool all_have(const struct comm *c,
                     bool (*done)(const struct comm_peer *), uint32_t *missing)
{
    for (uint32_t i = 0; i < c->shape->nodes; i++)
        if (i != c->shape->node && !done(&c->peer[i])) {
            *missing = i;
            return false;
        }
    return true;
}

/* Others may still be loading their data. */
static enum err wait_peers(struct comm *c,
                           bool (*done)(const struct comm_peer *),
                           struct fault *f)
{
    time_ns end = clock_monotonic() + COMM_HELLO_S * NS;
    const struct timespec pause = {.tv_nsec = 2000000};
    uint32_t missing = 0;
    enum err err = ERR_AGAIN;

    while (err == ERR_AGAIN) {
        comm_lock(c);
        if (c->broken.code)
            err = fault_set(f, c->broken.code, "%s", c->broken.text);
        else if (all_have(c, done, &missing))
            err = ERR_OK;
        comm_unlock(c);
        if (err == ERR_AGAIN && clock_monotonic() >= end)
            return fault_set(f, ERR_NODE, "node %u has said nothing for %d s",
                             missing, COMM_HELLO_S);
        if (err == ERR_AGAIN)
            nanosleep(&pause, NULL);
    }
    return err;
}

/* The lists that mlt_ps_expect made become the workers' own. */
static void adopt_known(const struct ps_shape *shape, mlt_table table)
{
    struct placement *p = &shape->placement[table];

    assert(table < shape->tables);
    for (unsigned i = 0; p->known && i < shape->workers; i++) {
        struct worker_view *v = &shape->worker[i].view[table];

        prefetch_list_deinit(v->known);
        *v->known = p->known[i];
        prefetch_list_init(&p->known[i], shape->table[table].rows);
    }
}

/* All nodes have said what they will touch. */
static enum err place_table(const struct ps_shape *shape, mlt_table table)
{
    struct table *t = &shape->table[table];

    assert(table < shape->tables);
    if (placement_make(&shape->placement[table], t) != ERR_OK)
        return ERR_NOMEM;
    for (unsigned i = 0; i < shape->workers; i++)
        shape->worker[i].view[table].number = t->number;
    return ERR_OK;
}

static enum err place_tables(const struct ps_shape *shape, struct fault *f)
{
    for (mlt_table t = 0; t < shape->tables; t++) {
        if (!shape_gathers(shape, &shape->table[t]))
            continue;
        if (shape->places && place_table(shape, t) != ERR_OK)
            return fault_set(f, ERR_NOMEM, "no memory to place rows");
        adopt_known(shape, t);
    }
    return ERR_OK;
}

static enum err check_places(struct comm *c, struct fault *f)
{
    enum err err = ERR_OK;

    comm_lock(c);
    for (uint32_t i = 0; i < c->shape->nodes && !err; i++)
        if (i != c->shape->node && c->peer[i].layout != c->layout)
            err = fault_set(f, ERR_NODE,
                            "node %u and node %u place rows differently: what "
                            "they told each other did not come whole; start "
                            "all nodes anew, with the same mltune",
                            c->shape->node, i);
    comm_unlock(c);
    return err;
}

/* No node goes on before all have placed rows alike. */
static enum err place_alike(struct comm *c, struct fault *f)
{
    const struct ps_shape *shape = c->shape;
    enum err err;

    if (!shape->places)
        return place_tables(c->shape, f);
    comm_lock(c);
    err = place_tables(c->shape, f);
    c->layout = shape->nodes;
    for (size_t t = 0; t < shape->tables; t++)
        c->layout = rng_mix(c->layout, shape->table[t].placed);
    for (uint32_t i = 0; i < shape->nodes && !err; i++)
        c->peer[i].placed_due = i != shape->node;
    if (!err)
        comm_pump(c);
    comm_unlock(c);
    if (!err)
        err = wait_peers(c, has_placed, f);
    return err ? err : check_places(c, f);
}

static bool has_readable(const struct ps_shape *shape)
{
    for (size_t t = 0; t < shape->tables; t++)
        if (!table_is_local(&shape->table[t]))
            return true;
    return false;
}

static enum err comm_start(struct peers *p, uint32_t *fits, struct fault *f)
{
    struct comm *c = comm_of(p);
    enum err err;

    assert(c->shape->worker && *fits > 0);
    c->own_fits = c->fits = *fits;
    if (!has_readable(c->shape))
        return fault_set(f, ERR_UNSUPPORTED,
                         "several nodes need a table at least that is not "
                         "local");
    err = new_cores(c);
    if (err)
        return fault_set(f, err, "talking to other nodes: %s", err_text(err));
    err = meet_wait(&c->meet,
                    c->shape->meet_s > 0 ? c->shape->meet_s : COMM_MEET_S, f);
    if (!err && meet_is_guarded(&c->meet) &&
        c->room > MEET_MESSAGE_MAX - COMM_CURVE_BYTES)
        err = fault_set(f, ERR_UNSUPPORTED,
                        "rows of %zu bytes: over TCP a row has at most %d",
                        c->room, MEET_MESSAGE_MAX - COMM_CURVE_BYTES);
    if (!err && c->gate)
        err = know_peers(c, f);
    if (err)
        return err;
    comm_lock(c);
    c->starting = true;
    err = comm_connect(c, f);
    if (!err)
        comm_pump(c);
    comm_unlock(c);
    if (!err)
        err = start_thread(c, f);
    if (!err)
        err = wait_peers(c, is_ready, f);
    if (!err)
        err = place_alike(c, f);
    comm_lock(c);
    comm_ring_close_offers(c);
    c->starting = false;
    *fits = c->fits;
    comm_unlock(c);
    return err;
}

static uint64_t comm_number(const struct peers *p)
{
    return ((const struct comm *)p)->meet.run;
}

/* ---- runs ---------------------------------------------------------------- */

static enum err comm_begin(struct peers *p, const struct peers_run *run)
{
    struct comm *c = comm_of(p);
    const struct ps_shape *shape = c->shape;
    struct frame f = {.kind = FRAME_BEGIN,
                      .from = shape->node,
                      .branch = run->branch,
                      .staleness = run->staleness,
                      .quorum = run->quorum,
                      .learning_rate = (double)run->params.learning_rate,
                      .momentum = (double)run->params.momentum,
                      .weight_decay = (double)run->params.weight_decay,
                      .rule = run->params.rule,
                      .warmup = run->params.warmup,
                      .warmed = run->params.warmed};
    struct fault fault = {0};
    enum err err;

    comm_lock(c);
    err = c->broken.code;
    if (!err) {
        assert(!c->running);
        c->run = *run;
        comm_pace_begin(c);
        f.slice = ++c->slice;
        f.clock = (int64_t)c->slice * RUN_CLOCKS;
        f.op = c->slice;
        err = shard_step(c->shard, &f, &fault);
        assert(!err);
        courier_enter_slice(c->courier, c->slice);
        cache_begin(c->cache, c->slice, f.clock, run->staleness);
        agreement_begin(c->accord, c->slice);
        for (unsigned i = 0; i < shape->workers; i++) {
            struct mlt_worker *w = &shape->worker[i];

            w->slice_clock = ++w->own_clock;
            w->early = 0;
            w->holds = false;
        }
        c->early_at = 0;
        c->running = true;
        c->failed_told = false;
        comm_pump(c);
    }
    comm_unlock(c);
    comm_wake(c);
    runtime_progress(c->ps);
    return err;
}

static void comm_cut(struct peers *p)
{
    struct comm *c = comm_of(p);

    comm_lock(c);
    if (c->running)
        agreement_cut(c->accord);
    comm_pump(c);
    comm_unlock(c);
    runtime_progress(c->ps);
}

static void comm_fail(struct peers *p, enum err code)
{
    struct comm *c = comm_of(p);

    assert(code != ERR_OK);
    comm_lock(c);
    if (c->running)
        agreement_fail(c->accord, code);
    comm_pump(c);
    comm_unlock(c);
    runtime_progress(c->ps);
}

static void comm_hold(struct peers *p)
{
    comm_lock(comm_of(p));
}

static void comm_let_go(struct peers *p)
{
    comm_unlock(comm_of(p));
}

static enum err comm_lost(struct peers *p, struct fault *f)
{
    struct comm *c = comm_of(p);
    enum err err;

    comm_lock(c);
    err = c->broken.code;
    if (err)
        fault_set(f, err, "%s", c->broken.text);
    comm_unlock(c);
    return err;
}

static void count_known(const struct ps_shape *shape, struct ps_traffic *out)
{
    for (unsigned i = 0; i < shape->workers; i++)
        for (size_t t = 0; t < shape->tables; t++) {
            const struct prefetch_list *k = shape->worker[i].view[t].known;

            out->rows_foreseen += k ? k->early : 0;
            out->rows_unforeseen += k ? k->unforeseen : 0;
        }
}

static void comm_traffic(struct peers *p, struct ps_traffic *out)
{
    struct comm *c = comm_of(p);
    struct cache_stats stats;
    struct shard_stats shard;

    if (!c->cache)
        return;
    comm_lock(c);
    stats = cache_stats(c->cache);
    shard = shard_stats(c->shard);
    *out = c->traffic;
    out->frames_ignored = c->ignored;
    out->rows_updated = stats.updates;
    out->rows_asked = stats.asked;
    out->rows_got = stats.answers;
    out->rows_waiting = shard.waiting;
    out->snapshots_peak = shard.snapshots_peak;
    out->snapshots_missed = shard.snapshots_missed;
    count_known(c->shape, out);
    comm_pace_traffic(c, out);
    comm_unlock(c);
}

static void comm_staleness(struct peers *p, struct staleness *out)
{
    struct comm *c = comm_of(p);

    if (!c->cache)
        return;
    comm_lock(c);
    *out = *cache_staleness(c->cache);
    comm_unlock(c);
}

const struct peers_ops comm_peers = {
    .open = comm_open,
    .close = comm_close,
    .bytes = comm_bytes,
    .start = comm_start,
    .number = comm_number,
    .begin = comm_begin,
    .cut = comm_cut,
    .fail = comm_fail,
    .hold = comm_hold,
    .let_go = comm_let_go,
    .lost = comm_lost,
    .traffic = comm_traffic,
    .staleness = comm_staleness,
    .enter = comm_enter,
    .get_rows = comm_get_rows,
    .begin_batch = comm_begin_batch,
    .end_batch = comm_end_batch,
    .offer = comm_offer,
    .end_clock = comm_end_clock,
    .end_early = comm_end_early,
    .finish = comm_finish,
    .carry_begin = comm_carry_begin,
    .carry_passed = comm_carry_passed,
    .carry_await = comm_carry_await,
    .carry_end = comm_carry_end,
};
