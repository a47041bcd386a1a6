/* Contenders: what `mltune compare` compares.
 *
 * One is written NAME[:SEARCHER][+KEY=VALUE]...: a strategy, the searcher it
 * uses (else the configuration's), settings of the strategy. "hyperband",
 * "mltuner:gp", "fixed+schedule=cosine+floor=0.1". A list is separated by
 * commas.
 */
#ifndef CLI_CONTENDER_H
#define CLI_CONTENDER_H

#include "base/fault.h"
#include "cli/config/config.h"

enum {
    CONTENDERS_MAX = 32,
    CONTENDER_TEXT_MAX = 160, /* with its end */
    CONTENDER_SETS_MAX = 5
};

struct contender {
    char label[CONTENDER_TEXT_MAX];  /* as it is written */
    char strategy[64], searcher[64]; /* searcher "": the configuration's */
    json_t *settings;                /* owned; NULL: none are given */
    /* Texts of --set for it: owned, [sets_len]. */
    char *set[CONTENDER_SETS_MAX];
    size_t sets_len;
};

struct contenders {
    size_t len;
    struct contender item[CONTENDERS_MAX];
};

/* Reads the list @strategies; @searchers (NULL: none) is another list, each of
 * which every strategy without a searcher of its own is taken with, but those
 * that use none (`fixed`, settings drawn at random with `sampling=random`). A
 * searcher that is named for a strategy that would not use it is refused. @out
 * zeroed before; contenders_deinit on error too. Errors: ERR_INVAL (@f: what
 * was expected), ERR_NOMEM. */
enum err contenders_read(const char *strategies, const char *searchers,
                         struct contenders *out, struct fault *f);

/* Fills in `set`, for a configuration that is @base without them: settings of
 * the strategy are added to the configuration's own if it is the same strategy,
 * else they replace them; with a searcher that it names a strategy that draws
 * at random by default has `sampling` "searcher". Errors: ERR_NOMEM. */
enum err contenders_sets(struct contenders *cs, const struct run_config *base,
                         struct fault *f);

/* Accepts a zeroed one. */
void contenders_deinit(struct contenders *cs);

#endif
