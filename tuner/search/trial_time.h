/* Trial time: how long a trial is. Cui 2017, Algorithm 6, with floors and
 * bounds of ours.
 *
 * It begins at what the first trial needs to show its speed, is doubled while
 * no trial converges clearly, and is decided once one does. docs/algorithms.md
 * has the rules in words. Inside tuner/ only; pure.
 */
#ifndef TUNER_TRIAL_TIME_H
#define TUNER_TRIAL_TIME_H

#include "tuner/search/judge.h"

struct trial_time {
    struct judge *judge; /* borrowed */
    double length;       /* seconds, or samples with trial_clocks; 0: none */
    bool decided;
    const char *floor;   /* what set it, for people; NULL: what trials showed */
    uint32_t epochs_max; /* bound of a trial */
    uint32_t base;       /* epochs of what trials are forked from */
};

void trial_time_init(struct trial_time *t, struct judge *j, branch_id parent);

/* Longest a trial may be, in units. */
uint64_t trial_time_bound(const struct trial_time *t);

/* Units of the shortest trial. The window is known. */
uint64_t trial_time_shortest(const struct trial_time *t);

/* Raises the time to what K windows of @b take and to its other floors, of
 * which one is @decision_s: how long the searcher takes to propose a setting.
 */
void trial_time_floor(struct trial_time *t, const struct branch *b,
                      double decision_s);

/* Sets @x's goal: the windows that fill the trial time at the rate measured so
 * far. Never takes it back. @b: its branch; before that has run, its kind's
 * rate counts where one is known. */
void trial_time_goal(const struct trial_time *t, struct trial *x,
                     const struct branch *b);

/* Whether any live trial would run longer in twice the time. */
bool trial_time_can_double(const struct trial_time *t);

/* Allows a first search (not a @retune) longer trials: of up to three epochs,
 * to find something that converges. False: it has what it may have. */
bool trial_time_raise_bound(struct trial_time *t, bool retune);

/* Doubles the time, and says so. */
void trial_time_double(struct trial_time *t);

/* Halves a time that was doubled in vain; then all trials are to be judged
 * again. True if it was shortened. */
bool trial_time_shorten(struct trial_time *t, double decision_s);

/* The time is what it is from now on. */
void trial_time_decide(struct trial_time *t);

#endif
