/* How a table's columns become the inputs of a model.
 *
 * A column of numbers is one input, where the training data had missing values
 * in it two: what is missing becomes the mean of those that are there, and the
 * second input is 1. A column of categories is an input for each category that
 * the training data had, 1 or 0, and one for "missing" if they had that. All
 * inputs of a category that they did not have are 0. Scaling (scaling.h) is
 * done to the inputs.
 *
 * The same struct says what a table that was just read holds: then `inputs` is
 * 0, a value is a number or the number of its category, NAN where it is
 * missing, and -1 where its category is not among them. One owner thread.
 */
#ifndef APPS_ENCODING_H
#define APPS_ENCODING_H

#include "apps/samples/categories.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ENCODING_INPUTS_MAX = 1 << 20,
    ENCODING_NAMES_BYTES_MAX = 8 << 20 /* of all categories together */
};

/* A value whose category is none of its column's. */
#define ENCODING_UNKNOWN (-1.0f)

struct samples;

struct encoded_column {
    char *name;    /* of the header, UTF-8: owned; NULL: there was none */
    bool category; /* else numbers */
    bool missing;  /* the training data had missing values: an input of its own,
                    * the column's last */
    double fill;   /* numbers: what stands for a missing one */
    struct categories categories;
};

/* Zeroed: none (images). */
struct encoding {
    uint64_t columns;              /* the label's left out */
    struct encoded_column *column; /* [columns]: owned */
    uint64_t inputs; /* 0: of a table that was read, not of a model */
    char *label;     /* name of the label's column of a table that was read, as
                      * the header has it: owned, or NULL */
};

/* What encoding_apply came upon. */
struct encoding_counts {
    uint64_t missing; /* values */
    uint64_t unknown; /* values of categories that training did not have */
    uint64_t column;  /* the first column with an unknown one */
};

void encoding_deinit(struct encoding *e);

/* @columns columns of numbers. Errors: ERR_NOMEM. */
enum err encoding_init(struct encoding *e, uint64_t columns);

/* A copy. Errors: ERR_NOMEM; zeroed then. */
enum err encoding_copy(const struct encoding *e, struct encoding *out);

/* The names of its columns: *@name [columns], owned by the caller, to be freed
 * with columns_free; NULL where it has none. Errors: ERR_NOMEM. */
enum err encoding_names(const struct encoding *e, char ***name,
                        struct fault *f);

/* Sums the inputs up. Errors: ERR_LIMIT (ENCODING_INPUTS_MAX,
 * ENCODING_NAMES_BYTES_MAX). */
enum err encoding_close(struct encoding *e, struct fault *f);

/* The encoding that the rows of @train, a table as it was read, ask for.
 * Errors: ERR_LIMIT, ERR_NOMEM. */
enum err encoding_fit(const struct samples *train, struct encoding *out,
                      struct fault *f);

/* Makes inputs of the values of @s, a table as it was read, which messages call
 * @file, and names of inputs of its columns' names. Where both @e and @s name
 * their columns, they do so alike. Errors: ERR_FORMAT (other columns),
 * ERR_LIMIT (memory), ERR_NOMEM; nothing changed then. */
enum err encoding_apply(const struct encoding *e, const char *file,
                        struct samples *s, struct encoding_counts *counts,
                        struct fault *f);

#endif
