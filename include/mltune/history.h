/* Versions of a shared table: what its rows were, for those who compute on
 * earlier parameters (SAGA, SVRG, their asynchronous forms: Soori et al.,
 * history).
 *
 *     mlt_ps_history(ps, weights, 64 << 20, &err);       // before mlt_ps_start
 *
 *     mlt_take_version(w, weights, &version);            // in a worker
 *     mlt_get_row_at(w, weights, version, row, &values); // now or much later
 *     mlt_release_version(w, weights, version);
 *
 * A version is the table as it was when it was taken, and never changes, while
 * workers train on. Between two ends of clocks all who take one get the same.
 * Under barriers it is the table as all read it in that clock; without them it
 * may have a part of the update that another worker was applying.
 *
 * A version costs its number. A row costs a copy of its values when it is first
 * changed, or first read at a version, after a version was taken; all versions
 * between two changes of the row share it. What no version needs any more is
 * freed when its row is copied next, and all of it where the cap is near.
 *
 * Versions end with the run (mlt_ps_run) that took them. One process; not of
 * tables on a device, nor of those with MLT_OWN_CLOCK, whose rows change while
 * others still read them.
 */
#ifndef MLTUNE_HISTORY_H
#define MLTUNE_HISTORY_H

#include <mltune/ps.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Versions of shared table @table can be taken. @cap_bytes bounds the copies,
 * beside mlt_ps_options.memory_limit; at least one copy of the table, which
 * MLT_HISTORY_ROW_BYTES more a row goes into. An index takes 24 bytes for each
 * row that was copied. Before mlt_ps_start, once a table.
 * Errors: no shared table, MLT_OWN_CLOCK, on a device, several nodes, too small
 * a cap, out of memory. */
enum { MLT_HISTORY_ROW_BYTES = 48 };
MLT_API int mlt_ps_history(struct mlt_ps *ps, mlt_table table,
                           uint64_t cap_bytes, struct mlt_error *err);

/* Takes a version of the table as it is now, numbered from 1 in each run, and a
 * reference to it: each is to be released. Where the cap could be broken no new
 * version is made until others are released: @version is then the last one that
 * is held, and `suspended` counts it. Cost: a lock, and at the cap a look at
 * all rows. Errors: no history, out of memory. */
MLT_API int mlt_take_version(struct mlt_worker *w, mlt_table table,
                             uint64_t *version);

/* One reference less; with the last one the version cannot be read any more.
 * References are the table's: any worker may release. Errors: ENOENT
 * -like code where nobody holds it; nothing changed. */
MLT_API int mlt_release_version(struct mlt_worker *w, mlt_table table,
                                uint64_t version);

/* The row as that version has it: `width` values that stay where they are until
 * the version is released. Never waits for a worker. Errors: a code that
 * mlt_error_text has as "not found", where the version was never taken or is
 * released; out of memory, also for a version that lost a row to that. */
MLT_API int mlt_get_row_at(struct mlt_worker *w, mlt_table table,
                           uint64_t version, uint64_t row, const void **out);

struct mlt_history_stats {
    size_t size;       /* sizeof(struct mlt_history_stats) */
    uint64_t versions; /* held, and the latest */
    uint64_t bytes;    /* of copies now */
    uint64_t cap_bytes;
    uint64_t taken;     /* versions made in this run */
    uint64_t copies;    /* rows copied in this run */
    uint64_t suspended; /* times that none could be made */
};

/* Of the present or the last run; all 0 of a table without history. Any thread,
 * any time. @out->size is set. Errors: another version of this header. */
MLT_API int mlt_ps_history_stats(const struct mlt_ps *ps, mlt_table table,
                                 struct mlt_history_stats *out);

#ifdef __cplusplus
}
#endif
#endif
