/* Random sequences against the plain model. */
#include "base/mem.h"
#include "base/rng.h"
#include "branches/store.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/store_model.h"

#include <stdio.h>

static const float first_row[5] = {1.5f, -2, 3, 0.25f, 7};

/* One run: a store, its model, and where the numbers come from. */
struct run {
    struct rng rng;
    struct store *store;
    struct model model;
    uint64_t fixed_bytes; /* reserved beside the branches */
    branch_id next;
    uint64_t refused;
    uint64_t granted;
};

static void run_start(struct run *run, const struct store_layout layout[],
                      uint32_t tables, uint64_t units_max, uint64_t seed)
{
    struct store_stats stats;
    uint64_t limit = UINT64_MAX / 2;

    memset(run, 0, sizeof(*run));
    rng_init(&run->rng, seed);
    store_model_init(&run->model, layout, tables);
    for (int pass = 0; pass < 2; pass++) { /* the first tells the sizes */
        assert_int_equal(store_new(limit, &run->store), ERR_OK);
        for (uint32_t t = 0; t < tables; t++) {
            store_table table;

            assert_int_equal(store_add_table(run->store, &layout[t], &table),
                             ERR_OK);
        }
        assert_int_equal(store_create_root(run->store, 0), ERR_OK);
        store_stats(run->store, &stats);
        run->fixed_bytes =
            stats.reserved_bytes - store_branch_bytes(run->store);
        limit = run->fixed_bytes + units_max * store_branch_bytes(run->store) +
                rng_below(&run->rng, store_branch_bytes(run->store));
        if (pass == 0)
            store_free(run->store);
    }
    store_model_create(&run->model, 0, BRANCH_INIT);
    run->next = 1;
}

static void run_end(struct run *run)
{
    store_model_deinit(&run->model);
    store_free(run->store);
}

static struct model_branch *pick(struct run *run)
{
    return &run->model.branch[rng_below(&run->rng, run->model.branches)];
}

static bool fits(const struct run *run, uint64_t units, uint64_t unit_bytes)
{
    struct store_stats stats;

    store_stats(run->store, &stats);
    return run->fixed_bytes + units * unit_bytes <= stats.limit_bytes;
}

/* Notes the outcome of a request for memory that should have been @want; true
 * when it was granted. */
static bool outcome(struct run *run, enum err err, enum err want)
{
    assert_int_equal(err, want);
    run->refused += err != ERR_OK;
    run->granted += err == ERR_OK;
    return err == ERR_OK;
}

static void step_fork(struct run *run)
{
    static const enum branch_type types[] = {
        BRANCH_TRAINING, BRANCH_KEPT, BRANCH_KEPT, BRANCH_PROBE, BRANCH_TESTING,
    };
    branch_id parent = pick(run)->id, child = run->next;
    enum branch_type type = types[rng_below(&run->rng, 5)];
    uint64_t units = store_model_units_after_fork(&run->model, parent, type);
    enum err want =
        fits(run, units, store_branch_bytes(run->store)) ? ERR_OK : ERR_LIMIT;

    if (run->model.branches == MODEL_BRANCHES_MAX)
        return;
    if (!outcome(run, store_fork(run->store, child, parent, type), want))
        return;
    store_model_fork(&run->model, child, parent, type);
    run->next++;
}

/* Writes a few rows of the active branch. */
static void step_write(struct run *run)
{
    branch_id id = store_model_active(run->store);
    struct model_branch *b;
    uint32_t t;

    if (id == BRANCH_NONE)
        return;
    b = store_model_find(&run->model, id);
    t = (uint32_t)rng_below(&run->rng, run->model.tables);
    if (b->type == BRANCH_KEPT || run->model.layout[t].rows == 0)
        return;
    for (uint64_t n = 1 + rng_below(&run->rng, 8); n > 0; n--) {
        const struct store_map *map = store_map(run->store, t);
        uint64_t row = rng_below(&run->rng, map->rows);
        unsigned char *bytes = store_write(run->store, map, t, row);

        for (uint32_t i = 0; i < run->model.layout[t].row_bytes; i += 61)
            bytes[i] = (unsigned char)rng_next(&run->rng);
        store_model_write(&run->model, id, t, row, bytes);
    }
}

/* Writes a chunk of a branch that is not active. */
static void step_write_elsewhere(struct run *run)
{
    struct model_branch *b = pick(run);
    uint32_t t = (uint32_t)rng_below(&run->rng, run->model.tables);
    const struct store_map *map = store_map(run->store, t);
    unsigned char *chunk;
    uint64_t row;

    if (b->type == BRANCH_KEPT || map->rows == 0)
        return;
    row = rng_below(&run->rng, map->rows);
    chunk = store_chunk_write(run->store, b->id, t, row >> map->row_shift);
    chunk += (row & (((uint64_t)1 << map->row_shift) - 1)) * map->stride;
    chunk[0]++;
    store_model_write(&run->model, b->id, t, row, chunk);
}

static void step_drop(struct run *run)
{
    branch_id id = pick(run)->id;

    if (run->model.branches == 1)
        return;
    assert_int_equal(store_drop(run->store, id), ERR_OK);
    store_model_drop(&run->model, id);
}

static void step_activate(struct run *run)
{
    assert_int_equal(store_activate(run->store, pick(run)->id), ERR_OK);
}

static void step_seal(struct run *run)
{
    struct model_branch *b = pick(run);

    store_seal(run->store, b->id);
    store_model_seal(&run->model, b->id);
}

static void step_create(struct run *run)
{
    uint64_t units = store_model_units(&run->model) + 1;
    enum err want =
        fits(run, units, store_branch_bytes(run->store)) ? ERR_OK : ERR_LIMIT;

    if (run->model.branches == MODEL_BRANCHES_MAX)
        return;
    if (!outcome(run, store_create(run->store, run->next, BRANCH_TRAINING),
                 want))
        return;
    store_model_create(&run->model, run->next++, BRANCH_TRAINING);
}

static void check_reserved(struct run *run)
{
    struct store_stats stats;

    store_stats(run->store, &stats);
    assert_int_equal(stats.reserved_bytes,
                     run->fixed_bytes + store_model_units(&run->model) *
                                            store_branch_bytes(run->store));
    assert_true(stats.in_use_bytes <= stats.reserved_bytes);
    assert_true(stats.reserved_bytes <= stats.pool_bytes);
    assert_true(stats.pool_bytes <= stats.limit_bytes);
    assert_int_equal(stats.branches, run->model.branches);
    assert_int_equal(stats.chunks_in_use,
                     stats.chunks_private + stats.chunks_shared);
}

/* No branch holds more than one may; all that is some branch's own is in use,
 * and there is none where the store counts no private chunk. */
static void check_held(const struct run *run)
{
    uint64_t private = 0, shared = 0;
    struct store_stats stats;

    store_stats(run->store, &stats);
    for (uint32_t i = 0; i < run->model.branches; i++) {
        struct store_held h = store_held(run->store, run->model.branch[i].id);

        private += h.private_bytes;
        shared += h.shared_bytes;
        assert_true(h.private_bytes + h.shared_bytes <= stats.held_bytes);
        assert_true(h.private_bytes + h.shared_bytes <=
                    store_branch_bytes(run->store));
    }
    /* What is private is there once; what is shared, twice at the least. */
    assert_true(stats.held_bytes <= stats.in_use_bytes);
    assert_true(private <= stats.held_bytes);
    assert_true(2 * (stats.held_bytes - private) <= shared);
    assert_int_equal(private == 0, stats.chunks_private == 0);
}

static void step(struct run *run)
{
    uint64_t what = rng_below(&run->rng, 100);

    if (what < 18)
        step_fork(run);
    else if (what < 60)
        step_write(run);
    else if (what < 66)
        step_write_elsewhere(run);
    else if (what < 80)
        step_drop(run);
    else if (what < 94)
        step_activate(run);
    else if (what < 96)
        step_seal(run);
    else
        step_create(run);
    check_reserved(run);
    check_held(run);
    store_check(run->store);
}

/* Drops all but the first branch and expects its reservation alone. */
static void drop_all_but_one(struct run *run)
{
    while (run->model.branches > 1) {
        branch_id id = run->model.branch[1].id;

        assert_int_equal(store_drop(run->store, id), ERR_OK);
        store_model_drop(&run->model, id);
    }
    check_reserved(run);
    assert_int_equal(store_model_units(&run->model), 1);
    store_check(run->store);
    store_model_compare_all(&run->model, run->store);
}

static void random_run(const struct store_layout layout[], uint32_t tables,
                       int steps, uint64_t seed)
{
    struct run run;

    printf("seed %llu\n", (unsigned long long)seed);
    run_start(&run, layout, tables, 2 + seed % 7, seed);
    for (int i = 0; i < steps; i++) {
        step(&run);
        if (i % 16 == 0)
            store_model_compare_all(&run.model, run.store);
        else if (store_model_active(run.store) != BRANCH_NONE)
            store_model_compare(&run.model, run.store,
                                store_model_active(run.store));
    }
    assert_true(run.refused > 0 && run.granted > 0);
    drop_all_but_one(&run);
    run_end(&run);
}

/* Rows of 4 bytes, of 128, of 6336, of more than a chunk, and of odd sizes, and
 * page tables of one level, of two and of three: one table each. */
static void store_any_single_layout_equals_the_model(void **state)
{
    static const struct store_layout layouts[] = {
        {.rows = 3000, .row_bytes = 4, .chunk_bytes_max = 64},
        {.rows = 700, .row_bytes = 128, .chunk_bytes_max = 1024},
        {.rows = 40, .row_bytes = 6336},
        {.rows = 5, .row_bytes = 70000},
        {.rows = 300, .row_bytes = 1, .chunk_bytes_max = 16},
        {.rows = 0, .row_bytes = 12, .chunk_bytes_max = 100},
        {.rows = 17000, .row_bytes = 4, .chunk_bytes_max = 4},
        {.rows = 257,
         .row_bytes = sizeof(first_row),
         .chunk_bytes_max = 20,
         .initial_row = first_row},
    };

    (void)state;
    for (uint64_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        random_run(&layouts[i], 1, 1500, 100 + i);
}

static const struct store_layout mixed[] = {
    {.rows = 900, .row_bytes = 4, .chunk_bytes_max = 32},
    {.rows = 33, .row_bytes = 128, .chunk_bytes_max = 256},
    {.rows = 3, .row_bytes = 6336, .chunk_bytes_max = 4096},
    {.rows = 17,
     .row_bytes = sizeof(first_row),
     .chunk_bytes_max = 64,
     .initial_row = first_row},
    {.rows = 0, .row_bytes = 8, .chunk_bytes_max = 8},
};

/* Several tables at once. */
static void store_several_tables_equal_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 16; seed++)
        random_run(mixed, 5, 2000, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_any_single_layout_equals_the_model),
        cmocka_unit_test(store_several_tables_equal_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
