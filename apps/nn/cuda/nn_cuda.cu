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
    CONV_SCRATCH = 256 << 20,
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

/* Descriptions and algorithms of a layer for a number of samples. */
struct plan {
    struct nn_layer layer;
    size_t n, room;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t data;
    cudnnConvolutionBwdFilterAlgo_t filter;
};

struct plans {
    size_t count;
    struct plan plan[PLANS_MAX];
};

void close_plans(void *handle)
{
    struct plans *all = (struct plans *)handle;

    for (size_t i = 0; i < all->count; i++) {
        cudnnDestroyTensorDescriptor(all->plan[i].x);
        cudnnDestroyTensorDescriptor(all->plan[i].y);
        cudnnDestroyFilterDescriptor(all->plan[i].w);
        cudnnDestroyConvolutionDescriptor(all->plan[i].conv);
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

bool describe(struct space_stream *st, struct plan *q)
{
    const struct nn_layer *l = &q->layer;
    int k = (int)l->kernel, s = (int)l->stride, pad = (int)l->padding;

    return dnn_ok(st, cudnnCreateTensorDescriptor(&q->x)) &&
           dnn_ok(st, cudnnCreateTensorDescriptor(&q->y)) &&
           dnn_ok(st, cudnnCreateFilterDescriptor(&q->w)) &&
           dnn_ok(st, cudnnCreateConvolutionDescriptor(&q->conv)) &&
           dnn_ok(st, cudnnSetTensor4dDescriptor(
                          q->x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, (int)q->n,
                          (int)l->in.channels, (int)l->in.height,
                          (int)l->in.width)) &&
           dnn_ok(st,
                  cudnnSetTensor4dDescriptor(
                      q->y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, (int)q->n,
                      (int)l->units, (int)l->out.height, (int)l->out.width)) &&
           dnn_ok(st, cudnnSetFilter4dDescriptor(
                          q->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC,
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
                        h, q->x, q->w, q->conv, q->y, PERF_MAX, &nf, f)) ||
        !dnn_ok(st, cudnnGetConvolutionBackwardDataAlgorithm_v7(
                        h, q->w, q->y, q->conv, q->x, PERF_MAX, &nd, d)) ||
        !dnn_ok(st, cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                        h, q->x, q->y, q->conv, q->w, PERF_MAX, &ng, g)))
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

void conv_forward(pass_t p)
{
    const float one = 1, zero = 0;
    places s = places_of(p);
    const float *w = weights_of(p, s.weights);
    struct plan *q = plan_of(p, s.rest_bytes);

    if (!q)
        return;
    dnn_ok(p->stream,
           cudnnConvolutionForward(dnn_of(p->stream), &one, q->x, p->state.x,
                                   q->w, w, q->conv, q->forward, s.rest,
                                   s.rest_bytes, &zero, q->y, p->state.y));
    add_bias(p, positions_of(p));
}

void conv_backward(pass_t p)
{
    const float one = 1, zero = 0;
    places s = places_of(p);
    struct plan *q = plan_of(p, s.rest_bytes);
    bool alone = p->state.layer->rows == 1;

    if (!q)
        return;
    dnn_ok(p->stream, cudnnConvolutionBackwardFilter(
                          dnn_of(p->stream), &one, q->x, p->state.x, q->y,
                          p->state.dy, q->conv, q->filter, s.rest, s.rest_bytes,
                          alone && p->add ? &one : &zero, q->w,
                          alone ? p->grads : s.gradient));
    put_gradient(p, &s);
    bias_gradient(p, &s, positions_of(p));
    if (p->state.dx)
        dnn_ok(p->stream,
               cudnnConvolutionBackwardData(
                   dnn_of(p->stream), &one, q->w, weights_of(p, s.weights),
                   q->y, p->state.dy, q->conv, q->data, s.rest, s.rest_bytes,
                   &zero, q->x, p->state.dx));
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
        bytes += CONV_SCRATCH;
    return bytes;
}

} /* namespace */

extern "C" const struct space_nn_ops nn_cuda = {
    NN_SPACE_VERSION,   BLOCK,      cuda_work_bytes,
    cuda_scratch_bytes, cuda_input, cuda_forward,
    cuda_backward,      cuda_loss,  cuda_penalty,
};
