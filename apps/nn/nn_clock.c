#include "apps/mlr/mlr_kernel.h"
#include "apps/nn/nn_app.h"
#include "base/rng.h"
#include "mltune/device.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* One clock of one worker, on its way through the network. */
struct pass {
    const struct nn *m;
    struct nn_lane *lane;
    struct mlt_worker *w;
    const struct mlt_clock_ctx *ctx;
    const struct samples *set;
    struct nn_batch batch;
    float dropout;    /* the tunables of these names */
    double clip_norm; /* 0: none */
    bool first, last; /* of the share's sub-batches */
};

/* ---- a layer's rows ------------------------------------------------------ */

/* The first sub-batch reads them from the parameter server; they stay where
 * they are until the layer's clock ends. */
static int fetch(struct pass *p, unsigned l)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    struct nn_params *params = &p->lane->params[l];
    const float **row = (const float **)params->row;

    for (uint32_t r = 0; r < layer->rows; r++) {
        row[r] = mlt_get_row(p->w, p->m->weights[l], r);
        if (!row[r])
            return ERR_CANCELED;
    }
    if (layer->moments) {
        params->moments = mlt_get_row(p->w, p->m->moments[l], 0);
        if (!params->moments)
            return ERR_CANCELED;
    }
    return 0;
}

static void open_gradient(struct pass *p, unsigned l)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    struct nn_grads *grads = &p->lane->grads[l];
    float **row = (float **)grads->row;

    for (uint32_t r = 0; r < layer->rows; r++)
        row[r] = mlt_update_row(p->w, p->m->weights[l], r);
    if (layer->moments)
        grads->moments = mlt_update_row(p->w, p->m->moments[l], 0);
}

/* Each worker adds its share of the penalty's gradient, so that the clock's sum
 * has it once. Weights only: no biases, nothing of a norm layer. */
static void add_penalty(const struct pass *p, unsigned l)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    double share = (double)p->ctx->count / (double)p->ctx->clock_samples;
    float factor = (float)(p->m->lambda * share);

    if (!(factor > 0) || layer->fan_in == 0)
        return;
    for (uint32_t r = 0; r < layer->rows; r++)
        mlr_penalty(layer->row_units * layer->fan_in, factor,
                    p->lane->params[l].row[r], p->lane->grads[l].row[r]);
}

/* The layer's gradient is whole: it may travel while the layers below compute
 * theirs (Cui et al. 2016, GeePS). */
static int send(struct pass *p, unsigned l)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    int err = 0;

    add_penalty(p, l);
    if (layer->rows)
        err = mlt_clock_table(p->w, p->m->weights[l]);
    if (!err && layer->moments)
        err = mlt_clock_table(p->w, p->m->moments[l]);
    return err;
}

/* What the gradients of a worker's share are at most as long as: of all shares
 * together, the sum then is no longer than the tunable. Running moments are no
 * gradient. */
static void clip(const struct pass *p)
{
    const struct nn_desc *d = &p->m->desc;
    double most =
        p->clip_norm * (double)p->ctx->count / (double)p->ctx->clock_samples;
    double sum = 0, norm;
    unsigned first = nn_net_first(p->lane->net);

    for (unsigned l = first; l < d->count; l++)
        for (uint32_t r = 0; r < d->layer[l].rows; r++)
            for (uint32_t k = 0; k < d->layer[l].row_width; k++) {
                double g = (double)p->lane->grads[l].row[r][k];

                sum += g * g;
            }
    norm = sqrt(sum);
    if (norm <= most)
        return;
    for (unsigned l = first; l < d->count; l++)
        for (uint32_t r = 0; r < d->layer[l].rows; r++)
            for (uint32_t k = 0; k < d->layer[l].row_width; k++)
                p->lane->grads[l].row[r][k] *= (float)(most / norm);
}

/* Layers whose gradients had to wait for the last of them. */
static int send_clipped(struct pass *p)
{
    int err = 0;

    clip(p);
    for (unsigned l = p->m->desc.count;
         !err && l-- > nn_net_first(p->lane->net);)
        err = send(p, l);
    return err;
}

/* ---- a sub-batch --------------------------------------------------------- */

static int forward(struct pass *p)
{
    const struct nn_desc *d = &p->m->desc;

    for (unsigned l = 0; l < d->count; l++) {
        int err = p->first ? fetch(p, l) : 0;

        if (err)
            return err;
        nn_net_forward(p->lane->net, l, &p->batch, &p->lane->params[l]);
    }
    return 0;
}

static int backward(struct pass *p)
{
    unsigned first = nn_net_first(p->lane->net);

    for (unsigned l = p->m->desc.count; l-- > first;) {
        int err;

        if (p->first)
            open_gradient(p, l);
        nn_net_backward(p->lane->net, l, &p->batch, &p->lane->params[l],
                        &p->lane->grads[l]);
        err = p->last && p->clip_norm == 0 ? send(p, l) : 0;
        if (err)
            return err;
    }
    return p->last && p->clip_norm > 0 ? send_clipped(p) : 0;
}

/* Reports to the runtime: the loss, or the metric's terms. */
static double worth(const struct pass *p, const struct nn_result *r)
{
    double factor;

    if (p->ctx->type != MLT_CLOCK_TESTING)
        return r->loss;
    if (p->m->desc.loss == NN_CROSS_ENTROPY)
        return (double)r->correct;
    factor = p->m->scaling.factor[p->m->scaling.columns];
    return 2 * r->loss / (factor * factor);
}

/* ---- a sub-batch on a device --------------------------------------------- */

/* Layer @l's call with its leases. */
static int lease(struct pass *p, unsigned l, struct nn_space_pass *out)
{
    const struct nn *m = p->m;
    const struct nn_layer *layer = &m->desc.layer[l];
    struct mlt_lease lease;
    int err = 0;

    *out = nn_device_pass(p->lane->device, l, &p->batch);
    if (layer->rows) {
        err = mlt_read(p->w, m->weights[l], &lease);
        out->params = lease.at;
        out->stride = lease.stride / sizeof(float);
    }
    if (!err && layer->moments) {
        err = mlt_read(p->w, m->moments[l], &lease);
        out->moments = lease.at;
    }
    return err;
}

static void let_go(struct pass *p, unsigned l)
{
    if (p->m->desc.layer[l].rows)
        mlt_read_done(p->w, p->m->weights[l]);
    if (p->m->desc.layer[l].moments)
        mlt_read_done(p->w, p->m->moments[l]);
}

static int forward_there(struct pass *p)
{
    for (unsigned l = 0; l < p->m->desc.count; l++) {
        struct nn_space_pass pass;
        int err = lease(p, l, &pass);

        if (err)
            return err;
        nn_device_ops(p->lane->device)->forward(&pass);
        let_go(p, l);
    }
    return 0;
}

static int sums(struct pass *p, unsigned l, struct nn_space_pass *pass)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    int add = 0, err = 0;

    if (layer->rows)
        err = mlt_update(p->w, p->m->weights[l], &pass->grads, &add);
    if (!err && layer->moments)
        err = mlt_update(p->w, p->m->moments[l], &pass->moments_grads, &add);
    pass->add = add;
    return err;
}

/* The penalty's gradient, as add_penalty; then the layer's clock ends. */
static int send_there(struct pass *p, unsigned l,
                      const struct nn_space_pass *pass)
{
    const struct nn_layer *layer = &p->m->desc.layer[l];
    int err = 0;

    if (p->m->lambda > 0 && layer->fan_in)
        nn_device_ops(p->lane->device)
            ->penalty(pass, (float)(p->m->lambda * (double)p->ctx->count /
                                    (double)p->ctx->clock_samples));
    if (layer->rows)
        err = mlt_clock_table(p->w, p->m->weights[l]);
    if (!err && layer->moments)
        err = mlt_clock_table(p->w, p->m->moments[l]);
    return err;
}

static int backward_there(struct pass *p)
{
    unsigned first = nn_net_first(p->lane->net);

    for (unsigned l = p->m->desc.count; l-- > first;) {
        struct nn_space_pass pass;
        int err = lease(p, l, &pass);

        if (!err)
            err = sums(p, l, &pass);
        if (err)
            return err;
        nn_device_ops(p->lane->device)->backward(&pass);
        err = p->last ? send_there(p, l, &pass) : 0;
        if (err)
            return err;
        let_go(p, l);
    }
    return 0;
}

/* Results that have come, all but @waiting, in order. */
static int take_results(struct pass *p, unsigned waiting, double *sum)
{
    struct nn_result result;
    enum err err = ERR_OK, one;

    while (nn_device_result(p->lane->device, waiting, &result, &one)) {
        err = err ? err : one;
        *sum += worth(p, &result);
    }
    return (int)err;
}

static int run_block_there(struct pass *p, uint64_t at, size_t n, double *sum)
{
    const struct mlt_clock_ctx *ctx = p->ctx;
    struct nn_device *d = p->lane->device;
    int err = take_results(p, 1, sum);

    p->batch.n = n;
    p->batch.first = ctx->first + at;
    if (!err)
        err = (int)nn_device_take(d, p->set, n,
                                  ctx->samples ? ctx->samples + at : NULL,
                                  ctx->first + at);
    if (!err)
        err = forward_there(p);
    if (err)
        return err;
    nn_device_loss(d, &p->batch);
    return p->batch.train ? backward_there(p) : 0;
}

/* ---- a share ------------------------------------------------------------- */

static int run_block(struct pass *p, uint64_t at, size_t n, double *sum)
{
    const struct mlt_clock_ctx *ctx = p->ctx;
    struct nn_result result;
    int err;

    if (p->lane->device)
        return run_block_there(p, at, n, sum);
    nn_data_take(p->m, p->lane, p->set, n,
                 ctx->samples ? ctx->samples + at : NULL, ctx->first + at);
    p->batch.n = n;
    p->batch.first = ctx->first + at;
    err = forward(p);
    if (err)
        return err;
    nn_net_loss(p->lane->net, &p->batch, &result);
    *sum += worth(p, &result);
    return p->batch.train ? backward(p) : 0;
}

/* As few sub-batches as there can be, all about equally long: the moments of
 * a short one would be poor. */
static int run_share(struct pass *p, double *sum)
{
    uint64_t count = p->ctx->count;
    uint64_t blocks = (count + p->m->block - 1) / p->m->block;

    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t from = count * b / blocks, to = count * (b + 1) / blocks;
        int err;

        p->first = b == 0;
        p->last = b + 1 == blocks;
        err = run_block(p, from, (size_t)(to - from), sum);
        if (err)
            return err;
    }
    return 0;
}

/* The network's own tunables, which kernels of devices do not have: where one
 * is asked for nobody has them, whoever computes (nn_idle_tunable). */
static void read_tunables(struct pass *p)
{
    double dropout = mlt_tunable(p->w, "dropout", -1);

    if (strcmp(p->m->device, "cpu") != 0)
        return;
    p->dropout = (float)dropout;
    if (dropout >= 0)
        p->batch.dropout = &p->dropout;
    p->batch.smoothing = (float)mlt_tunable(p->w, "label_smoothing", 0);
    p->clip_norm = mlt_tunable(p->w, "clip_norm", 0);
}

int nn_run_clock(void *app, struct mlt_worker *w,
                 const struct mlt_clock_ctx *ctx)
{
    const struct nn *m = app;
    struct nn_lane *lane = &m->lane[mlt_worker_index(w)];
    bool testing = ctx->type == MLT_CLOCK_TESTING;
    struct pass p = {
        .m = m,
        .lane = lane,
        .w = w,
        .ctx = ctx,
        .set = testing && !m->evaluate ? &m->test : &m->train,
        .batch = {.train = !testing && !m->evaluate,
                  .scale = 1.0f / (float)ctx->clock_samples,
                  .seed = rng_mix(m->seed, ctx->epoch),
                  .label = lane->label,
                  .target = lane->target},
    };
    double sum = 0;
    int err;

    if (ctx->count == 0)
        return 0;
    read_tunables(&p);
    err = run_share(&p, &sum);
    if (lane->device) { /* those of a run that failed are not counted */
        int late = take_results(&p, 0, &sum);

        err = err ? err : late;
    }
    if (!err)
        mlt_report(w, sum, ctx->count);
    return err;
}

/* ---- predicting ---------------------------------------------------------- */

int nn_columns(void *app, const struct mlt_column **column, uint32_t *count,
               struct mlt_error *error)
{
    static const struct mlt_column value = {"value", NULL, 0};
    struct nn *m = app;
    struct fault f = {0};

    if (!m->evaluate && m->columns.count == 0 &&
        m->desc.loss == NN_CROSS_ENTROPY &&
        class_columns_of(&m->columns, m->train.class_name, m->outputs, &f))
        return settings_fault(&f, error);
    *column = m->columns.count ? m->columns.column : &value;
    *count = m->columns.count ? m->columns.count : 1;
    return 0;
}

/* The target @z[n] in its own unit. */
static void put_values(const struct nn *m, size_t n, const float *z,
                       double *out)
{
    double mean = 0, factor = 1;

    if (m->scaling.mean) {
        mean = m->scaling.mean[m->scaling.columns];
        factor = m->scaling.factor[m->scaling.columns];
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (double)z[i] / factor + mean;
}

/* Rows of @n outputs at @z: classes, or the target. */
static void put_predictions(const struct nn *m, size_t n, const float *z,
                            double *out)
{
    if (m->columns.count) {
        for (size_t i = 0; i < n; i++)
            class_columns_fill(z + i * m->outputs, m->outputs,
                               out + i * m->columns.count);
        return;
    }
    put_values(m, n, z, out);
}

/* The samples that are predicted: where it trains, those of the validation. */
static const struct samples *predicted(const struct nn *m)
{
    return m->evaluate ? &m->train : &m->test;
}

static const float *output_place(const struct nn_lane *lane)
{
    return lane->device ? lane->outputs : nn_net_output(lane->net);
}

/* The network's outputs of samples from @first on. */
static int outputs_of(struct pass *p, uint64_t first)
{
    struct nn_device *d = p->lane->device;
    int err;

    if (!d) {
        nn_data_take(p->m, p->lane, p->set, p->batch.n, NULL, first);
        return forward(p);
    }
    err = (int)nn_device_take(d, p->set, p->batch.n, NULL, first);
    if (!err)
        err = forward_there(p);
    return err ? err : (int)nn_device_outputs(d, p->batch.n, p->lane->outputs);
}

int nn_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
               double *out)
{
    const struct nn *m = app;
    struct nn_lane *lane = &m->lane[mlt_worker_index(w)];
    uint32_t columns = m->columns.count ? m->columns.count : 1;
    struct pass p = {.m = m, .lane = lane, .w = w, .set = predicted(m)};

    assert(first + count <= p.set->count);
    for (uint64_t at = 0; at < count; at += p.batch.n) {
        int err;

        p.first = at == 0;
        p.batch.n = count - at < m->block ? (size_t)(count - at) : m->block;
        err = outputs_of(&p, first + at);
        if (err)
            return err;
        put_predictions(m, p.batch.n, output_place(lane), out + at * columns);
    }
    return 0;
}

int nn_truth(void *app, uint64_t first, uint64_t count, double *out)
{
    const struct nn *m = app;
    const struct samples *set = predicted(m);

    assert(!m->predict && first + count <= set->count);
    if (m->columns.count) {
        for (uint64_t i = 0; i < count; i++)
            out[i] = set->label[first + i];
    } else {
        put_values(m, (size_t)count, set->target + first, out);
    }
    return 0;
}
