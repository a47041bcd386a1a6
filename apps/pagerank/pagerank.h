/* pagerank: the ranks of a graph's nodes, by power iteration, to a tolerance.
 *
 * A clock, and an epoch, is one step:
 *
 *     now[v] = (1 - d) / N + d (sum of before[u] / out[u] over u -> v
 *                               + sum of before[u] over dangling u / N)
 *
 * (Page et al. 1999; nodes without edges away point to all, Langville and Meyer
 * 2004, section 4.2). The shared table
 * `ranks` has a row a node; each worker computes those of the nodes that it
 * owns and adds by how much they changed, so that it goes on under any
 * consistency model. The loss is the sum of absolute changes of the step; the
 * run ends where it is at most `tolerance`.
 */
#ifndef APPS_PAGERANK_H
#define APPS_PAGERANK_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_pagerank;

#endif
