/* The committed inputs of every fuzz target, replayed: those of
 * tests/fuzz/corpus, which people write, and of tests/fuzz/grown, which
 * `make fuzz-grow` keeps. A target aborts where an input shows a fault. */
#include "base/json/json.h"
#include "tests/unit/fixture/corpus.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int fuzz_target(const uint8_t *bytes, size_t n);

static fuzz_target *target;

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    (void)name;
    target(bytes, n);
}

static fuzz_target *find_target(const char *file)
{
    char symbol[128];
    union {
        void *object;
        fuzz_target *function;
    } found;

    snprintf(symbol, sizeof(symbol), "replay_%.*s", (int)strlen(file) - 2,
             file);
    found.object = dlsym(RTLD_DEFAULT, symbol);
    assert_non_null(found.object);
    return found.function;
}

/* All inputs of tests/fuzz/FILE. */
static void replay_target(const char *file)
{
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strlen(file) - 7, file + 5);
    target = find_target(file);
    target((const uint8_t *)"", 0);
    corpus_replay(name, 1, replay_one);
    corpus_replay_grown(name, replay_one);
}

static void every_committed_input_replays_clean(void **state)
{
    DIR *dir = opendir("tests/fuzz");
    struct dirent *entry;
    int targets = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t n = strlen(entry->d_name);

        if (strncmp(entry->d_name, "fuzz_", 5) != 0 ||
            strcmp(entry->d_name + n - 2, ".c") != 0)
            continue;
        replay_target(entry->d_name);
        targets++;
    }
    closedir(dir);
    assert_true(targets >= 52);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_committed_input_replays_clean),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
