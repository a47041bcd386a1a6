#include "apps/nn/nn_conv_kernel.h"

#include "apps/nn/nn_tiles.h"

#include <assert.h>
#include <math.h>

enum { IMAGES = 12 }; /* that a group spans */

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

static void make_runs(const struct nn_gather *g, const struct nn_reach *y,
                      const struct nn_reach *x, struct nn_runs *runs)
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
        struct nn_group group = {
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
        NN_CALL(nn_gather_group, g, &group);
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

void nn_correlate(const struct nn_correlate *c, size_t n, size_t first,
                  size_t end, const float *x, const float *dy)
{
    NN_CALL(nn_correlate, c, n, first, end, x, dy);
}
