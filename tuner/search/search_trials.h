/* Trials of a search: begun, run to the trial time, judged, ended.
 *
 * Part of tuner/search/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_TRIALS_H
#define TUNER_SEARCH_TRIALS_H

#include "tuner/search/search.h"

bool search_may_begin(struct search *s);

/* Begins a trial. False: none is to be had (see exhausted), or not now. */
bool search_trial_begin(struct search *s);

/* Records @t as it is. */
void search_trial_record(struct search *s, const struct trial *t,
                         enum record_kind kind);

/* What the shortest trial runs, in units. The window is known. */
uint64_t search_trial_goal(const struct search *s);

/* Records the end of @t; at most once. Its branch stays. */
void search_trial_end(struct search *s, struct trial *t);

/* Ends @t and frees its branch. */
void search_trial_free(struct search *s, struct trial *t, const char *reason);

/* Number of trials that have a branch. */
uint32_t search_trials_live(const struct search *s);

/* The live trial that has done worst so far, other than @but; NULL: none. */
struct trial *search_slowest_live(struct search *s, const struct trial *but);

/* Takes every trial, and the probe, as far as the trial time goes. True when
 * all are there (`arrived`). */
bool search_trials_arrived(struct search *s);

/* Whether the next trial should begin behind the one that is running, so that
 * the training system need not wait for the searcher and the tuner, and may:
 * one trial runs, and all its slices are queued. */
bool search_trials_overlap(struct search *s);

/* Judges the trials that have arrived and ran since they were last judged;
 * drops what diverged. True if there was any. */
bool search_trials_judge(struct search *s);

#endif
