/* Reads under a user's consistency model (mltune/model.h): its predicates are
 * asked for one worker at a time, who waits for them is known, and when all
 * wait for ever that is found. */
#ifndef PS_ASK_H
#define PS_ASK_H

#include "ps/server/view.h"

/* Waits until the model lets @w begin its clock and read @v; 0 or the run's
 * error. Costs all workers' status a look, under one lock. */
int ask_wait(struct mlt_worker *w, struct worker_view *v);

#endif
