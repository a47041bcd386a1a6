/* Runners: branches that run up to goals, in whole windows.
 *
 * Positions are counted in units: a clock where an epoch has fixed parts, else
 * a sample. Time is measured in seconds; where the user gives trial lengths in
 * clocks, in samples, so that no decision depends on how fast the machine is.
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_RUNNER_H
#define TUNER_RUNNER_H

#include "tuner/board/board.h"

struct runner {
    uint64_t goal;         /* units since the fork */
    double goal_time;      /* trial time that the goal is for */
    uint64_t first, piece; /* units of the first slice and of others, so that
                            * the branch can be looked at on its way; 0: any */
};

/* ARRIVED: at the goal, nothing under way. BROKEN: refused, diverged or
 * failed, nothing under way. */
enum runner_state { RUNNER_BUSY, RUNNER_ARRIVED, RUNNER_BROKEN };

/* Queues slices of @b up to the goal. @window: units of a window; 0: not known
 * yet, every clock is reported. */
enum runner_state runner_advance(struct board *c, const struct branch *b,
                                 const struct runner *r, uint64_t window);

/* Whether all slices of @b up to the goal are queued, and some are not over. */
bool runner_queued(const struct board *c, const struct branch *b,
                   const struct runner *r);

/* Whether time is measured in samples. */
bool units_by_samples(const struct board *c);

/* Time that @b has run since its fork. */
double units_time(const struct board *c, const struct branch *b);

/* Largest number of units that a clock of any setting of @space takes; >= 1. */
uint64_t units_largest_clock(const struct board *c, const struct space *space);

#endif
