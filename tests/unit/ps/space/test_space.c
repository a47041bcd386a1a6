/* One suite that every memory space passes: host, fake, cuda's kernels on the
 * host (tests/cuda), and cuda where MLTUNE_CUDA_PLUGIN has the path of its
 * plug-in (a machine with a device). */
#include "base/deadlines.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/space/open_io.h"

#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 110, CHUNK_ROWS = 32, CHUNKS = 4, SEEDS = 4 };

struct bed {
    struct memory_space *space;
    const struct space_ops *ops;
    struct space_stream *stream;
    bool exact; /* host and fake: to the bit */
    uint64_t seed;
};

struct tried {
    const char *name, *plugin;
    unsigned seeds;
};

enum { TRIED_MAX = 4 };

/* The spaces to try; how many. */
static size_t tried(struct tried out[TRIED_MAX])
{
    const char *plugin = getenv("MLTUNE_CUDA_PLUGIN");
    size_t n = 0;

    out[n++] = (struct tried){"host", NULL, 1};
    out[n++] = (struct tried){"fake", NULL, SEEDS};
#ifndef __SANITIZE_THREAD__ /* it does not know fibers */
    static char emulated[PATH_MAX];
    char exe[PATH_MAX];
    ssize_t got = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(got > 0);
    exe[got] = '\0';
    assert_true(snprintf(emulated, sizeof(emulated),
                         "%s/../../../../libmltune-cuda-emulated.so",
                         dirname(exe)) < PATH_MAX);
    out[n++] = (struct tried){"cuda", emulated, 1};
#endif
    if (plugin)
        out[n++] = (struct tried){"cuda", plugin, 1};
    return n;
}

static void open_bed(struct bed *b, const struct tried *as, uint64_t seed)
{
    const struct space_options o = {.plugin = as->plugin, .seed = seed};
    struct fault f = {0};

    if (space_open(as->name, &o, &b->space, &f))
        fail_msg("%s: %s", as->name, f.text);
    b->ops = b->space->ops;
    b->exact = strcmp(as->name, "cuda") != 0;
    b->seed = seed;
    assert_int_equal(b->ops->stream_open(b->space, &b->stream, &f), ERR_OK);
}

static void close_bed(struct bed *b)
{
    struct space_memory m;

    b->ops->stream_close(b->stream);
    assert_int_equal(b->ops->memory(b->space, &m, NULL), ERR_OK);
    assert_int_equal(m.used, 0);
    assert_int_equal(m.pinned, 0);
    b->ops->close(b->space);
}

/* @test with each space, and with the fake one in many orders. */
static void each_space(void (*test)(struct bed *))
{
    int64_t before = mem_outstanding();
    struct tried as[TRIED_MAX];
    size_t n = tried(as);

    for (size_t i = 0; i < n; i++)
        for (uint64_t seed = 0; seed < as[i].seeds; seed++) {
            struct bed b;

            open_bed(&b, &as[i], seed);
            test(&b);
            close_bed(&b);
        }
    assert_int_equal(mem_outstanding(), before);
}

static void *alloc(struct bed *b, size_t bytes)
{
    struct fault f = {0};
    void *at = NULL;

    if (b->ops->alloc(b->space, bytes, &at, &f))
        fail_msg("%s", f.text);
    assert_int_equal((uintptr_t)at % SPACE_ALIGN, 0);
    return at;
}

static void *pinned(struct bed *b, size_t bytes)
{
    void *at = NULL;

    assert_int_equal(b->ops->pinned_alloc(b->space, bytes, &at, NULL), ERR_OK);
    return at;
}

static void finish(struct bed *b)
{
    struct fault f = {0};

    if (b->ops->stream_sync(b->stream, DEADLINE_DEVICE_MS, &f))
        fail_msg("%s", f.text);
}

/* To the space and back, by memory that is not pinned. */
static void put(struct bed *b, void *to, const void *from, size_t bytes)
{
    b->ops->copy(b->stream, to, from, bytes, SPACE_FROM_HOST);
}

static void get(struct bed *b, void *to, const void *from, size_t bytes)
{
    b->ops->copy(b->stream, to, from, bytes, SPACE_TO_HOST);
    finish(b);
}

/* A table of random f32 on both sides, in chunks that lie in any order. */
struct table {
    uint32_t width; /* f32 numbers of a row, slots and tail too */
    char *chunk[CHUNKS];
    void *addresses; /* in the space */
    uint32_t *index; /* in the space: [ROWS] a permutation */
    uint32_t order[ROWS];
    float *rows; /* [ROWS][width], the host's */
    struct space_rows in;
};

static void fill_random(struct bed *b, float *out, size_t n)
{
    struct rng rng;

    rng_init(&rng, b->seed + n);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)rng_normal(&rng);
}

static void shuffle(struct bed *b, uint32_t order[ROWS])
{
    struct rng rng;

    rng_init(&rng, b->seed);
    for (uint32_t i = 0; i < ROWS; i++)
        order[i] = i;
    for (uint32_t i = ROWS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(&rng, i + 1), was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
}

static size_t chunk_bytes(const struct table *t)
{
    return (size_t)CHUNK_ROWS * t->width * sizeof(float);
}

static void table_new(struct bed *b, struct table *t, uint32_t width)
{
    *t = (struct table){.width = width};
    t->rows = malloc((size_t)CHUNKS * chunk_bytes(t) + 1);
    fill_random(b, t->rows, (size_t)CHUNKS * CHUNK_ROWS * width);
    shuffle(b, t->order);
    for (unsigned c = 0; c < CHUNKS; c++) {
        t->chunk[c] = alloc(b, chunk_bytes(t));
        put(b, t->chunk[c], (char *)t->rows + c * chunk_bytes(t),
            chunk_bytes(t));
    }
    t->addresses = alloc(b, sizeof(t->chunk));
    put(b, t->addresses, t->chunk, sizeof(t->chunk));
    t->index = alloc(b, sizeof(t->order));
    put(b, t->index, t->order, sizeof(t->order));
    t->in = (struct space_rows){.chunk = t->addresses,
                                .chunk_rows = CHUNK_ROWS,
                                .stride = width * (uint32_t)sizeof(float),
                                .rows = ROWS,
                                .index = t->index};
}

static void table_get(struct bed *b, const struct table *t, float *out)
{
    for (unsigned c = 0; c < CHUNKS; c++)
        get(b, (char *)out + c * chunk_bytes(t), t->chunk[c], chunk_bytes(t));
}

static void table_free(struct bed *b, struct table *t)
{
    for (unsigned c = 0; c < CHUNKS; c++)
        b->ops->free(b->space, t->chunk[c], chunk_bytes(t));
    b->ops->free(b->space, t->addresses, sizeof(t->chunk));
    b->ops->free(b->space, t->index, sizeof(t->order));
    free(t->rows);
}

/* ---- memory, copies ------------------------------------------------------ */

static void check_copies(struct bed *b)
{
    enum { BYTES = 100000 };
    char *from = pinned(b, BYTES), *to = pinned(b, BYTES);
    char *first = alloc(b, BYTES), *second = alloc(b, BYTES);
    struct space_memory m;

    for (size_t i = 0; i < BYTES; i++)
        from[i] = (char)(i * 7);
    b->ops->copy(b->stream, first, from, BYTES, SPACE_FROM_HOST);
    b->ops->copy(b->stream, second, first, BYTES, SPACE_WITHIN);
    b->ops->fill(b->stream, first, BYTES, 0x11223344, 4);
    b->ops->copy(b->stream, to, second, BYTES, SPACE_TO_HOST);
    finish(b);
    assert_memory_equal(to, from, BYTES);
    b->ops->copy(b->stream, to, first, BYTES, SPACE_TO_HOST);
    finish(b);
    for (size_t i = 0; i < BYTES; i += 4)
        assert_memory_equal(to + i, "\x44\x33\x22\x11", 4);
    assert_int_equal(b->ops->memory(b->space, &m, NULL), ERR_OK);
    assert_int_equal(m.used, 2 * BYTES);
    assert_int_equal(m.pinned, 2 * BYTES);
    assert_true(m.peak >= m.used && m.free <= m.total);
    b->ops->free(b->space, first, BYTES);
    b->ops->free(b->space, second, BYTES);
    b->ops->pinned_free(b->space, from, BYTES);
    b->ops->pinned_free(b->space, to, BYTES);
}

/* What is copied in, within and out is the same; fills repeat their pattern;
 * memory in use is counted. */
static void test_copies(void **state)
{
    (void)state;
    each_space(check_copies);
}

static void check_patterns(struct bed *b)
{
    static const struct {
        uint64_t pattern;
        unsigned bytes;
    } fills[] = {{0xab, 1}, {0x3f800000, 4}, {0x0123456789abcdef, 8}};
    unsigned char got[96], *at = alloc(b, sizeof(got));

    for (size_t i = 0; i < 3; i++) {
        b->ops->fill(b->stream, at, sizeof(got), fills[i].pattern,
                     fills[i].bytes);
        get(b, got, at, sizeof(got));
        for (size_t j = 0; j < sizeof(got); j++)
            assert_int_equal(got[j],
                             fills[i].pattern >> j % fills[i].bytes * 8 & 0xff);
    }
    b->ops->free(b->space, at, sizeof(got));
}

/* A pattern of 1, 4 or 8 bytes fills memory with its bytes in their order. */
static void test_patterns(void **state)
{
    (void)state;
    each_space(check_patterns);
}

static void check_limit(const struct tried *as)
{
    const struct space_options o = {.plugin = as->plugin, .limit = 1 << 20};
    struct memory_space *s;
    struct fault f = {0};
    void *half, *rest;

    assert_int_equal(space_open(as->name, &o, &s, &f), ERR_OK);
    assert_int_equal(s->ops->alloc(s, 1 << 19, &half, &f), ERR_OK);
    assert_int_equal(s->ops->alloc(s, (1 << 19) + 1, &rest, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "limit of 1.0 MiB, 0.5 MiB are in use"));
    assert_int_equal(s->ops->alloc(s, 1 << 19, &rest, &f), ERR_OK);
    s->ops->free(s, half, 1 << 19);
    s->ops->free(s, rest, 1 << 19);
    s->ops->close(s);
}

/* What is beyond the limit is refused with sizes, and nothing is lost by it. */
static void test_limit(void **state)
{
    struct tried as[TRIED_MAX];
    size_t n = tried(as);

    (void)state;
    for (size_t i = 0; i < n; i++)
        check_limit(&as[i]);
}

/* ---- rows ---------------------------------------------------------------- */

static void check_gather(struct bed *b)
{
    enum { WIDTH = 12, MOVED = 7 };
    const size_t bytes = MOVED * sizeof(float);
    struct table t;
    float *dense = alloc(b, ROWS * bytes), *got = malloc(ROWS * bytes);
    float *all = malloc(CHUNKS * CHUNK_ROWS * WIDTH * sizeof(float));
    struct space_rows plain;

    table_new(b, &t, WIDTH);
    b->ops->gather(b->stream, &t.in, ROWS, bytes, dense);
    get(b, got, dense, ROWS * bytes);
    for (unsigned i = 0; i < ROWS; i++)
        assert_memory_equal(got + i * MOVED, t.rows + t.order[i] * WIDTH,
                            bytes);
    /* Back to the rows in a row, from the tenth. */
    plain = t.in;
    plain.index = NULL;
    plain.first = 10;
    b->ops->scatter(b->stream, &plain, 90, bytes, dense);
    table_get(b, &t, all);
    for (unsigned i = 0; i < 90; i++) {
        assert_memory_equal(all + (10 + i) * WIDTH, got + i * MOVED, bytes);
        assert_memory_equal(all + (10 + i) * WIDTH + MOVED,
                            t.rows + (10 + i) * WIDTH + MOVED,
                            (WIDTH - MOVED) * sizeof(float));
    }
    assert_memory_equal(all, t.rows, 10 * WIDTH * sizeof(float));
    table_free(b, &t);
    b->ops->free(b->space, dense, ROWS * bytes);
    free(all);
    free(got);
}

/* Rows are gathered by index and scattered in a row; their other bytes and the
 * other rows stay. */
static void test_gather_scatter(void **state)
{
    (void)state;
    each_space(check_gather);
}

static void check_one_chunk(struct bed *b)
{
    enum { WIDTH = 3, N = 50 };
    float rows[N * WIDTH], got[N * WIDTH], *at = alloc(b, sizeof(rows));
    float *dense = alloc(b, sizeof(rows));
    struct space_rows in = {
        .base = at, .stride = WIDTH * sizeof(float), .rows = N};

    fill_random(b, rows, N * WIDTH);
    put(b, at, rows, sizeof(rows));
    b->ops->gather(b->stream, &in, N, WIDTH * sizeof(float), dense);
    get(b, got, dense, sizeof(got));
    assert_memory_equal(got, rows, sizeof(got));
    b->ops->free(b->space, at, sizeof(rows));
    b->ops->free(b->space, dense, sizeof(rows));
}

/* A table may be one chunk, its rows of any width. */
static void test_one_chunk(void **state)
{
    (void)state;
    each_space(check_one_chunk);
}

static void check_add(struct bed *b)
{
    enum { WIDTH = 5 };
    static const uint32_t twice[] = {3, 7, 3, 109};
    struct table t;
    float sums[4 * WIDTH], all[CHUNKS * CHUNK_ROWS * WIDTH];
    float *in = alloc(b, sizeof(sums));
    uint32_t *index = alloc(b, sizeof(twice));

    table_new(b, &t, WIDTH);
    for (unsigned i = 0; i < 4 * WIDTH; i++)
        sums[i] = (float)(i + 1) / 4;
    put(b, in, sums, sizeof(sums));
    put(b, index, twice, sizeof(twice));
    t.in.index = index;
    b->ops->add(b->stream, &t.in, 4, MLT_F32, WIDTH, in);
    table_get(b, &t, all);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned j = 0; j < WIDTH; j++)
            t.rows[twice[i] * WIDTH + j] += sums[i * WIDTH + j];
    for (unsigned i = 0; i < ROWS * WIDTH; i++)
        assert_true(b->exact ? all[i] == t.rows[i]
                             : fabsf(all[i] - t.rows[i]) < 1e-5f);
    table_free(b, &t);
    b->ops->free(b->space, in, sizeof(sums));
    b->ops->free(b->space, index, sizeof(twice));
}

/* Sums are added by index, a row that is there twice gets both. */
static void test_add(void **state)
{
    (void)state;
    each_space(check_add);
}

static void check_add_types(struct bed *b)
{
    double d[4] = {0.1, 1e300, -2, 3}, more[4] = {0.2, 1, 2, -3}, got[4];
    uint32_t n[4] = {1, 0xffffffff, 7, 0}, one[4] = {2, 3, 0, 0}, sum[4];
    void *at = alloc(b, sizeof(d)), *in = alloc(b, sizeof(d));
    struct space_rows rows = {.base = at, .stride = 2 * 8, .rows = 2};

    put(b, at, d, sizeof(d));
    put(b, in, more, sizeof(more));
    b->ops->add(b->stream, &rows, 2, MLT_F64, 2, in);
    get(b, got, at, sizeof(got));
    for (unsigned i = 0; i < 4; i++)
        assert_true(got[i] == d[i] + more[i]);
    rows.stride = 2 * 4;
    put(b, at, n, sizeof(n));
    put(b, in, one, sizeof(one));
    b->ops->add(b->stream, &rows, 2, MLT_I32, 2, in);
    get(b, sum, at, sizeof(sum));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(sum[i], n[i] + one[i]);
    b->ops->free(b->space, at, sizeof(d));
    b->ops->free(b->space, in, sizeof(d));
}

/* Of f64 the sums are exact, those of i32 wrap. */
static void test_add_types(void **state)
{
    (void)state;
    each_space(check_add_types);
}

/* ---- update rules -------------------------------------------------------- */

/* The rule on the host, row by row. */
static void apply_plain(const struct space_update *u, const struct table *t,
                        const float *sums, const float *seen)
{
    for (unsigned i = 0; i < ROWS; i++) {
        void *row = t->rows + (size_t)t->order[i] * t->width;
        const void *sum = sums + (size_t)i * u->width;
        const void *before = seen ? seen + (size_t)i * u->width : NULL;
        const struct rule_batch one = {.n = 1,
                                       .row = &row,
                                       .sum = &sum,
                                       .width = u->width,
                                       .type = u->type,
                                       .slots = u->slots,
                                       .params = u->params,
                                       .seen = seen ? &before : NULL};

        rule_apply(u->rule, &one, u->undecayed);
    }
}

static void check_close(const struct bed *b, const struct space_update *u,
                        const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float near = 2e-5f * fmaxf(1, fabsf(want[i]));

        if (b->exact ? memcmp(&got[i], &want[i], sizeof(*got)) != 0
                     : !(fabsf(got[i] - want[i]) <= near))
            fail_msg("%s, width %u, number %zu: %.9g, not %.9g", u->rule->name,
                     u->width, i, (double)got[i], (double)want[i]);
    }
}

/* Three updates of one table by @rule, with and without an index. */
static void check_rule(struct bed *b, const struct rule_ops *rule,
                       uint32_t width, unsigned flags, bool late, float decay)
{
    unsigned slots = rule->slots(flags);
    uint32_t row = width * (1 + slots) + rule->tail;
    size_t n = (size_t)ROWS * width;
    float *sums = malloc(n * sizeof(float)), *seen = malloc(n * sizeof(float));
    float *got = malloc((size_t)CHUNKS * CHUNK_ROWS * row * sizeof(float));
    float *at = alloc(b, n * sizeof(float)), *old = alloc(b, n * sizeof(float));
    struct table t;
    struct space_update u = {.rule = rule,
                             .type = MLT_F32,
                             .width = width,
                             .slots = slots,
                             .params = {0.05f, 0.9f, decay, 0},
                             .undecayed = width / 3,
                             .n = ROWS,
                             .sum = at,
                             .seen = late ? old : NULL};

    table_new(b, &t, row);
    for (unsigned i = 0; i < CHUNKS * CHUNK_ROWS; i++)
        memset(t.rows + (size_t)i * row + width, 0,
               (row - width) * sizeof(float));
    for (unsigned c = 0; c < CHUNKS; c++)
        put(b, t.chunk[c], (char *)t.rows + c * chunk_bytes(&t),
            chunk_bytes(&t));
    u.rows = t.in;
    for (unsigned k = 0; k < 3; k++) {
        fill_random(b, sums, n);
        fill_random(b, seen, n);
        for (size_t i = 0; i < n; i++) {
            sums[i] *= 0.1f * (float)(k + 1);
            seen[i] *= late ? 0.01f : 0;
        }
        put(b, at, sums, n * sizeof(float));
        put(b, old, seen, n * sizeof(float));
        b->ops->update(b->stream, &u);
        apply_plain(&u, &t, sums, late ? seen : NULL);
    }
    table_get(b, &t, got);
    check_close(b, &u, got, t.rows, (size_t)CHUNKS * CHUNK_ROWS * row);
    table_free(b, &t);
    b->ops->free(b->space, at, n * sizeof(float));
    b->ops->free(b->space, old, n * sizeof(float));
    free(sums);
    free(seen);
    free(got);
}

static void check_rules(struct bed *b)
{
    static const uint32_t widths[] = {1, 7, 32, 130};
    const struct rule_ops *rule;

    if (b->seed > 0)
        return;
    for (size_t i = 0; (rule = rule_at(i)); i++)
        for (size_t j = 0; j < sizeof(widths) / sizeof(*widths); j++) {
            check_rule(b, rule, widths[j], 0, false, 0.5f);
            check_rule(b, rule, widths[j], MLT_NO_MOMENTUM, rule->revises, 0);
        }
}

/* Every rule gives in a space what it gives on the host, for narrow and wide
 * rows, with slots and without, with decay, and where gradients come late. */
static void test_rules(void **state)
{
    (void)state;
    each_space(check_rules);
}

/* ---- order --------------------------------------------------------------- */

static void check_events(struct bed *b)
{
    enum { N = 1000, ROUNDS = 10 };
    struct space_stream *other;
    struct space_event *there, *back;
    float *at = alloc(b, N * sizeof(float)), *one = alloc(b, N * sizeof(float));
    float *got = pinned(b, N * sizeof(float));
    struct space_rows rows = {
        .base = at, .stride = N * sizeof(float), .rows = 1};

    assert_int_equal(b->ops->stream_open(b->space, &other, NULL), ERR_OK);
    assert_int_equal(b->ops->event_open(b->space, &there, NULL), ERR_OK);
    assert_int_equal(b->ops->event_open(b->space, &back, NULL), ERR_OK);
    b->ops->event_wait(other, there); /* never recorded: has come */
    b->ops->fill(b->stream, at, N * sizeof(float), 0, 4);
    for (unsigned i = 0; i < ROUNDS; i++) {
        /* 1.0f, in the other stream, after the last round's adding. */
        b->ops->event_wait(other, back);
        b->ops->fill(other, one, N * sizeof(float), 0x3f800000, 4);
        b->ops->event_record(other, there);
        b->ops->event_wait(b->stream, there);
        b->ops->add(b->stream, &rows, 1, MLT_F32, N, one);
        b->ops->fill(b->stream, one, N * sizeof(float), 0, 4);
        b->ops->event_record(b->stream, back);
    }
    b->ops->copy(b->stream, got, at, N * sizeof(float), SPACE_TO_HOST);
    b->ops->event_record(b->stream, there);
    assert_int_equal(b->ops->event_sync(there, DEADLINE_DEVICE_MS, NULL),
                     ERR_OK);
    assert_int_equal(b->ops->event_query(there, NULL), ERR_OK);
    for (unsigned i = 0; i < N; i++)
        assert_true(got[i] == ROUNDS);
    b->ops->event_close(there);
    b->ops->event_close(back);
    b->ops->stream_close(other);
    b->ops->free(b->space, at, N * sizeof(float));
    b->ops->free(b->space, one, N * sizeof(float));
    b->ops->pinned_free(b->space, got, N * sizeof(float));
}

/* Events order the work of two streams, again and again. */
static void test_events(void **state)
{
    (void)state;
    each_space(check_events);
}

static void check_query(struct bed *b)
{
    char *at = alloc(b, 4096), *got = pinned(b, 4096);
    enum err err;

    b->ops->fill(b->stream, at, 4096, 5, 1);
    b->ops->copy(b->stream, got, at, 4096, SPACE_TO_HOST);
    do
        err = b->ops->stream_query(b->stream, NULL);
    while (err == ERR_AGAIN);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(got[4095], 5);
    b->ops->free(b->space, at, 4096);
    b->ops->pinned_free(b->space, got, 4096);
}

/* Who asks again and again sees the work's end. */
static void test_query(void **state)
{
    (void)state;
    each_space(check_query);
}

static void check_fail(struct bed *b)
{
    char *at = alloc(b, 64), got[64] = {0};
    struct space_stream *other;
    struct space_event *e;
    struct fault f = {0};

    assert_int_equal(b->ops->stream_open(b->space, &other, NULL), ERR_OK);
    assert_int_equal(b->ops->event_open(b->space, &e, NULL), ERR_OK);
    b->ops->stream_fail(b->stream, ERR_IO, "the kernel of a layer failed");
    b->ops->event_record(b->stream, e);
    assert_int_equal(b->ops->stream_sync(b->stream, DEADLINE_DEVICE_MS, &f),
                     ERR_IO);
    assert_string_equal(f.text, "the kernel of a layer failed");
    assert_int_equal(b->ops->event_sync(e, DEADLINE_DEVICE_MS, NULL), ERR_IO);
    b->ops->event_wait(other, e);
    assert_int_equal(b->ops->stream_sync(other, DEADLINE_DEVICE_MS, NULL),
                     ERR_IO);
    b->ops->stream_close(other);
    b->ops->event_close(e);
    /* Another stream works on. */
    assert_int_equal(b->ops->stream_open(b->space, &other, NULL), ERR_OK);
    b->ops->fill(other, at, 64, 9, 1);
    b->ops->copy(other, got, at, 64, SPACE_TO_HOST);
    assert_int_equal(b->ops->stream_sync(other, DEADLINE_DEVICE_MS, NULL),
                     ERR_OK);
    assert_int_equal(got[63], 9);
    b->ops->stream_close(other);
    b->ops->free(b->space, at, 64);
}

/* An error stays in its stream, goes with its events, and leaves others alone.
 */
static void test_fail(void **state)
{
    (void)state;
    each_space(check_fail);
}

static int closed;

static void close_handle(void *handle)
{
    assert_ptr_equal(handle, &closed);
    closed++;
}

static void check_handles(struct bed *b)
{
    struct space_stream *st;

    closed = 0;
    assert_int_equal(b->ops->stream_open(b->space, &st, NULL), ERR_OK);
    for (unsigned i = 0; i < SPACE_HANDLES_MAX; i++)
        assert_null(b->ops->stream_handle(st, i)->handle);
    *b->ops->stream_handle(st, 1) =
        (struct space_handle){&closed, close_handle};
    assert_ptr_equal(b->ops->stream_handle(st, 1)->handle, &closed);
    b->ops->stream_close(st);
    assert_int_equal(closed, 1);
}

/* A library's handle lives as long as its stream. */
static void test_handles(void **state)
{
    (void)state;
    each_space(check_handles);
}

/* ---- names --------------------------------------------------------------- */

/* What is no space, no device and no plug-in is refused in words. */
static void test_names(void **state)
{
    static const struct {
        const char *name, *plugin, *words;
        enum err err;
    } wrong[] = {
        {"opencl", NULL, "there are host, fake, cuda", ERR_NOENT},
        {"cuda:", NULL, "the first one is cuda:0", ERR_NOENT},
        {"cuda:x", NULL, "the first one is cuda:0", ERR_NOENT},
        {"cuda:99", NULL, "the first one is cuda:0", ERR_NOENT},
        {"cuda", "/nonexistent/x.so", "cannot load", ERR_NOENT},
        {"cuda", NULL, "libmltune-cuda.so is not beside", ERR_NOENT},
        {"cuda", "libm.so.6", "is no memory space", ERR_INVAL},
    };
    const struct space_ops *ops;
    struct memory_space *s;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const struct space_options o = {.plugin = wrong[i].plugin};
        struct fault f = {0};

        assert_int_equal(space_open(wrong[i].name, &o, &s, &f), wrong[i].err);
        if (!strstr(f.text, wrong[i].words))
            fail_msg("%s", f.text);
    }
    assert_int_equal(space_ops_find("host", NULL, &ops, NULL), ERR_OK);
    assert_string_equal(ops->name, "host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_limit),     cmocka_unit_test(test_gather_scatter),
        cmocka_unit_test(test_one_chunk), cmocka_unit_test(test_add),
        cmocka_unit_test(test_add_types), cmocka_unit_test(test_rules),
        cmocka_unit_test(test_events),    cmocka_unit_test(test_query),
        cmocka_unit_test(test_fail),      cmocka_unit_test(test_handles),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
