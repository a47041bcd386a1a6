/* The control protocol: what tuner and training system say to each other.
 *
 * One JSON object a message, at most PROTO_BYTES_MAX bytes, over ZeroMQ
 * ROUTER (tuner) and DEALER (node); docs/protocol.md lists every field. This
 * module turns bytes into `struct msg` and back and checks everything on the
 * way: unknown kinds, missing or mistyped members, counts out of bounds. Any
 * text it encodes decodes to the same message (bytes of a reason that are no
 * UTF-8 become '?'). Members that it does not know are passed over, so that a
 * later version may add some.
 *
 * Rules of the conversation:
 *  - every request carries `op`, a number that grows; the answer repeats it;
 *  - operations arrive and are carried out in clock order; a `fork` is answered
 *    at once (memory reserved), although it takes effect after the slices that
 *    were scheduled before it;
 *  - clocks are numbered globally; each belongs to exactly one branch; `first`
 *    of a schedule is the number after the last one scheduled, and numbers that
 *    a cut slice did not use are skipped;
 *  - `report` windows of one slice come in order and without gaps; `done` for
 *    the schedule comes after its last report.
 */
#ifndef BASE_PROTO_H
#define BASE_PROTO_H

#include "base/fault.h"
#include "base/json/fields.h"
#include "base/proto/branch.h"
#include "base/proto/extras.h"
#include "base/proto/staleness.h"
#include "base/proto/window.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROTO_VERSION = 1,
    PROTO_BYTES_MAX = 4 * 1024 * 1024,
    PROTO_WINDOWS_MAX = 1000, /* report entries a slice */
    PROTO_TEXT_MAX = 1024,    /* reasons */
    PROTO_PATH_MAX = 1024,
    PROTO_ROWS_MAX = 1024, /* rows a `rows` request */
    PROTO_NAME_MAX = 64,   /* bytes of a tunable's or table's name */
    PROTO_TUNABLES_MAX = 64,
    PROTO_HELD_MAX = 64, /* branches whose memory a beat tells */
};

typedef uint64_t op_id;

/* Name in messages, enumerator. From the tuner, then to the tuner. */
#define MSG_LIST(X)                                                            \
    X(CONFIG, "config")                                                        \
    X(FORK, "fork")                                                            \
    X(FREE, "free")                                                            \
    X(SCHEDULE, "schedule")                                                    \
    X(CUT, "cut")                                                              \
    X(HOLD, "hold")                                                            \
    X(SNAPSHOT, "snapshot")                                                    \
    X(RESTORE, "restore")                                                      \
    X(SAVE, "save")                                                            \
    X(ROWS, "rows")                                                            \
    X(STOP, "stop")                                                            \
    X(HELLO, "hello")                                                          \
    X(READY, "ready")                                                          \
    X(FORKED, "forked")                                                        \
    X(DONE, "done")                                                            \
    X(FAILED, "failed")                                                        \
    X(REPORT, "report")                                                        \
    X(BEAT, "beat")

enum msg_kind {
#define MSG_ENUM(name, text) MSG_##name,
    MSG_LIST(MSG_ENUM)
#undef MSG_ENUM
        MSG_KIND_COUNT
};

/* The configuration that the training system is to load: answered by `ready` or
 * `failed`. */
struct msg_config {
    json_t *config; /* owned: the validated run configuration, whole */
    char *folder;   /* owned: absolute; where relative paths start */
    uint64_t seed;
    char *keep; /* owned, or NULL: the folder for what a model will need of the
                 * data; node 0 makes it */
    uint32_t goes_on;    /* 1: the run began before, with this configuration */
    uint32_t other_data; /* 1: it goes on whatever the data are */
};

struct msg_fork {
    branch_id branch, parent;
    enum branch_type type;
    json_t *setting; /* owned: tunable name -> number or string; {} for kept */
};

struct msg_free {
    branch_id branch;
};

struct msg_schedule {
    branch_id branch;
    clock_no first;        /* global number of the slice's first clock */
    uint64_t count;        /* clocks, >= 1 */
    uint64_t report_every; /* clocks a report window, >= 1; the last window of
                            * a slice may hold fewer */
};

/* Ends the slice of schedule `target` at the next clock; one that has not begun
 * ends with no clock run. Answered `done` at once; the slice's own `done`
 * follows. One that comes too late changes nothing. */
struct msg_cut {
    op_id target;
    uint64_t clocks; /* of a slice that was held: run that many, then end; 0,
                      * which is left out: begin no further one */
};

/* Several processes that leave it to the tuner where a slice ends: begins no
 * further clock of the slice of schedule `target`, until a `cut` says how many
 * there are. Answered at once, `done` with the clocks that were begun. */
struct msg_hold {
    op_id target;
};

/* snapshot: writes branch (kept or init) to the folder path; restore: the
 * reverse, as a new kept branch; save: the model's tables as .npy files. */
struct msg_path {
    branch_id branch;
    char path[PROTO_PATH_MAX];
};

/* Reads rows, or has the table's rule take increments of them. A read may be
 * answered between two clocks of a slice; else it waits for its turn. */
struct msg_rows {
    branch_id branch;
    char table[65];
    uint64_t first;
    uint32_t count;    /* 1 .. PROTO_ROWS_MAX */
    uint32_t from;     /* first value that is read of each */
    uint32_t values;   /* how many of each; 0: to its end */
    json_t *increment; /* owned: array of count arrays, or NULL to read */
};

struct msg_stop {
    char reason[PROTO_TEXT_MAX];
};

/* First message of a node. */
struct msg_hello {
    uint32_t version; /* PROTO_VERSION */
    uint32_t node;
    uint32_t workers;
    int64_t pid; /* 0: unknown */
};

/* The one who sees to it that all processes end a cut slice after the same
 * clock. */
enum proto_cuts {
    CUTS_UNSAID, /* not told: one process needs nobody */
    CUTS_OWN,    /* they themselves */
    CUTS_AGREED, /* the tuner, by `hold` */
    CUTS_COUNT
};

/* The training system is loaded: what the tuner has to know about it. Branch 0
 * (init) exists. */
struct msg_ready {
    uint64_t samples;            /* training samples an epoch, all nodes */
    uint64_t validation_samples; /* 0: no validation */
    uint64_t parts;              /* > 0: an epoch is that many clocks, whatever
                                  * the batch size; 0: clocks are batches */
    uint32_t workers;            /* over all nodes */
    json_t *tunables;            /* owned: array of names that can act */
    json_t *metrics; /* owned: names of further metrics, as far as they are
                      * known; NULL: none */
    char metric[33]; /* "" without one */
    bool metric_higher_better;
    char metric_reduction[16]; /* "mean", "sqrt_mean", "exp_mean", "whole" */
    double loss_floor;         /* NAN: unknown */
    uint64_t model_bytes;      /* worst case of one branch, all shards */
    json_t *
        tables; /* owned: array as in base/proto/table_info.h; NULL: not told */
    json_t *data;         /* owned: what the training samples hold; NULL: not
                           * told */
    json_t *files;        /* owned: what the data were read from, as in
                           * base/proto/data_list.h; NULL: not told */
    enum proto_cuts cuts; /* left out where it is CUTS_UNSAID */
};

struct msg_forked {
    branch_id branch;
};

/* An operation has been carried out (free, schedule, snapshot, ...). */
struct msg_done {
    branch_id branch; /* BRANCH_NONE where none is concerned */
    uint64_t clocks;  /* schedule: clocks run (fewer than asked when cut) */
    double switch_s;  /* schedule: time from the slice's turn to its first clock
                       * and from its last clock to its end */
    uint64_t bytes;   /* snapshot, save: written */
    /* schedule: sent to other nodes; reads whose staleness is known, and its
     * mean (base/proto/staleness.h; 0 where there are none). */
    uint64_t data_bytes, reads;
    double staleness;
    json_t *data; /* owned or NULL: rows: array of arrays; save: object for
                   * model.json */
};

/* An operation failed and changed nothing, or (op 0) the node itself did. */
struct msg_failed {
    branch_id branch; /* BRANCH_NONE where none is concerned */
    enum err code;
    char reason[PROTO_TEXT_MAX];
    bool partly; /* not on the wire: some nodes have carried it out all the same
                  * (tuner/shell/node_group.h) */
};

/* One entry a window of report_every clocks. */
struct msg_report {
    branch_id branch;
    clock_no first; /* global clock of the first window's first clock */
    uint32_t windows;
    struct progress_window *window; /* owned: [windows] */
    json_t *values; /* owned: columns of further metrics (extras.h); of a
                     * testing branch, of its validation; NULL: none */
};

/* Memory of one branch: chunks that others refer to as well, and its own. */
struct msg_held {
    branch_id branch;
    uint64_t shared_bytes, private_bytes;
};

/* Once a second. What grows counts from the node's start. */
struct msg_beat {
    uint32_t node;
    uint32_t workers; /* 0: not known */
    uint64_t memory_bytes, memory_reserved_bytes, memory_limit_bytes;
    uint64_t memory_saved_bytes; /* more would all branches take, each alone */
    /* Of a device, where tables lie on one: taken, and what may be; what came
     * and went; leases whose table was not on its way yet. */
    uint64_t device_bytes, device_limit_bytes;
    uint64_t device_bytes_in, device_bytes_out, device_waits;
    uint64_t chunks_shared, chunks_private, bytes_copied;
    uint64_t bytes_sent, bytes_received; /* control messages */
    uint32_t branches;
    uint64_t clocks; /* finished by this process; 0: it does not say */
    /* Times of slices, as windows have them. */
    double seconds, wait_s, copy_s, stalled_s;
    /* Between nodes, as ps/nodes/traffic.h counts; rows_early and
     * rows_pushed_early over all priorities. */
    uint64_t data_bytes_sent, data_bytes_received;
    uint64_t data_frames_sent, data_frames_received, data_frames_ignored;
    uint64_t rows_updated, rows_asked, rows_got;
    uint64_t rows_due, rows_early, rows_answered, rows_pushed;
    uint64_t rows_pushed_early, bytes_charged, overused, early_suspended;
    double client_wait_s, server_wait_s; /* for the bandwidth budget */
    struct staleness staleness;
    /* The live branches with most memory of their own, by number. */
    uint32_t held;
    struct msg_held hold[PROTO_HELD_MAX];
};

struct msg {
    enum msg_kind kind;
    op_id op; /* 0 where the message is no operation and no answer; a report's
               * is that of its schedule */
    union {
        struct msg_config config;
        struct msg_fork fork;
        struct msg_free free;
        struct msg_schedule schedule;
        struct msg_cut cut;
        struct msg_hold hold;
        struct msg_path snapshot;
        struct msg_path restore;
        struct msg_path save;
        struct msg_rows rows;
        struct msg_stop stop;
        struct msg_hello hello;
        struct msg_ready ready;
        struct msg_forked forked;
        struct msg_done done;
        struct msg_failed failed;
        struct msg_report report;
        struct msg_beat beat;
    };
};

const char *msg_kind_name(enum msg_kind kind);

/* The kind that @text[@len] (NULL: none) says it is, whatever else is wrong
 * with it; MSG_KIND_COUNT: none. */
enum msg_kind msg_kind_of(const char *text, size_t len);

/* Text of @m, one line, at most PROTO_BYTES_MAX; owned by the caller
 * (mem_free). Non-finite numbers become the strings "nan", "inf", "-inf".
 * Errors: ERR_NOMEM, ERR_LIMIT (too long), ERR_INVAL (a member out of its
 * bounds). */
enum err msg_encode(const struct msg *m, char **text, size_t *len);

/* Message from @len bytes. On success the caller owns @out's members
 * (msg_deinit). Errors: ERR_PROTO with the member and what was expected in @f;
 * ERR_LIMIT, ERR_NOMEM (but jansson's own reader aborts the program). */
enum err msg_decode(const char *text, size_t len, struct msg *out,
                    struct fault *f);

/* The members of a beat (struct msg_beat), for those who keep them. */
extern const struct json_field msg_beat_fields[];

/* The hello that @m is, a part of it; NULL: it is something else. */
struct msg_hello *msg_hello(struct msg *m);

/* Releases owned members; accepts a zeroed message. */
void msg_deinit(struct msg *m);

#endif
