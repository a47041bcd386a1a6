#include "branches/store.h"

#include "base/mem.h"
#include "branches/slab.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/store_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MIB = 1024 * 1024 };

/* A store with one table and its root, branch 0, active. */
static struct store *store_of(uint64_t limit, uint64_t rows, uint32_t row_bytes)
{
    struct store_layout layout = {.rows = rows, .row_bytes = row_bytes};
    struct store *s;
    store_table t;

    assert_int_equal(store_new(limit, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(t, 0);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    return s;
}

static struct store_stats stats_of(const struct store *s)
{
    struct store_stats stats;

    store_stats(s, &stats);
    return stats;
}

/* Adds @value to the first byte of @row of the active branch. */
static void poke(struct store *s, uint64_t row, unsigned char value)
{
    *(unsigned char *)store_write(s, store_map(s, 0), 0, row) += value;
}

static unsigned char peek(struct store *s, uint64_t row)
{
    return *(const unsigned char *)store_map_read(store_map(s, 0), row);
}

/* Is everything that a request may change as it was? */
static bool unchanged(const struct store_stats *a, const struct store_stats *b)
{
    return a->reserved_bytes == b->reserved_bytes &&
           a->in_use_bytes == b->in_use_bytes &&
           a->pool_bytes == b->pool_bytes &&
           a->chunks_private == b->chunks_private &&
           a->chunks_shared == b->chunks_shared && a->forks == b->forks &&
           a->branches == b->branches;
}

/* Units that are reserved. */
static uint64_t units_of(const struct store *s)
{
    return stats_of(s).reserved_bytes / store_branch_bytes(s);
}

/* ---- copy on write ------------------------------------------------------- */

/* Writing a child leaves its parent as it was, and the reverse. */
static void fork_then_write_keeps_branches_apart(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);

    (void)state;
    poke(s, 7, 1);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    poke(s, 7, 10); /* the parent, still active */
    store_activate(s, 1);
    assert_int_equal(peek(s, 7), 1);
    poke(s, 7, 100);
    assert_int_equal(peek(s, 7), 101);
    store_activate(s, 0);
    assert_int_equal(peek(s, 7), 11);
    assert_int_equal(stats_of(s).chunks_copied, 2);
    store_check(s);
    store_free(s);
}

/* A second write to a chunk does not copy it again; a chunk that the others
 * have left is written in place. */
static void write_copies_a_chunk_once(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);
    struct store_stats stats;

    (void)state;
    poke(s, 0, 1);
    poke(s, 1, 1);
    assert_int_equal(stats_of(s).chunks_copied, 1);
    assert_int_equal(stats_of(s).bytes_copied, 65536);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(store_drop(s, 1), ERR_OK);
    poke(s, 0, 1); /* shared for a while, now alone again */
    stats = stats_of(s);
    assert_int_equal(stats.chunks_copied, 1);
    assert_int_equal(stats.chunks_private, 1);
    assert_int_equal(stats.chunks_shared, 1); /* the initial chunk */
    assert_int_equal(stats.forks, 1);
    assert_int_equal(stats.branches, 1);
    assert_int_equal(peek(s, 0), 2);
    store_free(s);
}

static void expect_held(const struct store *s, branch_id id, uint64_t shared,
                        uint64_t own)
{
    struct store_held h = store_held(s, id);

    assert_int_equal(h.shared_bytes, shared * 65536);
    assert_int_equal(h.private_bytes, own * 65536);
}

/* A branch holds what it wrote since all others left, and shares the rest; what
 * nobody wrote is held by none. */
static void held_bytes_are_shared_or_a_branch_s_own(void **state)
{
    struct store *s = store_of(64 * MIB, 8 * 128, 512); /* eight chunks */

    (void)state;
    expect_held(s, 0, 0, 0);
    for (uint64_t row = 0; row < 6 * 128; row += 128)
        poke(s, row, 1);
    expect_held(s, 0, 0, 6);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    expect_held(s, 0, 6, 0);
    expect_held(s, 1, 6, 0);
    assert_int_equal(stats_of(s).held_bytes, 6 * 65536);
    assert_int_equal(store_activate(s, 1), ERR_OK);
    poke(s, 0, 1);
    poke(s, 7 * 128, 1); /* was nobody's */
    expect_held(s, 1, 5, 2);
    expect_held(s, 0, 5, 1);
    assert_int_equal(stats_of(s).held_bytes, 8 * 65536);
    assert_int_equal(store_drop(s, 0), ERR_OK);
    expect_held(s, 1, 0, 7);
    expect_held(s, 0, 0, 0);
    store_free(s);
}

/* Chunks that many forks leave unwritten are there once: memory in use grows by
 * what is written, not by what is forked. */
static void unwritten_state_is_shared_by_all_forks(void **state)
{
    struct store *s = store_of(64 * MIB, 8 * 128, 512); /* eight chunks */
    uint64_t before;

    (void)state;
    for (uint64_t row = 0; row < 8 * 128; row += 128)
        poke(s, row, 1);
    before = stats_of(s).in_use_bytes;
    for (branch_id id = 1; id < 50; id++)
        assert_int_equal(store_fork(s, id, id - 1, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(stats_of(s).in_use_bytes, before);
    assert_int_equal(stats_of(s).chunks_shared, 9);
    store_activate(s, 20);
    poke(s, 0, 1);
    assert_in_range(stats_of(s).in_use_bytes, before + 65536, before + 70000);
    assert_int_equal(stats_of(s).chunks_private, 1);
    store_check(s);
    store_free(s);
}

/* A table of 1 GiB that nobody has written can be read, at the price of one
 * chunk in use, and written in one place, at the price of another. */
static void untouched_gigabyte_reads_as_initial_rows(void **state)
{
    static const float first[2] = {0.5f, -3};
    struct store_layout layout = {
        .rows = (uint64_t)1 << 27, .row_bytes = 8, .initial_row = first};
    const struct store_map *map;
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new((uint64_t)2 << 30, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 7), ERR_OK);
    assert_int_equal(store_activate(s, 7), ERR_OK);
    map = store_map(s, t);
    for (uint64_t row = 0; row < layout.rows; row += 8192 - 1)
        assert_memory_equal(store_map_read(map, row), first, 8);
    assert_int_equal(stats_of(s).chunks_in_use, 1);
    assert_true(stats_of(s).in_use_bytes < 66000);
    *(float *)store_write(s, map, t, layout.rows - 1) = 9;
    assert_int_equal(stats_of(s).chunks_in_use, 2);
    assert_memory_equal(store_map_read(map, layout.rows - 2), first, 8);
    assert_true(stats_of(s).in_use_bytes < 2 * 67000);
    store_free(s);
}

/* A kept branch may be activated and read; what its parent writes afterwards
 * does not show. */
static void kept_branch_reads_as_it_was_forked(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);

    (void)state;
    poke(s, 500, 3);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    poke(s, 500, 3);
    assert_int_equal(store_activate(s, 1), ERR_OK);
    assert_int_equal(store_model_active(s), 1);
    assert_int_equal(peek(s, 500), 3);
    assert_false(store_map_owns(store_map(s, 0), 500 / 128));
    assert_int_equal(*store_chunk(s, 0, 0, 500 / 128) + 0, 0);
    store_check(s);
    store_free(s);
}

/* A pointer that a map gave stays readable while the owner makes the chunk
 * private for somebody else: the old chunk belongs to the other branches. */
static void old_chunk_outlives_the_copy(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);
    const unsigned char *row;

    (void)state;
    poke(s, 5, 42);
    row = store_map_read(store_map(s, 0), 5);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    poke(s, 5, 1);
    assert_int_equal(*row, 42);
    assert_int_equal(peek(s, 5), 43);
    store_free(s);
}

/* Every row lies at a multiple of four bytes, rows do not overlap, and a chunk
 * holds the largest power of two of them that fits. */
static void layouts_fall_into_chunks_as_promised(void **state)
{
    static const struct {
        uint32_t row_bytes, max, stride, shift;
    } want[] = {
        {4, 0, 4, 14},        {128, 0, 128, 9},     {6336, 0, 6336, 3},
        {65536, 0, 65536, 0}, {65537, 0, 65540, 0}, {1, 0, 4, 14},
        {12, 100, 12, 3},     {7, 16, 8, 1},        {4, 1, 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct store_layout layout = {.rows = 100,
                                      .row_bytes = want[i].row_bytes,
                                      .chunk_bytes_max = want[i].max};
        struct store_shape shape;

        assert_true(store_layout_shape(&layout, &shape));
        assert_int_equal(shape.stride, want[i].stride);
        assert_int_equal(shape.row_shift, want[i].shift);
        assert_int_equal(shape.chunk_bytes,
                         (uint64_t)want[i].stride << want[i].shift);
        assert_int_equal(shape.chunks,
                         (100 + (1u << want[i].shift) - 1) >> want[i].shift);
    }
}

struct reader {
    const struct store_map *map;
    _Atomic bool stop;
    uint64_t wrong;
};

/* Reads the odd rows, which nobody writes, until it is stopped. */
static void *read_odd_rows(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->stop)) {
        for (uint64_t row = 1; row < r->map->rows; row += 2) {
            const uint32_t *bytes = store_map_read(r->map, row);

            r->wrong += bytes[0] != row;
        }
    }
    return NULL;
}

/* Another thread that reads rows of the active branch, as workers do under ssp,
 * finds them while the owner makes their chunks private. */
static void rows_stay_readable_while_chunks_are_copied(void **state)
{
    struct store_layout layout = {
        .rows = 2000, .row_bytes = 64, .chunk_bytes_max = 256};
    struct reader reader = {.wrong = 0};
    pthread_t thread;
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new(16 * MIB, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    reader.map = store_map(s, t);
    for (uint64_t row = 0; row < layout.rows; row++)
        *(uint32_t *)store_write(s, reader.map, t, row) = (uint32_t)row;
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, read_odd_rows, &reader), 0);
    for (uint64_t row = 0; row < layout.rows; row += 2)
        *(uint32_t *)store_write(s, reader.map, t, row) += 1;
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(reader.wrong, 0);
    assert_int_equal(stats_of(s).chunks_copied, 2 * 500);
    store_free(s);
}

/* ---- activation ---------------------------------------------------------- */

/* Switching to a branch of the same state touches nothing; switching back to a
 * branch that owns chunks knows them again without a copy. */
static void activation_knows_own_chunks_again(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);
    const struct store_map *map = store_map(s, 0);

    (void)state;
    poke(s, 0, 1);
    assert_true(store_map_owns(map, 0));
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_false(store_map_owns(map, 0));
    assert_int_equal(store_activate(s, 1), ERR_OK);
    poke(s, 200, 1); /* another chunk: now they differ */
    assert_int_equal(store_activate(s, 0), ERR_OK);
    assert_false(store_map_owns(map, 0)); /* still shared */
    assert_int_equal(peek(s, 200), 0);
    assert_int_equal(store_drop(s, 1), ERR_OK);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    poke(s, 0, 1);
    assert_int_equal(stats_of(s).chunks_copied, 2); /* 0 at first, 200 */
    store_check(s);
    store_free(s);
}

/* Dropping the active branch leaves none active; the next activation does not
 * believe the old maps. */
static void dropped_active_branch_leaves_no_trace(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);

    (void)state;
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(store_activate(s, 1), ERR_OK);
    poke(s, 3, 9);
    assert_int_equal(store_drop(s, 1), ERR_OK);
    assert_int_equal(store_model_active(s), BRANCH_NONE);
    assert_false(store_has(s, 1));
    assert_int_equal(store_activate(s, 1), ERR_NOENT);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    assert_int_equal(peek(s, 3), 0);
    assert_false(store_map_owns(store_map(s, 0), 0));
    store_check(s);
    store_free(s);
}

/* ---- reservation --------------------------------------------------------- */

/* A branch that may write costs a unit, so does a kept state; what is kept
 * again, or kept twice without a write between, costs nothing and is released
 * with the last that holds it. */
static void kept_states_are_paid_once(void **state)
{
    struct store *s = store_of(64 * MIB, 1000, 512);

    (void)state;
    poke(s, 0, 1);
    assert_int_equal(units_of(s), 1);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(units_of(s), 2);
    assert_int_equal(store_fork(s, 2, 1, BRANCH_KEPT), ERR_OK);
    assert_int_equal(store_fork(s, 3, 0, BRANCH_KEPT), ERR_OK); /* unwritten */
    assert_int_equal(units_of(s), 2);
    poke(s, 0, 1);
    assert_int_equal(store_fork(s, 4, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(units_of(s), 3);
    assert_int_equal(store_fork(s, 5, 2, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(units_of(s), 4);
    store_drop(s, 1);
    store_drop(s, 3);
    assert_int_equal(units_of(s), 4);
    store_drop(s, 2); /* the last of its state, but 5 pays for itself */
    assert_int_equal(units_of(s), 3);
    store_check(s);
    store_drop(s, 0); /* the writer goes, its kept state stays */
    assert_int_equal(units_of(s), 2);
    store_drop(s, 5);
    assert_int_equal(units_of(s), 1);
    store_check(s);
    store_free(s);
}

/* Sealing costs nothing, and saves a unit where the same state is kept. */
static void sealed_branch_joins_the_kept_ones(void **state)
{
    struct store *s = store_of(64 * MIB, 1000, 512);

    (void)state;
    poke(s, 0, 1);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(store_fork(s, 2, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(units_of(s), 3);
    store_seal(s, 1); /* the same state as 2 */
    assert_int_equal(store_type(s, 1), BRANCH_KEPT);
    assert_int_equal(units_of(s), 2);
    poke(s, 0, 1);
    store_seal(s, 0); /* another state: goes on paying */
    assert_int_equal(units_of(s), 2);
    assert_false(store_map_owns(store_map(s, 0), 0));
    store_seal(s, 0);
    assert_int_equal(units_of(s), 2);
    store_check(s);
    store_free(s);
}

/* At the limit a fork is refused and nothing changes; what was granted can be
 * written to the last chunk in every branch. */
static void granted_forks_never_fail_to_write(void **state)
{
    enum { ROWS = 40 * 128, BRANCHES = 6 };
    struct store *s = store_of(UINT64_MAX / 2, ROWS, 512);
    uint64_t unit = store_branch_bytes(s);
    uint64_t limit = stats_of(s).reserved_bytes + (BRANCHES - 1) * unit;
    struct store_stats before, after;

    (void)state;
    store_free(s);
    s = store_of(limit + unit - 1, ROWS, 512);
    for (branch_id id = 1; id < BRANCHES; id++)
        assert_int_equal(
            store_fork(s, id, id / 2, id % 2 ? BRANCH_TRAINING : BRANCH_PROBE),
            ERR_OK);
    before = stats_of(s);
    assert_int_equal(store_fork(s, 9, 0, BRANCH_TRAINING), ERR_LIMIT);
    assert_int_equal(store_fork(s, 9, 0, BRANCH_KEPT), ERR_LIMIT);
    assert_int_equal(store_create(s, 9, BRANCH_TRAINING), ERR_LIMIT);
    assert_int_equal(store_prepare(s, 1), ERR_LIMIT);
    after = stats_of(s);
    assert_true(unchanged(&before, &after));
    assert_false(store_has(s, 9));
    for (branch_id id = 0; id < BRANCHES; id++) {
        store_activate(s, id);
        for (uint64_t row = 0; row < ROWS; row += 128)
            poke(s, row, (unsigned char)(id + 1));
    }
    after = stats_of(s);
    assert_int_equal(after.in_use_bytes, after.reserved_bytes);
    assert_int_equal(after.in_use_bytes, after.pool_bytes);
    assert_int_equal(after.chunks_private, BRANCHES * 40);
    for (branch_id id = 0; id < BRANCHES; id++)
        assert_int_equal(*store_chunk(s, id, 0, 39), id + 1);
    store_check(s);
    store_free(s);
}

/* A root that does not fit is refused. */
static void state_beyond_the_limit_is_refused(void **state)
{
    struct store_layout layout = {.rows = 1000, .row_bytes = 512};
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new(500000, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 0), ERR_LIMIT);
    assert_int_equal(store_create_root(s, 0), ERR_LIMIT);
    assert_int_equal(stats_of(s).pool_bytes, 0);
    store_free(s);
}

/* Memory that prepare took is what the next forks use: they ask the system for
 * nothing. */
static void prepared_memory_serves_the_next_forks(void **state)
{
    struct store *s = store_of(64 * MIB, 1000, 512);
    uint64_t pool;

    (void)state;
    assert_int_equal(store_prepare(s, 3), ERR_OK);
    assert_int_equal(units_of(s), 1);
    pool = stats_of(s).pool_bytes;
    for (branch_id id = 1; id <= 3; id++)
        assert_int_equal(store_fork(s, id, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(stats_of(s).pool_bytes, pool);
    assert_int_equal(store_fork(s, 4, 0, BRANCH_TRAINING), ERR_OK);
    assert_true(stats_of(s).pool_bytes > pool);
    store_free(s);
}

/* ---- refusals ------------------------------------------------------------ */

/* Names that are taken or unknown are refused, each with its own error. */
static void unknown_and_taken_branches_are_refused(void **state)
{
    struct store *s = store_of(16 * MIB, 1000, 512);

    (void)state;
    assert_int_equal(store_fork(s, 1, 5, BRANCH_TRAINING), ERR_NOENT);
    assert_int_equal(store_fork(s, 0, 0, BRANCH_TRAINING), ERR_EXIST);
    assert_int_equal(store_create(s, 0, BRANCH_KEPT), ERR_EXIST);
    assert_int_equal(store_drop(s, 5), ERR_NOENT);
    assert_int_equal(store_activate(s, 5), ERR_NOENT);
    assert_int_equal(stats_of(s).branches, 1);
    store_free(s);
}

/* Layouts without bytes or with too many, and one table too many, are refused.
 */
static void impossible_tables_are_refused(void **state)
{
    static const struct store_layout bad[] = {
        {.rows = 1, .row_bytes = 0},
        {.rows = 1, .row_bytes = UINT32_MAX},
        {.rows = UINT64_MAX, .row_bytes = 4},
        {.rows = (uint64_t)1 << 50, .row_bytes = 1 << 20},
    };
    struct store_layout good = {
        .rows = 1, .row_bytes = 4, .chunk_bytes_max = 4};
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new(MIB, &s), ERR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(store_add_table(s, &bad[i], &t), ERR_INVAL);
    for (uint32_t i = 0; i < STORE_TABLES_MAX; i++)
        assert_int_equal(store_add_table(s, &good, &t), ERR_OK);
    assert_int_equal(t, STORE_TABLES_MAX - 1);
    assert_int_equal(store_add_table(s, &good, &t), ERR_LIMIT);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    store_check(s);
    store_free(s);
}

/* As many branches as promised, whatever their numbers, and not one more. */
static void branches_up_to_the_maximum(void **state)
{
    struct store_layout layout = {
        .rows = 1, .row_bytes = 4, .chunk_bytes_max = 4};
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new(256 * (uint64_t)MIB, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    for (branch_id i = 1; i < STORE_BRANCHES_MAX; i++) /* all share a home */
        assert_int_equal(store_fork(s, i * STORE_BRANCHES_MAX, 0, BRANCH_KEPT),
                         ERR_OK);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_LIMIT);
    assert_int_equal(stats_of(s).branches, STORE_BRANCHES_MAX);
    assert_int_equal(store_drop(s, 7 * STORE_BRANCHES_MAX), ERR_OK);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_true(store_has(s, 1));
    assert_true(store_has(s, (STORE_BRANCHES_MAX - 1) * STORE_BRANCHES_MAX));
    store_check(s);
    store_free(s);
}

/* ---- failing systems ----------------------------------------------------- */

static unsigned slabs_until_refusal;

static void *refusing_map(size_t bytes)
{
    if (slabs_until_refusal == 0)
        return NULL;
    slabs_until_refusal--;
    return slab_system()->map(bytes);
}

static enum err refusing_touch(void *at, size_t bytes)
{
    return slab_system()->touch(at, bytes);
}

static void refusing_unmap(void *slab, size_t bytes)
{
    slab_system()->unmap(slab, bytes);
}

/* A system without memory is ERR_NOMEM at the fork (never at a write), and
 * nothing changes. */
static void system_out_of_memory_refuses_the_fork(void **state)
{
    static const struct slab_ops ops = {refusing_map, refusing_touch,
                                        refusing_unmap};
    struct store_layout layout = {.rows = 1000, .row_bytes = 512};
    struct store_stats before, after;
    struct store *s;
    store_table t;

    (void)state;
    assert_int_equal(store_new_from(64 * MIB, &ops, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    slabs_until_refusal = 0;
    assert_int_equal(store_create_root(s, 0), ERR_NOMEM);
    slabs_until_refusal = 2;
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    assert_int_equal(store_fork(s, 1, 0, BRANCH_TRAINING), ERR_OK);
    before = stats_of(s);
    assert_int_equal(store_fork(s, 2, 0, BRANCH_TRAINING), ERR_NOMEM);
    assert_int_equal(store_prepare(s, 1), ERR_NOMEM);
    after = stats_of(s);
    assert_true(unchanged(&before, &after));
    assert_int_equal(store_drop(s, 1), ERR_OK);
    assert_int_equal(store_fork(s, 2, 0, BRANCH_TRAINING), ERR_OK);
    store_check(s);
    store_free(s);
}

/* All that a store does, once; the first error ends it. */
static enum err whole_life(void)
{
    static const char first[24] = "first row";
    struct store_layout layouts[] = {
        {.rows = 50,
         .row_bytes = 24,
         .chunk_bytes_max = 64,
         .initial_row = first},
        {.rows = 10, .row_bytes = 100, .chunk_bytes_max = 256},
    };
    struct store *s = NULL;
    store_table t;
    enum err err = store_new(MIB, &s);

    for (int i = 0; !err && i < 2; i++)
        err = store_add_table(s, &layouts[i], &t);
    if (!err)
        err = store_create_root(s, 0);
    if (!err)
        err = store_fork(s, 1, 0, BRANCH_TRAINING);
    if (!err && !store_activate(s, 1))
        poke(s, 30, 1);
    if (!err)
        err = store_create(s, 2, BRANCH_KEPT);
    if (s)
        store_check(s);
    store_free(s);
    return err;
}

/* Each allocation failing in turn: ERR_NOMEM, a sound store, nothing leaked. */
static void any_allocation_failing_is_clean(void **state)
{
    int64_t before = mem_outstanding();
    enum err err = ERR_NOMEM;
    int nth;

    (void)state;
    for (nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = whole_life();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && mem_failed()));
        assert_int_equal(mem_outstanding(), before);
    }
    mem_fail_at(0, 0);
    assert_true(nth > 10);
}

/* Freeing nothing is allowed. */
static void free_of_null_is_nothing(void **state)
{
    (void)state;
    store_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_then_write_keeps_branches_apart),
        cmocka_unit_test(write_copies_a_chunk_once),
        cmocka_unit_test(held_bytes_are_shared_or_a_branch_s_own),
        cmocka_unit_test(unwritten_state_is_shared_by_all_forks),
        cmocka_unit_test(untouched_gigabyte_reads_as_initial_rows),
        cmocka_unit_test(kept_branch_reads_as_it_was_forked),
        cmocka_unit_test(old_chunk_outlives_the_copy),
        cmocka_unit_test(rows_stay_readable_while_chunks_are_copied),
        cmocka_unit_test(layouts_fall_into_chunks_as_promised),
        cmocka_unit_test(activation_knows_own_chunks_again),
        cmocka_unit_test(dropped_active_branch_leaves_no_trace),
        cmocka_unit_test(kept_states_are_paid_once),
        cmocka_unit_test(sealed_branch_joins_the_kept_ones),
        cmocka_unit_test(granted_forks_never_fail_to_write),
        cmocka_unit_test(state_beyond_the_limit_is_refused),
        cmocka_unit_test(prepared_memory_serves_the_next_forks),
        cmocka_unit_test(unknown_and_taken_branches_are_refused),
        cmocka_unit_test(impossible_tables_are_refused),
        cmocka_unit_test(branches_up_to_the_maximum),
        cmocka_unit_test(system_out_of_memory_refuses_the_fork),
        cmocka_unit_test(any_allocation_failing_is_clean),
        cmocka_unit_test(free_of_null_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
