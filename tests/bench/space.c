/* A memory space's copies, rows and update rules, in GB of memory read and
 * written a second, beside a plain copy within the space in the same round; and
 * the copy of a state of 1 GiB, chunk by chunk and at once (a fork that is
 * written everywhere).
 *
 * MLTUNE_SPACE=cuda:0 (or host), MLTUNE_CUDA_PLUGIN=path of libmltune-cuda.so.
 */
#include "base/deadlines.h"
#include "base/rng.h"
#include "ps/space/open_io.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 1 << 26, CHUNK = 64 * 1024, STATE_CHUNKS = 16384, SLOTS = 3 };

struct bench_space {
    struct memory_space *space;
    const struct space_ops *ops;
    struct space_stream *stream;
    struct space_event *from, *to;
    char *table; /* VALUES values with SLOTS slots and tails */
    size_t table_bytes;
    char *sum, *seen;        /* VALUES values each */
    void **addresses;        /* in the space */
    uint32_t *index;         /* in the space: a permutation */
    char *pinned, *unpinned; /* VALUES values each */
    struct space_rows rows;  /* of the table, for one width */
    size_t n;                /* rows */
    uint32_t width;
    const struct rule_ops *rule;
};

static struct bench_space b;

typedef void work_fn(void);

/* Seconds of @work: by the device's clock where it has one. */
static double seconds(work_fn *work)
{
    struct fault f = {0};
    time_ns begun;
    uint64_t ns;

    b.ops->stream_sync(b.stream, DEADLINE_DEVICE_MS, NULL);
    begun = clock_monotonic();
    b.ops->event_record(b.stream, b.from);
    work();
    b.ops->event_record(b.stream, b.to);
    if (b.ops->stream_sync(b.stream, DEADLINE_DEVICE_MS, &f)) {
        fprintf(stderr, "%s\n", f.text);
        exit(1);
    }
    ns = b.ops->event_between(b.from, b.to);
    return 1e-9 * (double)(ns ? (time_ns)ns : clock_monotonic() - begun);
}

static void copy_within(void)
{
    b.ops->copy(b.stream, b.sum, b.seen, VALUES * sizeof(float), SPACE_WITHIN);
}

static const double copied = 2.0 * VALUES * sizeof(float);

/* @bytes that @work reads and writes, beside the plain copy. */
static void measure(const char *name, const char *params, work_fn *work,
                    double bytes)
{
    struct bench_series ours = {.n = 0}, plain = {.n = 0};

    seconds(work);
    seconds(copy_within);
    for (size_t i = 0; i < bench_rounds(); i++) {
        bench_add(&plain, 1e-9 * copied / seconds(copy_within));
        bench_add(&ours, 1e-9 * bytes / seconds(work));
    }
    bench_print(name, params, &ours, "GB/s");
    bench_print_ratio(name, params, "copy", &ours, &plain, 0);
}

/* ---- copies -------------------------------------------------------------- */

static void to_pinned(void)
{
    b.ops->copy(b.stream, b.pinned, b.sum, VALUES * sizeof(float),
                SPACE_TO_HOST);
}

static void from_pinned(void)
{
    b.ops->copy(b.stream, b.sum, b.pinned, VALUES * sizeof(float),
                SPACE_FROM_HOST);
}

static void to_unpinned(void)
{
    b.ops->copy(b.stream, b.unpinned, b.sum, VALUES * sizeof(float),
                SPACE_TO_HOST);
}

static void from_unpinned(void)
{
    b.ops->copy(b.stream, b.sum, b.unpinned, VALUES * sizeof(float),
                SPACE_FROM_HOST);
}

static void measure_copies(void)
{
    static const struct {
        const char *params;
        work_fn *work;
        double bytes; /* a value: read and written by the space */
    } copies[] = {{"way=within", copy_within, 8},
                  {"way=from-host pinned=1", from_pinned, 4},
                  {"way=to-host pinned=1", to_pinned, 4},
                  {"way=from-host pinned=0", from_unpinned, 4},
                  {"way=to-host pinned=0", to_unpinned, 4}};

    for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
        struct bench_series s = {.n = 0};

        seconds(copies[i].work);
        for (size_t j = 0; j < bench_rounds(); j++)
            bench_add(&s, 1e-9 * copies[i].bytes * VALUES /
                              seconds(copies[i].work));
        bench_print("space_copy", copies[i].params, &s, "GB/s");
    }
}

/* ---- rows ---------------------------------------------------------------- */

/* The table as chunks of at most 64 KiB of rows of @floats numbers, as the
 * branch store has it. */
static void lay_out(uint32_t floats, const uint32_t *index)
{
    uint32_t stride = floats * (uint32_t)sizeof(float), rows = 1;
    size_t chunks, chunk_bytes;
    void **at;

    while ((size_t)rows * 2 * stride <= CHUNK)
        rows *= 2;
    chunk_bytes = ((size_t)rows * stride + 63) / 64 * 64;
    chunks = (b.n + rows - 1) / rows;
    bench_must(chunks * chunk_bytes <= b.table_bytes, "fit the table");
    at = malloc(chunks * sizeof(*at));
    bench_must(at != NULL, "list chunks");
    for (size_t c = 0; c < chunks; c++)
        at[c] = b.table + c * chunk_bytes;
    b.ops->copy(b.stream, b.addresses, at, chunks * sizeof(*at),
                SPACE_FROM_HOST);
    b.ops->stream_sync(b.stream, DEADLINE_DEVICE_MS, NULL);
    free(at);
    b.rows = (struct space_rows){.chunk = b.addresses,
                                 .chunk_rows = rows,
                                 .stride = stride,
                                 .rows = b.n,
                                 .index = index};
}

static void shuffle_index(void)
{
    uint32_t *order = malloc(b.n * sizeof(*order));
    struct rng rng;

    bench_must(order != NULL, "shuffle");
    rng_init(&rng, 1);
    for (uint32_t i = 0; i < b.n; i++)
        order[i] = i;
    for (size_t i = b.n - 1; i > 0; i--) {
        size_t j = rng_below(&rng, i + 1);
        uint32_t was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
    b.ops->copy(b.stream, b.index, order, b.n * sizeof(*order),
                SPACE_FROM_HOST);
    b.ops->stream_sync(b.stream, DEADLINE_DEVICE_MS, NULL);
    free(order);
}

static void gather(void)
{
    b.ops->gather(b.stream, &b.rows, b.n, b.width * sizeof(float), b.seen);
}

static void scatter(void)
{
    b.ops->scatter(b.stream, &b.rows, b.n, b.width * sizeof(float), b.sum);
}

static void add(void)
{
    b.ops->add(b.stream, &b.rows, b.n, MLT_F32, b.width, b.sum);
}

static void update(void)
{
    const struct space_update u = {.rule = b.rule,
                                   .type = MLT_F32,
                                   .width = b.width,
                                   .slots = b.rule->slots(0),
                                   .params = {1e-3f, 0.9f},
                                   .n = b.n,
                                   .rows = b.rows,
                                   .sum = b.sum,
                                   .seen = NULL};

    b.ops->update(b.stream, &u);
}

/* Random sums, slots and tails that are 0. */
static void reset(void)
{
    struct rng rng;

    rng_init(&rng, 2);
    for (size_t i = 0; i < VALUES; i++)
        ((float *)b.pinned)[i] = (float)rng_uniform(&rng) - 0.5f;
    b.ops->fill(b.stream, b.table, b.table_bytes, 0, 4);
    b.ops->copy(b.stream, b.sum, b.pinned, VALUES * sizeof(float),
                SPACE_FROM_HOST);
    b.ops->copy(b.stream, b.seen, b.pinned, VALUES * sizeof(float),
                SPACE_FROM_HOST);
    b.ops->stream_sync(b.stream, DEADLINE_DEVICE_MS, NULL);
}

static void measure_moves(const uint32_t *index)
{
    const char *order = index ? "random" : "in-a-row";
    double values = (double)b.n * b.width * sizeof(float);
    char params[64];

    snprintf(params, sizeof(params), "width=%u rows=%s", b.width, order);
    lay_out(b.width, index);
    measure("space_gather", params, gather, 2 * values);
    measure("space_scatter", params, scatter, 2 * values);
    measure("space_add", params, add, 3 * values);
}

static void measure_rules(const uint32_t *index)
{
    double values = (double)b.n * b.width * sizeof(float);
    char params[96];

    for (size_t i = 0; (b.rule = rule_at(i)); i++) {
        unsigned slots = b.rule->slots(0);

        snprintf(params, sizeof(params), "rule=%s width=%u rows=%s",
                 b.rule->name, b.width, index ? "random" : "in-a-row");
        lay_out(b.width * (1 + slots) + b.rule->tail, index);
        measure("space_update", params, update,
                values * (3 + 2 * slots) + 8.0 * b.rule->tail * (double)b.n);
    }
}

/* ---- a state of 1 GiB ---------------------------------------------------- */

static void copy_each_chunk(void)
{
    for (size_t c = 0; c < STATE_CHUNKS / 2; c++)
        b.ops->copy(b.stream, b.table + (c + STATE_CHUNKS / 2) * CHUNK,
                    b.table + c * CHUNK, CHUNK, SPACE_WITHIN);
}

static struct space_rows state;
static char *second;

static void copy_all_chunks(void)
{
    b.ops->gather(b.stream, &state, STATE_CHUNKS, CHUNK, second);
}

static void measure_fork(void)
{
    struct bench_series each = {.n = 0}, once = {.n = 0};

    bench_must(b.ops->alloc(b.space, (size_t)STATE_CHUNKS * CHUNK,
                            (void **)&second, NULL) == ERR_OK,
               "a second state");
    b.n = STATE_CHUNKS;
    lay_out(CHUNK / sizeof(float), NULL);
    state = b.rows;
    seconds(copy_all_chunks);
    for (size_t i = 0; i < bench_rounds(); i++) {
        bench_add(&once, 1e3 * seconds(copy_all_chunks));
        bench_add(&each, 2e3 * seconds(copy_each_chunk));
    }
    bench_print("space_fork", "state=1GiB chunks=16384 copies=1", &once, "ms");
    bench_print("space_fork", "state=1GiB chunks=16384 copies=16384", &each,
                "ms");
    b.ops->free(b.space, second, (size_t)STATE_CHUNKS * CHUNK);
}

/* ---- the whole ----------------------------------------------------------- */

static void take(size_t bytes, void *out)
{
    struct fault f = {0};

    if (b.ops->alloc(b.space, bytes, out, &f)) {
        fprintf(stderr, "%s\n", f.text);
        exit(1);
    }
}

static void set_up(void)
{
    size_t values = VALUES * sizeof(float);

    b.ops = b.space->ops;
    bench_must(b.ops->stream_open(b.space, &b.stream, NULL) == ERR_OK &&
                   b.ops->event_open(b.space, &b.from, NULL) == ERR_OK &&
                   b.ops->event_open(b.space, &b.to, NULL) == ERR_OK,
               "open a stream");
    b.table_bytes = (1 + SLOTS) * values + values / 8;
    take(b.table_bytes, &b.table);
    take(values, &b.sum);
    take(values, &b.seen);
    take(values, &b.addresses);
    take(values, &b.index);
    b.unpinned = malloc(values);
    bench_must(b.unpinned &&
                   b.ops->pinned_alloc(b.space, values, (void **)&b.pinned,
                                       NULL) == ERR_OK,
               "take host memory");
}

int main(void)
{
    static const uint32_t widths[] = {64, 500, 4096};
    const char *name = getenv("MLTUNE_SPACE");
    const struct space_options o = {.plugin = getenv("MLTUNE_CUDA_PLUGIN")};
    struct fault f = {0};

    if (space_open(name ? name : "cuda:0", &o, &b.space, &f)) {
        bench_skip("space", "", "%s", f.text);
        return 0;
    }
    set_up();
    reset();
    measure_copies();
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        b.width = widths[i];
        b.n = VALUES / b.width;
        reset();
        shuffle_index();
        measure_moves(NULL);
        measure_moves(b.index);
        reset();
        measure_rules(NULL);
        if (i == 0)
            measure_rules(b.index);
    }
    measure_fork();
    return 0;
}
