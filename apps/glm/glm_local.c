/* glm: the solver local. A worker takes mini-batch steps on its own copy of the
 * weights, `local_batch` samples each, and adds how far it came at the end of
 * the part, divided by the number of workers (local SGD: Stich 2019, with one
 * part between two averages).
 *
 * The penalty acts at each column that a sample of the batch has, once a
 * sample, times how much rarer than the samples it is (Leblond, Pedregosa and
 * Lacoste-Julien 2017): over a pass that comes to lambda a step.
 */
#include "apps/glm/glm_app.h"

#include <assert.h>

/* @by: the rate over the samples of the batch. */
struct local {
    const struct glm *m;
    struct glm_work *k;
    float by;
};

/* The gradient's step is taken by the first sample that has the column. */
static inline void step_value(const struct local *s, float *w, float *g,
                              struct glm_penalty p)
{
    *w -= s->by * *g;
    *g = 0;
    if (s->m->lambda > 0)
        *w = glm_prox(*w, s->by, p);
}

static void step_sample(const struct local *s, uint64_t i)
{
    const struct glm *m = s->m;
    const struct glm_set *set = &m->train;
    const float l1 = (float)(m->lambda * m->l1_ratio);
    const float l2 = (float)(m->lambda * (1 - m->l1_ratio));

    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++) {
        size_t row = set->index[e], at = row * m->outputs;
        float rarity = m->rarity[row];
        const struct glm_penalty p = {rarity * l1, rarity * l2};

        for (unsigned c = 0; c < m->outputs; c++)
            step_value(s, s->k->weight + at + c, s->k->gradient + at + c, p);
    }
}

/* A step by samples @sample[n]. Returns the sum of their losses before it. */
static double step_batch(const struct glm *m, struct glm_work *k,
                         const uint64_t *sample, uint64_t n, float rate)
{
    const struct local s = {m, k, rate / (float)n};
    size_t bias = (size_t)m->columns * m->outputs;
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        glm_scores(m, k, &m->train, sample[i]);
        sum +=
            glm_loss_at(m->loss, m->outputs, k->z, m->train.y[sample[i]], k->d);
        glm_add_gradient(m, k, &m->train, sample[i], 1, k->gradient);
    }
    for (uint64_t i = 0; i < n; i++)
        step_sample(&s, sample[i]);
    for (unsigned c = 0; c < m->outputs; c++) {
        k->weight[bias + c] -= s.by * k->gradient[bias + c];
        k->gradient[bias + c] = 0;
    }
    return sum;
}

int glm_local_clock(const struct glm *m, struct mlt_worker *w,
                    const struct mlt_clock_ctx *ctx)
{
    struct glm_work *k = &m->work[mlt_worker_index(w)];
    float rate = (float)mlt_tunable(w, "learning_rate", 0);
    uint64_t first,
        batch = m->local_batch,
        n = glm_part_samples(m, mlt_worker_index(w), ctx->part, &first);
    double sum = 0;
    int err;

    assert(n > 0);
    glm_work_begin(m, k, n);
    for (uint64_t i = 0; i < n; i++)
        glm_work_touch(k, &m->train, first + i * m->parts);
    glm_work_shuffle(m, k, first, n, ctx->seed);
    err = glm_work_read_twice(m, w, k, m->weights, k->weight, k->change);
    if (err)
        return err;
    sum = (double)n * glm_penalty_borne(m, k, n);
    for (uint64_t i = 0; i < n; i += batch)
        sum +=
            step_batch(m, k, k->order + i, n - i < batch ? n - i : batch, rate);
    mlt_report(w, sum, n);
    glm_work_add_change(m, w, k, m->weights, k->weight, k->change,
                        1 / (float)m->workers);
    return 0;
}
