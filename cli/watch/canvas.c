#include "cli/watch/canvas.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* ---- characters ---------------------------------------------------------- */

struct canvas_glyph {
    char text[5];
    int width; /* 0: not shown; 1 or 2 columns */
};

/* Takes the next character of @at, which is not at its end; returns its bytes.
 * wcwidth knows no width of control characters and of what is not assigned;
 * that of characters which only change others (accents of their own, marks of
 * direction) is 0. */
static size_t take(const char *at, bool ascii, struct canvas_glyph *out)
{
    mbstate_t state;
    size_t n = 1;
    wchar_t w;

    *out = (struct canvas_glyph){"?", 1};
    if (text_utf8_begins(*at) == 1) {
        if (!text_is_control(at, 1))
            out->text[0] = *at;
        return 1;
    }
    if (ascii) {
        while (text_utf8_goes_on(at[n]))
            n++;
        return n;
    }
    memset(&state, 0, sizeof(state));
    n = mbrtowc(&w, at, strnlen(at, 4), &state);
    if (n == 0 || n > 4)
        return 1;
    out->width = wcwidth(w);
    if (out->width < 0)
        out->width = 1;
    else
        snprintf(out->text, sizeof(out->text), "%.*s", (int)n, at);
    return n;
}

int canvas_width_of(const struct canvas *c, const char *text)
{
    struct canvas_glyph g;
    int width = 0;

    assert(text);
    while (*text) {
        text += take(text, c->ascii, &g);
        width += g.width;
    }
    return width;
}

void canvas_harmless(const char *text, bool ascii, struct text *out)
{
    struct canvas_glyph g;

    assert(text);
    assert(out);
    while (*text) {
        text += take(text, ascii, &g);
        if (g.width > 0)
            text_puts(out, g.text);
    }
}

/* ---- cells --------------------------------------------------------------- */

enum err canvas_init(struct canvas *c, int width, int height, bool ascii)
{
    width = width < 1 ? 1 : width > CANVAS_WIDTH_MAX ? CANVAS_WIDTH_MAX : width;
    height = height < 1                   ? 1
             : height > CANVAS_HEIGHT_MAX ? CANVAS_HEIGHT_MAX
                                          : height;
    *c = (struct canvas){.width = width, .height = height, .ascii = ascii};
    c->cell = mem_calloc((size_t)width * (size_t)height, sizeof(*c->cell));
    if (!c->cell)
        return ERR_NOMEM;
    for (int y = 0; y < height; y++)
        canvas_bar(c, 0, y, width, STYLE_PLAIN);
    return ERR_OK;
}

void canvas_deinit(struct canvas *c)
{
    mem_free(c->cell);
    *c = (struct canvas){.cell = NULL};
}

static struct canvas_cell *cell_at(struct canvas *c, int x, int y)
{
    assert(x >= 0 && x < c->width && y >= 0 && y < c->height);
    return &c->cell[(size_t)y * (size_t)c->width + (size_t)x];
}

static void set(struct canvas *c, int x, int y, enum canvas_style style,
                const struct canvas_glyph *g)
{
    struct canvas_cell *cell = cell_at(c, x, y);

    memcpy(cell->text, g->text, sizeof(cell->text));
    cell->style = (unsigned char)style;
    if (g->width == 2) {
        cell = cell_at(c, x + 1, y);
        cell->text[0] = '\0';
        cell->style = (unsigned char)style;
    }
}

void canvas_bar(struct canvas *c, int x, int y, int end,
                enum canvas_style style)
{
    const struct canvas_glyph blank = {" ", 1};

    assert(c->cell);
    for (; y >= 0 && y < c->height && x < end && x < c->width; x++)
        set(c, x, y, style, &blank);
}

/* Puts @text[@len], which fits. */
static int put_fitting(struct canvas *c, int x, int y, enum canvas_style style,
                       const char *text, size_t len)
{
    const char *to = text + len;
    struct canvas_glyph g;

    while (text < to) {
        text += take(text, c->ascii, &g);
        if (g.width > 0)
            set(c, x, y, style, &g);
        x += g.width;
    }
    return x;
}

/* Bytes of @text that take at most @columns. */
static size_t fitting(const struct canvas *c, const char *text, int columns)
{
    size_t n = 0;
    struct canvas_glyph g;

    while (text[n]) {
        size_t len = take(text + n, c->ascii, &g);

        if (g.width > columns)
            break;
        columns -= g.width;
        n += len;
    }
    return n;
}

int canvas_put(struct canvas *c, int x, int y, int end, enum canvas_style style,
               const char *text)
{
    const char *more = c->ascii ? "..." : "\u2026";
    size_t n;

    assert(c->cell);
    assert(text);
    end = end < c->width ? end : c->width;
    if (y < 0 || y >= c->height || x < 0 || x >= end)
        return x;
    n = fitting(c, text, end - x);
    if (!text[n])
        return put_fitting(c, x, y, style, text, n);
    if (end - x <= (int)canvas_width_of(c, more))
        more = "";
    n = fitting(c, text, end - x - canvas_width_of(c, more));
    x = put_fitting(c, x, y, style, text, n);
    return put_fitting(c, x, y, style, more, strlen(more));
}

int canvas_printf(struct canvas *c, int x, int y, int end,
                  enum canvas_style style, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    assert(fmt);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return canvas_put(c, x, y, end, style, text);
}

int canvas_wrap(struct canvas *c, int x, int y, int end, int bottom,
                enum canvas_style style, const char *text)
{
    assert(c->cell);
    assert(text);
    end = end < c->width ? end : c->width;
    while (*text && y < bottom && x < end) {
        size_t n = fitting(c, text, end - x), cut = n;

        if (!text[n] || y + 1 == bottom) {
            canvas_put(c, x, y, end, style, text);
            return y + 1;
        }
        while (cut > 0 && text[cut] != ' ')
            cut--;
        if (cut == 0)
            cut = n > 0 ? n : 1;
        put_fitting(c, x, y++, style, text, n > 0 ? cut : 0);
        text += cut + strspn(text + cut, " ");
    }
    return y;
}

/* ---- for a terminal ------------------------------------------------------ */

/* Select graphic rendition; the second is without colours. */
static const char *const rendition[STYLE_COUNT][2] = {
    [STYLE_PLAIN] = {"0", "0"},       [STYLE_BOLD] = {"0;1", "0;1"},
    [STYLE_FAINT] = {"0;2", "0;2"},   [STYLE_TITLE] = {"0;7", "0;7"},
    [STYLE_ACCENT] = {"0;36", "0;1"}, [STYLE_GOOD] = {"0;32", "0"},
    [STYLE_WARN] = {"0;33", "0"},     [STYLE_BAD] = {"0;31", "0;1"},
};

static int used_of(const struct canvas *c, int y)
{
    const struct canvas_cell *row = &c->cell[(size_t)y * (size_t)c->width];
    int n = c->width;

    while (n > 0 && row[n - 1].style != STYLE_TITLE &&
           strcmp(row[n - 1].text, " ") == 0)
        n--;
    return n;
}

int canvas_row(const struct canvas *c, int y, bool styles, bool color,
               struct text *out)
{
    const struct canvas_cell *row;
    unsigned char style = STYLE_PLAIN;
    int n;

    assert(y >= 0 && y < c->height);
    row = &c->cell[(size_t)y * (size_t)c->width];
    n = used_of(c, y);
    for (int x = 0; x < n; x++) {
        if (styles && row[x].style != style) {
            style = row[x].style;
            text_printf(out, "\033[%sm", rendition[style][!color]);
        }
        text_puts(out, row[x].text);
    }
    if (style != STYLE_PLAIN)
        text_puts(out, "\033[0m");
    return n;
}
