/* The committed corpus of the configuration's fuzz target, replayed. */
#define FUZZ_REPLAY
#include "tests/fuzz/fuzz_config.c" /* the target itself */

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/config";

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

static bool is_accepted(const char *text, size_t len)
{
    struct problems ps = {0};
    struct run_config *c = NULL;
    enum err err = run_config_parse(&env, text, len, "/", NULL, &c, &ps);

    run_config_free(c);
    problems_deinit(&ps);
    return err == ERR_OK;
}

/* No committed input makes the parser crash, leak or contradict itself; those
 * named good are accepted, those named bad are not (those named set carry a
 * --set, which decides). */
static void config_corpus_replays_clean(void **state)
{
    static uint8_t bytes[65536];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        const char *name = entry->d_name;
        size_t n;

        if (name[0] == '.')
            continue;
        n = read_file(name, bytes, sizeof(bytes));
        LLVMFuzzerTestOneInput(bytes, n);
        files++;
        if (strncmp(name, "set", 3) == 0)
            continue;
        if (is_accepted((char *)bytes, n) != (strncmp(name, "good", 4) == 0))
            fail_msg("%s", name);
    }
    closedir(dir);
    assert_true(files >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
