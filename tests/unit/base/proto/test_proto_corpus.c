/* The committed corpus of the protocol's fuzz target, replayed. */
#include "tests/fuzz/fuzz_proto.c" /* the target itself */

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/proto";

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

/* No committed input makes the codec crash, leak, or lose something on a round
 * trip; messages named for a kind are let in, those named bad are not. */
static void proto_corpus_replays_clean(void **state)
{
    static uint8_t bytes[65536];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        struct msg m;
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        n = read_file(entry->d_name, bytes, sizeof(bytes));
        LLVMFuzzerTestOneInput(bytes, n);
        files++;
        if (msg_decode((char *)bytes, n, &m, NULL) == ERR_OK) {
            assert_true(strncmp(entry->d_name, "bad", 3) != 0);
            msg_deinit(&m);
        } else if (strncmp(entry->d_name, "bad", 3) != 0) {
            fail_msg("%s is refused", entry->d_name);
        }
    }
    closedir(dir);
    assert_true(files >= MSG_KIND_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proto_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
