/* The host of a training application: opens it, gives it a parameter server,
 * and runs slices of clocks in branches of it.
 *
 *   open ─► declare ─► start ─► init (each worker) ─► slices … ─► close
 *
 * The application sees clocks with their samples and nothing of branches,
 * tuning or order; where a branch stands in its epochs is in the local table
 * `_cursor`, so that forks and snapshots carry it.
 *
 * One control thread; while a slice runs it may call only host_slice_cut,
 * host_slice_cancel, host_slice_window(s) and host_slice_fd, and begin and end
 * a glance. mlt_report and mlt_tunable of mltune/app.h are defined here.
 */
#ifndef PS_HOST_IO_H
#define PS_HOST_IO_H

#include "base/fault.h"
#include "base/proto/proto.h"
#include "mltune/app.h"
#include "ps/node/live_read_io.h"
#include "ps/node/node_setting.h"
#include "ps/node/order.h"
#include "ps/server/ps.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HOST_MODELS_MIN = 5, /* complete branches that must fit to tune at all */
    HOST_SAVE_BYTES = 64 * 1024 /* of what the application adds to model.json */
};

/* Name of the table that holds each worker's struct cursor. */
#define HOST_CURSOR_TABLE "_cursor"

struct host;

/* All borrowed for the call but @app. */
struct host_config {
    const struct mlt_app_ops *app;
    const json_t *config; /* of the run: app, cluster, ps, memory, tunables,
                           * metric */
    const char *folder;   /* where relative paths start */
    uint64_t seed;
    bool goes_on;  /* the run began before, with this configuration */
    uint32_t node; /* this node's number, of cluster.nodes */
    const char
        *meet; /* where they find each other (ps/wire/meet_io.h); NULL: one */
    const char *listen;   /* what this one binds for the others, or NULL */
    const char *evaluate; /* model folder: loads that model, all data is
                           * validation data; NULL: trains */
    bool predict;         /* with `evaluate`: for host_predict */
};

/* Facts that are known once it is open; borrowed from the host. */
struct host_facts {
    const struct mlt_app_ops *app;
    struct mlt_app_info info;
    struct order order;
    struct node_setting defaults;
    uint64_t branch_bytes; /* worst case of one branch */
    uint64_t limit_bytes;  /* for all branches */
    unsigned branches_max; /* complete ones that fit */
};

/* Opens the application, checks its settings against its schema, loads its
 * data, sizes and fills the model: branch 0 is ready to be forked. Slow.
 * Errors: those of the application, with its words; ERR_INVAL (settings),
 * ERR_LIMIT (fewer than HOST_MODELS_MIN branches fit), ERR_IO, ERR_FORMAT,
 * ERR_NOMEM, ERR_APP. */
enum err host_open(const struct host_config *config, struct host **out,
                   struct fault *f);

/* What a node of @config takes of memory at most (mlt_ps_plan), of as many as
 * it says: none is waited for, `meet` may be any place. And @work, what
 * host_work_plan gives there, owned by the caller; or NULL. Opens the
 * application, loads its data, and closes all. Errors: as host_open, but for
 * ERR_LIMIT. */
enum err host_plan(const struct host_config *config, struct mlt_ps_memory *out,
                   char **work, struct fault *f);

/* Waits for a snapshot that is being written. No slice may run. Accepts NULL.
 */
void host_close(struct host *h);

const struct host_facts *host_facts(const struct host *h);
struct mlt_ps *host_ps(const struct host *h);

/* How the application splits its work among workers, in lines (mltune/app.h);
 * NULL: it does not say. Borrowed until host_close. */
const char *host_work_plan(const struct host *h);

/* The reader of rows while a slice runs: to be begun while one does, to be
 * ended before the next one begins. */
struct live_read *host_glance(const struct host *h);

/* Names of the tunables that can act in this run, a new array; NULL when out of
 * memory. Those that cannot: momentum where no table's rule has one, staleness
 * under barriers or with one worker, batch_size where clocks are parts,
 * bandwidth on one node. */
json_t *host_tunables(const struct host *h);

/* The tables, as base/proto/table_info.h has them, but the host's own; a new
 * array. NULL when out of memory. */
json_t *host_tables(const struct host *h);

/* What the application says that its data hold; a new object, NULL where it
 * says nothing or what is none (the log has it then). */
json_t *host_data(const struct host *h);

/* Leaves in the folder @dir, unless it is there, what a model needs of the data
 * (ps/node/kept_io.h): node 0, of an application that can. Where that fails the
 * log has it, and `mltune save` will need the data. Slow. */
void host_keep(struct host *h, const char *dir);

/* ---- slices -------------------------------------------------------------- */

/* Learning rate, momentum and weight decay of a branch with @setting act from
 * here on, until a slice sets its own: for what is added to it by hand. No
 * slice may run. Errors: ERR_INVAL. */
enum err host_set_rates(struct host *h, const struct node_setting *setting,
                        struct fault *f);

struct host_slice {
    branch_id branch;
    enum branch_type type;
    const struct node_setting *setting; /* borrowed for the call */
    uint64_t count, report_every;
};

/* The result of a slice. */
struct host_result {
    uint64_t clocks;
    double switch_s;
};

/* Switches to the branch, applies its setting, wakes the workers. The slice
 * ends by itself after its clocks, at a cut, or at the clock whose sum is not
 * finite. Errors: ERR_INVAL (too many windows, setting), ERR_NOENT, ERR_NOMEM;
 * then nothing runs. */
enum err host_slice_begin(struct host *h, const struct host_slice *slice,
                          struct fault *f);

/* Readable once all workers are back. */
int host_slice_fd(const struct host *h);

/* At the next clock. Any thread, any time. */
void host_slice_cut(struct host *h);

/* At once where workers wait for each other; host_slice_end then gives
 * ERR_CANCELED. While a slice runs. */
void host_slice_cancel(struct host *h);

/* Windows complete so far, and one of them; they stay until the next
 * host_slice_begin. */
uint32_t host_slice_windows(const struct host *h);
const struct progress_window *host_slice_window(const struct host *h,
                                                uint32_t i);

/* Waits for the workers. Errors: the application's, as ERR_APP or its own code,
 * with worker and clock in @f: the branch is then in no state to go on with. */
enum err host_slice_end(struct host *h, struct host_result *out,
                        struct fault *f);

/* ---- the model ----------------------------------------------------------- */

/* Writes @branch's saved tables and what the application adds into the folder
 * @dir (made if it is missing). @data: {"tables": [{name, rows, width,
 * type}, ...], "app": {what the application adds}}, owned by the caller. */
enum err host_save(struct host *h, branch_id branch, const char *dir,
                   uint64_t *bytes, json_t **data, struct fault *f);

/* Reads the snapshot in @dir, written by however many nodes and workers, as the
 * new kept branch @branch. No slice may run. Errors: those of ps_restore
 * (ps/disk/restore_io.h); nothing changed. */
enum err host_restore(struct host *h, branch_id branch, const char *dir,
                      struct fault *f);

/* Loss and metric of a host that was opened with `evaluate`: one pass over the
 * data with updates that change nothing, one testing clock. NAN where there is
 * none; reduced as the application says. */
struct host_score {
    double loss, metric;
    uint64_t samples;
};
enum err host_evaluate(struct host *h, struct host_score *out, struct fault *f);

/* Of a host that was opened with `predict`, or with `evaluate` where it tells
 * the truth: the columns of what it predicts, *@column [*@count], borrowed
 * until host_close. Errors: the application's, ERR_APP (it predicts nothing).
 */
enum err host_columns(struct host *h, const struct mlt_column **column,
                      uint32_t *count, struct fault *f);

/* Predicts samples @first .. @first + @count - 1 of info.samples into
 * @out[count][columns]. Errors: the application's, as ERR_APP or its own
 * code. */
enum err host_predict(struct host *h, uint64_t first, uint64_t count,
                      double *out, struct fault *f);

/* Whether a host that was opened with `evaluate` alone can compare what it
 * predicts with what is true. */
bool host_tells_truth(const struct host *h);

/* What is true of samples @first .. @first + @count - 1 of info.samples, into
 * @out[count], in the unit of the first column. Of a host that tells the truth.
 * Errors: the application's. */
enum err host_truth(struct host *h, uint64_t first, uint64_t count, double *out,
                    struct fault *f);

#endif
