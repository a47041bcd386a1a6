/* glm: the solvers saga (Defazio, Bach and Lacoste-Julien 2014, algorithm 1)
 * and svrg (Johnson and Zhang 2013), in their form for sparse samples (Leblond,
 * Pedregosa and Lacoste-Julien 2017, equation 5): the mean gradient and the
 * penalty act on the columns that a sample has, each times how much rarer than
 * the samples it is.
 *
 * What is remembered of a sample is its slope, a number an output: its gradient
 * is that times its values. A worker takes steps of single samples on its own
 * copy of the weights, and adds how far it came at the end of the clock,
 * divided by the number of workers; the mean gradient changes by what each did.
 * One worker does exactly what the algorithm says.
 *
 * saga remembers a slope at each step. svrg remembers them in passes of their
 * own, in which the weights stay, so that all are of the same weights: a copy
 * of these weights is not needed, as in the paper. Each such pass follows
 * `inner_passes` of steps; the first ones, from slopes of 0, are plain SGD (the
 * paper's advice how to begin). Both add by how much slopes and mean changed,
 * so at a clock's end the mean is that of the slopes, whoever read what when.
 */
#include "apps/glm/glm_app.h"

#include <assert.h>
#include <string.h>

uint64_t glm_part_samples(const struct glm *m, unsigned index, uint64_t part,
                          uint64_t *first)
{
    uint64_t begin, count, skip;

    if (glm_remembers(m)) {
        mlt_owned_rows(m->ps, m->slopes, index, &begin, &count);
    } else {
        begin = m->train.count * index / m->workers;
        count = m->train.count * (index + 1) / m->workers - begin;
    }
    /* Sample i is of part i mod parts, whoever has it. */
    skip = (part + m->parts - begin % m->parts) % m->parts;
    *first = begin + skip;
    return skip < count ? (count - skip + m->parts - 1) / m->parts : 0;
}

/* What a step needs beside the sample. */
struct saga {
    const struct glm *m;
    struct glm_work *k;
    float step;
    float share; /* of a sample in the mean gradient; 0: it stays as it is */
};

static void step_row(const struct saga *s, uint32_t row, float value)
{
    const struct glm *m = s->m;
    float *w = s->k->weight + (size_t)row * m->outputs;
    float *mean = s->k->mean + (size_t)row * m->outputs;
    float rarity = m->rarity[row], penalty = (float)m->lambda * rarity;
    const struct glm_penalty p = {penalty * (float)m->l1_ratio,
                                  penalty * (float)(1 - m->l1_ratio)};

    for (unsigned c = 0; c < m->outputs; c++) {
        float change = s->k->d[c] * value;

        w[c] =
            glm_prox(w[c] - s->step * (change + rarity * mean[c]), s->step, p);
        mean[c] += change * s->share;
    }
}

static void step_bias(const struct saga *s)
{
    size_t at = (size_t)s->m->columns * s->m->outputs;

    for (unsigned c = 0; c < s->m->outputs; c++) {
        s->k->weight[at + c] -= s->step * (s->k->d[c] + s->k->mean[at + c]);
        s->k->mean[at + c] += s->k->d[c] * s->share;
    }
}

/* A step by sample @i; k->d has by how much its slopes differ from what is
 * remembered. */
static void step_sample(const struct saga *s, uint64_t i)
{
    const struct glm_set *set = &s->m->train;

    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++)
        step_row(s, set->index[e], set->value[e]);
    step_bias(s);
}

/* Slopes of sample @i into k->d; returns its loss. */
static double slopes_now(const struct glm *m, struct glm_work *k, uint64_t i)
{
    glm_scores(m, k, &m->train, i);
    return glm_loss_at(m->loss, m->outputs, k->z, m->train.y[i], k->d);
}

/* k->d becomes its difference to @slope, which becomes what it was. */
static void remember(const struct glm *m, struct glm_work *k, float *slope)
{
    for (unsigned c = 0; c < m->outputs; c++) {
        float now = k->d[c];

        k->d[c] = now - slope[c];
        slope[c] = now;
    }
}

/* Losses and penalty at the weights as the clock found them: on the way a
 * sample's loss would be that of weights that have just seen its like. */
static double losses_before(const struct glm *m, struct glm_work *k, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        glm_scores(m, k, &m->train, k->order[i]);
        sum += glm_loss_at(m->loss, m->outputs, k->z, m->train.y[k->order[i]],
                           NULL);
    }
    return sum + (double)n * glm_penalty_borne(m, k, n);
}

/* Begins a clock of the part's samples, with weights and mean gradient as they
 * are. Their number into @n. */
static int begin(const struct glm *m, struct mlt_worker *w,
                 const struct mlt_clock_ctx *ctx, struct glm_work *k,
                 uint64_t *n)
{
    uint64_t first;
    int err;

    *n = glm_part_samples(m, mlt_worker_index(w), ctx->part, &first);
    assert(*n > 0);
    glm_work_begin(m, k, *n);
    for (uint64_t i = 0; i < *n; i++)
        glm_work_touch(k, &m->train, first + i * m->parts);
    glm_work_shuffle(m, k, first, *n, ctx->seed);
    err = glm_work_read_twice(m, w, k, m->weights, k->weight, k->change);
    if (!err)
        err = glm_work_read_twice(m, w, k, m->mean, k->mean, k->begun);
    return err;
}

static struct saga saga_of(const struct glm *m, struct mlt_worker *w,
                           float share)
{
    return (struct saga){m, &m->work[mlt_worker_index(w)],
                         (float)mlt_tunable(w, "learning_rate", 0), share};
}

int glm_saga_clock(const struct glm *m, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx)
{
    const struct saga s = saga_of(m, w, 1 / (float)m->train.count);
    struct glm_work *k = s.k;
    uint64_t n;
    int err = begin(m, w, ctx, k, &n);

    if (err)
        return err;
    mlt_report(w, losses_before(m, k, n), n);
    for (uint64_t i = 0; i < n; i++) {
        slopes_now(m, k, k->order[i]);
        remember(m, k, mlt_row(w, m->slopes, k->order[i]));
        step_sample(&s, k->order[i]);
    }
    glm_work_add_change(m, w, k, m->weights, k->weight, k->change,
                        1 / (float)m->workers);
    glm_work_add_change(m, w, k, m->mean, k->mean, k->begun, 1);
    return 0;
}

/* ---- svrg ---------------------------------------------------------------- */

/* The weights stay; slopes and mean gradient become theirs. */
static void look_around(const struct saga *s, struct mlt_worker *w, uint64_t n)
{
    const struct glm *m = s->m;
    struct glm_work *k = s->k;
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = k->order[i];

        sum += slopes_now(m, k, at);
        remember(m, k, mlt_row(w, m->slopes, at));
        glm_add_gradient(m, k, &m->train, at, s->share, k->mean);
    }
    mlt_report(w, sum + (double)n * glm_penalty_borne(m, k, n), n);
    glm_work_add_change(m, w, k, m->mean, k->mean, k->begun, 1);
}

/* Steps from slopes that stay as they were remembered. */
static int step_on(const struct saga *s, struct mlt_worker *w, uint64_t n)
{
    const struct glm *m = s->m;
    struct glm_work *k = s->k;

    mlt_report(w, losses_before(m, k, n), n);
    for (uint64_t i = 0; i < n; i++) {
        const float *slope = mlt_get_row(w, m->slopes, k->order[i]);

        if (!slope)
            return ERR_CANCELED;
        slopes_now(m, k, k->order[i]);
        for (unsigned c = 0; c < m->outputs; c++)
            k->d[c] -= slope[c];
        step_sample(s, k->order[i]);
    }
    glm_work_add_change(m, w, k, m->weights, k->weight, k->change,
                        1 / (float)m->workers);
    return 0;
}

int glm_svrg_clock(const struct glm *m, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx)
{
    bool looks = ctx->epoch % (m->inner_passes + 1) == m->inner_passes;
    const struct saga s = saga_of(m, w, looks ? 1 / (float)m->train.count : 0);
    uint64_t n;
    int err = begin(m, w, ctx, s.k, &n);

    if (err)
        return err;
    if (!looks)
        return step_on(&s, w, n);
    look_around(&s, w, n);
    return 0;
}
