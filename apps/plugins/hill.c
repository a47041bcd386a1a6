/* A searcher plug-in: half of the trials spread over the whole space, the other
 * half are steps from the best so far, shorter and shorter.
 *
 *     cc -shared -fPIC -O2 -o hill.so hill.c -lm `pkg-config --cflags mltune`
 *
 * Small on purpose; docs/write-a-searcher.md walks through it. It has no state:
 * what it proposes follows from the seed and the query, as it should.
 */
#include <mltune/searcher.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hill {
    uint64_t seed;
    double step; /* first step, in lengths of an axis */
};

/* A number in 0 .. 1 that depends on nothing but the three (splitmix64). */
static double number(uint64_t seed, uint64_t trial, uint64_t axis)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15u * (trial * 64 + axis + 1);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Weyl's sequence along each axis: every prefix is spread evenly. */
static double spread(uint64_t seed, uint64_t trial, size_t axis)
{
    double stride = fmod((double)(axis + 1) * 0.6180339887498949, 1.0);

    return fmod(number(seed, 0, axis) + (double)trial * stride, 1.0);
}

static const struct mlt_searcher_trial *
best_of(const struct mlt_searcher_query *q)
{
    const struct mlt_searcher_trial *best = NULL;

    for (size_t i = 0; i < q->told_len; i++) {
        const struct mlt_searcher_trial *t = &q->told[i];

        if (t->outcome == MLT_SEARCHER_SPEED &&
            (!best || t->speed > best->speed))
            best = t;
    }
    return best;
}

static int hill_open(const struct mlt_searcher_config *config, void **state,
                     struct mlt_searcher_error *err)
{
    struct hill *h = malloc(sizeof(*h));
    const char *step = strstr(config->settings, "\"step\":");

    if (!h) {
        snprintf(err->text, sizeof(err->text), "no memory");
        return MLT_SEARCHER_FAILED;
    }
    h->seed = config->seed;
    h->step = step ? strtod(step + 7, NULL) : 0.3;
    *state = h;
    return MLT_SEARCHER_OK;
}

static int hill_ask(void *state, const struct mlt_searcher_query *q,
                    double unit[], struct mlt_searcher_error *err)
{
    const struct hill *h = state;
    const struct mlt_searcher_trial *best = best_of(q);
    uint64_t trial = q->told_len + q->running_len;
    double step = h->step / sqrt(1.0 + (double)trial / 8);

    (void)err;
    for (size_t k = 0; k < q->axes; k++) {
        if (!best || trial % 2 == 0) {
            unit[k] = spread(h->seed, trial / 2, k);
        } else {
            double u =
                best->at.unit[k] + step * (2 * number(h->seed, trial, k) - 1);

            unit[k] = u < 0 ? 0 : u > 1 ? 1 : u;
        }
    }
    return MLT_SEARCHER_OK;
}

static void hill_close(void *state)
{
    free(state);
}

const struct mlt_searcher_ops mltune_searcher = {
    .version = MLT_SEARCHER_VERSION,
    .name = "hill",
    .summary = "steps from the best so far, and points spread evenly",
    .settings = "{\"type\": \"object\", \"properties\": {\"step\": {"
                "\"type\": \"number\", \"exclusiveMinimum\": 0, "
                "\"maximum\": 1, \"default\": 0.3, \"description\": "
                "\"the first steps' length, in parts of a range\"}}}",
    .open = hill_open,
    .ask = hill_ask,
    .close = hill_close,
};
