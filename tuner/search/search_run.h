/* Running a search's branches up to goals, in whole windows.
 *
 * Part of tuner/search/search.h; inside tuner/ only. A unit is what positions
 * are counted in: a clock where an epoch has fixed parts, else a sample.
 */
#ifndef TUNER_SEARCH_RUN_H
#define TUNER_SEARCH_RUN_H

#include "tuner/search/search.h"

/* ARRIVED: at the goal, nothing under way. BROKEN: refused, diverged or
 * failed, nothing under way. */
enum runner_state { RUNNER_BUSY, RUNNER_ARRIVED, RUNNER_BROKEN };

/* Queues slices up to the goal. The branch exists. */
enum runner_state runner_advance(struct search *s, struct runner *r);

/* Whether all slices up to the goal are queued, and some are not over. */
bool runner_queued(struct search *s, const struct runner *r);

/* Time is samples where the trial lengths are given in clocks. */
bool search_by_samples(const struct search *s);

/* Units that a branch has run since its fork. */
uint64_t search_units_run(const struct search *s, const struct branch *b);

/* Time that a branch has run since its fork. */
double search_time_of(const struct search *s, const struct branch *b);

/* Largest number of units that a clock of any setting takes. >= 1. */
uint64_t search_largest_clock(const struct search *s);

#endif
