/* glm: the solver saga (Defazio, Bach and Lacoste-Julien 2014, algorithm 1), in
 * its form for sparse samples (Leblond, Pedregosa and Lacoste-Julien 2017,
 * equation 5): the mean gradient and the penalty act on the columns that a
 * sample has, each times how much rarer than the samples it is.
 *
 * What is remembered of a sample is its slope, a number an output: its gradient
 * is that times its values. A worker takes steps of single samples on its own
 * copy of the weights, and adds how far it came at the end of the clock,
 * divided by the number of workers; the mean gradient changes by what each did.
 * One worker does exactly what the algorithm says.
 */
#include "apps/glm/glm_app.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

uint64_t glm_part_samples(const struct glm *m, unsigned index, uint64_t part,
                          uint64_t *first)
{
    uint64_t begin, count, skip;

    if (m->solver == GLM_SAGA) {
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
    float step, share; /* share: 1 / samples */
    float *mean;       /* as the worker has it: k->mean */
};

static void step_row(const struct saga *s, uint32_t row, float value)
{
    const struct glm *m = s->m;
    float *w = s->k->weight + (size_t)row * m->outputs;
    float *mean = s->mean + (size_t)row * m->outputs;
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
        s->k->weight[at + c] -= s->step * (s->k->d[c] + s->mean[at + c]);
        s->mean[at + c] += s->k->d[c] * s->share;
    }
}

/* Sample @i: k->d becomes the change of its slopes, which @slope remembers. */
static void step_sample(const struct saga *s, uint64_t i, float *slope)
{
    const struct glm *m = s->m;
    const struct glm_set *set = &m->train;

    glm_scores(m, s->k, set, i);
    glm_loss_at(m->loss, m->outputs, s->k->z, set->y[i], s->k->d);
    for (unsigned c = 0; c < m->outputs; c++) {
        float now = s->k->d[c];

        s->k->d[c] = now - slope[c];
        slope[c] = now;
    }
    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++)
        step_row(s, set->index[e], set->value[e]);
    step_bias(s);
}

/* Losses and penalty at the weights as the clock found them: on the way a
 * sample's loss would be that of weights that have just seen its like. */
static double losses_before(const struct glm *m, struct glm_work *k, uint64_t n)
{
    double sum = 0, penalty = 0;

    for (uint64_t i = 0; i < n; i++) {
        glm_scores(m, k, &m->train, k->order[i]);
        sum += glm_loss_at(m->loss, m->outputs, k->z, m->train.y[k->order[i]],
                           NULL);
    }
    for (size_t i = 0; i < k->rows && m->lambda > 0; i++) {
        struct glm_penalty p;

        if (k->row[i] == m->columns)
            continue;
        p = glm_penalty_share(m, k, k->row[i], n);
        for (unsigned c = 0; c < m->outputs; c++)
            penalty += glm_penalty_of(k->weight[k->row[i] * m->outputs + c], p);
    }
    return sum + (double)n * penalty;
}

/* The part's samples in an order of the clock's own. */
static void shuffle(const struct glm *m, struct glm_work *k, uint64_t first,
                    uint64_t n, uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = rng_below(&rng, i + 1);

        k->order[i] = k->order[j];
        k->order[j] = first + i * m->parts;
    }
}

/* Reads rows into @now, and what they are into @begun too. */
static int read_twice(const struct glm *m, struct mlt_worker *w,
                      struct glm_work *k, mlt_table table, float *now,
                      float *begun)
{
    int err = glm_work_read(m, w, k, table, now);

    for (size_t i = 0; i < k->rows && !err; i++)
        memcpy(begun + k->row[i] * m->outputs, now + k->row[i] * m->outputs,
               m->outputs * sizeof(float));
    return err;
}

/* Adds to the rows what they are more than when the clock began, times
 * @factor. */
static void add_change(const struct glm *m, struct mlt_worker *w,
                       struct glm_work *k, mlt_table table, const float *now,
                       float *begun, float factor)
{
    for (size_t i = 0; i < k->rows; i++)
        for (unsigned c = 0; c < m->outputs; c++) {
            size_t at = k->row[i] * m->outputs + c;

            begun[at] = now[at] - begun[at];
        }
    glm_work_add(m, w, k, table, begun, factor);
}

int glm_saga_clock(const struct glm *m, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx)
{
    struct glm_work *k = &m->work[mlt_worker_index(w)];
    const struct saga s = {m, k, (float)mlt_tunable(w, "learning_rate", 0),
                           1 / (float)m->train.count, k->mean};
    uint64_t first,
        n = glm_part_samples(m, mlt_worker_index(w), ctx->part, &first);
    int err;

    assert(n > 0);
    glm_work_begin(m, k, n);
    for (uint64_t i = 0; i < n; i++)
        glm_work_touch(k, &m->train, first + i * m->parts);
    err = read_twice(m, w, k, m->weights, k->weight, k->change);
    if (!err)
        err = read_twice(m, w, k, m->mean, k->mean, k->begun);
    if (err)
        return err;
    shuffle(m, k, first, n, ctx->seed);
    mlt_report(w, losses_before(m, k, n), n);
    for (uint64_t i = 0; i < n; i++)
        step_sample(&s, k->order[i], mlt_row(w, m->slopes, k->order[i]));
    add_change(m, w, k, m->weights, k->weight, k->change,
               1 / (float)m->workers);
    add_change(m, w, k, m->mean, k->mean, k->begun, 1);
    return 0;
}
