/* Plain text tables for people: columns as wide as their widest cell, or as the
 * terminal lets them be. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12, TABLE_CELL_MAX = 4096 };

struct text_table {
    unsigned columns;
    unsigned width;   /* of the terminal; 0: any (cli/basics/fold.h) */
    bool no_heading;  /* the first row is one like the others */
    struct text pool; /* the cells, each with its end; the heading first */
    size_t *start;    /* owned: where each begins */
    size_t cells, capacity;
    int no_memory; /* some cell was lost */
};

/* Zeroed plus columns and width: empty. Adds the next cell; bytes beyond
 * TABLE_CELL_MAX are cut and control characters become '?'. */
void table_add(struct text_table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Cell @i, row by row. */
const char *table_cell(const struct text_table *t, size_t i);

/* Prints all complete rows, each after @indent; numbers and text alike stand
 * left. Where they are wider than the terminal, cells are folded between words,
 * the widest column first; where even words have no room, the last one stands
 * below its row, or each row is a list with a line for each cell. Returns -1
 * when memory was out. */
int table_print(const struct text_table *t, FILE *out, const char *indent);

void table_deinit(struct text_table *t);

#endif
