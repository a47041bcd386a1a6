/* A process that `mpirun` has started (cluster.launcher mpi): rank 0 is the
 * tuner, the others start the nodes that it tells them to, where they are. How
 * they meet: tuner/shell/ranks_io.h. */
#ifndef CLI_RANK_H
#define CLI_RANK_H

#include "base/fault.h"
#include "base/file_io.h"
#include "tuner/shell/ranks_io.h"

struct own_rank {
    struct ranks is;
    char place[FILE_PATH_MAX];
    int lock_fd; /* of rank 0 */
};

/* Meets in the state folder @state, which is made. Rank 0 holds the place, and
 * the environment of what it starts names it (MLTUNE_RANKS). Errors: ERR_INVAL
 * nobody has started several, ERR_BUSY, those of the folder; then there is
 * nothing to leave. */
enum err rank_meet(const char *state, struct own_rank *out, struct fault *f);

/* Of a rank that is not 0: starts nodes until rank 0 says that it is over, or
 * is gone. Returns the exit code. */
int rank_serve(const struct own_rank *r);

/* Of rank 0: tells the others that it is over, waits a little for them to end,
 * and removes the place. */
void rank_part(struct own_rank *r);

#endif
