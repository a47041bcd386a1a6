#include "tests/unit/lsq.h"

#include "base/clock_io.h"
#include "base/err.h"
#include "base/rng.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lsq {
    uint64_t samples, validation;
    uint32_t dims;
    uint64_t seed;
    float *x, *y;   /* training rows, then validation rows */
    int fail_clock; /* -1: never */
    int nan_clock;
    int slow_us;
    unsigned workers;
    const struct mlt_ps *ps;
    mlt_table w, seen, own;
};

lsq_watch *lsq_watcher;

static void generate(struct lsq *l)
{
    uint64_t n = l->samples + l->validation;
    struct rng r;

    rng_init(&r, rng_mix(l->seed, 77));
    for (uint64_t i = 0; i < n; i++) {
        double y = 0;

        for (uint32_t d = 0; d < l->dims; d++) {
            double x = rng_normal(&r);

            l->x[i * l->dims + d] = (float)x;
            y += x * (d % 2 ? -1.0 : 2.0);
        }
        l->y[i] = (float)(y + 0.1 * rng_normal(&r));
    }
}

static int lsq_open(const struct mlt_app_config *config,
                    struct mlt_app_info *info, void **app,
                    struct mlt_error *err)
{
    json_t *s = json_loads(config->settings, 0, NULL);
    struct lsq *l = calloc(1, sizeof(*l));
    const char *order = json_string_value(json_object_get(s, "order"));
    const char *data = json_string_value(json_object_get(s, "data"));

    if (data && strcmp(data, "missing") == 0) {
        err->code = ERR_IO;
        snprintf(err->text, sizeof(err->text),
                 "missing: there is no such file; expected least squares");
        json_decref(s);
        free(l);
        return ERR_IO;
    }
    l->samples = (uint64_t)json_integer_value(json_object_get(s, "samples"));
    l->dims = (uint32_t)json_integer_value(json_object_get(s, "dims"));
    l->fail_clock = (int)json_integer_value(json_object_get(s, "fail_clock"));
    l->nan_clock = (int)json_integer_value(json_object_get(s, "nan_clock"));
    l->slow_us = (int)json_integer_value(json_object_get(s, "slow_us"));
    l->validation = config->evaluate ? 0 : l->samples / 4;
    l->seed = 5; /* the data do not depend on the run */
    l->workers = config->workers;
    l->x = calloc((l->samples + l->validation) * l->dims, sizeof(float));
    l->y = calloc(l->samples + l->validation, sizeof(float));
    generate(l);
    *info = (struct mlt_app_info){
        .samples = l->samples,
        .validation_samples = config->evaluate ? l->samples : l->validation,
        .order = order && strcmp(order, "parts") == 0 ? MLT_ORDER_PARTS
                                                      : MLT_ORDER_SAMPLES,
        .parts = (uint64_t)json_integer_value(json_object_get(s, "parts")),
        .metric = "rmse",
        .metric_reduction = MLT_SQRT_MEAN,
        .loss_floor = 0,
    };
    if (config->evaluate)
        l->validation = 0;
    json_decref(s);
    *app = l;
    return 0;
}

static int lsq_declare(void *app, struct mlt_ps *ps, struct mlt_error *err)
{
    struct lsq *l = app;
    struct mlt_table_options w = {.size = sizeof(w),
                                  .name = "w",
                                  .rows = 4,
                                  .width = (l->dims + 3) / 4,
                                  .type = MLT_F32,
                                  .access = MLT_SHARED};
    struct mlt_table_options seen = {.size = sizeof(seen),
                                     .name = "seen",
                                     .rows = l->workers,
                                     .width = 2,
                                     .type = MLT_F64,
                                     .access = MLT_EXCLUSIVE,
                                     .rule = "add",
                                     .flags = MLT_NOT_SAVED,
                                     .chunk_bytes = 16};
    struct mlt_table_options own = {.size = sizeof(own),
                                    .name = "own",
                                    .rows = 3,
                                    .width = 1,
                                    .type = MLT_I32,
                                    .access = MLT_LOCAL};
    int code = mlt_ps_table(ps, &w, &l->w, err);

    l->ps = ps;
    if (!code)
        code = mlt_ps_table(ps, &seen, &l->seen, err);
    return code ? code : mlt_ps_table(ps, &own, &l->own, err);
}

static int lsq_init(void *app, struct mlt_worker *w)
{
    struct lsq *l = app;

    *(int32_t *)mlt_row(w, l->own, 2) = 41;
    return 0;
}

static double error_at(const struct lsq *l, const float *const row[4],
                       uint64_t i)
{
    const float *x = l->x + i * l->dims;
    uint32_t width = (l->dims + 3) / 4;
    double e = -l->y[i];

    for (uint32_t d = 0; d < l->dims; d++)
        e += (double)x[d] * (double)row[d / width][d % width];
    return e;
}

static void busy(int us)
{
    time_ns end = clock_monotonic() + (time_ns)us * 1000;

    while (us && clock_monotonic() < end)
        ;
}

static int train(struct lsq *l, struct mlt_worker *w,
                 const struct mlt_clock_ctx *ctx, const float *const row[4])
{
    uint32_t width = (l->dims + 3) / 4;
    double scale = 2 * mlt_tunable(w, "shrink", 1) / (double)ctx->clock_samples;
    uint64_t count = ctx->count, stride = 1, i = 0;
    double sum = 0;

    if (!ctx->samples && ctx->clock_samples) { /* a part: samples part, + parts,
                                                * ... of this worker */
        stride = l->samples / ctx->clock_samples;
        count = ctx->clock_samples;
    }
    for (; i < count; i++) {
        uint64_t s = ctx->samples ? ctx->samples[i] : ctx->part + i * stride;
        double e;

        if (!ctx->samples && i % l->workers != mlt_worker_index(w))
            continue;
        e = error_at(l, row, s);
        sum += e * e;
        for (uint32_t d = 0; d < l->dims; d++)
            ((float *)mlt_update_row(w, l->w, d / width))[d % width] +=
                (float)(scale * e * (double)l->x[s * l->dims + d]);
    }
    if (l->nan_clock >= 0 && ctx->clock == (uint64_t)l->nan_clock)
        sum = NAN;
    mlt_report(w, sum / 2, count / 2);
    mlt_report(w, sum - sum / 2, count - count / 2);
    return 0;
}

static int lsq_clock(void *app, struct mlt_worker *w,
                     const struct mlt_clock_ctx *ctx)
{
    struct lsq *l = app;
    const float *row[4];
    double sum = 0;

    if (lsq_watcher)
        lsq_watcher(mlt_worker_index(w), ctx);
    busy(l->slow_us);
    for (uint32_t r = 0; r < 4; r++)
        if (!(row[r] = mlt_get_row(w, l->w, r)))
            return ERR_CANCELED;
    if (ctx->type != MLT_CLOCK_TESTING) {
        double delta[2] = {(double)ctx->count, 1};
        uint64_t first, rows;

        if (l->fail_clock >= 0 && ctx->clock == (uint64_t)l->fail_clock &&
            mlt_worker_index(w) == l->workers - 1)
            return ERR_APP;
        mlt_owned_rows(l->ps, l->seen, mlt_worker_index(w), &first, &rows);
        if (rows)
            mlt_inc_row(w, l->seen, first, delta);
        ++*(int32_t *)mlt_row(w, l->own, 0);
        return train(l, w, ctx, row);
    }
    for (uint64_t i = 0; i < ctx->count; i++) {
        uint64_t s = ctx->first + i + (l->validation ? l->samples : 0);
        double e = error_at(l, row, s);

        sum += e * e;
    }
    mlt_report(w, sum, ctx->count);
    return 0;
}

static int lsq_save(void *app, const char *dir, char *json, size_t size,
                    struct mlt_error *err)
{
    struct lsq *l = app;

    (void)dir;
    (void)err;
    snprintf(json, size, "{\"dims\": %u}", l->dims);
    return 0;
}

static int lsq_load(void *app, const char *dir, struct mlt_error *err)
{
    (void)app;
    (void)dir;
    (void)err;
    return 0;
}

static void lsq_close(void *app)
{
    struct lsq *l = app;

    free(l->x);
    free(l->y);
    free(l);
}

static const char *const lsq_tunables[] = {
    "learning_rate",  "momentum", "batch_size", "staleness",
    "bandwidth_mbps", "shrink",   NULL};

#define LSQ                                                                    \
    .version = MLT_APP_VERSION, .name = "lsq",                                 \
    .summary = "least squares, for tests",                                     \
    .schema = "{\"type\": \"object\", \"properties\": {"                       \
              "\"name\": {\"type\": \"string\"},"                              \
              "\"data\": {\"type\": \"string\"},"                              \
              "\"samples\": {\"type\": \"integer\", \"default\": 240},"        \
              "\"dims\": {\"type\": \"integer\", \"default\": 6},"             \
              "\"parts\": {\"type\": \"integer\", \"default\": 0},"            \
              "\"order\": {\"type\": \"string\", \"default\": \"samples\"},"   \
              "\"fail_clock\": {\"type\": \"integer\", \"default\": -1},"      \
              "\"nan_clock\": {\"type\": \"integer\", \"default\": -1},"       \
              "\"slow_us\": {\"type\": \"integer\", \"default\": 0}}}",        \
    .tunables = lsq_tunables, .open = lsq_open, .declare = lsq_declare,        \
    .init = lsq_init, .run_clock = lsq_clock, .close = lsq_close

const struct mlt_app_ops lsq_app = {LSQ, .save = lsq_save, .load = lsq_load};
