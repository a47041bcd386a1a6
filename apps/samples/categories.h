/* The categories of a column: names, numbered as they came, found by a table of
 * hashes. One owner thread.
 */
#ifndef APPS_CATEGORIES_H
#define APPS_CATEGORIES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { CATEGORIES_MAX = 1000 }; /* of a column */
#define CATEGORY_NONE UINT32_MAX

/* Zeroed: none. */
struct categories {
    char **name; /* [count]: owned */
    uint32_t count;
    size_t capacity;
    uint32_t *slot; /* [slots] a number, or CATEGORY_NONE: owned */
    size_t slots;   /* 0, or a power of two above twice the count */
};

void categories_deinit(struct categories *c);

/* Number of @name, or CATEGORY_NONE. */
uint32_t categories_find(const struct categories *c, const char *name);

/* Number of @name (copied), a new one where it is not there. Errors: ERR_LIMIT
 * (CATEGORIES_MAX are there), ERR_NOMEM; nothing changed then. */
enum err categories_add(struct categories *c, const char *name, uint32_t *out);

/* Those @from[n] (copied), in their order; @out is empty before. Errors:
 * ERR_EXIST (one occurs twice), as categories_add; empty then. */
enum err categories_of(struct categories *out, char *const *from, uint32_t n);

/* Numbers them anew in the order of csv_sort_names: what was number i is
 * @place[i] now. Errors: ERR_NOMEM; nothing changed then. */
enum err categories_sort(struct categories *c, uint32_t place[CATEGORIES_MAX]);

#endif
