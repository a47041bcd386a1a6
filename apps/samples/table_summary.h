/* What a table holds, as JSON, bounded in size: its columns, each with its kind
 * and its missing values, and its classes. Pure functions.
 */
#ifndef APPS_TABLE_SUMMARY_H
#define APPS_TABLE_SUMMARY_H

#include "apps/samples/samples.h"

#include <jansson.h>

enum {
    SUMMARY_COLUMNS_MAX = 100, /* that are listed, the label aside */
    SUMMARY_CLASSES_MAX = 50
};

/* Of @s, a table as it was read: {"missing": values, "columns": [...],
 * "columns_left_out": how many are not listed}. A column has name (null without
 * a header), kind ("number", "category", "label"), missing, of numbers min, max
 * and mean (null where all are missing), of categories their number; the label
 * is the last and has of classes "classes": [{"name", "samples"}] and
 * "classes_left_out", of numbers min, max, mean. Names are cut to 64 bytes.
 * Owned by the caller; NULL when out of memory. */
json_t *table_summary(const struct samples *s);

/* Of the training samples @s as one line of JSON: {"kind": "table", "samples"}
 * with table_summary, or {"kind": "images", "samples", "shape", "classes",
 * "classes_left_out"}. At most MLT_DATA_MAX bytes. Owned by the caller; NULL
 * when out of memory. */
char *samples_summary(const struct samples *s);

#endif
