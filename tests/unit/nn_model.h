/* A network with its parameters, gradients and data, as an application would
 * hold them: what the tests of apps/nn_net.h share. */
#ifndef TESTS_UNIT_NN_MODEL_H
#define TESTS_UNIT_NN_MODEL_H

#include "apps/nn_net.h"

struct nn_model {
    struct nn_layer layer[NN_LAYERS_MAX];
    unsigned count;
    enum nn_loss loss;
    struct nn_net *net;
    struct nn_params params[NN_LAYERS_MAX];
    struct nn_grads grads[NN_LAYERS_MAX];
    float *values[NN_LAYERS_MAX];   /* rows one after another */
    float *gradient[NN_LAYERS_MAX]; /* likewise */
    float *moments[NN_LAYERS_MAX];  /* norm */
    float *moved[NN_LAYERS_MAX];    /* what is to be added to them */
    size_t size, outputs;           /* values of a sample */
    float *sample;                  /* [samples][size] */
    uint32_t *label;                /* [samples] */
    float *target;                  /* [samples][outputs] */
};

/* Values of layer @l's parameters. */
size_t nn_model_values(const struct nn_model *m, unsigned l);

/* @layer[count] with initial weights and @samples random samples. */
void nn_model_init(struct nn_model *m, const struct nn_layer *layer,
                   unsigned count, enum nn_loss loss, struct nn_shape input,
                   size_t samples, uint64_t seed);
void nn_model_deinit(struct nn_model *m);

/* Sets the gradients and what moves the moments to 0. */
void nn_model_clear(struct nn_model *m);

/* One pass over the samples first .. first + n - 1 of `samples`; in training
 * backward too, with the gradient divided by @samples. */
struct nn_result nn_model_pass(struct nn_model *m, size_t first, size_t n,
                               size_t samples, bool train, uint64_t seed);

#endif
