/* What a simulated run has on a simulated disk (tests/sim/disk.h): the journal,
 * by the code that programs write it with, and snapshots and model, written in
 * the same order of calls as a node writes them (ps/disk/backup_io.c).
 *
 * It knows what was promised and checks it when the disk is read again: records
 * that were committed survive the process, those that were committed durably
 * survive the machine, and what comes back is what was written. */
#ifndef TESTS_SIM_DURABLE_H
#define TESTS_SIM_DURABLE_H

#include "base/fault.h"
#include "tests/sim/disk.h"
#include "tuner/history/history.h"
#include "tuner/history/record.h"

#include <stdbool.h>
#include <stddef.h>

struct durable;

/* An empty disk. One at a time. */
struct durable *durable_new(uint64_t seed);
void durable_free(struct durable *d);

/* Opens the journal as a new process: the run is begun, or taken up again with
 * its records in @h, which is initialised. *@over: it has ended for good; then
 * the journal is closed again. On error nothing is open and the process has
 * ended. */
enum err durable_open(struct durable *d, struct history *h, bool *over,
                      struct fault *f);

enum err durable_append(struct durable *d, const struct record *r,
                        struct fault *f);

/* @durable: to survive the machine, too. */
enum err durable_commit(struct durable *d, bool durable, struct fault *f);

/* The run's end is recorded, as far as that can be, and the process ends. */
void durable_end(struct durable *d, const char *status, const char *reason);

/* The process is killed; @machine: all of it loses power. */
void durable_kill(struct durable *d, bool machine);

/* ---- snapshots and models ------------------------------------------------ */

/* Writes @bytes[n] as the folder @path: what comes before the node's thread has
 * something to wait for, and the rest. */
enum err durable_snapshot_begin(struct durable *d, const char *path,
                                const void *bytes, size_t n, struct fault *f);
enum err durable_snapshot_end(struct durable *d, const char *path,
                              struct fault *f);

/* Errors: ERR_NOENT, ERR_FORMAT (not what was written), ERR_IO. */
enum err durable_snapshot_read(struct durable *d, const char *path, void *out,
                               size_t n, struct fault *f);

/* Removes snapshots that @h does not name, and what was being written. */
void durable_sweep(struct durable *d, const struct history *h);

enum err durable_model(struct durable *d, const void *bytes, size_t n,
                       struct fault *f);
bool durable_has_model(const struct durable *d, const void *bytes, size_t n);

/* ---- what was promised --------------------------------------------------- */

struct durable_counts {
    size_t appended, committed, durable; /* records of the run */
    unsigned opened, refused; /* processes, and those that could not begin */
};
struct durable_counts durable_counts(const struct durable *d);

#endif
