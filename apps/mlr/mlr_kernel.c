#include "apps/mlr/mlr_kernel.h"

#include "base/simd.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A tile of 5 classes and 2 images (or 2 vectors of pixels) needs 10
 * accumulators, so that with the operands all 16 registers of AVX2 are in use
 * and every converted pixel serves 5 classes. */
enum { LANES = 8, GROUP = 32, VECTORS = GROUP / LANES, TILE = 5, PAIR = 2 };
enum { LINE = 64 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_any
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(GROUP)));
typedef uint32_t words_any
    __attribute__((vector_size(GROUP), aligned(1), may_alias));
typedef int32_t integers __attribute__((vector_size(GROUP)));

KERNEL_PART vec load(const float *p)
{
    return *(const vec_any *)(const void *)p;
}

KERNEL_PART void store(float *p, vec v)
{
    *(vec_any *)(void *)p = v;
}

KERNEL_PART words load_group(const uint8_t *p)
{
    return *(const words_any *)(const void *)p;
}

/* Pixels 8 b .. 8 b + 7 of a group. */
KERNEL_PART vec pixels_of(words group, const unsigned b)
{
    return __builtin_convertvector((integers)((group >> (8 * b)) & 0xff), vec);
}

KERNEL_PART float sum_lanes(vec v)
{
    float four[4];
    int k;

    for (k = 0; k < 4; k++)
        four[k] = v[k] + v[k + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* Place of pixel @j in a packed image. */
static inline size_t packed_place(size_t j)
{
    return j / GROUP * GROUP + j % LANES * VECTORS + j % GROUP / LANES;
}

void mlr_pack(size_t width, const uint8_t *pixel, uint8_t *out)
{
    size_t j;

    memset(out, 0, mlr_packed_bytes(width));
    for (j = 0; j < width; j++)
        out[packed_place(j)] = pixel[j];
}

/* ---- forward ------------------------------------------------------------- */

/* acc += w x over one vector of pixels, number @v of the group at @j. */
KERNEL_PART void forward_vector(vec acc[TILE][PAIR], const float *const w[],
                                size_t j, const unsigned classes,
                                const words group[PAIR], const unsigned images,
                                const unsigned v)
{
    vec x[PAIR];
    unsigned c, i;

#pragma GCC unroll 2
    for (i = 0; i < images; i++)
        x[i] = pixels_of(group[i], v);
#pragma GCC unroll 5
    for (c = 0; c < classes; c++) {
        vec wc = load(w[c] + j + v * LANES);

#pragma GCC unroll 2
        for (i = 0; i < images; i++)
            acc[c][i] += wc * x[i];
    }
}

/* The rest of the width that fills no vector, one pixel at a time. */
KERNEL_PART float forward_rest(const float *w, const uint8_t *x, size_t from,
                               size_t width)
{
    float sum = 0;
    size_t j;

    for (j = from; j < width; j++)
        sum += w[j] * (float)x[packed_place(j)];
    return sum;
}

/* z of @classes classes from @first and @images images from @image. */
KERNEL_PART void forward_tile(const struct mlr_block *b, unsigned first,
                              const unsigned classes, size_t image,
                              const unsigned images)
{
    vec acc[TILE][PAIR] = {{{0}}};
    const uint8_t *x[PAIR];
    const float *w[TILE];
    words group[PAIR];
    unsigned c, i, v;
    size_t j, rest = b->width / LANES * LANES;

#pragma GCC unroll 2
    for (i = 0; i < images; i++)
        x[i] = b->pixel[image + i];
#pragma GCC unroll 5
    for (c = 0; c < classes; c++)
        w[c] = b->weight[first + c];
    for (j = 0; j + GROUP <= b->width; j += GROUP) {
#pragma GCC unroll 2
        for (i = 0; i < images; i++)
            group[i] = load_group(x[i] + j);
#pragma GCC unroll 4
        for (v = 0; v < VECTORS; v++)
            forward_vector(acc, w, j, classes, group, images, v);
    }
    if (j < rest) {
#pragma GCC unroll 2
        for (i = 0; i < images; i++)
            group[i] = load_group(x[i] + j);
        forward_vector(acc, w, j, classes, group, images, 0);
        if (j + 1 * LANES < rest)
            forward_vector(acc, w, j, classes, group, images, 1);
        if (j + 2 * LANES < rest)
            forward_vector(acc, w, j, classes, group, images, 2);
    }
#pragma GCC unroll 5
    for (c = 0; c < classes; c++) {
#pragma GCC unroll 2
        for (i = 0; i < images; i++)
            b->z[(image + i) * b->classes + first + c] =
                (sum_lanes(acc[c][i]) +
                 forward_rest(w[c], x[i], rest, b->width)) *
                    (1.0f / 255) +
                w[c][b->width];
    }
}

/* All classes of @images images: tiles of five, then what is left, each with
 * its size as a constant. */
KERNEL_PART void forward_images(const struct mlr_block *b, size_t image,
                                const unsigned images)
{
    unsigned c = 0;

    for (; c + TILE <= b->classes; c += TILE)
        forward_tile(b, c, TILE, image, images);
    switch (b->classes - c) {
    case 4:
        forward_tile(b, c, 4, image, images);
        break;
    case 3:
        forward_tile(b, c, 3, image, images);
        break;
    case 2:
        forward_tile(b, c, 2, image, images);
        break;
    case 1:
        forward_tile(b, c, 1, image, images);
        break;
    default:
        break;
    }
}

KERNEL_PART void prefetch_image(const struct mlr_block *b, size_t image)
{
    size_t j;

    for (j = 0; j < b->width; j += LINE)
        __builtin_prefetch(b->ahead[image] + j);
}

KERNEL_PART void forward(const struct mlr_block *b)
{
    size_t i = 0, k;

    for (; i + PAIR <= b->n; i += PAIR) {
        for (k = i; b->ahead && k < i + PAIR; k++)
            prefetch_image(b, k);
        forward_images(b, i, PAIR);
    }
    if (i < b->n) {
        if (b->ahead)
            prefetch_image(b, i);
        forward_images(b, i, 1);
    }
}

/* ---- softmax ------------------------------------------------------------- */

/* exp of x <= 0 to 2 units in the last place; 0 below -87; a NaN stays one.
 * Cody and Waite's reduction x = n log 2 + r, the polynomial of degree 6 (its
 * error on |r| <= log(2) / 2 is below half a unit), 2^n put into the
 * exponent.*/
KERNEL_PART float exp_negative(float x)
{
    const float magic = 12582912.0f; /* 1.5 2^23: adding it rounds */
    float clamped = x < -87.0f ? -87.0f : x;
    float shifted = clamped * 1.44269504f + magic;
    float n = shifted - magic;
    float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    int32_t bits;
    float power;

    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (int32_t)((uint32_t)(bits - 0x4b400000 + 127) << 23);
    memcpy(&power, &bits, sizeof(power));
    return x < -87.0f ? 0.0f : p * power;
}

/* Loss of one image from its z[classes]; z becomes exp(z - max), *sum theirs.
 * The largest z is taken off first, so that nothing overflows. */
KERNEL_PART double softmax(float *z, unsigned classes, unsigned label,
                           float *sum)
{
    float max = z[0], own;
    unsigned c;

    for (c = 1; c < classes; c++)
        max = z[c] > max ? z[c] : max;
    own = z[label] - max;
#pragma GCC unroll 5
    for (c = 0; c < classes; c++)
        z[c] = exp_negative(z[c] - max);
    *sum = 0;
#pragma GCC unroll 5
    for (c = 0; c < classes; c++)
        *sum += z[c];
    return (double)(logf(*sum) - own);
}

/* ---- backward ------------------------------------------------------------ */

/* Gradient of @classes classes from @first at @vectors vectors of pixels, the
 * first of them number @v of the group at @at. */
KERNEL_PART void backward_tile(const struct mlr_block *b, unsigned first,
                               const unsigned classes, size_t at,
                               const unsigned v, const unsigned vectors)
{
    vec acc[TILE][PAIR] = {{{0}}};
    unsigned c, k;
    size_t i;

    for (i = 0; i < b->n; i++) {
        words group = load_group(b->pixel[i] + at);
        const float *d = b->z + i * b->classes + first;
        vec x[PAIR];

#pragma GCC unroll 2
        for (k = 0; k < vectors; k++)
            x[k] = pixels_of(group, v + k);
#pragma GCC unroll 5
        for (c = 0; c < classes; c++) {
#pragma GCC unroll 2
            for (k = 0; k < vectors; k++)
                acc[c][k] += d[c] * x[k];
        }
    }
#pragma GCC unroll 5
    for (c = 0; c < classes; c++) {
        float *g = b->gradient[first + c] + at + v * LANES;

#pragma GCC unroll 2
        for (k = 0; k < vectors; k++)
            store(g + k * LANES, load(g + k * LANES) + acc[c][k]);
    }
}

KERNEL_PART void backward_rest(const struct mlr_block *b, unsigned first,
                               const unsigned classes, size_t from)
{
    unsigned c;
    size_t i, j;

    for (c = first; c < first + classes; c++) {
        for (i = 0; i < b->n; i++) {
            float d = b->z[i * b->classes + c];

            for (j = from; j < b->width; j++)
                b->gradient[c][j] += d * (float)b->pixel[i][packed_place(j)];
        }
    }
}

KERNEL_PART void backward_classes(const struct mlr_block *b, unsigned first,
                                  const unsigned classes)
{
    size_t j, rest = b->width / LANES * LANES;

    for (j = 0; j + GROUP <= b->width; j += GROUP) {
        backward_tile(b, first, classes, j, 0, PAIR);
        backward_tile(b, first, classes, j, 2, PAIR);
    }
    if (j + LANES == rest)
        backward_tile(b, first, classes, j, 0, 1);
    else if (j < rest)
        backward_tile(b, first, classes, j, 0, PAIR);
    if (j + 3 * LANES == rest)
        backward_tile(b, first, classes, j, 2, 1);
    if (rest < b->width)
        backward_rest(b, first, classes, rest);
}

KERNEL_PART void backward(const struct mlr_block *b)
{
    unsigned c = 0;

    for (; c + TILE <= b->classes; c += TILE)
        backward_classes(b, c, TILE);
    switch (b->classes - c) {
    case 4:
        backward_classes(b, c, 4);
        break;
    case 3:
        backward_classes(b, c, 3);
        break;
    case 2:
        backward_classes(b, c, 2);
        break;
    case 1:
        backward_classes(b, c, 1);
        break;
    default:
        break;
    }
}

/* d of one image, and its part of the bias' gradient. z becomes d scale / 255,
 * which spares the backward pass two factors. */
KERNEL_PART void differences(const struct mlr_block *b, float *z,
                             unsigned label, float sum)
{
    float factor = b->scale / sum;
    unsigned c;

    for (c = 0; c < b->classes; c++)
        z[c] *= factor;
    z[label] -= b->scale;
    for (c = 0; c < b->classes; c++) {
        b->gradient[c][b->width] += z[c];
        z[c] *= 1.0f / 255;
    }
}

KERNEL double mlr_train(const struct mlr_block *b)
{
    double loss = 0;
    size_t i;

    assert(b->n <= MLR_BLOCK);
    forward(b);
    for (i = 0; i < b->n; i++) {
        float *z = b->z + i * b->classes;
        float sum;

        loss += softmax(z, b->classes, b->label[i], &sum);
        differences(b, z, b->label[i], sum);
    }
    backward(b);
    return loss;
}

KERNEL double mlr_loss(const struct mlr_block *b)
{
    double loss = 0;
    float sum;
    size_t i;

    assert(b->n <= MLR_BLOCK);
    forward(b);
    for (i = 0; i < b->n; i++)
        loss += softmax(b->z + i * b->classes, b->classes, b->label[i], &sum);
    return loss;
}

KERNEL void mlr_scores(const struct mlr_block *b)
{
    assert(b->n <= MLR_BLOCK);
    forward(b);
}

KERNEL size_t mlr_correct(const struct mlr_block *b)
{
    size_t correct = 0, i;

    assert(b->n <= MLR_BLOCK);
    forward(b);
    for (i = 0; i < b->n; i++) {
        const float *z = b->z + i * b->classes;
        float best = -INFINITY;
        unsigned guess = MLR_CLASSES_MAX, c;

        for (c = 0; c < b->classes; c++) {
            if (z[c] > best) {
                best = z[c];
                guess = c;
            }
        }
        correct += guess == b->label[i];
    }
    return correct;
}

KERNEL void mlr_penalty(size_t n, float factor, const float *w, float *g)
{
    size_t j;

    for (j = 0; j < n; j++)
        g[j] += factor * w[j];
}

/* ---- the plain reference ------------------------------------------------- */

static double plain_image(size_t width, unsigned classes, const uint8_t *pixel,
                          unsigned label, const double *w, double scale,
                          double *g)
{
    double z[MLR_CLASSES_MAX];
    double max = -INFINITY, sum = 0;
    unsigned c;
    size_t j;

#pragma GCC unroll 5
    for (c = 0; c < classes; c++) {
        const double *row = w + c * (width + 1);

        z[c] = row[width];
        for (j = 0; j < width; j++)
            z[c] += row[j] * pixel[j] / 255;
        max = fmax(max, z[c]);
    }
#pragma GCC unroll 5
    for (c = 0; c < classes; c++)
        sum += exp(z[c] - max);
    for (c = 0; g && c < classes; c++) {
        double d = scale * (exp(z[c] - max) / sum - (c == label));
        double *row = g + c * (width + 1);

        for (j = 0; j < width; j++)
            row[j] += d * pixel[j] / 255;
        row[width] += d;
    }
    return log(sum) + max - z[label];
}

double mlr_train_plain(size_t n, size_t width, unsigned classes,
                       const uint8_t *const *pixel, const uint8_t *label,
                       const double *w, double scale, double *g)
{
    double loss = 0;
    size_t i;

    for (i = 0; i < n; i++)
        loss += plain_image(width, classes, pixel[i], label[i], w, scale, g);
    return loss;
}
