/* The inside of glm: what its files share.
 *
 *   glm_data.c   settings, samples               before any thread runs
 *   glm.c        tables, clocks                  all workers
 *   glm_work.c   a worker's copy of the rows that a clock touches
 *   glm_saga.c   the clocks of the solvers saga and svrg
 *   glm_local.c  the clocks of the solver local
 *   glm_model.c  the saved model: saving, loading, predicting
 */
#ifndef APPS_GLM_APP_H
#define APPS_GLM_APP_H

#include "apps/glm/glm_loss.h"
#include "apps/glm/glm_penalty.h"
#include "apps/glm/glm_set.h"
#include "apps/samples/class_columns.h"
#include "apps/samples/samples.h"
#include "apps/samples/scaling.h"
#include "apps/settings.h"
#include "base/fault.h"
#include "mltune/app.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLM_ROWS_AT_ONCE = 64 };

enum glm_solver { GLM_SGD, GLM_SAGA, GLM_SVRG, GLM_LOCAL };

/* A worker's own: copies of rows by their number, valid where `mark` is this
 * clock's, and which those are. */
struct glm_work {
    float *weight, *change; /* [rows][outputs] as read; to be added */
    /* [rows][outputs], where the solver has them, else NULL. */
    float *mean;     /* saga, svrg: the mean gradient */
    float *begun;    /* the same as it was when the clock began */
    float *gradient; /* local: of a mini-batch; 0 between them */
    uint32_t *mark;  /* [rows] the last clock that touched the row */
    uint32_t *seen;  /* [rows] its samples of this clock */
    uint64_t *row;   /* [rows] those touched */
    size_t rows;
    uint32_t clock;
    float *packed;   /* [GLM_ROWS_AT_ONCE][outputs] */
    float *z, *d;    /* [outputs] */
    uint64_t *order; /* [its samples of the largest part]; of sgd NULL */
};

struct glm {
    struct glm_set train, test;
    struct samples shape;    /* without samples: names of classes and columns */
    struct samples unpacked; /* a table that waits for the model's scaling */
    struct scaling scaling;  /* of tables */
    bool sparse;             /* libsvm: columns are the indexes */
    enum glm_loss loss;
    unsigned classes, outputs;
    uint32_t columns;
    double lambda, l1_ratio;
    enum glm_solver solver;
    uint64_t inner_passes; /* svrg: between two passes of the mean gradient */
    uint64_t local_batch;  /* local: samples a step */
    bool in_parts;         /* fixed parts: samples are dealt out once */
    uint64_t parts;        /* clocks a pass; 0: a clock is a batch */
    float *rarity; /* [columns + 1] samples / samples with it, or 0: owned */
    bool evaluate, predict;
    uint64_t seed;
    char *data; /* what messages call the samples: owned */
    unsigned workers;
    const struct mlt_ps *ps;
    mlt_table weights, slopes, mean;
    struct glm_work *work;             /* [workers] */
    struct class_columns columns_said; /* once they were asked for */
};

/* Loads and shapes. Errors: those of the loaders, ERR_FORMAT, ERR_NOMEM. */
enum err glm_data_load(struct glm *m, const struct settings *s,
                       struct fault *f);
void glm_data_deinit(struct glm *m);

/* The scaling's factor of what is predicted: 1 where it is not scaled. */
double glm_target_factor(const struct glm *m);
double glm_target_mean(const struct glm *m);

/* Takes the model's classes, scaling and columns for the data. */
enum err glm_data_fit(struct glm *m, const char *dir, uint32_t columns,
                      struct fault *f);

/* Whether slopes and their mean gradient are remembered. */
static inline bool glm_remembers(const struct glm *m)
{
    return !m->evaluate && (m->solver == GLM_SAGA || m->solver == GLM_SVRG);
}

/* Rows of the weights' table: columns, then the bias. */
static inline uint64_t glm_rows(const struct glm *m)
{
    return (uint64_t)m->columns + 1;
}

/* ---- a worker's work ----------------------------------------------------- */

enum err glm_work_init(const struct glm *m, struct glm_work *k,
                       struct fault *f);
void glm_work_deinit(struct glm_work *k);

/* Bytes of it. */
uint64_t glm_work_bytes(const struct glm *m);

/* Begins a clock with no rows touched but the bias, which is seen once a
 * sample of the clock, @samples. */
void glm_work_begin(const struct glm *m, struct glm_work *k, uint64_t samples);

/* The rows of sample @i of @set are touched. */
void glm_work_touch(struct glm_work *k, const struct glm_set *set, uint64_t i);

/* All rows are touched, each column by as many of the clock's @samples as of
 * all of them on average. */
void glm_work_touch_all(const struct glm *m, struct glm_work *k,
                        uint64_t samples);

/* Reads the touched rows of @table into @to; adds what @change has to @table,
 * times @factor. Errors: ERR_CANCELED. */
int glm_work_read(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                  mlt_table table, float *to);
/* The same into two places. */
int glm_work_read_twice(const struct glm *m, struct mlt_worker *w,
                        struct glm_work *k, mlt_table table, float *now,
                        float *begun);
void glm_work_add(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                  mlt_table table, const float *change, float factor);

/* Adds to the rows what they are in @now more than in @begun, times @factor;
 * @begun becomes the difference. */
void glm_work_add_change(const struct glm *m, struct mlt_worker *w,
                         struct glm_work *k, mlt_table table, const float *now,
                         float *begun, float factor);

/* The @n samples @first + i * parts in an order of their own, into k->order. */
void glm_work_shuffle(const struct glm *m, struct glm_work *k, uint64_t first,
                      uint64_t n, uint64_t seed);

/* Adds @scale times sample @i's gradient, whose slopes are k->d, to @to. */
void glm_add_gradient(const struct glm *m, const struct glm_work *k,
                      const struct glm_set *set, uint64_t i, float scale,
                      float *to);

/* Scores of sample @i into k->z. */
void glm_scores(const struct glm *m, struct glm_work *k,
                const struct glm_set *set, uint64_t i);

/* Share of the penalty that a touched column bears in this clock of @samples:
 * over a pass, whatever is drawn, each bears lambda once a clock (Leblond et
 * al. 2017, section 2). */
struct glm_penalty glm_penalty_share(const struct glm *m,
                                     const struct glm_work *k, uint64_t row,
                                     uint64_t samples);

/* The penalty that the touched rows bear, a sample of the clock's @samples. */
double glm_penalty_borne(const struct glm *m, const struct glm_work *k,
                         uint64_t samples);

/* ---- solvers in parts ---------------------------------------------------- */

/* The samples of part @part of worker @index are every parts-th of those that
 * it owns: part + k * parts, k < the result. */
uint64_t glm_part_samples(const struct glm *m, unsigned index, uint64_t part,
                          uint64_t *first);

int glm_saga_clock(const struct glm *m, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx);
int glm_svrg_clock(const struct glm *m, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx);
int glm_local_clock(const struct glm *m, struct mlt_worker *w,
                    const struct mlt_clock_ctx *ctx);

/* ---- the model ----------------------------------------------------------- */

/* The loss that the model in @dir was trained with. Errors: ERR_IO,
 * ERR_FORMAT. */
enum err glm_model_loss(const char *dir, enum glm_loss *out, struct fault *f);

/* Operations of app_glm (mltune/app.h). */
int glm_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int glm_load(void *app, const char *dir, struct mlt_error *error);
int glm_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error);
int glm_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out);
int glm_truth(void *app, uint64_t first, uint64_t count, double *out);

#endif
