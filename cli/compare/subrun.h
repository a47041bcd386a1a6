/* A child that runs this program with other arguments, its stdout caught.
 *
 * Ctrl-C reaches its process group only through subrun_wait and counts once; it
 * is told to end (SIGTERM) when this process dies. One owner thread.
 */
#ifndef CLI_SUBRUN_H
#define CLI_SUBRUN_H

#include "base/fault.h"
#include "base/subprocess_io.h"
#include "base/text.h"

enum { SUBRUN_OUTPUT_MAX = 4 << 20 }; /* bytes kept; what follows is dropped */

struct subrun {
    struct subprocess process;
    int out_fd;
};

/* Starts /proc/self/exe with @argv (NULL at the end; borrowed for the call).
 * stdin is /dev/null, stderr is ours. Errors: those of subprocess_start. */
enum err subrun_start(struct subrun *c, char *const argv[], struct fault *f);

/* Reads @out until the child's end, and passes on the signals that come in at
 * @signal_fd (cli/basics/signals.h). Returns its exit code, or minus the signal
 * that killed it; @signal: the first one passed on; unchanged if none came. A
 * child that has not ended DEADLINE_STOP_RUN after that is killed. */
int subrun_wait(struct subrun *c, int signal_fd, struct text *out, int *signal);

#endif
