/* The parts of a board, for the files of tuner/board alone.
 *
 * Each part is a module that owns its state: its struct is known in its own
 * file only, and others ask it by its functions. All are made and given back by
 * tuner.c. A part calls only those above it in this list (and what board.h
 * declares of them); lint checks it.
 */
#ifndef TUNER_PARTS_H
#define TUNER_PARTS_H

#include "tuner/board/board.h"

struct board {
    struct clockwork *clockwork;   /* time, pauses, waits */
    struct outbox *outbox;         /* this step's actions: records, decisions */
    struct run *run;               /* options, space, training system, status */
    struct operations *operations; /* told, and not answered yet */
    struct branches *branches;     /* the ledger: these two and */
    struct slices *slices;
    struct models *models;   /* the present state, the best model */
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
