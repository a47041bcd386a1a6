#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void summary_none(struct trial_figures *out)
{
    out->speed = out->noise = out->range = out->seconds = 0;
    out->speed_unit = SPEED_UNKNOWN;
    out->points = 0;
    memset(out->time_s, 0, sizeof(out->time_s));
    memset(out->loss, 0, sizeof(out->loss));
}

/* Windows of as equal numbers of the curve's points as can be. */
static void downsample(const struct curve *curve, struct trial_figures *out)
{
    uint32_t n = curve->len;
    uint32_t k = n < SUMMARY_WINDOWS ? n : SUMMARY_WINDOWS;

    for (uint32_t g = 0; g < k; g++) {
        double sum = 0, samples = 0;
        uint32_t end = (g + 1) * n / k;

        for (uint32_t i = g * n / k; i < end; i++) {
            sum += curve->point[i].loss * (double)curve->point[i].samples;
            samples += (double)curve->point[i].samples;
        }
        out->time_s[out->points] = curve->point[end - 1].seconds;
        out->loss[out->points] = sum / samples;
        out->points++;
    }
}

static bool finite_points(const struct trial_figures *s)
{
    for (uint32_t i = 0; i < s->points; i++)
        if (!isfinite(s->loss[i]))
            return false;
    return true;
}

/* Least part of what was above the floor that is told from none: estimates of a
 * loss (control variates) may fall below it. */
#define LEAST_LEFT 1e-4

bool summary_is_relative(double before, double floor)
{
    return isfinite(floor) && before > floor;
}

double summary_progress(double before, double loss, double floor)
{
    if (!summary_is_relative(before, floor))
        return before - loss;
    return -log(fmax((loss - floor) / (before - floor), LEAST_LEFT));
}

double summary_fall(double before, double progress, double floor)
{
    if (!summary_is_relative(before, floor))
        return progress;
    return (before - floor) * -expm1(-progress);
}

/* A large rate may throw the loss up before it falls; that heals, and says
 * nothing of the noise that it makes later. */
static double largest_rise(const struct trial_figures *s)
{
    double rise = 0;
    uint32_t from = 0;

    for (uint32_t i = 1; i < s->points && i <= SUMMARY_TRANSIENT; i++)
        if (s->loss[i] >= s->loss[0])
            from = i;
    for (uint32_t i = from + 1; i < s->points; i++)
        rise = fmax(rise, s->loss[i] - s->loss[i - 1]);
    return rise;
}

double summary_speed(const struct trial_figures *figures, double floor)
{
    uint32_t n = figures->points;
    double progress, seconds = n > 1 ? figures->time_s[n - 1] : 0;

    assert(n <= SUMMARY_WINDOWS + 1);
    if (!(seconds > 0))
        return 0;
    progress = summary_progress(figures->loss[0],
                                figures->loss[n - 1] + figures->noise, floor);
    return fmax(progress, 0) / seconds;
}

enum trial_label summary_of(const struct curve *curve, double before,
                            double floor, struct trial_figures *out)
{
    double last, noise;

    assert(curve->len <= TRACE_WINDOWS_MAX);
    summary_none(out);
    out->loss[0] = before;
    out->points = 1;
    downsample(curve, out);
    if (!finite_points(out)) {
        summary_none(out);
        return TRIAL_DIVERGED;
    }
    last = out->loss[out->points - 1];
    if (!isnan(floor) && last - floor > 10 * (before - floor))
        return TRIAL_DIVERGED;
    out->noise = noise = largest_rise(out);
    out->range = last - before;
    out->seconds = out->time_s[out->points - 1];
    out->speed = summary_speed(out, floor);
    if (out->points > SUMMARY_WINDOWS && out->range < 0 &&
        noise < -out->range / SUMMARY_WINDOWS)
        return TRIAL_CONVERGING;
    return TRIAL_UNSTABLE;
}
