/* Plateau: counts epochs without improvement, and says when to re-tune and when
 * the run has converged.
 *
 * Less is better. An improvement is better by 0.1 % relative than the value of
 * the last improvement. A re-tuned setting that is committed sets the count
 * back by two, once per improvement, so that it has time to show itself and the
 * run still ends (MLtuner's own code re-tuned on a history that was never
 * reset: a new setting got exactly one epoch). Plain data.
 */
#ifndef TUNER_PLATEAU_H
#define TUNER_PLATEAU_H

#include <stdbool.h>
#include <stdint.h>

#define PLATEAU_IMPROVEMENT 1e-3

struct plateau {
    uint32_t limit; /* plateau_epochs; may be changed before an epoch is
                     * added */
    uint32_t since; /* epochs since the last improvement */
    double best;    /* value of the last improvement; NAN before the first */
    bool set_back;  /* the count was set back since */
    bool searched;  /* a re-tune was made since, and changed nothing */
};

/* @limit >= 1. */
void plateau_init(struct plateau *p, uint32_t limit);

/* Takes an epoch's value in; a non-finite one is no improvement. True if it
 * improved. */
bool plateau_add(struct plateau *p, double value);

/* Whether @value would be an improvement. */
bool plateau_improves(const struct plateau *p, double value);

/* A re-tune is due: limit - 1 epochs (at least 1) without improvement. */
bool plateau_due(const struct plateau *p);

/* Over: limit epochs without improvement. */
bool plateau_reached(const struct plateau *p);

/* A re-tuned setting was committed. */
void plateau_commit(struct plateau *p);

#endif
