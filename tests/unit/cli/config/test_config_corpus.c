/* The committed corpus of the configuration's fuzz target, replayed. */
#define FUZZ_REPLAY
#include "tests/fuzz/fuzz_config.c" /* the target itself */

#include "tests/unit/fixture/corpus.h"

static bool is_accepted(const char *text, size_t len)
{
    struct problems ps = {0};
    struct run_config *c = NULL;
    enum err err = run_config_parse(&env, text, len, "/", NULL, &c, &ps);

    run_config_free(c);
    problems_deinit(&ps);
    return err == ERR_OK;
}

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    LLVMFuzzerTestOneInput(bytes, n);
    if (strncmp(name, "set", 3) == 0)
        return;
    if (is_accepted((const char *)bytes, n) != (strncmp(name, "good", 4) == 0))
        fail_msg("%s", name);
}

/* No committed input makes the parser crash, leak or contradict itself; those
 * named good are accepted, those named bad are not (those named set carry a
 * --set, which decides). */
static void config_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("config", 12, replay_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
