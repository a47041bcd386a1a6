#include "cli/watch/chart.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_FROM_FACTOR = 20 };

/* Dots of a plot, those of the line apart from the faint ones. */
struct dots {
    int width, height;           /* in cells */
    int per_x, per_y;            /* dots a cell */
    unsigned char *line, *faint; /* owned: a bit a dot, [height][width] */
};

struct scale {
    double low, high; /* of the axis, after the logarithm */
    bool logarithmic;
};

int chart_dots(int width, bool ascii)
{
    int plot = width - CHART_LEFT;

    return plot < 1 ? 1 : ascii ? plot : 2 * plot;
}

/* ---- the scale ----------------------------------------------------------- */

static void extend(const struct chart_series *s, double *low, double *high)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->y[i]))
            continue;
        *low = fmin(*low, s->y[i]);
        *high = fmax(*high, s->y[i]);
    }
}

static struct scale find_scale(const struct chart *chart)
{
    struct scale s = {.low = INFINITY, .high = -INFINITY};

    extend(&chart->line, &s.low, &s.high);
    if (s.low > s.high)
        extend(&chart->faint, &s.low, &s.high);
    if (s.low > s.high)
        s.low = s.high = 0;
    s.logarithmic = s.low > 0 && s.high / s.low > LOG_FROM_FACTOR;
    if (s.logarithmic) {
        s.low = log(s.low);
        s.high = log(s.high);
    }
    if (s.low == s.high) {
        double room = s.low == 0 ? 1 : fabs(s.low) * 0.1;

        s.low -= room;
        s.high += room;
    }
    return s;
}

/* ---- dots ---------------------------------------------------------------- */

static void put_dot(const struct dots *d, unsigned char *to, int x, int y)
{
    /* In ASCII only the first column's upper two are used.
     * Unicode's order of the dots of a Braille pattern: 1-2-3-7, 4-5-6-8. */
    static const unsigned char bit[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int column = x / d->per_x, row = y / d->per_y;

    if (x < 0 || y < 0 || column >= d->width || row >= d->height)
        return;
    to[row * d->width + column] |= bit[y % d->per_y][x % d->per_x];
}

struct chart_place {
    double x, y; /* in dots, from above */
};

static struct chart_place place_of(const struct dots *d,
                                   const struct chart *chart,
                                   const struct scale *s, double x, double y)
{
    double across = d->width * d->per_x - 1, up = d->height * d->per_y - 1;
    double share = (x - chart->x_from) / (chart->x_to - chart->x_from);

    if (s->logarithmic)
        y = y > 0 ? log(y) : -INFINITY;
    return (struct chart_place){share * across,
                                up - (y - s->low) / (s->high - s->low) * up};
}

/* Dots from @a to @b, each step at most one dot long. What is far outside is
 * cut first, so that there are few. */
static void put_line(const struct dots *d, unsigned char *to,
                     struct chart_place a, struct chart_place b)
{
    double most = 4.0 * (d->width * d->per_x + d->height * d->per_y), longer;
    int steps;

    if (!isfinite(a.y) || !isfinite(b.y) || !isfinite(a.x) || !isfinite(b.x))
        return;
    a.y = fmax(fmin(a.y, most), -most);
    b.y = fmax(fmin(b.y, most), -most);
    longer = ceil(fmax(fabs(b.x - a.x), fabs(b.y - a.y)));
    steps = (int)fmin(fmax(longer, 1), 4 * most);
    for (int i = 0; i <= steps; i++)
        put_dot(d, to, (int)lround(a.x + (b.x - a.x) * i / steps),
                (int)lround(a.y + (b.y - a.y) * i / steps));
}

static void put_series(const struct dots *d, unsigned char *to,
                       const struct chart *chart, const struct scale *scale,
                       const struct chart_series *s, bool join)
{
    struct chart_place last = {NAN, NAN};

    for (size_t i = 0; i < s->n; i++) {
        struct chart_place at = {NAN, NAN};

        if (isfinite(s->y[i]))
            at = place_of(d, chart, scale, s->x[i], s->y[i]);
        if (i > 0 && (join || s->branch[i] == s->branch[i - 1]) &&
            isfinite(last.y))
            put_line(d, to, last, at);
        else
            put_line(d, to, at, at);
        last = at;
    }
}

/* ---- on the canvas ------------------------------------------------------- */

static void put_cell(struct canvas *c, int x, int y, enum canvas_style style,
                     unsigned char bits)
{
    static const char *const two[] = {" ", "'", ".", ":"};
    char text[5] = {0};

    text_utf8_write(0x2800u + bits, text); /* the braille patterns */
    canvas_put(c, x, y, x + 1, style, c->ascii ? two[bits & 3] : text);
}

static void put_plot(struct canvas *c, int x, int y, const struct dots *d)
{
    for (int row = 0; row < d->height; row++) {
        for (int column = 0; column < d->width; column++) {
            unsigned char line = d->line[row * d->width + column];
            unsigned char faint = d->faint[row * d->width + column];

            if (line)
                put_cell(c, x + column, y + row, STYLE_ACCENT, line);
            else if (faint)
                put_cell(c, x + column, y + row, STYLE_FAINT, faint);
        }
    }
}

static void put_label(struct canvas *c, int x, int y, const struct scale *s,
                      double share)
{
    double value = s->low + (s->high - s->low) * share;
    char text[32];

    if (s->logarithmic)
        value = exp(value);
    else if (fabs(value) < (s->high - s->low) * 1e-9)
        value = 0; /* of an axis through zero: what rounding has left of it */
    snprintf(text, sizeof(text), "%.4g", value);
    canvas_printf(c, x, y, x + CHART_LEFT - 1, STYLE_FAINT, "%*s",
                  CHART_LEFT - 2, text);
}

static void put_axes(struct canvas *c, int x, int y, int end, int bottom,
                     const struct chart *chart, const struct scale *s)
{
    int rows = bottom - y - CHART_BELOW, left = x + CHART_LEFT;
    int middle = rows / 2;
    char to[64];

    for (int row = 0; row < rows; row++)
        canvas_put(c, left - 1, y + row, left, STYLE_FAINT,
                   c->ascii ? "|" : "\u2502");
    put_label(c, x, y, s, 1);
    if (rows >= 5)
        put_label(c, x, y + middle, s, 1 - (double)middle / (rows - 1));
    put_label(c, x, bottom - 1 - CHART_BELOW, s, 0);
    if (isnan(chart->x_from) || isnan(chart->x_to))
        return;
    canvas_printf(c, left, bottom - 1, end, STYLE_FAINT, "%.0f", chart->x_from);
    snprintf(to, sizeof(to), "%s %.0f", chart->x_unit, chart->x_to);
    if (end - (int)strlen(to) > left + 12)
        canvas_put(c, end - (int)strlen(to), bottom - 1, end, STYLE_FAINT, to);
}

bool chart_draw(struct canvas *c, int x, int y, int end, int bottom,
                const struct chart *chart)
{
    struct dots d = {.width = end - x - CHART_LEFT,
                     .height = bottom - y - CHART_BELOW,
                     .per_x = c->ascii ? 1 : 2,
                     .per_y = c->ascii ? 2 : 4};
    struct scale s = find_scale(chart);

    assert(chart);
    assert(c->cell);
    if (d.width < 2 || d.height < 2)
        return false;
    d.line = mem_calloc((size_t)d.width * (size_t)d.height, 1);
    d.faint = mem_calloc((size_t)d.width * (size_t)d.height, 1);
    if (d.line && d.faint && chart->x_to > chart->x_from) {
        put_series(&d, d.faint, chart, &s, &chart->faint, false);
        put_series(&d, d.line, chart, &s, &chart->line, true);
        put_plot(c, x + CHART_LEFT, y, &d);
    }
    put_axes(c, x, y, end, bottom, chart, &s);
    mem_free(d.line);
    mem_free(d.faint);
    return s.logarithmic;
}
