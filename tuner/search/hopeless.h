/* Trials that cannot win are stopped (tuner/search/forecast.h has the bound).
 *
 * docs/algorithms.md has the rule in words, its error rate and what it saves.
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_HOPELESS_H
#define TUNER_HOPELESS_H

#include "tuner/search/trial_time.h"

/* Sets how long the slices of @x may be, so that it can be looked at on its
 * way. After every change of its goal. */
void hopeless_slices(const struct trial_time *t, struct trial *x);

/* Looks at the trials that are under way; those that cannot win any more are
 * marked as stopped, with a decision that says why. */
void hopeless_look(const struct trial_time *t);

#endif
