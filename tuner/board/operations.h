/* Operations: what the training system was told and has not answered yet.
 *
 * Each message is one, in the order of sending, which is the order in which the
 * training system carries them out. Part of the board (tuner/board/parts.h);
 * pure.
 */
#ifndef TUNER_OPERATIONS_H
#define TUNER_OPERATIONS_H

#include "tuner/board/board.h"

struct operation {
    op_id id;
    enum msg_kind kind;
    branch_id branch;
    /* Members of a slice (MSG_SCHEDULE): */
    clock_no first;
    uint64_t count;
    uint64_t reported; /* clocks in reports so far */
    uint64_t samples;  /* in these */
    double work_s;     /* what these took */
    bool idle;         /* sent when no slice was out */
    bool cut;          /* a cut was sent for it */
};

/* Errors: ERR_NOMEM. */
enum err operations_init(struct board *c);
void operations_deinit(struct board *c);

/* A message of @kind with a new number; the caller fills in its members. */
struct msg *operations_send(struct board *c, enum msg_kind kind,
                            branch_id branch);

/* A `stop`, a `snapshot` or a `save`, sent so: its members, which are to be
 * filled in; of the two with a path the branch is. */
struct msg_stop *operations_send_stop(struct board *c);
struct msg_path *operations_send_path(struct board *c, enum msg_kind kind,
                                      branch_id branch);

/* Room for another, beside what must go in any case: frees, cuts, the end. */
bool operations_have_room(const struct board *c);

/* NULL: it is not out. */
struct operation *operations_find(struct board *c, op_id id);

/* Removes @op, which was answered; returns what it was. */
struct operation operations_take(struct board *c, struct operation *op);

/* ---- slices -------------------------------------------------------------- */

/* The slice that runs now: the oldest that is out; NULL: none. */
const struct operation *operations_running(const struct board *c);

/* The slice of @branch whose next clock to be reported is @clock; NULL. */
struct operation *operations_slice_at(struct board *c, branch_id branch,
                                      clock_no clock);

/* The newest slice of @branch; 0: none is out. */
op_id operations_last_slice(const struct board *c, branch_id branch);

/* Whether any slice or fork is out. */
bool operations_work(const struct board *c);

/* Whether any answer is awaited. */
bool operations_any(const struct board *c);

#endif
