/* Losses of generalised linear models: value and slope at the scores z.
 *
 *   squared   (z - y)^2 / 2                      one score, y a number
 *   logistic  log(1 + exp(-s z)), s = 2 y - 1    one score, y is 0 or 1
 *   hinge     max(0, 1 - s z)                    the same
 *   softmax   log sum_c exp z[c] - z[y]          a score a class, y its number
 *
 * Pure functions.
 */
#ifndef APPS_GLM_LOSS_H
#define APPS_GLM_LOSS_H

#include <stdbool.h>

enum glm_loss {
    GLM_SQUARED,
    GLM_LOGISTIC,
    GLM_HINGE,
    GLM_SOFTMAX,
    GLM_LOSS_COUNT
};

/* "squared", ...; static. */
const char *glm_loss_name(enum glm_loss loss);

/* The loss of that name; GLM_LOSS_COUNT: there is none. */
enum glm_loss glm_loss_find(const char *name);

/* Scores a sample has. */
unsigned glm_loss_outputs(enum glm_loss loss, unsigned classes);

/* Loss of a sample, and its slopes dloss/dz into @d[outputs] (NULL: the loss
 * alone). Where hinge has a corner (s z = 1) the slope is 0. Non-finite where a
 * score is. */
double glm_loss_at(enum glm_loss loss, unsigned outputs, const float *z,
                   float y, float *d);

/* Whether the scores say class @y; of equal scores the lowest class, and the
 * second class of one score above 0. */
bool glm_loss_hits(enum glm_loss loss, unsigned outputs, const float *z,
                   unsigned y);

#endif
