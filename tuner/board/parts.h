/* The parts of a board, for the files of tuner/board and tuner/core alone.
 *
 * Each part is a module that owns its state: its struct is known in its own
 * file only, and others ask it by its functions. All are made and given back by
 * tuner/core/tuner.c. A part calls only those above it in this list (and what
 * board.h declares of them); lint checks it.
 */
#ifndef TUNER_BOARD_PARTS_H
#define TUNER_BOARD_PARTS_H

#include "tuner/board/board.h"

struct board {
    struct clockwork *clockwork;   /* time, pauses, waits */
    struct outbox *outbox;         /* this step's actions: records, decisions */
    struct run *run;               /* options, space, training system, status */
    struct operations *operations; /* told, and not answered yet */
    struct branches *branches;     /* the ledger: these two and */
    struct slices *slices;
    struct models *models; /* the present state, the best model */
    struct tuner *owner;   /* whose it is; the board knows nothing of it */
};

#endif
