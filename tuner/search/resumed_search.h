/* A resumed search: it goes on with the trials that the run knows.
 *
 * A finished trial is what its last record says, and is told to the searcher.
 * If it had its branch still, that is run again as far as it was: later trials
 * are compared with it, and a finalist goes on from there, as if nothing had
 * happened. One that was under way begins again under its own number; so does
 * the incumbent, which others are compared with while both run. Inside tuner/
 * only; pure.
 */
#ifndef TUNER_RESUMED_SEARCH_H
#define TUNER_RESUMED_SEARCH_H

#include "tuner/search/trial_time.h"

struct history;

/* Cost of a search by when it was interrupted. */
struct resumed_cost {
    double seconds;
    uint64_t clocks;
};

/* Takes in what @h has of the search of @t, whose list is empty. A trial whose
 * setting is not in the space is left out. @clocks_run: by the run so far.
 * Errors: ERR_NOMEM, nothing changed. */
enum err resumed_search_load(struct trial_time *t, const struct history *h,
                             uint64_t clocks_run, struct resumed_cost *cost);

/* Trials after which the search had given up before the resume, since none
 * converged, where all that it needs for that is known; 0: it had not. */
uint32_t resumed_search_gave_up(const struct trials *t,
                                const struct history *h);

/* Forks the trials whose branches were lost, to be run again, from @parent.
 * False: not all could be yet. */
bool resumed_search_fork(const struct trial_time *t, branch_id parent);

#endif
