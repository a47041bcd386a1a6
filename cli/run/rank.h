/* A process that `mpirun` has started (cluster.launcher mpi), or a pod of a job
 * of Kubernetes (cluster.launcher kubernetes): rank 0 is the tuner, the others
 * start the nodes that it tells them to, where they are. How they meet:
 * tuner/shell/ranks_io.h; of pods those that are not rank 0 do it over TCP
 * (rank_call_io.h). */
#ifndef CLI_RANK_H
#define CLI_RANK_H

#include "base/fault.h"
#include "base/file_io.h"
#include "tuner/shell/rank_call_io.h"
#include "tuner/shell/rank_desk_io.h"
#include "tuner/shell/ranks_io.h"

struct own_rank {
    struct ranks is;
    char place[FILE_PATH_MAX]; /* a folder; of pods that are not rank 0 what
                                * MLTUNE_ROOT says */
    int lock_fd;               /* of rank 0 */
    struct rank_desk *desk;    /* of rank 0 of pods; owned */
    struct rank_call *call;    /* of the other pods; owned */
};

/* Meets in the state folder @state, which is made. Rank 0 holds the place, and
 * the environment of what it starts names it (MLTUNE_RANKS). Errors: ERR_INVAL
 * nobody has started several, ERR_BUSY, those of the folder; then there is
 * nothing to leave. */
enum err rank_meet(const char *state, struct own_rank *out, struct fault *f);

/* The same among pods, by MLTUNE_ROOT ("tcp://HOST:PORT" of rank 0, which
 * listens at that port) and MLTUNE_KEY, which no process has that this one
 * starts. Rank 0 waits for the place as long as for a pod, then ERR_BUSY. */
enum err rank_meet_pods(const char *state, struct own_rank *out,
                        struct fault *f);

/* Of a rank that is not 0: starts nodes until rank 0 says that it is over, or
 * is gone. Returns the exit code. */
int rank_serve(struct own_rank *r);

/* Of rank 0, whose exit code is @code: tells the others that it is over, waits
 * a little for them to end, and removes the place. Pods of a run that goes on
 * when rank 0 is started again are told nothing: they wait for it. */
void rank_part(struct own_rank *r, int code);

#endif
