/* Suggestions in a run's history: part of the fold of tuner/history/history.h.
 * Inside tuner/ only.
 */
#ifndef TUNER_HISTORY_SUGGESTIONS_H
#define TUNER_HISTORY_SUGGESTIONS_H

#include "tuner/history/history.h"

/* Folds a SUGGESTION in. Errors: ERR_FORMAT, ERR_NOMEM; nothing changed. */
enum err history_suggestion_apply(struct history *h, const struct record *r);

/* Folds an ASKING. */
enum err history_asking_apply(struct history *h, const struct record *r);

/* After a record of a trial: its suggestion has begun, perhaps under the number
 * of a trial that was forgotten; or, where it was interrupted, all that wait
 * for its outcome wait for another. */
void history_suggestion_follow(struct history *h, const struct record *r);

/* Trials from number @next on are forgotten: what they were to try waits. */
void history_suggestions_forget(struct history *h, uint32_t next);

/* The run has ended (h->end): what waits is dropped, unless it may be resumed.
 * It is resumed all the same: what that has dropped waits again. */
void history_suggestions_finish(struct history *h, double at_s);
void history_suggestions_resume(struct history *h);

#endif
