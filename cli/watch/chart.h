/* A curve on a canvas: dots of Braille characters, 2 x 4 a cell, or where those
 * cannot be shown of ASCII, 1 x 2 a cell. Pure. */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include "cli/watch/canvas.h"

/* Points of one colour by x; neighbours of one branch are joined. */
struct chart_series {
    size_t n;
    const double *x, *y;    /* [n]; y not finite: a gap */
    const unsigned *branch; /* [n] */
};

struct chart {
    double x_from, x_to; /* of the plot's edges */
    struct chart_series line, faint;
    const char *x_unit; /* "clock" */
};

/* Columns and rows besides the plot: the axis on the left, the one below. */
enum { CHART_LEFT = 10, CHART_BELOW = 1 };

/* Dots in a row of a plot that is drawn @width columns wide. */
int chart_dots(int width, bool ascii);

/* Draws into rows @y .. @bottom - 1 and columns @x .. @end - 1. The scale is
 * that of the line (of the faint points where it has none), logarithmic where
 * all of it is positive and spans more than a factor of 20; returns whether it
 * is. What lies outside is not drawn. */
bool chart_draw(struct canvas *c, int x, int y, int end, int bottom,
                const struct chart *chart);

#endif
