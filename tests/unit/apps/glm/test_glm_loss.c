/* Losses, slopes and the proximal step of glm. */
#include "apps/glm/glm_loss.h"
#include "apps/glm/glm_penalty.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { OUTPUTS = 4 };

static void near_to(double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within))
        fail_msg("%.9g, wanted %.9g", got, wanted);
}

/* Every slope is the derivative of its loss, by central differences in double
 * of losses that are smooth between both places. */
static void glm_slopes_are_derivatives(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 5);
    for (int round = 0; round < 2000; round++) {
        enum glm_loss loss = (enum glm_loss)rng_below(&rng, GLM_LOSS_COUNT);
        unsigned n = glm_loss_outputs(loss, OUTPUTS);
        float z[OUTPUTS], d[OUTPUTS], at[OUTPUTS];
        float y = loss == GLM_SQUARED ? (float)rng_normal(&rng)
                                      : (float)rng_below(&rng, n == 1 ? 2 : n);

        for (unsigned c = 0; c < n; c++)
            z[c] = (float)(4 * rng_normal(&rng));
        if (loss == GLM_HINGE &&
            fabs(1 - (y > 0 ? 1 : -1) * (double)z[0]) < 0.1)
            continue; /* the corner */
        glm_loss_at(loss, n, z, y, d);
        for (unsigned c = 0; c < n; c++) {
            double up, down, h = 1.0 / 64;

            memcpy(at, z, sizeof(at));
            at[c] = z[c] + (float)h;
            up = glm_loss_at(loss, n, at, y, NULL);
            at[c] = z[c] - (float)h;
            down = glm_loss_at(loss, n, at, y, NULL);
            if (fabs((up - down) / (2 * h) - (double)d[c]) > 2e-4)
                fail_msg("%s: %g, slope %g", glm_loss_name(loss),
                         (up - down) / (2 * h), (double)d[c]);
        }
    }
}

/* Scores far out neither overflow nor lose the loss; what is no number is seen.
 */
static void glm_losses_hold_far_out(void **state)
{
    float z[2] = {3e4f, -3e4f}, nan = NAN, d[2];

    (void)state;
    near_to(glm_loss_at(GLM_LOGISTIC, 1, z, 0, d), 3e4, 1);
    near_to(d[0], 1, 1e-6);
    near_to(glm_loss_at(GLM_LOGISTIC, 1, z, 1, d), 0, 1e-9);
    near_to(d[0], 0, 1e-9);
    near_to(glm_loss_at(GLM_SOFTMAX, 2, z, 1, d), 6e4, 1);
    near_to(d[1], -1, 1e-6);
    for (enum glm_loss loss = GLM_SQUARED; loss < GLM_SOFTMAX; loss++)
        assert_true(isnan(glm_loss_at(loss, 1, &nan, 1, NULL)));
    z[0] = nan;
    assert_true(isnan(glm_loss_at(GLM_SOFTMAX, 2, z, 1, NULL)));
}

/* A hit is the class of the highest score, of equal ones the lowest. */
static void glm_hits_are_of_the_highest_score(void **state)
{
    const float z[3] = {1, 2, 2}, up = 0.5f, none = 0;

    (void)state;
    assert_true(glm_loss_hits(GLM_SOFTMAX, 3, z, 1));
    assert_false(glm_loss_hits(GLM_SOFTMAX, 3, z, 2));
    assert_true(glm_loss_hits(GLM_LOGISTIC, 1, &up, 1));
    assert_true(glm_loss_hits(GLM_HINGE, 1, &none, 0));
    for (enum glm_loss loss = GLM_SQUARED; loss < GLM_LOSS_COUNT; loss++)
        assert_int_equal(glm_loss_find(glm_loss_name(loss)), loss);
    assert_int_equal(glm_loss_find("none"), GLM_LOSS_COUNT);
}

/* The penalty's gradient is 0 at the minimum of slope g and elastic net, and a
 * plain step by it from anywhere lands on the proximal point. */
static void glm_penalty_gradient_ends_at_the_minimum(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 6);
    for (int round = 0; round < 1000; round++) {
        struct glm_penalty p = {(float)rng_uniform(&rng),
                                (float)rng_uniform(&rng) + 0.1f};
        float centre = (float)rng_normal(&rng), step = 0.3f;
        /* of (w - centre)^2 / 2 + the penalty */
        float best = glm_prox(centre, 1, p), w = (float)rng_normal(&rng);

        assert_true(fabsf(glm_penalty_gradient(best, best - centre, step, p)) <
                    1e-5f);
        near_to(w - step * glm_penalty_gradient(w, w - centre, step, p),
                glm_prox(w - step * (w - centre), step, p), 1e-6);
        for (int i = 0; i < 200; i++)
            w -= step * glm_penalty_gradient(w, w - centre, step, p);
        near_to(w, best, 1e-4);
    }
    near_to(glm_penalty_gradient(2, 1, 0, (struct glm_penalty){0.5f, 0.25f}), 2,
            1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glm_slopes_are_derivatives),
        cmocka_unit_test(glm_losses_hold_far_out),
        cmocka_unit_test(glm_hits_are_of_the_highest_score),
        cmocka_unit_test(glm_penalty_gradient_ends_at_the_minimum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
