/* A search's conversation with its searcher: ask and tell.
 *
 * Part of tuner/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_ASK_H
#define TUNER_SEARCH_ASK_H

#include "tuner/search.h"

/* The next trial's setting, into s->next and s->next_json. False: none, or not
 * now (the board is told to try again); `exhausted` says which. */
bool search_ask_next(struct search *s);

/* Takes the time of the step before, if the searcher was asked in it. */
void search_ask_measure(struct search *s);

/* After an ask or a tell: where what others wrote has failed, one decision says
 * so, and the rest of the run, later searches too, is its fallback's. True when
 * it has just been said. */
bool search_note_fallback(struct board *c, const struct searcher *s);

#endif
