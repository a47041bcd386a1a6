/* Retention: runs of a service that have ended are removed once there are many
 * newer ones, or they ended long ago.
 *
 * Only runs that were submitted to the service go, with all that `mltune
 * delete` takes: never one that waits, is held, or whose tuner lives, never one
 * that was interrupted, and one that could be continued (stopped; failed with a
 * snapshot or trials) only where that is said. A failed one that the service
 * does not list any more, or cannot read, counts as such. What goes is decided
 * by a look, at the start, after each end and once an hour; the removal takes
 * turns with the supervisor's other work. One owner thread.
 */
#ifndef CLI_RETENTION_H
#define CLI_RETENTION_H

#include "cli/service/fleet.h"

static const int64_t RETENTION_DAY_NS = INT64_C(86400) * 1000000000;

struct retention {
    uint32_t number; /* so many that have ended stay, the newest; 0: all */
    int64_t age_ns;  /* those that ended longer ago go; 0: none */
    bool resumable;  /* also those that could be continued */
};

/* Fills in what @r does not say from SERVICE_SETTINGS in the state folder
 * @state, where that is there. All that is wrong with it is said on stderr.
 * Errors: ERR_INVAL, ERR_IO, ERR_LIMIT, ERR_NOMEM; @r is as it was then. */
enum err retention_settle(const char *state, struct retention *r,
                          struct fault *f);

struct retention_run {
    char id[RUN_ID_MAX + 1];
    int64_t ended_ns; /* wall clock, since the epoch */
    bool failed;
    bool stopped;
};

/* Who waits for the end of a run has so long to read how it went. */
static const int64_t RETENTION_GRACE_NS = INT64_C(60) * 1000000000;

/* Sorts @run[@n] by their ends, newest first, and returns the index of the
 * first that is one too many or, at @now_ns, too old, but did not end in the
 * last RETENTION_GRACE_NS: it and those after it go. Pure. */
size_t retention_first(const struct retention *r, int64_t now_ns,
                       struct retention_run run[], size_t n);

/* What a look has found. Zeroed: nothing. */
struct retention_work {
    struct retention_run *run; /* owned, [len] */
    size_t len, capacity;
    size_t next;     /* the first that is not done */
    size_t failed;   /* removals, since the look */
    size_t many;     /* those from here on are too many; the others too old */
    time_ns look_at; /* the next look is due then; 0: now */
};

/* Looks, if that is due, and removes runs for at most some 50 ms. Each is
 * logged, with its reason. What cannot be removed now is left for the next
 * look; where that are many, so is the rest. */
void retention_turn(struct retention_work *w, const struct retention *r,
                    struct fleet *fleet);

/* Whether some are still to be removed. */
bool retention_busy(const struct retention_work *w);

/* A run has ended: the next turn looks. */
void retention_due(struct retention_work *w);

void retention_deinit(struct retention_work *w);

#endif
