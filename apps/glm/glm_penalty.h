/* The elastic net as a proximal step, of weights that a clock touches.
 *
 *     prox(v) = sign(v) max(0, |v| - step l1) / (1 + step l2)
 *
 * Pure functions.
 */
#ifndef APPS_GLM_PENALTY_H
#define APPS_GLM_PENALTY_H

struct glm_penalty {
    float l1, l2; /* >= 0 */
};

/* The penalty of the weight @w. */
static inline double glm_penalty_of(float w, struct glm_penalty p)
{
    double v = (double)w, size = v < 0 ? -v : v;

    return (double)p.l1 * size + (double)p.l2 / 2 * v * v;
}

/* The weight @v after a proximal step (Parikh and Boyd 2014, section 6.5.2). */
static inline float glm_prox(float v, float step, struct glm_penalty p)
{
    float cut = step * p.l1, size = v < 0 ? -v : v;

    size = size > cut ? size - cut : 0;
    return (v < 0 ? -size : size) / (1 + step * p.l2);
}

/* The gradient that takes @w to the proximal point of its step by @gradient:
 * (w - prox(w - step gradient)) / step. It is 0 at the minimum, whatever the
 * step, so update rules that scale gradients leave the minimum where it is; a
 * plain step by @step lands on the proximal point itself. For step 0 what it
 * tends to, but for the corner of l1: gradient + l2 w + l1 sign(w). */
float glm_penalty_gradient(float w, float gradient, float step,
                           struct glm_penalty p);

#endif
