#include "searchers/model/acquisition.h"

#include "searchers/model/normal.h"

#include <gsl/gsl_sf_erf.h>

#include <math.h>

#define HALF_LOG_2PI 0.91893853320467274178
#define HALF_LOG_HALF_PI 0.22579135264472743236 /* log(pi / 2) / 2 */

double log_h(double z)
{
    if (z > -1)
        return log(exp(-0.5 * z * z - HALF_LOG_2PI) +
                   z * 0.5 * erfc(-z * M_SQRT1_2));
    if (z > -100) {
        /* h = phi (1 - sqrt(pi/2) |z| erfcx(|z| / sqrt 2)) */
        double log_erfcx = 0.5 * z * z + gsl_sf_log_erfc(-z * M_SQRT1_2);
        double t = log_erfcx + log(-z) + HALF_LOG_HALF_PI;

        return -0.5 * z * z - HALF_LOG_2PI + log(-expm1(t));
    }
    /* The difference in brackets by its asymptotic series, 1/z^2 - 3/z^4 + ...
     */
    return -0.5 * z * z - HALF_LOG_2PI - 2 * log(-z) + log1p(-3 / (z * z));
}

double log_h_slope(double z)
{
    return exp(normal_log_cdf(z) - log_h(z));
}

double log_ei(double mean, double sd, double best)
{
    return log(sd) + log_h((mean - best) / sd);
}
