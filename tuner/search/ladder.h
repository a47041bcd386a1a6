/* The ladder: learning rates that a re-tune looks at first.
 *
 * Schedules go there. (Of 5 decades only one or two hold anything better by
 * then, and proposals that are spread over all of them find it late.) The
 * setting in use at 1/3, 1/10, 3 and 1/30 of its learning rate, then the best
 * challenger at about half and twice its own. Inside tuner/ only; pure.
 */
#ifndef TUNER_LADDER_H
#define TUNER_LADDER_H

#include "tuner/search/judge.h"

enum { LADDER_STEPS = 6 };

/* Step number @step, 0 .. LADDER_STEPS - 1, from @incumbent. False: there is
 * none (the rate does not move, or lies outside its range; no challenger). */
bool ladder_step(const struct judge *j, const struct setting *incumbent,
                 uint32_t step, struct setting *out);

/* Steps that the trials of a search show to be over, so that a resumed one
 * takes none of them again: the best challenger may be another by now. The
 * searcher is asked after the last step only. */
uint32_t ladder_taken(const struct trials *t, const struct setting *incumbent);

#endif
