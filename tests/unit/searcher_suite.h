/* The conformance suite that every searcher passes, those from plug-ins too.
 */
#ifndef TESTS_UNIT_SEARCHER_SUITE_H
#define TESTS_UNIT_SEARCHER_SUITE_H

#include "searchers/searcher.h"

struct searcher_suite {
    const struct searcher_ops *ops;
    const char *name;     /* of the group */
    const char *settings; /* JSON; NULL: the defaults */
    unsigned few; /* trials of a search that is repeated for each allocation
                   * that may fail */
};

/* Runs the whole suite as one cmocka group; returns the number of tests failed.
 * @suite must stay. */
int searcher_suite_run(const struct searcher_suite *suite);

/* searcher_ask for tests: waits while the answer is "not now". */
enum err searcher_suite_ask(struct searcher *s, const struct setting running[],
                            size_t n, const struct setting *incumbent,
                            struct setting *out, struct fault *f);

#endif
