/* How long a trial is: Cui 2017, Algorithm 6, with DESIGN's floors and bounds.
 *
 * Part of tuner/search/search.h; inside tuner/ only. docs/algorithms.md has the
 * rules in words.
 */
#ifndef TUNER_SEARCH_TIME_H
#define TUNER_SEARCH_TIME_H

#include "tuner/search/search.h"

/* After the probe: windows of so many clocks that the shortest trial has a few
 * times K of them, as far as an epoch allows. */
void search_time_windows(struct search *s);

/* Longest a trial may be, in units. */
uint64_t search_time_bound(const struct search *s);

/* Raises the trial time to what K windows of @b take and to its other floors.
 */
void search_time_floor(struct search *s, const struct branch *b);

/* Sets @t's goal: the windows that fill the trial time at the rate measured so
 * far. Never takes it back. @b: its branch; before that has run, its kind's
 * rate counts where one is known. */
void search_time_goal(struct search *s, struct trial *t,
                      const struct branch *b);

/* Whether any live trial would run longer in twice the time. */
bool search_time_can_double(const struct search *s);

/* Allows a first search longer trials. False: it has what it may have. */
bool search_time_raise_bound(struct search *s);

/* Doubles the trial time, and says so. */
void search_time_double(struct search *s);

/* Halves a time that was doubled in vain; then all trials are to be judged
 * again. True if it was shortened. */
bool search_time_shorten(struct search *s);

/* The trial time is what it is from now on. */
void search_time_decide(struct search *s);

#endif
