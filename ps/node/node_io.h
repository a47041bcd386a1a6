/* The training node as a process: connects to the tuner, loads the application,
 * carries operations out, reports.
 *
 *   tuner ◄── link ──► node core ──► host ──► workers        slices
 *             (socket)  (queue)      └──────► job thread     load, save,
 * restore └──────► snapshot writer
 *
 * One thread waits for all of it (zmq_poll) and never for one of them: it
 * answers forks, cuts and beats while a slice runs or data are loaded.
 *
 * The end. The tuner decides: after `stop`, on SIGTERM (or SIGINT, SIGHUP, for
 * whoever starts a node by hand; the launcher gives a node a process group of
 * its own, so a terminal's Ctrl-C does not reach it), when the connection is
 * lost for good, or when the process that started the node is gone (the
 * launcher's PR_SET_PDEATHSIG is turned from SIGKILL into SIGTERM, so that
 * temporary files can be removed). A running slice is canceled; what does not
 * end within NODE_GRACE_S is left behind by ending the process, after removing
 * its temporary files.
 */
#ifndef PS_NODE_IO_H
#define PS_NODE_IO_H

#include "base/deadlines.h"
#include "base/fault.h"
#include "base/json/registry.h"
#include "mltune/app.h"

#include <stdint.h>

enum { NODE_GRACE_S = DEADLINE_NODE_GRACE_MS / 1000 };

struct node_options {
    const char *endpoint; /* of the tuner */
    uint32_t node;        /* this node's number */
    const char
        *meet; /* where several nodes meet (ps/wire/meet_io.h), or NULL */
    const char *listen; /* what this one binds for the others, or NULL */
    int signal_fd;      /* signalfd of what asks to end; blocked otherwise */
    const struct registry *registry; /* its applications */
    const struct mlt_app_ops *app;   /* the only one it has; NULL: the one that
                                      * the configuration names, of those or of
                                      * a shared object (app_plugin_io.h) */
    /* The launcher is on another machine: the node ends with its standard
     * input, and when the connection to the tuner is lost once. */
    bool tethered;
    bool confined; /* the process is nothing but this node: it is confined
                    * where its application is of @registry */
};

enum node_end {
    NODE_END_STOPPED,     /* the tuner said `stop` */
    NODE_END_LOAD_FAILED, /* and said so to the tuner */
    NODE_END_LOST,        /* the tuner is gone, or was never there */
    NODE_END_SIGNAL,      /* asked to end, or the parent died */
    NODE_END_FAILED       /* the node itself cannot go on */
};

/* Serves until the end. @signal: the number of the signal, else 0. @f: why, but
 * for NODE_END_STOPPED. May end the process (exit_code(end)) where work cannot
 * be ended. */
enum node_end node_serve(const struct node_options *options, int *signal,
                         struct fault *f);

/* The process's exit code: 0 stopped, 1 failed, 69 lost, 128 + signal. */
int node_exit_code(enum node_end end, int signal);

#endif
