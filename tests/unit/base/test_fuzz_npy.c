/* The committed corpus of the .npy fuzz target, replayed. */
#include "tests/fuzz/fuzz_npy.c"

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static size_t read_input(const char *name, uint8_t *to, size_t size)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "tests/fuzz/corpus/npy/%s", name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(to, 1, size, file);
    fclose(file);
    return n;
}

static int refused(const uint8_t *data, size_t size)
{
    struct npy_info info;
    size_t offset;

    return npy_parse_header(data, size, &info, &offset, NULL) != ERR_OK;
}

/* Good files of NumPy's and other writers' are taken, bad ones refused, and
 * what is taken says the same again. */
static void npy_corpus_replays_clean(void **state)
{
    DIR *dir = opendir("tests/fuzz/corpus/npy");
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        uint8_t input[NPY_HEADER_MAX];
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_input(entry->d_name, input, sizeof(input));
        LLVMFuzzerTestOneInput(input, n);
        files++;
        if (refused(input, n) != (strncmp(entry->d_name, "bad", 3) == 0))
            fail_msg("%s", entry->d_name);
    }
    closedir(dir);
    assert_true(files >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
