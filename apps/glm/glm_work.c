/* glm: a worker's copy of the rows that its clock touches (glm_app.h).
 *
 * Rows are copied once a clock and added once, so that the loops over samples
 * run on arrays of the worker's own, as a plain loop would. */
#include "apps/glm/glm_app.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Arrays of a value a weight. */
static uint64_t arrays_of(const struct glm *m)
{
    return glm_remembers(m) ? 4 : m->solver == GLM_LOCAL ? 3 : 2;
}

/* The most samples of a part that a worker orders; 0: it does not. */
static uint64_t samples_ordered(const struct glm *m)
{
    return m->evaluate || m->solver == GLM_SGD ? 0
                                               : m->train.count / m->parts + 1;
}

uint64_t glm_work_bytes(const struct glm *m)
{
    uint64_t values = glm_rows(m) * m->outputs;

    return arrays_of(m) * values * sizeof(float) + glm_rows(m) * 16 +
           samples_ordered(m) * sizeof(uint64_t);
}

/* The arrays that only some solvers have. */
static bool alloc_extra(const struct glm *m, struct glm_work *k)
{
    uint64_t values = glm_rows(m) * m->outputs, ordered = samples_ordered(m);

    if (glm_remembers(m)) {
        k->mean = mem_calloc(values, sizeof(float));
        k->begun = mem_calloc(values, sizeof(float));
    } else if (ordered) {
        k->gradient = mem_calloc(values, sizeof(float));
    }
    if (ordered)
        k->order = mem_calloc(ordered, sizeof(*k->order));
    return !ordered || (k->order && (k->gradient || (k->mean && k->begun)));
}

enum err glm_work_init(const struct glm *m, struct glm_work *k, struct fault *f)
{
    uint64_t rows = glm_rows(m), values = rows * m->outputs;

    k->weight = mem_calloc(values, sizeof(float));
    k->change = mem_calloc(values, sizeof(float));
    k->mark = mem_calloc(rows, sizeof(*k->mark));
    k->seen = mem_calloc(rows, sizeof(*k->seen));
    k->row = mem_calloc(rows, sizeof(*k->row));
    k->packed =
        mem_calloc((size_t)GLM_ROWS_AT_ONCE * m->outputs, sizeof(float));
    k->z = mem_calloc(m->outputs, sizeof(float));
    k->d = mem_calloc(m->outputs, sizeof(float));
    if (alloc_extra(m, k) && k->weight && k->change && k->mark && k->seen &&
        k->row && k->packed && k->z && k->d)
        return ERR_OK;
    return fault_set(f, ERR_NOMEM, "glm: out of memory");
}

void glm_work_deinit(struct glm_work *k)
{
    mem_free(k->weight);
    mem_free(k->change);
    mem_free(k->mean);
    mem_free(k->begun);
    mem_free(k->gradient);
    mem_free(k->mark);
    mem_free(k->seen);
    mem_free(k->row);
    mem_free(k->packed);
    mem_free(k->z);
    mem_free(k->d);
    mem_free(k->order);
    memset(k, 0, sizeof(*k));
}

static inline void touch(struct glm_work *k, uint32_t row)
{
    if (k->mark[row] != k->clock) {
        k->mark[row] = k->clock;
        k->seen[row] = 0;
        k->row[k->rows++] = row;
    }
    k->seen[row]++;
}

void glm_work_begin(const struct glm *m, struct glm_work *k, uint64_t samples)
{
    k->rows = 0;
    if (++k->clock == 0) { /* it came around: no row may seem touched */
        memset(k->mark, 0, glm_rows(m) * sizeof(*k->mark));
        k->clock = 1;
    }
    touch(k, m->columns);
    k->seen[m->columns] = (uint32_t)samples;
}

void glm_work_touch(struct glm_work *k, const struct glm_set *set, uint64_t i)
{
    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++)
        touch(k, set->index[e]);
}

void glm_work_touch_all(const struct glm *m, struct glm_work *k,
                        uint64_t samples)
{
    k->rows = 0;
    for (uint32_t row = 0; row <= m->columns; row++) {
        float rarity = m->rarity[row];

        k->row[k->rows++] = row;
        k->mark[row] = k->clock;
        k->seen[row] =
            rarity > 0 ? (uint32_t)lroundf((float)samples / rarity) : 0;
    }
}

static size_t batch_at(const struct glm_work *k, size_t at)
{
    return k->rows - at < GLM_ROWS_AT_ONCE ? k->rows - at : GLM_ROWS_AT_ONCE;
}

int glm_work_read(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                  mlt_table table, float *to)
{
    const void *at[GLM_ROWS_AT_ONCE];
    int err = 0;

    for (size_t i = 0, n; i < k->rows && !err; i += n) {
        n = batch_at(k, i);
        err = mlt_get_rows(w, table, n, k->row + i, at);
        for (size_t j = 0; j < n && !err; j++)
            memcpy(to + k->row[i + j] * m->outputs, at[j],
                   m->outputs * sizeof(float));
    }
    return err;
}

void glm_work_add(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                  mlt_table table, const float *change, float factor)
{
    for (size_t i = 0, n; i < k->rows; i += n) {
        n = batch_at(k, i);
        for (size_t j = 0; j < n; j++)
            for (unsigned c = 0; c < m->outputs; c++)
                k->packed[j * m->outputs + c] =
                    factor * change[k->row[i + j] * m->outputs + c];
        mlt_inc_rows(w, table, n, k->row + i, k->packed);
    }
}

void glm_work_shuffle(const struct glm *m, struct glm_work *k, uint64_t first,
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

int glm_work_read_twice(const struct glm *m, struct mlt_worker *w,
                        struct glm_work *k, mlt_table table, float *now,
                        float *begun)
{
    int err = glm_work_read(m, w, k, table, now);

    for (size_t i = 0; i < k->rows && !err; i++)
        memcpy(begun + k->row[i] * m->outputs, now + k->row[i] * m->outputs,
               m->outputs * sizeof(float));
    return err;
}

void glm_work_add_change(const struct glm *m, struct mlt_worker *w,
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

void glm_scores(const struct glm *m, struct glm_work *k,
                const struct glm_set *set, uint64_t i)
{
    const float *weight = k->weight;
    unsigned outputs = m->outputs;

    if (outputs == 1) {
        float z = weight[m->columns];

        for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++)
            z += weight[set->index[e]] * set->value[e];
        k->z[0] = z;
        return;
    }
    memcpy(k->z, weight + (size_t)m->columns * outputs,
           outputs * sizeof(float));
    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++) {
        const float *row = weight + (size_t)set->index[e] * outputs;

        for (unsigned c = 0; c < outputs; c++)
            k->z[c] += row[c] * set->value[e];
    }
}

void glm_add_gradient(const struct glm *m, const struct glm_work *k,
                      const struct glm_set *set, uint64_t i, float scale,
                      float *to)
{
    float *bias = to + (size_t)m->columns * m->outputs;

    if (m->outputs == 1) {
        float d = scale * k->d[0];

        for (uint64_t e = set->begin[i]; d != 0 && e < set->begin[i + 1]; e++)
            to[set->index[e]] += d * set->value[e];
        *bias += d;
        return;
    }
    for (unsigned c = 0; c < m->outputs; c++)
        bias[c] += scale * k->d[c];
    for (uint64_t e = set->begin[i]; e < set->begin[i + 1]; e++) {
        float *row = to + (size_t)set->index[e] * m->outputs;

        for (unsigned c = 0; c < m->outputs; c++)
            row[c] += scale * set->value[e] * k->d[c];
    }
}

struct glm_penalty glm_penalty_share(const struct glm *m,
                                     const struct glm_work *k, uint64_t row,
                                     uint64_t samples)
{
    double share = m->lambda * (double)k->seen[row] / (double)samples *
                   (double)m->rarity[row];

    return (struct glm_penalty){(float)(share * m->l1_ratio),
                                (float)(share * (1 - m->l1_ratio))};
}

double glm_penalty_borne(const struct glm *m, const struct glm_work *k,
                         uint64_t samples)
{
    double sum = 0;

    for (size_t i = 0; i < k->rows && m->lambda > 0; i++) {
        struct glm_penalty p;

        if (k->row[i] == m->columns)
            continue;
        p = glm_penalty_share(m, k, k->row[i], samples);
        for (unsigned c = 0; c < m->outputs; c++)
            sum += glm_penalty_of(k->weight[k->row[i] * m->outputs + c], p);
    }
    return sum;
}
