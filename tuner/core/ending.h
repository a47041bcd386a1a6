/* The way a run ends: slices, then a snapshot, then the model, then FINISH.
 *
 * course_end (course.h) begins it. Part of the core (tuner/core/parts.h); pure.
 */
#ifndef TUNER_ENDING_H
#define TUNER_ENDING_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err ending_init(struct board *c);
void ending_deinit(struct board *c);

/* Goes on, where it has begun. */
void ending_advance(struct board *c);

/* After FINISH. */
bool ending_finished(const struct board *c);

/* A sentence: why the run ends. */
const char *ending_message(const struct board *c);

/* The model was saved, or was not. */
void ending_model_saved(struct board *c, const struct msg_done *m);
void ending_model_not_saved(struct board *c, const struct msg_failed *m);

/* The training system is gone, @program: by its own fault. FINISH at once. */
void ending_lost(struct board *c, bool program, const char *reason);

/* The training system broke the protocol: it is told to stop, and FINISH. */
void ending_violated(struct board *c, const char *what);

#endif
