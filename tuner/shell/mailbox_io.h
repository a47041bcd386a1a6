/* The mailbox: the box (base/commands/box_io.h) in which a run's control loop
 * gets its commands.
 *
 * A key that comes again with the same request gets the answer of the first
 * time, unless that was to try again (ERR_AGAIN, ERR_LIMIT, ERR_NOMEM,
 * ERR_PROTO). An answer that is given again has no rows.
 */
#ifndef TUNER_MAILBOX_IO_H
#define TUNER_MAILBOX_IO_H

#include "base/commands/box_io.h"
#include "tuner/core/tuner.h"

enum {
    MAILBOX_SLOTS = 16, /* requests at a time; more are refused */
    MAILBOX_READS = 8,  /* of these, to read rows */
    MAILBOX_ROWS = 12,  /* to read or add to them: others find a place */
    MAILBOX_KEYS = 64   /* latest answers that are remembered */
};

struct mailbox;

struct mailbox_request {
    enum command_id command;
    union command_args args;
    uint64_t digest;               /* of them, where there is a key */
    char key[COMMAND_KEY_MAX + 1]; /* "" none */
};

/* Releases what it owns. */
void mailbox_request_deinit(struct mailbox_request *r);

typedef box_ticket mailbox_ticket; /* 0: none */

/* Errors: ERR_NOMEM, ERR_IO. */
enum err mailbox_new(struct mailbox **out);
/* No ticket may be out. Accepts NULL. */
void mailbox_free(struct mailbox *m);

/* ---- who asks ------------------------------------------------------------ */

/* Posts @r (what it owns is transferred on success; the rest stays), as
 * box_post. */
enum err mailbox_post(struct mailbox *m, struct mailbox_request *r, int wake_fd,
                      mailbox_ticket *out);

/* As box_collect, box_forget. */
enum err mailbox_collect(struct mailbox *m, mailbox_ticket ticket,
                         struct tuner_answer *out);
void mailbox_forget(struct mailbox *m, mailbox_ticket ticket);

/* ---- the control loop ---------------------------------------------------- */

/* As box_fd, box_take, box_answer; what @answer owns is transferred. */
int mailbox_fd(const struct mailbox *m);
bool mailbox_take(struct mailbox *m, struct mailbox_request *out,
                  mailbox_ticket *ticket);
void mailbox_answer(struct mailbox *m, mailbox_ticket ticket,
                    struct tuner_answer *answer);

/* Requests taken and not answered yet never will be: ERR_AGAIN, with @text.
 */
void mailbox_abandon(struct mailbox *m, const char *text);

/* The run is over: what waits, and all that comes later, is answered with
 * ERR_CANCELED. */
void mailbox_close(struct mailbox *m);

#endif
