/* The inside of nn: what its files share.
 *
 *   nn.c         settings, tables, initial values
 *   nn_data.c    samples, their normalisation, a sub-batch for the network
 *   nn_clock.c   a clock of a worker
 *   nn_model.c   the saved model
 *   nn_device.c  the network on a device
 */
#ifndef APPS_NN_APP_H
#define APPS_NN_APP_H

#include "apps/nn/nn_desc.h"
#include "apps/nn/nn_device.h"
#include "apps/nn/nn_net.h"
#include "apps/samples/class_columns.h"
#include "apps/samples/samples.h"
#include "apps/samples/scaling.h"
#include "apps/settings.h"
#include "mltune/app.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Samples that go through the network at a time: enough for the
     * kernels to run at full speed, few enough for the caches. Batch
     * normalisation sees no further than this, so it gets more. */
    NN_BLOCK = 64,
    NN_BLOCK_NORM = 256,
};

/* Bytes to numbers: value = scale[c] byte + offset[c], so that each channel of
 * the training images has mean 0 and deviation 1. Zeroed: there are none. */
struct nn_normal {
    uint32_t channels;
    double *mean, *deviation; /* [channels] of byte / 255: owned */
    float *scale, *offset;    /* [channels]: owned */
};

/* One worker's. */
struct nn_lane {
    struct nn_net *net;
    struct nn_device *device; /* owned; NULL: the net computes here */
    float *outputs;           /* [block][outputs] with a device: owned */
    uint32_t *label;          /* [block] or NULL: owned */
    float *target;            /* [block] or NULL: owned */
    const float **row;
    float **gradient; /* [all rows of all layers]: owned */
    struct nn_params params[NN_LAYERS_MAX];
    struct nn_grads grads[NN_LAYERS_MAX];
};

struct nn {
    struct nn_desc desc;
    struct samples train, test;
    char *data;              /* what messages call them: owned */
    struct nn_normal normal; /* images */
    struct scaling scaling;  /* tables */
    struct nn_shape input;
    unsigned outputs;
    double lambda;
    bool evaluate, predict;
    uint64_t seed;
    unsigned workers;
    char device[SPACE_NAME_MAX]; /* "cpu", "auto", "cuda:0", ... */
    size_t block;
    struct nn_lane *lane; /* [workers], once the shapes are known */

    const struct mlt_ps *ps; /* borrowed, once declared */
    mlt_table weights[NN_LAYERS_MAX], moments[NN_LAYERS_MAX];
    struct class_columns columns; /* of classes to predict */
};

/* Shapes for the data's outputs, and everything a clock needs. */
enum err nn_prepare(struct nn *m, struct fault *f);

/* ---- nn_data.c ----------------------------------------------------------- */

enum err nn_data_load(struct nn *m, const struct settings *s, struct fault *f);
void nn_data_deinit(struct nn *m);

/* Targets have a scale, without which their error has no unit. @name is what
 * the message calls where the scale is from. Errors: ERR_FORMAT. */
enum err nn_check_target(const struct nn *m, const char *name, struct fault *f);

/* Scale and offset of the means and deviations, [channels] copied. Errors:
 * ERR_NOMEM. */
enum err nn_normal_init(struct nn_normal *n, uint32_t channels,
                        const double *mean, const double *deviation);

/* Fills the network's input, and @lane's labels or targets where @set has some,
 * with @n samples of @set: numbers @id[n], or @first and following where id is
 * NULL. */
void nn_data_take(const struct nn *m, struct nn_lane *lane,
                  const struct samples *set, size_t n, const uint64_t *id,
                  uint64_t first);

/* ---- nn_clock.c, nn_model.c ---------------------------------------------- */

int nn_run_clock(void *app, struct mlt_worker *w,
                 const struct mlt_clock_ctx *ctx);
int nn_save(void *app, const char *dir, char *json, size_t size,
            struct mlt_error *error);
int nn_load(void *app, const char *dir, struct mlt_error *error);
int nn_columns(void *app, const struct mlt_column **column, uint32_t *count,
               struct mlt_error *error);
int nn_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
               double *out);
int nn_truth(void *app, uint64_t first, uint64_t count, double *out);

#endif
