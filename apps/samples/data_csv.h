/* Tables with a label column: text with separators (CSV, RFC 4180).
 *
 * A column but the label is of numbers, or where its values are all texts of
 * categories; one with both is refused unless the settings call it one of
 * categories. A missing value (nothing, ?, NA, N/A, NaN, null) is kept as such:
 * encoding.h says what becomes of it. The label is a class, a number or a text,
 * or with `targets` a number to predict; it is never missing. Classes and
 * categories are numbered in sorted order, whatever the order of the rows: by
 * value where all are numbers (1 and 1.0 are the same), else byte by byte. What
 * is wrong is refused with its line and column, as are rows of another length;
 * nothing is guessed. Columns to ignore may hold anything. Blank lines are
 * passed over.
 */
#ifndef APPS_DATA_CSV_H
#define APPS_DATA_CSV_H

#include "apps/samples/csv_field.h"
#include "apps/samples/csv_record.h"
#include "apps/samples/encoding.h"
#include "apps/samples/samples.h"

#include <stdbool.h>

/* Zeroed but for `header`: everything as found, the label last. */
struct csv_options {
    /* Borrowed: a column's name, "first", "last", its number from 1, or from
     * the end below 0; NULL: the last. */
    const char *label;
    int header;     /* 1: the first record names the columns, 0: it does not,
                     * -1: it does if no field beside the label is a number and one
                     * is there;     a record with numbers and texts is refused */
    char separator; /* '\0': the first record tells (apps/samples/csv_record.h)
                     */
    bool targets;
    /* [categories] columns of categories, whatever their values look like: as
     * @label names one. Borrowed. */
    const char *const *category;
    size_t categories;
    /* [ignored] columns that are not looked at: as @label names one. Borrowed.
     */
    const char *const *ignore;
    size_t ignored;
    /* The columns are to be as these (borrowed; NULL: as found), whose
     * categories are all that there are: others are ENCODING_UNKNOWN. */
    const struct encoding *like;
    bool goes_on; /* of a run that began before: classes that were taken then
                   * are taken again, whatever they look like */
    bool plain;   /* all columns are numbers, and none is missing */
    /* To predict: rows of @inputs values (0: no such thing), without labels.
     * Where @input_name [inputs] (borrowed, or NULL) and a header are there,
     * the columns of those names, wherever they are; others are passed over.
     * Else all columns in their order, but for the label's if there is one
     * more, and for those of @ignore where they are there. */
    size_t inputs;
    const char *const *input_name;
    bool labelled; /* to evaluate: as to predict, but with labels; columns by
                    * name where the header has one of @input_name, which is
                    * there, else all that there are */
};

/* A table that is being read, of one file or several. */
struct csv_table;

/* @options is borrowed until the end. NULL when out of memory. */
struct csv_table *csv_table_new(const struct csv_options *options);

/* Accepts NULL. */
void csv_table_free(struct csv_table *t);

/* Appends the rows of @s. A file that begins with the same header, or none,
 * may follow another. On error the table is fit for csv_table_free only.
 * Errors: those of csv_record_next; ERR_FORMAT with file, line and column;
 * ERR_INVAL (no such label or column, or a name without a header);
 * ERR_LIMIT (more than SAMPLES_CLASSES_MAX classes or CATEGORIES_MAX categories
 * of a column; memory beyond @limit_bytes); ERR_NOMEM. */
enum err csv_table_read(struct csv_table *t, struct data_stream *s,
                        uint64_t limit_bytes, struct fault *f);

/* The rows as samples of columns x 1 x 1, with what there is to say of their
 * columns (`columns`; with `plain` NULL); the table is empty then. Rows were
 * read. Errors: ERR_LIMIT (classes that are all numbers, and one no integer,
 * unless the categories name the label: as with too many classes, they may well
 * be numbers to predict), ERR_NOMEM. */
enum err csv_table_take(struct csv_table *t, struct samples *out,
                        struct fault *f);

#endif
