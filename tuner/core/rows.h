/* Rows of the parameter server, as users read them and add to them.
 *
 * READ asks the training system for rows of any branch that lives: it answers
 * between two clocks, whatever runs. ADD has the table's update rule take an
 * increment of one row of a training branch, between two slices: so that it
 * does not wait long, the slices before it are cut short, but not more often
 * than once in ROWS_CUT_S (a second). Without a branch both are about what the
 * run trains (board_base), which a search has none of to add to.
 *
 * Each increment is journaled (`increment` records), numbered over the run, and
 * is in all forks made from then on; each branch knows the highest number that
 * is in it. A run that goes back to a snapshot has lost the later ones, as all
 * that was trained since: who added to what is gone is told so by a decision,
 * for only they know whether it is still right. Part of the core
 * (tuner/core/parts.h); pure.
 */
#ifndef TUNER_ROWS_H
#define TUNER_ROWS_H

#include "tuner/board/board.h"

/* Numbers of increments go on where options.resume ends. Errors: ERR_NOMEM. */
enum err rows_init(struct board *c);
void rows_deinit(struct board *c);

/* The tables that the training system has, as its `ready` says; NULL: it does
 * not. */
void rows_tables(struct board *c, json_t *tables, json_t *data);

/* Commands; answered at once where they cannot be, else when the training
 * system has. */
void rows_read(struct board *c, const struct command_rows *want);
void rows_add(struct board *c, const struct command_rows *want);

/* The training system has answered. */
void rows_done(struct board *c, op_id op, const json_t *data);
void rows_failed(struct board *c, op_id op, const struct msg_failed *m);

/* Once an event: cuts what an increment would wait for. */
void rows_advance(struct board *c);

/* The run ends: who still waits for rows gets an answer. What was sent to be
 * added is added all the same, and answered so. */
void rows_end(struct board *c);

/* Whether an increment is not answered yet by the training system: the end of
 * the run waits for it. */
bool rows_adding(const struct board *c);

#endif
