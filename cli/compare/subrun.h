/* A child that runs this program with other arguments, its stdout caught.
 *
 * It has a process group of its own, so that Ctrl-C reaches it only through
 * subrun_wait and counts once; it is told to end (SIGTERM) when this process
 * dies. One owner thread.
 */
#ifndef CLI_SUBRUN_H
#define CLI_SUBRUN_H

#include "base/fault.h"
#include "base/text.h"

#include <sys/types.h>

enum { SUBRUN_OUTPUT_MAX = 4 << 20 }; /* bytes kept; what follows is dropped */

struct subrun {
    pid_t pid;
    int out_fd;
};

/* Starts /proc/self/exe with @argv (NULL at the end; borrowed for the call).
 * stdin is /dev/null, stderr is ours. Errors: ERR_IO. */
enum err subrun_start(struct subrun *c, char *const argv[], struct fault *f);

/* Reads @out until the child's end, and passes on the signals that come in at
 * @signal_fd (cli/basics/signals.h). Returns its wait status, @signal: the
 * first one passed on; unchanged if none came. */
int subrun_wait(struct subrun *c, int signal_fd, struct text *out, int *signal);

#endif
