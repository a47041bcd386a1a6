/* Stopping trials that cannot win (tuner/search/forecast.h has the bound).
 *
 * Part of tuner/search/search.h; inside tuner/ only. docs/algorithms.md has the
 * rule in words, its error rate and what it saves.
 */
#ifndef TUNER_SEARCH_STOP_H
#define TUNER_SEARCH_STOP_H

#include "tuner/search/search.h"

/* Sets how long the slices of @t may be, so that it can be looked at on its
 * way.
 */
void search_stop_slices(const struct search *s, struct trial *t);

/* Looks at the trials that are under way; those that cannot win any more are
 * marked as stopped, with a decision that says why. */
void search_stop_look(struct search *s);

#endif
