/* Running the trials of a search: each as far as the trial time goes.
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_TRIAL_RUN_H
#define TUNER_TRIAL_RUN_H

#include "tuner/search/trial_time.h"

/* Takes every trial, and the probe, as far as the trial time goes; while that
 * is not decided, the first that is there raises it to its floors, of which one
 * is @decision_s. Where the fork of one was refused, the slowest is freed and
 * it is forked from @parent again. One whose slice trouble of the machine
 * failed is `lost`, to be forked again (tuner/search/resumed_search.h); where
 * that lasts the run is interrupted. True when all are there (`arrived`). */
bool trial_run_all(struct trial_time *t, branch_id parent, double decision_s);

/* Whether the next trial should begin behind the one that is running, so that
 * the training system need not wait for the searcher and the tuner, and may:
 * one trial runs, and all its slices are queued. There is a trial. */
bool trial_run_overlaps(const struct trial_time *t);

#endif
