/* What a contest asks its searcher, and tells it: of
 * tuner/strategies/contest.h, where the rest of this module is declared. Inside
 * tuner/ only.
 */
#ifndef TUNER_CONTEST_ASK_H
#define TUNER_CONTEST_ASK_H

#include "tuner/strategies/contest.h"

/* The next trial's setting, into @ct's next and next_json; true if it is there.
 * Opens the searcher where there is none and tells it what it has not heard. A
 * searcher that fails has nothing more to say; one that has no memory, or says
 * not now, is asked again at a later event. */
bool contest_propose(struct contest *ct);

/* There is no other setting: neither the searcher's nor a suggested one. */
bool contest_exhausted(const struct contest *ct);

#endif
