/* The plain reference of the network's layers: in double, one value at a time,
 * as their definitions say; nothing is shared with apps/nn_*.c but the shapes
 * and the dropout mask. Training mode: moments of the batch, dropout. */
#ifndef TESTS_UNIT_NN_PLAIN_H
#define TESTS_UNIT_NN_PLAIN_H

#include "apps/nn_net.h"

/* @y[n][out] of @x[n][in]. @param: the layer's rows one after another, [rows *
 * row_width]. */
void plain_forward(const struct nn_layer *l, unsigned number,
                   const struct nn_batch *batch, const double *param,
                   const double *x, double *y);

/* Sum of the losses of @z[n][outputs]. */
double plain_loss(enum nn_loss loss, const struct nn_batch *batch,
                  size_t outputs, const double *z);

#endif
