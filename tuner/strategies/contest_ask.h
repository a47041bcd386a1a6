/* The conversation of a contest with its searcher.
 *
 * How it differs from a search's (tuner/search/proposals.h): a trial may be
 * told again when it has gone on, and its result is a quality, not a speed.
 * Part of tuner/strategies/contest.h, where the rest is declared. Inside tuner/
 * only.
 */
#ifndef TUNER_CONTEST_ASK_H
#define TUNER_CONTEST_ASK_H

#include "tuner/strategies/contest.h"

/* The next trial's setting, into @ct's proposals; true if it is there. Opens
 * the searcher where there is none and tells it what it has not heard. */
bool contest_propose(struct contest *ct);

/* There is no other setting: neither the searcher's nor a suggested one. */
bool contest_exhausted(const struct contest *ct);

#endif
