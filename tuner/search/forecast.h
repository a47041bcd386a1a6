/* Forecasts: how far a trial that is under way may still come, so that one that
 * cannot win is stopped.
 *
 * A trial's values (how far the loss has fallen, or its lead over a rival) are
 * extended to its end in the kindest way that its curve allows: what is left of
 * its time brings FORECAST_HASTE times as much a second as it brought lately or
 * on average, whichever is more, and noise was against it in all that was seen.
 * Learning curves flatten, so the first is generous: it is what lets a slow
 * start, a jump that heals, and crossing curves live. Pure arithmetic.
 *
 * Error rate: where a trial does not gather pace by more than FORECAST_HASTE,
 * it is found hopeless wrongly with at most the probability asked for, at one
 * look. forecast_share spreads a budget over looks and trials: 1 / (k (k + 1))
 * sums to 1, so that any number of looks stays within it (Bonferroni; nothing
 * is assumed of how looks or trials depend on each other).
 */
#ifndef TUNER_FORECAST_H
#define TUNER_FORECAST_H

#include <stddef.h>
#include <stdint.h>

/* Times its pace so far that a trial may still make. */
#define FORECAST_HASTE 2.0

enum { FORECAST_POINTS_MIN = 7 };

struct forecast_point {
    double at;    /* share of the trial's time: middle of the window */
    double value; /* mean over the window; more is better */
};

struct forecast {
    double now;   /* the value where the points end, by its latest half */
    double most;  /* the value that the end may reach, noise included */
    double noise; /* standard deviation of a point; where neighbours vary
                   * together, of one that would make as much of a mean */
};

/* Looks ahead from point[n], in order of time, n >= FORECAST_POINTS_MIN, which
 * end at @share of the trial's time (0 < @share <= 1). @error: the probability
 * with which noise alone may put `most` too low. O(n). */
void forecast_of(const struct forecast_point point[], size_t n, double share,
                 double error, struct forecast *out);

/* The same from point[n], n >= 1, where too few points show their noise: a
 * point's standard deviation is at most @noise, as other trials showed, or what
 * the points themselves show. `now` is as the trial's average pace has it.
 * While a trial has clearly got worse in its first three points, `most` is
 * INFINITY: that may heal. */
void forecast_early(const struct forecast_point point[], size_t n, double share,
                    double error, double noise, struct forecast *out);

/* The part of @budget for look number @look (from 1) of one of @trials. */
double forecast_share(double budget, uint32_t trials, uint32_t look);

/* Standard deviation of a point around a slowly changing level, from the
 * differences of neighbours (von Neumann 1941) around their mean; 0 with fewer
 * than three. */
double forecast_noise(const struct forecast_point point[], size_t n);

/* Number that a variable with Student's distribution of @freedom degrees
 * exceeds with probability @error, 0 < @error <= 0.5; @freedom >= 3. Within 5 %
 * where freedom >= 5 and error >= 1e-5. */
double forecast_quantile(double error, double freedom);

#endif
