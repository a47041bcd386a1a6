/* mltune parameter server: tables that lie on a device.
 *
 * Rows of such a table are read and updated by work that the worker puts into
 * the device's stream, a whole table at a time:
 *
 *     mlt_ps_device(ps, "cuda:0", 0, &err);       before mlt_ps_start
 *     mlt_ps_on_device(ps, table, &err);
 *     ...
 *     mlt_read(w, table, &lease);                 in a worker: rows of now
 *     mlt_update(w, table, &sums, &add);          where its updates are summed
 *     (work in mlt_device_stream(w) that reads the rows and writes the sums)
 *     mlt_read_done(w, table);
 *     mlt_clock_table(w, table);                  its rule acts, there
 *
 * The parameter server moves what does not fit: branches that wait go to host
 * memory, the least recently scheduled first, and tables of a state that is
 * larger than the device come and go layer by layer, behind the computation
 * (Cui et al. 2016, GeePS). One worker, one node, consistency "bsp".
 */
#ifndef MLTUNE_DEVICE_H
#define MLTUNE_DEVICE_H

#include "mltune/ps.h"

#ifdef __cplusplus
extern "C" {
#endif

struct space_stream;

/* Opens @device: "cuda:0"; "host" and "fake" (host memory that behaves as a
 * device's: for tests). @memory: bytes that may be taken of it; 0: what is
 * there. Before mlt_ps_start, once. Errors: no such device, no driver; more
 * than one worker or node, another consistency: in words. */
MLT_API int mlt_ps_device(struct mlt_ps *ps, const char *device,
                          uint64_t memory, struct mlt_error *err);

/* Table @table, shared and of 32-bit floats, lies on the device. Before
 * mlt_ps_start. Errors: another kind of table, one with a history. */
MLT_API int mlt_ps_on_device(struct mlt_ps *ps, mlt_table table,
                             struct mlt_error *err);

/* Decides now what of the tables stays on the device and what is swapped, by
 * the memory that is left; else the first lease does. Once, after the last
 * mlt_ps_on_device and before mlt_ps_start. Errors: no room: in words; nothing
 * is kept of the device's memory then. */
MLT_API int mlt_ps_device_plan(struct mlt_ps *ps, struct mlt_error *err);

/* Gives the device up: all tables lie in host memory. Nobody uses its stream
 * any more. Before mlt_ps_start; without a device nothing happens. */
MLT_API void mlt_ps_device_close(struct mlt_ps *ps);

/* The device's stream, into which all work on its tables is put (borrowed; its
 * calls: ps/space/space.h); NULL: no device. Before the start, or by the
 * worker. */
MLT_API struct space_stream *mlt_ps_stream(struct mlt_ps *ps);

/* A table's rows: addresses of the device. */
struct mlt_lease {
    void *at;      /* row 0: its values, then what the rule remembers */
    size_t stride; /* bytes from a row to the next */
};

/* Rows of @table as of this clock, for work that is put into the stream until
 * mlt_read_done; blocks only where they are not there and no memory is left.
 * Not in mlt_clock's way: a table is read and done before its clock ends.
 * Errors: the device's, as a code. */
MLT_API int mlt_read(struct mlt_worker *w, mlt_table table,
                     struct mlt_lease *out);
MLT_API void mlt_read_done(struct mlt_worker *w, mlt_table table);

/* Where this clock's updates are summed, [rows][width] on the device: *@add 1
 * where something was, else what is there is to be overwritten whole. Errors:
 * as mlt_read. */
MLT_API int mlt_update(struct mlt_worker *w, mlt_table table, float **sums,
                       int *add);

#ifdef __cplusplus
}
#endif
#endif
