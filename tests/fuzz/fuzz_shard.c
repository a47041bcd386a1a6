/* A conversation with a shard: frames of two nodes, in order, that mean
 * something or not. What the shard answers can be decoded, is for the node that
 * asks, and fits; the store stays sound. */
#include "base/mem.h"
#include "ps/nodes/shard.h"
#include "tests/fuzz/two_tables.h"
#ifndef FUZZ_REPLAY
#include "tests/sim/shard_store.c" /* the target links no simulator */
#endif
#include "tests/sim/shard_store.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHARD_FUZZ_ROOM = 512,
    SHARD_FUZZ_STEPS = 200,
    SHARD_FUZZ_ANSWERS = 64 /* frames that are asked for after a step */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shard_world {
    struct table table[FUZZ_TABLES];
    struct shard_store store;
    struct shard *shard;
    uint64_t slice, op;
    bool streams;
};

static void open_world(struct shard_world *w, struct bytes_in *in)
{
    struct shard_options opt = {.nodes = FUZZ_NODES,
                                .workers = FUZZ_WORKERS,
                                .table = w->table,
                                .tables = FUZZ_TABLES,
                                .consistency = two_tables_model(in),
                                .rows = &shard_store_rows,
                                .rows_self = &w->store};

    opt.stream_bytes = in->left % 2;
    w->streams = opt.stream_bytes > 0;
    two_tables_open(w->table, in, in_chance(in) ? MLT_OWN_CLOCK : 0);
    must(shard_store_init(&w->store, &opt, 1 << 16, 0) == ERR_OK);
    must(shard_new(&opt, &w->shard) == ERR_OK);
    shard_set_early(w->shard, in_chance(in));
}

/* A frame that is almost right: most fields are what they should be. */
static struct frame almost(struct shard_world *w, struct bytes_in *in)
{
    uint8_t odd = in_byte(in); /* a bit each: that field is anything */
    struct frame f = {
        .kind = (enum frame_kind)(1 + in_below(in, FRAME_KIND_COUNT - 1)),
        .from = (uint32_t)in_below(in, FUZZ_NODES),
        .slice = w->slice,
        .table = (uint32_t)in_below(in, FUZZ_TABLES),
        .clock = (int64_t)in_below(in, 6),
        .op = w->op + 1,
        .nodes = FUZZ_NODES,
        .workers = FUZZ_WORKERS,
        .layout = shard_layout(w->table, FUZZ_TABLES),
        .branch = (uint32_t)in_below(in, 6),
        .parent = (uint32_t)in_below(in, 6),
        .type = (uint32_t)in_below(in, BRANCH_TYPE_COUNT),
        .staleness = (uint32_t)in_below(in, 4),
        .learning_rate = 0.5,
        .momentum = 0.5};

    f.worker = f.from * FUZZ_WORKERS + (uint32_t)in_below(in, FUZZ_WORKERS);
    if (f.kind == FRAME_BEGIN)
        f.slice = w->slice + 1;
    if (f.kind == FRAME_CLOCK && in_chance(in))
        f.table = FRAME_ALL_TABLES;
    if (odd & 1)
        f.slice = in_number(in);
    if (odd & 2)
        f.table = (uint32_t)in_number(in);
    if (odd & 4)
        f.worker = (uint32_t)in_number(in);
    if (odd & 8)
        f.clock = (int64_t)in_number(in);
    if (odd & 16)
        f.op = in_number(in), f.branch = (uint32_t)in_number(in);
    if (odd & 32)
        f.learning_rate = in_real(in), f.momentum = in_real(in),
        f.weight_decay = f.momentum, f.rule = (uint32_t)in_below(in, 12);
    if (odd & 64)
        f.through = in_number(in), f.clocks = in_number(in);
    if (odd & 128)
        f.type = (uint32_t)in_number(in), f.staleness = (uint32_t)in_number(in);
    return f;
}

static bool has_values(enum frame_kind kind)
{
    return kind == FRAME_UPDATE || kind == FRAME_ROWS;
}

/* @f with records, as bytes; decoded again, since only that reaches a shard. */
static bool make(struct shard_world *w, struct bytes_in *in, struct frame *f,
                 unsigned char bytes[SHARD_FUZZ_ROOM])
{
    float values[FUZZ_WIDTH] = {1, -1};
    struct frame_writer writer;
    uint64_t n = in_below(in, 5);
    bool versions = has_values(f->kind) && f->table == 1 &&
                    strcmp(w->table[1].rule->name, "adarevision") == 0;

    if (has_values(f->kind))
        f->values = FRAME_F32, f->width = FUZZ_WIDTH;
    if (has_values(f->kind) && versions != (in_below(in, 16) == 15))
        f->flags = FRAME_VERSIONS;
    if (f->kind == FRAME_READ && in_chance(in))
        f->flags = FRAME_HALF;
    if (f->kind == FRAME_CLOCKS)
        f->values = FRAME_I64, f->width = 1;
    if (f->kind == FRAME_EXPECT)
        f->values = FRAME_I32, f->width = 1;
    if (n % 2 && (f->values == FRAME_I32 || f->values == FRAME_F32 ||
                  f->kind == FRAME_READ))
        f->flags |= FRAME_SHORT;
    frame_begin(&writer, f, bytes, SHARD_FUZZ_ROOM);
    for (uint64_t i = 0; i < n && writer.count_at; i++) {
        uint64_t row = in_below(in, FUZZ_ROWS + 2);
        int64_t clock = (int64_t)row;

        if (f->values == FRAME_I32)
            frame_add(&writer, row, &(int32_t){(int32_t)row});
        else if (f->flags & FRAME_VERSIONS)
            frame_add_version(&writer, row, (uint32_t)in_number(in), values);
        else
            frame_add(&writer, row,
                      f->kind == FRAME_CLOCKS ? (const void *)&clock
                      : has_values(f->kind)   ? (const void *)values
                                              : NULL);
    }
    if (f->kind == FRAME_UPDATE && w->streams)
        frame_set_through(&writer, in_below(in, FUZZ_ROWS + 2));
    n = frame_end(&writer);
    frame_stamp(bytes, f->from, 0, 0);
    return frame_decode(bytes, n, f, NULL) == ERR_OK;
}

static void take_answers(struct shard_world *w, uint32_t node, bool early)
{
    unsigned char bytes[SHARD_FUZZ_ROOM];
    struct frame f;
    size_t n = 1;

    for (int i = 0; i < SHARD_FUZZ_ANSWERS && n > 0; i++) {
        bool has = shard_has_next(w->shard, node);

        n = shard_next(w->shard, node, bytes, sizeof(bytes));
        must(has == (n > 0) && n <= sizeof(bytes));
        must(n == 0 || frame_decode(bytes, n, &f, NULL) == ERR_OK);
        must(n == 0 || f.slice <= w->slice || f.kind == FRAME_DONE);
    }
    if (!early)
        return;
    n = shard_next_early(w->shard, node, PRIORITY_ABSOLUTE, bytes,
                         sizeof(bytes));
    must(n == 0 || frame_decode(bytes, n, &f, NULL) == ERR_OK);
}

static void one_step(struct shard_world *w, struct bytes_in *in)
{
    unsigned char bytes[SHARD_FUZZ_ROOM];
    struct frame f = almost(w, in);
    struct fault fault = {0};
    enum err err;

    if (!make(w, in, &f, bytes))
        return;
    err = shard_step(w->shard, &f, &fault);
    must(!err || err == ERR_PROTO || err == ERR_LIMIT);
    must(!err || (fault.code == err && fault.text[0]));
    if (!err && f.kind == FRAME_BEGIN)
        w->slice = f.slice;
    if (!err &&
        (f.kind == FRAME_FORK || f.kind == FRAME_FREE || f.kind == FRAME_BEGIN))
        w->op = f.op;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes_in in = {data, size};
    int64_t before = mem_outstanding();
    struct shard_world w = {0};

    open_world(&w, &in);
    for (int i = 0; i < SHARD_FUZZ_STEPS && in.left > 0; i++) {
        one_step(&w, &in);
        if (in_below(&in, 4) < 3)
            for (uint32_t n = 0; n < FUZZ_NODES; n++)
                take_answers(&w, n, i % 2);
    }
    must(shard_stats(w.shard).waiting <=
         (uint64_t)FUZZ_NODES * SHARD_READS_MAX);
    shard_free(w.shard);
    store_check(w.store.store);
    shard_store_deinit(&w.store);
    must(mem_outstanding() == before);
    return 0;
}
