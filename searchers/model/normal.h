/* The normal distribution where it is hard: tails and differences of tails.
 *
 * Pure functions; accurate to about 1e-12 relative to max(1, |result|).
 */
#ifndef SEARCHERS_NORMAL_H
#define SEARCHERS_NORMAL_H

/* log Phi(z), finite for every finite z. */
double normal_log_cdf(double z);

/* log(Phi(b) - Phi(a)) for a < b, also far out in either tail; -INFINITY only
 * where the mass is below any double even as a logarithm (a == b). */
double normal_log_mass(double a, double b);

/* The point x in [a, b] with Phi(x) = Phi(a) + @u (Phi(b) - Phi(a)); @u in
 * 0..1, a <= 0 <= b (a truncated normal whose mean lies inside). */
double normal_truncated(double a, double b, double u);

#endif
