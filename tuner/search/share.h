/* The first search's share of the run's time.
 *
 * Where a run ends by stop.max_time, its first search takes at most a share of
 * that: what is found later is of no use to a run without time to train with
 * it. Then the search ends with the best so far. Inside tuner/ only; pure.
 */
#ifndef TUNER_SHARE_H
#define TUNER_SHARE_H

#include "tuner/search/trial_time.h"

/* Whether a search that has taken @took_s is to end for that: @share (0: none)
 * of the run's time limit is used up, and some trial may win. Never where trial
 * lengths are given in clocks: no decision reads a clock there. */
bool share_used(const struct judge *j, double share, double took_s);

/* Cuts what the trials run. True once nothing runs any more: those that were
 * under way are judged as they are, or ended where others were run longer. */
bool share_wind_up(const struct trial_time *t);

/* The reason of the search's end, with its figures, into out[size]; as a
 * decision, too. */
void share_tell(const struct judge *j, double share, double took_s, char *out,
                size_t size);

#endif
