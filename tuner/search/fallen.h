/* Fallen: what a finalist would come to if its learning rate fell now.
 *
 * A fork of it runs one epoch at a part of its rate, the middle of a cooldown,
 * and is tested. The finalist itself stays where it is: it goes on at its
 * steady rate. Inside tuner/ only.
 */
#ifndef TUNER_FALLEN_H
#define TUNER_FALLEN_H

#include "tuner/board/training.h"

/* Of the rate: 1 - sqrt(0.5), that of a cooldown when half of it is over
 * (tuner/strategies/cooldown.h). */
#define FALLEN_RATE 0.29

struct fallen {
    branch_id branch; /* BRANCH_NONE: not forked yet, or freed */
    struct training line;
    bool started;
    bool over; /* nothing is out any more */
    bool seen; /* over, and `epoch` is its result; else there was no memory for
                * it, or it broke */
    struct training_epoch epoch;
};

void fallen_init(struct fallen *x);

/* Goes on with a look at @parent, an idle branch at an epoch's end that trains
 * with @setting, whose space has a learning rate. True when it is over. */
bool fallen_advance(struct fallen *x, struct board *c, branch_id parent,
                    const struct setting *setting);

/* Frees its branch, whether it is over or not. */
void fallen_deinit(struct fallen *x, struct board *c);

#endif
