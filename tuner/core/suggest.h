/* Suggestions: settings that somebody outside wants to be tried.
 *
 * Ask and tell over HTTP. Whoever searches from outside reads what was tried
 * and how fast it converged, and suggests what to try next; so does a user with
 * a hunch. A suggestion is journaled when it is accepted, waits for the search
 * that is open or the next one, and is tried before anything that the searcher
 * proposes, which is told its outcome as that of any trial. The record of the
 * trial names it, in one piece with the trial's beginning: so it is neither
 * lost nor tried twice, whenever the run is killed. One whose trial was lost
 * with its search waits again.
 *
 * Tunables that are not given have the value in use when it is accepted.
 *
 * A search that cannot try a suggestion settles it: `known` where a trial of
 * that setting has begun in it already, else `dropped`, with the reason. What
 * waits when a run ends that cannot be resumed is dropped by that
 * (tuner/history/history_suggestions.h).
 *
 * With a searcher that has no settings of its own (searcher_ops.patience_s) a
 * search waits for suggestions, and says so; it ends when those outside say
 * that nothing follows, or when they have been silent for too long, after which
 * no search waits until there is one again. Where a first search ends with
 * nothing suggested, the run trains with the defaults.
 *
 * Part of the core (tuner/core/parts.h); pure.
 */
#ifndef TUNER_SUGGEST_H
#define TUNER_SUGGEST_H

#include "tuner/board/board.h"

struct suggestion {
    uint32_t number; /* over the whole run, from 1 */
    struct setting setting;
    json_t *json; /* owned */
};

/* Errors: ERR_NOMEM. */
enum err suggest_init(struct board *c);
void suggest_deinit(struct board *c);

/* The command; answered at once. @key: again with this, the same answer; NULL,
 * or "": none. */
void suggest_take(struct board *c, const struct command_suggest *want,
                  const char *key);

/* Once an event, when the strategy may go on: what waited before a resume is
 * there again; a run that searches nothing says so. */
void suggest_advance(struct board *c);

/* ---- for strategies ------------------------------------------------------ */

/* The oldest that waits; NULL: none does, in this step: */
const struct suggestion *suggest_next(const struct board *c);
/* there may be more, of before a resume, in the next. */
bool suggest_more(const struct board *c);

/* A trial of it has begun, whose record says so. */
void suggest_begun(struct board *c);

/* It is not to be tried: KNOWN from @trial, or DROPPED for @reason. */
void suggest_known(struct board *c, uint32_t trial);
void suggest_drop(struct board *c, const char *reason);

/* Nothing runs, and a search waits for a suggestion for at most @patience_s
 * from when this was first called: the feed says so, and there will be a timer.
 * False: not (any more): they are exhausted, or silent. */
bool suggest_wait(struct board *c, uint32_t search, double patience_s);

/* Whether those outside have more to suggest. */
enum asking suggest_asking(const struct board *c);

/* No search waits (for now). */
void suggest_wait_over(struct board *c);

/* A search is open; takes no further trial; has ended; no search follows. */
void suggest_search_open(struct board *c);
void suggest_search_closed(struct board *c, uint32_t search);
void suggest_search_ended(struct board *c, uint32_t search);
void suggest_over(struct board *c, const char *reason);

#endif
