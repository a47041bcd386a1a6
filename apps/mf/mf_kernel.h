/* Matrix factorization: errors and items' gradients of a block of ratings.
 *
 * For a rating r of user row L and item row R (Cui 2017, eq. 2.1 and 2.2, with
 * the factor 2 left to the learning rate, and the penalty of Dai et al., each
 * rating adding lambda (|L|^2 + |R|^2) / 2):
 *
 *   e = r - L . R,   dL = -(e R - lambda L),   dR = -(e L - lambda R)
 *
 * Pure functions.
 */
#ifndef APPS_MF_KERNEL_H
#define APPS_MF_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Ratings a block, at most. This block's rows and the next block's stay in the
 * first cache: with 64, the rows of 256 bytes that adagrad has made it 20 %
 * slower. */
enum { MF_BLOCK = 16 };

/* Successive ratings, each run of them of one item. */
struct mf_block {
    size_t n, runs;
    unsigned rank;
    float lambda;
    void *const *user;           /* [n] user rows; read only */
    void *const *ahead;          /* [n] rows to fetch meanwhile, ... */
    unsigned ahead_bytes;        /* ... each up to here */
    const float *value;          /* [n] ratings, centred */
    const uint8_t *run;          /* [runs] ratings in each; their sum is n */
    const float *const *item;    /* [runs] item rows */
    float *const *item_gradient; /* [runs] dR: added to */
    float *slope;                /* [n] -e and ... */
    const float **with;          /* [n] ... R: dL = lambda L + slope R */
};

/* Returns the sum of e^2. A user's gradient is not written: the parameter
 * server makes it where it applies it (mlt_step_rows_mix). No two of user, item
 * and gradients overlap; users may be equal among themselves (each error is of
 * the rows as given). Cost: 2 n rank multiply-adds. */
double mf_train(const struct mf_block *b);

/* Sum of e^2 over @n pairs of rows, as they are; @slope[n] receives -e of each,
 * NULL: nothing. */
double mf_squared_error(size_t n, unsigned rank, const float *const user[],
                        const float *const item[], const float value[],
                        float slope[]);

/* The same, and meanwhile rows are fetched from memory that will be wanted
 * next: so many bytes of row[0][i] and row[1][i], with pair i. */
struct mf_ahead {
    void *const *row[2]; /* [n] */
    unsigned bytes;
};
double mf_pair_errors(size_t n, unsigned rank, const float *const user[],
                      const float *const item[], const float value[],
                      float slope[], const struct mf_ahead *ahead);

/* The plain references: in double, value by value. */
double mf_train_plain(const struct mf_block *b);
double mf_squared_error_plain(size_t n, unsigned rank,
                              const float *const user[],
                              const float *const item[], const float value[],
                              float slope[]);

#endif
