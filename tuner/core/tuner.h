/* The tuner: decides what every clock of the training system is spent on.
 *
 * A pure state machine. An event goes in, a list of actions comes out, and the
 * caller performs them in the order in which they stand: records are journaled
 * before the messages that follow from them. Time arrives in the event, random
 * numbers come from the seed, the next deadline is a question
 * (`tuner_wake_at`). No clock, thread, socket or file in here: the simulator
 * runs exactly this code. One owner thread.
 *
 * The board (tuner/board/board.h) keeps branches, slices, epochs, the best
 * model and the time. The parts of tuner/core/parts.h carry out commands, write
 * and read snapshots, and end the run. A strategy (tuner/board/strategy.h) sees
 * the board and the run's life cycle (tuner/core/lifecycle.h). It decides which
 * settings are tried, for how long, and what is trained with.
 *
 * A caller's loop:
 *
 *     tuner_step(t, &event, &actions);
 *     for (i = 0; i < actions.count; i++)
 *         perform(&actions.item[i]);
 *     tuner_actions_reset(&actions);
 *     wait for a message or until tuner_wake_at(t);
 */
#ifndef TUNER_TUNER_H
#define TUNER_TUNER_H

#include "tuner/board/step.h"

struct tuner;

/* Releases what the actions hold and empties the list. */
void tuner_actions_reset(struct tuner_actions *a);
/* Resets the list, and gives its memory back. Accepts a zeroed one. */
void tuner_actions_deinit(struct tuner_actions *a);

/* A tuner that waits for `ready`. Errors: ERR_INVAL (initial
 * setting outside of the space, bad settings of strategy or searcher; @f says
 * which), ERR_NOMEM. */
enum err tuner_new(const struct tuner_options *options, struct tuner **out,
                   struct fault *f);
/* Accepts NULL. */
void tuner_free(struct tuner *t);

/* Takes @event in; @out (reset before) receives the actions. Errors: ERR_NOMEM,
 * nothing changed and the same event may be given again; ERR_PROTO when a
 * message fits nothing that was asked (the run then ends as failed, by the
 * actions in @out). After FINISH no event has any effect. A searcher or space
 * that runs out of memory counts as "not now" and is asked again later. */
enum err tuner_step(struct tuner *t, const struct tuner_event *event,
                    struct tuner_actions *out);

/* When a TIMER event is due, on the events' time line; INFINITY: none. */
double tuner_wake_at(const struct tuner *t);

/* What ends the wait after a step. NOT: none, the run is over. READY: the
 * training system's `ready`, ANSWER: its answer to what it was asked; both have
 * deadlines of the shell's (tuner/shell/keeper.h). TIME: the time of a TIMER
 * event that somebody asked for. USER: who paused the run. NOBODY: nothing, a
 * mistake of ours; a step ends the run rather than leave it so. */
enum tuner_wait_kind {
    TUNER_WAITS_NOT,
    TUNER_WAITS_READY,
    TUNER_WAITS_ANSWER,
    TUNER_WAITS_TIME,
    TUNER_WAITS_USER,
    TUNER_WAITS_NOBODY
};

struct tuner_wait {
    enum tuner_wait_kind kind;
    double at_s; /* by then the tuner itself does something; INFINITY: it leaves
                  * that to the shell, or the user */
};

struct tuner_wait tuner_waits(const struct tuner *t);

/* The run waits for what runs, to end then. */
bool tuner_ends(const struct tuner *t);

#endif
