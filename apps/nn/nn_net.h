/* A network: activations of one worker, forward and backward, layer by layer.
 *
 *     nn_net_new(layer, count, NN_CROSS_ENTROPY, 64, &net, f);
 *     for each clock, for each sub-batch of at most 64 samples:
 *         fill nn_net_input(net)
 *         for (l = 0; l < count; l++)           rows of layer l are read here
 *             nn_net_forward(net, l, &batch, &params[l]);
 *         nn_net_loss(net, &batch, &result);
 *         for (l = count; l-- > nn_net_first(net);)
 *             nn_net_backward(net, l, &batch, &params[l], &grads[l]);
 *                                               layer l can be sent here
 *
 * Evaluation: batch.train = false, no backward. A net holds activations only:
 * parameters, gradients and moments are the caller's, and no pointer to them
 * outlives the call that took it. One owner thread. Deterministic: the same
 * net, inputs and parameters give the same bits. Forward and backward allocate
 * nothing. Non-finite values go through (divergence shows in the loss).
 */
#ifndef APPS_NN_NET_H
#define APPS_NN_NET_H

#include "apps/nn/nn_layer.h"

struct nn_net;

enum nn_loss {
    /* Cross-entropy of the softmax of the outputs: log sum exp z - z[label] */
    NN_CROSS_ENTROPY,
    /* 1/2 sum_j (z[j] - target[j])^2 */
    NN_SQUARED,
};

/* @layer[count] as nn_layers_shape left them: copied. Batches have at most
 * @batch_max samples, >= 1. Errors: ERR_NOMEM, ERR_LIMIT (sizes overflow). */
enum err nn_net_new(const struct nn_layer *layer, unsigned count,
                    enum nn_loss loss, size_t batch_max, struct nn_net **out,
                    struct fault *f);

/* Where a net's values lie, and what a layer keeps there. */
struct nn_net_memory {
    /* @bytes of zeros, aligned to 64; NULL: there are none. */
    void *(*take)(void *arg, uint64_t bytes);
    void (*give)(void *arg, void *at, uint64_t bytes);
    uint64_t (*work_bytes)(const struct nn_layer *layer, size_t batch_max);
    void *arg;
};

/* The same in other memory (a device's): it says where values lie
 * (nn_net_state, in nn_ops.h), and is neither run nor read here. */
enum err nn_net_new_in(const struct nn_net_memory *memory,
                       const struct nn_layer *layer, unsigned count,
                       enum nn_loss loss, size_t batch_max, struct nn_net **out,
                       struct fault *f);

/* Accepts NULL. */
void nn_net_free(struct nn_net *net);

/* Bytes that such a net allocates, for a memory limit; UINT64_MAX where that
 * overflows. */
uint64_t nn_net_bytes(const struct nn_layer *layer, unsigned count,
                      size_t batch_max);

/* Number of the first layer that has parameters: backward has nothing to do
 * below it. `count` where no layer has any. */
unsigned nn_net_first(const struct nn_net *net);

/* Where the samples go: [batch_max][height][width][channels]. Must be filled
 * anew before each pass of layer 0 (layers work in place). Borrowed. */
float *nn_net_input(struct nn_net *net);

/* Outputs of the last layer, [n][outputs], until the next forward. Borrowed. */
const float *nn_net_output(const struct nn_net *net);

/* Description of one sub-batch: the same values in all calls of a pass. */
struct nn_batch {
    size_t n;    /* samples, 1 .. batch_max */
    bool train;  /* false: running moments, no dropout, no gradient */
    float scale; /* of the gradient: 1 / samples of the clock */
    /* Dropout: masks are a function of (seed, layer, first + i, value) alone,
     * so that a forked branch repeats them and sub-batches may be cut anyhow.*/
    uint64_t seed;
    const float *dropout;  /* rate of all such layers, 0 <= rate < 1; NULL: each
                              its own */
    float smoothing;       /* cross-entropy, gradient alone: this share of a
                              sample's target is spread over all classes; 0 <=
                              smoothing < 1. The loss stays the plain one, which
                              compares */
    uint64_t first;        /* number of the first sample within the clock */
    const uint32_t *label; /* cross-entropy: [n], each below the outputs */
    const float *target;   /* squared loss: [n][outputs] */
};

/* A layer's parameters, for reading. */
struct nn_params {
    const float *const *row; /* [layer.rows], each [layer.row_width] */
    const float *moments;    /* norm: [2 channels]; needed when train is false
                                and by backward; else NULL */
};

/* Where a layer's gradient is added to: caller's buffers. With several
 * sub-batches a clock it is simply given again. */
struct nn_grads {
    float *const *row; /* [layer.rows], each [layer.row_width] */
    /* norm: [2 channels]: what is to be added to the running moments. Adds
     * rate n scale (batch moment - running moment), the batch variance
     * unbiased (n / (n - 1) of its positions): with scale = 1 / samples of the
     * clock over all workers the clock's sum moves them once by `rate`. */
    float *moments;
};

/* Layer @l's output from the output of layer l - 1 (from nn_net_input for 0).
 * @params is not looked at where layer.rows == 0. */
void nn_net_forward(struct nn_net *net, unsigned l,
                    const struct nn_batch *batch,
                    const struct nn_params *params);

struct nn_result {
    double loss;    /* sum over the n samples */
    size_t correct; /* cross-entropy: samples whose largest output is at their
                       label (the lowest wins a tie; a NaN never wins) */
};

/* Loss of the last layer's outputs; with batch->train also their gradient,
 * times batch->scale, where nn_net_backward of the last layer reads it. */
void nn_net_loss(struct nn_net *net, const struct nn_batch *batch,
                 struct nn_result *out);

/* Layer @l's part of the backward pass: adds the gradient of its parameters to
 * @grads and makes the gradient of its input, which layer l - 1 needs. To be
 * called for l = count - 1 down to nn_net_first. @grads and @params are not
 * looked at where layer.rows == 0. */
void nn_net_backward(struct nn_net *net, unsigned l,
                     const struct nn_batch *batch,
                     const struct nn_params *params,
                     const struct nn_grads *grads);

#endif
