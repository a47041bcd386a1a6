/* The way a run ends: slices, then a snapshot, then the model, then FINISH.
 *
 * A model that cannot be written is tried again, a few times; then a snapshot
 * is written that says how the run ended, and it is interrupted: who resumes it
 * has only the model to write.
 *
 * lifecycle_end (lifecycle.h) begins it. Part of the core (tuner/core/parts.h);
 * pure.
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

/* The run that is resumed was over: only its model is to be written. */
void ending_again(struct board *c, const struct tuner_finish *end);

/* A sentence: why the run ends. */
const char *ending_message(const struct board *c);

/* The model was saved, or was not. */
void ending_model_saved(struct board *c, const struct msg_done *m);
void ending_model_not_saved(struct board *c, const struct msg_failed *m);

/* The training system is gone. @program: by its own fault, which fails the run;
 * else it is interrupted. FINISH at once. */
void ending_lost(struct board *c, bool program, const char *reason);

/* The training system broke the protocol: it is told to stop, and FINISH. Only
 * a program of the user's fails by it; of a node of ours it is a message lost.
 */
void ending_violated(struct board *c, const char *what);

#endif
