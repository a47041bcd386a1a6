/* The committed corpus of the fuzz target of networks, replayed. */
#include "tests/fuzz/fuzz_nn.c"

#include "tests/unit/fixture/corpus.h"

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

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    LLVMFuzzerTestOneInput(bytes, n);
    if (is_taken((const char *)bytes, n) == (strncmp(name, "bad", 3) == 0))
        fail_msg("%s", name);
}

/* No committed input crashes, leaks or loses something on a round trip; those
 * named bad are refused. */
static void nn_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("nn", 14, replay_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
