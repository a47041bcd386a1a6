#include "apps/nn/nn_dense_kernel.h"

#include "apps/nn/nn_vec.h"

/* Tiles of 4 by 3 vectors: 12 accumulators, which with their operands fill the
 * 16 registers of AVX2. */
enum { ROWS = 4, THREE = 3 };

/* ---- dot products -------------------------------------------------------- */

typedef float four __attribute__((vector_size(16)));

/* Halves of @v added. */
KERNEL_PART four fold(nn_vec v)
{
    four low, high;

    memcpy(&low, &v, sizeof(low));
    memcpy(&high, (const char *)&v + sizeof(low), sizeof(high));
    return low + high;
}

/* The sums of the lanes of four vectors, all at a time. */
KERNEL_PART four sums_of(nn_vec a, nn_vec b, nn_vec c, nn_vec d)
{
    four w = fold(a), x = fold(b), y = fold(c), z = fold(d);
    four wx = __builtin_shufflevector(w, x, 0, 4, 1, 5) +
              __builtin_shufflevector(w, x, 2, 6, 3, 7);
    four yz = __builtin_shufflevector(y, z, 0, 4, 1, 5) +
              __builtin_shufflevector(y, z, 2, 6, 3, 7);

    return __builtin_shufflevector(wx, yz, 0, 1, 4, 5) +
           __builtin_shufflevector(wx, yz, 2, 3, 6, 7);
}

/* @images and @units name how many of x[] and w[] are there; the others repeat
 * the last one, and what they give is dropped. */
KERNEL_PART void dots_tile(size_t depth, const float *const x[ROWS],
                           const float *const w[THREE], size_t images,
                           size_t units, const float *bias, float *y,
                           size_t stride)
{
    nn_vec acc[ROWS][THREE] = {{{0}}};
    size_t k, rest = depth / NN_LANES * NN_LANES;
    unsigned i, u;

    for (k = 0; k < rest; k += NN_LANES) {
        nn_vec b[THREE];

#pragma GCC unroll 3
        for (u = 0; u < THREE; u++)
            b[u] = nn_load(w[u] + k);
#pragma GCC unroll 4
        for (i = 0; i < ROWS; i++) {
            nn_vec a = nn_load(x[i] + k);

#pragma GCC unroll 3
            for (u = 0; u < THREE; u++)
                acc[i][u] += a * b[u];
        }
    }
#pragma GCC unroll 3
    for (u = 0; u < THREE; u++) {
        four sum = sums_of(acc[0][u], acc[1][u], acc[2][u], acc[3][u]);

        if (u >= units)
            break;
#pragma GCC unroll 4
        for (i = 0; i < ROWS; i++)
            if (i < images)
                y[i * stride + u] = bias[u] + sum[i];
    }
    for (i = 0; rest < depth && i < images; i++)
        for (u = 0; u < units; u++)
            for (k = rest; k < depth; k++)
                y[i * stride + u] += x[i][k] * w[u][k];
}

KERNEL_PART void row_pointers(const float *at, size_t stride, size_t valid,
                              unsigned count, const float *out[])
{
    unsigned r;

    for (r = 0; r < count; r++)
        out[r] = at + (r < valid ? r : valid - 1) * stride;
}

/* Three outputs' weights stay in the first cache while all samples pass. */
KERNEL void nn_dots(size_t n, size_t units, size_t depth, const float *x,
                    const float *w, const float *bias, struct nn_matrix y)
{
    const float *own[ROWS], *weight[THREE];
    size_t u, i;

    for (u = 0; u < units; u += THREE) {
        size_t columns = units - u < THREE ? units - u : THREE;

        row_pointers(w + u * depth, depth, columns, THREE, weight);
        for (i = 0; i < n; i += ROWS) {
            size_t images = n - i < ROWS ? n - i : ROWS;

            row_pointers(x + i * depth, depth, images, ROWS, own);
            dots_tile(depth, own, weight, images, columns, bias + u,
                      y.at + i * y.stride + u, y.stride);
        }
    }
}

/* ---- sums of rows -------------------------------------------------------- */

/* @lanes columns of b from @from on into @panel: contiguous, so that a stride
 * of b that falls on few sets of a cache does no harm. What is behind them is
 * not written, and what is made of it is dropped. */
KERNEL_PART void take_panel(size_t terms, size_t lanes, const float *from,
                            size_t stride, const unsigned vectors, float *panel)
{
    size_t whole = lanes / NN_LANES, j, k;
    unsigned v;

    for (j = 0; j < terms; j++, panel += vectors * NN_LANES, from += stride) {
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            if (v < whole)
                nn_store(panel + v * NN_LANES, nn_load(from + v * NN_LANES));
        for (k = whole * NN_LANES; k < lanes; k++)
            panel[k] = from[k];
    }
}

/* The first @lanes of @v, 1 .. 8, put or added. */
KERNEL_PART void put(float *to, nn_vec v, size_t lanes, bool add)
{
    nn_vec old = {0};

    if (lanes >= NN_LANES) {
        nn_store(to, add ? nn_load(to) + v : v);
        return;
    }
    if (add)
        memcpy(&old, to, lanes * sizeof(*to));
    nn_store_part(to, old + v, lanes);
}

KERNEL_PART void panel_tile(size_t terms, struct nn_factor a, size_t rows,
                            const float *panel, const unsigned vectors,
                            size_t lanes, struct nn_matrix c, bool add)
{
    nn_vec acc[ROWS][THREE];
    const float *x[ROWS];
    size_t j;
    unsigned r, v;

#pragma GCC unroll 4
    for (r = 0; r < ROWS; r++) {
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            acc[r][v] = (nn_vec){0};
    }
    row_pointers(a.at, a.row, rows, ROWS, x);
    for (j = 0; j < terms; j++, panel += vectors * NN_LANES) {
        nn_vec b[THREE];

#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            b[v] = nn_load(panel + v * NN_LANES);
#pragma GCC unroll 4
        for (r = 0; r < ROWS; r++) {
#pragma GCC unroll 3
            for (v = 0; v < vectors; v++)
                acc[r][v] += x[r][j * a.term] * b[v];
        }
    }
#pragma GCC unroll 4
    for (r = 0; r < ROWS; r++) {
        if (r >= rows)
            break;
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            put(c.at + r * c.stride + v * NN_LANES, acc[r][v],
                v + 1 < vectors ? NN_LANES : lanes - v * NN_LANES, add);
    }
}

KERNEL_PART void one_panel(size_t rows, size_t terms, struct nn_factor a,
                           struct nn_matrix b, struct nn_matrix c, size_t lanes,
                           const unsigned vectors, bool add, float *panel)
{
    size_t r;

    take_panel(terms, lanes, b.at, b.stride, vectors, panel);
    for (r = 0; r < rows; r += ROWS) {
        struct nn_factor own = {a.at + r * a.row, a.row, a.term};
        struct nn_matrix to = {c.at + r * c.stride, c.stride};

        panel_tile(terms, own, rows - r < ROWS ? rows - r : ROWS, panel,
                   vectors, lanes, to, add);
    }
}

KERNEL void nn_panels(size_t rows, size_t terms, size_t columns,
                      struct nn_factor a, struct nn_matrix b,
                      struct nn_matrix c, bool add, float *panel)
{
    size_t left;

    for (; columns > 0; columns -= left, b.at += left, c.at += left) {
        left = columns < NN_PANEL ? columns : NN_PANEL;
        if (left > 2 * NN_LANES)
            one_panel(rows, terms, a, b, c, left, 3, add, panel);
        else if (left > NN_LANES)
            one_panel(rows, terms, a, b, c, left, 2, add, panel);
        else
            one_panel(rows, terms, a, b, c, left, 1, add, panel);
    }
}
