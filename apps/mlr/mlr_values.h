/* Softmax regression of rows of floats: apps/mlr/mlr_kernel.h for tables.
 *
 * The same loss, gradient and predictions with x = value. Tables are narrow, so
 * the loops are plain and the compiler vectorises them. Pure functions.
 */
#ifndef APPS_MLR_VALUES_H
#define APPS_MLR_VALUES_H

#include "apps/mlr/mlr_kernel.h"

/* As mlr_train, mlr_loss and mlr_correct; of @b `pixel` and `ahead` are not
 * read, and row i is @value[i][width]. */
double mlr_values_train(const struct mlr_block *b, const float *const *value);
double mlr_values_loss(const struct mlr_block *b, const float *const *value);
size_t mlr_values_correct(const struct mlr_block *b, const float *const *value);

/* As mlr_scores. */
void mlr_values_scores(const struct mlr_block *b, const float *const *value);

#endif
