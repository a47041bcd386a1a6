#include "apps/glm/glm_penalty.h"

float glm_penalty_gradient(float w, float gradient, float step,
                           struct glm_penalty p)
{
    if (step > 0)
        return (w - glm_prox(w - step * gradient, step, p)) / step;
    return gradient + p.l2 * w + p.l1 * (float)((w > 0) - (w < 0));
}
