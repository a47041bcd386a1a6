/* A network on a device: its values lie in a memory space, its parameters in
 * tables of the parameter server that lie there too (mltune/device.h).
 *
 *     nn_device_take(d, m, set, n, id, first, &result);   a sub-batch
 *     for each layer: nn_device_pass, then forward of nn_device_ops
 *     nn_device_loss(d, ...)
 *     for each layer, from the last: nn_device_pass, then backward
 *
 * All is put into the server's stream; results come two sub-batches later, so
 * that the device always has work. One owner thread: the worker.
 */
#ifndef APPS_NN_DEVICE_H
#define APPS_NN_DEVICE_H

#include "apps/nn/nn_net.h"
#include "apps/nn/nn_space.h"
#include "apps/samples/samples.h"

#include <stdbool.h>
#include <stdint.h>

struct nn_device;

/* Scale and offset of the bytes of images, [channels] each: borrowed for the
 * call; NULL: samples are no bytes. */
struct nn_device_shape {
    const struct nn_layer *layer;
    unsigned count;
    enum nn_loss loss;
    size_t block; /* samples at a time; 0: the device's own */
    struct nn_shape input;
    unsigned outputs;
    const float *scale, *offset;
};

/* Errors: ERR_LIMIT, ERR_NOMEM, ERR_UNSUPPORTED (a space without layers that
 * is no memory of this process), in words. @st borrowed for its life. */
enum err nn_device_new(struct space_stream *st, const struct nn_device_shape *s,
                       struct nn_device **out, struct fault *f);
/* Accepts NULL. */
void nn_device_free(struct nn_device *d);

size_t nn_device_block(const struct nn_device *d);

/* Puts @n samples of @set into the network's input: numbers @id[n], or @first
 * and following where id is NULL; with their labels or targets. */
enum err nn_device_take(struct nn_device *d, const struct samples *set,
                        size_t n, const uint64_t *id, uint64_t first);

/* Layer @l's call; parameters and gradients are the caller's to fill in. */
struct nn_space_pass nn_device_pass(struct nn_device *d, unsigned l,
                                    const struct nn_batch *batch);
const struct space_nn_ops *nn_device_ops(const struct nn_device *d);

/* Loss of the last layer's outputs, whose result comes by nn_device_result. */
void nn_device_loss(struct nn_device *d, const struct nn_batch *batch);

/* The oldest result that was not given yet, once more than @waiting are; false:
 * there are no more. Waits for it. */
bool nn_device_result(struct nn_device *d, unsigned waiting,
                      struct nn_result *out, enum err *err);

/* Outputs [n][outputs] of the last layer, copied to @out; waits. */
enum err nn_device_outputs(struct nn_device *d, size_t n, float *out);

#endif
