/* The examples of docs/examples, which are in the program: a person starts from
 * one of them. */
#ifndef CLI_CONFIG_EXAMPLES_H
#define CLI_CONFIG_EXAMPLES_H

#include "base/err.h"

#include <jansson.h>

/* Sets the schema's "examples", an array of configurations. Errors: ERR_NOMEM.
 */
enum err config_examples_set(json_t *schema);

#endif
