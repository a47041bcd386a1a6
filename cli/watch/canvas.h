/* A canvas: a screen as data, before any terminal.
 *
 * Rows and columns of cells, each a character and a style. What is put outside
 * is cut. Text that comes from a run or a server is harmless on it: control
 * characters, bytes that are not UTF-8 and characters that have no width or
 * turn the direction of writing never reach a cell. Pure, but for the locale:
 * unless it is ASCII, LC_CTYPE must be one of UTF-8.
 */
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

enum { CANVAS_WIDTH_MAX = 500, CANVAS_HEIGHT_MAX = 200 };

enum canvas_style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_FAINT,
    STYLE_TITLE,  /* reversed */
    STYLE_ACCENT, /* what matters: the line that survived */
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_COUNT
};

struct canvas_cell {
    char text[5]; /* one character; "": the right half of a wide one */
    unsigned char style;
};

struct canvas {
    int width, height;
    bool ascii;               /* other characters become '?' */
    struct canvas_cell *cell; /* owned: [height][width] */
};

/* Empty, of @width x @height cut to the limits, at least 1 x 1. Errors:
 * ERR_NOMEM. */
enum err canvas_init(struct canvas *c, int width, int height, bool ascii);
void canvas_deinit(struct canvas *c);

/* Puts @text from (@x, @y) to the right, as far as column @end (not included;
 * what does not fit ends in an ellipsis). Returns the column after it. */
int canvas_put(struct canvas *c, int x, int y, int end, enum canvas_style style,
               const char *text);
int canvas_printf(struct canvas *c, int x, int y, int end,
                  enum canvas_style style, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* Puts @text in lines of at most @end - @x columns, broken at spaces, from row
 * @y to before row @bottom (the last one ends in an ellipsis where there is
 * more). Returns the row after the last one. */
int canvas_wrap(struct canvas *c, int x, int y, int end, int bottom,
                enum canvas_style style, const char *text);

/* Columns that @text takes here. */
int canvas_width_of(const struct canvas *c, const char *text);

/* Fills columns @x .. @end - 1 of row @y with spaces in @style. */
void canvas_bar(struct canvas *c, int x, int y, int end,
                enum canvas_style style);

/* Appends row @y as a terminal takes it (ECMA-48), blanks at its end left out;
 * without @color only bold, faint and reversed are used, without @styles
 * nothing but text. Returns the columns that it takes. */
int canvas_row(const struct canvas *c, int y, bool styles, bool color,
               struct text *out);

/* @text for a line of a terminal, appended to @out: as on a canvas, but not
 * cut. */
void canvas_harmless(const char *text, bool ascii, struct text *out);

#endif
