/* The parts of the picture of `mltune watch` (cli/watch/picture.h) below its
 * figures, each drawn into rows @y .. @bottom - 1 and columns @x .. @end - 1.
 */
#ifndef CLI_PICTURE_PANELS_H
#define CLI_PICTURE_PANELS_H

#include "cli/watch/picture.h"

/* Loss over clocks: the surviving lineage, and faint what was tried. */
void part_chart(const struct picture *p, struct canvas *c, int x, int y,
                int end, int bottom);

/* The search under way or the last one, and its trials: those that run, then
 * the fastest. */
void part_search(const struct picture *p, struct canvas *c, int x, int y,
                 int end, int bottom);

/* Trials of the newest search. */
int part_trials_shown(const struct picture *p);

/* A row a node, for runs of several. */
void part_nodes(const struct picture *p, struct canvas *c, int x, int y,
                int end, int bottom);

/* Why each thing was done, the newest first. */
void part_feed(const struct picture *p, struct canvas *c, int x, int y, int end,
               int bottom);

#endif
