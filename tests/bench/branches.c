/* Benchmarks of the branch store: fork, first fork, copy on first write, row
 * updates. */
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "branches/slab.h"
#include "branches/store.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MIB = 1024 * 1024,
    ROW_BYTES = 512,
    ROW_FLOATS = ROW_BYTES / 4,
    PAIRS = 1000,         /* forks a round */
    UPDATES = 512 * 1024, /* row updates a round */
    AHEAD = 12,           /* rows between a prefetch and its use */
};

/* ---- set-up -------------------------------------------------------------- */

/* False, with a word about it, when @bytes are not to be had. */
static int enough_memory(const char *name, const char *params, uint64_t bytes)
{
    uint64_t available = bench_available_bytes();

    if (available > bytes + 512u * MIB)
        return 1;
    bench_skip(name, params,
               "needs %" PRIu64 " MiB, %" PRIu64 " MiB are available",
               bytes / MIB + 512, available / MIB);
    return 0;
}

/* Branch 0, active, every chunk written; memory for @more branches taken. */
static struct store *written_store_for(uint64_t mib, uint32_t more)
{
    struct store_layout layout = {.rows = mib * MIB / ROW_BYTES,
                                  .row_bytes = ROW_BYTES};
    struct store *s;
    store_table table;

    bench_must(store_new(UINT64_MAX / 2, &s) == ERR_OK &&
                   store_add_table(s, &layout, &table) == ERR_OK &&
                   store_create_root(s, 0) == ERR_OK &&
                   (more == 0 || store_prepare(s, more) == ERR_OK) &&
                   store_activate(s, 0) == ERR_OK,
               "make a store");
    for (uint64_t c = 0; c < store_map(s, 0)->chunks; c++)
        *(float *)store_privatize(s, 0, c) = (float)c;
    return s;
}

static struct store *written_store(uint64_t mib)
{
    return written_store_for(mib, 1);
}

static void fork_and_activate(struct store *s)
{
    bench_must(store_fork(s, 1, 0, BRANCH_TRAINING) == ERR_OK &&
                   store_activate(s, 1) == ERR_OK,
               "fork");
}

/* One write to each chunk of the active branch. */
static void write_all_chunks(struct store *s)
{
    const struct store_map *map = store_map(s, 0);

    for (uint64_t c = 0; c < map->chunks; c++)
        *(float *)store_write(s, map, 0, c << map->row_shift) += 1;
}

/* ---- fork ---------------------------------------------------------------- */

/* Nanoseconds of a fork and a drop, on average over PAIRS of them. */
static double time_pairs(struct store *s)
{
    time_ns start = clock_monotonic();

    for (branch_id id = 1; id <= PAIRS; id++) {
        bench_must(store_fork(s, id, 0, BRANCH_TRAINING) == ERR_OK, "fork");
        bench_must(store_drop(s, id) == ERR_OK, "drop");
    }
    return (double)(clock_monotonic() - start) / PAIRS;
}

/* Nanoseconds of one fork of the active branch when all its chunks have just
 * been written, with the clock's own cost in them. */
static double time_fork_after_writes(struct store *s)
{
    time_ns start, end;
    enum err err;

    write_all_chunks(s);
    start = clock_monotonic();
    err = store_fork(s, 1, 0, BRANCH_TRAINING);
    end = clock_monotonic();
    bench_must(err == ERR_OK && store_drop(s, 1) == ERR_OK, "fork");
    return (double)(end - start);
}

static void bench_fork(uint64_t mib)
{
    struct bench_series pairs = {.n = 0}, written = {.n = 0};
    struct store *s;
    char params[64];

    snprintf(params, sizeof(params), "size_mib=%" PRIu64, mib);
    if (!enough_memory("branch_fork", params, 2 * mib * MIB))
        return;
    s = written_store(mib);
    for (size_t i = bench_rounds(); i > 0; i--) {
        bench_add(&pairs, time_pairs(s));
        bench_add(&written, time_fork_after_writes(s));
    }
    snprintf(params, sizeof(params), "size_mib=%" PRIu64 " what=fork_and_drop",
             mib);
    bench_print("branch_fork", params, &pairs, "ns");
    snprintf(params, sizeof(params),
             "size_mib=%" PRIu64 " what=fork_all_just_written", mib);
    bench_print("branch_fork", params, &written, "ns");
    store_free(s);
}

/* ---- copy on first write ------------------------------------------------- */

/* The chunks of @s's active branch. */
static unsigned char **chunk_list(const struct store *s)
{
    const struct store_map *map = store_map(s, 0);
    unsigned char **list = mem_calloc(map->chunks, sizeof(*list));

    bench_must(list != NULL, "allocate");
    for (uint64_t c = 0; c < map->chunks; c++)
        list[c] = atomic_load(&map->chunk[c]);
    return list;
}

static double gb_per_s(uint64_t bytes, time_ns ns)
{
    return (double)bytes / (double)ns;
}

/* The store's own copying: a fork's first write to each chunk. Then the switch
 * back to the parent, which shares no chunk any more; the branch is dropped,
 * its chunks free for the next round. */
static double time_copy(struct store *s, double *activate_us)
{
    uint64_t bytes = store_map(s, 0)->chunks * store_chunk_bytes(s, 0);
    time_ns start, end;
    enum err err;

    fork_and_activate(s);
    start = clock_monotonic();
    write_all_chunks(s);
    end = clock_monotonic();
    err = store_activate(s, 0);
    *activate_us = (double)(clock_monotonic() - end) / 1e3;
    bench_must(err == ERR_OK && store_drop(s, 1) == ERR_OK, "drop");
    return gb_per_s(bytes, end - start);
}

/* memcpy over the same chunks in the same order. */
static double time_memcpy(const struct store *s, unsigned char **to,
                          unsigned char **from)
{
    uint64_t chunks = store_map(s, 0)->chunks, each = store_chunk_bytes(s, 0);
    time_ns start = clock_monotonic();

    for (uint64_t c = 0; c < chunks; c++) {
        memcpy(to[c], from[c], each);
        *(float *)to[c] += 1;
        bench_keep(to[c]);
    }
    return gb_per_s(chunks * each, clock_monotonic() - start);
}

static void copy_rounds(struct store *s, const char *params)
{
    struct bench_series copy = {.n = 0}, plain = {.n = 0}, activate = {.n = 0};
    unsigned char **from = chunk_list(s), **to;
    double us;

    fork_and_activate(s);
    write_all_chunks(s);
    to = chunk_list(s);
    bench_must(store_activate(s, 0) == ERR_OK && store_drop(s, 1) == ERR_OK,
               "drop");
    for (size_t i = bench_rounds(); i > 0; i--) {
        if (i % 2)
            bench_add(&plain, time_memcpy(s, to, from));
        bench_add(&copy, time_copy(s, &us));
        bench_add(&activate, us);
        if (i % 2 == 0)
            bench_add(&plain, time_memcpy(s, to, from));
    }
    bench_print("branch_copy", params, &copy, "GB/s");
    bench_print_ratio("branch_copy", params, "memcpy", &copy, &plain, 0);
    bench_print("branch_activate", params, &activate, "us");
    mem_free(from);
    mem_free(to);
}

static void bench_copy(uint64_t mib)
{
    struct store *s;
    char params[64];

    snprintf(params, sizeof(params), "size_mib=%" PRIu64 " chunk_kib=64", mib);
    if (!enough_memory("branch_copy", params, 2 * mib * MIB))
        return;
    s = written_store(mib);
    copy_rounds(s, params);
    store_free(s);
}

/* ---- first fork ---------------------------------------------------------- */

/* Resident bytes of this process, by the kernel. */
static double resident_mib(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    bench_must(f && fscanf(f, "%lu %lu", &size, &resident) == 2, "read statm");
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / MIB;
}

/* A fork for which no memory lies ready, its first write to each chunk, and
 * what @more forks add that nobody writes. */
static void first_fork_round(uint64_t mib, branch_id more, double out[3])
{
    struct store *s = written_store_for(mib, 0);
    uint64_t bytes = store_map(s, 0)->chunks * store_chunk_bytes(s, 0);
    time_ns start, end;
    double before;
    enum err err;

    start = clock_monotonic();
    err = store_fork(s, 1, 0, BRANCH_TRAINING);
    end = clock_monotonic();
    bench_must(err == ERR_OK && store_activate(s, 1) == ERR_OK, "fork");
    out[0] = (double)(end - start) / 1e3;
    start = clock_monotonic();
    write_all_chunks(s);
    out[1] = gb_per_s(bytes, clock_monotonic() - start);
    before = resident_mib();
    for (branch_id id = 2; id < 2 + more; id++)
        bench_must(store_fork(s, id, 0, BRANCH_TRAINING) == ERR_OK, "fork");
    out[2] = resident_mib() - before;
    store_free(s);
}

static void bench_first_fork(uint64_t mib)
{
    enum { MORE = 100 };
    struct bench_series us = {.n = 0}, copy = {.n = 0}, added = {.n = 0};
    char params[64];
    double out[3];

    snprintf(params, sizeof(params), "size_mib=%" PRIu64, mib);
    if (!enough_memory("branch_first_fork", params, 2 * mib * MIB))
        return;
    for (size_t i = bench_rounds(); i > 0; i--) {
        first_fork_round(mib, MORE, out);
        bench_add(&us, out[0]);
        bench_add(&copy, out[1]);
        bench_add(&added, out[2]);
    }
    bench_print("branch_first_fork", params, &us, "us");
    snprintf(params, sizeof(params), "size_mib=%" PRIu64 " what=first_writes",
             mib);
    bench_print("branch_first_fork", params, &copy, "GB/s");
    snprintf(params, sizeof(params),
             "size_mib=%" PRIu64 " what=unwritten_forks forks=%d", mib, MORE);
    bench_print("branch_first_fork", params, &added, "MiB_resident");
}

/* ---- row updates --------------------------------------------------------- */

static void prefetch_row(const void *row)
{
    for (int i = 0; i < ROW_BYTES; i += 64)
        __builtin_prefetch((const char *)row + i, 1);
}

static void add_row(float *restrict row, const float *restrict delta)
{
    for (int i = 0; i < ROW_FLOATS; i++)
        row[i] += delta[i];
}

/* Million rows a second through the active branch's map. The map's entry, which
 * the flat array does not have, is asked for twice as early as the row. */
static double time_map(struct store *s, const uint32_t order[],
                       const float delta[])
{
    const struct store_map *map = store_map(s, 0);
    time_ns start = clock_monotonic();

    for (size_t i = 0; i < UPDATES; i++) {
        store_map_prefetch(map, order[i + 2 * AHEAD]);
        prefetch_row(store_map_read(map, order[i + AHEAD]));
        add_row(store_write(s, map, 0, order[i]), delta);
    }
    return UPDATES * 1e3 / (double)(clock_monotonic() - start);
}

/* Writes to a flat array, to compare with. */
static double time_flat(float *flat, const uint32_t order[],
                        const float delta[])
{
    time_ns start = clock_monotonic();

    for (size_t i = 0; i < UPDATES; i++) {
        prefetch_row(flat + (size_t)order[i + AHEAD] * ROW_FLOATS);
        add_row(flat + (size_t)order[i] * ROW_FLOATS, delta);
        bench_keep(flat);
    }
    return UPDATES * 1e3 / (double)(clock_monotonic() - start);
}

static uint32_t *random_order(uint64_t rows)
{
    uint32_t *order = mem_alloc((UPDATES + 2 * AHEAD) * sizeof(*order));
    struct rng rng;

    bench_must(order != NULL, "allocate");
    rng_init(&rng, 1);
    for (size_t i = 0; i < UPDATES + 2 * AHEAD; i++)
        order[i] = (uint32_t)rng_below(&rng, rows);
    return order;
}

static void bench_update(uint64_t mib)
{
    struct bench_series map = {.n = 0}, plain = {.n = 0};
    float delta[ROW_FLOATS];
    struct store *s;
    uint32_t *order;
    char params[64];
    float *flat;

    snprintf(params, sizeof(params), "size_mib=%" PRIu64 " row_bytes=%d", mib,
             ROW_BYTES);
    if (!enough_memory("branch_update", params, 3 * mib * MIB))
        return;
    for (int i = 0; i < ROW_FLOATS; i++)
        delta[i] = 1e-3f * (float)i;
    s = written_store(mib);
    order = random_order(store_map(s, 0)->rows);
    flat = slab_system()->map(mib * MIB);
    bench_must(flat != NULL && slab_system()->touch(flat, mib * MIB) == ERR_OK,
               "allocate");
    for (size_t i = 0; i < bench_rounds(); i++) {
        if (i % 2)
            bench_add(&plain, time_flat(flat, order, delta));
        bench_add(&map, time_map(s, order, delta));
        if (i % 2 == 0)
            bench_add(&plain, time_flat(flat, order, delta));
    }
    bench_print("branch_update", params, &map, "million_rows/s");
    bench_print_ratio("branch_update", params, "flat_array", &map, &plain, 0);
    slab_system()->unmap(flat, mib * MIB);
    mem_free(order);
    store_free(s);
}

/* Without arguments all; else those named: fork, first_fork, copy, update. */
static int wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc == 1;
}

int main(int argc, char **argv)
{
    static const uint64_t fork_mib[] = {16, 256, 1024, 4096};
    size_t sizes = sizeof(fork_mib) / sizeof(*fork_mib);

    for (size_t i = 0; i < sizes && wanted(argc, argv, "fork"); i++)
        bench_fork(fork_mib[i]);
    for (size_t i = 0; i < sizes && wanted(argc, argv, "first_fork"); i++)
        bench_first_fork(fork_mib[i]);
    if (wanted(argc, argv, "copy")) {
        bench_copy(256);
        bench_copy(1024);
    }
    if (wanted(argc, argv, "update")) {
        bench_update(256);
        bench_update(1024);
    }
    return 0;
}
