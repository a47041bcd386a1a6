#include "searchers/model/normal.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_erf.h>

#include <assert.h>
#include <math.h>

double normal_log_cdf(double z)
{
    return gsl_sf_log_erfc(-z * M_SQRT1_2) - M_LN2;
}

/* log(e^high - e^low), low <= high. */
static double log_difference(double high, double low)
{
    return high + log(-expm1(low - high));
}

double normal_log_mass(double a, double b)
{
    assert(a <= b);
    if (a > 0) /* the right tail is the left one, mirrored */
        return log_difference(normal_log_cdf(-a), normal_log_cdf(-b));
    if (b < 0)
        return log_difference(normal_log_cdf(b), normal_log_cdf(a));
    /* The middle: what both tails leave. */
    return log1p(-0.5 * erfc(-a * M_SQRT1_2) - 0.5 * erfc(b * M_SQRT1_2));
}

double normal_truncated(double a, double b, double u)
{
    double low = 0.5 * erfc(-a * M_SQRT1_2), high = 0.5 * erfc(-b * M_SQRT1_2);
    double x;

    assert(a <= 0 && 0 <= b);
    x = gsl_cdf_ugaussian_Pinv(low + u * (high - low));
    return fmin(fmax(x, a), b);
}
