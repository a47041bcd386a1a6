/* The probe: a branch that learns nothing and shows the loss before the trials,
 * and what the choice of samples alone does to it.
 *
 * Part of tuner/search/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_PROBE_H
#define TUNER_SEARCH_PROBE_H

#include "tuner/search/search.h"

/* True when the loss before the trials is known. May end the run. */
bool search_probe_advance(struct search *s);

/* Takes the probe as far as any trial goes. True when it is there. */
bool search_probe_follows(struct search *s);

#endif
