/* The process of one run that a service looks after: `mltune resume RUN`, which
 * also begins one that has not begun.
 *
 * It outlives the service that started it: one that is killed takes no run with
 * it, and the next one finds them by the locks of their folders.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "base/fault.h"
#include "base/subprocess_io.h"

/* All borrowed for the call. */
struct runner_options {
    const char *state, *run;
    const char *log_path; /* gets what it says, at the end */
    bool other_data;      /* it goes on whatever the data are */
    const char *token;    /* for its environment; NULL: it reads the file */
};

/* Starts it. Errors: those of subprocess_start. */
enum err runner_start(const struct runner_options *o, struct subprocess *out,
                      struct fault *f);

#endif
