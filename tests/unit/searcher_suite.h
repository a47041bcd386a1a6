/* The conformance suite that every searcher passes, those from plug-ins too.
 */
#ifndef TESTS_UNIT_SEARCHER_SUITE_H
#define TESTS_UNIT_SEARCHER_SUITE_H

#include "searchers/searcher.h"

/* Runs the whole suite on @ops with its default settings as one cmocka group
 * named after it; returns the number of tests failed. */
int searcher_suite_run(const struct searcher_ops *ops);

#endif
