/* Matrix products of the dense layers.
 *
 * They are not OpenBLAS's, because its serial build as Debian has it is not
 * safe to call from two threads at a time (docs/dependencies.md), and workers
 * are threads. The operands are taken as the layer has them: no transposed copy
 * of the weights is made. Matrices are row-major with a row stride; pure
 * functions.
 */
#ifndef APPS_NN_DENSE_KERNEL_H
#define APPS_NN_DENSE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

enum { NN_PANEL = 48 }; /* columns that are made at a time, at most */

struct nn_matrix {
    float *at;
    size_t stride; /* floats from a row to the next */
};

/* y[i][u] = bias[u] + sum_k x[i][k] w[u][k]; i < n, u < units, k < depth.
 * @panel[depth][NN_PANEL] is scratch. */
void nn_dots(size_t n, size_t units, size_t depth, const float *x,
             const float *w, const float *bias, struct nn_matrix y,
             float *panel);

/* One factor of nn_panel: value (r, j) is at[r * row + j * term]. */
struct nn_factor {
    const float *at;
    size_t row, term;
};

/* c[r][k] (= or +=, by @add) sum_j a(r, j) b[j][k]; r < rows, j < terms,
 * k < columns. @panel[terms][NN_PANEL] is scratch. */
void nn_panels(size_t rows, size_t terms, size_t columns, struct nn_factor a,
               struct nn_matrix b, struct nn_matrix c, bool add, float *panel);

#endif
