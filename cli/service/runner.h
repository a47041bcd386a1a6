/* The process of one run that a service looks after: `mltune resume RUN`, which
 * also begins one that has not begun.
 *
 * It has a process group of its own and outlives the service that started it:
 * one that is killed takes no run with it, and the next one finds them by the
 * locks of their folders. One owner thread.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* All borrowed for the call. */
struct runner_options {
    const char *state, *run;
    const char *log_path; /* gets what it says, at the end */
    const char *token;    /* for its environment; NULL: it reads the file */
};

/* Starts it. Errors: ERR_IO, ERR_NOMEM. */
enum err runner_start(const struct runner_options *o, pid_t *out,
                      struct fault *f);

/* True when child @pid has ended, and with it all of its group: *@status as
 * waitpid has it. */
bool runner_ended(pid_t pid, int *status);

/* "ended with exit code 3", "was killed by SIGKILL". */
void runner_verdict(int status, char *out, size_t size);

/* The last line of @path that says something; "" where there is none. */
void runner_last_line(const char *path, char *out, size_t size);

#endif
