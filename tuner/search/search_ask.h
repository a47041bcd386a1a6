/* A search's conversation with its searcher: ask and tell.
 *
 * Part of tuner/search/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_ASK_H
#define TUNER_SEARCH_ASK_H

#include "tuner/search/search.h"

/* The next trial's setting, into s->next and s->next_json. False: none, or not
 * now (the board is told to try again); `exhausted` says which. */
bool search_ask_next(struct search *s);

/* Whether there may be a next: one is suggested, or the searcher is not
 * exhausted. */
bool search_has_next(struct search *s);

/* Whether a suggestion waits that this search can try; settles those that it
 * cannot. */
bool search_suggested(struct search *s);

/* The same, and the search is to try it before it ends by its stop rules: not
 * where the searcher has nothing of its own, and suggestions are what these
 * rules are about. */
bool search_wished(struct search *s);

/* Once an event: what those outside have said of themselves. */
void search_ask_listen(struct search *s);

/* Takes the time of the step before, if the searcher was asked in it. */
void search_ask_measure(struct search *s);

/* After an ask or a tell: where what others wrote has failed, one decision says
 * so, and the rest of the run, later searches too, is its fallback's. True when
 * it has just been said. */
bool search_note_fallback(struct board *c, const struct searcher *s);

#endif
