/* The terminal as a whole screen, and given back as it was.
 *
 * Its other screen is used, where there is one, without a cursor; keys come one
 * by one and are not shown. Whatever ends the program (a signal, exit, abort, a
 * fault) gives it back; only SIGKILL cannot be helped. One at a time.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/fault.h"
#include "cli/watch/canvas.h"

#include <signal.h>

struct terminal {
    int fd;        /* its descriptor */
    int signal_fd; /* to be polled: terminal_changed has something to say */
    bool color;
    bool started, lost; /* lost: it could not be taken again */
    sigset_t mask;      /* of signals, to be given back, too */
    struct text shown[CANVAS_HEIGHT_MAX]; /* owned: the rows as they are */
    int width, height;                    /* of what is shown; 0: nothing is */
};

/* Takes the terminal @fd over. Call it before any thread starts. Errors:
 * ERR_IO; then there is nothing to stop. */
enum err terminal_start(struct terminal *t, int fd, bool color,
                        struct fault *f);
/* Gives it back. Accepts one that is zeroed. */
void terminal_stop(struct terminal *t);

/* Columns and rows as they are now; 80 x 24 where it does not say. */
void terminal_size(const struct terminal *t, int *width, int *height);

/* Reads what signal_fd has: the size has changed, or the program was stopped
 * (Ctrl-Z) and goes on. True: the picture is to be drawn anew. */
bool terminal_changed(struct terminal *t);

/* Shows @c; only rows that differ are written. Errors: ERR_IO (the terminal is
 * gone), ERR_NOMEM. */
enum err terminal_show(struct terminal *t, const struct canvas *c);

/* Whether the locale's characters are UTF-8. Calls setlocale. */
bool terminal_is_utf8(void);

#endif
