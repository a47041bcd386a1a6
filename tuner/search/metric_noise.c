#include "tuner/search/metric_noise.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double metric_noise_of(const struct msg_ready *system, double metric)
{
    double n = (double)system->validation_samples, p;

    assert(system);
    if (n == 0 || !system->metric_higher_better ||
        strcmp(system->metric_reduction, "mean") != 0 ||
        !(metric >= 0 && metric <= 1))
        return 0;
    p = (n * metric + 2) / (n + 4);
    return sqrt(p * (1 - p) / (n + 4));
}

bool metric_noise_between(const struct msg_ready *system, double a, double b)
{
    double error =
        hypot(metric_noise_of(system, a), metric_noise_of(system, b));

    return error > 0 && fabs(a - b) < 2 * error;
}
