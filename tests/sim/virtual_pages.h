/* PageRank for the cluster in virtual time: rows of one f64 (8 bytes), a graph
 * of communities whose pages have numbers that say nothing. A worker has the
 * pages of some communities: in a clock it reads each and adds to those that it
 * links to the change of what it gives them. Made of a seed. */
#ifndef TESTS_SIM_VIRTUAL_PAGES_H
#define TESTS_SIM_VIRTUAL_PAGES_H

#include "tests/sim/virtual.h"

struct virtual_pages_options {
    uint32_t pages, links; /* links: of each page */
    uint32_t workers;      /* over all nodes */
    double outside;        /* part of the links that leave the worker's pages */
    uint64_t seed;
};

struct virtual_pages;

struct virtual_pages *
virtual_pages_new(const struct virtual_pages_options *opt);
void virtual_pages_free(struct virtual_pages *p);

/* As virtual_mf_options. */
void virtual_pages_options(struct virtual_pages *p,
                           struct virtual_options *out);
void virtual_pages_init(struct virtual_pages *p, struct virtual *v);

#endif
