/* The plan of a run, for `mltune run --dry-run`. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "cli/config/config.h"

#include <stdbool.h>

/* Prints on stdout what a run of @c would do: as text, or (@json) the
 * configuration in effect as one JSON object. Returns the exit code. */
int plan_print(const struct run_config *c, bool json);

#endif
