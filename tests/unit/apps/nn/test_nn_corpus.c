/* The committed corpus of the fuzz target of networks, replayed. */
#include "tests/fuzz/fuzz_nn.c"

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/nn";

static size_t read_input(const char *name, uint8_t *to, size_t size)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(to, 1, size, file);
    fclose(file);
    return n;
}

/* Whether it is a network in one of the two forms. */
static bool is_taken(const char *text, size_t size)
{
    struct problems problems = {0};
    struct nn_network n;
    struct nn_desc d;
    json_t *json;
    bool good;

    if (nn_network_parse(text, size, &n, NULL) == ERR_OK) {
        nn_network_deinit(&n);
        return true;
    }
    if (json_load(text, size, &json, NULL, NULL))
        return false;
    nn_desc_read(json, "", &d, &problems);
    good = problems.len == 0;
    problems_deinit(&problems);
    json_decref(json);
    return good;
}

/* No committed input crashes, leaks or loses something on a round trip; those
 * named bad are refused. */
static void nn_corpus_replays_clean(void **state)
{
    static uint8_t bytes[65536];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_input(entry->d_name, bytes, sizeof(bytes));
        LLVMFuzzerTestOneInput(bytes, n);
        files++;
        if (is_taken((const char *)bytes, n) ==
            (strncmp(entry->d_name, "bad", 3) == 0))
            fail_msg("%s", entry->d_name);
    }
    closedir(dir);
    assert_true(files >= 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
