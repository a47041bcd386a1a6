#include "apps/mlr/mlr_kernel.h"
#include "apps/nn/nn_space.h"

#include <string.h>

/* The layers' own kernels as calls of a space: each is told what it touches, so
 * that a space can find out who comes too early. */

static size_t samples_bytes(const struct nn_batch *batch, struct nn_shape s)
{
    return (batch->n * nn_shape_size(s) + NN_SLACK) * sizeof(float);
}

/* ---- spans --------------------------------------------------------------- */

static void touch(struct space_call *c, const void *at, size_t bytes)
{
    unsigned i = 0;

    if (!at || bytes == 0)
        return;
    while (c->write[i].bytes && c->write[i].at != at)
        i++;
    c->write[i].at = (void *)(uintptr_t)at;
    if (bytes > c->write[i].bytes)
        c->write[i].bytes = bytes;
}

static size_t rows_bytes(const struct nn_space_pass *p)
{
    const struct nn_layer *l = p->state.layer;

    return l->rows ? ((l->rows - 1) * p->stride + l->row_width) * sizeof(float)
                   : 0;
}

static void touch_layer(struct space_call *c, const struct nn_space_pass *p)
{
    const struct nn_layer *l = p->state.layer;

    touch(c, p->state.x, samples_bytes(&p->batch, l->in));
    touch(c, p->state.y, samples_bytes(&p->batch, l->out));
    touch(c, p->state.work, nn_space_host.work_bytes(l, p->batch.n));
    touch(c, p->params, rows_bytes(p));
    touch(c, p->moments, l->moments * sizeof(float));
}

static void touch_gradients(struct space_call *c, const struct nn_space_pass *p)
{
    const struct nn_layer *l = p->state.layer;

    touch(c, p->state.dy, samples_bytes(&p->batch, l->out));
    touch(c, p->state.dx, samples_bytes(&p->batch, l->in));
    touch(c, p->grads, (size_t)l->rows * l->row_width * sizeof(float));
    touch(c, p->moments_grads, l->moments * sizeof(float));
}

static void put(const struct nn_space_pass *p, struct space_call *c)
{
    p->stream->space->ops->call(p->stream, c);
}

/* ---- what runs there ----------------------------------------------------- */

static struct nn_params params_of(const struct nn_space_pass *p)
{
    for (uint32_t r = 0; r < p->state.layer->rows; r++)
        p->row[r] = p->params + r * p->stride;
    return (struct nn_params){.row = p->row, .moments = p->moments};
}

static struct nn_grads grads_of(const struct nn_space_pass *p)
{
    const struct nn_layer *l = p->state.layer;

    for (uint32_t r = 0; r < l->rows; r++)
        p->gradient[r] = p->grads + (size_t)r * l->row_width;
    return (struct nn_grads){.row = p->gradient, .moments = p->moments_grads};
}

static enum err run_forward(const void *arg, struct fault *f)
{
    const struct nn_space_pass *p = arg;
    struct nn_params params = params_of(p);

    (void)f;
    nn_ops_of(p->state.layer->kind)->forward(&p->state, &p->batch, &params);
    return ERR_OK;
}

static enum err run_backward(const void *arg, struct fault *f)
{
    const struct nn_space_pass *p = arg;
    const struct nn_layer *l = p->state.layer;
    struct nn_params params = params_of(p);
    struct nn_grads grads = grads_of(p);

    (void)f;
    if (!p->add && l->rows)
        memset(p->grads, 0, (size_t)l->rows * l->row_width * sizeof(float));
    if (!p->add && l->moments)
        memset(p->moments_grads, 0, l->moments * sizeof(float));
    nn_ops_of(l->kind)->backward(&p->state, &p->batch, &params, &grads);
    return ERR_OK;
}

struct loss_call {
    struct nn_space_pass pass;
    enum nn_loss loss;
    size_t outputs;
    struct nn_result *out;
};

static enum err run_loss(const void *arg, struct fault *f)
{
    const struct loss_call *c = arg;
    const struct nn_space_pass *p = &c->pass;

    (void)f;
    if (c->loss == NN_CROSS_ENTROPY)
        nn_loss_cross_entropy(&p->batch, c->outputs, p->state.y, p->state.dy,
                              c->out);
    else
        nn_loss_squared(&p->batch, c->outputs, p->state.y, p->state.dy, c->out);
    return ERR_OK;
}

struct penalty_call {
    struct nn_space_pass pass;
    float factor;
};

static enum err run_penalty(const void *arg, struct fault *f)
{
    const struct penalty_call *c = arg;
    const struct nn_layer *l = c->pass.state.layer;

    (void)f;
    for (uint32_t r = 0; r < l->rows; r++)
        mlr_penalty(l->row_units * l->fan_in, c->factor,
                    c->pass.params + r * c->pass.stride,
                    c->pass.grads + (size_t)r * l->row_width);
    return ERR_OK;
}

/* ---- the table ----------------------------------------------------------- */

static uint64_t host_work_bytes(const struct nn_layer *layer, size_t batch_max)
{
    const struct nn_ops *ops = nn_ops_of(layer->kind);

    return ops->work_bytes ? ops->work_bytes(layer, batch_max) : 0;
}

static uint64_t host_scratch_bytes(const struct nn_layer *layer,
                                   size_t batch_max)
{
    (void)layer;
    (void)batch_max;
    return 0;
}

static void host_forward(const struct nn_space_pass *p)
{
    struct space_call c = {
        .fn = run_forward, .arg = p, .arg_bytes = sizeof(*p)};

    touch_layer(&c, p);
    put(p, &c);
}

static void host_backward(const struct nn_space_pass *p)
{
    struct space_call c = {
        .fn = run_backward, .arg = p, .arg_bytes = sizeof(*p)};

    touch_layer(&c, p);
    touch_gradients(&c, p);
    put(p, &c);
}

static void host_loss(const struct nn_space_pass *p, enum nn_loss loss,
                      size_t outputs, struct nn_result *out)
{
    struct loss_call arg = {*p, loss, outputs, out};
    struct space_call c = {
        .fn = run_loss, .arg = &arg, .arg_bytes = sizeof(arg)};
    size_t bytes = p->batch.n * outputs * sizeof(float);

    touch(&c, p->state.y, bytes);
    touch(&c, p->state.dy, bytes);
    touch(&c, p->batch.label, p->batch.n * sizeof(*p->batch.label));
    touch(&c, p->batch.target, p->batch.n * outputs * sizeof(float));
    touch(&c, out, sizeof(*out));
    put(p, &c);
}

static void host_penalty(const struct nn_space_pass *p, float factor)
{
    const struct nn_layer *l = p->state.layer;
    struct penalty_call arg = {*p, factor};
    struct space_call c = {
        .fn = run_penalty, .arg = &arg, .arg_bytes = sizeof(arg)};

    touch(&c, p->params, rows_bytes(p));
    touch(&c, p->grads, (size_t)l->rows * l->row_width * sizeof(float));
    put(p, &c);
}

const struct space_nn_ops nn_space_host = {
    .version = NN_SPACE_VERSION,
    .block = 0,
    .work_bytes = host_work_bytes,
    .scratch_bytes = host_scratch_bytes,
    .forward = host_forward,
    .backward = host_backward,
    .loss = host_loss,
    .penalty = host_penalty,
};
