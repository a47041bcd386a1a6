/* The committed corpus of the manifests' fuzz target, replayed. */
#include "tests/fuzz/fuzz_manifest.c" /* the target itself */

#include <dirent.h>

#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/manifest";

static size_t read_file(const char *name, char *out, size_t size)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(out, 1, size, file);
    assert_true(feof(file));
    fclose(file);
    return n;
}

/* No committed input makes the reader crash, leak or misread; good ones are
 * taken, bad ones refused. */
static void manifest_corpus_replays_clean(void **state)
{
    static char bytes[65536];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_file(entry->d_name, bytes, sizeof(bytes));
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, n);
        files++;
        if ((manifest_try(bytes, n) == ERR_OK) !=
            (strncmp(entry->d_name, "good", 4) == 0))
            fail_msg("%s", entry->d_name);
    }
    closedir(dir);
    assert_true(files >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
