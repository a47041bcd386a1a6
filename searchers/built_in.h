/* Searchers that come with mltune, each in the file of its name.
 */
#ifndef SEARCHERS_BUILT_IN_H
#define SEARCHERS_BUILT_IN_H

#include "searchers/searcher.h"

extern const struct searcher_ops searcher_random;
extern const struct searcher_ops searcher_grid;
extern const struct searcher_ops searcher_tpe;
extern const struct searcher_ops searcher_gp;
extern const struct searcher_ops searcher_marginal;

/* Without settings of its own to propose: not in the list below. */
extern const struct searcher_ops searcher_rest;

/* Searchers that propose, NULL-terminated. */
extern const struct searcher_ops *const searchers_built_in[];

/* The one of that name among them; NULL: none. */
const struct searcher_ops *searcher_built_in(const char *name);

#endif
