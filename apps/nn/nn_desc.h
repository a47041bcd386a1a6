/* Descriptions of networks: JSON into layers, and back.
 *
 *     [{"type": "conv", "channels": 20, "kernel": 5},
 *      {"type": "max_pool", "kernel": 2}, {"type": "relu"},
 *      {"type": "dense", "units": "outputs"}]
 *
 * docs/nn.md lists the types and their members. "outputs" is what the data ask
 * for: a unit for each class, or one for a number. A built-in description
 * (preset) is such a list. Pure functions.
 */
#ifndef APPS_NN_DESC_H
#define APPS_NN_DESC_H

#include "apps/nn/nn_net.h"
#include "base/fault.h"
#include "base/json/problems.h"

#include <jansson.h>
#include <stdbool.h>

struct nn_desc {
    struct nn_layer layer[NN_LAYERS_MAX];
    bool outputs[NN_LAYERS_MAX]; /* its units are what the data ask for */
    unsigned count;
    enum nn_loss loss;
    const char *preset; /* its name, static; NULL: layers */
};

/* Reads the members `preset` or `layers`, and `loss`, of an app's settings.
 * Every fault goes to @problems, with a pointer that starts with @pointer;
 * @out is complete only without any. */
void nn_desc_read(const json_t *settings, const char *pointer,
                  struct nn_desc *out, struct problems *problems);

/* Shapes from the input on, of the network that was read with @pointer; the
 * last layer has to give @outputs values (of classes: at least as many).
 * Errors: ERR_INVAL, ERR_LIMIT, with the layer's pointer, or the preset's, in
 * @f; layers that were "outputs" may be shaped again, for another number. */
enum err nn_desc_shape(struct nn_desc *d, const char *pointer,
                       struct nn_shape input, unsigned outputs,
                       struct fault *f);

/* All parameters and moments, after nn_desc_shape. */
uint64_t nn_desc_parameters(const struct nn_desc *d);

/* The list of layers with every member that has a meaning, numbers for
 * "outputs": reads back as the same layers. Owned by the caller; NULL when out
 * of memory. */
json_t *nn_desc_layers(const struct nn_desc *d);

/* "cross_entropy", "squared". */
const char *nn_loss_name(enum nn_loss loss);

#endif
