/* The tunables of a run: the names that are known, their ranges, and which of
 * them can act. */
#ifndef CLI_CONFIG_TUNABLES_H
#define CLI_CONFIG_TUNABLES_H

#include "base/json/problems.h"
#include "base/json/registry.h"
#include "searchers/space/space.h"

/* The known names, read from their text once, for whoever reads many. */
struct tunables_known;

/* Errors: ERR_NOMEM. */
enum err tunables_known_new(struct tunables_known **out);
/* Accepts NULL. */
void tunables_known_free(struct tunables_known *k);

/* Parts of a configuration that decide whether a tunable can act. */
struct tunables_context {
    const struct registry_entry *app, *update_rule, *consistency;
    const json_t *settings;  /* the app's; NULL: none are known */
    unsigned nodes, workers; /* workers over all nodes */
    bool batch_clocks;       /* a clock is a mini-batch */
    bool is_loop;            /* no two workers share rows (docs/loops.md) */
    bool program; /* the app is the user's: only it knows what can act, and
                   * may have tunables of any name */
    bool all; /* nothing is listed, and what is off then is searched as well,
               * from there, or next to it; k, bandwidth_mbps and dropout are
               * not: the settings say what they are, or that they are not */
    const json_t *rules; /* the tunable update_rule, completed; NULL: it is not
                          * listed. Set by tunables_space, borrowed */
    const struct tunables_known *known; /* borrowed; NULL: made for the call */
};

/* The space of the run from @tunables (NULL: the known ones that can act, over
 * their known ranges). Known names are completed with their known type, range
 * and scale; those not listed, but able to act, are pinned at a plain value;
 * those that cannot act are pinned, with a warning where they were listed and
 * not pinned already. A program gets what is listed, and where nothing is,
 * learning_rate and batch_size. Faults go to @problems under /tunables.
 * Errors: ERR_INVAL (see @problems), ERR_NOMEM. */
enum err tunables_space(const struct tunables_context *c,
                        const json_t *tunables, struct space *out,
                        struct problems *problems);

/* Help on the known names, one a line; owned by the caller (mem_free); NULL
 * when out of memory. */
char *tunables_help(void);

#endif
