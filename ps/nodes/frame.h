/* Frames: what the nodes of a parameter server say to each other, as bytes.
 *
 *     header (40 bytes)   fields of the kind   records, to the end
 *
 * Header: magic "MLTF", version, kind, type of the values, flags, bytes of the
 * whole frame, sender, run, sequence number, slice. All numbers little-endian.
 * A record is a row's number and, in some kinds, its values. docs/protocol.md
 * lists every kind.
 *
 * Sender, run and sequence belong to the link between two nodes and are put in
 * last (frame_stamp, ps/nodes/link.h); everything else is the sender's core's.
 *
 * Both sides check: an encoder asserts what a decoder refuses. Decoding reads
 * nothing past the given bytes, copies nothing and needs no alignment; what the
 * numbers mean (is there such a table?) is for whoever takes the frame. Pure.
 */
#ifndef PS_FRAME_H
#define PS_FRAME_H

#include "base/fault.h"
#include "mltune/ps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_VERSION = 9,
    FRAME_HEADER_BYTES = 40,
    FRAME_FIXED_BYTES_MAX = FRAME_HEADER_BYTES + 72,
    FRAME_BYTES_MAX = 64 << 20
};

/* Append-only: the numbers go over the wire. */
enum frame_kind {
    FRAME_HELLO = 1, /* who I am: nodes, workers, layout, options */
    FRAME_ACK,       /* through: all up to this sequence number came */
    FRAME_UPDATE,    /* table, worker, clock; through: of a stream, all rows
                      * below have left (ps/nodes/sum_stream.h), else 0; rows
                      * with sums */
    FRAME_CLOCK,     /* table (or all), worker, clock, seconds: it has ended;
                      * through: ROWS frames of this slice that had come */
    FRAME_READ,      /* table, worker, clock; rows */
    FRAME_ROWS,      /* table, worker, clock; rows with values: an answer, or of
                      * no worker: a push */
    FRAME_CLOCKS,    /* tables with the clock that is applied */
    FRAME_DRAIN,     /* worker, clock: has sent all of this slice */
    FRAME_DRAINED,   /* all workers' is applied */
    FRAME_FORK,      /* op, branch, parent, type */
    FRAME_FREE,      /* op, branch */
    FRAME_BEGIN,     /* op, branch, clock, staleness, quorum, rate, momentum,
                      * weight decay, rule, warm-up */
    FRAME_DONE,      /* op, code */
    FRAME_FITS,      /* fits: complete branches that its memory holds */
    FRAME_CUT,       /* end the slice soon */
    FRAME_HOLD,      /* begin no further clock, say how many were begun */
    FRAME_HELD,      /* clocks */
    FRAME_END,       /* clocks: run so many of the slice, and no more */
    FRAME_FAIL,      /* code: the slice has failed in a worker */
    FRAME_EXPECT,    /* table; rows that the node will touch, how often */
    FRAME_PLACED,    /* layout: of where rows lie now, in all tables */
    FRAME_TAKEN,     /* table, worker; through: sums of its stream that were
                      * taken since the start; of all tables: this slice has
                      * no limits */
    FRAME_APPLIED,   /* through: UPDATE frames of the node that are applied,
                      * since the start: rows that come after hold these, and no
                      * later sums of the tables that it is said for */
    FRAME_PASS,      /* op, layout: begins a loop's pass of this slice, which is
                      * described by that hash; ps/nodes/courier.h */
    FRAME_PART,      /* table, worker, op; through: events of that worker of
                      * which all rows have come, or 0; whole rows as words, or
                      * none */
    FRAME_TOTAL,     /* op; of each worker of the node, by its number, what it
                      * has gathered in the pass, which is over there */
    FRAME_KIND_COUNT
};

/* Values that the records carry behind the row's number. */
enum frame_values {
    FRAME_NOTHING,
    FRAME_F32,
    FRAME_I32,
    FRAME_F64,
    FRAME_F16, /* of an f32 table: ps/nodes/float16.h has the error bound */
    FRAME_I64, /* clocks */
    FRAME_VALUES_COUNT
};

enum {
    FRAME_HALF = 1,     /* flag of READ: answers and pushes as FRAME_F16 */
    FRAME_VERSIONS = 2, /* of UPDATE and ROWS: records carry a row's version
                         * (ps/nodes/revision.h) between number and values */
    FRAME_SHORT = 4, /* of READ, UPDATE, ROWS and EXPECT: rows' numbers have 4
                      * bytes in place of 8 */
    FRAME_FLAGS = FRAME_HALF | FRAME_VERSIONS | FRAME_SHORT /* all there are */
};

#define FRAME_ALL_TABLES UINT32_MAX
#define FRAME_NO_WORKER UINT32_MAX
#define FRAME_WARMUP_END (UINT64_C(1) << 53) /* warmup and warmed are below */

struct frame {
    enum frame_kind kind;
    enum frame_values values;
    unsigned flags;
    uint32_t from;     /* node */
    uint64_t run;      /* number of the run, the same on all its nodes */
    uint64_t sequence; /* 1, 2, ... from this node to that one */
    uint64_t slice;    /* 0 before the first */

    /* Fields; the kind says which are there. Others are 0. */
    uint32_t nodes, workers; /* workers: a node */
    uint64_t options;        /* hash of what all nodes are started with alike */
    uint64_t layout;         /* hash of all tables' layouts or permutations */
    uint64_t through;
    uint32_t table;  /* or FRAME_ALL_TABLES where the kind allows it */
    uint32_t worker; /* over all nodes */
    int64_t clock;
    double seconds;
    uint64_t op;
    uint32_t branch, parent, type;
    uint32_t staleness;
    uint32_t quorum; /* k of the model barrier, in place of its rule's; 0 */
    double learning_rate, momentum, weight_decay;
    uint32_t rule;           /* rule_params.rule */
    uint64_t warmup, warmed; /* rule_params.warmup, .warmed */
    uint32_t code;           /* enum err */
    uint64_t clocks;         /* of a slice */
    uint32_t fits;

    /* Records. Of a decoded frame borrowed from its bytes. */
    uint32_t width; /* values a record; 0 for FRAME_NOTHING */
    uint32_t count;
    const unsigned char *records;
};

/* FRAME_SHORT, where the numbers of @rows rows fit; else 0. */
unsigned frame_flags_of(uint64_t rows);

/* "update", "read", ...; "?" for what is no kind. Static storage. */
const char *frame_kind_name(unsigned kind);

/* Bytes of a record: the row's number, its version if it has one, and the
 * values. */
uint64_t frame_record_bytes(unsigned flags, enum frame_values values,
                            uint32_t width);

/* The form in which values of @type travel, as halves where asked for and
 * possible. */
enum frame_values frame_values_of(enum mlt_type type, bool half);

/* ---- writing ------------------------------------------------------------- */

struct frame_writer {
    unsigned char *bytes; /* borrowed */
    size_t room, len;
    enum frame_values values;
    uint32_t width, count;
    size_t count_at;
    unsigned flags;
};

/* Begins a frame in @bytes[room]: kind, flags, slice, fields, values and width
 * are taken from @f, records are not. @room >= FRAME_FIXED_BYTES_MAX. */
void frame_begin(struct frame_writer *w, const struct frame *f,
                 unsigned char *bytes, size_t room);

/* Adds a record; of a frame with FRAME_SHORT @row is below 2^32. @values: width
 * values of the type that FRAME_F16 comes from (f32) or the frame's own; NULL
 * for FRAME_NOTHING. False when there is no room for it; nothing changed then.
 */
bool frame_add(struct frame_writer *w, uint64_t row, const void *values);

/* Whether there is room for one more. */
bool frame_fits(const struct frame_writer *w);

/* As frame_add, for a frame with FRAME_VERSIONS. */
bool frame_add_version(struct frame_writer *w, uint64_t row, uint32_t version,
                       const void *values);

/* As frame_add or, with FRAME_VERSIONS, frame_add_version, but the caller
 * writes the values itself: @width of the frame's type, not FRAME_F16, at the
 * place that is returned, which may lie on any byte. NULL: no room. */
void *frame_add_place(struct frame_writer *w, uint64_t row, uint32_t version);

/* Of a kind that has it: `through`, which may be known only now. */
void frame_set_through(struct frame_writer *w, uint64_t through);

/* Completes the header; returns the frame's bytes. */
size_t frame_end(struct frame_writer *w);

/* Puts what belongs to the link into a complete frame. */
void frame_stamp(unsigned char *bytes, uint32_t from, uint64_t run,
                 uint64_t sequence);

/* ---- reading ------------------------------------------------------------- */

/* Errors: ERR_FORMAT (no frame, cut off, longer than it says, a kind, type or
 * flag that there is not), ERR_VERSION; in words, with the offset, in @fault.
 * @out borrows @bytes. */
enum err frame_decode(const unsigned char *bytes, size_t n, struct frame *out,
                      struct fault *fault);

/* Whether @bytes, which frame_decode refused with ERR_VERSION, are of node
 * @from of run @run all the same: the header's beginning is that of all
 * versions. */
bool frame_is_of_run(const unsigned char *bytes, size_t n, uint64_t run,
                     uint32_t *from);

/* Record @i < f->count: the row's number. */
uint64_t frame_row(const struct frame *f, uint32_t i);

/* Its version; 0 of a frame without FRAME_VERSIONS. */
uint32_t frame_row_version(const struct frame *f, uint32_t i);

/* Its values, FRAME_F16 as f32: @out[width]. */
void frame_row_values(const struct frame *f, uint32_t i, void *out);

/* As above without copying: the place where they lie in the frame's bytes or,
 * where that is no place for the type (FRAME_F16, an odd address), in
 * @scratch[width]. */
const void *frame_row_place(const struct frame *f, uint32_t i, void *scratch);

#endif
