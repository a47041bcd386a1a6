/* mlr: softmax regression (multiclass logistic regression) of images and
 * tables.
 *
 * One shared table `weights`, a row a class: a weight for each value (a pixel
 * scaled to 0 .. 1, a column scaled by apps/samples/scaling.h), then the bias.
 * The loss is the mean cross-entropy, without penalty; the metric the share of
 * validation images whose likeliest class is right. Gradients are divided by
 * the samples of the clock over all workers.
 */
#ifndef APPS_MLR_H
#define APPS_MLR_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_mlr;

#endif
