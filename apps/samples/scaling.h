/* Scaling of tables: every column to mean 0 and standard deviation 1.
 *
 * The numbers come from the training samples, hold for validation samples too,
 * and are saved beside a model, so that it can be evaluated on other data. A
 * column that never changes becomes 0. Targets are scaled the same way; a mean
 * squared loss over them is in units of their variance.
 */
#ifndef APPS_SCALING_H
#define APPS_SCALING_H

#include "apps/samples/samples.h"
#include "base/fault.h"

#include <stdint.h>

/* Zeroed: leaves samples as they are (images). */
struct scaling {
    uint64_t columns; /* values of a sample; mean and factor have one more, the
                       * target's (0 and 1 where there are classes) */
    double *mean;     /* [columns + 1]: owned */
    double *factor;   /* [columns + 1] 1 / standard deviation, or 0: owned */
};

void scaling_deinit(struct scaling *s);

/* Scaling of @train; zeroed where it is images. Errors: ERR_NOMEM. */
enum err scaling_of(const struct samples *train, struct scaling *out,
                    struct fault *f);

/* value = (value - mean) * factor, targets alike. @s has the same columns. */
void scaling_apply(const struct scaling *scaling, struct samples *s);

/* As DIR/scaling.npy, whole or not there: two rows, means and factors, of
 * columns + 1 doubles; nothing where zeroed. Errors: ERR_IO, ERR_NOMEM. */
enum err scaling_save(const struct scaling *s, const char *dir,
                      struct fault *f);

/* Columns of the values of a model's table, by DIR/scaling.npy; 0 where that is
 * not there (images). Errors: ERR_IO, ERR_FORMAT. */
enum err scaling_columns(const char *dir, uint64_t *columns, struct fault *f);

/* Reads DIR/scaling.npy, of a table of @columns. Errors: as scaling_load. */
enum err scaling_read(const char *dir, uint64_t columns, struct scaling *out,
                      struct fault *f);

/* Reads it back; zeroed where @s is images. Errors: ERR_IO, ERR_FORMAT (not
 * that many columns), ERR_NOMEM. */
enum err scaling_load(const char *dir, const struct samples *s,
                      struct scaling *out, struct fault *f);

#endif
