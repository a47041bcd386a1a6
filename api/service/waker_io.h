/* The waker: reads back runs that rest, for the server, in a thread of its own.
 *
 * A run of a week takes some 200 ms to read, in which nobody else would be
 * answered. Who asks for such a run gives its id and gets a ticket; the thread
 * makes one run after the other whole (view_wake_run). Any thread may call;
 * a lock of its own, which is not held while a run is read.
 */
#ifndef API_WAKER_IO_H
#define API_WAKER_IO_H

#include "api/view/view.h"
#include "base/fault.h"

enum { WAKER_MAX = 64 }; /* runs that wait, or whose outcome is kept */

struct waker;

/* @view and @wake_fd, an eventfd that is written whenever a run was read, are
 * borrowed until waker_stop. Errors: ERR_NOMEM, ERR_IO (no thread). */
enum err waker_start(struct view *view, int wake_fd, struct waker **out,
                     struct fault *f);

/* Ends the thread after the run that is being read. Accepts NULL. */
void waker_stop(struct waker *w);

/* Run @id is to be read: the ticket; 0: WAKER_MAX others wait. */
uint64_t waker_ask(struct waker *w, const char *id);

/* What came of @ticket. Errors: ERR_AGAIN it waits still; those of
 * view_wake_run. One that is long over is ERR_OK. */
enum err waker_collect(struct waker *w, uint64_t ticket, struct fault *f);

#endif
