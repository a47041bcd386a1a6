/* Steps of skip-gram: gradients by finite differences, the plain loop. */
#include "apps/word2vec/w2v_kernel.h"
#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { WORDS = 7, TARGETS = 4, PAIRS = 40, STRIDE_MAX = 104 };

struct fixture {
    struct w2v_curve curve;
    float vectors[WORDS * STRIDE_MAX], contexts[WORDS * STRIDE_MAX];
    float change[STRIDE_MAX];
    uint32_t in[PAIRS], out[PAIRS * TARGETS];
    struct w2v_step step;
};

static struct fixture *make(unsigned stride, float scale, uint64_t seed)
{
    struct fixture *x = calloc(1, sizeof(*x));
    struct rng rng;

    rng_init(&rng, seed);
    w2v_curve_init(&x->curve);
    for (size_t i = 0; i < WORDS * stride; i++) {
        x->vectors[i] = scale * (float)rng_normal(&rng);
        x->contexts[i] = scale * (float)rng_normal(&rng);
    }
    for (size_t i = 0; i < PAIRS; i++)
        x->in[i] = (uint32_t)rng_below(&rng, WORDS);
    for (size_t i = 0; i < PAIRS * TARGETS; i++)
        x->out[i] = i % TARGETS && rng_below(&rng, 5) == 0
                        ? W2V_NONE
                        : (uint32_t)rng_below(&rng, WORDS);
    x->step = (struct w2v_step){.pairs = PAIRS,
                                .targets = TARGETS,
                                .stride = stride,
                                .in = x->in,
                                .out = x->out,
                                .vectors = x->vectors,
                                .contexts = x->contexts,
                                .rate = 0.05F,
                                .change = x->change,
                                .curve = &x->curve};
    return x;
}

/* ---- plainly -------------------------------------------------------------
 */

static double s_of(double x)
{
    return 1 / (1 + exp(-x));
}

static double loss_of(double x)
{
    return -log(s_of(x));
}

static double plain_target(const struct w2v_step *b, const float *v, float *u,
                           bool positive)
{
    double x = 0, by;

    for (unsigned j = 0; j < b->stride; j++)
        x += (double)v[j] * (double)u[j];
    by = (positive ? 1 - s_of(x) : -s_of(x)) * (double)b->rate;
    for (unsigned j = 0; j < b->stride; j++) {
        b->change[j] += (float)(by * (double)u[j]);
        u[j] += (float)(by * (double)v[j]);
    }
    return loss_of(positive ? x : -x);
}

/* Value by value. */
static double train_plain(const struct w2v_step *b)
{
    double sum = 0;

    for (size_t i = 0; i < b->pairs; i++) {
        float *v = b->vectors + (size_t)b->in[i] * b->stride;
        const uint32_t *out = b->out + i * b->targets;

        for (unsigned j = 0; j < b->stride; j++)
            b->change[j] = 0;
        for (unsigned k = 0; k < b->targets; k++)
            if (out[k] != W2V_NONE)
                sum += plain_target(
                    b, v, b->contexts + (size_t)out[k] * b->stride, k == 0);
        for (unsigned j = 0; j < b->stride; j++)
            v[j] += b->change[j];
    }
    return sum;
}

/* The loops give what the plain one does, at any width, and lengths at which
 * the curve ends. */
static void w2v_steps_are_the_plain_ones(void **state)
{
    static const unsigned strides[] = {8, 16, 24, 104};
    static const float scales[] = {0.1F, 0.5F, 3};

    (void)state;
    for (size_t i = 0; i < 12; i++) {
        unsigned stride = strides[i % 4];
        struct fixture *a = make(stride, scales[i / 4], i);
        struct fixture *b = make(stride, scales[i / 4], i);
        double sum, plain;

        sum = w2v_train(&a->step);
        plain = train_plain(&b->step);
        assert_true(fabs(sum - plain) <= 1e-4 * (1 + fabs(plain)));
        for (size_t j = 0; j < WORDS * stride; j++) {
            assert_true(fabsf(a->vectors[j] - b->vectors[j]) < 2e-3F);
            assert_true(fabsf(a->contexts[j] - b->contexts[j]) < 2e-3F);
        }
        free(a);
        free(b);
    }
}

/* One pair's step is the loss's gradient times the rate, by central
 * differences. */
static void w2v_step_is_the_gradient(void **state)
{
    struct fixture *x = make(8, 0.4F, 3), *before = malloc(sizeof(*before));
    const float h = 1e-2F;

    (void)state;
    x->in[0] = 2;
    x->out[0] = 1;
    x->out[1] = 3;
    x->out[2] = W2V_NONE;
    x->out[3] = 4;
    x->step.pairs = 1;
    x->step.rate = 1e-3F;
    memcpy(before, x, sizeof(*x));
    w2v_train(&x->step);
    for (size_t j = 0; j < 2 * WORDS * 8; j++) {
        bool of_vectors = j < WORDS * 8;
        size_t k = j % (WORDS * 8);
        float *p = of_vectors ? &before->vectors[k] : &before->contexts[k];
        float was = *p, now = of_vectors ? x->vectors[k] : x->contexts[k];
        struct w2v_step at = x->step;
        double up, down, slope;

        at.vectors = before->vectors;
        at.contexts = before->contexts;
        *p = was + h;
        up = w2v_loss(&at);
        *p = was - h;
        down = w2v_loss(&at);
        *p = was;
        slope = (up - down) / (2 * (double)h);
        if (fabs((double)(was - now) / 1e-3 - slope) > 2e-3)
            fail_msg("value %zu: %g, by differences %g", j,
                     (double)(was - now) / 1e-3, slope);
    }
    free(x);
    free(before);
}

/* The loss of a pair at known products. */
static void w2v_loss_is_the_formula(void **state)
{
    struct fixture *x = make(8, 0, 1);

    (void)state;
    x->step.pairs = 1;
    x->step.targets = 2;
    x->in[0] = 0;
    x->out[0] = 1;
    x->out[1] = 2;
    x->vectors[0] = 1;
    x->contexts[8] = 1.5F;
    x->contexts[16] = -20;
    /* Up to 4e-6 by the curve. */
    assert_true(fabs(w2v_loss(&x->step) - (log1p(exp(-1.5)) + exp(-20))) <
                1e-5);
    x->contexts[16] = 20;
    assert_true(fabs(w2v_loss(&x->step) - (log1p(exp(-1.5)) + 20)) < 1e-5);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(w2v_steps_are_the_plain_ones),
        cmocka_unit_test(w2v_step_is_the_gradient),
        cmocka_unit_test(w2v_loss_is_the_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
