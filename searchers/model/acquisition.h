/* Acquisition functions of Bayesian optimization, in their stable forms.
 *
 * Pure functions of a prediction. Maximisation throughout.
 */
#ifndef SEARCHERS_ACQUISITION_H
#define SEARCHERS_ACQUISITION_H

/* log of h(z) = phi(z) + z Phi(z), expected improvement of a standard normal
 * above -z. Any finite z; accurate to 1e-9 relative to max(1, |value|). Three
 * branches as in Ament et al. 2023 (arXiv 2310.20708), eq. 9. */
double log_h(double z);

/* Its derivative, Phi(z) / h(z) > 0. */
double log_h_slope(double z);

/* log EI of mean and standard deviation @sd > 0 above @best. */
double log_ei(double mean, double sd, double best);

#endif
