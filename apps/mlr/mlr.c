#include "apps/mlr/mlr.h"

#include "apps/formats/data_stream.h"
#include "apps/mlr/mlr_app.h"
#include "apps/mlr/mlr_values.h"
#include "apps/samples/samples_load.h"
#include "apps/settings.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Small chunks, so that the classes spread over all workers' shards: a row of
 * 784 weights has a chunk of its own. */
enum { CHUNK_BYTES = 1024, SCRATCH_ALIGN = 64 };

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\", \"x-task\": \"classes\","
    " \"x-table-patience\": true,"
    " \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("mlr", "images (idx, cifar) or a table (csv) with labels") ","
    SAMPLES_SCHEMA ","
    "\"clock\": {\"anyOf\": [{\"enum\": [\"batch\", \"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000000}],"
    " \"default\": \"batch\", \"description\":"
    " \"what a clock is: a mini-batch a worker, a pass over the data, or a pass"
    " cut into that many\"},"
    "\"lambda\": {\"type\": \"number\", \"default\": 0, \"minimum\": 0,"
    " \"description\": \"weight of the penalty lambda/2 |w|^2, biases left"
    " out\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {
    "learning_rate", "momentum",    "batch_size", "staleness",
    "weight_decay",  "update_rule", "warmup",     NULL};

/* ---- data ---------------------------------------------------------------- */

static void packed_deinit(struct mlr_packed *p)
{
    mem_free(p->pixel);
    mem_free(p->value);
    mem_free(p->label);
    memset(p, 0, sizeof(*p));
}

static enum err pack_pixels(struct mlr_packed *p, const struct samples *s,
                            struct fault *f)
{
    uint64_t width = samples_values(s), stride = mlr_packed_bytes(width), i;
    enum err err =
        data_memory_check("images", s->count * stride, data_memory_limit(), f);

    if (err)
        return err;
    p->pixel = mem_aligned(SCRATCH_ALIGN, s->count * stride);
    if (!p->pixel)
        return fault_set(f, ERR_NOMEM, "images: out of memory");
    for (i = 0; i < s->count; i++)
        mlr_pack(width, s->pixel + i * width, p->pixel + i * stride);
    return ERR_OK;
}

enum err mlr_packed_init(struct mlr_packed *p, struct samples *s,
                         struct fault *f)
{
    enum err err;

    if (s->count == 0)
        return ERR_OK;
    err = s->pixel ? pack_pixels(p, s, f) : ERR_OK;
    if (err)
        return err;
    p->count = s->count;
    p->value = s->value;
    p->label = s->label;
    s->value = NULL;
    s->label = NULL;
    return ERR_OK;
}

static void mlr_close(void *app)
{
    struct mlr *m = app;

    if (!m)
        return;
    packed_deinit(&m->train);
    packed_deinit(&m->test);
    samples_deinit(&m->shape);
    samples_deinit(&m->unpacked);
    scaling_deinit(&m->scaling);
    class_columns_deinit(&m->columns);
    mem_free(m->scratch);
    mem_free(m->data);
    mem_free(m);
}

/* Takes over the names of classes and columns, and how they were encoded. */
static void take_shape(struct mlr *m, struct samples *train)
{
    samples_take_shape(&m->shape, train);
    m->width = samples_values(&m->shape);
    m->stride = mlr_packed_bytes(m->width);
    m->classes = m->shape.classes;
}

static enum err take_training(struct mlr *m, const char *name,
                              struct samples *train, struct samples *test,
                              struct fault *f)
{
    enum err err;

    if (train->classes < 2)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected labels of at least two classes, found "
                         "only one",
                         name);
    take_shape(m, train);
    err = scaling_of(train, &m->scaling, f);
    if (err)
        return err;
    scaling_apply(&m->scaling, train);
    scaling_apply(&m->scaling, test);
    err = mlr_packed_init(&m->train, train, f);
    return err ? err : mlr_packed_init(&m->test, test, f);
}

/* Data to be evaluated: a table waits for the model (mlr_load). */
static enum err take_evaluated(struct mlr *m, struct samples *s,
                               struct fault *f)
{
    m->train.count = s->count;
    if (s->value) {
        m->unpacked = *s;
        memset(s, 0, sizeof(*s));
        m->shape = (struct samples){.channels = m->unpacked.channels,
                                    .height = m->unpacked.height,
                                    .width = m->unpacked.width,
                                    .classes = m->unpacked.classes};
        m->width = samples_values(&m->shape);
        m->classes = m->shape.classes;
        return ERR_OK;
    }
    take_shape(m, s);
    return mlr_packed_init(&m->train, s, f);
}

static enum err load_data(struct mlr *m, const struct settings *s,
                          struct fault *f)
{
    struct samples train = {0}, test = {0};
    enum err err = samples_load(s, false, &train, &test, f);

    if (!err)
        err = m->evaluate ? take_evaluated(m, &train, f)
                          : take_training(m, s->test ? s->test : s->data,
                                          &train, &test, f);
    samples_deinit(&train);
    samples_deinit(&test);
    return err;
}

static enum err open_mlr(struct mlr *m, const struct mlt_app_config *config,
                         uint64_t *clocks, struct fault *f)
{
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    m->lambda = settings_number(&s, "lambda", 0);
    m->evaluate = s.evaluate;
    m->predict = s.predict != NULL;
    m->workers = config->workers;
    *clocks = s.evaluate ? 1 : s.clocks;
    m->scratch = mem_aligned(SCRATCH_ALIGN, m->workers * sizeof(*m->scratch));
    m->data = mem_strdup(s.data);
    if (!m->scratch || !m->data)
        err = fault_set(f, ERR_NOMEM, "mlr: out of memory");
    else
        err = load_data(m, &s, f);
    settings_deinit(&s);
    return err;
}

static int mlr_open(const struct mlt_app_config *config,
                    struct mlt_app_info *info, void **app,
                    struct mlt_error *error)
{
    struct mlr *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};
    uint64_t clocks = 0;

    assert(config->workers >= 1);
    if (!m || open_mlr(m, config, &clocks, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "mlr: out of memory");
        mlr_close(m);
        return settings_fault(&f, error);
    }
    *info = (struct mlt_app_info){
        .samples = m->train.count,
        .validation_samples = m->evaluate ? m->train.count : m->test.count,
        .order = MLT_ORDER_SAMPLES,
        .parts = clocks < m->train.count ? clocks : m->train.count,
        .metric = "accuracy",
        .metric_higher_better = 1,
        .metric_reduction = MLT_MEAN,
        .loss_floor = 0,
        .data = m->shape.summary,
    };
    *app = m;
    return 0;
}

/* ---- tables -------------------------------------------------------------- */

static int mlr_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct mlr *m = app;
    const struct mlt_table_options weights = {
        .size = sizeof(weights),
        .name = "weights",
        .rows = m->classes,
        .width = (uint32_t)m->width + 1,
        .type = MLT_F32,
        .access = MLT_SHARED,
        .chunk_bytes = CHUNK_BYTES,
        .undecayed = 1,
    };

    return mlt_ps_table(ps, &weights, &m->weights, error);
}

/* All weights begin at zero: the loss is convex, and every class alike. */
static int mlr_init(void *app, struct mlt_worker *w)
{
    (void)app;
    (void)w;
    return 0;
}

/* ---- clocks -------------------------------------------------------------- */

/* Sample number @i of the worker's share. */
static uint64_t sample_at(const struct mlt_clock_ctx *ctx, uint64_t i)
{
    return ctx->samples ? ctx->samples[i] : ctx->first + i;
}

/* Images of the block at @at into @pixel; their number. */
static size_t block_images(const struct mlr *m, const struct mlr_packed *set,
                           const struct mlt_clock_ctx *ctx, uint64_t at,
                           const uint8_t *pixel[MLR_BLOCK])
{
    uint64_t left = at < ctx->count ? ctx->count - at : 0;
    size_t n = left < MLR_BLOCK ? (size_t)left : MLR_BLOCK, i;

    for (i = 0; i < n; i++)
        pixel[i] = set->pixel + sample_at(ctx, at + i) * m->stride;
    return n;
}

/* Sums over a worker's share of a clock. */
enum mlr_pass { PASS_TRAIN, PASS_LOSS, PASS_METRIC };

static double run_rows(const struct mlr_block *b, const float *const *value,
                       enum mlr_pass pass)
{
    switch (pass) {
    case PASS_TRAIN:
        return mlr_values_train(b, value);
    case PASS_LOSS:
        return mlr_values_loss(b, value);
    default:
        return (double)mlr_values_correct(b, value);
    }
}

static double run_block(const struct mlr_block *b, enum mlr_pass pass)
{
    switch (pass) {
    case PASS_TRAIN:
        return mlr_train(b);
    case PASS_LOSS:
        return mlr_loss(b);
    default:
        return (double)mlr_correct(b);
    }
}

static struct mlr_block block_of(const struct mlr *m, struct mlr_scratch *s,
                                 const struct mlt_clock_ctx *ctx)
{
    return (struct mlr_block){.width = m->width,
                              .classes = m->classes,
                              .label = s->label,
                              .weight = s->weight,
                              .gradient = s->gradient,
                              .scale = 1.0f / (float)ctx->clock_samples,
                              .z = s->z};
}

static double run_table(const struct mlr *m, const struct mlr_packed *set,
                        struct mlr_scratch *s, const struct mlt_clock_ctx *ctx,
                        enum mlr_pass pass)
{
    struct mlr_block b = block_of(m, s, ctx);
    double sum = 0;
    uint64_t at;
    size_t i;

    for (at = 0; at < ctx->count; at += b.n) {
        b.n =
            ctx->count - at < MLR_BLOCK ? (size_t)(ctx->count - at) : MLR_BLOCK;
        for (i = 0; i < b.n; i++) {
            uint64_t sample = sample_at(ctx, at + i);

            s->value[i] = set->value + sample * m->width;
            s->label[i] = set->label[sample];
        }
        sum += run_rows(&b, s->value, pass);
    }
    return sum;
}

static double run_images(const struct mlr *m, const struct mlr_packed *set,
                         struct mlr_scratch *s, const struct mlt_clock_ctx *ctx,
                         enum mlr_pass pass)
{
    struct mlr_block b = block_of(m, s, ctx);
    unsigned now = 0;
    uint64_t at = 0;
    double sum = 0;
    size_t next, i;

    b.n = block_images(m, set, ctx, 0, s->pixel[0]);
    while (b.n > 0) {
        next = block_images(m, set, ctx, at + b.n, s->pixel[!now]);
        for (i = 0; i < b.n; i++)
            s->label[i] = set->label[sample_at(ctx, at + i)];
        b.pixel = s->pixel[now];
        b.ahead = next == b.n ? s->pixel[!now] : NULL;
        sum += run_block(&b, pass);
        at += b.n;
        b.n = next;
        now = !now;
    }
    return sum;
}

int mlr_take_weights(const struct mlr *m, struct mlt_worker *w,
                     struct mlr_scratch *s)
{
    unsigned c;

    for (c = 0; c < m->classes; c++) {
        s->weight[c] = mlt_get_row(w, m->weights, c);
        if (!s->weight[c])
            return ERR_CANCELED;
    }
    return 0;
}

/* Each worker adds its share of the penalty's gradient, so that the clock's sum
 * has it once. */
static void add_penalty(const struct mlr *m, const struct mlr_scratch *s,
                        const struct mlt_clock_ctx *ctx)
{
    double share = (double)ctx->count / (double)ctx->clock_samples;
    unsigned c;

    if (!(m->lambda > 0))
        return;
    for (c = 0; c < m->classes; c++)
        mlr_penalty(m->width, (float)(m->lambda * share), s->weight[c],
                    s->gradient[c]);
}

static int mlr_run_clock(void *app, struct mlt_worker *w,
                         const struct mlt_clock_ctx *ctx)
{
    const struct mlr *m = app;
    struct mlr_scratch *s = &m->scratch[mlt_worker_index(w)];
    bool testing = ctx->type == MLT_CLOCK_TESTING;
    const struct mlr_packed *set =
        testing && !m->evaluate ? &m->test : &m->train;
    enum mlr_pass pass = testing       ? PASS_METRIC
                         : m->evaluate ? PASS_LOSS
                                       : PASS_TRAIN;
    unsigned c;
    int err;

    if (ctx->count == 0)
        return 0;
    err = mlr_take_weights(m, w, s);
    if (err)
        return err;
    for (c = 0; pass == PASS_TRAIN && c < m->classes; c++)
        s->gradient[c] = mlt_update_row(w, m->weights, c);
    mlt_report(w,
               set->value ? run_table(m, set, s, ctx, pass)
                          : run_images(m, set, s, ctx, pass),
               ctx->count);
    if (pass == PASS_TRAIN)
        add_penalty(m, s, ctx);
    return 0;
}

const struct mlt_app_ops app_mlr = {
    .version = MLT_APP_VERSION,
    .name = "mlr",
    .summary = "softmax regression of images and tables; validation accuracy",
    .schema = schema,
    .tunables = tunables,
    .open = mlr_open,
    .declare = mlr_declare,
    .init = mlr_init,
    .run_clock = mlr_run_clock,
    .save = mlr_save,
    .load = mlr_load,
    .close = mlr_close,
    .columns = mlr_columns,
    .predict = mlr_predict,
    .truth = mlr_truth,
    .keep = mlr_save,
};
