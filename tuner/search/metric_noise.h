/* Noise of a metric: how much a validation metric may differ for no reason but
 * the choice of the validation samples.
 *
 * A metric that is the mean of values between 0 and 1, of which more is better
 * (accuracy: hits), has a variance of at most p (1 - p) a sample (Bhatia and
 * Davis 2000), of exactly that where each is 0 or 1. Of other metrics nothing
 * is known: an RMSE's squares could be of any spread, and what two models share
 * of them cancels when they are compared on the same samples. Pure.
 */
#ifndef TUNER_METRIC_NOISE_H
#define TUNER_METRIC_NOISE_H

#include "base/proto/proto.h"

/* Standard error of @metric; 0: not known. Of few misses it is that of a share
 * with two more of either (Agresti and Coull 1998), so that none has no error.
 */
double metric_noise_of(const struct msg_ready *system, double metric);

/* Whether @a and @b may differ by the choice of samples alone: by less than two
 * standard errors. False where nothing is known. */
bool metric_noise_between(const struct msg_ready *system, double a, double b);

#endif
