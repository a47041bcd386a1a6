/* adarevision across nodes: real shards and caches, frames delivered in any
 * order between nodes, against the plain form of the rule. What each sum was
 * computed on is known here from the frames alone: how many gradients a row had
 * when the frame with its values was written. */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/cache.h"
#include "tests/sim/shard_store.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/frame_whole.h"
#include "tests/unit/fixture/revision_plain.h"

#include <math.h>

enum {
    NODES = 3,
    WORKERS = 2, /* a node */
    ALL = NODES * WORKERS,
    ROWS = 14,
    WIDTH = 4,
    ROOM = 400,
    CLOCKS = 12, /* a slice */
    QUEUE_MAX = 512,
    STALENESS = 2
};

/* A frame under way; of each record, the gradients its row had. */
struct letter {
    unsigned char bytes[ROOM];
    size_t size;
    int count[ROOM / 8];
};

struct way {
    struct letter letter[QUEUE_MAX];
    size_t first, end;
};

enum phase { BEGINS, READS, SENDS, WAITS, GONE };

struct worker {
    enum phase phase;
    int clocks;
    bool wants[ROWS]; /* still to be read in this clock */
    bool knows[ROWS]; /* read in this clock */
    int basis[ROWS];  /* gradients that its copy holds */
    struct update update;
};

struct node {
    struct shard_store store;
    struct shard *shard;
    struct cache *cache;
    struct worker worker[WORKERS];
    const struct update *updates[WORKERS];
    int copy[ROWS]; /* gradients that the node's copy holds */
};

struct world {
    struct rng rng;
    struct table table;
    struct node node[NODES];
    struct way way[NODES][NODES];
    struct revision_plain plain[ROWS][WIDTH];
    uint64_t slice, op;
    unsigned drained;
    unsigned apart; /* sums that something came before, since they were read */
    unsigned renewed; /* rows that were read again and newer then */
};

static struct world world;

static bool chance(struct world *w, double p)
{
    return rng_uniform(&w->rng) < p;
}

/* ---- frames -------------------------------------------------------------- */

static int gradients_of(const struct world *w, uint64_t row)
{
    return w->plain[row][0].n;
}

static void annotate(struct world *w, uint32_t from, struct letter *l)
{
    struct frame f;

    assert_int_equal(frame_decode(l->bytes, l->size, &f, NULL), ERR_OK);
    for (uint32_t i = 0; i < f.count; i++) {
        uint64_t row = frame_row(&f, i);
        const struct worker *self;

        if (f.kind == FRAME_ROWS) {
            l->count[i] = gradients_of(w, row);
        } else if (f.kind == FRAME_UPDATE) {
            self = &w->node[from].worker[f.worker % WORKERS];
            l->count[i] = self->knows[row] ? self->basis[row] : -1;
        }
    }
}

/* The next frame on its way; false where there is none or no room. */
static bool send(struct world *w, uint32_t from, uint32_t to)
{
    struct way *way = &w->way[from][to];
    struct letter *l = &way->letter[way->end];
    struct node *n = &w->node[from];
    size_t room = shard_frame_bytes(n->shard) + rng_below(&w->rng, 100);

    if (way->end == QUEUE_MAX)
        return false;
    l->size = chance(w, 0.5) ? shard_next(n->shard, to, l->bytes, room) : 0;
    if (!l->size)
        l->size = cache_next(n->cache, to, l->bytes, room);
    if (!l->size)
        l->size = shard_next(n->shard, to, l->bytes, room);
    if (!l->size)
        return false;
    frame_stamp(l->bytes, from, 0, 0);
    annotate(w, from, l);
    way->end++;
    return true;
}

static void apply_plainly(struct world *w, const struct frame *f,
                          const struct letter *l)
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct revision_plain *p = w->plain[frame_row(f, i)];
        int basis = l->count[i] < 0 ? p->n : l->count[i];
        float gradient[WIDTH];

        w->apart += basis < p->n;
        frame_row_values(f, i, gradient);
        for (int j = 0; j < WIDTH; j++)
            revision_plain_update(&p[j], 0.1, gradient[j], basis);
    }
}

static void take(struct world *w, uint32_t to, const struct letter *l)
{
    struct node *n = &w->node[to];
    struct fault fault = {0};
    struct frame f;
    enum err err;

    assert_int_equal(frame_decode(l->bytes, l->size, &f, NULL), ERR_OK);
    if (f.kind == FRAME_DRAINED) {
        w->drained++;
        return;
    }
    if (f.kind == FRAME_ROWS || f.kind == FRAME_CLOCKS) {
        err = cache_step(n->cache, &f, &fault);
        for (uint32_t i = 0; i < f.count && f.kind == FRAME_ROWS; i++)
            n->copy[frame_row(&f, i)] = l->count[i];
    } else {
        err = shard_step(n->shard, &f, &fault);
        if (f.kind == FRAME_UPDATE)
            apply_plainly(w, &f, l);
    }
    if (err)
        fail_msg("%s", fault.text);
}

static void deliver(struct world *w, uint32_t from, uint32_t to)
{
    struct way *way = &w->way[from][to];

    if (way->first == way->end)
        return;
    take(w, to, &way->letter[way->first++]);
    if (way->first == way->end)
        way->first = way->end = 0;
}

/* ---- workers ------------------------------------------------------------- */

static void begin_clock(struct world *w, struct worker *self)
{
    for (uint64_t r = 0; r < ROWS; r++) {
        self->wants[r] = chance(w, 0.4);
        self->knows[r] = false;
    }
    self->phase = READS;
}

/* Each row once a clock, as the runtime reads them; true once all are here. */
static bool read_rows(struct world *w, struct node *n, uint32_t i)
{
    struct worker *self = &n->worker[i];
    bool all = true;

    for (uint64_t r = 0; r < ROWS; r++) {
        float values[WIDTH];

        if (!self->wants[r] || chance(w, 0.3)) {
            all &= !self->wants[r];
            continue;
        }
        if (!cache_read(n->cache, i, 0, r, values, NULL)) {
            all = false;
            continue;
        }
        self->wants[r] = false;
        self->knows[r] = true;
        self->basis[r] = n->copy[r];
    }
    return all;
}

/* After the last clock: of no use, and nothing for the next slice. */
static void read_in_vain(struct world *w, struct node *n, uint32_t i)
{
    for (uint64_t r = 0; r < ROWS; r++) {
        float values[WIDTH];

        if (chance(w, 0.3))
            cache_read(n->cache, i, 0, r, values, NULL);
    }
}

/* The version read last before something was added counts. */
static void read_again(struct world *w, struct node *n, uint32_t i)
{
    struct worker *self = &n->worker[i];

    for (uint64_t r = 0; r < ROWS; r++) {
        float values[WIDTH];

        if (!self->knows[r] || chance(w, 0.5))
            continue;
        if (!cache_read(n->cache, i, 0, r, values, NULL) ||
            update_has(&self->update, r))
            continue;
        w->renewed += n->copy[r] > self->basis[r];
        self->basis[r] = n->copy[r];
    }
}

static void compute(struct world *w, struct worker *self)
{
    for (uint64_t r = 0; r < ROWS; r++) {
        float *sum;

        if (!chance(w, self->knows[r] ? 0.7 : 0.1))
            continue;
        sum = update_has(&self->update, r) ? update_row(&self->update, r)
                                           : update_take(&self->update, r);
        for (int j = 0; j < WIDTH; j++)
            sum[j] = 0.2f + (float)rng_normal(&w->rng);
    }
}

static void work(struct world *w, struct node *n, uint32_t i)
{
    struct worker *self = &n->worker[i];

    switch (self->phase) {
    case BEGINS:
        if (cache_begun(n->cache))
            begin_clock(w, self);
        break;
    case READS:
        if (!read_rows(w, n, i))
            break;
        read_again(w, n, i);
        compute(w, self);
        read_again(w, n, i);
        cache_end_clock(n->cache, i, FRAME_ALL_TABLES, 0);
        self->phase = SENDS;
        break;
    case SENDS:
        if (!cache_sent(n->cache, i))
            break;
        update_clear(&self->update);
        self->phase = WAITS;
        break;
    case WAITS:
        if (--self->clocks > 0) {
            begin_clock(w, self);
            break;
        }
        read_in_vain(w, n, i);
        cache_drain(n->cache, i);
        self->phase = GONE;
        break;
    case GONE:
        break;
    }
}

/* ---- a run --------------------------------------------------------------- */

static void open_node(struct world *w, uint32_t index, const char *model,
                      uint32_t snapshots_max)
{
    struct node *n = &w->node[index];
    struct shard_options shard = {.node = index,
                                  .nodes = NODES,
                                  .workers = WORKERS,
                                  .table = &w->table,
                                  .tables = 1,
                                  .consistency = consistency_find(model),
                                  .snapshots_max = snapshots_max,
                                  .rows = &shard_store_rows,
                                  .rows_self = &n->store};
    struct cache_options cache = {.node = index,
                                  .nodes = NODES,
                                  .workers = WORKERS,
                                  .table = &w->table,
                                  .tables = 1,
                                  .consistency = shard.consistency,
                                  .update = n->updates};

    for (int i = 0; i < WORKERS; i++) {
        n->worker[i].phase = GONE;
        n->updates[i] = &n->worker[i].update;
        assert_int_equal(
            update_init(&n->worker[i].update, ROWS, WIDTH * sizeof(float), 0),
            ERR_OK);
    }
    assert_int_equal(shard_store_init(&n->store, &shard, 1 << 20, 0), ERR_OK);
    assert_int_equal(shard_new(&shard, &n->shard), ERR_OK);
    assert_int_equal(cache_new(&cache, &n->cache), ERR_OK);
}

static void open_world(struct world *w, uint64_t seed, const char *model,
                       uint32_t snapshots_max)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "weights",
                                    .rows = ROWS,
                                    .width = WIDTH,
                                    .rule = "adarevision",
                                    .chunk_bytes = 64};

    memset(w, 0, sizeof(*w));
    rng_init(&w->rng, seed);
    assert_int_equal(table_init(&w->table, &opt, NULL, NULL), ERR_OK);
    table_partition(&w->table, ALL);
    for (uint32_t i = 0; i < NODES; i++)
        open_node(w, i, model, snapshots_max);
}

static void close_world(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *n = &w->node[i];

        cache_free(n->cache);
        shard_free(n->shard);
        store_check(n->store.store);
        shard_store_deinit(&n->store);
        for (int k = 0; k < WORKERS; k++)
            update_deinit(&n->worker[k].update);
    }
}

static void operate(struct world *w, struct frame f)
{
    struct letter l;

    f.op = ++w->op;
    for (uint32_t i = 0; i < NODES; i++) {
        struct frame done;

        l.size = frame_whole(&f, l.bytes, sizeof(l.bytes));
        take(w, i, &l);
        l.size = shard_next(w->node[i].shard, 0, l.bytes, sizeof(l.bytes));
        assert_int_equal(frame_decode(l.bytes, l.size, &done, NULL), ERR_OK);
        assert_int_equal(done.kind, FRAME_DONE);
        assert_int_equal(done.code, ERR_OK);
    }
}

static void run_slice(struct world *w, uint32_t branch)
{
    int64_t clock = (int64_t)(100 * ++w->slice);

    operate(w, (struct frame){.kind = FRAME_BEGIN,
                              .slice = w->slice,
                              .branch = branch,
                              .clock = clock,
                              .staleness = STALENESS,
                              .learning_rate = 0.1});
    w->drained = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        cache_begin(w->node[i].cache, w->slice, clock, STALENESS);
        for (int k = 0; k < WORKERS; k++) {
            w->node[i].worker[k].phase = BEGINS;
            w->node[i].worker[k].clocks = CLOCKS;
        }
    }
    for (int step = 0; w->drained < NODES; step++) {
        uint32_t a = (uint32_t)rng_below(&w->rng, NODES);
        uint32_t b = (uint32_t)rng_below(&w->rng, NODES);

        if (step > 1000000)
            fail_msg("slice %d does not end", (int)w->slice);
        send(w, a, b);
        deliver(w, (uint32_t)rng_below(&w->rng, NODES), b);
        work(w, &w->node[a], (uint32_t)rng_below(&w->rng, WORKERS));
    }
}

/* Letters that nobody waits for. */
static void empty_ways(struct world *w)
{
    for (uint32_t a = 0; a < NODES; a++)
        for (uint32_t b = 0; b < NODES; b++)
            do
                while (w->way[a][b].first < w->way[a][b].end)
                    deliver(w, a, b);
            while (send(w, a, b));
}

static const float *stored(const struct world *w, uint32_t branch, uint64_t row)
{
    uint32_t n = shard_of(&w->table, NODES, WORKERS, row);

    return shard_store_row(&w->node[n].store, branch, 0, row);
}

static void assert_as_plain(const struct world *w, uint32_t branch)
{
    for (uint64_t r = 0; r < ROWS; r++)
        for (int j = 0; j < WIDTH; j++) {
            double got = stored(w, branch, r)[j];
            double want = w->plain[r][j].value;

            if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
                fail_msg("row %d: %.9g instead of %.9g", (int)r, got, want);
        }
}

static struct shard_stats all_stats(const struct world *w)
{
    struct shard_stats sum = {0};

    for (uint32_t i = 0; i < NODES; i++) {
        struct shard_stats s = shard_stats(w->node[i].shard);

        sum.snapshots += s.snapshots;
        sum.snapshots_peak += s.snapshots_peak;
        sum.snapshots_missed += s.snapshots_missed;
    }
    return sum;
}

static const char *const models[] = {"ssp", "essp", "async", "barrier"};

/* Whatever comes late, each sum meets the rule with what had come before it was
 * computed: in a first slice, in a fork, and in the parent after that, where
 * versions begin anew. */
static void nodes_delays_equal_plain_reference(void **state)
{
    static struct revision_plain parent[ROWS][WIDTH];
    struct world *w = &world;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        int64_t before = mem_outstanding();

        open_world(w, seed, models[seed % 4], 1000);
        run_slice(w, 0);
        empty_ways(w);
        assert_as_plain(w, 0);
        memcpy(parent, w->plain, sizeof(parent));
        operate(w, (struct frame){.kind = FRAME_FORK, .branch = 1, .type = 1});
        run_slice(w, 1);
        empty_ways(w);
        assert_as_plain(w, 1);
        memcpy(w->plain, parent, sizeof(parent));
        run_slice(w, 0);
        empty_ways(w);
        assert_as_plain(w, 0);
        assert_true(w->apart > 100); /* it was about something */
        assert_true(w->renewed > 10 || strcmp(models[seed % 4], "essp") != 0);
        assert_int_equal(all_stats(w).snapshots_missed, 0);
        close_world(w);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* When all have drained nobody names a version any more but the last that each
 * node has: at most one snapshot a row. And a shard whose snapshots have a cap
 * keeps it, says so, and ends with values that are finite and near. */
static void nodes_snapshots_are_freed_and_capped(void **state)
{
    struct world *w = &world;
    struct shard_stats stats;
    bool full = false;

    (void)state;
    open_world(w, 5, "ssp", 0);
    run_slice(w, 0);
    stats = all_stats(w);
    assert_true(stats.snapshots > 0 && stats.snapshots <= NODES * ROWS);
    operate(w, (struct frame){.kind = FRAME_BEGIN, .slice = 2, .clock = 1000});
    assert_int_equal(all_stats(w).snapshots, 0);
    close_world(w);
    open_world(w, 5, "ssp", 1);
    run_slice(w, 0);
    stats = all_stats(w);
    assert_true(stats.snapshots_peak <= NODES && stats.snapshots_missed > 0);
    for (uint32_t i = 0; i < NODES; i++)
        full |= shard_versions_full(w->node[i].shard);
    assert_true(full);
    for (uint64_t r = 0; r < ROWS; r++)
        for (int j = 0; j < WIDTH; j++)
            assert_true(fabs(stored(w, 0, r)[j] - w->plain[r][j].value) < 1);
    close_world(w);
}

/* Versions that a row never had, and frames without any, are refused. */
static void nodes_wrong_versions_are_refused(void **state)
{
    struct world *w = &world;
    unsigned char bytes[ROOM];
    float values[WIDTH] = {1};
    struct fault fault;

    (void)state;
    open_world(w, 1, "ssp", 0);
    run_slice(w, 0);
    operate(w, (struct frame){.kind = FRAME_BEGIN, .slice = 2, .clock = 1000});
    for (unsigned flags = 0; flags <= FRAME_VERSIONS; flags += FRAME_VERSIONS) {
        struct frame f = {.kind = FRAME_UPDATE,
                          .values = FRAME_F32,
                          .flags = flags,
                          .slice = 2,
                          .clock = 1000,
                          .width = WIDTH};
        struct frame_writer writer;

        frame_begin(&writer, &f, bytes, sizeof(bytes));
        if (flags)
            frame_add_version(&writer, 0, 2, values);
        else
            frame_add(&writer, 0, values);
        assert_int_equal(frame_decode(bytes, frame_end(&writer), &f, NULL),
                         ERR_OK);
        assert_int_equal(shard_step(w->node[0].shard, &f, &fault), ERR_PROTO);
        assert_non_null(strstr(fault.text, "versions"));
    }
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_delays_equal_plain_reference),
        cmocka_unit_test(nodes_snapshots_are_freed_and_capped),
        cmocka_unit_test(nodes_wrong_versions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
