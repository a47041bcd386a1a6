#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void summary_none(struct trial_figures *out)
{
    out->speed = out->noise = out->range = out->seconds = 0;
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

enum trial_label summary_of(const struct curve *curve, double before,
                            double floor, struct trial_figures *out)
{
    double last, noise = 0;

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
    for (uint32_t i = 1; i < out->points; i++)
        noise = fmax(noise, out->loss[i] - out->loss[i - 1]);
    out->noise = noise;
    out->range = last - before;
    out->seconds = out->time_s[out->points - 1];
    if (out->seconds > 0)
        out->speed = fmax((-out->range - noise) / out->seconds, 0);
    if (out->points > SUMMARY_WINDOWS && out->range < 0 &&
        noise < -out->range / SUMMARY_WINDOWS)
        return TRIAL_CONVERGING;
    return TRIAL_UNSTABLE;
}
