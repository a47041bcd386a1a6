#include "cli/basics/table.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void table_add(struct text_table *t, const char *fmt, ...)
{
    void *cells = t->cell;
    char *cell;
    va_list ap;

    assert(fmt);
    if (mem_grow(&cells, &t->capacity, sizeof(*t->cell), t->cells + 1)) {
        t->no_memory = 1;
        return;
    }
    t->cell = cells;
    cell = t->cell[t->cells++];
    va_start(ap, fmt);
    vsnprintf(cell, TABLE_CELL_MAX, fmt, ap);
    va_end(ap);
    text_clean(cell); /* and a character that was cut off */
}

int table_print(const struct text_table *t, FILE *out, const char *indent)
{
    size_t width[TABLE_COLUMNS_MAX] = {0}, rows = t->cells / t->columns;

    assert(t->columns >= 1 && t->columns <= TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < rows * t->columns; i++) {
        size_t n = strlen(t->cell[i]);

        if (n > width[i % t->columns])
            width[i % t->columns] = n;
    }
    for (size_t i = 0; i < rows * t->columns; i++) {
        unsigned column = (unsigned)(i % t->columns);

        if (column == 0)
            fputs(indent, out);
        if (column + 1 == t->columns)
            fprintf(out, "%s\n", t->cell[i]);
        else
            fprintf(out, "%-*s  ", (int)width[column], t->cell[i]);
    }
    return t->no_memory ? -1 : 0;
}

void table_deinit(struct text_table *t)
{
    mem_free(t->cell);
    memset(t, 0, sizeof(*t));
}
