/* The committed corpus of the HTTP side's fuzz target, replayed. */
#define FUZZ_REPLAY
#include "tests/fuzz/fuzz_http.c" /* the target itself */

#include <dirent.h>
#include <stdio.h>

#include "base/json/json.h"
#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/http";

static size_t read_file(const char *name, uint8_t *out, size_t size)
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

/* No committed input makes the service crash, leak, or let through what is not
 * what it looks like (the target aborts then). */
static void http_corpus_replays_clean(void **state)
{
    static uint8_t bytes[65536];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        LLVMFuzzerTestOneInput(bytes,
                               read_file(entry->d_name, bytes, sizeof(bytes)));
        files++;
    }
    closedir(dir);
    assert_true(files >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_corpus_replays_clean),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
