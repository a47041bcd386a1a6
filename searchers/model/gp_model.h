/* Gaussian process regression on the unit cube, for the searcher `gp`.
 *
 * Matern-5/2 kernel with a length scale an axis, scaled by a signal variance,
 * plus Gaussian noise; its parameters are the maximum a posteriori of the
 * marginal likelihood (Rasmussen and Williams 2006, 5.4) under weak priors.
 * With r^2 = sum_a w_a d_a^2, where w_a is the inverse squared length scale and
 * d_a the distance along axis a (0 or 1 on a categorical axis):
 *
 *     k = s (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r)
 *
 * Priors, which suit standardised observations: log p(w) = -0.1 / w - 0.1 w for
 * every axis and s ~ Gamma(2, 1), as Optuna's GPSampler has them; noise, at
 * least GP_NOISE_MIN, has a beta prime distribution of mean 4e-4 with a long
 * tail. The Gamma(1.1, 30) of Optuna lets a surface that is rough, but not
 * noisy, pass for noise; a tail that falls as a power instead lets real noise
 * be noise (docs/algorithms.md).
 *
 * One owner thread; pure. Linear algebra is GSL's on the BLAS that is linked.
 */
#ifndef SEARCHERS_GP_MODEL_H
#define SEARCHERS_GP_MODEL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { GP_AXES_MAX = 32, GP_POINTS_MAX = 512 };
#define GP_NOISE_MIN 1e-6

/* Logarithms of inverse squared length scales, signal variance, noise. */
struct gp_params {
    double log_w[GP_AXES_MAX];
    double log_s, log_noise;
};

struct gp_model;

/* For points of @axes coordinates; @categorical[axes]. Errors: ERR_INVAL (axes
 * 0 or above GP_AXES_MAX), ERR_NOMEM. */
enum err gp_model_new(size_t axes, const bool categorical[],
                      struct gp_model **out);
/* Accepts NULL. */
void gp_model_free(struct gp_model *m);

/* w = 1 everywhere, s = 1, noise 1e-4. */
void gp_params_default(struct gp_params *p, size_t axes);

/* Takes @n points @x[n][axes] (0..1) with values @y[n] (standardised) as the
 * data. Copied. Errors: ERR_LIMIT (GP_POINTS_MAX), ERR_NOMEM. */
enum err gp_model_data(struct gp_model *m, size_t n, const double *x,
                       const double *y);

/* Log posterior density of @p (up to a constant) and its gradient in the order
 * of struct gp_params, axes first (@grad may be NULL). -INFINITY where the
 * kernel matrix has no Cholesky factor. Cost O(n^3). */
double gp_model_posterior(struct gp_model *m, const struct gp_params *p,
                          double grad[]);

/* Best parameters found from @start (in place), at most @evaluations of the
 * posterior, by NLopt's L-BFGS. Returns their log posterior. */
double gp_model_fit(struct gp_model *m, struct gp_params *start,
                    int evaluations);

/* Makes the model predict with @p. Errors: ERR_INVAL where the kernel matrix
 * has no Cholesky factor. */
enum err gp_model_condition(struct gp_model *m, const struct gp_params *p);

/* Mean and standard deviation of the noise-free value at @x[axes], and their
 * gradients (@dmean[axes], @dsd[axes]; both NULL: not wanted). Along a
 * categorical axis the gradient is 0. */
void gp_model_predict(struct gp_model *m, const double x[], double *mean,
                      double *sd, double dmean[], double dsd[]);

/* Predictions for @count points @x[count][axes] at once, without gradients. */
enum err gp_model_predict_many(struct gp_model *m, size_t count,
                               const double *x, double mean[], double sd[]);

#endif
