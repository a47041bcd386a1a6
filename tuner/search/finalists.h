/* Finalists: which trials of a search deserve a longer look.
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_FINALISTS_H
#define TUNER_FINALISTS_H

#include "tuner/search/judge.h"

enum {
    FINALISTS_FIRST = 3, /* of a first search */
    FINALISTS_MAX = 4    /* of a re-tune */
};

/* The finalists, best speed first. A finalist whose branch is gone has
 * BRANCH_NONE. None: nothing was found (in a re-tune: nothing better than the
 * incumbent). */
size_t finalists_of(const struct judge *j, bool retune,
                    struct trial *out[FINALISTS_MAX]);

/* Where no trial makes progress: the one that is least worse off than before,
 * so that a run that has nothing to gain ends as converged. 0: all diverged. */
size_t finalists_least_bad(const struct judge *j,
                           struct trial *out[FINALISTS_MAX]);

/* The best challenger of a re-tune and up to @max - 1 others that gain about as
 * much; returns how many. */
size_t finalists_challengers(const struct judge *j, struct trial *out[],
                             size_t max);

#endif
