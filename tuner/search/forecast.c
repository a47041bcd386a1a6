#include "tuner/search/forecast.h"

#include <assert.h>
#include <math.h>

enum {
    FORECAST_PARTS = 10, /* in which setbacks are looked for */
    FORECAST_HEALS = 3,  /* points in which a jump at the start may heal */
    FORECAST_GROUPS_MIN = 6,
    FORECAST_GROUPS_MAX = 64
};

double forecast_share(double budget, uint32_t trials, uint32_t look)
{
    double k = look;

    assert(trials >= 1);
    assert(look >= 1);
    return budget / (double)trials / (k * (k + 1));
}

double forecast_noise(const struct forecast_point point[], size_t n)
{
    double squares = 0, mean;

    if (n < 3)
        return 0;
    mean = (point[n - 1].value - point[0].value) / (double)(n - 1);
    for (size_t i = 1; i < n; i++) {
        double d = point[i].value - point[i - 1].value - mean;

        squares += d * d;
    }
    return sqrt(squares / (2 * (double)(n - 2)));
}

/* Noise where neighbours vary together: differences of means over two and
 * four points show what those of neighbours hide. */
static double lasting_noise(const struct forecast_point point[], size_t n)
{
    struct forecast_point means[FORECAST_GROUPS_MAX];
    double noise = forecast_noise(point, n);

    for (size_t size = 2; size <= 4; size *= 2) {
        size_t groups = n / size;

        if (groups < FORECAST_GROUPS_MIN || groups > FORECAST_GROUPS_MAX)
            continue;
        for (size_t g = 0; g < groups; g++) {
            means[g].value = 0;
            for (size_t i = 0; i < size; i++)
                means[g].value += point[g * size + i].value / (double)size;
        }
        noise = fmax(noise, sqrt((double)size) * forecast_noise(means, groups));
    }
    return noise;
}

/* Upper quantile of the normal distribution, by halving. */
static double normal_quantile(double error)
{
    double low = 0, high = 40;

    for (int i = 0; i < 60; i++) {
        double z = (low + high) / 2;

        if (erfc(z / M_SQRT2) / 2 > error)
            low = z;
        else
            high = z;
    }
    return high;
}

/* Expansion of Student's quantile around the normal one (Fisher and Cornish
 * 1960). */
double forecast_quantile(double error, double freedom)
{
    double z = normal_quantile(error), z2 = z * z, v = freedom;

    assert(error > 0 && error <= 0.5);
    assert(freedom >= 3);
    return z + z * (z2 + 1) / (4 * v) +
           z * ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
           z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v) +
           z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) /
               (92160 * v * v * v * v);
}

/* A straight line through points: value = mean + slope (at - middle). */
struct fit {
    double n, middle, mean, slope, spread; /* spread: sum of squares of at */
};

static void fit_line(const struct forecast_point point[], size_t n,
                     struct fit *out)
{
    double sum = 0, sum_at = 0, product = 0;

    *out = (struct fit){.n = (double)n};
    for (size_t i = 0; i < n; i++) {
        sum += point[i].value;
        sum_at += point[i].at;
    }
    out->mean = sum / out->n;
    out->middle = sum_at / out->n;
    for (size_t i = 0; i < n; i++) {
        double d = point[i].at - out->middle;

        out->spread += d * d;
        product += d * (point[i].value - out->mean);
    }
    out->slope = out->spread > 0 ? product / out->spread : 0;
}

/* The line's value @ahead of its middle, and how far noise may have put it too
 * low. */
static double line_most(const struct fit *f, double ahead, double margin)
{
    double variance =
        1 / f->n + (f->spread > 0 ? ahead * ahead / f->spread : 0);

    return f->mean + f->slope * ahead + margin * sqrt(variance);
}

/* Largest fall between neighbouring tenths: noise that lasts for longer than a
 * window, which differences of neighbours do not show. */
static double setback(const struct forecast_point point[], size_t n)
{
    double before = 0, worst = 0;
    size_t parts = n < FORECAST_PARTS ? n : FORECAST_PARTS;

    for (size_t g = 0; g < parts; g++) {
        size_t from = g * n / parts, to = (g + 1) * n / parts;
        double mean = 0;

        for (size_t i = from; i < to; i++)
            mean += point[i].value / (double)(to - from);
        if (g > 0)
            worst = fmax(worst, before - mean);
        before = mean;
    }
    return worst;
}

void forecast_of(const struct forecast_point point[], size_t n, double share,
                 double error, struct forecast *out)
{
    size_t half = n / 2;
    struct fit f;
    double margin, left = 1 - share, lately, level, average;

    assert(n >= FORECAST_POINTS_MIN);
    assert(share > 0 && share <= 1);
    out->noise = lasting_noise(point, n);
    /* Differences of neighbours hold two thirds as much as as many
     * independent deviations. */
    margin =
        out->noise * forecast_quantile(error, fmax((double)(n - 2) / 1.5, 3));
    fit_line(point + half, n - half, &f);
    out->now = f.mean + f.slope * (share - f.middle);
    level = line_most(&f, share - f.middle, margin);
    lately = line_most(&f, share - f.middle + FORECAST_HASTE * left, margin);
    average = level * (1 + FORECAST_HASTE * left / share);
    out->most =
        fmax(level, fmax(lately, average)) + setback(point + half, n - half);
}

void forecast_early(const struct forecast_point point[], size_t n, double share,
                    double error, double noise, struct forecast *out)
{
    double product = 0, squares = 0, left = 1 - share, pace, lately, margin;
    const struct forecast_point *last = &point[n - 1];

    assert(n >= 1);
    assert(share > 0 && share <= 1);
    for (size_t i = 0; i < n; i++) {
        product += point[i].at * point[i].value;
        squares += point[i].at * point[i].at;
    }
    out->noise = fmax(noise, forecast_noise(point, n));
    margin = out->noise * normal_quantile(error);
    /* On a line from where the trial began; or, where it has fallen back at
     * first, as fast as from the last but one point to the last. */
    out->now = product / squares * share;
    pace = (product + margin * sqrt(squares)) / squares;
    lately = -INFINITY;
    if (n > 1)
        lately = (last->value - last[-1].value + M_SQRT2 * margin) /
                 (last->at - last[-1].at);
    out->most = fmax(pace * share, last->value + margin) +
                fmax(FORECAST_HASTE * fmax(pace, lately), 0) * left;
    if (n <= FORECAST_HEALS && last->value + margin < 0)
        out->most = INFINITY;
}
