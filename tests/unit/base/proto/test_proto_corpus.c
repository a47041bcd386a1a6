/* The committed corpus of the protocol's fuzz target, replayed. */
#include "tests/fuzz/fuzz_proto.c" /* the target itself */

#include "tests/unit/fixture/corpus.h"

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    struct msg m;

    LLVMFuzzerTestOneInput(bytes, n);
    if (msg_decode((const char *)bytes, n, &m, NULL) == ERR_OK) {
        assert_true(strncmp(name, "bad", 3) != 0);
        msg_deinit(&m);
    } else if (strncmp(name, "bad", 3) != 0) {
        fail_msg("%s is refused", name);
    }
}

/* No committed input makes the codec crash, leak, or lose something on a round
 * trip; messages named for a kind are let in, those named bad are not. */
static void proto_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("proto", MSG_KIND_COUNT, replay_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proto_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
