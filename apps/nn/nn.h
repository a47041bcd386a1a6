/* nn: feed-forward networks from a description of layers (docs/nn.md).
 *
 * Every layer with parameters has a table of its own, `layerN_KIND`, in blocks
 * of outputs (apps/nn/nn_layer.h), whose clock ends when its gradient is ready;
 * batch normalisation keeps its running moments in a second one,
 * `layerN_moments`, which the update rule `add` moves. The loss is the mean
 * cross-entropy, or half the squared error, without penalty; the metric the
 * share of validation samples whose largest output is right, or the root of the
 * mean squared error. Gradients are divided by the samples of the clock over
 * all workers.
 */
#ifndef APPS_NN_H
#define APPS_NN_H

#include "base/json/problems.h"
#include "mltune/app.h"

extern const struct mlt_app_ops app_nn;

/* Checks beyond the schema: finds every fault of the network that @settings,
 * at @pointer, describe, as far as the data do not matter. */
void nn_check_settings(const json_t *settings, const char *pointer,
                       struct problems *problems);

/* Why the network of these settings has no use for @tunable (registry_idle). */
const char *nn_idle_tunable(const json_t *settings, const char *tunable);

#endif
