#include "apps/glm/glm_loss.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static const char *const names[GLM_LOSS_COUNT] = {"squared", "logistic",
                                                  "hinge", "softmax"};

const char *glm_loss_name(enum glm_loss loss)
{
    return names[loss];
}

enum glm_loss glm_loss_find(const char *name)
{
    enum glm_loss loss = GLM_SQUARED;

    while (loss < GLM_LOSS_COUNT && strcmp(names[loss], name) != 0)
        loss++;
    return loss;
}

unsigned glm_loss_outputs(enum glm_loss loss, unsigned classes)
{
    return loss == GLM_SOFTMAX ? classes : 1;
}

static double squared(float z, float y, float *d)
{
    double error = (double)z - (double)y;

    if (d)
        *d = (float)error;
    return error * error / 2;
}

/* log(1 + e^-m) without overflow on either side. */
static double logistic(float z, float y, float *d)
{
    float sign = y > 0 ? 1 : -1, margin = sign * z, e = expf(-fabsf(margin));

    if (d)
        *d = -sign * (margin > 0 ? e : 1) / (1 + e);
    return (double)log1pf(e) + (margin > 0 ? 0 : -(double)margin);
}

static double hinge(float z, float y, float *d)
{
    double sign = y > 0 ? 1 : -1, lack = 1 - sign * (double)z;

    if (d)
        *d = lack > 0 ? (float)-sign : 0;
    return lack > 0 || isnan(lack) ? lack : 0;
}

static double softmax(unsigned outputs, const float *z, float y, float *d)
{
    unsigned label = (unsigned)y;
    double max = (double)z[0], sum = 0;

    assert(label < outputs);
    for (unsigned c = 1; c < outputs; c++)
        max = (double)z[c] > max ? (double)z[c] : max;
    for (unsigned c = 0; c < outputs; c++) {
        double e = exp((double)z[c] - max);

        sum += e;
        if (d)
            d[c] = (float)e;
    }
    for (unsigned c = 0; d && c < outputs; c++)
        d[c] = (float)((double)d[c] / sum) - (float)(c == label);
    return log(sum) + max - (double)z[label];
}

double glm_loss_at(enum glm_loss loss, unsigned outputs, const float *z,
                   float y, float *d)
{
    switch (loss) {
    case GLM_SQUARED:
        return squared(*z, y, d);
    case GLM_LOGISTIC:
        return logistic(*z, y, d);
    case GLM_HINGE:
        return hinge(*z, y, d);
    default:
        return softmax(outputs, z, y, d);
    }
}

bool glm_loss_hits(enum glm_loss loss, unsigned outputs, const float *z,
                   unsigned y)
{
    unsigned best = 0;

    if (loss != GLM_SOFTMAX)
        return (z[0] > 0) == (y == 1);
    for (unsigned c = 1; c < outputs; c++)
        best = z[c] > z[best] ? c : best;
    return best == y;
}
