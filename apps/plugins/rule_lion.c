/* An update rule as a shared object: Lion (Chen et al. 2023, algorithm 2,
 * without its weight decay).
 *
 *     cc -shared -fPIC -O2 -o rule_lion.so rule_lion.c \
 *         `pkg-config --cflags mltune`
 *     "ps": {"update_rule": {"plugin": "rule_lion.so"}}
 *
 * Each value moves by the learning rate, up or down: by the sign of 0.9 times
 * the average of its gradients and 0.1 times the new one. The average then
 * takes in a hundredth of that. docs/algorithms.md tells of it.
 */
#include <mltune/rule.h>

static const float now = 0.1f, then = 0.01f;

static void lion_apply(const struct mlt_rule_batch *b, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < b->rows; i++) {
        float *w = b->row[i], *m = w + b->width;
        const float *g = b->sum[i];

        for (uint32_t j = 0; j < b->width; j++) {
            float c = m[j] + now * (g[j] - m[j]);

            w[j] -= b->learning_rate * (float)((c > 0) - (c < 0));
            m[j] += then * (g[j] - m[j]);
        }
    }
}

MLT_API const struct mlt_rule_ops mltune_rule = {
    .version = MLT_RULE_VERSION,
    .name = "lion",
    .summary = "steps of one size, by the sign of an average of gradients",
    .uses = MLT_RULE_LEARNING_RATE,
    .slots = 1,
    .apply = lion_apply,
};
