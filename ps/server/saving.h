/* State that ps/disk, which writes training state to files, keeps with a
 * server. The server uses it for two things: the branch that is being written
 * is not dropped, and the server's end stops the writing. Control thread. */
#ifndef PS_SAVING_H
#define PS_SAVING_H

#include "base/proto/branch.h"
#include "mltune/ps.h"

#include <stdint.h>

/* The application's function that takes a local table to another number of
 * workers (mlt_ps_set_mover). */
struct mover {
    mlt_mover *move; /* NULL: nobody */
    void *arg;
};

struct backup;

struct ps_saving {
    /* The snapshot in progress, or NULL: its branch is not dropped, and the end
     * of the server stops it. */
    struct backup *backup;
    branch_id branch;
    void (*stop)(struct mlt_ps *ps);

    uint64_t backups;     /* how many were begun */
    branch_id checkpoint; /* fork that it is of, by mlt_ps_checkpoint; or
                           * BRANCH_NONE */
    struct mover *mover;  /* [STORE_TABLES_MAX] of local tables, or NULL; owned
                           */
};

struct ps_saving *ps_saving(struct mlt_ps *ps);
const struct ps_saving *ps_saving_now(const struct mlt_ps *ps);

#endif
