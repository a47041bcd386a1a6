/* A configuration while it is parsed: what its files share. Only
 * cli/config/config*.c.
 */
#ifndef CLI_CONFIG_INTERNAL_H
#define CLI_CONFIG_INTERNAL_H

#include "cli/config/config.h"

/* One parse: the text's value, and what has been made of it so far. */
struct config_parse {
    const struct config_env *env;
    json_t *root;   /* owned */
    json_t *schema; /* owned: of the table */
    struct run_config *c;
    struct problems *problems;
    bool all_tunables;             /* "auto" */
    bool searcher_given, ps_given; /* by the user, not by `complete` */
};

/* ---- config_sets.c: values set from outside ------------------------------ */

/* Puts @item, "PATH=VALUE", into the text's value. Complains of a path that
 * leads nowhere. Errors: ERR_NOMEM. */
enum err config_set(struct config_parse *p, const char *item);

/* Problems with what came from @sets (NULL: nothing did) have no place in the
 * file. */
void config_mark_sets(const struct option_list *sets,
                      struct problems *problems);

/* ---- config_names.c: what is named, and its settings --------------------- */

/* The entry that the value at @pointer names; NULL after a complaint, or where
 * the schema has complained. */
const struct registry_entry *config_named(struct config_parse *p,
                                          enum registry_kind kind,
                                          const char *pointer);

/* Finds app, rule, consistency, strategy and searcher, and completes their
 * settings. Complains of what is not there. Errors: ERR_NOMEM. */
enum err config_names(struct config_parse *p);

/* What an application's @schema says of its @settings: a setting may have @key,
 * an object with a word for some of its values. NULL: nothing. Borrowed from
 * @schema. */
const char *config_word_of_settings(const json_t *schema,
                                    const json_t *settings, const char *key);

/* ---- config.c: what is not given ------------------------------------------
 */

/* Puts @value (transferred) at @pointer unless something is there, or the way
 * is barred by a value that the schema has complained about. Errors: ERR_NOMEM.
 */
enum err config_put_absent(struct config_parse *p, const char *pointer,
                           json_t *value);

/* ---- config_rule.c: what the data are decides, unless it is given -------- */

/* The update rule. Puts in what the application prefers: for its settings
 * ("x-update-rule" of one in its schema), else where its data are tables
 * ("x-table-rule" of the schema); else, and where the user lists momentum,
 * `sgd`. And whether patience by samples holds for shares of hits: where the
 * data are tables and the schema says so ("x-table-patience"). Once the app is
 * found. Errors: ERR_NOMEM. */
enum err config_imply(struct config_parse *p);

/* ---- config_app.c: what trains ------------------------------------------- */

/* Finds the app that is named or described; NULL in the configuration after a
 * complaint. Errors: ERR_NOMEM. */
enum err config_find_app(struct config_parse *p);

/* A program whose settings are as the schema says: finds its file and names it.
 * Complains of what is not there. Errors: ERR_NOMEM. */
enum err config_program(struct config_parse *p);

/* Complains of generated data that do not fit into the memory limit, before
 * anything is made of them. After the limit was read. */
void config_data(struct config_parse *p);

/* ---- config_cluster.c: where nodes are started --------------------------- */

/* Puts in as many nodes as there are hosts, unless a number was given; before
 * defaults are. Errors: ERR_NOMEM. */
enum err config_cluster_nodes(struct config_parse *p);

/* Complains of hosts and programs that do not fit to the launcher; after the
 * app was found. */
void config_cluster(struct config_parse *p);

/* ---- config_warm.c: what earlier runs found ------------------------------ */

/* Reads what `tuner.warm_start` says, once the space is there. Complains of
 * what is not as cli/run/warm.h writes it. Errors: ERR_NOMEM. */
enum err config_warm(struct config_parse *p);

/* Opens the searcher once, if nothing is wrong so far, because only it knows
 * what it cannot search. Errors: ERR_NOMEM, ERR_IO. */
enum err config_try_searcher(struct config_parse *p);

#endif
