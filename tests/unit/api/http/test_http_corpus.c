/* The committed corpus of the HTTP side's fuzz target, replayed. */
#define FUZZ_REPLAY
#include "tests/fuzz/fuzz_http.c" /* the target itself */

#include "base/json/json.h"
#include "tests/unit/fixture/corpus.h"

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    (void)name;
    LLVMFuzzerTestOneInput(bytes, n);
}

/* No committed input makes the service crash, leak, or let through what is not
 * what it looks like (the target aborts then). */
static void http_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("http", 30, replay_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_corpus_replays_clean),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
