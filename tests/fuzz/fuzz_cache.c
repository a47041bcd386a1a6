/* A conversation with a node's copies of rows: frames of two shards, in order,
 * that mean something or not, and workers that read, add, end clocks and
 * drain as they may. What leaves for a shard can be decoded and is for it. */
#include "base/mem.h"
#include "ps/nodes/cache.h"
#include "tests/fuzz/two_tables.h"

#include <string.h>

enum {
    CACHE_FUZZ_ROOM = 512,
    CACHE_FUZZ_STEPS = 200,
    CACHE_FUZZ_LEAVING = 64 /* frames that are asked for at a time */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct cache_world {
    struct table table[FUZZ_TABLES];
    struct update update[FUZZ_WORKERS][FUZZ_TABLES];
    const struct update *updates[FUZZ_WORKERS][FUZZ_TABLES];
    struct cache *cache;
    uint64_t slice;
    int64_t base;              /* its first clock */
    bool ending[FUZZ_WORKERS]; /* its clock's sums are leaving */
    bool drained[FUZZ_WORKERS];
};

static void open_world(struct cache_world *w, struct bytes_in *in)
{
    struct cache_options opt = {.nodes = FUZZ_NODES,
                                .workers = FUZZ_WORKERS,
                                .table = w->table,
                                .tables = FUZZ_TABLES,
                                .consistency = two_tables_model(in),
                                .half = in_chance(in),
                                .update = &w->updates[0][0]};

    opt.stream_bytes = in->left % 2;
    two_tables_open(w->table, in, 0);
    if (in->left / 2 % 2)
        w->table[0].flags |= MLT_READ_MY_WRITES;
    for (int i = 0; i < FUZZ_WORKERS; i++) {
        w->drained[i] = true;
        for (int t = 0; t < FUZZ_TABLES; t++) {
            must(update_init(&w->update[i][t], FUZZ_ROWS,
                             w->table[t].value_bytes, 0) == ERR_OK);
            w->updates[i][t] = &w->update[i][t];
        }
    }
    must(cache_new(&opt, &w->cache) == ERR_OK);
}

static void close_world(struct cache_world *w)
{
    cache_free(w->cache);
    for (int i = 0; i < FUZZ_WORKERS; i++)
        for (int t = 0; t < FUZZ_TABLES; t++)
            update_deinit(&w->update[i][t]);
}

/* ---- what shards say ----------------------------------------------------- */

/* A frame that is almost right: most fields are what they should be. */
static struct frame almost(struct cache_world *w, struct bytes_in *in)
{
    uint8_t odd = in_byte(in); /* a bit each: that field is anything */
    struct frame f = {.kind = in_chance(in) ? FRAME_ROWS : FRAME_CLOCKS,
                      .from = (uint32_t)in_below(in, FUZZ_NODES),
                      .slice = w->slice,
                      .table = (uint32_t)in_below(in, FUZZ_TABLES),
                      .clock = w->base + (int64_t)in_below(in, 6)};

    f.worker =
        in_chance(in) ? FRAME_NO_WORKER : (uint32_t)in_below(in, FUZZ_WORKERS);
    if (odd & 1)
        f.slice = in_number(in);
    if (odd & 2)
        f.table = (uint32_t)in_number(in);
    if (odd & 4)
        f.worker = (uint32_t)in_number(in);
    if (odd & 8)
        f.clock = (int64_t)in_number(in);
    if (odd & 16)
        f.kind = (enum frame_kind)(1 + in_below(in, FRAME_KIND_COUNT - 1));
    if (odd & 32)
        f.from = (uint32_t)in_number(in);
    if (odd & 64)
        f.kind = FRAME_TAKEN, f.through = in_number(in);
    if (odd & 128)
        f.kind = FRAME_APPLIED, f.through = in_below(in, 9);
    return f;
}

static void add_record(struct cache_world *w, struct bytes_in *in,
                       const struct frame *f, struct frame_writer *writer)
{
    static const float values[FUZZ_WIDTH + 1] = {1, -1, 1};
    uint64_t row = in_below(in, FUZZ_ROWS + 1);
    uint64_t number = in_number(in);
    int64_t clock =
        (int64_t)(number < 50 ? number + (uint64_t)w->base : number);

    if (f->values == FRAME_NOTHING) {
        frame_add(writer, row, NULL);
    } else if (f->kind == FRAME_CLOCKS) {
        frame_add(writer, in_below(in, FUZZ_TABLES + 1), &clock);
    } else if (f->flags & FRAME_VERSIONS) {
        frame_add_version(writer, row, (uint32_t)in_number(in), values);
    } else {
        /* Rows of the shard's own, mostly. */
        row = f->from == 1 && in_byte(in) < 250 ? 6 + row % 6 : row;
        frame_add(writer, row, values);
    }
}

static void hear(struct cache_world *w, struct bytes_in *in)
{
    unsigned char bytes[CACHE_FUZZ_ROOM];
    struct frame f = almost(w, in), got;
    struct fault fault = {0};
    struct frame_writer writer;
    enum err err;
    size_t n;

    if (f.kind == FRAME_ROWS || f.kind == FRAME_UPDATE) {
        f.values = in_byte(in) < 240 ? FRAME_F32 : FRAME_F16;
        f.width = in_byte(in) < 240 ? FUZZ_WIDTH : 1;
        if (f.table == 1 && (strcmp(w->table[1].rule->name, "adarevision") ==
                             0) != (in_byte(in) > 240))
            f.flags = FRAME_VERSIONS;
    } else if (f.kind == FRAME_CLOCKS) {
        f.values = FRAME_I64;
        f.width = in_byte(in) < 240 ? 1 : 2;
    } else if (f.kind == FRAME_EXPECT) {
        f.values = FRAME_I32, f.width = 1;
    }
    if (f.clock % 2 && (f.kind == FRAME_ROWS || f.kind == FRAME_UPDATE))
        f.flags |= FRAME_SHORT;
    frame_begin(&writer, &f, bytes, sizeof(bytes));
    if (writer.count_at && f.kind != FRAME_EXPECT &&
        f.width <= 1 + (f.kind != FRAME_CLOCKS))
        for (uint64_t k = in_below(in, 5); k > 0; k--)
            add_record(w, in, &f, &writer);
    n = frame_end(&writer);
    frame_stamp(bytes, f.from, 0, 0);
    if (frame_decode(bytes, n, &got, NULL))
        return;
    err = cache_step(w->cache, &got, &fault);
    must(!err || err == ERR_PROTO);
    must(!err || (fault.code == err && fault.text[0]));
}

/* ---- what workers do ----------------------------------------------------- */

static void take_leaving(struct cache_world *w)
{
    unsigned char bytes[CACHE_FUZZ_ROOM];
    struct frame f;

    must(cache_frame_bytes(w->cache) <= sizeof(bytes));
    for (uint32_t node = 0; node < FUZZ_NODES; node++)
        for (int i = 0; i < CACHE_FUZZ_LEAVING; i++) {
            bool has = cache_has_next(w->cache, node);
            size_t n = cache_next(w->cache, node, bytes, sizeof(bytes));

            must(has == (n > 0) && n <= sizeof(bytes));
            if (n == 0)
                break;
            must(frame_decode(bytes, n, &f, NULL) == ERR_OK);
            must(f.slice == w->slice);
        }
    for (uint32_t i = 0; i < FUZZ_WORKERS; i++) {
        if (!w->ending[i] || !cache_sent(w->cache, i) ||
            !cache_may_go_on(w->cache, i))
            continue;
        for (int t = 0; t < FUZZ_TABLES; t++)
            update_clear(&w->update[i][t]);
        w->ending[i] = false;
    }
}

static void add(struct cache_world *w, uint32_t worker, uint32_t table,
                uint64_t row)
{
    struct update *u = &w->update[worker][table];

    memset(update_has(u, row) ? update_row(u, row) : update_take(u, row), 0,
           u->value_bytes);
}

static void work(struct cache_world *w, struct bytes_in *in, uint32_t worker)
{
    float values[FUZZ_WIDTH];
    uint32_t table = (uint32_t)in_below(in, FUZZ_TABLES);
    uint64_t row = in_below(in, FUZZ_ROWS);
    unsigned char bytes[CACHE_FUZZ_ROOM];
    struct frame f;
    int64_t clock;
    size_t n;

    switch (in_below(in, 6)) {
    case 0:
    case 1:
        if (cache_read(w->cache, worker, table, row, values, &clock))
            must(cache_place(w->cache, table, row) != NULL);
        break;
    case 2:
        add(w, worker, table, row);
        break;
    case 3:
        cache_end_clock(w->cache, worker, FRAME_ALL_TABLES, 0.5);
        w->ending[worker] = true;
        break;
    case 4:
        n = cache_next_early(w->cache, worker,
                             (uint32_t)in_below(in, FUZZ_NODES),
                             PRIORITY_ABSOLUTE, bytes, sizeof(bytes));
        must(n == 0 || frame_decode(bytes, n, &f, NULL) == ERR_OK);
        break;
    default:
        if (!update_is_empty(&w->update[worker][0]) ||
            !update_is_empty(&w->update[worker][1]))
            break;
        cache_drain(w->cache, worker);
        w->drained[worker] = true;
    }
}

/* All have left the last slice. */
static void begin(struct cache_world *w, struct bytes_in *in)
{
    for (int i = 0; i < FUZZ_WORKERS; i++)
        if (!w->drained[i])
            return;
    take_leaving(w);
    if (w->slice > 0 && !cache_quiet(w->cache))
        return;
    w->slice++;
    w->base += 2 * CACHE_FUZZ_STEPS; /* more than a slice can end */
    cache_begin(w->cache, w->slice, w->base, (unsigned)in_below(in, 3));
    memset(w->drained, 0, sizeof(w->drained));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes_in in = {data, size};
    int64_t before = mem_outstanding();
    struct cache_world w = {.slice = 0};

    open_world(&w, &in);
    begin(&w, &in);
    for (int i = 0; i < CACHE_FUZZ_STEPS && in.left > 0; i++) {
        uint8_t what = in_byte(&in);
        uint32_t worker = what % FUZZ_WORKERS;

        if (what < 120)
            hear(&w, &in);
        else if (what < 220 && !w.ending[worker] && !w.drained[worker] &&
                 cache_begun(w.cache) && cache_may_go_on(w.cache, worker))
            work(&w, &in, worker);
        else if (what < 240)
            take_leaving(&w);
        else
            begin(&w, &in);
    }
    close_world(&w);
    must(mem_outstanding() == before);
    return 0;
}
