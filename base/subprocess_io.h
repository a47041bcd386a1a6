/* Subprocesses: programs that this one starts, watches and ends.
 *
 * A subprocess leads a process group of its own (Ctrl-C on the terminal is ours
 * to handle), which is killed when its end is noticed. It gets the three
 * standard files that it is given, no other file of ours, and no blocked
 * signal. A program that cannot be executed is an error of the start, not an
 * exit code. One owner thread.
 */
#ifndef BASE_SUBPROCESS_IO_H
#define BASE_SUBPROCESS_IO_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

enum {
    SUBPROCESS_NULL = -1,      /* in place of a file: /dev/null */
    SUBPROCESS_LACKS_MAX = 384 /* bytes of what a program lacks */
};

/* The way it takes signals that our own process ignores. */
enum subprocess_signals {
    SUBPROCESS_SIGNALS_KEPT,   /* it ignores them as well: nohup is respected */
    SUBPROCESS_SIGNALS_USUAL,  /* none is ignored, as a shell starts programs */
    SUBPROCESS_SIGNALS_ERRORS, /* as usual, but a write to a full disk or a
                                * closed pipe is an error and no death */
};

/* All borrowed for the call. */
struct subprocess_options {
    const char *path;   /* NULL: this very program */
    char *const *argv;  /* NULL at the end */
    const char *folder; /* where it works; NULL or "": where we do */
    const char *set;    /* "NAME=value" for its environment, or NULL */
    const char *unset;  /* a name that its environment lacks, or NULL */
    /* More of both, NULL at the end: "NAME=value", and names that it lacks; or
     * NULL. */
    char *const *also;
    int file[3]; /* its stdin, stdout, stderr; ours stay open */
    enum subprocess_signals signals;
    bool deaf;        /* it ignores SIGUSR1 and SIGXCPU, by which a scheduler
                       * warns all of a job: we act on them */
    int death_signal; /* it gets when the thread that starts it ends; 0: none */
    int nice;         /* added to ours; not allowed is no error */
    int oom_score;    /* 1..1000: the sooner the kernel kills it; 0: as ours */
};

struct subprocess {
    pid_t pid;  /* 0: not started */
    int end_fd; /* readable once it has ended; -1: not started, or reaped */
    bool ended; /* and reaped */
    int code;   /* ended: exit code, or minus the signal */
};

/* Starts one. Errors: ERR_NOENT no such program or folder, ERR_IO (not
 * executable, no process left, ...), ERR_NOMEM; then nothing runs, and @p is
 * zero but for end_fd. Blocks until the program is executed. */
enum err subprocess_start(struct subprocess *p,
                          const struct subprocess_options *o, struct fault *f);

/* Whether the program @path is a script whose interpreter cannot be executed;
 * into @out in words: "its first line names the interpreter /bin/none, ...".
 */
bool subprocess_lacks(const char *path, char out[SUBPROCESS_LACKS_MAX]);

/* Whether it has ended; it is reaped then, and what it may have left in its
 * group is killed. Does not block. */
bool subprocess_poll(struct subprocess *p);

/* As subprocess_poll, but waits up to @timeout_ms (< 0: any time) for the end,
 * and no longer once @hurry_fd (-1: none) is readable. */
bool subprocess_wait(struct subprocess *p, int timeout_ms, int hurry_fd);

/* Sends its group the signal @number; nothing once it was reaped. */
void subprocess_signal(const struct subprocess *p, int number);

/* Ends it: waits @grace_ms for it to go by itself, then asks (SIGTERM) and
 * waits as long again, then kills its group; @hurry_fd as above. Grace 0: kills
 * at once. One that is killed and does not end (DEADLINE_KILLED_MS), since a
 * disk hangs, is left to the system. Accepts a zeroed or ended one. */
void subprocess_stop(struct subprocess *p, int grace_ms, int hurry_fd);

/* The same for @n of them, each wait for all together: it takes no longer than
 * for one, however many hang. */
void subprocess_stop_all(struct subprocess *const p[], size_t n, int grace_ms,
                         int hurry_fd);

/* Lets it go on without us; @p is as one that was not started. Accepts a zeroed
 * one. */
void subprocess_forget(struct subprocess *p);

/* "ended with exit code 3", "was killed by SIGKILL". It has ended. */
void subprocess_verdict(const struct subprocess *p, char *out, size_t size);

/* The last whole lines of the file @path after its byte @from, at most @size -
 * 1 bytes; "" where there are none. */
void subprocess_last_words(const char *path, int64_t from, char *out,
                           size_t size);

/* The last line of @path that says something, fit for a line on a terminal; ""
 * where there is none. */
void subprocess_last_line(const char *path, char *out, size_t size);

/* Whether a process @pid, anybody's, runs: not one that has ended and waits for
 * its parent to look, as they do for ever on a machine without an init, nor a
 * thread. */
bool subprocess_runs(pid_t pid);

/* The file that the program @name is: itself where it has a slash, else the
 * first in PATH. False: there is none, or its path is longer than @size. */
bool subprocess_find(const char *name, char *out, size_t size);

#endif
