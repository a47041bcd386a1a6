/* Stops: the conditions tested at the end of an epoch. They combine; the first
 * that holds ends the run. (The time limit is a timer: tuner/core/ending.c.)
 */
#ifndef TUNER_STOPS_H
#define TUNER_STOPS_H

#include "tuner/board/plateau.h"
#include "tuner/board/training.h"

/* Whether an epoch's result reaches the target loss or metric. */
bool stops_target(const struct board *c, const struct training_epoch *e);

/* Ends the run if target or last epoch is reached. True if so. */
bool stops_check(struct board *c, const struct training_epoch *e);

/* Epochs without improvement that end the run: plateau_epochs; more where they
 * are short (plateau_samples) and, unless the user or the application wants it
 * so (plateau_hits), the metric is no share of hits, whose sampling error hides
 * what further epochs would bring. */
uint32_t stops_patience(const struct board *c);

/* Whether they are more than plateau_epochs: an epoch is so few steps that it
 * shows little. */
bool stops_epochs_are_short(const struct board *c);

/* Ends the run as converged. */
void stops_converged(struct board *c, const struct plateau *p);

/* Ends the run as converged after @epochs of a cooldown of @of. */
void stops_cooled(struct board *c, uint32_t epochs, uint32_t of);

/* Ends the run as one whose time is over: the next epoch takes @epoch_s,
 * @left_s are left. */
void stops_out_of_time(struct board *c, double epoch_s, double left_s);

/* Whether, whatever the next epoch's result, nothing has to be decided after
 * it: then the epoch after it may be started before the result is there. */
bool stops_impossible(const struct board *c, uint32_t epoch,
                      const struct plateau *p);

#endif
