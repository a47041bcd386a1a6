/* must(CONDITION): a fuzz target's check; what does not hold is named before
 * the program aborts.
 */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define must(condition) must_hold((condition), #condition, __FILE__, __LINE__)

static inline void must_hold(bool holds, const char *what, const char *file,
                             int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

#endif
