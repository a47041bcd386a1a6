/* Signals as a descriptor, for programs with a loop that waits anyway. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "base/fault.h"

#include <stdbool.h>

#include <sys/types.h>

/* Blocks SIGINT, SIGTERM and (unless it is ignored, as under nohup) SIGHUP in
 * this thread and all that it starts later, so call it before any thread; from
 * then on they are read from *@fd (signalfd). Writes to closed pipes and to
 * files over a limit become errors instead of deaths. Errors: ERR_IO. */
enum err signals_open(int *fd, struct fault *f);

/* As signals_open, with a thread that ends the process (_exit, 128 + signal)
 * where the program does not: @ms after the first SIGTERM or SIGHUP, or
 * DEADLINE_STOP_AGAIN_MS after a second signal, whatever its other threads
 * wait for. @warnings: it also hears SIGUSR1 and SIGXCPU, with which a
 * scheduler warns a job that its time is nearly over, and which end nothing.
 * What the process started dies with it. *@fd is a pipe then, out of which a
 * signalfd's structs are read, of which only the number is set. To be closed by
 * signals_close before the process ends. At most one a process. */
enum err signals_open_guarded(int *fd, int ms, bool warnings, struct fault *f);

enum { SIGNALS_CHILDREN_MAX = 4096 };

/* Where the guard ends this process, it asks @pid to end with it (SIGTERM, and
 * SIGCONT, so that one that is stopped hears it): a process that would go on
 * without us. It is to be forgotten when it has ended. False: there are
 * SIGNALS_CHILDREN_MAX, there is no such process, or no descriptor for it. Both
 * are called by one thread. */
bool signals_remember_child(pid_t pid);
/* Accepts one that was not remembered. */
void signals_forget_child(pid_t pid);

/* Whether signal @number is such a warning. */
bool signals_warn(int number);

/* Closes @fd; -1 is allowed. The signals stay blocked: one that comes while the
 * program is ending anyway shall not change its exit code. So what is in stdout
 * leaves before, while the guard still watches: nothing may be written after.
 */
void signals_close(int fd);

/* stdin, stdout and stderr are open afterwards, at least on /dev/null, so that
 * no file of ours gets one of their numbers. */
void signals_guard_stdio(void);

/* Ends of children are told to us, whatever whoever started us does with the
 * ends of its own. */
void signals_hear_children(void);

#endif
