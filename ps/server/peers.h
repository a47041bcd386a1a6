/* Peers: what a server asks of the wire to the other nodes, and what it tells
 * the wire. A server of one node has none and works on its rows alone.
 *
 * A run of the workers begins when all nodes have begun it and ends when all
 * workers of all nodes are through; so all nodes must run the same runs, in the
 * same order. Between two runs the wire touches no row.
 *
 * The wire (ps/wire/comm_io.c) implements `struct peers_ops`, and knows of the
 * server what stands here, in ps/server/shape.h, view.h and runtime.h. What
 * `struct mlt_ps` holds beside that is the server's own.
 */
#ifndef PS_PEERS_H
#define PS_PEERS_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "base/proto/staleness.h"
#include "mltune/ps.h"
#include "ps/nodes/courier.h"
#include "ps/nodes/traffic.h"
#include "ps/rows/rule.h"
#include "ps/server/ps.h"
#include "ps/server/shape.h"
#include "ps/server/view.h"

#include <stddef.h>
#include <stdint.h>

/* A run: the branch that it works on, and its rates. The same in all nodes but
 * for the budget. */
struct peers_run {
    branch_id branch;
    enum branch_type type;
    unsigned staleness;
    unsigned quorum;
    struct rule_params params;
    double bandwidth_mbps; /* 0: no budget */
    struct ps_cut cut;
};

struct peers;

struct peers_ops {
    /* ---- control thread, workers parked ---------------------------------- */

    /* Listens, and says where at shape->meet: others may come from now on.
     * @ps: for runtime_progress and runtime_fail; @shape is borrowed until
     * `close`. Errors: in words. */
    enum err (*open)(struct mlt_ps *ps, const struct ps_shape *shape,
                     struct peers **out, struct fault *f);

    /* Joins what runs, closes everything. */
    void (*close)(struct peers *p);

    /* Adds what `start` takes beside the stores, by part, where each worker
     * touches @touched of the rows; `frames` is its alone. */
    void (*bytes)(const struct ps_shape *shape, double touched,
                  struct mlt_ps_memory *m);

    /* Waits for the others and checks that they have the same tables. Stores,
     * workers and runtime are there. @fits: branches that fit here; becomes the
     * least of all nodes'. Errors: ERR_NODE somebody is missing, by number;
     * ERR_PROTO, with other tables or another number of workers; ERR_NOMEM,
     * ERR_IO. */
    enum err (*start)(struct peers *p, uint32_t *fits, struct fault *f);

    /* Number of this start of the nodes, the same on all. After `start`. */
    uint64_t (*number)(const struct peers *p);

    /* The next run, on the active branch. Errors: ERR_NODE, none is possible
     * any more. */
    enum err (*begin)(struct peers *p, const struct peers_run *run);

    /* ---- any thread ------------------------------------------------------ */

    /* The run is to be cut; has failed in this node. */
    void (*cut)(struct peers *p);
    void (*fail)(struct peers *p, enum err code);

    /* While it is held, no shared row of this node changes. By a thread that
     * does not hold it. */
    void (*hold)(struct peers *p);
    void (*let_go)(struct peers *p);

    /* As ps_lost, ps_traffic, ps_staleness. */
    enum err (*lost)(struct peers *p, struct fault *f);
    void (*traffic)(struct peers *p, struct ps_traffic *out);
    void (*staleness)(struct peers *p, struct staleness *out);

    /* ---- a worker's thread ----------------------------------------------- */

    /* Waits until all nodes have begun the run. ERR_CANCELED: it has failed. */
    int (*enter)(struct peers *p, struct mlt_worker *w);

    /* As mlt_get_rows, of a shared or exclusive table. */
    int (*get_rows)(struct peers *p, struct mlt_worker *w,
                    struct worker_view *v, size_t n, const uint64_t rows[],
                    const void *out[]);

    /* A batch of the worker begins; ends, before the table's clock and the run
     * do. Its rows are borrowed until then. */
    void (*begin_batch)(struct peers *p, struct mlt_worker *w,
                        struct worker_view *v, const struct get_batch *b);
    void (*end_batch)(struct peers *p, const struct mlt_worker *w,
                      uint64_t number);

    /* There is room for rows that need not leave yet: some of the worker's
     * leave. It holds no pointer into its update buffers. */
    void (*offer)(struct peers *p, struct mlt_worker *w);

    /* As mlt_clock (WORKER_ALL_TABLES), mlt_clock_table. */
    int (*end_clock)(struct peers *p, struct mlt_worker *w, mlt_table table);
    int (*end_early)(struct peers *p, struct mlt_worker *w, mlt_table table);

    /* The worker's run is over; returns when it is over for all workers of all
     * nodes. */
    void (*finish)(struct peers *p, struct mlt_worker *w);

    /* Loops (ps/nodes/courier.h). The first worker begins a pass for its node,
     * and waits until all nodes have; @pass is borrowed until carry_end gives 0
     * or the run ends. Each says what steps it has ended and waits for what a
     * place of the trips needs. When all of a node have, the first says so with
     * their totals, once its rows are home (@place), and waits for all nodes'.
     * Waits end with the run's error: a node gone, silent or failed ends it.
     * Where another node leaves out the pass, carry_begin gives ERR_APP, and
     * words. */
    int (*carry_begin)(struct peers *p, struct mlt_worker *w,
                       const struct courier_pass *pass, struct fault *f);
    int (*carry_passed)(struct peers *p, struct mlt_worker *w);
    int (*carry_await)(struct peers *p, struct mlt_worker *w, uint64_t place);
    int (*carry_end)(struct peers *p, struct mlt_worker *w, uint64_t place,
                     const double *own, double *all);
};

/* First member of what a wire keeps of one server. */
struct peers {
    const struct peers_ops *ops;
};

/* A server of one node, or, with @ops (static storage), of as many as @opt
 * says. @opt: as mlt_ps_new, but complete: workers and memory_limit are
 * given. Errors: as mlt_ps_new. */
enum err ps_new(const struct mlt_ps_options *opt, const struct peers_ops *ops,
                struct mlt_ps **out, struct fault *f);

/* For the files of training state: the server's shape; the number of this start
 * of the nodes, 0 of one node. */
const struct ps_shape *ps_shape(const struct mlt_ps *ps);
uint64_t ps_number(const struct mlt_ps *ps);

#endif
