/* Softmax regression: loss, gradient and predictions of a block of images.
 *
 *   z[i][c] = w[c] . x[i] + bias[c],  x = pixel / 255
 *   loss    = sum_i (log sum_c exp z[i][c] - z[i][label i])
 *   d[i][c] = exp z[i][c] / sum - (c == label i)
 *   g[c]   += scale sum_i d[i][c] x[i],  g_bias[c] += scale sum_i d[i][c]
 *
 * A row of weights or gradients has width values, then the bias. Pixels stay
 * bytes in memory and are converted in registers. For that they are packed:
 * in each group of 32, byte 4 k + b is pixel 8 b + k, so that shifting and
 * masking the group as 8 words gives 8 successive pixels at a time, with no
 * more than SSE2 has (gcc 12 takes byte-wise conversions apart into scalars).
 * Pure functions.
 */
#ifndef APPS_MLR_KERNEL_H
#define APPS_MLR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    MLR_BLOCK = 32,        /* images a call, at most */
    MLR_CLASSES_MAX = 256, /* labels are bytes */
};

/* Bytes of a packed image of @width pixels. */
static inline size_t mlr_packed_bytes(size_t width)
{
    return (width + 31) / 32 * 32;
}

/* @pixel[width] in packed order into @out[mlr_packed_bytes(width)]; what is
 * beyond the width is 0. */
void mlr_pack(size_t width, const uint8_t *pixel, uint8_t *out);

struct mlr_block {
    size_t n;                    /* images, <= MLR_BLOCK */
    size_t width;                /* pixels an image */
    unsigned classes;            /* 1 .. MLR_CLASSES_MAX */
    const uint8_t *const *pixel; /* [n] packed images */
    const uint8_t *label;        /* [n], each below classes */
    const uint8_t *const *ahead; /* [n] images to fetch meanwhile, or NULL */
    const float *const *weight;  /* [classes][width + 1] */
    float *const *gradient;      /* [classes][width + 1]: added to */
    float scale;                 /* of the gradient */
    float *z;                    /* [n][classes] scratch */
};

/* Adds the block's gradient and returns the sum of the losses; b->z holds d
 * afterwards. Non-finite where a z is. Cost: 2 n classes width multiply-adds.
 */
double mlr_train(const struct mlr_block *b);

/* Sum of the losses only; gradient may be NULL. */
double mlr_loss(const struct mlr_block *b);

/* Number of images that have their largest z at their label (the lowest class
 * wins a tie; a z that is no number never wins); gradient may be NULL. */
size_t mlr_correct(const struct mlr_block *b);

/* z alone; labels and gradient may be NULL. */
void mlr_scores(const struct mlr_block *b);

/* g[j] += factor * w[j], j < n: the gradient of the penalty. */
void mlr_penalty(size_t n, float factor, const float *w, float *g);

/* The plain reference: the same sums in double, value by value, of unpacked
 * pixels [n][width]. @w [classes][width + 1], @g [classes][width + 1] added to,
 * or NULL. */
double mlr_train_plain(size_t n, size_t width, unsigned classes,
                       const uint8_t *const *pixel, const uint8_t *label,
                       const double *w, double scale, double *g);

#endif
