/* A first search that begins from what earlier runs found.
 *
 * After the default it tries the settings that won there. Where one of these,
 * or the default, makes progress, it says what a share of the fastest's speed
 * is in this search's unit; then the searcher hears of all other earlier trials
 * as of its own, so that models propose at once. Of what diverged it hears
 * anyway. What was tried here itself is told as it is here.
 *
 * A function of the earlier runs and of this search's trials alone, so that a
 * resumed search is the same. Inside tuner/ only; pure.
 */
#ifndef TUNER_PRIMED_H
#define TUNER_PRIMED_H

#include "tuner/board/earlier.h"
#include "tuner/search/proposals.h"

struct primed {
    const struct earlier *earlier; /* borrowed; NULL: there is none */
    bool other[EARLIER_RUNS_MAX];  /* runs whose data were other ones */
    double scale; /* speed of a share of 1, as the searcher knows it; 0: it has
                   * not heard */
    bool limits_told;
};

/* Begins from what the run of @c knows of earlier ones; the training system is
 * ready. */
void primed_init(struct primed *x, const struct board *c);

/* The next setting that won in an earlier run, and was not tried here: @out.
 * False: none is left. */
bool primed_next(const struct primed *x, const struct proposals *p,
                 struct setting *out);

/* Tells the searcher what it does not know of earlier trials. Errors: those of
 * searcher_tell but ERR_INVAL; it may be called again. */
enum err primed_tell(struct primed *x, struct proposals *p);

/* Whether what won before makes progress here as well, so that the searcher
 * knows earlier trials. */
bool primed_knows(const struct primed *x);

/* What the record says of the search's beginning. */
void primed_explain(const struct primed *x, struct board *c);

#endif
