/* Steps of skip-gram with negative sampling over pairs of words.
 *
 * Pure functions.
 */
#ifndef APPS_W2V_KERNEL_H
#define APPS_W2V_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define W2V_NONE UINT32_MAX /* no target: it is passed over */

enum { W2V_LANES = 8 }; /* rows are padded to a multiple, with zeros */

/* s and -log s between -W2V_RANGE and W2V_RANGE, by straight lines: exact to
 * 4e-6. */
enum { W2V_RANGE = 8, W2V_CELLS = 64 * 2 * W2V_RANGE };
struct w2v_curve {
    struct {
        float s, loss;
    } at[W2V_CELLS + 2];
};

void w2v_curve_init(struct w2v_curve *c);

/* Pairs, one after another: row in[i] of vectors, and of contexts the row
 * out[i * targets], which is to be predicted, and targets - 1 that are not. */
struct w2v_step {
    size_t pairs;
    unsigned targets; /* >= 1 */
    unsigned stride;  /* values from row to row, a multiple of W2V_LANES */
    const uint32_t *in, *out;
    float *vectors, *contexts; /* changed */
    float rate;
    float *change; /* [stride] scratch */
    const struct w2v_curve *curve;
};

/* Takes the steps, each by the gradient times the rate; returns the sum of the
 * pairs' losses before their steps. Cost: 6 targets stride flops a pair. */
double w2v_train(const struct w2v_step *b);

/* The sum of the losses; nothing is changed. */
double w2v_loss(const struct w2v_step *b);

/* Sum of products of two rows. */
float w2v_dot(unsigned stride, const float *a, const float *b);

#endif
