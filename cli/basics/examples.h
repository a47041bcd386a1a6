/* Command lines that people copy: each verb's examples, for its help and its
 * page of the manual.
 */
#ifndef CLI_EXAMPLES_H
#define CLI_EXAMPLES_H

#include <stddef.h>

struct example {
    const char *verb;
    const char *line; /* for a shell, from "mltune VERB" on */
    const char *what; /* it does; "" where the line says it */
};

/* Example number @i of the verb; NULL past the last. */
const struct example *example_of(const char *verb, size_t i);

#endif
