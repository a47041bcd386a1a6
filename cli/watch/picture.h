/* Picture of `mltune watch`: a run as the HTTP interface describes it, drawn on
 * a canvas. Pure: the same answers and the same size make the same picture.
 *
 * Every part of the answers may be missing or of another type, as from another
 * version of a server; then its place stays empty.
 */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "cli/watch/canvas.h"

#include <jansson.h>

/* All borrowed; NULL: not there (yet). */
struct picture {
    const json_t *run;       /* /runs/ID */
    const json_t *searches;  /* its list, the newest first */
    const json_t *trials;    /* its list, the newest first */
    const json_t *schedule;  /* its list, the newest first */
    const json_t *curve;     /* /runs/ID/curve */
    const json_t *decisions; /* its list, the newest first */
    const json_t *nodes;     /* its list */
    const char *note;        /* about what it comes from; NULL: none */
    bool bad;                /* the note is trouble */
};

void picture_draw(const struct picture *p, struct canvas *c);

/* Whether the run that @run describes is over. */
bool picture_is_over(const json_t *run);

/* Spans to ask /curve for, so that a canvas of @width columns shows all dots
 * that it has. */
int picture_spans(int width, bool ascii);

/* At most how long the run still takes, seconds: what its limits leave, at the
 * pace of its training so far; NAN where no limit says. As the dashboard. */
double picture_time_left(const json_t *run);

#endif
