/* Searcher `rest`: settings come from outside, over HTTP. (Ask and tell is
 * Optuna's and Vizier's word for this way round.)
 *
 * Suggestions are the tuner's to keep (tuner/core/suggest.h): they are taken
 * with any searcher and must outlive this one. So nothing is held here but how
 * long a search waits for one. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"

#include <assert.h>

struct rest {
    double wait_s;
};

static enum err rest_open(const struct space *space, const json_t *settings,
                          uint64_t seed, void **state, struct fault *f)
{
    struct rest *r = mem_calloc(1, sizeof(*r));

    (void)space;
    (void)seed;
    if (!r)
        return fault_set(f, ERR_NOMEM, "no memory for a searcher");
    if (!json_to_seconds(json_object_get(settings, "wait"), &r->wait_s)) {
        mem_free(r);
        return fault_set(f, ERR_INVAL,
                         "searcher_settings: /wait: expected a time such as "
                         "\"10m\", or a number of seconds");
    }
    *state = r;
    return ERR_OK;
}

static void rest_close(void *state)
{
    mem_free(state);
}

static enum err rest_ask(void *state, const struct searcher_query *q,
                         struct setting *out, struct fault *f)
{
    assert(q);
    (void)state;
    (void)q;
    (void)out;
    return fault_set(f, ERR_AGAIN, "nobody has suggested a setting");
}

static double rest_patience_s(const void *state)
{
    const struct rest *r = state;

    assert(r->wait_s >= 0);
    return r->wait_s;
}

const struct searcher_ops searcher_rest = {
    .name = "rest",
    .summary = "tries what is suggested over HTTP, and nothing else "
               "(docs/write-a-searcher.md)",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"wait\": {\"type\": [\"string\", \"number\"], "
        "\"format\": \"seconds\", \"minimum\": 0, \"maximum\": 31536000, "
        "\"default\": \"10m\", \"description\": \"how long a search waits for "
        "a suggestion while nothing runs; then it ends with what was tried, "
        "and later searches wait for nobody until there is one again\"}}}",
    .open = rest_open,
    .close = rest_close,
    .ask = rest_ask,
    .patience_s = rest_patience_s,
};
