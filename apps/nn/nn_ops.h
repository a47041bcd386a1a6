/* Kinds of layers: the bodies behind nn_net.
 *
 * All functions are pure but for what their arguments point to. Buffers of
 * activations and gradients have NN_SLACK floats behind their end that may be
 * read (their values must not matter) and never hold what was not written.
 */
#ifndef APPS_NN_OPS_H
#define APPS_NN_OPS_H

#include "apps/nn/nn_net.h"

enum { NN_SLACK = 16, NN_ALIGN = 64 };

/* One layer of a net, for a call. */
struct nn_state {
    const struct nn_layer *layer;
    unsigned number;
    const float *x; /* input [n][in] */
    float *y;       /* output [n][out]; is x where the layer works in place */
    float *dy;      /* gradient of the output [n][out] */
    float *dx;      /* of the input [n][in], or NULL where nobody needs it; is
                       dy where the layer works in place */
    void *work;     /* its own memory, kept from forward to backward */
};

/* Layer @l's part of @net; of the last, dy is where the loss's gradient goes.
 */
struct nn_state nn_net_state(struct nn_net *net, unsigned l);

struct nn_ops {
    const char *name;
    /* May its output take the place of its input, and their gradients? */
    bool in_place;
    /* Does backward need the values of its own output (not only their sign)? */
    bool keeps_output;
    /* Bytes of work; NULL: none. Starts zeroed, aligned to NN_ALIGN. */
    uint64_t (*work_bytes)(const struct nn_layer *layer, size_t batch_max);
    void (*forward)(const struct nn_state *s, const struct nn_batch *batch,
                    const struct nn_params *params);
    /* Adds to grads; fills s->dx where it is not NULL. */
    void (*backward)(const struct nn_state *s, const struct nn_batch *batch,
                     const struct nn_params *params,
                     const struct nn_grads *grads);
};

extern const struct nn_ops nn_dense, nn_conv, nn_max_pool, nn_avg_pool, nn_relu,
    nn_tanh, nn_norm, nn_dropout;

/* The ops of @kind. */
const struct nn_ops *nn_ops_of(enum nn_kind kind);

/* Is value @j of sample @sample (within the clock) kept by a dropout layer
 * that drops `rate`? */
bool nn_dropout_keeps(float rate, uint64_t seed, unsigned number,
                      uint64_t sample, uint32_t j);

/* Loss and number of correct ones of @z[n][outputs]; @dz (may be NULL) becomes
 * the gradient times batch->scale. */
void nn_loss_cross_entropy(const struct nn_batch *batch, size_t outputs,
                           const float *z, float *dz, struct nn_result *out);
void nn_loss_squared(const struct nn_batch *batch, size_t outputs,
                     const float *z, float *dz, struct nn_result *out);

#endif
