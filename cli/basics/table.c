#include "cli/basics/table.h"

#include "base/mem.h"
#include "cli/basics/fold.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { GAP = 2 /* columns between two cells */ };

void table_add(struct text_table *t, const char *fmt, ...)
{
    void *starts = t->start;
    char text[TABLE_CELL_MAX];
    va_list ap;

    assert(fmt);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    text_clean(text); /* and a character that was cut off */
    if (mem_grow(&starts, &t->capacity, sizeof(*t->start), t->cells + 1)) {
        t->no_memory = 1;
        return;
    }
    t->start = starts;
    t->start[t->cells] = text_length(&t->pool);
    text_add(&t->pool, text, strlen(text) + 1);
    if (text_lost(&t->pool))
        t->no_memory = 1;
    else
        t->cells++;
}

const char *table_cell(const struct text_table *t, size_t i)
{
    assert(i < t->cells);
    return text_so_far(&t->pool) + t->start[i];
}

/* ---- columns ------------------------------------------------------------- */

struct table_widths {
    size_t now[TABLE_COLUMNS_MAX], word[TABLE_COLUMNS_MAX];
};

static void at_least(size_t *width, size_t n)
{
    if (*width < n)
        *width = n;
}

static size_t longest_word(const char *s)
{
    size_t most = 0;

    while (*s) {
        size_t n = strcspn(s, " ");

        at_least(&most, fold_columns(s, n));
        s += n + strspn(s + n, " ");
    }
    return most;
}

static void measure(const struct text_table *t, size_t rows,
                    struct table_widths *w)
{
    *w = (struct table_widths){.now = {0}};
    for (size_t i = 0; i < rows * t->columns; i++) {
        const char *cell = table_cell(t, i);

        at_least(&w->now[i % t->columns], fold_columns(cell, strlen(cell)));
        if (t->width > 0)
            at_least(&w->word[i % t->columns], longest_word(cell));
    }
}

/* Makes the first @n columns narrower, one at a time the widest that can be,
 * until they fit; false: they cannot. */
static bool squeeze(const struct text_table *t, unsigned n, size_t indent,
                    struct table_widths *w)
{
    size_t sum = indent + GAP * (size_t)(n - 1);

    for (unsigned c = 0; c < n; c++)
        sum += w->now[c];
    for (; t->width > 0 && sum > t->width; sum--) {
        unsigned widest = n;

        for (unsigned c = 0; c < n; c++)
            if (w->now[c] > w->word[c] &&
                (widest == n || w->now[c] >= w->now[widest]))
                widest = c;
        if (widest == n)
            return false;
        w->now[widest]--;
    }
    return true;
}

/* Folded cells may need less than they were given. */
static void tighten(const struct text_table *t, size_t rows,
                    struct table_widths *w)
{
    size_t used[TABLE_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < rows * t->columns; i++) {
        const char *cell = table_cell(t, i);
        unsigned c = (unsigned)(i % t->columns);

        while (*cell) {
            size_t n = fold_take(cell, strlen(cell), w->now[c]);

            at_least(&used[c], fold_columns(cell, n));
            cell += n;
            cell += strspn(cell, " ");
        }
    }
    memcpy(w->now, used, sizeof(used));
}

/* ---- rows ---------------------------------------------------------------- */

/* One line of a row: of each of @n cells what fits, off *@rest. False: nothing
 * was left. */
static bool print_line(unsigned n_cells, const struct table_widths *w,
                       const char *rest[], const char *indent, FILE *out)
{
    size_t gap = 0; /* blanks that are due before the next text */
    bool any = false;

    for (unsigned c = 0; c < n_cells; c++)
        any |= rest[c][0] != '\0';
    if (!any)
        return false;
    fputs(indent, out);
    for (unsigned c = 0; c < n_cells; c++) {
        size_t n = fold_take(rest[c], strlen(rest[c]), w->now[c]);

        if (n > 0)
            fprintf(out, "%*s%.*s", (int)gap, "", (int)n, rest[c]);
        gap = (n > 0 ? 0 : gap) + w->now[c] + GAP - fold_columns(rest[c], n);
        rest[c] += n;
        rest[c] += strspn(rest[c], " ");
    }
    fputc('\n', out);
    return true;
}

static void print_row(const struct text_table *t, unsigned n,
                      const struct table_widths *w, size_t row,
                      const char *indent, FILE *out)
{
    const char *rest[TABLE_COLUMNS_MAX];
    bool empty = true;

    for (unsigned c = 0; c < t->columns; c++) {
        rest[c] = table_cell(t, row * t->columns + c);
        empty &= rest[c][0] == '\0';
    }
    if (empty)
        fputs("\n", out);
    while (print_line(n, w, rest, indent, out))
        ;
}

/* A row whose last cell stands below it. */
static int print_over(const struct text_table *t, const struct table_widths *w,
                      size_t row, const char *indent, FILE *out)
{
    const char *cell = table_cell(t, (row + 1) * t->columns - 1);
    struct text raw = {0}, folded = {0};
    int failed;

    print_row(t, t->columns - 1, w, row, indent, out);
    if (*cell)
        text_printf(&raw, "%s%*s%s\n", indent, 2 * GAP, "", cell);
    fold_lines(text_so_far(&raw), t->width, &folded);
    fputs(text_so_far(&folded), out);
    failed = text_lost(&raw) || text_lost(&folded);
    text_deinit(&raw);
    text_deinit(&folded);
    return failed;
}

/* The row's cells below one another, each after its heading. */
static int print_list(const struct text_table *t, size_t row, size_t margin,
                      const char *indent, FILE *out)
{
    struct text raw = {0}, folded = {0};
    int failed;

    for (unsigned c = 0; c < t->columns; c++) {
        const char *cell = table_cell(t, row * t->columns + c);

        if (*cell && t->no_heading)
            text_printf(&raw, "%s%*s%s\n", indent, c > 0 ? GAP : 0, "", cell);
        else if (*cell)
            text_printf(&raw, "%s%-*s  %s\n", indent, (int)margin,
                        table_cell(t, c), cell);
    }
    text_puts(&raw, "\n");
    fold_lines(text_so_far(&raw), t->width, &folded);
    fputs(text_so_far(&folded), out);
    failed = text_lost(&raw) || text_lost(&folded);
    text_deinit(&raw);
    text_deinit(&folded);
    return failed;
}

int table_print(const struct text_table *t, FILE *out, const char *indent)
{
    size_t rows = t->cells / t->columns, margin = 0;
    unsigned last = t->columns - 1;
    int no_memory = t->no_memory;
    struct table_widths w;

    assert(t->columns >= 1 && t->columns <= TABLE_COLUMNS_MAX);
    measure(t, rows, &w);
    if (squeeze(t, t->columns, strlen(indent), &w)) {
        if (t->width > 0)
            tighten(t, rows, &w);
        for (size_t row = 0; row < rows; row++)
            print_row(t, t->columns, &w, row, indent, out);
        return no_memory ? -1 : 0;
    }
    measure(t, rows, &w);
    if (last > 0 && squeeze(t, last, strlen(indent), &w)) {
        tighten(t, rows, &w);
        for (size_t row = 0; row < rows; row++)
            no_memory |= print_over(t, &w, row, indent, out);
        return no_memory ? -1 : 0;
    }
    for (unsigned c = 0; c < t->columns; c++)
        at_least(&margin, strlen(table_cell(t, c)));
    for (size_t row = t->no_heading ? 0 : 1; row < rows; row++)
        no_memory |= print_list(t, row, margin, indent, out);
    return no_memory ? -1 : 0;
}

void table_deinit(struct text_table *t)
{
    mem_free(t->start);
    text_deinit(&t->pool);
    memset(t, 0, sizeof(*t));
}
