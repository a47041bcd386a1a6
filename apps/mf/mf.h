/* mf: matrix factorization of ratings by stochastic gradient descent.
 *
 * Tables `users` (exclusive: each user's ratings are at the worker that owns
 * the row, whose rule acts at once) and `items` (shared: a clock's gradients
 * are summed, then the rule acts once), both of `rank` values a row and with
 * the run's update rule, never with momentum. A clock is a part of a pass.
 * Ratings are centred on their mean, or (`mean`: `factor`) left as they are:
 * each row's first value then begins at the mean's root, so that a user's and
 * an item's level is learnt along it, against its penalty, from the first
 * rating. A user or item that training never saw is predicted by the mean.
 *
 * Loss: squared error without penalty, a rating; metric: validation RMSE.
 * Gradients are not scaled.
 */
#ifndef APPS_MF_H
#define APPS_MF_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_mf;

#endif
