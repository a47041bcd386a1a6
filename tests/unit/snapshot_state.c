#include "tests/unit/snapshot_state.h"

#include "base/rng.h"
#include "tests/unit/check.h"

static const int first_row[3] = {1, -2, 3};

static const struct store_layout layouts[] = {
    {.rows = 100, .row_bytes = 4, .chunk_bytes_max = 64},
    {.rows = 20, .row_bytes = 128, .chunk_bytes_max = 300},
    {.rows = 3, .row_bytes = 1000, .chunk_bytes_max = 512},
    {.rows = 0, .row_bytes = 8, .chunk_bytes_max = 64},
    {.rows = 9,
     .row_bytes = sizeof(first_row),
     .chunk_bytes_max = 32,
     .initial_row = first_row},
};
enum { TABLES = sizeof(layouts) / sizeof(layouts[0]) };

struct store *state_new_other(unsigned other)
{
    struct store *s;

    assert_int_equal(store_new(1 << 20, &s), ERR_OK);
    for (unsigned t = 0; t < TABLES; t++) {
        struct store_layout layout = layouts[t];
        store_table table;

        if (t == other && layout.initial_row)
            layout.initial_row = NULL;
        else if (t == other)
            layout.rows++;
        assert_int_equal(store_add_table(s, &layout, &table), ERR_OK);
    }
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    return s;
}

struct store *state_new(void)
{
    return state_new_other(TABLES);
}

void state_write(struct store *s, branch_id kept, unsigned rows, uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, seed);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    while (rows > 0) {
        store_table t = (store_table)rng_below(&rng, TABLES);
        const struct store_map *map = store_map(s, t);
        unsigned char *row;

        if (map->rows == 0)
            continue;
        row = store_write(s, map, t, rng_below(&rng, map->rows));
        for (uint32_t i = 0; i < map->stride; i++)
            row[i] = (unsigned char)rng_next(&rng);
        rows--;
    }
    assert_int_equal(store_fork(s, kept, 0, BRANCH_KEPT), ERR_OK);
}

bool state_equal(const struct store *a, branch_id of_a, const struct store *b,
                 branch_id of_b)
{
    for (store_table t = 0; t < TABLES; t++)
        for (uint64_t c = 0; c < store_map(a, t)->chunks; c++)
            if (memcmp(store_chunk(a, of_a, t, c), store_chunk(b, of_b, t, c),
                       store_chunk_bytes(a, t)) != 0)
                return false;
    return true;
}

enum err state_save(const struct store *s, branch_id branch, const char *path,
                    const struct disk_ops *ops, struct fault *f)
{
    struct snapshot_labels labels = {"run 7", 5, "meta", 4};
    struct snapshot_job *job;
    uint64_t bytes;
    enum err err = snapshot_job_new(s, branch, &labels, &job);

    if (err)
        return err;
    err = snapshot_job_write(job, path, ops, &bytes, f);
    snapshot_job_free(job);
    return err;
}

enum err state_load(struct store *s, branch_id id, const char *path,
                    const struct disk_ops *ops, struct fault *f)
{
    struct snapshot_file *file;
    enum err err = snapshot_open(path, ops, &file, f);

    if (err)
        return err;
    err = snapshot_restore(file, s, id, f);
    if (!err)
        store_seal(s, id);
    snapshot_close(file);
    return err;
}
