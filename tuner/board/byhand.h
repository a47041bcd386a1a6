/* Branches forked by hand: what a user tries beside the training.
 *
 * FORK makes a training branch from any that holds a state to train, with the
 * parent's setting but for what the user changes. It runs beside whatever the
 * strategy does, in turns, for as long as was asked; the ends of its epochs are
 * tested and recorded as those of a lineage that does not survive. Then it
 * waits, and holds its memory, until FREE or PROMOTE; one that diverges or
 * fails is freed, and where the strategy is refused a fork for want of memory
 * the latest of those that wait, else of all. The strategy knows nothing of it.
 *
 * PROMOTE makes it what the run trains: the strategy's search ends, what it
 * trained is freed, and it goes on from there (strategy_ops.adopt). Any other
 * branch that can be forked may be promoted, too: it is forked first.
 *
 * All is journaled (user_branch records). When the run is resumed, those that
 * lived begin again from the snapshot that it goes on from, and one that was
 * promoted since then is promoted again. Inside tuner/ only; pure; one owner
 * thread.
 */
#ifndef TUNER_BYHAND_H
#define TUNER_BYHAND_H

#include "tuner/board/training.h"

enum { BYHAND_MAX = 8 }; /* at the same time */

struct byhand_fork {
    branch_id branch;     /* BRANCH_NONE: the place is free */
    branch_id instead_of; /* that was lost; BRANCH_NONE: none */
    bool asked;           /* somebody waits for its answer: */
    uint64_t ticket;
    bool known;      /* it exists, and is journaled */
    bool promoted;   /* to be adopted as soon as it is idle */
    uint32_t epochs; /* as asked for: one of them is 0, or both where it is only
                      * there to be promoted */
    uint64_t clocks;
    bool running;   /* the line is there */
    bool over;      /* has run as far as it was to */
    uint32_t until; /* epoch of the lineage at whose end it is */
    struct training line;
    double loss, metric; /* its last; NAN: none */
};

struct byhand {
    struct byhand_fork fork[BYHAND_MAX];
    bool begun;     /* the strategy runs something: it comes first */
    bool made_room; /* by this event, for a fork of the strategy's */
    bool recalled;  /* those of before the run was resumed are forked again */
    bool cutting;   /* slices of branches that are given up are cut short */
};

/* @c's own; nothing in it is to be released. */
void byhand_init(struct byhand *h, struct board *c);

/* Commands; each is answered, FORK by a later event where the training system
 * is to answer first. */
void byhand_fork(struct board *c, const struct tuner_fork *want);
void byhand_promote(struct board *c, branch_id branch);
void byhand_free(struct board *c, branch_id branch);

/* Goes on: once an event, before the strategy, while the training system is
 * ready and the run does not end. A paused run runs none of them. */
void byhand_advance(struct board *c);

/* A fork of the strategy's, @b, was refused: gives one of the user's up, the
 * training goes first. Sets made_room where there was one. */
void byhand_make_room(struct board *c, const struct branch *b);

/* The run ends: who still waits for an answer gets it. */
void byhand_end(struct board *c);

#endif
