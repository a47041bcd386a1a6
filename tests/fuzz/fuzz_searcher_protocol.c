/* Any bytes as an answer of a searcher, and as a request to one: refused with a
 * reason, or a setting of the space, or a request that reads back the same. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/process/searcher_protocol.h"
#include "tests/unit/fixture/space_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char space_text[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, \"scale\": "
    "\"log\"}, \"rule\": {\"type\": \"categorical\", \"values\": [\"sgd\", "
    "\"adam\"]}, \"beta\": {\"type\": \"float\", \"min\": 0.5, \"max\": 0.9, "
    "\"when\": {\"rule\": \"adam\"}}, \"batch\": {\"type\": \"int\", "
    "\"values\": [16, 64]}}";

static const struct space *fuzz_space(void)
{
    static struct space space;

    if (space.len == 0 && space_from_text(space_text, &space, NULL))
        abort();
    return &space;
}

static void must(int ok)
{
    if (!ok)
        abort();
}

/* An answer to ask becomes a canonical setting. */
static void read_as_answer(const char *text, size_t size)
{
    const struct space *space = fuzz_space();
    struct searcher_protocol_hello hello;
    struct setting x, canonical;
    struct fault f = {0};
    enum err err = searcher_protocol_read_ask(text, size, 1, space, &x, &f);

    if (err) {
        must(f.text[0]);
    } else {
        must(space_check(space, &x, NULL) == ERR_OK);
        canonical = x;
        space_canonical(space, &canonical);
        must(space_equal(space, &x, &canonical));
    }
    f.text[0] = '\0';
    if (searcher_protocol_read_hello(text, size, 1, &hello, &f) == ERR_OK)
        searcher_protocol_hello_deinit(&hello);
    else
        must(f.text[0]);
    f.text[0] = '\0';
    must(searcher_protocol_read_open(text, size, 1, &f) == ERR_OK || f.text[0]);
}

/* A message told is told again in the same words, and read again as the same.
 */
static void tell_again(const struct observation *o)
{
    const struct space *space = fuzz_space();
    struct searcher_protocol_request again;
    char *line = searcher_protocol_tell(space, o), *second;

    must(line != NULL);
    must(searcher_protocol_read_request(line, strlen(line), space, &again,
                                        NULL) == ERR_OK);
    must(again.kind == SEARCHER_PROTOCOL_TELL &&
         again.told.outcome == o->outcome);
    must(again.told.trial == o->trial && again.told.speed == o->speed);
    must(space_equal(space, &again.told.setting, &o->setting));
    second = searcher_protocol_tell(space, &again.told);
    must(second && strcmp(line, second) == 0);
    searcher_protocol_request_deinit(&again);
    mem_free(line);
    mem_free(second);
}

static void read_as_request(const char *text, size_t size)
{
    struct searcher_protocol_request r;
    struct fault f = {0};

    if (searcher_protocol_read_request(text, size, NULL, &r, &f) == ERR_OK)
        searcher_protocol_request_deinit(&r);
    else
        must(f.text[0]);
    if (searcher_protocol_read_request(text, size, fuzz_space(), &r, NULL))
        return;
    if (r.kind == SEARCHER_PROTOCOL_TELL)
        tell_again(&r.told);
    searcher_protocol_request_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before;

    fuzz_space();
    before = mem_outstanding();
    read_as_answer((const char *)data, size);
    read_as_request((const char *)data, size);
    must(mem_outstanding() == before);
    return 0;
}
