/* Layers on a GPU: part of libmltune-cuda.so. Matrix products by cuBLAS,
 * convolutions by cuDNN, the rest here (nn_cuda_kernels.cuh).
 *
 * A row of parameters is weights, then biases, so that weights of several rows
 * have gaps: they are gathered before the products and their gradient is
 * scattered after them, 4 passes over the weights beside the products' own.
 */
#include "nn_cuda_kernels.cuh"

#include <cublas_v2.h>
#include <cudnn.h>

extern "C" {
#include "apps/nn/nn_space.h"
extern const struct space_nn_ops nn_cuda;
}

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{

enum {
    BLOCK = 1024, /* samples at a time */
    CONV_SCRATCH = 512 << 20, /* what cuDNN's faster algorithms want */
    PLANS_MAX = 512,
    HANDLE_BLAS = 0,
    HANDLE_DNN = 1,
    HANDLE_PLANS = 2
};

typedef const struct nn_space_pass *pass_t;

cudaStream_t stream_of(struct space_stream *st)
{
    return (cudaStream_t)st->space->ops->stream_native(st);
}

void fail(struct space_stream *st, const char *what, const char *why)
{
    char text[160];

    snprintf(text, sizeof(text), "%s: %s", what, why);
    st->space->ops->stream_fail(st, ERR_IO, text);
}

void launched(struct space_stream *st, const char *what)
{
    cudaError_t e = cudaPeekAtLastError();

    if (e != cudaSuccess)
        fail(st, what, cudaGetErrorString(cudaGetLastError()));
}

bool blas_ok(struct space_stream *st, cublasStatus_t s)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        fail(st, "cuBLAS", cublasGetStatusString(s));
    return s == CUBLAS_STATUS_SUCCESS;
}

bool dnn_ok(struct space_stream *st, cudnnStatus_t s)
{
    if (s != CUDNN_STATUS_SUCCESS)
        fail(st, "cuDNN", cudnnGetErrorString(s));
    return s == CUDNN_STATUS_SUCCESS;
}

/* ---- handles of a stream ------------------------------------------------- */

void close_blas(void *handle)
{
    cublasDestroy((cublasHandle_t)handle);
}

cublasHandle_t blas_of(struct space_stream *st)
{
    struct space_handle *h = st->space->ops->stream_handle(st, HANDLE_BLAS);

    if (!h->handle) {
        cublasHandle_t made;

        if (!blas_ok(st, cublasCreate(&made)))
            return NULL;
        h->handle = made;
        h->close = close_blas;
        blas_ok(st, cublasSetStream(made, stream_of(st)));
        blas_ok(st, cublasSetMathMode(made, CUBLAS_DEFAULT_MATH));
    }
    return (cublasHandle_t)h->handle;
}

void close_dnn(void *handle)
{
    cudnnDestroy((cudnnHandle_t)handle);
}

cudnnHandle_t dnn_of(struct space_stream *st)
{
    struct space_handle *h = st->space->ops->stream_handle(st, HANDLE_DNN);

    if (!h->handle) {
        cudnnHandle_t made;

        if (!dnn_ok(st, cudnnCreate(&made)))
            return NULL;
        h->handle = made;
        h->close = close_dnn;
        dnn_ok(st, cudnnSetStream(made, stream_of(st)));
    }
    return (cudnnHandle_t)h->handle;
}

/* ---- matrices ------------------------------------------------------------ */

/* Row-major c[m][n] = alpha op(a) op(b) + beta c, as cuBLAS's columns. */
void product(struct space_stream *st, bool ta, bool tb, size_t m, size_t n,
             size_t k, const float *a, size_t lda, const float *b, size_t ldb,
             float beta, float *c, size_t ldc)
{
    const float one = 1;
    cublasHandle_t h = blas_of(st);

    if (h)
        blas_ok(st, cublasSgemm(h, tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                                ta ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m,
                                (int)k, &one, b, (int)ldb, a, (int)lda, &beta,
                                c, (int)ldc));
}

rows_shape rows_of(const struct nn_layer *l, size_t stride)
{
    rows_shape r = {l->units, l->row_units, (uint32_t)l->fan_in, stride};

    return r;
}

/* The layer's weights [units][fan_in]: in the row, or gathered into scratch. */
const float *weights_of(pass_t p, float *scratch)
{
    const struct nn_layer *l = p->state.layer;

    if (l->rows == 1)
        return p->params;
    gather_weights(stream_of(p->stream), rows_of(l, p->stride), p->params,
                   scratch);
    launched(p->stream, "weights");
    return scratch;
}

size_t weights_size(const struct nn_layer *l)
{
    return ((size_t)l->units * l->fan_in + 63) / 64 * 64;
}

/* Places in scratch: weights, their gradient (both only of several rows), then
 * partial sums or the library's own. */
struct places {
    float *weights, *gradient;
    char *rest;
    size_t rest_bytes;
};

places places_of(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    size_t size = l->rows > 1 ? weights_size(l) : 0;
    float *at = (float *)p->scratch;
    places s = {at, at + size, (char *)(at + 2 * size),
                p->scratch_bytes - 2 * size * sizeof(float)};

    return s;
}

/* Sums of the columns of dy[m][units] into the places of the biases. */
void bias_gradient(pass_t p, const places *s, size_t m)
{
    const struct nn_layer *l = p->state.layer;

    sum_columns(stream_of(p->stream), m, rows_of(l, l->row_width), p->state.dy,
                p->add, p->grads, s->rest);
    launched(p->stream, "gradient of biases");
}

/* What became of the weights' gradient in @s->gradient. */
void put_gradient(pass_t p, const places *s)
{
    const struct nn_layer *l = p->state.layer;

    if (l->rows == 1)
        return;
    scatter_weights(stream_of(p->stream), rows_of(l, l->row_width), s->gradient,
                    p->add, p->grads);
    launched(p->stream, "gradient of weights");
}

void add_bias(pass_t p, size_t m)
{
    const struct nn_layer *l = p->state.layer;

    add_biases(stream_of(p->stream), m, rows_of(l, p->stride), p->params,
               p->state.y);
    launched(p->stream, "biases");
}

/* ---- dense --------------------------------------------------------------- */

void dense_forward(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    places s = places_of(p);
    const float *w = weights_of(p, s.weights);

    product(p->stream, false, true, p->batch.n, l->units, l->fan_in, p->state.x,
            l->fan_in, w, l->fan_in, 0, p->state.y, l->units);
    add_bias(p, p->batch.n);
}

void dense_backward(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    places s = places_of(p);
    bool alone = l->rows == 1;
    float *g = alone ? p->grads : s.gradient;

    product(p->stream, true, false, l->units, l->fan_in, p->batch.n,
            p->state.dy, l->units, p->state.x, l->fan_in,
            alone && p->add ? 1.0f : 0.0f, g, l->fan_in);
    put_gradient(p, &s);
    bias_gradient(p, &s, p->batch.n);
    if (p->state.dx)
        product(p->stream, false, false, p->batch.n, l->fan_in, l->units,
                p->state.dy, l->units, weights_of(p, s.weights), l->fan_in, 0,
                p->state.dx, l->fan_in);
}

/* ---- convolution --------------------------------------------------------- */

/* Images here have a position's channels side by side, as on the host. cuDNN's
 * repeatable algorithms for 32-bit floats are two to four times as fast where
 * each channel is an image of its own: values are turned for them, which costs a
 * tenth of that. */

/* Values as the library wants them; the network's own where the two are the
 * same: of one channel. */
struct turned {
    float *w, *g, *x, *y; /* x becomes dx */
};

/* A layer's tensor in both orders. */
struct tensor {
    cudnnTensorDescriptor_t ours, theirs;
};

/* Descriptions and algorithms of a layer for a number of samples. */
struct plan {
    struct nn_layer layer;
    size_t n, room;
    struct tensor x, y, w;
    cudnnFilterDescriptor_t filters;
    cudnnConvolutionDescriptor_t conv;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t data;
    cudnnConvolutionBwdFilterAlgo_t filter;
};

struct plans {
    size_t count;
    struct plan plan[PLANS_MAX];
};

void close_tensor(const struct tensor *t)
{
    cudnnDestroyTensorDescriptor(t->ours);
    cudnnDestroyTensorDescriptor(t->theirs);
}

void close_plans(void *handle)
{
    struct plans *all = (struct plans *)handle;

    for (size_t i = 0; i < all->count; i++) {
        struct plan *q = &all->plan[i];

        close_tensor(&q->x);
        close_tensor(&q->y);
        close_tensor(&q->w);
        cudnnDestroyFilterDescriptor(q->filters);
        cudnnDestroyConvolutionDescriptor(q->conv);
    }
    free(all);
}

bool same_layer(const struct nn_layer *a, const struct nn_layer *b)
{
    return a->units == b->units && a->kernel == b->kernel &&
           a->stride == b->stride && a->padding == b->padding &&
           a->in.channels == b->in.channels && a->in.height == b->in.height &&
           a->in.width == b->in.width;
}

bool describe_tensor(struct space_stream *st, struct tensor *t, size_t n,
                     struct nn_shape shape)
{
    int c = (int)shape.channels, h = (int)shape.height, w = (int)shape.width;

    return dnn_ok(st, cudnnCreateTensorDescriptor(&t->ours)) &&
           dnn_ok(st, cudnnCreateTensorDescriptor(&t->theirs)) &&
           dnn_ok(st, cudnnSetTensor4dDescriptor(t->ours, CUDNN_TENSOR_NHWC,
                                                 CUDNN_DATA_FLOAT, (int)n, c, h,
                                                 w)) &&
           dnn_ok(st, cudnnSetTensor4dDescriptor(t->theirs, CUDNN_TENSOR_NCHW,
                                                 CUDNN_DATA_FLOAT, (int)n, c, h,
                                                 w));
}

bool describe(struct space_stream *st, struct plan *q)
{
    const struct nn_layer *l = &q->layer;
    const struct nn_shape window = {l->in.channels, l->kernel, l->kernel};
    int k = (int)l->kernel, s = (int)l->stride, pad = (int)l->padding;

    return describe_tensor(st, &q->x, q->n, l->in) &&
           describe_tensor(st, &q->y, q->n, l->out) &&
           describe_tensor(st, &q->w, l->units, window) &&
           dnn_ok(st, cudnnCreateFilterDescriptor(&q->filters)) &&
           dnn_ok(st, cudnnCreateConvolutionDescriptor(&q->conv)) &&
           dnn_ok(st, cudnnSetFilter4dDescriptor(
                          q->filters, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                          (int)l->units, (int)l->in.channels, k, k)) &&
           dnn_ok(st, cudnnSetConvolution2dDescriptor(
                          q->conv, pad, pad, s, s, 1, 1,
                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)) &&
           dnn_ok(st, cudnnSetConvolutionMathType(q->conv, CUDNN_FMA_MATH));
}

/* The first that gives the same bits each time and has room. */
template <class Perf>
const Perf *first_fit(const Perf *perf, int count, size_t room)
{
    for (int i = 0; i < count; i++)
        if (perf[i].status == CUDNN_STATUS_SUCCESS &&
            perf[i].determinism == CUDNN_DETERMINISTIC &&
            perf[i].memory <= room)
            return &perf[i];
    return NULL;
}

enum { PERF_MAX = 10 };

bool choose(struct space_stream *st, struct plan *q)
{
    cudnnHandle_t h = dnn_of(st);
    cudnnConvolutionFwdAlgoPerf_t f[PERF_MAX];
    cudnnConvolutionBwdDataAlgoPerf_t d[PERF_MAX];
    cudnnConvolutionBwdFilterAlgoPerf_t g[PERF_MAX];
    int nf = 0, nd = 0, ng = 0;

    if (!h ||
        !dnn_ok(st, cudnnGetConvolutionForwardAlgorithm_v7(
                        h, q->x.theirs, q->filters, q->conv, q->y.theirs,
                        PERF_MAX, &nf, f)) ||
        !dnn_ok(st, cudnnGetConvolutionBackwardDataAlgorithm_v7(
                        h, q->filters, q->y.theirs, q->conv, q->x.theirs,
                        PERF_MAX, &nd, d)) ||
        !dnn_ok(st, cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                        h, q->x.theirs, q->y.theirs, q->conv, q->filters,
                        PERF_MAX, &ng, g)))
        return false;
    const cudnnConvolutionFwdAlgoPerf_t *bf = first_fit(f, nf, q->room);
    const cudnnConvolutionBwdDataAlgoPerf_t *bd = first_fit(d, nd, q->room);
    const cudnnConvolutionBwdFilterAlgoPerf_t *bg = first_fit(g, ng, q->room);

    if (!bf || !bd || !bg) {
        fail(st, "cuDNN", "no repeatable algorithm for a layer's convolution");
        return false;
    }
    q->forward = bf->algo;
    q->data = bd->algo;
    q->filter = bg->algo;
    return true;
}

struct plan *plan_of(pass_t p, size_t room)
{
    struct space_stream *st = p->stream;
    struct space_handle *h = st->space->ops->stream_handle(st, HANDLE_PLANS);
    struct plans *all = (struct plans *)h->handle;

    if (!all) {
        h->handle = all = (struct plans *)calloc(1, sizeof(*all));
        h->close = close_plans;
    }
    if (!all) {
        st->space->ops->stream_fail(st, ERR_NOMEM, "plans of convolutions");
        return NULL;
    }
    for (size_t i = 0; i < all->count; i++)
        if (all->plan[i].n == p->batch.n && all->plan[i].room == room &&
            same_layer(&all->plan[i].layer, p->state.layer))
            return &all->plan[i];
    if (all->count == PLANS_MAX) { /* sizes that come and go: begin anew */
        close_plans(all);
        h->handle = NULL;
        return plan_of(p, room);
    }
    struct plan *q = &all->plan[all->count];

    memset(q, 0, sizeof(*q));
    q->layer = *p->state.layer;
    q->n = p->batch.n;
    q->room = room;
    if (!describe(st, q) || !choose(st, q))
        return NULL;
    all->count++;
    return q;
}

size_t positions_of(pass_t p)
{
    return p->batch.n * p->state.layer->out.height * p->state.layer->out.width;
}

size_t whole(size_t floats)
{
    return (floats + 63) / 64 * 64;
}

/* Floats of scratch for what is turned, of @n samples. */
size_t turned_size(const struct nn_layer *l, size_t n)
{
    size_t size = 0;

    if (l->in.channels > 1)
        size += 2 * weights_size(l) + whole(n * nn_shape_size(l->in));
    if (l->units > 1)
        size += whole(n * nn_shape_size(l->out));
    return size;
}

/* Takes the places of what is turned from @s. Those that need none are NULL. */
turned turned_of(pass_t p, places *s)
{
    const struct nn_layer *l = p->state.layer;
    float *at = (float *)s->rest;
    turned t = {};

    if (l->in.channels > 1) {
        t.w = at;
        t.g = t.w + weights_size(l);
        t.x = t.g + weights_size(l);
        at = t.x + whole(p->batch.n * nn_shape_size(l->in));
    }
    if (l->units > 1) {
        t.y = at;
        at += whole(p->batch.n * nn_shape_size(l->out));
    }
    s->rest_bytes -= (size_t)((char *)at - s->rest);
    s->rest = (char *)at;
    return t;
}

/* @to = ours, in the library's order; ours where no place is given. */
const float *turn(pass_t p, const struct tensor *t, const float *ours,
                  float *to)
{
    const float one = 1, zero = 0;

    if (!to)
        return ours;
    dnn_ok(p->stream, cudnnTransformTensor(dnn_of(p->stream), &one, t->ours,
                                           ours, &zero, t->theirs, to));
    return to;
}

/* The way back: ours = from + beta ours. */
void turn_back(pass_t p, const struct tensor *t, const float *from, float beta,
               float *ours)
{
    const float one = 1;

    if (from != ours)
        dnn_ok(p->stream,
               cudnnTransformTensor(dnn_of(p->stream), &one, t->theirs, from,
                                    &beta, t->ours, ours));
}

void conv_forward(pass_t p)
{
    const float one = 1, zero = 0;
    places s = places_of(p);
    const float *w = weights_of(p, s.weights);
    turned t = turned_of(p, &s);
    struct plan *q = plan_of(p, s.rest_bytes);
    float *y = t.y ? t.y : p->state.y;

    if (!q)
        return;
    dnn_ok(p->stream,
           cudnnConvolutionForward(dnn_of(p->stream), &one, q->x.theirs,
                                   turn(p, &q->x, p->state.x, t.x), q->filters,
                                   turn(p, &q->w, w, t.w), q->conv, q->forward,
                                   s.rest, s.rest_bytes, &zero, q->y.theirs,
                                   y));
    turn_back(p, &q->y, y, 0, p->state.y);
    add_bias(p, positions_of(p));
}

void conv_data(pass_t p, const struct plan *q, const places *s, const turned *t,
               const float *dy)
{
    const float one = 1, zero = 0;
    const float *w = turn(p, &q->w, weights_of(p, s->weights), t->w);
    float *dx = t->x ? t->x : p->state.dx; /* x has been used */

    dnn_ok(p->stream, cudnnConvolutionBackwardData(
                          dnn_of(p->stream), &one, q->filters, w, q->y.theirs,
                          dy, q->conv, q->data, s->rest, s->rest_bytes, &zero,
                          q->x.theirs, dx));
    turn_back(p, &q->x, dx, 0, p->state.dx);
}

void conv_backward(pass_t p)
{
    const float one = 1, zero = 0;
    places s = places_of(p);
    turned t = turned_of(p, &s);
    struct plan *q = plan_of(p, s.rest_bytes);
    bool alone = p->state.layer->rows == 1, add = alone && p->add;
    float *ours = alone ? p->grads : s.gradient;

    if (!q)
        return;
    const float *dy = turn(p, &q->y, p->state.dy, t.y);

    dnn_ok(p->stream,
           cudnnConvolutionBackwardFilter(
               dnn_of(p->stream), &one, q->x.theirs,
               turn(p, &q->x, p->state.x, t.x), q->y.theirs, dy, q->conv,
               q->filter, s.rest, s.rest_bytes, add && !t.g ? &one : &zero,
               q->filters, t.g ? t.g : ours));
    if (t.g)
        turn_back(p, &q->w, t.g, add ? 1.0f : 0.0f, ours);
    put_gradient(p, &s);
    bias_gradient(p, &s, positions_of(p));
    if (p->state.dx)
        conv_data(p, q, &s, &t, dy);
}

/* ---- the others ---------------------------------------------------------- */

window_shape window_of(const struct nn_layer *l)
{
    window_shape w = {l->in.channels, l->in.height, l->in.width, l->out.height,
                      l->out.width,   l->kernel,    l->stride,   l->padding};

    return w;
}

size_t values_of(pass_t p)
{
    return p->batch.n * nn_shape_size(p->state.layer->out);
}

dropout_shape dropout_of(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    dropout_shape d;

    d.size = nn_shape_size(l->out);
    d.threshold = (uint32_t)((double)l->rate * 4294967296.0);
    d.factor = 1 / (1 - l->rate);
    d.seed = p->batch.seed;
    d.number = p->state.number;
    d.first = p->batch.first;
    return d;
}

norm_call norm_of(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    norm_call c;

    c.positions = p->batch.n * l->in.height * l->in.width;
    c.channels = l->in.channels;
    c.epsilon = l->epsilon;
    c.share = l->rate * (float)p->batch.n * p->batch.scale;
    c.train = p->batch.train;
    c.add = p->add;
    c.x = p->state.x;
    c.dy = p->state.dy;
    c.gamma = p->params;
    c.running = p->moments;
    c.kept = (float *)p->state.work;
    c.y = p->state.y;
    c.dx = p->state.dx;
    c.gradient = p->grads;
    c.delta = p->moments_grads;
    c.partial = (double2 *)p->scratch;
    return c;
}

void cuda_forward(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    cudaStream_t st = stream_of(p->stream);

    switch (l->kind) {
    case NN_DENSE:
        dense_forward(p);
        return;
    case NN_CONV:
        conv_forward(p);
        return;
    case NN_MAX_POOL:
        max_forward(st, p->batch.n, window_of(l), p->state.x, p->state.y,
                    (int32_t *)p->state.work);
        break;
    case NN_AVG_POOL:
        avg_forward(st, p->batch.n, window_of(l), p->state.x, p->state.y);
        break;
    case NN_RELU:
        relu_forward(st, values_of(p), p->state.x, p->state.y);
        break;
    case NN_TANH:
        tanh_forward(st, values_of(p), p->state.x, p->state.y);
        break;
    case NN_NORM:
        norm_forward(st, norm_of(p));
        break;
    default:
        if (p->batch.train)
            dropout(st, p->batch.n, dropout_of(p), p->state.x, p->state.y);
        else if (p->state.x != p->state.y)
            cudaMemcpyAsync(p->state.y, p->state.x,
                            values_of(p) * sizeof(float),
                            cudaMemcpyDeviceToDevice, st);
    }
    launched(p->stream, "layer");
}

void cuda_backward(pass_t p)
{
    const struct nn_layer *l = p->state.layer;
    cudaStream_t st = stream_of(p->stream);

    switch (l->kind) {
    case NN_DENSE:
        dense_backward(p);
        return;
    case NN_CONV:
        conv_backward(p);
        return;
    case NN_MAX_POOL:
        if (p->state.dx)
            max_backward(st, p->batch.n, window_of(l), p->state.dy,
                         (const int32_t *)p->state.work, p->state.dx);
        break;
    case NN_AVG_POOL:
        if (p->state.dx)
            avg_backward(st, p->batch.n, window_of(l), p->state.dy,
                         p->state.dx);
        break;
    case NN_RELU:
        if (p->state.dx)
            relu_backward(st, values_of(p), p->state.y, p->state.dy,
                          p->state.dx);
        break;
    case NN_TANH:
        if (p->state.dx)
            tanh_backward(st, values_of(p), p->state.y, p->state.dy,
                          p->state.dx);
        break;
    case NN_NORM:
        norm_backward(st, norm_of(p));
        break;
    default:
        if (p->state.dx)
            dropout(st, p->batch.n, dropout_of(p), p->state.dy, p->state.dx);
    }
    launched(p->stream, "layer");
}

void cuda_loss(pass_t p, enum nn_loss loss, size_t outputs,
               struct nn_result *out)
{
    cudaStream_t st = stream_of(p->stream);
    loss_result *to = (loss_result *)out;

    static_assert(sizeof(loss_result) == sizeof(struct nn_result),
                  "the same result");
    if (loss == NN_CROSS_ENTROPY)
        cross_entropy(st, p->batch.n, outputs, p->batch.scale, p->batch.label,
                      p->state.y, p->state.dy, (loss_result *)p->scratch, to);
    else
        squared(st, p->batch.n, outputs, p->batch.scale, p->batch.target,
                p->state.y, p->state.dy, (loss_result *)p->scratch, to);
    launched(p->stream, "loss");
}

void cuda_input(struct space_stream *st, struct nn_shape shape, size_t n,
                const uint8_t *bytes, const float *factor, float *out)
{
    images_input(stream_of(st), n, shape.channels,
                 (size_t)shape.height * shape.width, bytes, factor, out);
    launched(st, "input");
}

void cuda_penalty(pass_t p, float factor)
{
    const struct nn_layer *l = p->state.layer;

    add_penalty(stream_of(p->stream), rows_of(l, p->stride), l->row_width,
                factor, p->params, p->grads);
    launched(p->stream, "penalty");
}

uint64_t cuda_work_bytes(const struct nn_layer *l, size_t batch_max)
{
    if (l->kind == NN_MAX_POOL)
        return batch_max * nn_shape_size(l->out) * sizeof(int32_t);
    if (l->kind == NN_NORM)
        return 3 * (uint64_t)l->in.channels * sizeof(float);
    return 0;
}

uint64_t cuda_scratch_bytes(const struct nn_layer *l, size_t batch_max)
{
    uint64_t columns = l->fan_in ? l->units : l->in.channels;
    uint64_t bytes = PARTS * columns * sizeof(double2);

    if (bytes < batch_max * sizeof(loss_result))
        bytes = batch_max * sizeof(loss_result);
    if (l->rows > 1 && l->fan_in)
        bytes += 2 * weights_size(l) * sizeof(float);
    if (l->kind == NN_CONV)
        bytes += CONV_SCRATCH + turned_size(l, batch_max) * sizeof(float);
    return bytes;
}

} /* namespace */

extern "C" const struct space_nn_ops nn_cuda = {
    NN_SPACE_VERSION,   BLOCK,      cuda_work_bytes,
    cuda_scratch_bytes, cuda_input, cuda_forward,
    cuda_backward,      cuda_loss,  cuda_penalty,
};
