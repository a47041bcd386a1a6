#include "apps/nn/nn_dense_kernel.h"

#include "apps/nn/nn_tiles.h"

void nn_dots(size_t n, size_t units, size_t depth, const float *x,
             const float *w, const float *bias, struct nn_matrix y,
             float *panel)
{
    NN_CALL(nn_dots, n, units, depth, x, w, bias, y, panel);
}

void nn_panels(size_t rows, size_t terms, size_t columns, struct nn_factor a,
               struct nn_matrix b, struct nn_matrix c, bool add, float *panel)
{
    NN_CALL(nn_panels, rows, terms, columns, a, b, c, add, panel);
}
