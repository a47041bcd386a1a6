#include "apps/nn/nn_conv_kernel.h"

#include "apps/nn/nn_vec.h"

#include <assert.h>
#include <math.h>

/* Tiles have 12 accumulators or fewer; with the operands they fill the 16
 * registers of AVX2. Three vectors of channels go with four positions, two with
 * six, one with eight. */
enum { VECTORS_MAX = 3, IMAGES = 12 };

/* ---- where a target reads ------------------------------------------------ */

static struct nn_reach reach_forward(const struct nn_layer *l, size_t at,
                                     size_t sources)
{
    size_t from = at * l->stride, end = from + l->kernel - l->padding;
    size_t source = from > l->padding ? from - l->padding : 0;

    return (struct nn_reach){.source = source,
                             .weight = source + l->padding - from,
                             .count = (end < sources ? end : sources) - source};
}

/* Rows (or columns) of the kernel of phase @q of the stride. */
static size_t phase_count(const struct nn_layer *l, size_t q)
{
    return q < l->kernel ? (l->kernel - 1 - q) / l->stride + 1 : 0;
}

static size_t phase_begin(const struct nn_layer *l, size_t q)
{
    size_t begin = 0, k;

    for (k = 0; k < q; k++)
        begin += phase_count(l, k);
    return begin;
}

/* Input position t = at + padding was read by the windows (t - k) / stride for
 * every k of t's phase: a falling k is a rising window. */
static struct nn_reach reach_backward(const struct nn_layer *l, size_t at,
                                      size_t windows)
{
    size_t q = (at + l->padding) % l->stride;
    size_t last = (at + l->padding) / l->stride, count = phase_count(l, q);
    size_t j0 = last >= windows ? last - windows + 1 : 0;
    size_t j1 = last + 1 < count ? last + 1 : count; /* behind the last */

    if (j0 >= j1)
        return (struct nn_reach){0};
    return (struct nn_reach){.source = last + 1 - j1,
                             .weight = phase_begin(l, q) + count - j1,
                             .count = j1 - j0};
}

size_t nn_kernel_place(const struct nn_layer *l, bool forward, size_t k)
{
    size_t q = k % l->stride;

    if (forward)
        return k;
    return phase_begin(l, q) + phase_count(l, q) - 1 - k / l->stride;
}

static struct nn_reach reach(const struct nn_gather *g, size_t at,
                             size_t sources)
{
    return g->forward ? reach_forward(g->layer, at, sources)
                      : reach_backward(g->layer, at, sources);
}

/* ---- gather -------------------------------------------------------------- */

/* Runs that a tile sums over: floats from a position's base, floats into the
 * weights, length. */
struct runs {
    size_t count, length;
    size_t from[NN_KERNEL_MAX], weight[NN_KERNEL_MAX];
};

/* A group of targets that meet the same weights: `run` of them in a row, in
 * each of @n images. */
struct group {
    struct runs runs;
    size_t n, run;
    const float *from;
    float *to;
};

/* Position number @k of the group: where it reads and writes. */
struct cursor {
    size_t image, place;
};

KERNEL_PART void take_positions(const struct nn_gather *g,
                                const struct group *group, struct cursor *at,
                                const unsigned positions, size_t valid,
                                const float *from[], float *to[])
{
    size_t depth = g->source.channels, width = g->target.channels;
    unsigned r;

    for (r = 0; r < positions; r++) {
        from[r] = group->from + at->image * nn_shape_size(g->source) +
                  at->place * g->step * depth;
        to[r] = group->to + at->image * nn_shape_size(g->target) +
                at->place * width;
        if (r + 1 < valid && ++at->place == group->run) {
            at->place = 0;
            at->image++;
        }
    }
    if (++at->place == group->run) {
        at->place = 0;
        at->image++;
    }
}

/* @positions targets, of which the first @valid are wanted, and @vectors
 * vectors of channels from @channel on. */
KERNEL_PART void gather_tile(const struct nn_gather *g, const struct runs *runs,
                             const float *const from[], float *const to[],
                             size_t channel, const unsigned positions,
                             size_t valid, const unsigned vectors)
{
    nn_vec acc[8][VECTORS_MAX];
    size_t s, k, left = g->target.channels - channel;
    unsigned r, v;

#pragma GCC unroll 8
    for (r = 0; r < positions; r++) {
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            acc[r][v] = g->bias ? nn_load(g->bias + channel + v * NN_LANES)
                                : (nn_vec){0};
    }
    for (s = 0; s < runs->count; s++) {
        const float *w = g->weight + runs->weight[s] + channel;
        const float *x[8];

#pragma GCC unroll 8
        for (r = 0; r < positions; r++)
            x[r] = from[r] + runs->from[s];
        for (k = 0; k < runs->length; k++, w += g->stride) {
            nn_vec b[VECTORS_MAX];

#pragma GCC unroll 3
            for (v = 0; v < vectors; v++)
                b[v] = nn_load(w + v * NN_LANES);
#pragma GCC unroll 8
            for (r = 0; r < positions; r++) {
#pragma GCC unroll 3
                for (v = 0; v < vectors; v++)
                    acc[r][v] += x[r][k] * b[v];
            }
        }
    }
#pragma GCC unroll 8
    for (r = 0; r < positions; r++) {
        if (r >= valid)
            break;
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            nn_store_part(to[r] + channel + v * NN_LANES, acc[r][v],
                          v + 1 < vectors ? NN_LANES : left - v * NN_LANES);
    }
}

KERNEL_PART void gather_channels(const struct nn_gather *g,
                                 const struct group *group, size_t channel,
                                 const unsigned positions,
                                 const unsigned vectors)
{
    size_t all = group->n * group->run, k, valid;
    struct cursor at = {0};
    const float *from[8];
    float *to[8];

    for (k = 0; k < all; k += positions) {
        valid = all - k < positions ? all - k : positions;
        take_positions(g, group, &at, positions, valid, from, to);
        gather_tile(g, &group->runs, from, to, channel, positions, valid,
                    vectors);
    }
}

/* Vectors of the next block of channels: threes, but no lone one at the end. */
KERNEL_PART unsigned next_vectors(size_t left)
{
    size_t vectors = (left + NN_LANES - 1) / NN_LANES;

    return vectors == 4 ? 2 : vectors > 3 ? 3 : (unsigned)vectors;
}

KERNEL static void gather_group(const struct nn_gather *g,
                                const struct group *group)
{
    size_t c = 0;

    while (c < g->target.channels) {
        unsigned vectors = next_vectors(g->target.channels - c);

        if (vectors == 3)
            gather_channels(g, group, c, 4, 3);
        else if (vectors == 2)
            gather_channels(g, group, c, 6, 2);
        else
            gather_channels(g, group, c, 8, 1);
        c += vectors * NN_LANES;
    }
}

static void make_runs(const struct nn_gather *g, const struct nn_reach *y,
                      const struct nn_reach *x, struct runs *runs)
{
    size_t depth = g->source.channels, k;

    runs->count = x->count > 0 ? y->count : 0;
    runs->length = x->count * depth;
    for (k = 0; k < runs->count; k++) {
        runs->from[k] = ((y->source + k) * g->source.width + x->source) * depth;
        runs->weight[k] = ((y->weight + k) * g->layer->kernel + x->weight) *
                          depth * g->stride;
    }
}

/* Targets of row @y of @n images from @image on. */
static void gather_row(const struct nn_gather *g, size_t image, size_t n,
                       size_t y)
{
    struct nn_reach rows = reach(g, y, g->source.height);
    struct nn_reach now = reach(g, 0, g->source.width), next = {0};
    size_t x, run;

    for (x = 0; x < g->target.width; x += run, now = next) {
        struct group group = {
            .n = n,
            .from = g->from + image * nn_shape_size(g->source),
            .to = g->to + image * nn_shape_size(g->target) +
                  (y * g->target.width + x) * g->target.channels};

        for (run = 1; x + run < g->target.width; run++) {
            next = reach(g, x + run, g->source.width);
            if (next.weight != now.weight || next.count != now.count ||
                next.source != now.source + run * g->step)
                break;
        }
        group.run = run;
        make_runs(g, &rows, &now, &group.runs);
        gather_group(g, &group);
    }
}

void nn_gather(const struct nn_gather *g, size_t n)
{
    size_t image, count, y;

    for (image = 0; image < n; image += count) {
        count = n - image < IMAGES ? n - image : IMAGES;
        for (y = 0; y < g->target.height; y++)
            gather_row(g, image, count, y);
    }
}

/* ---- correlate ----------------------------------------------------------- */

/* Rows row .. row + rows - 1 of the sum and @vectors vectors of its columns. */
KERNEL_PART void correlate_tile(const struct nn_correlate *c, size_t n,
                                size_t first, size_t end, const float *x,
                                const float *dy, size_t row, size_t channel,
                                const unsigned rows, const unsigned vectors)
{
    float *sum = c->sum + row * c->stride + channel;
    nn_vec acc[NN_TILE_ROWS][VECTORS_MAX];
    size_t i, y, k;
    unsigned r, v;

#pragma GCC unroll 8
    for (r = 0; r < rows; r++) {
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            acc[r][v] = nn_load(sum + r * c->stride + v * NN_LANES);
    }
    for (i = 0; i < n; i++)
        for (y = first; y < end; y++) {
            const float *b =
                dy + channel + (i * c->height + y) * c->width * c->channels;
            const float *at =
                x + i * c->image_floats + y * c->step_rows * c->row_floats;
            const float *a[NN_TILE_ROWS];

#pragma GCC unroll 8
            for (r = 0; r < rows; r++)
                a[r] = at + c->place[row + r];
            for (k = 0; k < c->width * c->step;
                 k += c->step, b += c->channels) {
                nn_vec d[VECTORS_MAX];

#pragma GCC unroll 3
                for (v = 0; v < vectors; v++)
                    d[v] = nn_load(b + v * NN_LANES);
#pragma GCC unroll 8
                for (r = 0; r < rows; r++) {
#pragma GCC unroll 3
                    for (v = 0; v < vectors; v++)
                        acc[r][v] += a[r][k] * d[v];
                }
            }
        }
#pragma GCC unroll 8
    for (r = 0; r < rows; r++) {
#pragma GCC unroll 3
        for (v = 0; v < vectors; v++)
            nn_store(sum + r * c->stride + v * NN_LANES, acc[r][v]);
    }
}

KERNEL_PART void correlate_channels(const struct nn_correlate *c, size_t n,
                                    size_t first, size_t end, const float *x,
                                    const float *dy, size_t channel,
                                    const unsigned rows, const unsigned vectors)
{
    size_t row;

    for (row = 0; row < c->rows; row += rows)
        correlate_tile(c, n, first, end, x, dy, row, channel, rows, vectors);
}

KERNEL void nn_correlate(const struct nn_correlate *c, size_t n, size_t first,
                         size_t end, const float *x, const float *dy)
{
    size_t at = 0;

    while (at < c->channels) {
        unsigned vectors = next_vectors(c->channels - at);

        if (vectors == 3)
            correlate_channels(c, n, first, end, x, dy, at, 4, 3);
        else if (vectors == 2)
            correlate_channels(c, n, first, end, x, dy, at, 6, 2);
        else
            correlate_channels(c, n, first, end, x, dy, at, 8, 1);
        at += vectors * NN_LANES;
    }
}
