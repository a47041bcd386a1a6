#include "apps/nn/nn_app.h"
#include "apps/nn/nn_input.h"
#include "apps/samples/samples_load.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- normalisation of images --------------------------------------------- */

static void normal_deinit(struct nn_normal *n)
{
    mem_free(n->mean);
    mem_free(n->deviation);
    mem_free(n->scale);
    mem_free(n->offset);
    memset(n, 0, sizeof(*n));
}

enum err nn_normal_init(struct nn_normal *n, uint32_t channels,
                        const double *mean, const double *deviation)
{
    struct nn_normal out = {.channels = channels};

    out.mean = mem_calloc(channels, sizeof(*out.mean));
    out.deviation = mem_calloc(channels, sizeof(*out.deviation));
    out.scale = mem_calloc(channels, sizeof(*out.scale));
    out.offset = mem_calloc(channels, sizeof(*out.offset));
    if (!out.mean || !out.deviation || !out.scale || !out.offset) {
        normal_deinit(&out);
        return ERR_NOMEM;
    }
    for (uint32_t c = 0; c < channels; c++) {
        double factor = deviation[c] > 0 ? 1 / deviation[c] : 1;

        out.mean[c] = mean[c];
        out.deviation[c] = deviation[c];
        out.scale[c] = (float)(factor / 255);
        out.offset[c] = (float)(-mean[c] * factor);
    }
    *n = out;
    return ERR_OK;
}

/* Exact sums: bytes counted by value. */
static void channel_moments(const struct samples *s, uint32_t channel,
                            double *mean, double *deviation)
{
    size_t plane = (size_t)s->height * s->width;
    uint64_t count[256] = {0};
    double n = (double)s->count * (double)plane, sum = 0, squares = 0;

    for (uint64_t i = 0; i < s->count; i++) {
        const uint8_t *p = s->pixel + (i * s->channels + channel) * plane;

        for (size_t k = 0; k < plane; k++)
            count[p[k]]++;
    }
    for (unsigned v = 0; v < 256; v++)
        sum += (double)count[v] * v;
    *mean = sum / n;
    for (unsigned v = 0; v < 256; v++)
        squares += (double)count[v] * (v - *mean) * (v - *mean);
    *deviation = sqrt(squares / n) / 255;
    *mean /= 255;
}

static enum err normal_of(struct nn *m, struct fault *f)
{
    const struct samples *s = &m->train;
    double *moment = mem_calloc(s->channels, 2 * sizeof(*moment));
    enum err err = moment ? ERR_OK : ERR_NOMEM;

    for (uint32_t c = 0; !err && c < s->channels; c++)
        channel_moments(s, c, &moment[c], &moment[s->channels + c]);
    if (!err)
        err = nn_normal_init(&m->normal, s->channels, moment,
                             moment + s->channels);
    mem_free(moment);
    return err ? fault_set(f, err, "nn: out of memory") : ERR_OK;
}

/* ---- loading ------------------------------------------------------------- */

void nn_data_deinit(struct nn *m)
{
    samples_deinit(&m->train);
    samples_deinit(&m->test);
    scaling_deinit(&m->scaling);
    normal_deinit(&m->normal);
    class_columns_deinit(&m->columns);
    mem_free(m->data);
}

enum err nn_check_target(const struct nn *m, const char *name, struct fault *f)
{
    if (!m->train.target || m->scaling.factor[m->scaling.columns] > 0)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected numbers that differ in the label column, "
                     "found one value only",
                     name);
}

/* Images are normalised when they are used, tables at once. */
static enum err prepare_values(struct nn *m, const char *name, struct fault *f)
{
    enum err err;

    if (m->train.pixel)
        return normal_of(m, f);
    err = scaling_of(&m->train, &m->scaling, f);
    if (!err)
        err = nn_check_target(m, name, f);
    if (err)
        return err;
    scaling_apply(&m->scaling, &m->train);
    scaling_apply(&m->scaling, &m->test);
    return ERR_OK;
}

enum err nn_data_load(struct nn *m, const struct settings *s, struct fault *f)
{
    bool targets = m->desc.loss == NN_SQUARED;
    enum err err = samples_load(s, targets, &m->train, &m->test, f);

    if (err)
        return err;
    m->data = mem_strdup(s->data);
    if (!m->data)
        return fault_set(f, ERR_NOMEM, "nn: out of memory");
    m->input =
        (struct nn_shape){m->train.channels, m->train.height, m->train.width};
    m->outputs = targets ? 1 : m->train.classes;
    if (m->evaluate)
        return ERR_OK; /* the model says how (nn_load) */
    if (!targets && m->outputs < 2)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected labels of at least two classes, found "
                         "only one",
                         s->data);
    return prepare_values(m, s->data, f);
}

/* ---- a sub-batch --------------------------------------------------------- */

void nn_data_take(const struct nn *m, struct nn_lane *lane,
                  const struct samples *set, size_t n, const uint64_t *id,
                  uint64_t first)
{
    size_t values = nn_shape_size(m->input);
    float *input = nn_net_input(lane->net);

    for (size_t i = 0; i < n; i++) {
        uint64_t s = id ? id[i] : first + i;

        assert(s < set->count);
        if (set->pixel)
            nn_input_bytes(m->input, set->pixel + s * values, m->normal.scale,
                           m->normal.offset, input + i * values);
        else
            nn_input_values(m->input, set->value + s * values,
                            input + i * values);
        if (lane->label && set->label)
            lane->label[i] = set->label[s];
        if (lane->target && set->target)
            lane->target[i] = set->target[s];
    }
}
