/* The seat of a service in its state folder: at most one has it, and what is in
 * the folder while it lives, by which others find it (cli/state/serve.h).
 *
 * A service that was started to be looked at gives its seat to one that wants
 * to train what waits. One owner thread but for seat_page.
 */
#ifndef CLI_SEAT_H
#define CLI_SEAT_H

#include "base/fault.h"
#include "base/file_io.h"

#include <stdbool.h>

struct seat {
    char state[FILE_PATH_MAX];    /* absolute */
    char url_path[FILE_PATH_MAX]; /* "": it is not taken */
    int lock_fd;                  /* -1: the same */
};

/* Takes the seat of the folder @state, which is there. @gives_way: it is left
 * to the next one that asks and does not give way itself; that one waits until
 * this has ended, at most until @signal_fd is readable. Errors: ERR_BUSY a
 * service has it and keeps it; ERR_IO. seat_leave is due after one, too. */
enum err seat_take(struct seat *seat, const char *state, bool gives_way,
                   int signal_fd, struct fault *f);

/* Says where it is, as address_write does. */
enum err seat_say(const struct seat *seat, const char *url, bool socket,
                  struct fault *f);

/* The page's next one-time address is "URL enter?code=" @code; "": there is
 * none. For whoever may read the state folder. Any one thread. */
void seat_page(const struct seat *seat, const char *code);

/* Takes all that out of the folder again. Accepts one that was not taken. */
void seat_leave(struct seat *seat);

#endif
