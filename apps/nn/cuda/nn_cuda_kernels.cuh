/* Kernels of the layers on a GPU that no library has in this form. Values are
 * channels last (nn_layer.h). Sums are made in an order that depends on the
 * sizes alone, so that the same calls give the same bits. */
#ifndef APPS_NN_CUDA_KERNELS_CUH
#define APPS_NN_CUDA_KERNELS_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THREADS = 256,
    GRID_MAX = 65535,
    PARTS = 256, /* runs that a column's sum is cut into, at most */
    LANES = 32,
    RUN_ROWS = 8 /* of a block of a column's sum */
};

struct loss_result {
    double loss;
    size_t correct;
};

/* Outputs in rows: weights [row_units][fan_in], then biases [row_units];
 * @stride floats from a row to the next. */
struct rows_shape {
    uint32_t units, row_units, fan_in;
    size_t stride;
};

struct window_shape {
    uint32_t channels, height, width, out_height, out_width, kernel, stride,
        padding;
};

struct dropout_shape {
    size_t size;
    uint32_t threshold;
    float factor;
    uint64_t seed, number, first;
};

struct norm_call {
    size_t positions;
    uint32_t channels;
    float epsilon, share;
    bool train, add;
    const float *x, *dy, *gamma, *running;
    float *kept; /* mean, variance, 1 / sqrt(variance + epsilon): [channels] */
    float *y, *dx, *gradient, *delta;
    double2 *partial; /* [PARTS][channels] */
};

static unsigned grid_for(size_t n)
{
    size_t blocks = (n + THREADS - 1) / THREADS, most = GRID_MAX;

    return (unsigned)(blocks == 0 ? 1 : blocks < most ? blocks : most);
}

#define EACH(i, n)                                                             \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (n);    \
         i += (size_t)gridDim.x * blockDim.x)

/* ---- rows ---------------------------------------------------------------- */

__device__ static size_t bias_place(rows_shape r, uint32_t u)
{
    return u / r.row_units * r.stride + (size_t)r.row_units * r.fan_in +
           u % r.row_units;
}

/* One row of the grid a row of the table. */
__global__ static void gather_kernel(rows_shape r, const float *rows,
                                     float *out)
{
    uint32_t row = blockIdx.y;
    uint32_t left = r.units - row * r.row_units;
    size_t full = (size_t)r.row_units * r.fan_in;
    size_t n = (size_t)(left < r.row_units ? left : r.row_units) * r.fan_in;
    const float *from = rows + row * r.stride;
    float *to = out + row * full;

    EACH(i, n)
    to[i] = from[i];
}

__global__ static void scatter_kernel(rows_shape r, const float *in, bool add,
                                      float *rows)
{
    uint32_t row = blockIdx.y;
    uint32_t left = r.units - row * r.row_units;
    size_t full = (size_t)r.row_units * r.fan_in;
    size_t n = (size_t)(left < r.row_units ? left : r.row_units) * r.fan_in;
    float *to = rows + row * r.stride;
    const float *from = in + row * full;

    EACH(i, full)
    {
        float g = i < n ? from[i] : 0;

        to[i] = add ? to[i] + g : g;
    }
    /* The places of the biases that the last row leaves unused. */
    EACH(j, r.row_units)
    if (!add && j >= left)
        to[full + j] = 0;
}

static dim3 grid_of_rows(rows_shape r)
{
    size_t full = (size_t)r.row_units * r.fan_in;
    unsigned rows = (r.units + r.row_units - 1) / r.row_units;
    unsigned across = grid_for((full + 3) / 4);

    return dim3(across, rows);
}

static void gather_weights(cudaStream_t st, rows_shape r, const float *rows,
                           float *out)
{
    gather_kernel<<<grid_of_rows(r), THREADS, 0, st>>>(r, rows, out);
}

static void scatter_weights(cudaStream_t st, rows_shape r, const float *in,
                            bool add, float *rows)
{
    scatter_kernel<<<grid_of_rows(r), THREADS, 0, st>>>(r, in, add, rows);
}

__global__ static void penalty_kernel(rows_shape r, size_t width, float factor,
                                      const float *rows, float *gradient)
{
    uint32_t row = blockIdx.y;
    size_t full = (size_t)r.row_units * r.fan_in;

    EACH(i, full)
    gradient[row * width + i] += factor * rows[row * r.stride + i];
}

static void add_penalty(cudaStream_t st, rows_shape r, size_t width,
                        float factor, const float *rows, float *gradient)
{
    penalty_kernel<<<grid_of_rows(r), THREADS, 0, st>>>(r, width, factor, rows,
                                                        gradient);
}

__global__ static void bias_kernel(size_t n, rows_shape r, const float *rows,
                                   float *y)
{
    EACH(i, n)
    y[i] += rows[bias_place(r, (uint32_t)(i % r.units))];
}

static void add_biases(cudaStream_t st, size_t m, rows_shape r,
                       const float *rows, float *y)
{
    size_t n = m * r.units;

    bias_kernel<<<grid_for(n), THREADS, 0, st>>>(n, r, rows, y);
}

/* ---- sums of columns ----------------------------------------------------- */

/* What a value of a row adds to its column's two sums. */
struct only_value {
    const float *at;

    __device__ float2 operator()(size_t i, uint32_t) const
    {
        return make_float2(at[i], 0);
    }
};

struct deviation {
    const float *x, *mean;

    __device__ float2 operator()(size_t i, uint32_t c) const
    {
        float d = x[i] - mean[c];

        return make_float2(d, d * d);
    }
};

struct gradient_of_norm {
    const float *x, *dy, *mean;

    __device__ float2 operator()(size_t i, uint32_t c) const
    {
        return make_float2(dy[i], dy[i] * (x[i] - mean[c]));
    }
};

/* A block: RUN_ROWS rows by LANES columns at a time, over its run of rows. */
template <class Term>
__global__ static void run_kernel(Term term, size_t rows, uint32_t columns,
                                  size_t run, double2 *partial)
{
    __shared__ double2 sum[RUN_ROWS][LANES];
    uint32_t c = blockIdx.x * LANES + threadIdx.x;
    size_t end = (blockIdx.y + 1) * run;
    float2 own = make_float2(0, 0);
    double2 all = make_double2(0, 0);
    unsigned count = 0;

    end = end < rows ? end : rows;
    for (size_t r = blockIdx.y * run + threadIdx.y; c < columns && r < end;
         r += RUN_ROWS) {
        float2 t = term(r * columns + c, c);

        own.x += t.x;
        own.y += t.y;
        if (++count % 64 == 0) {
            all.x += (double)own.x;
            all.y += (double)own.y;
            own = make_float2(0, 0);
        }
    }
    all.x += (double)own.x;
    all.y += (double)own.y;
    sum[threadIdx.y][threadIdx.x] = all;
    __syncthreads();
    if (threadIdx.y != 0 || c >= columns)
        return;
    for (unsigned k = 1; k < RUN_ROWS; k++) {
        all.x += sum[k][threadIdx.x].x;
        all.y += sum[k][threadIdx.x].y;
    }
    partial[blockIdx.y * (size_t)columns + c] = all;
}

__device__ static double2 whole_sum(const double2 *partial, unsigned parts,
                                    uint32_t columns, uint32_t c)
{
    double2 s = make_double2(0, 0);

    for (unsigned k = 0; k < parts; k++) {
        s.x += partial[k * (size_t)columns + c].x;
        s.y += partial[k * (size_t)columns + c].y;
    }
    return s;
}

/* Runs of at least 64 rows; PARTS at most. */
template <class Term>
static unsigned run_sums(cudaStream_t st, Term term, size_t rows,
                         uint32_t columns, double2 *partial)
{
    size_t run = (rows + PARTS - 1) / PARTS;
    unsigned parts;

    run = run < 64 ? 64 : run;
    parts = (unsigned)((rows + run - 1) / run);
    run_kernel<<<dim3((columns + LANES - 1) / LANES, parts),
                 dim3(LANES, RUN_ROWS), 0, st>>>(term, rows, columns, run,
                                                 partial);
    return parts;
}

__global__ static void bias_sum_kernel(rows_shape r, unsigned parts,
                                       const double2 *partial, bool add,
                                       float *gradient)
{
    EACH(u, r.units)
    {
        float s = (float)whole_sum(partial, parts, r.units, (uint32_t)u).x;
        float *to = gradient + bias_place(r, (uint32_t)u);

        *to = add ? *to + s : s;
    }
}

static void sum_columns(cudaStream_t st, size_t m, rows_shape r,
                        const float *dy, bool add, float *gradient,
                        void *scratch)
{
    double2 *partial = (double2 *)scratch;
    only_value term = {dy};
    unsigned parts = run_sums(st, term, m, r.units, partial);

    bias_sum_kernel<<<grid_for(r.units), THREADS, 0, st>>>(r, parts, partial,
                                                           add, gradient);
}

/* ---- values by themselves ------------------------------------------------ */

__global__ static void relu_kernel(size_t n, const float *x, float *y)
{
    EACH(i, n)
    y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_forward(cudaStream_t st, size_t n, const float *x, float *y)
{
    relu_kernel<<<grid_for(n), THREADS, 0, st>>>(n, x, y);
}

__global__ static void relu_back_kernel(size_t n, const float *y,
                                        const float *dy, float *dx)
{
    EACH(i, n)
    dx[i] = y[i] > 0 ? dy[i] : 0;
}

static void relu_backward(cudaStream_t st, size_t n, const float *y,
                          const float *dy, float *dx)
{
    relu_back_kernel<<<grid_for(n), THREADS, 0, st>>>(n, y, dy, dx);
}

__global__ static void tanh_kernel(size_t n, const float *x, float *y)
{
    EACH(i, n)
    y[i] = tanhf(x[i]);
}

static void tanh_forward(cudaStream_t st, size_t n, const float *x, float *y)
{
    tanh_kernel<<<grid_for(n), THREADS, 0, st>>>(n, x, y);
}

__global__ static void tanh_back_kernel(size_t n, const float *y,
                                        const float *dy, float *dx)
{
    EACH(i, n)
    dx[i] = dy[i] * (1 - y[i] * y[i]);
}

static void tanh_backward(cudaStream_t st, size_t n, const float *y,
                          const float *dy, float *dx)
{
    tanh_back_kernel<<<grid_for(n), THREADS, 0, st>>>(n, y, dy, dx);
}

/* The generator of nn_act.c. */
__device__ static uint64_t mix_one(uint64_t z)
{
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

__device__ static uint64_t mix_two(uint64_t a, uint64_t b)
{
    return mix_one(mix_one(a) ^ b);
}

/* One row of the grid a sample. */
__global__ static void dropout_kernel(dropout_shape d, const float *from,
                                      float *to)
{
    size_t sample = blockIdx.y;
    uint64_t key = mix_two(mix_two(d.seed, d.number), d.first + sample);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);

    from += sample * d.size;
    to += sample * d.size;
    EACH(j, d.size)
    {
        uint32_t h = (uint32_t)j * 0x9e3779b1u + key0;

        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) + key1;
        h = (h ^ h >> 15) * 0xc2b2ae35u;
        h ^= h >> 16;
        to[j] = from[j] * (h < d.threshold ? 0 : d.factor);
    }
}

static void dropout(cudaStream_t st, size_t n, dropout_shape d,
                    const float *from, float *to)
{
    dropout_kernel<<<dim3(grid_for(d.size), (unsigned)n), THREADS, 0, st>>>(
        d, from, to);
}

/* ---- pooling ------------------------------------------------------------- */

/* Part of the window at place @at of an axis that lies inside. */
__device__ static void clip_window(uint32_t at, window_shape w, uint32_t side,
                                   uint32_t *begin, uint32_t *end)
{
    uint32_t from = at * w.stride, to = from + w.kernel;

    *begin = from > w.padding ? from - w.padding : 0;
    *end = to - w.padding < side ? to - w.padding : side;
}

/* Value @i of images of @height x @width places: one division of 64 bits, which
 * take this processor a hundred instructions, the others of 32. */
struct spot {
    size_t image;
    uint32_t y, x, channel;
};

__device__ static spot spot_of(size_t i, uint32_t height, uint32_t width,
                               uint32_t channels)
{
    uint32_t size = height * width * channels;
    size_t image = i / size;
    uint32_t rest = (uint32_t)(i - image * size), at = rest / channels;
    spot s = {image, at / width, at % width, rest - at * channels};

    return s;
}

__global__ static void max_kernel(size_t n, window_shape w, const float *x,
                                  float *y, int32_t *place)
{
    EACH(i, n)
    {
        spot o = spot_of(i, w.out_height, w.out_width, w.channels);
        const float *image =
            x + o.image * w.height * w.width * w.channels + o.channel;
        uint32_t y0, y1, x0, x1;
        float best = -INFINITY;
        int32_t from;

        clip_window(o.y, w, w.height, &y0, &y1);
        clip_window(o.x, w, w.width, &x0, &x1);
        from = (int32_t)(y0 * w.width + x0);
        for (uint32_t iy = y0; iy < y1; iy++)
            for (uint32_t ix = x0; ix < x1; ix++) {
                float v = image[((size_t)iy * w.width + ix) * w.channels];

                if (v > best || v != v) {
                    best = v;
                    from = (int32_t)(iy * w.width + ix);
                }
            }
        y[i] = best;
        place[i] = from;
    }
}

static void max_forward(cudaStream_t st, size_t n, window_shape w,
                        const float *x, float *y, int32_t *place)
{
    size_t all = n * w.out_height * w.out_width * w.channels;

    max_kernel<<<grid_for(all), THREADS, 0, st>>>(all, w, x, y, place);
}

/* Windows over place @at of an axis: @first .. @end - 1. */
__device__ static void windows_over(uint32_t at, window_shape w, uint32_t count,
                                    uint32_t *first, uint32_t *end)
{
    uint32_t p = at + w.padding;

    *first = p < w.kernel ? 0 : (p - w.kernel) / w.stride + 1;
    *end = p / w.stride + 1;
    *end = *end < count ? *end : count;
}

/* Each place of the input takes what is its own. */
template <bool MAX>
__global__ static void pool_back_kernel(size_t n, window_shape w,
                                        const float *dy, const int32_t *place,
                                        float *dx)
{
    EACH(i, n)
    {
        spot in = spot_of(i, w.height, w.width, w.channels);
        int32_t own = (int32_t)(in.y * w.width + in.x);
        uint32_t y0, y1, x0, x1;
        float sum = 0;

        windows_over(in.y, w, w.out_height, &y0, &y1);
        windows_over(in.x, w, w.out_width, &x0, &x1);
        for (uint32_t oy = y0; oy < y1; oy++)
            for (uint32_t ox = x0; ox < x1; ox++) {
                size_t o = ((in.image * w.out_height + oy) * w.out_width + ox) *
                               w.channels +
                           in.channel;

                if (MAX) {
                    sum += place[o] == own ? dy[o] : 0;
                } else {
                    uint32_t a, b, d, e;

                    clip_window(oy, w, w.height, &a, &b);
                    clip_window(ox, w, w.width, &d, &e);
                    sum += dy[o] * (1 / (float)((b - a) * (e - d)));
                }
            }
        dx[i] = sum;
    }
}

static void max_backward(cudaStream_t st, size_t n, window_shape w,
                         const float *dy, const int32_t *place, float *dx)
{
    size_t all = n * w.height * w.width * w.channels;

    pool_back_kernel<true>
        <<<grid_for(all), THREADS, 0, st>>>(all, w, dy, place, dx);
}

static void avg_backward(cudaStream_t st, size_t n, window_shape w,
                         const float *dy, float *dx)
{
    size_t all = n * w.height * w.width * w.channels;

    pool_back_kernel<false>
        <<<grid_for(all), THREADS, 0, st>>>(all, w, dy, NULL, dx);
}

__global__ static void avg_kernel(size_t n, window_shape w, const float *x,
                                  float *y)
{
    EACH(i, n)
    {
        spot o = spot_of(i, w.out_height, w.out_width, w.channels);
        const float *image =
            x + o.image * w.height * w.width * w.channels + o.channel;
        uint32_t y0, y1, x0, x1;
        float sum = 0, factor;

        clip_window(o.y, w, w.height, &y0, &y1);
        clip_window(o.x, w, w.width, &x0, &x1);
        factor = 1 / (float)((y1 - y0) * (x1 - x0));
        for (uint32_t iy = y0; iy < y1; iy++)
            for (uint32_t ix = x0; ix < x1; ix++)
                sum +=
                    factor * image[((size_t)iy * w.width + ix) * w.channels];
        y[i] = sum;
    }
}

static void avg_forward(cudaStream_t st, size_t n, window_shape w,
                        const float *x, float *y)
{
    size_t all = n * w.out_height * w.out_width * w.channels;

    avg_kernel<<<grid_for(all), THREADS, 0, st>>>(all, w, x, y);
}

/* ---- batch normalisation (nn_norm.c has the formulas) -------------------- */

__global__ static void first_kernel(norm_call c)
{
    EACH(k, c.channels)
    c.kept[k] = c.train ? c.x[k] : c.running[k];
}

__global__ static void mean_kernel(norm_call c, unsigned parts)
{
    EACH(k, c.channels)
    c.kept[k] = (float)((double)c.kept[k] +
                        whole_sum(c.partial, parts, c.channels, (uint32_t)k).x /
                            (double)c.positions);
}

__global__ static void variance_kernel(norm_call c, unsigned parts)
{
    EACH(k, c.channels)
    {
        float v =
            c.train
                ? (float)(whole_sum(c.partial, parts, c.channels, (uint32_t)k)
                              .y /
                          (double)c.positions)
                : c.running[c.channels + k];

        v = v < 0 ? 0 : v;
        c.kept[c.channels + k] = v;
        c.kept[2 * c.channels + k] = 1 / sqrtf(v + c.epsilon);
    }
}

__global__ static void normalise_kernel(norm_call c)
{
    EACH(i, c.positions * c.channels)
    {
        uint32_t k = (uint32_t)(i % c.channels);

        c.y[i] =
            c.gamma[k] * c.kept[2 * c.channels + k] * (c.x[i] - c.kept[k]) +
            c.gamma[c.channels + k];
    }
}

static void norm_forward(cudaStream_t st, norm_call c)
{
    deviation term = {c.x, c.kept};
    unsigned grid = grid_for(c.channels), parts = 0;

    first_kernel<<<grid, THREADS, 0, st>>>(c);
    if (c.train) {
        parts = run_sums(st, term, c.positions, c.channels, c.partial);
        mean_kernel<<<grid, THREADS, 0, st>>>(c, parts);
        parts = run_sums(st, term, c.positions, c.channels, c.partial);
    }
    variance_kernel<<<grid, THREADS, 0, st>>>(c, parts);
    normalise_kernel<<<grid_for(c.positions * c.channels), THREADS, 0, st>>>(c);
}

__global__ static void norm_sums_kernel(norm_call c, unsigned parts)
{
    double m = (double)c.positions;
    float unbiased = m > 1 ? (float)(m / (m - 1)) : 1;

    EACH(k, c.channels)
    {
        double2 s = whole_sum(c.partial, parts, c.channels, (uint32_t)k);
        float mean = c.kept[k], variance = c.kept[c.channels + k];
        double inverse = (double)c.kept[2 * c.channels + k];
        float dgamma = (float)(s.y * inverse), dbeta = (float)s.x;
        float d0 = c.share * (mean - c.running[k]);
        float d1 = c.share * (variance * unbiased - c.running[c.channels + k]);

        c.gradient[k] = c.add ? c.gradient[k] + dgamma : dgamma;
        c.gradient[c.channels + k] =
            c.add ? c.gradient[c.channels + k] + dbeta : dbeta;
        c.delta[k] = c.add ? c.delta[k] + d0 : d0;
        c.delta[c.channels + k] = c.add ? c.delta[c.channels + k] + d1 : d1;
        /* for the gradient of the input: mean of dy, and the slope */
        c.partial[k] = make_double2(s.x / m, s.y * inverse * inverse / m);
    }
}

__global__ static void norm_back_kernel(norm_call c)
{
    EACH(i, c.positions * c.channels)
    {
        uint32_t k = (uint32_t)(i % c.channels);
        float factor = c.gamma[k] * c.kept[2 * c.channels + k];

        c.dx[i] = factor * (c.dy[i] - (float)c.partial[k].x -
                            (c.x[i] - c.kept[k]) * (float)c.partial[k].y);
    }
}

static void norm_backward(cudaStream_t st, norm_call c)
{
    gradient_of_norm term = {c.x, c.dy, c.kept};
    unsigned parts = run_sums(st, term, c.positions, c.channels, c.partial);

    norm_sums_kernel<<<grid_for(c.channels), THREADS, 0, st>>>(c, parts);
    if (c.dx)
        norm_back_kernel<<<grid_for(c.positions * c.channels), THREADS, 0,
                           st>>>(c);
}

/* ---- losses -------------------------------------------------------------- */

/* A warp a sample: THREADS / LANES samples a block. */
__global__ static void entropy_kernel(size_t n, size_t outputs, float scale,
                                      const uint32_t *label, const float *z,
                                      float *dz, loss_result *each)
{
    size_t i = blockIdx.x * (size_t)(THREADS / LANES) + threadIdx.x / LANES;
    unsigned lane = threadIdx.x % LANES;
    float max = -INFINITY, sum = 0, own;
    size_t best = outputs;

    if (i >= n)
        return;
    z += i * outputs;
    for (size_t j = lane; j < outputs; j += LANES)
        if (z[j] > max || (best == outputs && z[j] == max)) {
            max = z[j];
            best = j;
        }
    for (int k = LANES / 2; k > 0; k /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, max, k);
        size_t place = __shfl_xor_sync(0xffffffffu, best, k);

        if (other > max || (other == max && place < best)) {
            max = other;
            best = place;
        }
    }
    for (size_t j = lane; j < outputs; j += LANES)
        sum += expf(z[j] - max);
    for (int k = LANES / 2; k > 0; k /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, k);
    own = z[label[i]] - max;
    if (lane == 0) {
        each[i].loss = (double)(logf(sum) - own);
        each[i].correct = best == label[i];
    }
    __syncwarp();
    if (dz)
        for (size_t j = lane; j < outputs; j += LANES)
            dz[i * outputs + j] =
                expf(z[j] - max) / sum * scale - (j == label[i] ? scale : 0);
}

__global__ static void square_kernel(size_t n, size_t outputs, float scale,
                                     const float *target, const float *z,
                                     float *dz, loss_result *each)
{
    EACH(i, n)
    {
        double loss = 0;

        for (size_t j = i * outputs; j < (i + 1) * outputs; j++) {
            float d = z[j] - target[j];

            loss += 0.5 * (double)d * (double)d;
            if (dz)
                dz[j] = d * scale;
        }
        each[i].loss = loss;
        each[i].correct = 0;
    }
}

/* One block. */
__global__ static void total_kernel(size_t n, const loss_result *each,
                                    loss_result *out)
{
    __shared__ loss_result part[THREADS];
    loss_result own = {0, 0};

    for (size_t i = threadIdx.x; i < n; i += THREADS) {
        own.loss += each[i].loss;
        own.correct += each[i].correct;
    }
    part[threadIdx.x] = own;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            part[threadIdx.x].loss += part[threadIdx.x + half].loss;
            part[threadIdx.x].correct += part[threadIdx.x + half].correct;
        }
    }
    if (threadIdx.x == 0)
        *out = part[0];
}

static void cross_entropy(cudaStream_t st, size_t n, size_t outputs,
                          float scale, const uint32_t *label, const float *z,
                          float *dz, loss_result *each, loss_result *out)
{
    unsigned blocks = (unsigned)((n + THREADS / LANES - 1) / (THREADS / LANES));

    entropy_kernel<<<blocks, THREADS, 0, st>>>(n, outputs, scale, label, z, dz,
                                               each);
    total_kernel<<<1, THREADS, 0, st>>>(n, each, out);
}

static void squared(cudaStream_t st, size_t n, size_t outputs, float scale,
                    const float *target, const float *z, float *dz,
                    loss_result *each, loss_result *out)
{
    square_kernel<<<grid_for(n), THREADS, 0, st>>>(n, outputs, scale, target, z,
                                                   dz, each);
    total_kernel<<<1, THREADS, 0, st>>>(n, each, out);
}

/* ---- input --------------------------------------------------------------- */

__global__ static void input_kernel(size_t n, uint32_t channels, size_t plane,
                                    const uint8_t *bytes, const float *factor,
                                    float *out)
{
    EACH(i, n)
    {
        uint32_t c = (uint32_t)(i % channels);
        size_t at = i / channels % plane, image = i / channels / plane;

        out[i] = factor[c] * (float)bytes[(image * channels + c) * plane + at] +
                 factor[channels + c];
    }
}

static void images_input(cudaStream_t st, size_t n, uint32_t channels,
                         size_t plane, const uint8_t *bytes,
                         const float *factor, float *out)
{
    size_t all = n * channels * plane;

    input_kernel<<<grid_for(all), THREADS, 0, st>>>(all, channels, plane, bytes,
                                                    factor, out);
}

#endif
