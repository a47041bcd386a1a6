/* The mailbox: how other threads give a run commands.
 *
 * Bounded. A thread posts a request and gets a ticket; the control loop, which
 * waits on mailbox_fd among others, takes it, steps the tuner and answers; the
 * thread is told by its own eventfd and collects. Nobody ever blocks. A key
 * that comes again with the same request gets the answer of the first time,
 * unless that was to try again (ERR_AGAIN, ERR_LIMIT, ERR_NOMEM, ERR_PROTO).
 * Thread-safe: all under one lock, for no longer than a copy.
 */
#ifndef TUNER_MAILBOX_IO_H
#define TUNER_MAILBOX_IO_H

#include "tuner/board/tuner.h"

enum {
    MAILBOX_SLOTS = 16, /* requests at a time; more are refused */
    MAILBOX_READS = 8,  /* of these, to read rows */
    MAILBOX_ROWS = 12,  /* to read or add to them: others find a place */
    MAILBOX_KEY_MAX = COMMAND_KEY_MAX,
    MAILBOX_KEYS = 64 /* latest answers that are remembered */
};

struct mailbox;

struct mailbox_request {
    enum command_id command;
    struct tuner_limits limits;    /* of LIMITS; else zero */
    struct tuner_fork fork;        /* of FORK, PROMOTE, FREE; else zero */
    struct tuner_suggest suggest;  /* of SUGGEST; else zero */
    struct tuner_rows rows;        /* of READ, ADD; else zero. Its `add`: */
    double *add;                   /* owned: [rows.values] of ADD, else NULL */
    uint64_t add_hash;             /* the mailbox's */
    char key[MAILBOX_KEY_MAX + 1]; /* "" none */
};

/* Releases what it owns. */
void mailbox_request_deinit(struct mailbox_request *r);

typedef uint64_t mailbox_ticket; /* 0: none */

/* Errors: ERR_NOMEM, ERR_IO. */
enum err mailbox_new(struct mailbox **out);
/* No ticket may be out. Accepts NULL. */
void mailbox_free(struct mailbox *m);

/* ---- who asks ------------------------------------------------------------ */

/* Posts @r (what it owns is transferred on success). @wake_fd: an eventfd that
 * is written when the answer is there; it must stay open until the ticket is
 * collected or forgotten. Errors: ERR_LIMIT (MAILBOX_SLOTS, MAILBOX_READS or
 * MAILBOX_ROWS are in use), ERR_EXIST (its key was used for another request),
 * ERR_BUSY (its key's first request is not answered yet). */
enum err mailbox_post(struct mailbox *m, struct mailbox_request *r, int wake_fd,
                      mailbox_ticket *out);

/* The answer of @ticket (transferred), which is then no more. Errors: ERR_AGAIN
 * not yet. */
enum err mailbox_collect(struct mailbox *m, mailbox_ticket ticket,
                         struct tuner_answer *out);

/* Nobody waits for it any more; it is carried out all the same. */
void mailbox_forget(struct mailbox *m, mailbox_ticket ticket);

/* ---- the control loop ---------------------------------------------------- */

/* Readable while a request waits. */
int mailbox_fd(const struct mailbox *m);

/* The oldest request that waits (transferred); false: none. */
bool mailbox_take(struct mailbox *m, struct mailbox_request *out,
                  mailbox_ticket *ticket);

/* What @answer owns is transferred. */
void mailbox_answer(struct mailbox *m, mailbox_ticket ticket,
                    struct tuner_answer *answer);

/* What was taken and is not answered yet never will be: ERR_AGAIN, with @text.
 */
void mailbox_abandon(struct mailbox *m, const char *text);

/* The run is over: what waits, and all that comes later, is answered with
 * ERR_CANCELED. */
void mailbox_close(struct mailbox *m);

#endif
