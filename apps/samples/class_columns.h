/* Columns of a prediction of classes: `class`, the likeliest one, then
 * `probability_NAME` of each (mltune/app.h, `columns`). One owner thread.
 */
#ifndef APPS_CLASS_COLUMNS_H
#define APPS_CLASS_COLUMNS_H

#include "base/fault.h"
#include "mltune/app.h"

#include <stdint.h>

/* Zeroed: none. */
struct class_columns {
    uint32_t count;            /* classes + 1 */
    struct mlt_column *column; /* [count]: owned */
    char **name;               /* [classes] of the classes: owned */
    char **title;              /* [classes] of the columns: owned */
};

/* Columns of the @classes >= 1 of the model in @dir, whose classes.txt names
 * them; those that it does not name are called by their number. Errors: ERR_IO,
 * ERR_FORMAT (more names than classes), ERR_INVAL (path), ERR_NOMEM; zeroed
 * then. */
enum err class_columns_init(struct class_columns *c, const char *dir,
                            unsigned classes, struct fault *f);
/* Columns of @classes >= 1 whose names are @name[classes] (copied), or NULL:
 * their numbers. Errors: ERR_NOMEM; zeroed then. */
enum err class_columns_of(struct class_columns *c, char *const *name,
                          unsigned classes, struct fault *f);
void class_columns_deinit(struct class_columns *c);

/* A row @out[classes + 1] of the scores @z[classes]: the number of the largest
 * (the lowest of equal ones), then the softmax. */
void class_columns_fill(const float *z, unsigned classes, double *out);

#endif
