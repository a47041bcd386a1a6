/* Signals as a descriptor, for programs with a loop that waits anyway. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "base/fault.h"

/* Blocks SIGINT, SIGTERM and (unless it is ignored, as under nohup) SIGHUP in
 * this thread and all that it starts later, so call it before any thread; from
 * then on they are read from *@fd (signalfd). Writes to closed pipes and to
 * files over a limit become errors instead of deaths. Errors: ERR_IO. */
enum err signals_open(int *fd, struct fault *f);

/* SIGUSR1 and SIGXCPU are blocked and read from @fd, too: with them a scheduler
 * warns a job that its time is nearly over. Errors: ERR_IO. */
enum err signals_hear_warnings(int fd, struct fault *f);

/* Closes @fd; -1 is allowed. The signals stay blocked: one that comes while the
 * program is ending anyway shall not change its exit code. */
void signals_close(int fd);

/* stdin, stdout and stderr are open afterwards, at least on /dev/null, so that
 * no file of ours gets one of their numbers. */
void signals_guard_stdio(void);

/* Ends of children are told to us, whatever whoever started us does with the
 * ends of its own. */
void signals_hear_children(void);

#endif
