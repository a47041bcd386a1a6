/* A child process that answers lines: its start, its three streams without
 * blocking, its end.
 *
 * Its group dies with it (base/subprocess_io.h), and it with the thread that
 * started it. One owner thread.
 */
#ifndef SEARCHERS_CHILD_IO_H
#define SEARCHERS_CHILD_IO_H

#include "base/clock_io.h"
#include "base/fault.h"
#include "base/subprocess_io.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_WORDS_MAX = 160, CHILD_ARGS_MAX = 64 };

struct child {
    struct subprocess process;
    int in_fd;  /* a socket: a write to one that died is an error, no signal */
    int out_fd; /* what it answers; -1: it has closed it */
    int err_fd; /* what it says besides */
    char *pending; /* owned: not taken by in_fd yet, [pending_len] */
    size_t pending_len, pending_capacity;
    char *got; /* owned: bytes of the line that is not complete */
    size_t got_len, got_max;
    size_t taken; /* bytes of `got` that child_line has handed out */
    char words[CHILD_WORDS_MAX]; /* its last line on stderr */
    size_t words_len;
    bool words_end;
};

/* Starts @path with @argv (NULL-terminated), @folder ("": this one) as its
 * working folder. Lines of @line_max bytes at most are taken. Errors: ERR_IO,
 * ERR_NOENT, ERR_NOMEM. */
enum err child_start(struct child *c, const char *path, char *const argv[],
                     const char *folder, size_t line_max, struct fault *f);

/* Ends it: closes its input, waits up to @grace for it to go, then kills its
 * group. Accepts a zeroed one. */
void child_stop(struct child *c, time_ns grace);

/* Queues a copy of the line @text for it. Errors: ERR_NOMEM, ERR_LIMIT (there
 * are megabytes that it has not read). */
enum err child_send(struct child *c, const char *text);

/* The next line it has answered, without its end, in *@line (borrowed until the
 * next call): ERR_OK; ERR_AGAIN, none is there; ERR_LIMIT, a line is too long;
 * ERR_IO, there will be none any more. Writes what waits to be written. */
enum err child_line(struct child *c, const char **line, size_t *len);

/* Gives the line of @len bytes that child_line has just handed out back to it.
 */
void child_unread(struct child *c, size_t len);

/* Whether it has ended; it is reaped then. */
bool child_ended(struct child *c);

/* Waits up to @wait for something to read or write, or for its end after that
 * of its output. */
void child_wait(struct child *c, time_ns wait);

/* Verdict on its end: "ended with exit code 1", or that it closed its output
 * and did not. Ends it. */
void child_verdict(struct child *c, char *out, size_t size);

#endif
