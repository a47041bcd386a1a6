/* The control loop: the shell around the tuner's pure core.
 *
 * Waits (socket, signals, mailbox, end of the node, timer), decodes, steps the
 * core, and performs its actions: its records are in the journal before any of
 * its messages leaves, so that they survive whatever happens to the processes;
 * on the disk, too, before anything is done that survives the machine (files
 * written or removed, the end), and every second. (A flush for each message
 * took half of the loop's processor time and held every decision up; all that
 * it could save after a loss of power were records of branches that are lost
 * with it.) One thread, which owns core, journal, socket and node; it waits for
 * nothing but disk and events.
 */
#ifndef TUNER_LOOP_IO_H
#define TUNER_LOOP_IO_H

#include "base/fault.h"
#include "base/proto/proto.h"
#include "tuner/core/tuner.h"
#include "tuner/history/journal_io.h"
#include "tuner/shell/keeper.h"
#include "tuner/shell/launcher_io.h"
#include "tuner/shell/mailbox_io.h"
#include "tuner/shell/socket_io.h"

#include <jansson.h>

/* The program around the loop learns by these what happens; all are called in
 * the loop's thread, none may block. @ctx is the caller's. */
struct loop_hooks {
    void *ctx;
    /* @record is in the journal, as @json; borrowed. ERR_NOMEM ends the run for
     * now: a history that lacks a record is no history to go on from. */
    enum err (*record)(void *ctx, const struct record *record,
                       const char *json);
    /* A message from the training system, before the core sees it; borrowed. */
    void (*message)(void *ctx, const struct msg *message);
    /* Called after every wait, at least each tick_ms. */
    void (*tick)(void *ctx, double now_s);
    int tick_ms; /* 0: only when something happens */
    /* Called as tick, before it: keeps the journal within its bounds. An error
     * ends the run as interrupted: after a snapshot where it is ERR_LIMIT,
     * which may come again until then. Optional. */
    enum err (*keep)(void *ctx, double now_s, struct fault *f);
    /* A sentence for the user, at once: "interrupted: ...". */
    void (*notice)(void *ctx, const char *text);
    /* The tables of the model are in the folder @dir; adds what belongs beside
     * them. @data: the application's members for model.json, or NULL. Then the
     * folder gets its final name. */
    enum err (*model)(void *ctx, const char *dir, const json_t *data,
                      struct fault *f);
    /* A node was lost, for @reason; all have ended. Starts others in
     * options.node, and makes a tuner that goes on from the records so far.
     * @restarts: from 1, in a row. The tuner before is not used any more.
     * Optional (NULL: a lost node ends the run as failed). On success the new
     * tuner is in @out, owned by the hook's side as the one before. */
    enum err (*restart)(void *ctx, const char *reason, unsigned restarts,
                        struct tuner **out, struct fault *f);
    /* Starts @node in options.node again, whose host was too busy to do so.
     * Optional where no node is on another machine. */
    enum err (*again)(void *ctx, uint32_t node, struct fault *f);
};

/* All borrowed until loop_run returns. */
struct loop_options {
    struct tuner *tuner;         /* waits for `ready`; until a restart */
    struct journal *journal;     /* its run has begun */
    struct tuner_socket *socket; /* listens */
    struct node_process *node;   /* [nodes] started, numbered from 0 */
    uint32_t nodes;              /* >= 1 */
    int signal_fd;               /* signalfd of SIGINT, SIGTERM, SIGHUP */
    struct mailbox *mailbox;     /* users' commands; NULL: none. Closed when the
                                  * run is over */
    const struct msg *config;    /* for a node that says hello */
    const char *model_dir;       /* as in the tuner's options */
    /* The keeper's; 0: its defaults. */
    double silence_s, backoff_s, hello_s, ready_s, clock_s;
    const char *hello_by, *ready_by, *clock_by;
    bool program; /* the nodes are a user's program */
    struct loop_hooks hooks;
};

struct loop_result {
    struct tuner_finish finish; /* how the run ended */
    /* Why it could not be set up, as the training system said; what the disk or
     * the tuner's memory did to journal or model. ERR_OK otherwise. The text is
     * in finish.message. */
    enum err load_error, own_error;
    enum err snapshot_error; /* of the last snapshot that was tried */
    int signal;              /* first signal that asked for the end; 0: none */
    bool ended_at_once;      /* by a second one, or because it took too long */
    bool node_lost;          /* before it was asked to stop; for good */
    unsigned restarts;       /* of the node, in all */
    double wall_s, cpu_s;    /* of the loop's thread */
};

/* Runs until the tuner finishes or cannot go on. All nodes have ended when it
 * returns, and no unfinished model is left. */
void loop_run(const struct loop_options *options, struct loop_result *out);

#endif
