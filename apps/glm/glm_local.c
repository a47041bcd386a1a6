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

enum { ENTRIES_A_ROW = 4 };

struct local {
    const struct glm *m;
    struct glm_work *k;
    float by; /* the rate over the samples of the batch */
    float l1, l2;
};

/* The gradient's step is taken by the first sample that has the column. */
static inline float stepped(const struct local *s, float w, float g,
                            float rarity)
{
    const struct glm_penalty p = {rarity * s->l1, rarity * s->l2};

    w -= s->by * g;
    if (s->l1 > 0)
        return glm_prox(w, s->by, p);
    return s->l2 > 0 ? w / (1 + s->by * p.l2) : w;
}

static void step_sample(const struct local *s, uint64_t i)
{
    const struct glm *m = s->m;
    const struct glm_set *set = &m->train;
    float *weight = s->k->weight, *gradient = s->k->gradient;
    unsigned outputs = m->outputs;

    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++) {
        size_t row = set->index[e], at = row * outputs;

        for (unsigned c = 0; c < outputs; c++) {
            weight[at + c] =
                stepped(s, weight[at + c], gradient[at + c], m->rarity[row]);
            gradient[at + c] = 0;
        }
    }
}

/* The same of one output, as a plain loop would. */
static void step_sample_1(const struct local *s, uint64_t i)
{
    const struct glm_set *set = &s->m->train;
    const uint32_t *index = set->index;
    const float *rarity = s->m->rarity;
    float *weight = s->k->weight, *gradient = s->k->gradient;

    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++) {
        uint32_t row = index[e];

        weight[row] = stepped(s, weight[row], gradient[row], rarity[row]);
        gradient[row] = 0;
    }
}

/* Adds sample @i's gradient; returns its loss. */
static double gradient_1(const struct local *s, uint64_t i)
{
    const struct glm_set *set = &s->m->train;
    const uint32_t *index = set->index;
    const float *value = set->value, *weight = s->k->weight;
    float *gradient = s->k->gradient;
    uint64_t first = set->begin[i], end = set->begin[i + 1];
    float z = weight[s->m->columns], d;
    double loss;

    for (uint64_t e = first; e < end; e++)
        z += weight[index[e]] * value[e];
    loss = glm_loss_at(s->m->loss, 1, &z, set->y[i], &d);
    for (uint64_t e = first; e < end; e++)
        gradient[index[e]] += d * value[e];
    gradient[s->m->columns] += d;
    return loss;
}

static double gradient_of(const struct local *s, uint64_t i)
{
    const struct glm *m = s->m;
    double loss;

    glm_scores(m, s->k, &m->train, i);
    loss = glm_loss_at(m->loss, m->outputs, s->k->z, m->train.y[i], s->k->d);
    glm_add_gradient(m, s->k, &m->train, i, 1, s->k->gradient);
    return loss;
}

/* A step by samples @sample[n]. Returns the sum of their losses before it. */
static double step_batch(const struct local *s, const uint64_t *sample,
                         uint64_t n)
{
    const struct glm *m = s->m;
    size_t bias = (size_t)m->columns * m->outputs;
    bool one = m->outputs == 1;
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += one ? gradient_1(s, sample[i]) : gradient_of(s, sample[i]);
    for (uint64_t i = 0; i < n; i++)
        if (one)
            step_sample_1(s, sample[i]);
        else
            step_sample(s, sample[i]);
    for (unsigned c = 0; c < m->outputs; c++) {
        s->k->weight[bias + c] -= s->by * s->k->gradient[bias + c];
        s->k->gradient[bias + c] = 0;
    }
    return sum;
}

/* The rows of the part's @n samples; all rows, where looking which ones there
 * are would cost more than the others do. */
static void touch_rows(const struct glm *m, struct glm_work *k, uint64_t first,
                       uint64_t n)
{
    uint64_t entries = m->train.begin[m->train.count] / m->parts / m->workers;

    glm_work_begin(m, k, n);
    if (entries >= ENTRIES_A_ROW * glm_rows(m))
        glm_work_touch_all(m, k, n);
    else
        for (uint64_t i = 0; i < n; i++)
            glm_work_touch(k, &m->train, first + i * m->parts);
}

int glm_local_clock(const struct glm *m, struct mlt_worker *w,
                    const struct mlt_clock_ctx *ctx)
{
    struct glm_work *k = &m->work[mlt_worker_index(w)];
    float rate = (float)mlt_tunable(w, "learning_rate", 0);
    struct local s = {m, k, 0, (float)(m->lambda * m->l1_ratio),
                      (float)(m->lambda * (1 - m->l1_ratio))};
    uint64_t first,
        batch = m->local_batch,
        n = glm_part_samples(m, mlt_worker_index(w), ctx->part, &first);
    double sum = 0;
    int err;

    assert(n > 0);
    touch_rows(m, k, first, n);
    glm_work_shuffle(m, k, first, n, ctx->seed);
    err = glm_work_read_twice(m, w, k, m->weights, k->weight, k->change);
    if (err)
        return err;
    sum = (double)n * glm_penalty_borne(m, k, n);
    for (uint64_t i = 0, now; i < n; i += now) {
        now = n - i < batch ? n - i : batch;
        s.by = rate / (float)now;
        sum += step_batch(&s, k->order + i, now);
    }
    mlt_report(w, sum, n);
    glm_work_add_change(m, w, k, m->weights, k->weight, k->change,
                        1 / (float)m->workers);
    return 0;
}
