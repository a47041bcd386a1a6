/* The committed corpus of the snapshot fuzz target, replayed. */
#include "tests/fuzz/fuzz_snapshot.c"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { INPUT_MAX = 1 << 16 };

static size_t read_input(const char *name, uint8_t *to)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "tests/fuzz/corpus/snapshot/%s", name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(to, 1, INPUT_MAX, file);
    assert_true(feof(file));
    fclose(file);
    return n;
}

static bool accepted(const uint8_t *data, size_t size)
{
    snapshot_disk.in = data;
    snapshot_disk.in_bytes = size;
    return verify_bytes() == ERR_OK;
}

/* No committed input makes the reader crash, leak or misread; good ones are
 * taken, bad ones refused. */
static void snapshot_corpus_replays_clean(void **state)
{
    DIR *dir = opendir("tests/fuzz/corpus/snapshot");
    uint8_t *input = malloc(INPUT_MAX);
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    assert_non_null(input);
    while ((entry = readdir(dir))) {
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_input(entry->d_name, input);
        LLVMFuzzerTestOneInput(input, n);
        files++;
        if (strncmp(entry->d_name, "good", 4) == 0 && !accepted(input, n))
            fail_msg("%s is refused", entry->d_name);
        if (strncmp(entry->d_name, "bad", 3) == 0 && accepted(input, n))
            fail_msg("%s is taken", entry->d_name);
    }
    closedir(dir);
    free(input);
    assert_true(files >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshot_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
