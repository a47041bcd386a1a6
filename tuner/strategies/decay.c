#include "tuner/strategies/decay.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const names[] = {"none", "step", "exponential", "cosine"};

#define PI 3.14159265358979323846

void decay_read(const json_t *settings, uint32_t epochs, struct decay *out)
{
    const char *name = json_string_value(json_object_get(settings, "schedule"));
    const json_t *gamma = json_object_get(settings, "gamma");

    assert(name);
    assert(epochs >= 1);
    *out = (struct decay){.epochs = epochs};
    for (int i = 0; i <= DECAY_COSINE; i++)
        if (strcmp(names[i], name) == 0)
            out->kind = (enum decay_kind)i;
    out->gamma = out->kind == DECAY_STEP ? 0.1 : 0.95;
    if (gamma)
        out->gamma = json_number_value(gamma);
    out->every =
        (uint32_t)json_integer_value(json_object_get(settings, "every"));
    out->floor = json_number_value(json_object_get(settings, "floor"));
}

double decay_rate(const struct decay *d, double first, uint32_t e)
{
    uint32_t steps = d->every ? e / d->every : 0;

    assert(d->kind <= DECAY_COSINE);
    switch (d->kind) {
    case DECAY_STEP:
        return first * pow(d->gamma, steps);
    case DECAY_EXPONENTIAL:
        return first * pow(d->gamma, e);
    case DECAY_COSINE:
        if (e >= d->epochs)
            return first * d->floor;
        return first *
               (d->floor + (1 - d->floor) * (1 + cos(PI * e / d->epochs)) / 2);
    case DECAY_NONE:
        break;
    }
    return first;
}

const char *decay_name(const struct decay *d)
{
    assert(d->kind <= DECAY_COSINE);
    return names[d->kind];
}
