/* The clockwork: the run's time, and the numbers of its clocks.
 *
 * Time comes with each event. Time 0 is the beginning of the run; one that is
 * resumed goes on from its last record. A pause lasts from when nothing runs
 * any more until the run continues; that time is no training time. The time
 * limit counts from the beginning, what the training system takes to be ready
 * included. Part of the board (tuner/board/parts.h); pure.
 */
#ifndef TUNER_CLOCKWORK_H
#define TUNER_CLOCKWORK_H

#include "tuner/board/board.h"

struct history;

/* @resume: what the run goes on from, NULL: a new run; @lost_s: of the time
 * limit, since its last record. Errors: ERR_NOMEM. */
enum err clockwork_init(struct board *c, const struct history *resume,
                        double lost_s);
void clockwork_deinit(struct board *c);

/* An event is taken in: see struct tuner_event. */
void clockwork_step(struct board *c, double now_s, double step_s);

/* The training system of a resumed run is ready. Records go on from the last
 * one before, as if loading had taken no time; what was journaled meanwhile
 * stays before. The time limit does not stand still for it. */
void clockwork_resume(struct board *c, const struct history *h);

/* ---- what time it is ----------------------------------------------------- */

/* The time of the event, on the events' time line. */
double clockwork_now(const struct board *c);

/* Seconds since the run's beginning: as it is, and as a record has it. */
double clockwork_run_s(const struct board *c);
double clockwork_record_s(const struct board *c);

/* Seconds since the first event, which came at options.started_unix_s on the
 * wall. */
double clockwork_tuner_s(const struct board *c);

/* The time of the last record before a resume; 0: there is none. */
double clockwork_resumed_at_s(const struct board *c);

/* An event was taken in. */
bool clockwork_begun(const struct board *c);

/* The time when @max_s of the run's time are over; INFINITY in a pause. After
 * the first event. */
double clockwork_time_is_up(const struct board *c, double max_s);

/* Seconds that are left of @max_s of the run's time, also in a pause; below 0
 * once they are over. */
double clockwork_time_left(const struct board *c, double max_s);

/* ---- clocks, slices, waits ----------------------------------------------- */

/* @count clocks are scheduled: the number of the first. */
clock_no clockwork_schedule(struct board *c, uint64_t count);

/* The time when the first clock was scheduled; INFINITY: none was. */
double clockwork_first_clock_at(const struct board *c);

/* A slice has ended that worked for @work_s and took @switch_s to begin.
 * @idle: none was out when it was sent, so that the training system had nothing
 * to do since the one before. Returns how long that was; 0: it is not known. */
double clockwork_slice_ended(struct board *c, bool idle, double work_s,
                             double switch_s);

/* ---- pauses -------------------------------------------------------------- */

/* The user wants the run to pause. */
void clockwork_pause(struct board *c);
bool clockwork_is_paused(const struct board *c);

/* Nothing runs any more: the pause begins. Where nothing ever ran, since the
 * training system was not ready, it began when it was wanted. */
void clockwork_stand_still(struct board *c);
bool clockwork_stands_still(const struct board *c);

/* The run continues. Returns how long it stood still. */
double clockwork_continue(struct board *c);

/* ---- retries ------------------------------------------------------------- */

/* The time for which somebody has asked for a step (board_retry); INFINITY:
 * nobody has. */
double clockwork_retry_at(const struct board *c);

/* Forgets that where the time has come. */
void clockwork_retry_take(struct board *c);

/* At the end of a step; @busy: something is out that may end. For how long
 * steps in a row have ended with a board_retry and nothing out; 0: this one did
 * not. */
double clockwork_wants(struct board *c, bool busy);

#endif
