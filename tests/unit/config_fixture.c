#include "tests/unit/config_fixture.h"

#include "searchers/searcher.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const toy_tunables[] = {
    "learning_rate", "momentum", "batch_size", "staleness", "width", NULL};
static const char *const parts_tunables[] = {"learning_rate", "batch_size",
                                             NULL};
static const char *const rate[] = {"learning_rate", NULL};
static const char *const rate_momentum[] = {"learning_rate", "momentum", NULL};
static const char *const staleness[] = {"staleness", NULL};

/* What no schema says: a quarter is barred. */
static void toy_check(const json_t *settings, const char *pointer,
                      struct problems *out)
{
    const json_t *lambda = json_object_get(settings, "lambda");
    char at[64];

    snprintf(at, sizeof(at), "%s/lambda", pointer);
    if (json_is_number(lambda) && json_number_value(lambda) == 0.25)
        problems_add(out, at, lambda, "no quarter");
}

static const struct registry_entry entries[] = {
    {REGISTRY_APP, "toy", "for tests",
     "{\"type\": \"object\", \"required\": [\"data\"], \"properties\": {"
     "\"data\": {\"type\": \"string\"},"
     "\"lambda\": {\"type\": \"number\", \"minimum\": 0, \"default\": 0.05,"
     " \"description\": \"penalty\"},"
     "\"clock\": {\"default\": \"batch\", \"anyOf\": [{\"type\": \"string\","
     " \"enum\": [\"batch\", \"pass\"]}, {\"type\": \"integer\","
     " \"minimum\": 1}]}}}",
     toy_tunables, NULL, false, toy_check},
    {REGISTRY_APP, "parts", "clocks are parts",
     "{\"properties\": {\"clock\": {\"type\": \"integer\", \"default\": 10}}}",
     parts_tunables, NULL, false, NULL},
    {REGISTRY_RULE, "sgd", "descent", NULL, rate_momentum, NULL, false, NULL},
    {REGISTRY_RULE, "adagrad", "adaptive", NULL, rate, NULL, false, NULL},
    {REGISTRY_CONSISTENCY, "bsp", "barriers", NULL, NULL, NULL, false, NULL},
    {REGISTRY_CONSISTENCY, "ssp", "slack", NULL, staleness, NULL, false, NULL},
    {REGISTRY_SEARCHER, "random", "anywhere", "{\"properties\": {}}", NULL,
     NULL, false, NULL},
    {REGISTRY_SEARCHER, "grid", "points",
     "{\"properties\": {\"points\": {\"type\": \"integer\", \"minimum\": 2,"
     " \"default\": 11}}}",
     NULL, &searcher_grid, false, NULL},
    {REGISTRY_STRATEGY, "fixed", "one setting", "{\"properties\": {}}", NULL,
     NULL, false, NULL},
    {REGISTRY_STRATEGY, "mltuner", "branches",
     "{\"properties\": {\"windows\": {\"type\": \"integer\", \"default\": "
     "10}}}",
     NULL, NULL, false, NULL},
};

void config_fixture_fill(struct registry *r)
{
    registry_init(r);
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        if (registry_add(r, &entries[i], NULL) != ERR_OK)
            abort();
}
