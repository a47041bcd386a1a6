/* The inside of mlr: what its files share.
 *
 *   mlr.c        data, tables, clocks
 *   mlr_model.c  the saved model: saving, loading, predicting
 */
#ifndef APPS_MLR_APP_H
#define APPS_MLR_APP_H

#include "apps/mlr/mlr_kernel.h"
#include "apps/mlr/mlr_values.h"
#include "apps/samples/class_columns.h"
#include "apps/samples/samples.h"
#include "apps/samples/scaling.h"
#include "base/fault.h"
#include "mltune/app.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A set of images in packed order (mlr_kernel.h), or of rows of a table. */
struct mlr_packed {
    uint64_t count;
    uint8_t *pixel; /* [count][stride]: owned, or NULL */
    float *value;   /* [count][width]: owned, or NULL */
    uint8_t *label; /* [count]: owned */
};

/* Scratch of a worker for its clocks. */
struct mlr_scratch {
    const uint8_t *pixel[2][MLR_BLOCK]; /* this block's and the next one's */
    const float *value[MLR_BLOCK];      /* of a table, this block's */
    uint8_t label[MLR_BLOCK];
    const float *weight[MLR_CLASSES_MAX];
    float *gradient[MLR_CLASSES_MAX];
    float z[MLR_BLOCK * MLR_CLASSES_MAX];
};

struct mlr {
    struct mlr_packed train, test;
    struct samples shape;    /* without samples: shape, classes, their names */
    struct samples unpacked; /* a table that waits for the model's scaling */
    struct scaling scaling;
    size_t width;  /* values a sample */
    size_t stride; /* bytes of a packed image */
    unsigned classes;
    double lambda;
    bool evaluate, predict;
    char *data; /* what messages call the samples: owned */
    mlt_table weights;
    unsigned workers;
    struct mlr_scratch *scratch;  /* [workers] */
    struct class_columns columns; /* once they were asked for */
};

/* Packs @s, whose labels and values are taken over. Errors: ERR_NOMEM,
 * ERR_LIMIT. */
enum err mlr_packed_init(struct mlr_packed *p, struct samples *s,
                         struct fault *f);

/* Rows of all classes into @s->weight. Errors: ERR_CANCELED. */
int mlr_take_weights(const struct mlr *m, struct mlt_worker *w,
                     struct mlr_scratch *s);

/* Operations of app_mlr (mltune/app.h). */
int mlr_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int mlr_load(void *app, const char *dir, struct mlt_error *error);
int mlr_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error);
int mlr_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out);
int mlr_truth(void *app, uint64_t first, uint64_t count, double *out);

#endif
