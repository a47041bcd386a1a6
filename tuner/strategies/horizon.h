/* Horizon: how many epochs fit into the run's time, by what one takes.
 *
 * Who stops by max_epochs knows the last epoch; who stops by max_time knows it
 * once an epoch's time is known. The cooldown needs either. Pure; seconds.
 */
#ifndef TUNER_HORIZON_H
#define TUNER_HORIZON_H

#include <stdint.h>

struct horizon {
    double epoch_s; /* that an epoch takes, > 0; 0: not known yet */
    double ended_s; /* the active time when the last one was over; NAN: what
                     * came after it was no training alone */
};

void horizon_init(struct horizon *p);

/* A search began: the time until the next epoch's end is not that epoch's. */
void horizon_interrupt(struct horizon *p);

/* An epoch was over at @at_s of the run's active time, which worked for
 * @work_s. Its time is that since the one before, tests and forks included,
 * where training was not interrupted. Half of it counts, half of what was
 * known, so that one that was held up does not decide. */
void horizon_epoch(struct horizon *p, double at_s, double work_s);

/* Another setting may take another time: what is known is that of one epoch
 * with it, which worked for @work_s, or nothing (0). */
void horizon_change(struct horizon *p, double work_s);

/* The last epoch that is over in @left_s more (INFINITY: any) after @epochs, at
 * most @max; at least @epochs. @max where an epoch's time is not known. */
uint32_t horizon_last(const struct horizon *p, uint32_t epochs, uint32_t max,
                      double left_s);

#endif
