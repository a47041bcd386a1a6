/* The committed corpora of the loaders' fuzz targets, replayed. */
#define LLVMFuzzerTestOneInput fuzz_ratings
#define FUZZ_LIMIT RATINGS_LIMIT
#define read_all ratings_read_all
#define round_trip ratings_round_trip
#include "tests/fuzz/fuzz_ratings.c"
#undef LLVMFuzzerTestOneInput
#undef FUZZ_LIMIT
#undef read_all
#undef round_trip
#define LLVMFuzzerTestOneInput fuzz_idx
#define FUZZ_LIMIT IDX_LIMIT
#define read_all idx_read_all
#define round_trip idx_round_trip
#include "tests/fuzz/fuzz_idx.c"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/unit/check.h"

enum { INPUT_MAX = 1 << 16 };

static uint8_t input[INPUT_MAX];

static size_t read_input(const char *folder, const char *name)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(input, 1, sizeof(input), file);
    assert_true(feof(file));
    fclose(file);
    return n;
}

static bool ratings_accept(size_t n)
{
    struct ratings r = {0};
    bool ok = ratings_read_all(input, n, &r, NULL) == ERR_OK;

    ratings_deinit(&r);
    return ok;
}

static bool idx_accept(size_t n)
{
    struct idx_array a = {0};
    bool ok = idx_read_all(input, n, &a, NULL) == ERR_OK;

    idx_array_deinit(&a);
    return ok;
}

static void replay(const char *folder, int (*target)(const uint8_t *, size_t),
                   bool (*accept)(size_t), int files_min)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_input(folder, entry->d_name);
        target(input, n);
        files++;
        if (strncmp(entry->d_name, "good", 4) == 0 && !accept(n))
            fail_msg("%s is refused", entry->d_name);
        if (strncmp(entry->d_name, "bad", 3) == 0 && accept(n))
            fail_msg("%s is taken", entry->d_name);
    }
    closedir(dir);
    assert_true(files >= files_min);
}

/* No committed input makes the ratings loader crash, leak or misread; good ones
 * are taken and bad ones refused. */
static void ratings_corpus_replays_clean(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/ratings", fuzz_ratings, ratings_accept, 20);
}

/* The same for the IDX loader. */
static void idx_corpus_replays_clean(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/idx", fuzz_idx, idx_accept, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratings_corpus_replays_clean),
        cmocka_unit_test(idx_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
