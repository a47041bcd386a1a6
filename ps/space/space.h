/* Memory spaces: where training state may lie, and what is done with it there.
 *
 * Three spaces, one interface: `host` (reference: memory of this process, all
 * is done at once), `fake` (a device made of host memory and a thread: what
 * tests use) and `cuda` (a plug-in). ps/space/open_io.h opens one by name.
 *
 *  - An address of a space (`void *` from alloc) has arithmetic as any other,
 *    but only the space reads and writes what is there.
 *  - Work is put into streams. Work of one stream is done in order, that of two
 *    in any order, unless an event stands between. No call that puts work into
 * a stream waits for it, but a copy from or to host memory that is not pinned.
 *  - What a stream's work reads must stay, and what it writes must not be read,
 *    until an event behind it has come or the stream has been waited for. Small
 *    structs given by pointer are copied at the call.
 *  - What fails fails in its stream: the first error stays there, later work of
 *    that stream is left out, and every sync, query or event of it tells the
 *    error. So calls that put work return nothing. A stream that failed is
 *    closed, and its branch given up; others go on. Nothing aborts.
 *
 * Threads: alloc, free and info may be called by any, at any time; a stream or
 * an event by one thread at a time.
 *
 * Source: Cui, Zhang, Ganger, Gibbons, Xing 2016 (GeePS), sections 4.2 and 4.3:
 * rows gathered and scattered by an index that was built once, pinned host
 * memory, copies behind the computation.
 */
#ifndef PS_SPACE_H
#define PS_SPACE_H

#include "base/fault.h"
#include "ps/rows/rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPACE_VERSION = 1, /* of struct space_ops: a plug-in's must be the same */
    SPACE_ALIGN = 256, /* bytes; of all that alloc and pinned_alloc give */
    SPACE_NAME_MAX = 64,
    SPACE_TEXT_MAX = 128,
    SPACE_DEVICES_MAX = 16,
    SPACE_SPANS_MAX = 12, /* of one struct space_call */
};

/* Error of a stream of the space, as sync and query return it: ERR_IO (the
 * device failed), ERR_INVAL (a number of a row beyond the table: `host` and
 * `fake` find it, `cuda` does not look), ERR_UNSUPPORTED (a rule or a call that
 * the space does not know), ERR_NOMEM. */

struct memory_space; /* each implementation's own; begins with its ops */
struct space_stream; /* likewise */
struct space_event;
struct space_nn_ops; /* layers of neural networks: apps/nn */

/* Memory of the space, bytes. */
struct space_memory {
    uint64_t total;  /* of the device */
    uint64_t free;   /* of the device, now; others use it as well */
    uint64_t limit;  /* what this space may take; UINT64_MAX: no limit */
    uint64_t used;   /* taken by alloc and not freed */
    uint64_t peak;   /* the most that `used` was */
    uint64_t pinned; /* host memory taken by pinned_alloc */
};

/* A device that could be opened. */
struct space_device {
    char name[SPACE_NAME_MAX];   /* "cuda:0" */
    char what[SPACE_TEXT_MAX];   /* "NVIDIA H100 80GB HBM3, sm_90" */
    char driver[SPACE_NAME_MAX]; /* "13.0", of the driver */
    uint64_t total, free;        /* bytes */
};

enum space_direction {
    SPACE_FROM_HOST, /* host to space */
    SPACE_TO_HOST,   /* space to host */
    SPACE_WITHIN,    /* space to space; the two do not overlap */
};

/* Rows of one table in the space, as the branch store has them: chunks of
 * chunk_rows rows, a row every @stride bytes. Or one chunk of all rows. */
struct space_rows {
    void *base;          /* in the space: the one chunk; NULL: see @chunk */
    void *const *chunk;  /* in the space: addresses, in the space, of the
                          * ceil(rows / chunk_rows) chunks, multiples of 16 */
    uint32_t chunk_rows; /* >= 1 */
    uint32_t stride; /* bytes, a multiple of 4 (of 8 where the type has 8) */
    uint64_t rows;   /* < 2^32 */
    /* In the space, [n]: numbers of rows, each below @rows; NULL: rows
     * @first .. @first + n - 1. */
    const uint32_t *index;
    uint64_t first;
};

/* One table's update: row i of @rows gets sum i by the rule, once. */
struct space_update {
    const struct rule_ops *rule;
    enum mlt_type type;
    uint32_t width;
    unsigned slots; /* as the rule's slots() gave for this table */
    struct rule_params params;
    uint32_t undecayed; /* as rule_apply */
    size_t n;
    struct space_rows rows; /* no row twice */
    const void *sum;        /* in the space: [n][width] */
    /* In the space: [n][width], as rule_batch.seen for each row; NULL: no
     * gradient has come since. */
    const void *seen;
};

/* A piece of the space's memory that a call reads or writes. */
struct space_span {
    void *at;
    size_t bytes;
};

/* A function of the host's over memory of the space, put into a stream: how
 * `host` and `fake` run what they have no kernel for (layers). */
struct space_call {
    enum err (*fn)(const void *arg,
                   struct fault *f); /* touches no other span */
    const void *arg;                 /* copied: @arg_bytes */
    size_t arg_bytes;
    struct space_span write[SPACE_SPANS_MAX]; /* those after the last: bytes 0;
                                               * it may read them too */
};

/* A library's handle that belongs to a stream: cuBLAS, cuDNN. All zero when the
 * stream is opened; closed with it, last first. */
struct space_handle {
    void *handle;
    void (*close)(void *handle);
};
enum { SPACE_HANDLES_MAX = 4 };

struct space_options {
    const char *plugin; /* path of the plug-in; NULL: where it is installed */
    int device;         /* number of the device: cuda:0 */
    uint64_t limit;     /* bytes that alloc may give together; 0: no limit */
    /* Of `fake`: */
    uint64_t total;       /* bytes of its memory; 0: 1 GiB */
    uint64_t seed;        /* of the order in which streams get on */
    uint64_t fails_after; /* work number that fails with ERR_IO; 0: none */
};

struct space_ops {
    unsigned version; /* SPACE_VERSION */
    const char *name; /* "host", "fake", "cuda" */

    /* Devices that there are, at most @max of them. Errors: ERR_UNSUPPORTED (no
     * driver, or one too old; the fault says which and what to do). */
    enum err (*devices)(struct space_device *out, size_t max, size_t *n,
                        struct fault *f);

    /* Errors: ERR_UNSUPPORTED (as devices), ERR_NOENT (no such device),
     * ERR_NOMEM, ERR_IO. */
    enum err (*open)(const struct space_options *o, struct memory_space **out,
                     struct fault *f);
    /* Every stream and event was closed and all memory freed. NULL allowed. */
    void (*close)(struct memory_space *s);
    enum err (*memory)(struct memory_space *s, struct space_memory *out,
                       struct fault *f);

    /* @bytes > 0, uninitialised. Errors: ERR_LIMIT (the space's limit or the
     * device's memory; the fault has sizes asked for, used, free, limit),
     * ERR_IO. Cost: a device's may wait for all its work: take large pieces. */
    enum err (*alloc)(struct memory_space *s, size_t bytes, void **out,
                      struct fault *f);
    /* @bytes as given to alloc. No work that touches it is left. NULL allowed.
     */
    void (*free)(struct memory_space *s, void *at, size_t bytes);
    /* Host memory that copies need not stage, uninitialised. Errors:
     * ERR_NOMEM, ERR_IO. */
    enum err (*pinned_alloc)(struct memory_space *s, size_t bytes, void **out,
                             struct fault *f);
    void (*pinned_free)(struct memory_space *s, void *at, size_t bytes);

    /* ---- streams and events ---------------------------------------------- */

    enum err (*stream_open)(struct memory_space *s, struct space_stream **out,
                            struct fault *f);
    /* Waits for its work, as sync does; what is left at the deadline
     * (DEADLINE_DEVICE_MS) is left to the device. NULL allowed. */
    void (*stream_close)(struct space_stream *st);
    /* Until all its work is done, at most @timeout_ms. Errors: ERR_TIMEOUT (may
     * be called again), that of the stream. */
    enum err (*stream_sync)(struct space_stream *st, int timeout_ms,
                            struct fault *f);
    /* Of the stream's work: ERR_AGAIN (some is not done), else as
     * stream_sync. */
    enum err (*stream_query)(struct space_stream *st, struct fault *f);

    enum err (*event_open)(struct memory_space *s, struct space_event **out,
                           struct fault *f);
    void (*event_close)(struct space_event *e);
    /* The event comes when what is in the stream now is done. An event may be
     * recorded again; then the last one counts. */
    void (*event_record)(struct space_stream *st, struct space_event *e);
    /* What is put into @st from now on waits for @e as it was last recorded. An
     * event that was never recorded has come. An error of its stream becomes
     * one of @st. */
    void (*event_wait)(struct space_stream *st, struct space_event *e);
    /* As stream_sync and stream_query, of what is before the event. */
    enum err (*event_sync)(struct space_event *e, int timeout_ms,
                           struct fault *f);
    enum err (*event_query)(struct space_event *e, struct fault *f);
    /* Nanoseconds of the device's clock from @from to @to, both come; 0 where
     * the space has no clock (`host`, `fake`). */
    uint64_t (*event_between)(struct space_event *from, struct space_event *to);

    /* ---- work: put into a stream ----------------------------------------- */

    void (*copy)(struct space_stream *st, void *to, const void *from,
                 size_t bytes, enum space_direction direction);
    /* @pattern of @pattern_bytes (1, 4 or 8) over and over; @bytes is a
     * multiple, and @at aligned to it. */
    void (*fill)(struct space_stream *st, void *at, size_t bytes,
                 uint64_t pattern, unsigned pattern_bytes);
    /* out[i] = the first @bytes of row i, i < n; @bytes a multiple of 4, at
     * most the stride. @out is dense, aligned to 4. */
    void (*gather)(struct space_stream *st, const struct space_rows *rows,
                   size_t n, size_t bytes, void *out);
    /* The first @bytes of row i = in[i]. No row twice. */
    void (*scatter)(struct space_stream *st, const struct space_rows *rows,
                    size_t n, size_t bytes, const void *in);
    /* row i += in[i], @width values; i32 wraps. A row may be there twice: then
     * the order of its sums is not said (`host`, `fake`: in order). */
    void (*add)(struct space_stream *st, const struct space_rows *rows,
                size_t n, enum mlt_type type, uint32_t width, const void *in);
    /* One launch. `host` gives the bits of the rule, `cuda` its values within
     * rounding. */
    void (*update)(struct space_stream *st, const struct space_update *u);
    /* ERR_UNSUPPORTED in the stream of a space that is no memory of the host's
     * (`cuda`). */
    void (*call)(struct space_stream *st, const struct space_call *c);

    /* ---- layers ---------------------------------------------------------- */

    /* Layers of this space; NULL: there are none here, `call` runs the host's.
     */
    const struct space_nn_ops *nn;
    /* The stream as the device's own library knows it (cudaStream_t); NULL in
     * `host` and `fake`. */
    void *(*stream_native)(struct space_stream *st);
    /* Handle number @i < SPACE_HANDLES_MAX of the stream: whoever finds it zero
     * may fill it. */
    struct space_handle *(*stream_handle)(struct space_stream *st, unsigned i);
    /* Makes @err the stream's error, if it has none: for work that is put by
     * stream_native. */
    void (*stream_fail)(struct space_stream *st, enum err err,
                        const char *text);
};

/* How each implementation's struct begins. */
struct memory_space {
    const struct space_ops *ops;
};
struct space_stream {
    struct memory_space *space;
};
struct space_event {
    struct memory_space *space;
};

/* What a plug-in exports. */
#define SPACE_PLUGIN_SYMBOL "mltune_space"

/* Address of row @i of @rows, where memory of the space is memory of this
 * process; NULL where its number is beyond the table. */
static inline void *space_row(const struct space_rows *rows, size_t i)
{
    uint64_t r = rows->index ? rows->index[i] : rows->first + i;
    char *chunk;

    if (r >= rows->rows)
        return NULL;
    if (rows->base)
        return (char *)rows->base + r * rows->stride;
    chunk = (char *)rows->chunk[r / rows->chunk_rows];
    return chunk + r % rows->chunk_rows * rows->stride;
}

#endif
