/* Recalling a search: a resumed run goes on with the trials that it knows.
 *
 * A finished trial is what its last record says: it is told to the searcher and
 * not run again; where it becomes a finalist it is forked anew. One that was
 * under way begins again under its own number; so does the incumbent, which
 * others are compared with while both run. Part of tuner/search/search.h;
 * inside tuner/ only.
 */
#ifndef TUNER_SEARCH_RECALL_H
#define TUNER_SEARCH_RECALL_H

#include "tuner/search/search.h"

/* Takes in what plan.known has of the search. Errors: ERR_NOMEM, nothing
 * changed. A trial whose setting is not in the space is left out. */
enum err search_recall(struct search *s);

/* Forks the trials that begin again. False: not all could be yet. */
bool search_recall_lost(struct search *s);

#endif
