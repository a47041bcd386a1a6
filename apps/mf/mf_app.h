/* The inside of mf: what its files share, and what the benchmark compares with.
 *
 *   mf_data.c   settings, ratings, rows      before any thread runs
 *   mf.c        tables, clocks               all workers, each its own share
 *   mf_loop.c   training as a loop               the same
 *   mf_model.c  the saved model
 */
#ifndef APPS_MF_APP_H
#define APPS_MF_APP_H

#include "apps/formats/data_ratings.h"
#include "apps/mf/mf_kernel.h"
#include "apps/mf/mf_layout.h"
#include "base/fault.h"
#include "mltune/app.h"
#include "mltune/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MF_ROW_NONE UINT32_MAX

enum {
    MF_RANK_MAX = 4096,
    MF_AT_ONCE = 2048, /* pairs to predict; a multiple of MF_BLOCK */
    /* Clocks a pass where the user leaves them to us ("auto"): so many that
     * each has MF_CLOCK_RATINGS ratings. In shorter ones an item has few, so
     * that its row's update is most of the work, and workers mostly wait for
     * each other (docs/results.md). At least as many as a trial has windows. */
    MF_CLOCK_RATINGS = 32768,
    MF_CLOCKS_MIN = 10,
    MF_CLOCKS_MAX = 100
};

enum mf_side { MF_USERS, MF_ITEMS, MF_SIDES };

/* Ratings to predict: rows or MF_ROW_NONE, and values less the offset. */
struct mf_pairs {
    uint64_t count;
    uint32_t *row[MF_SIDES]; /* [count]: owned */
    float *value;            /* [count]: owned */
};

/* The items of a block, a run of ratings each. */
struct mf_items {
    size_t ratings, runs; /* no ratings: there is no such block */
    uint64_t row[MF_BLOCK];
    const void *values[MF_BLOCK];
    uint8_t run[MF_BLOCK]; /* ratings in each */
};

/* Scratch of a worker for its clocks. */
struct mf_scratch {
    void *user[2][MF_BLOCK]; /* rows of this block's users and the next one's */
    struct mf_items items[2];
    float *item_gradient[MF_BLOCK];
    float slope[MF_BLOCK];
    const float *with[MF_BLOCK];
    float *user_gradient; /* [2 * MF_BLOCK][rank]: for rules without a mix, or a
                             cross */
    /* Pairs to predict, whose rows are sent for together: where they are on
     * another node a round trip is worth thousands of ratings. */
    uint64_t wanted[MF_SIDES][MF_AT_ONCE];
    const void *known[MF_SIDES][MF_AT_ONCE];
    float value[MF_AT_ONCE];
};

/* What a loop goes over, until it has its own: rows of user and item, values;
 * in an order drawn by the seed. */
struct mf_pass {
    uint64_t count;
    uint32_t (*key)[MF_SIDES]; /* [count]: owned */
    float *value;              /* [count]: owned */
};

struct mf {
    uint32_t rank;
    double lambda, mean;
    bool factor;    /* the mean is trained on, as the rows' first values */
    double offset;  /* what ratings lose and predictions get: mean or 0 */
    uint32_t parts; /* clocks a pass; 0 until the ratings are known: auto */
    uint64_t seed;
    bool evaluate, predict;
    bool as_loop; /* trained as a loop: `pass` and `loop` in place of `train`
                   * and `share` */
    uint32_t time_parts; /* a worker, of the loop */
    uint64_t samples;    /* training ratings */
    unsigned workers;
    char *summary; /* what the training ratings hold, as JSON: owned */
    uint64_t rows[MF_SIDES];
    int64_t *id[MF_SIDES]; /* [rows] outside ids: owned */
    struct ratings data;   /* evaluate: until the model maps its ids */
    struct mf_pairs test;  /* evaluate: all ratings */
    struct mf_ratings train;
    atomic_uint to_share;       /* workers that still need `train` */
    struct mf_share *share;     /* [workers] */
    struct mf_scratch *scratch; /* [workers] */
    float *gradients;           /* what scratch.user_gradient points into */
    struct mf_pass pass;
    struct mlt_loop *loop;         /* owned */
    struct mf_loop_scratch *ahead; /* [workers] owned; of a loop */
    mlt_table table[MF_SIDES];
    const struct mlt_ps *ps;
};

/* Operations of app_mf (mltune/app.h). */
int mf_open(const struct mlt_app_config *config, struct mlt_app_info *info,
            void **app, struct mlt_error *error);
void mf_close(void *app);
int mf_save(void *app, const char *dir, char *json, size_t size,
            struct mlt_error *error);
int mf_load(void *app, const char *dir, struct mlt_error *error);
int mf_columns(void *app, const struct mlt_column **column, uint32_t *count,
               struct mlt_error *error);
int mf_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
               double *out);
int mf_truth(void *app, uint64_t first, uint64_t count, double *out);

/* Training as a loop (mf_loop.c): mf_loop_take chooses the clocks and the order
 * of @pairs, which it copies; mf_loop_plan splits them, once the tables are
 * declared; mf_loop_clock is clock @part of @w; mf_loop_text tells the plan.
 * Errors: ERR_NOMEM; of the plan, with words. */
enum err mf_loop_take(struct mf *m, const struct mf_pairs *pairs);
int mf_loop_plan(struct mf *m, struct mlt_ps *ps, struct mlt_error *error);
int mf_loop_clock(const struct mf *m, struct mlt_worker *w, uint64_t part);
const char *mf_loop_text(void *app);
void mf_loop_free(struct mf *m);

/* Takes the arrays of @r over as pairs: numbers become rows through @row,
 * values lose the offset. */
void mf_pairs_take(struct mf_pairs *p, struct ratings *r,
                   const uint32_t *const row[MF_SIDES], double offset);

#endif
