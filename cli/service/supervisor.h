/* The supervisor: the one loop of a service of many runs.
 *
 * Each run is a process of its own (cli/service/runner.h), so that one which
 * fails, crashes or hangs harms no other and not the service. The supervisor
 * starts them as the queue says, starts again what was interrupted, ends tuners
 * that give no sign of life (their runs are interrupted so), answers the
 * desk (submissions itself, commands to a run that lives by forwarding them to
 * that run's own server), and reads what is journaled. It waits for nothing but
 * its descriptors and the disk. One owner thread, which must not have others'
 * forks to wait for.
 */
#ifndef CLI_SUPERVISOR_H
#define CLI_SUPERVISOR_H

#include "api/view/desk.h"
#include "cli/remote/client.h"
#include "cli/service/fleet.h"
#include "cli/service/intake.h"
#include "cli/service/retention.h"
#include "cli/service/upload.h"

/* A run that ended so often without a further epoch is held. */
enum { SUPERVISOR_ATTEMPTS_MAX = 3 };

/* So is one of which so many starts in a row failed; it takes some 6 minutes.
 */
enum { SUPERVISOR_STARTS_MAX = 10 };

struct supervisor_options {
    const char *state; /* absolute */
    const char *token; /* that runs' servers take */
    bool token_given;  /* by the environment: not in the folder */
    struct queue_limits limits;
    struct intake intake;
    struct upload_place uploads;
    struct retention keep;     /* of runs that have ended */
    time_ns silence;           /* of a tuner, after which it is ended */
    void (*turned)(void *ctx); /* after each turn of the loop; NULL: nothing */
    /* It ends by itself when nothing runs or is to run, and nobody has asked
     * for so long: @used says when one did last. 0: never. */
    time_ns idle;
    time_ns (*used)(void *ctx);
    void *ctx;
    /* What waits in the folder goes on waiting, until it is continued, or
     * another service starts; only what is submitted to this one begins. */
    bool leaves_queue;
};

/* A command that was forwarded; its run has not answered yet. */
struct forward {
    desk_ticket ticket; /* 0: free */
    struct client_exchange exchange;
};

struct supervisor {
    const struct supervisor_options *o; /* borrowed, as these: */
    struct fleet *fleet;
    struct desk *desk;
    int signal_fd;
    int signal; /* that came first; 0: none */
    unsigned signals;
    bool idle;         /* it ends, since nobody has asked for long */
    bool unwritable;   /* the state folder was, when last tried */
    time_ns try_again; /* to write to it */
    time_ns look_due;  /* when tuners and their logs are looked at next */
    struct retention_work retention;
    struct forward forward[DESK_SLOTS];
};

/* Runs until a signal has come and every run that the service started has
 * written its snapshot and ended; those go on when the next service starts.
 * Returns the signal; 0: it was idle for long. A second signal ends them at
 * once. A scheduler's warning goes on to these runs, and ends nothing. */
int supervisor_run(struct supervisor *s);

/* ---- supervisor_desk.c --------------------------------------------------- */

/* Requests that are answered in one turn of the loop: fewer than find a place,
 * so that those who ask again and again keep the loop from nothing else. */
enum { SUPERVISOR_DESK_TURN = 16 };

/* Answers what waits at the desk, the oldest first, or passes it on: no more
 * than a turn's, and none after 50 ms. What is left waits for the next turn,
 * for which desk_fd stays readable. */
void supervisor_serve_desk(struct supervisor *s);

/* ---- for the parts of the service ---------------------------------------- */

/* Notes whether the state folder can be written, as /readyz says. */
void supervisor_written(struct supervisor *s, enum err err);

#endif
