/* The node process's inside: what its loop (node_io.c) and what it carries out
 * (node_work_io.c) share. */
#ifndef PS_NODE_INTERNAL_IO_H
#define PS_NODE_INTERNAL_IO_H

#include "base/clock_io.h"
#include "ps/node/host_io.h"
#include "ps/node/node.h"
#include "ps/node/node_io.h"
#include "ps/node/node_job_io.h"
#include "ps/node/node_link_io.h"
#include "ps/node/node_pulse_io.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NODE_NS = 1000000000,
    NODE_MS = 1000000,
    NODE_REPORT_NS =
        250 * NODE_MS /* between two reports of a slice that runs */
};

/* A slow operation, as its thread sees it. */
struct errand {
    enum msg_kind kind; /* CONFIG, SAVE, RESTORE */
    op_id op;
    struct host_config config; /* CONFIG; its members are owned by `held` */
    struct msg held;
    struct host *host; /* CONFIG: out */
    json_t *files;     /* CONFIG, out: of one of several nodes; owned */
    struct msg_path path;
    struct node_result result;
};

struct node_server {
    const struct node_options *o;
    struct node_link link;
    struct node *node;
    struct host *host;
    struct node_job job;
    struct errand errand;
    op_id slice;        /* that runs; 0: none */
    uint32_t reported;  /* windows of it */
    op_id snapshot;     /* being written; 0: none */
    bool snapshot_over; /* its fork is to be dropped when no worker runs */
    char snapshot_dir[PROTO_PATH_MAX];
    struct {
        op_id op; /* rows that are being read while a slice runs; 0: none */
        struct ps_rows rows;
        double *values; /* owned */
    } glance;
    struct pulse pulse;
    time_ns beat_at, report_at;
    uint64_t garbage;
    bool blocked; /* the link took no more */
    enum node_end end;
    bool over;
    int signal;
    struct fault *fault; /* never NULL */
};

/* The process is to end; the first reason stays. */
void node_end_with(struct node_server *s, enum node_end end, enum err err,
                   const char *reason);

/* Says how the node is. */
void node_beat_now(struct node_server *s);

/* ---- node_work_io.c ------------------------------------------------------ */

/* Starts and carries out until something takes its time; where that is a slice,
 * what can be read meanwhile, which may have come with it. */
void node_carry_out(struct node_server *s);

/* The descriptor says that it is over: the slow operation, the slice, the
 * snapshot, all workers' part of a read. */
void node_errand_done(struct node_server *s);
void node_slice_done(struct node_server *s);
void node_snapshot_done(struct node_server *s);
void node_glance_done(struct node_server *s);

/* Windows that are complete and not yet reported. Where memory is out they wait
 * for the next time (ERR_NOMEM). */
enum err node_report_windows(struct node_server *s);

/* Ends what runs, as far as it can be ended. Returns false when something goes
 * on. */
bool node_end_work(struct node_server *s);

#endif
