/* A saved network's description: the file network.json of a model folder, which
 * alone says how the arrays beside it are to be read.
 *
 *   {"version": 1,
 *    "input": {"channels": 1, "height": 28, "width": 28,
 *              "mean": [0.13], "deviation": [0.31]},
 *    "outputs": 10, "loss": "cross_entropy", "parameters": 203530,
 *    "layers": [...]}
 *
 * Mean and deviation by channel, of byte / 255, are there for images only.
 * Pure functions.
 */
#ifndef APPS_NN_NETWORK_H
#define APPS_NN_NETWORK_H

#include "apps/nn/nn_desc.h"
#include "base/fault.h"

#include <stddef.h>

struct nn_network {
    struct nn_desc desc; /* not yet shaped when it was parsed */
    struct nn_shape input;
    unsigned outputs;
    double *mean, *deviation; /* [input.channels] finite, >= 0: owned; NULL */
};

void nn_network_deinit(struct nn_network *n);

/* Errors: ERR_FORMAT, with the member that is wrong; ERR_LIMIT; ERR_NOMEM. */
enum err nn_network_parse(const char *text, size_t len, struct nn_network *out,
                          struct fault *f);

/* Owned by the caller; NULL when out of memory. @n->desc is shaped. */
json_t *nn_network_json(const struct nn_network *n);

#endif
