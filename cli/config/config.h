/* The run configuration: one JSON file, parsed once, checked whole.
 *
 * What a field is, what it may be and its default stand in one table
 * (cli/config/config_table.h), which also makes the JSON schema and the help.
 * All errors are told at once, each with JSON pointer, line and column. The
 * result is immutable.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "base/json/problems.h"
#include "base/json/registry.h"
#include "cli/basics/options.h"
#include "cli/config/config_schemas.h"
#include "searchers/space/space.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct earlier;

/* Surroundings that a configuration is checked against. */
struct config_env {
    const struct registry *registry; /* borrowed for the configuration's life */
    unsigned cores;                  /* default of cluster.workers */
    /* Borrowed; NULL, where few are parsed: made for each. */
    const struct config_schemas *schemas;
};

/* A valid configuration. All pointers are owned by it, except those into the
 * registry; JSON members are parts of `effective`. */
struct run_config {
    const char *name;
    const struct registry_entry *app;
    const json_t *app_settings; /* the whole "app" object, defaults filled in */
    const char *app_name;       /* of the app, or what a program is called */
    /* An app that is a program (cli/config/program.h): its file and where it
     * works, absolute, owned; NULL: it is none. */
    char *program_path, *program_folder;
    struct app_plugin *plugin; /* owned: that is the app; or NULL */
    const char *metric;        /* that is tuned by; NULL: the app's own */
    unsigned nodes, workers;   /* workers of each node */
    const struct registry_entry *update_rule, *consistency;
    struct app_plugin *model; /* owned: that is the consistency; or NULL */
    struct app_plugin *rule;  /* owned: that is the update rule; or NULL */
    bool float16;
    const char *priority; /* random, round_robin, absolute, relative */
    const struct registry_entry *strategy, *searcher;
    const json_t *strategy_settings, *searcher_settings; /* complete objects */
    /* A searcher that is a plug-in or a program was tried and did not answer
     * sensibly: the run will say so and go on with its fallback. In its own
     * words; NULL: nothing is wrong. */
    const char *searcher_broken;
    json_t *searcher_own; /* what searcher_settings is then */
    bool retune;
    uint32_t max_trials;   /* 0: 12 + 6 d */
    uint64_t trial_clocks; /* 0: found by the tuner */
    bool starts_given;     /* from `initial`; else a search */
    struct setting initial;
    bool warm_auto; /* earlier runs are to be looked for (cli/run/warm.h) */
    struct earlier *earlier; /* owned: what they found; NULL: nothing */
    double target_loss, target_metric; /* NAN: none */
    uint32_t plateau_epochs, max_epochs;
    uint64_t plateau_samples; /* 0: plateau_epochs alone */
    bool plateau_hits;        /* that holds for shares of hits, too */
    double max_time_s;        /* INFINITY: none */
    double snapshot_every_s;
    uint32_t snapshot_keep;
    bool snapshot_trials;   /* trials of a contest that wait are in snapshots */
    uint64_t journal_limit; /* bytes */
    uint64_t memory_limit;  /* bytes; 0: half of what is available */
    const char *listen; /* "127.0.0.1:8080"; "": any free port on loopback */
    const char *tls_cert,
        *tls_key; /* files, from @folder; both or none (NULL) */
    uint64_t seed;
    const char *folder; /* where relative paths start; absolute */
    /* The configuration with every default filled in: what nodes and journals
     * get. Parsing it again gives the same configuration. */
    json_t *effective;
    /* As it was given, with what was set from outside: owned, for people to
     * see. */
    json_t *given;
    /* Every tunable; what cannot act is pinned. Last: it is 120 KB, and beyond
     * its tunables nothing is cleared. */
    struct space space;
};

/* Configuration from @text. @sets[n] ("PATH=VALUE", PATH dotted or a JSON
 * pointer, VALUE JSON or else a text) are put in before anything is checked.
 * Everything that is wrong, and warnings, go to @problems, located and sorted.
 *
 * @folder   absolute; copied
 * @out      owned by the caller (run_config_free); only on success
 *
 * Errors: ERR_INVAL (see @problems), ERR_NOMEM. */
enum err run_config_parse(const struct config_env *env, const char *text,
                          size_t len, const char *folder,
                          const struct option_list *sets,
                          struct run_config **out, struct problems *problems);

/* Whether it trains a program of the user's own (cli/config/program.h). */
bool config_is_program(const struct run_config *c);

/* Accepts NULL. */
void run_config_free(struct run_config *c);

#endif
