/* Layers of a network whose values lie in a memory space (ps/space/space.h).
 *
 * The second table of layer functions beside nn_ops: work is put into a stream,
 * all addresses are the space's. Two of them: `nn_space_host` runs the kernels
 * of nn_ops where the space is memory of this process (host, fake), with their
 * bits; `nn_cuda`, in the plug-in libmltune-cuda.so, runs cuBLAS, cuDNN and
 * kernels of its own, equal within rounding (32-bit floats, no tensor cores;
 * dropout's masks are the same to the bit).
 *
 * Errors are the stream's.
 */
#ifndef APPS_NN_SPACE_H
#define APPS_NN_SPACE_H

#include "apps/nn/nn_ops.h"
#include "ps/space/space.h"

enum { NN_SPACE_VERSION = 1 };

/* A layer's call. */
struct nn_space_pass {
    struct space_stream *stream;
    struct nn_state state;
    struct nn_batch batch; /* label, target: the space's */
    /* Rows of the parameters: [layer.rows], one every @stride floats; norm: its
     * running moments. */
    float *params;
    size_t stride;
    float *moments;
    /* Sums of the gradient [layer.rows][layer.row_width], and of the moments:
     * what is there is added to, or (add false) not yet written. */
    float *grads, *moments_grads;
    bool add;
    void *scratch; /* free memory for the length of the call */
    size_t scratch_bytes;
    const float **row; /* [layer.rows] of the host's, for `nn_space_host` */
    float **gradient;
};

struct space_nn_ops {
    unsigned version; /* NN_SPACE_VERSION */
    size_t block;     /* samples that go through the network at a time */
    /* Bytes that a layer keeps from forward to backward, and bytes of scratch
     * that its calls want (more is better up to there); 0: none. */
    uint64_t (*work_bytes)(const struct nn_layer *layer, size_t batch_max);
    uint64_t (*scratch_bytes)(const struct nn_layer *layer, size_t batch_max);
    /* Images of bytes [n][channels][height][width] into the network's input;
     * @factor: scale[channels], then offset[channels]. NULL: not here, the host
     * does it before the copy. */
    void (*input)(struct space_stream *st, struct nn_shape shape, size_t n,
                  const uint8_t *bytes, const float *factor, float *out);
    void (*forward)(const struct nn_space_pass *p);
    void (*backward)(const struct nn_space_pass *p);
    /* Of the outputs state.y; state.dy (NULL: not wanted) becomes their
     * gradient; @out in the space. */
    void (*loss)(const struct nn_space_pass *p, enum nn_loss loss,
                 size_t outputs, struct nn_result *out);
    /* grads += factor * weights: the gradient of the penalty. */
    void (*penalty)(const struct nn_space_pass *p, float factor);
};

extern const struct space_nn_ops nn_space_host;

#endif
