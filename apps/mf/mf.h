/* mf: matrix factorization of ratings by stochastic gradient descent.
 *
 * Tables `users` (exclusive: each user's ratings are at the worker that owns
 * the row, whose rule acts at once) and `items` (shared: a clock's gradients
 * are summed, then the rule acts once), both of `rank` values a row and with
 * the run's update rule, never with momentum. A clock is a part of a pass.
 * Ratings are centred on their mean; a user or item that training never saw is
 * predicted by the mean.
 *
 * Loss: squared error without penalty, a rating; metric: validation RMSE.
 * Gradients are not scaled.
 */
#ifndef APPS_MF_H
#define APPS_MF_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_mf;

#endif
