/* Finalists: which trials of a search deserve a longer look.
 *
 * Part of tuner/search/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_FINALISTS_H
#define TUNER_SEARCH_FINALISTS_H

#include "tuner/search/search.h"

/* After SEARCH_DONE: the finalists, best speed first. A finalist whose branch
 * is gone has BRANCH_NONE. None: nothing was found (in a re-tune: nothing
 * better than the incumbent). */
size_t search_finalists(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX]);

/* Where no trial makes progress: the one that is least worse off than before,
 * so that a run that has nothing to gain ends as converged. 0: all diverged. */
size_t search_least_bad(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX]);

/* Whether a trial may replace the incumbent; after a divergence there is
 * none. */
bool search_challenges(struct search *s, const struct trial *t);

/* The best challenger of a re-tune and up to @max - 1 others that gain about as
 * much; returns how many. */
size_t search_challengers(struct search *s, struct trial *out[], size_t max);

#endif
