/* Registry of all that this program has built in. */
#ifndef CLI_REGISTRY_H
#define CLI_REGISTRY_H

#include "base/json/registry.h"

/* Registers every app, update rule, consistency model, searcher and strategy.
 * Errors: those of registry_add; a built-in entry that is malformed is a
 * programmer's error, found by the registry's test. */
enum err cli_registry_fill(struct registry *r, struct fault *f);

/* Registry filled once, for the life of the program; ends it where that fails.
 * To be called by one thread first. */
const struct registry *cli_registry(void);

#endif
