/* A registry made up for the tests of the configuration, and the fuzz target.
 */
#ifndef TESTS_UNIT_CONFIG_FIXTURE_H
#define TESTS_UNIT_CONFIG_FIXTURE_H

#include "base/registry.h"

/* Apps `toy` (clocks are batches; its own tunable `width`) and `parts` (no
 * batches), rules `sgd`, `adagrad`, models `bsp`, `ssp`, searchers `random`,
 * `grid`, strategies `mltuner`, `fixed`. */
void config_fixture_fill(struct registry *r);

#endif
