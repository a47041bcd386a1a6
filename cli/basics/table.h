/* Plain text tables for people: columns as wide as their widest cell. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12, TABLE_CELL_MAX = 96 };

struct text_table {
    unsigned columns;
    char (*cell)[TABLE_CELL_MAX]; /* owned; row by row, the heading first */
    size_t cells, capacity;
    int no_memory; /* some cell was lost */
};

/* Zeroed plus columns: empty. Adds the next cell; what does not fit is cut and
 * control characters become '?'. */
void table_add(struct text_table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints all complete rows, each after @indent; numbers and text alike stand
 * left. Returns -1 when memory was out while it was filled. */
int table_print(const struct text_table *t, FILE *out, const char *indent);

void table_deinit(struct text_table *t);

#endif
