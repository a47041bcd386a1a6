/* The parts of a tuner beside its board, for the files of tuner/core alone.
 *
 * Each owns its state, as those of the board do (tuner/board/parts.h), and is
 * found from the board by its owner. A part calls the board's, those above it
 * in this list, and what lifecycle.h declares; lint checks it.
 */
#ifndef TUNER_CORE_PARTS_H
#define TUNER_CORE_PARTS_H

#include "tuner/board/parts.h"

struct tuner {
    struct board board;
    struct answers *answers; /* who gave the command that is taken in */
    struct snapshots *snapshots;
    struct rows *rows;
    struct ending *ending;
    struct resume *resume;
    struct suggest *suggest;
    struct user_forks *user_forks;
    struct steering *steering;
    void *strategy; /* state of the options' strategy */
};

#endif
