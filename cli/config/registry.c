#include "cli/config/registry.h"

#include "apps/glm/glm.h"
#include "apps/lda/lda.h"
#include "apps/mf/mf.h"
#include "apps/mlr/mlr.h"
#include "apps/nn/nn.h"
#include "apps/pagerank/pagerank.h"
#include "apps/word2vec/word2vec.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/config/app_plugin.h"
#include "cli/config/program.h"
#include "ps/rows/consistency.h"
#include "ps/rows/rule.h"
#include "searchers/built_in.h"
#include "searchers/process/process_io.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

static enum err add_apps(struct registry *r, struct fault *f)
{
    static const struct {
        const struct mlt_app_ops *ops;
        registry_check *check;
        registry_idle *idle;
    } apps[] = {{&app_glm, NULL, NULL},
                {&app_lda, NULL, NULL},
                {&app_mf, NULL, NULL},
                {&app_mlr, NULL, NULL},
                {&app_nn, nn_check_settings, nn_idle_tunable},
                {&app_pagerank, NULL, NULL},
                {&app_word2vec, NULL, NULL}};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < sizeof(apps) / sizeof(*apps); i++) {
        const struct registry_entry e = {.kind = REGISTRY_APP,
                                         .name = apps[i].ops->name,
                                         .summary = apps[i].ops->summary,
                                         .settings = apps[i].ops->schema,
                                         .tunables = apps[i].ops->tunables,
                                         .ops = apps[i].ops,
                                         .check = apps[i].check,
                                         .idle = apps[i].idle};

        err = registry_add(r, &e, f);
    }
    if (!err)
        err = registry_add(r, &program_entry, f);
    if (!err)
        err = registry_add(r, &app_plugin_entry, f);
    return err;
}

static enum err add_rules(struct registry *r, struct fault *f)
{
    static const char *const none[] = {NULL};
    static const char *const rate[] = {"learning_rate", "weight_decay",
                                       "update_rule", NULL};
    static const char *const revising[] = {"learning_rate", "weight_decay",
                                           NULL};
    static const char *const both[] = {"learning_rate", "momentum",
                                       "weight_decay", "update_rule", NULL};
    const struct rule_ops *ops;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && (ops = rule_at(i)); i++) {
        const struct registry_entry e = {.kind = REGISTRY_RULE,
                                         .name = ops->name,
                                         .summary = ops->summary,
                                         .tunables = ops->uses_momentum ? both
                                                     : ops->revises ? revising
                                                     : ops->uses_learning_rate
                                                         ? rate
                                                         : none,
                                         .ops = ops};

        err = registry_add(r, &e, f);
    }
    return err;
}

static enum err add_consistency(struct registry *r, struct fault *f)
{
    static const char *const none[] = {NULL};
    static const char *const staleness[] = {"staleness", NULL};
    static const char *const both[] = {"staleness", "k", NULL};
    const struct consistency_ops *ops;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && (ops = consistency_at(i)); i++) {
        const struct registry_entry e = {.kind = REGISTRY_CONSISTENCY,
                                         .name = ops->name,
                                         .summary = ops->summary,
                                         .tunables = ops->uses_barrier_k ? both
                                                     : ops->uses_staleness
                                                         ? staleness
                                                         : none,
                                         .ops = ops};

        err = registry_add(r, &e, f);
    }
    return err;
}

static enum err add_searcher(struct registry *r, const struct searcher_ops *ops,
                             bool hidden, struct fault *f)
{
    const struct registry_entry e = {.kind = REGISTRY_SEARCHER,
                                     .name = ops->name,
                                     .summary = ops->summary,
                                     .settings = ops->settings,
                                     .ops = ops,
                                     .hidden = hidden};

    return registry_add(r, &e, f);
}

/* Searchers from outside are not named but described, {"command": ...}. */
static enum err add_searchers(struct registry *r, struct fault *f)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && searchers_built_in[i]; i++)
        err = add_searcher(r, searchers_built_in[i], false, f);
    if (!err)
        err = add_searcher(r, &searcher_rest, false, f);
    if (!err)
        err = add_searcher(r, &searcher_plugin, true, f);
    if (!err)
        err = add_searcher(r, &searcher_process, true, f);
    return err;
}

static enum err add_strategies(struct registry *r, struct fault *f)
{
    const struct strategy_ops *ops;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && (ops = strategies_built_in[i]); i++) {
        const struct registry_entry e = {.kind = REGISTRY_STRATEGY,
                                         .name = ops->name,
                                         .summary = ops->summary,
                                         .settings = ops->settings,
                                         .ops = ops};

        err = registry_add(r, &e, f);
    }
    return err;
}

enum err cli_registry_fill(struct registry *r, struct fault *f)
{
    enum err err;

    assert(r);
    registry_init(r);
    err = add_apps(r, f);
    if (!err)
        err = add_rules(r, f);
    if (!err)
        err = add_consistency(r, f);
    if (!err)
        err = add_searchers(r, f);
    if (!err)
        err = add_strategies(r, f);
    return err;
}

const struct registry *cli_registry(void)
{
    static struct registry registry;
    static bool filled;
    struct fault f = {0};

    if (!filled && cli_registry_fill(&registry, &f)) {
        console_error("registry: %s", f.text);
        exit(EXIT_RUN_FAILED);
    }
    filled = true;
    return &registry;
}
