/* A piece of a stream's work as data, and the doing of it in memory of this
 * process: what `host` does at once and `fake` late. Pure.
 */
#ifndef PS_WORK_H
#define PS_WORK_H

#include "ps/space/space.h"

enum space_work_kind {
    WORK_COPY,
    WORK_FILL,
    WORK_GATHER,
    WORK_SCATTER,
    WORK_ADD,
    WORK_UPDATE,
    WORK_CALL
};

/* Members as the arguments of the operation of that name in struct space_ops;
 * all pointers borrowed. */
struct space_work {
    enum space_work_kind kind;
    union {
        struct {
            void *to;
            const void *from;
            size_t bytes;
            enum space_direction direction;
        } copy;
        struct {
            void *at;
            size_t bytes;
            uint64_t pattern;
            unsigned pattern_bytes;
        } fill;
        struct {
            struct space_rows rows;
            size_t n, bytes; /* bytes of a row that move */
            void *out;       /* of gather */
            const void *in;  /* of scatter and add */
            enum mlt_type type;
            uint32_t width;
        } move;
        struct space_update update;
        struct space_call call;
    };
};

/* Does it. Errors: ERR_INVAL (a row beyond the table: nothing was done), that
 * of a call. */
enum err work_run(const struct space_work *w, struct fault *f);

/* Calls @visit with each piece that the work writes, until it returns an error,
 * which is returned. A row beyond the table is ERR_INVAL. What the work reads
 * to know (indexes, addresses of chunks) must be there. */
typedef enum err work_visit(void *arg, void *at, size_t bytes, struct fault *f);
enum err work_writes(const struct space_work *w, work_visit *visit, void *arg,
                     struct fault *f);

/* The same of the dense pieces that it reads: an index, addresses of chunks,
 * a table that is one chunk, what comes in. They are known before it is done.
 */
enum err work_reads(const struct space_work *w, work_visit *visit, void *arg,
                    struct fault *f);

#endif
