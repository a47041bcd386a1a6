/* Numberings of a checkpoint's rows: written, read, refused; and the
 * committed corpus of the fuzz target, replayed. */
#include "tests/fuzz/fuzz_numbering.c" /* the target itself */

#include "base/mem.h"
#include "ps/disk/numbering_io.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { ROWS = 1000, WORKERS = 4, FILE_MAX = 4 * ROWS };

/* Four workers of two nodes, one table, its rows the other way round. */
static void make(struct manifest *m, struct table *t, uint32_t *row_at)
{
    const struct mlt_table_options opt = {.size = sizeof(opt),
                                          .name = "rows",
                                          .rows = ROWS,
                                          .width = 5,
                                          .chunk_bytes = 512};

    assert_int_equal(manifest_init(m, 1, 2, WORKERS), ERR_OK);
    assert_int_equal(table_init(t, &opt, rule_find("sgd"), NULL), ERR_OK);
    table_partition(t, WORKERS);
    for (uint32_t i = 0; i < ROWS; i++)
        row_at[i] = ROWS - 1 - i;
    t->row_at = row_at;
    t->placed = 1;
    manifest_describe(t, &m->table[0]);
}

static enum err take(struct numbering *n, struct manifest *m,
                     const struct table *t, uint32_t worker, struct fault *f)
{
    unsigned char bytes[FILE_MAX];
    size_t len = numbering_bytes(m, worker);

    numbering_put(m, t, worker, bytes);
    m->part[worker].rows_seal = crc32c(0, bytes, len);
    return numbering_take(n, m, worker, bytes, len, "d/rows-1", f);
}

/* All workers' parts, in any order, are the permutation that was written. */
static void numbering_round_trip(void **state)
{
    static uint32_t row_at[ROWS];
    struct manifest m;
    struct table t;
    struct numbering n;
    uint64_t bytes = 0;

    (void)state;
    make(&m, &t, row_at);
    assert_true(manifest_placed(&m));
    assert_int_equal(numbering_init(&n, &m), ERR_OK);
    assert_false(numbering_same(&n, 0, &t));
    for (uint32_t i = WORKERS; i-- > 0;) {
        assert_int_equal(take(&n, &m, &t, i, NULL), ERR_OK);
        bytes += numbering_bytes(&m, i);
    }
    assert_int_equal(bytes, 4 * ROWS);
    assert_true(numbering_same(&n, 0, &t));
    assert_int_equal(numbering_row(&n, 0, 3), ROWS - 4);
    t.row_at = NULL; /* a server that does not place */
    assert_false(numbering_same(&n, 0, &t));
    numbering_deinit(&n);
    manifest_deinit(&m);
}

/* A row that two workers' parts have, and one that there is not. */
static void numbering_of_no_permutation_is_refused(void **state)
{
    static uint32_t row_at[ROWS];
    struct manifest m;
    struct table t;
    struct numbering n;
    struct fault f;
    int64_t before;

    (void)state;
    make(&m, &t, row_at);
    before = mem_outstanding();
    row_at[ROWS - 1] = row_at[0];
    assert_int_equal(numbering_init(&n, &m), ERR_OK);
    assert_int_equal(take(&n, &m, &t, 0, &f), ERR_OK);
    assert_int_equal(take(&n, &m, &t, WORKERS - 1, &f), ERR_FORMAT);
    assert_string_equal(f.text, "d/rows-1: table rows: number 999: row 999 has "
                                "another number already");
    numbering_deinit(&n);
    row_at[0] = ROWS;
    assert_int_equal(numbering_init(&n, &m), ERR_OK);
    assert_int_equal(take(&n, &m, &t, 0, &f), ERR_FORMAT);
    assert_string_equal(f.text, "d/rows-1: table rows: number 0: row 1000 is "
                                "none of its rows");
    numbering_deinit(&n);
    assert_int_equal(mem_outstanding(), before);
    manifest_deinit(&m);
}

static void numbering_any_failing_allocation_is_clean(void **state)
{
    static uint32_t row_at[ROWS];
    struct manifest m;
    struct table t;
    bool failed;
    int at = 0;

    (void)state;
    make(&m, &t, row_at);
    do {
        int64_t before = mem_outstanding();
        struct numbering n;
        enum err err;

        mem_fail_at(++at, 0);
        err = numbering_init(&n, &m);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            numbering_deinit(&n);
        assert_int_equal(mem_outstanding(), before);
    } while (failed);
    assert_int_equal(at, 4);
    manifest_deinit(&m);
}

static enum err store_all(struct manifest *m, const struct table *t,
                          const char *dir)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < WORKERS && !err; i++) {
        char file[MANIFEST_FILE_MAX], path[256];

        manifest_rows_file(m, i, file);
        snprintf(path, sizeof(path), "%s/%s", dir, file);
        err = numbering_store(m, t, i, path, NULL);
    }
    return err;
}

/* The files, written and read; without memory, neither leaks; with no folder to
 * write to or none to read, the fault says so. */
static void numbering_files(void **state)
{
    static uint32_t row_at[ROWS];
    char dir[128], node[2][160];
    struct manifest m;
    struct table t;
    bool failed;
    int at = 0;

    (void)state;
    make(&m, &t, row_at);
    snprintf(dir, sizeof(dir), "%s", scratch_path("c"));
    assert_int_equal(store_all(&m, &t, dir), ERR_IO);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(node[i], sizeof(node[i]), "%s/node-%d", dir, i);
        assert_int_equal(mkdir(node[i], 0700), 0);
    }
    do {
        int64_t before = mem_outstanding();
        struct numbering n = {0};
        struct fault f = {0};
        enum err err;

        mem_fail_at(++at, 0);
        err = store_all(&m, &t, dir);
        if (!err)
            err = numbering_load(&n, &m, dir, &f);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_true(err || numbering_same(&n, 0, &t));
        numbering_deinit(&n);
        assert_int_equal(mem_outstanding(), before);
    } while (failed);
    manifest_deinit(&m);
}

/* No committed input makes the reader crash, leak or misread; good ones are
 * taken, bad ones refused. */
static void numbering_corpus_replays_clean(void **state)
{
    static const char folder[] = "tests/fuzz/corpus/numbering";
    unsigned char bytes[256];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        char path[512];
        FILE *file;
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = fopen(path, "rb");
        assert_non_null(file);
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, n);
        if ((numbering_try(bytes, n, crc32c(0, bytes, n)) == ERR_OK) !=
            (strncmp(entry->d_name, "good", 4) == 0))
            fail_msg("%s", entry->d_name);
        files++;
    }
    closedir(dir);
    assert_true(files >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbering_round_trip),
        cmocka_unit_test(numbering_of_no_permutation_is_refused),
        cmocka_unit_test(numbering_any_failing_allocation_is_clean),
        cmocka_unit_test_setup_teardown(numbering_files, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(numbering_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
