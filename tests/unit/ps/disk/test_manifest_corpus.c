/* The committed corpus of the manifests' fuzz target, replayed. */
#include "tests/fuzz/fuzz_manifest.c" /* the target itself */

#include "tests/unit/fixture/corpus.h"

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    LLVMFuzzerTestOneInput(bytes, n);
    if ((manifest_try((const char *)bytes, n) == ERR_OK) !=
        (strncmp(name, "good", 4) == 0))
        fail_msg("%s", name);
}

/* No committed input makes the reader crash, leak or misread; good ones are
 * taken, bad ones refused. */
static void manifest_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("manifest", 20, replay_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
