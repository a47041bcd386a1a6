/* gen:digits (apps/data/gen.h). A digit is a set of strokes through points in
 * the unit square (y downward), smoothed, moved by a random affine map and
 * drawn by distance, so that edges are soft as in scanned ink. */
#include "apps/data/gen.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SAMPLES, KEY_SIZE, KEY_TEST, KEY_NOISE, KEY_SEED };

enum {
    DIGITS = 10,
    STROKES_MAX = 4,
    POINTS_MAX = 13, /* of a stroke */
    SMOOTH = 4,      /* segments between two points */
    NOISE_TABLE = 4096
};

struct point {
    float x, y;
};

/* Two points in the same place end a stroke's list. */
struct glyph {
    unsigned strokes;
    struct {
        unsigned points;
        struct point at[POINTS_MAX];
    } stroke[STROKES_MAX];
};

static const struct glyph glyphs[DIGITS] = {
    {1,
     {{9,
       {{.50f, .10f},
        {.72f, .22f},
        {.78f, .50f},
        {.72f, .78f},
        {.50f, .90f},
        {.28f, .78f},
        {.22f, .50f},
        {.28f, .22f},
        {.50f, .10f}}}}},
    {2, {{2, {{.33f, .27f}, {.55f, .10f}}}, {2, {{.55f, .10f}, {.55f, .90f}}}}},
    {2,
     {{8,
       {{.23f, .30f},
        {.32f, .15f},
        {.52f, .10f},
        {.71f, .17f},
        {.75f, .34f},
        {.60f, .57f},
        {.37f, .77f},
        {.21f, .90f}}},
      {2, {{.21f, .90f}, {.80f, .90f}}}}},
    {2,
     {{5,
       {{.25f, .18f}, {.50f, .10f}, {.72f, .20f}, {.70f, .38f}, {.45f, .48f}}},
      {5,
       {{.45f, .48f},
        {.73f, .58f},
        {.76f, .75f},
        {.52f, .90f},
        {.24f, .82f}}}}},
    {3,
     {{2, {{.63f, .90f}, {.63f, .10f}}},
      {2, {{.63f, .10f}, {.20f, .62f}}},
      {2, {{.20f, .62f}, {.84f, .62f}}}}},
    {3,
     {{2, {{.74f, .10f}, {.31f, .10f}}},
      {2, {{.31f, .10f}, {.27f, .46f}}},
      {7,
       {{.27f, .46f},
        {.50f, .40f},
        {.72f, .50f},
        {.76f, .69f},
        {.60f, .87f},
        {.40f, .90f},
        {.23f, .82f}}}}},
    {1,
     {{10,
       {{.68f, .12f},
        {.44f, .25f},
        {.29f, .48f},
        {.26f, .72f},
        {.42f, .90f},
        {.64f, .87f},
        {.74f, .70f},
        {.64f, .54f},
        {.44f, .53f},
        {.28f, .68f}}}}},
    {2,
     {{2, {{.20f, .11f}, {.80f, .11f}}},
      {3, {{.80f, .11f}, {.56f, .50f}, {.42f, .90f}}}}},
    {1,
     {{13,
       {{.50f, .48f},
        {.31f, .36f},
        {.31f, .18f},
        {.50f, .10f},
        {.69f, .18f},
        {.69f, .36f},
        {.50f, .48f},
        {.26f, .62f},
        {.27f, .82f},
        {.50f, .90f},
        {.73f, .82f},
        {.74f, .62f},
        {.50f, .48f}}}}},
    {2,
     {{8,
       {{.73f, .30f},
        {.62f, .13f},
        {.41f, .10f},
        {.27f, .25f},
        {.34f, .44f},
        {.55f, .48f},
        {.70f, .37f},
        {.73f, .30f}}},
      {3, {{.73f, .30f}, {.71f, .60f}, {.55f, .90f}}}}},
};

/* Bends of each sample: standard deviations, of the unit square. */
static const double jitter = 0.025, rotation = 0.18, shear = 0.2, scale = 0.12,
                    shift = 0.045;
/* Half of the pen's width, from .. to; the digit's box in the image. */
static const double pen_min = 0.025, pen_max = 0.065, box = 0.72;

struct digit_maker {
    unsigned size;
    double noise;
    float *ink;                /* [size * size] 0..1 */
    float normal[NOISE_TABLE]; /* standard normal numbers to draw from */
};

/* x' = a x + b y + e, y' = c x + d y + g, around the centre; in pixels. */
struct affine {
    double a, b, c, d, e, g;
};

static struct affine random_affine(struct rng *rng, unsigned size)
{
    double angle = rotation * rng_normal(rng), lean = shear * rng_normal(rng);
    double sx = box * exp(scale * rng_normal(rng)) * size;
    double sy = box * exp(scale * rng_normal(rng)) * size;
    double co = cos(angle), si = sin(angle);
    struct affine m = {.a = co * sx,
                       .b = (co * lean - si) * sy,
                       .c = si * sx,
                       .d = (si * lean + co) * sy};

    m.e = (0.5 + shift * rng_normal(rng)) * size - 0.5 * (m.a + m.b);
    m.g = (0.5 + shift * rng_normal(rng)) * size - 0.5 * (m.c + m.d);
    return m;
}

static float square(float v)
{
    return v * v;
}

/* Distance of (x, y) from the segment p q. */
static float segment_distance(float x, float y, struct point p, struct point q)
{
    float dx = q.x - p.x, dy = q.y - p.y;
    float len2 = dx * dx + dy * dy;
    float t = len2 > 0 ? ((x - p.x) * dx + (y - p.y) * dy) / len2 : 0;

    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return sqrtf(square(p.x + t * dx - x) + square(p.y + t * dy - y));
}

static unsigned clamp_pixel(float v, unsigned size)
{
    return v < 0 ? 0 : v >= (float)size ? size - 1 : (unsigned)v;
}

/* Draws the segment with a soft edge of one pixel; the darker ink stays. */
static void draw_segment(struct digit_maker *m, struct point p, struct point q,
                         float half)
{
    float reach = half + 1;
    unsigned x0 = clamp_pixel(fminf(p.x, q.x) - reach, m->size);
    unsigned x1 = clamp_pixel(fmaxf(p.x, q.x) + reach, m->size);
    unsigned y0 = clamp_pixel(fminf(p.y, q.y) - reach, m->size);
    unsigned y1 = clamp_pixel(fmaxf(p.y, q.y) + reach, m->size);
    unsigned x, y;

    for (y = y0; y <= y1; y++) {
        for (x = x0; x <= x1; x++) {
            float *ink = &m->ink[y * m->size + x];
            float d = segment_distance((float)x + 0.5f, (float)y + 0.5f, p, q);
            float v = half - d + 0.5f;

            v = v < 0 ? 0 : v > 1 ? 1 : v;
            *ink = v > *ink ? v : *ink;
        }
    }
}

/* Catmull-Rom spline between b and c, at @t. */
static struct point spline(struct point a, struct point b, struct point c,
                           struct point d, float t)
{
    float wa = 0.5f * t * (-1 + t * (2 - t));
    float wb = 0.5f * (2 + t * t * (-5 + 3 * t));
    float wc = 0.5f * t * (1 + t * (4 - 3 * t));
    float wd = 0.5f * t * t * (t - 1);

    return (struct point){wa * a.x + wb * b.x + wc * c.x + wd * d.x,
                          wa * a.y + wb * b.y + wc * c.y + wd * d.y};
}

static void draw_stroke(struct digit_maker *m, const struct point at[],
                        unsigned points, float half)
{
    struct point from = at[0];
    unsigned i, k;

    for (i = 0; i + 1 < points; i++) {
        struct point before = i > 0 ? at[i - 1] : at[i];
        struct point after = i + 2 < points ? at[i + 2] : at[i + 1];

        for (k = 1; k <= SMOOTH; k++) {
            struct point to =
                spline(before, at[i], at[i + 1], after, (float)k / SMOOTH);

            draw_segment(m, from, to, half);
            from = to;
        }
    }
}

static void draw_digit(struct digit_maker *m, const struct glyph *glyph,
                       struct rng *rng)
{
    struct affine map = random_affine(rng, m->size);
    float half =
        (float)((pen_min + (pen_max - pen_min) * rng_uniform(rng)) * m->size);
    struct point at[POINTS_MAX];
    unsigned s, i;

    memset(m->ink, 0, (size_t)m->size * m->size * sizeof(*m->ink));
    for (s = 0; s < glyph->strokes; s++) {
        unsigned points = glyph->stroke[s].points;

        for (i = 0; i < points; i++) {
            struct point p = glyph->stroke[s].at[i];
            double x = p.x + jitter * rng_normal(rng);
            double y = p.y + jitter * rng_normal(rng);

            at[i].x = (float)(map.a * x + map.b * y + map.e);
            at[i].y = (float)(map.c * x + map.d * y + map.g);
        }
        draw_stroke(m, at, points, half);
    }
}

static void put_pixels(const struct digit_maker *m, struct rng *rng,
                       uint8_t *to)
{
    size_t n = (size_t)m->size * m->size, i;
    double gain = 0.75 + 0.25 * rng_uniform(rng);
    uint64_t bits = 0;

    for (i = 0; i < n; i++) {
        double v = gain * (double)m->ink[i];

        if (m->noise > 0) {
            bits = i % 4 ? bits >> 16 : rng_next(rng);
            v += m->noise * (double)m->normal[bits % NOISE_TABLE];
        }
        to[i] = (uint8_t)(v <= 0 ? 0 : v >= 1 ? 255 : v * 255 + 0.5);
    }
}

static enum err images_alloc(struct images *im, uint64_t count, unsigned size)
{
    uint64_t n = (uint64_t)size * size;

    *im = (struct images){
        .rows = size, .cols = size, .depth = 1, .classes = DIGITS};
    if (count == 0)
        return ERR_OK;
    im->pixel = mem_alloc(count * n);
    im->label = mem_alloc(count);
    if (!im->pixel || !im->label) {
        images_deinit(im);
        return ERR_NOMEM;
    }
    im->count = count;
    return ERR_OK;
}

static void fill(struct digit_maker *m, uint64_t seed, struct images *im)
{
    uint64_t width = images_width(im), i;

    for (i = 0; i < im->count; i++) {
        struct rng rng;

        rng_init(&rng, rng_mix(seed, i));
        im->label[i] = (uint8_t)rng_below(&rng, DIGITS);
        draw_digit(m, &glyphs[im->label[i]], &rng);
        put_pixels(m, &rng, im->pixel + i * width);
    }
}

static uint64_t tests_of(const double v[])
{
    return v[KEY_TEST] < 0 ? (uint64_t)v[KEY_SAMPLES] / 6
                           : (uint64_t)v[KEY_TEST];
}

uint64_t gen_digits_bytes(const double v[])
{
    uint64_t size = (uint64_t)v[KEY_SIZE];

    return ((uint64_t)v[KEY_SAMPLES] + tests_of(v)) * (size * size + 1);
}

static enum err make(const double v[], uint64_t limit_bytes,
                     struct images *train, struct images *test, struct fault *f)
{
    unsigned size = (unsigned)v[KEY_SIZE], i;
    uint64_t samples = (uint64_t)v[KEY_SAMPLES];
    uint64_t tests = tests_of(v);
    uint64_t seed = rng_mix((uint64_t)v[KEY_SEED], 0xd191);
    struct digit_maker *m;
    struct rng rng;
    enum err err =
        data_memory_check("gen:digits", gen_digits_bytes(v), limit_bytes, f);

    if (err)
        return err;
    m = mem_calloc(1, sizeof(*m));
    if (m)
        m->ink = mem_alloc((size_t)size * size * sizeof(*m->ink));
    if (!m || !m->ink || images_alloc(train, samples, size) ||
        images_alloc(test, tests, size)) {
        err = fault_set(f, ERR_NOMEM, "gen:digits: out of memory");
    } else {
        m->size = size;
        m->noise = v[KEY_NOISE];
        rng_init(&rng, seed);
        for (i = 0; i < NOISE_TABLE; i++)
            m->normal[i] = (float)rng_normal(&rng);
        fill(m, rng_mix(seed, 1), train);
        fill(m, rng_mix(seed, 2), test);
    }
    if (m)
        mem_free(m->ink);
    mem_free(m);
    return err;
}

enum err gen_digits(const char *spec, uint64_t limit_bytes,
                    struct images *train, struct images *test, struct fault *f)
{
    struct images a = {0}, b = {0};
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_IDX)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected images", spec,
                         data_kind_text(kind->kind));
    err = make(v, limit_bytes, &a, &b, f);
    if (err) {
        images_deinit(&a);
        images_deinit(&b);
        return err;
    }
    *train = a;
    *test = b;
    return ERR_OK;
}
