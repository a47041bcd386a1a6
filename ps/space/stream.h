/* What the streams of `host` and `fake` have in common: work is put as data
 * (ps/space/work.h), and the first error stays. Pure.
 */
#ifndef PS_STREAM_H
#define PS_STREAM_H

#include "ps/space/space.h"
#include "ps/space/work.h"

struct work_stream {
    struct space_stream base;
    void (*put)(struct work_stream *st, const struct space_work *w);
    /* The first error; code ERR_OK: none. Whoever's thread works guards it. */
    struct fault error;
    struct space_handle handle[SPACE_HANDLES_MAX];
};

void stream_init(struct work_stream *st, struct memory_space *s,
                 void (*put)(struct work_stream *, const struct space_work *));
/* Closes handles. */
void stream_deinit(struct work_stream *st);

/* Makes @why the error, if there is none. */
void stream_spoil(struct work_stream *st, const struct fault *why);

/* The stream's error, copied to @f. */
enum err stream_error(const struct work_stream *st, struct fault *f);

/* The operations of struct space_ops that put work. */
void stream_copy(struct space_stream *st, void *to, const void *from,
                 size_t bytes, enum space_direction direction);
void stream_fill(struct space_stream *st, void *at, size_t bytes,
                 uint64_t pattern, unsigned pattern_bytes);
void stream_gather(struct space_stream *st, const struct space_rows *rows,
                   size_t n, size_t bytes, void *out);
void stream_scatter(struct space_stream *st, const struct space_rows *rows,
                    size_t n, size_t bytes, const void *in);
void stream_add(struct space_stream *st, const struct space_rows *rows,
                size_t n, enum mlt_type type, uint32_t width, const void *in);
void stream_update(struct space_stream *st, const struct space_update *u);
void stream_call(struct space_stream *st, const struct space_call *c);
struct space_handle *stream_handle(struct space_stream *st, unsigned i);
void *stream_native(struct space_stream *st); /* NULL */

#endif
