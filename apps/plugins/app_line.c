/* A training application as a shared object: least squares in C.
 *
 *     cc -shared -fPIC -O2 -o app_line.so app_line.c -lm `pkg-config --cflags
 * mltune` "app": {"plugin": "app_line.so", "inputs": 8}
 *
 * Small on purpose; docs/own-programs.md tells of it. Its data are made up:
 * what a sample is follows from its number.
 */
#include <mltune/app.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS_MAX = 64, TRAIN = 4096, TEST = 512 };

struct line {
    unsigned inputs;
    uint64_t seed;
    mlt_table weights; /* one row */
};

/* A number in -1 .. 1 that depends on nothing but the three (splitmix64). */
static float number(uint64_t seed, uint64_t sample, unsigned i)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15u * (sample * 128 + i + 1);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (float)((z ^ (z >> 31)) >> 40) * 0x1p-23f - 1;
}

static int line_open(const struct mlt_app_config *config,
                     struct mlt_app_info *info, void **app,
                     struct mlt_error *err)
{
    struct line *l = calloc(1, sizeof(*l));
    const char *inputs = strstr(config->settings, "\"inputs\":");

    (void)err;
    if (!l)
        return 2; /* any code that is not 0 */
    l->inputs = inputs ? (unsigned)atoi(inputs + 9) : 8;
    l->seed = config->seed;
    info->samples = TRAIN;
    info->validation_samples = TEST;
    info->order = MLT_ORDER_SAMPLES;
    info->metric = "rmse";
    info->metric_reduction = MLT_SQRT_MEAN;
    info->loss_floor = 0;
    *app = l;
    return 0;
}

static int line_declare(void *app, struct mlt_ps *ps, struct mlt_error *err)
{
    struct line *l = app;
    const struct mlt_table_options weights = {.size = sizeof(weights),
                                              .name = "weights",
                                              .rows = 1,
                                              .width = l->inputs,
                                              .type = MLT_F32,
                                              .access = MLT_SHARED};

    return mlt_ps_table(ps, &weights, &l->weights, err);
}

static int line_init(void *app, struct mlt_worker *w)
{
    (void)app, (void)w; /* rows are zero, as they should be here */
    return 0;
}

static int line_run_clock(void *app, struct mlt_worker *w,
                          const struct mlt_clock_ctx *ctx)
{
    const struct line *l = app;
    const float *weight = mlt_get_row(w, l->weights, 0);
    float gradient[INPUTS_MAX] = {0};
    double sum = 0;

    if (!weight)
        return 1; /* another worker has failed */
    for (uint64_t k = 0; k < ctx->count; k++) {
        uint64_t sample =
            ctx->samples ? ctx->samples[k] : TRAIN + ctx->first + k;
        float error = -0.1f * number(l->seed, sample, INPUTS_MAX); /* noise */

        for (unsigned i = 0; i < l->inputs; i++)
            error += (weight[i] - (float)i) * number(l->seed, sample, i);
        sum += (double)error * error;
        for (unsigned i = 0; i < l->inputs; i++)
            gradient[i] +=
                error * number(l->seed, sample, i) / (float)ctx->clock_samples;
    }
    if (ctx->type != MLT_CLOCK_TESTING)
        mlt_inc_row(w, l->weights, 0, gradient);
    mlt_report(w, sum, ctx->count);
    return 0;
}

static const char *const tunables[] = {"learning_rate", "momentum",
                                       "batch_size", "staleness", NULL};

const struct mlt_app_ops mltune_app = {
    .version = MLT_APP_VERSION,
    .name = "line",
    .summary = "least squares over made-up samples",
    .schema = "{\"properties\": {\"inputs\": {\"type\": \"integer\","
              " \"minimum\": 1, \"maximum\": 64, \"default\": 8,"
              " \"description\": \"values of a sample\"}}}",
    .tunables = tunables,
    .open = line_open,
    .declare = line_declare,
    .init = line_init,
    .run_clock = line_run_clock,
    .close = free,
};
