/* Threads and waits of the workers (ps/server/runtime_io.c). */
#ifndef PS_RUNTIME_H
#define PS_RUNTIME_H

#include "base/fault.h"
#include "mltune/ps.h"

#include <stdint.h>

/* Threads, parked. Errors: ERR_NOMEM, ERR_IO (no thread, no descriptor). */
enum err runtime_start(struct mlt_ps *ps, struct fault *f);
/* Joins the threads. Accepts a server that has none. */
void runtime_stop(struct mlt_ps *ps);

/* The error that ended the present run, 0 while there is none. Any thread. */
int runtime_failed(const struct mlt_ps *ps);

/* As ps_run_cancel, but tells no other node. */
void runtime_fail(struct mlt_ps *ps, int code);

/* A barrier of all workers. What a worker wrote before it meets, all can read
 * after it. Returns 0, to all of them; or ERR_CANCELED, to all, when the run
 * fails before all are there. */
int runtime_meet(struct mlt_worker *w);
/* Number of the meeting that comes next, modulo 2^16: it does not end before
 * the caller comes. */
uint32_t runtime_meeting(const struct mlt_ps *ps);
/* A barrier where all are sure to come: not to be canceled. */
void runtime_meet_surely(struct mlt_worker *w);

/* As runtime_meet, for what not all workers may come to, since users call it.
 * Who comes for the end of a clock, for a pass of another loop or of other
 * steps (loops are told apart by where @loop, their name, lies), or is back
 * from its work for good, keeps those who wait for the pass of a loop waiting
 * for ever: the run fails then, for all, and words (ps_model_error, the log)
 * name worker and loop. */
int runtime_meet_for_pass(struct mlt_worker *w, const char *loop,
                          unsigned first, unsigned n);
int runtime_meet_for_clock(struct mlt_worker *w);
/* Over several nodes, under barriers, clocks end elsewhere: before @w waits for
 * the end of one, so that the same is found. ERR_CANCELED: the run fails. */
int runtime_say_clock(struct mlt_worker *w);
/* Somebody of another node does not come: as @f says. */
void runtime_pass_missed(struct mlt_ps *ps, const struct fault *f);
/* It meets nobody: once, when its work is over, before it waits. */
void runtime_back(struct mlt_worker *w);

/* For waits on others' clocks: take a ticket, look, wait for it to change.
 * runtime_progress tells that a clock changed. */
uint32_t runtime_ticket(struct mlt_ps *ps);
void runtime_wait(struct mlt_worker *w, uint32_t ticket);
void runtime_progress(struct mlt_ps *ps);
/* The same for a worker that has waited otherwise since @begin_ns
 * (clock_monotonic); and where what it waited for came meanwhile. */
void runtime_wait_on(struct mlt_worker *w, uint32_t ticket, int64_t begin_ns);
void runtime_waited(struct mlt_worker *w, int64_t begin_ns);

/* A clock of @w has ended, without barriers: the mean of its work times
 * (w->task_s), waits left out, has one more. */
void runtime_clock_ended(struct mlt_worker *w);

/* The worker whose work() runs in this thread, or NULL. */
const struct mlt_worker *runtime_self(void);

#endif
