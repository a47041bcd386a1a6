/* The life cycle of a run, as strategies and searches see it: its end, its
 * snapshots, its resume, and what the user wants of it.
 *
 * What they see beside the board (tuner/board/board.h). Inside tuner/ only; one
 * owner thread.
 */
#ifndef TUNER_LIFECYCLE_H
#define TUNER_LIFECYCLE_H

#include "tuner/board/board.h"

/* Ends the run: slices are cut, then an interrupted or stopped run writes a
 * snapshot, every run but an interrupted one the best model, then FINISH. The
 * first call counts. */
void lifecycle_end(struct board *c, enum run_status status, const char *reason,
                   const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends the run as interrupted with nothing written: it cannot go on now, but
 * from its snapshots at another time. */
void lifecycle_interrupted(struct board *c, const char *reason,
                           const char *what);

/* Ends the run: a fork, @what of it for people, was refused with @err, and the
 * run cannot be without. Trouble of the machine, memory that the system
 * refuses, interrupts it. Where memory.limit has no room (ERR_LIMIT, or a
 * program's own reason) it failed, unless it @came_on so far that it can go on.
 */
void lifecycle_refused(struct board *c, enum err err, bool came_on,
                       const char *what);

/* Whether it ends: then no strategy begins anything. */
bool lifecycle_ends(const struct board *c);

/* The user wants a search at the next end of an epoch; one begins. */
bool lifecycle_retune_wanted(const struct board *c);
void lifecycle_retune_begins(struct board *c);

/* A resume should go on from here: a snapshot is written as soon as it can be,
 * in runs that write any. */
void lifecycle_want_snapshot(struct board *c);

/* A snapshot of a search with its trials is being written. Who runs one trial
 * after another begins no other one's turn meanwhile: so a kill costs one turn,
 * and what was run since. */
bool lifecycle_writes_trials(const struct board *c);

/* Numbers of searches and trials that were used before the run was resumed, for
 * strategies that begin anew; the search that goes on, 0: none does. */
uint32_t lifecycle_searches_before(const struct board *c);
uint32_t lifecycle_trials_before(const struct board *c);
/* The kept branch that a resume has made of trial @trial's folder; BRANCH_NONE:
 * there was none. Held by the board until the strategy's restore is over. */
branch_id lifecycle_restored(const struct board *c, uint32_t trial);

uint32_t lifecycle_search_resumed(const struct board *c);

/* Trial @trial, from before the resume, is none of those that the search that
 * goes on has: another gets its number. */
bool lifecycle_forgets_trial(const struct board *c, uint32_t trial);

/* The user's fork made room in this step, for one that was refused. */
bool lifecycle_made_room(const struct board *c);

#endif
