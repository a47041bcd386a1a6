/* A box: how threads give another thread commands, and get its answers.
 *
 * Bounded. A thread posts a request and gets a ticket. The owner of the box,
 * who waits on box_fd among others, takes the request and answers it, at once
 * or later. The thread is told by its own eventfd, and collects. Nobody ever
 * blocks. A run's mailbox (tuner/shell/mailbox_io.h) and a service's desk
 * (api/view/desk.h) are boxes; they say what requests and answers are.
 *
 * Requests and answers are structs that the box copies byte by byte: what they
 * own changes hands with them. A key that comes again with the same request
 * gets the answer of the first time, where the box has keys. Room for them is
 * taken when it is first needed, and kept.
 *
 * Thread-safe: all under one lock, for no longer than a copy. The functions of
 * box_options are called under it and must not use the box.
 */
#ifndef BASE_BOX_IO_H
#define BASE_BOX_IO_H

#include "base/commands/commands.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct box;
typedef uint64_t box_ticket; /* 0: none */

struct box_options {
    size_t request_size, answer_size;
    unsigned slots; /* requests at a time; more are refused */
    unsigned reads; /* of these, to read (COMMAND_READ, DATA, UPLOADED): others
                     * find a place */
    unsigned rows;  /* of these, COMMAND_READ and COMMAND_ADD together */
    void (*release_request)(void *request);
    void (*release_answer)(void *answer);
    /* Latest answers that are remembered by their key; 0: keys mean nothing,
     * and the following are NULL. */
    unsigned keys;
    /* Whether two requests with one key ask for the same. One of them may have
     * been released since. */
    bool (*same)(const void *a, const void *b);
    /* Copies what may be given again of @answer to @out, which owns nothing.
     * False: the same request may be carried out again. */
    bool (*keep)(const void *answer, void *out);
    /* Fills @out with the answer of a box that is closed. NULL: it never is. */
    void (*over)(void *out);
};

/* A box as @options (copied) say. Errors: ERR_NOMEM, ERR_IO. */
enum err box_new(const struct box_options *options, struct box **out);
/* Drops what was not collected; nobody may use it any more. Accepts NULL. */
void box_free(struct box *b);

/* ---- who asks ------------------------------------------------------------ */

/* Posts @request (transferred on success). @key: "" none. @wake_fd: an eventfd
 * that is written when the answer is there; it must stay open until the ticket
 * is collected or forgotten. Errors: ERR_LIMIT (no place), ERR_EXIST (the key
 * was used for another request), ERR_BUSY (the key's first request is not
 * answered yet), ERR_NOMEM. */
enum err box_post(struct box *b, enum command_id command, const char *key,
                  const void *request, int wake_fd, box_ticket *out);

/* The answer of @ticket (transferred), which is then no more. Errors: ERR_AGAIN
 * not yet. */
enum err box_collect(struct box *b, box_ticket ticket, void *answer);

/* Nobody waits for it any more; it is carried out all the same. */
void box_forget(struct box *b, box_ticket ticket);

/* ---- the owner ----------------------------------------------------------- */

/* Readable while a request waits. */
int box_fd(const struct box *b);

/* The oldest request that waits (transferred); false: none. Each that is taken
 * is to be answered. */
bool box_take(struct box *b, void *request, box_ticket *ticket);

/* Gives @ticket its @answer (transferred). */
void box_answer(struct box *b, box_ticket ticket, const void *answer);

/* Gives @answer, which owns nothing, to all that was taken and is not answered
 * yet: it never will be. */
void box_abandon(struct box *b, const void *answer);

/* Closes the box: `over` answers all that waits and all that comes later. */
void box_close(struct box *b);

#endif
