#include "tests/unit/nn_model.h"

#include "base/rng.h"

#include "tests/unit/check.h"

static void *zeroed(size_t count, size_t size)
{
    void *p = calloc(count + 1, size);

    assert_non_null(p);
    return p;
}

size_t nn_model_values(const struct nn_model *m, unsigned l)
{
    return (size_t)m->layer[l].rows * m->layer[l].row_width;
}

static void make_tables(struct nn_model *m, unsigned l, uint64_t seed)
{
    const struct nn_layer *layer = &m->layer[l];
    const float **row = zeroed(layer->rows, sizeof(*row));
    float **gradient = zeroed(layer->rows, sizeof(*gradient));
    uint32_t r;

    m->values[l] = zeroed(nn_model_values(m, l), sizeof(float));
    m->gradient[l] = zeroed(nn_model_values(m, l), sizeof(float));
    m->moments[l] = zeroed(layer->moments, sizeof(float));
    m->moved[l] = zeroed(layer->moments, sizeof(float));
    nn_moments_init(layer, m->moments[l]);
    for (r = 0; r < layer->rows; r++) {
        row[r] = m->values[l] + (size_t)r * layer->row_width;
        gradient[r] = m->gradient[l] + (size_t)r * layer->row_width;
        nn_layer_init(layer, l, seed, r,
                      m->values[l] + (size_t)r * layer->row_width);
    }
    m->params[l] = (struct nn_params){.row = row, .moments = m->moments[l]};
    m->grads[l] = (struct nn_grads){.row = gradient, .moments = m->moved[l]};
}

static void make_samples(struct nn_model *m, size_t samples, uint64_t seed)
{
    struct rng rng;
    size_t k;

    rng_init(&rng, seed);
    m->sample = zeroed(samples * m->size, sizeof(float));
    m->target = zeroed(samples * m->outputs, sizeof(float));
    m->label = zeroed(samples, sizeof(uint32_t));
    for (k = 0; k < samples * m->size; k++)
        m->sample[k] = (float)rng_normal(&rng);
    for (k = 0; k < samples * m->outputs; k++)
        m->target[k] = (float)rng_normal(&rng);
    for (k = 0; k < samples; k++)
        m->label[k] = (uint32_t)rng_below(&rng, m->outputs);
}

void nn_model_init(struct nn_model *m, const struct nn_layer *layer,
                   unsigned count, enum nn_loss loss, struct nn_shape input,
                   size_t samples, uint64_t seed)
{
    struct fault f = {0};
    unsigned bad, l;

    memset(m, 0, sizeof(*m));
    memcpy(m->layer, layer, count * sizeof(*layer));
    m->count = count;
    m->loss = loss;
    if (nn_layers_shape(m->layer, count, input, &bad, &f))
        fail_msg("%s", f.text);
    if (nn_net_new(m->layer, count, loss, samples, &m->net, &f))
        fail_msg("%s", f.text);
    m->size = nn_shape_size(input);
    m->outputs = nn_shape_size(m->layer[count - 1].out);
    for (l = 0; l < count; l++)
        make_tables(m, l, seed);
    make_samples(m, samples, seed + 1);
}

void nn_model_deinit(struct nn_model *m)
{
    unsigned l;

    for (l = 0; l < m->count; l++) {
        free((void *)(uintptr_t)m->params[l].row);
        free((void *)(uintptr_t)m->grads[l].row);
        free(m->values[l]);
        free(m->gradient[l]);
        free(m->moments[l]);
        free(m->moved[l]);
    }
    free(m->sample);
    free(m->label);
    free(m->target);
    nn_net_free(m->net);
}

void nn_model_clear(struct nn_model *m)
{
    unsigned l;

    for (l = 0; l < m->count; l++) {
        memset(m->gradient[l], 0, nn_model_values(m, l) * sizeof(float));
        memset(m->moved[l], 0, m->layer[l].moments * sizeof(float));
    }
}

struct nn_result nn_model_pass(struct nn_model *m, size_t first, size_t n,
                               size_t samples, bool train, uint64_t seed)
{
    struct nn_batch batch = {.n = n,
                             .train = train,
                             .scale = 1.0f / (float)samples,
                             .seed = seed,
                             .first = first,
                             .label = m->label + first,
                             .target = m->target + first * m->outputs};
    struct nn_result result;
    unsigned l;

    memcpy(nn_net_input(m->net), m->sample + first * m->size,
           n * m->size * sizeof(float));
    for (l = 0; l < m->count; l++)
        nn_net_forward(m->net, l, &batch, &m->params[l]);
    nn_net_loss(m->net, &batch, &result);
    for (l = m->count; train && l-- > nn_net_first(m->net);)
        nn_net_backward(m->net, l, &batch, &m->params[l], &m->grads[l]);
    return result;
}
