/* Exit codes of the mltune program; part of its contract. */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

#include "base/err.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_RUN_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_SERVER = 69,
    EXIT_IO = 74,
    EXIT_INTERRUPTED = 75, /* can be resumed */
    EXIT_CONFIG = 78,
    EXIT_SIGNAL = 128 /* plus the signal's number, after a clean snapshot */
};

/* The code for an error that ends a verb before its work began. */
static inline int exit_code_of(enum err err)
{
    switch (err) {
    case ERR_OK:
        return EXIT_DONE;
    case ERR_IO:
    case ERR_NOENT:
        return EXIT_IO;
    case ERR_INVAL:
    case ERR_FORMAT:
    case ERR_UNSUPPORTED:
    case ERR_VERSION:
        return EXIT_CONFIG;
    default:
        return EXIT_RUN_FAILED;
    }
}

/* The code of a run whose training system could not load something. That is for
 * the user to mend: the data, the settings, or the memory that the job needs.
 */
static inline int exit_code_of_load(enum err err)
{
    switch (err) {
    case ERR_OK:
        return EXIT_DONE;
    case ERR_IO:
        return EXIT_IO;
    case ERR_INVAL:
    case ERR_NOENT:
    case ERR_FORMAT:
    case ERR_LIMIT:
    case ERR_VERSION:
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    default:
        return EXIT_RUN_FAILED;
    }
}

#endif
