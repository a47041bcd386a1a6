/* A data file as a stream of plain bytes, decompressed on the way.
 *
 * gzip and xz are recognised by their first bytes, whatever the file is called;
 * concatenated members and streams follow one another as gzip(1) and xz(1) have
 * it. Compressed data that end early or fail their check sum are an error, as
 * is anything but padding behind them. Other well-known compressions are
 * refused by name.
 *
 * Nothing is cut: what bounds memory is what the reader keeps of the bytes
 * (data_memory_limit). One owner thread at a time.
 */
#ifndef APPS_DATA_STREAM_H
#define APPS_DATA_STREAM_H

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

struct data_stream;

/* Opens the regular file @path. Errors: ERR_NOENT, ERR_IO, ERR_INVAL (no
 * regular file), ERR_UNSUPPORTED (bzip2, zstd, zip, lz4, compress), ERR_NOMEM;
 * @f names the path. */
enum err data_stream_open(const char *path, struct data_stream **out,
                          struct fault *f);

/* Opens @len bytes in memory (borrowed until the close) that errors
 * call @name (copied). */
enum err data_stream_memory(const char *name, const void *bytes, size_t len,
                            struct data_stream **out, struct fault *f);

/* Accepts NULL. */
void data_stream_close(struct data_stream *s);

/* Fills @buf with the next bytes: exactly @cap of them unless the stream ends;
 * *@n == 0 says that it has ended. Errors: ERR_IO, ERR_FORMAT (damaged or
 * truncated compressed data, with the offset in the file), ERR_NOMEM. */
enum err data_stream_read(struct data_stream *s, void *buf, size_t cap,
                          size_t *n, struct fault *f);

/* The file is looked at only, to tell what it is: it does not count as one that
 * the data were read from (base/files_read.h). */
void data_stream_glance(struct data_stream *s);

/* Bytes worth asking for at once: @most, or where fewer are left and that is
 * known (plain bytes in memory) one more than there are. 1 .. @most. */
size_t data_stream_portion(const struct data_stream *s, size_t most);

/* Name of the stream in errors: the path as given. */
const char *data_stream_name(const struct data_stream *s);

/* Plain bytes handed out so far. */
uint64_t data_stream_offset(const struct data_stream *s);

/* All data of this process together are to take at most @bytes more than it
 * holds now (0: half of what the machine has left): to be said before anything
 * is loaded, by the one thread that loads. */
void data_memory_allow(uint64_t bytes);

/* What a user raises that limit by, in faults: @name (borrowed, static) in
 * place of "memory.limit". */
void data_memory_name(const char *name);

/* Bytes that a loader may keep: nine tenths of what the machine (and the
 * control group) has left now, or what is left of those that are allowed. */
uint64_t data_memory_limit(void);

/* ERR_LIMIT with a text that says what @what needs and what there is, when
 * @bytes exceed @limit. */
enum err data_memory_check(const char *what, uint64_t bytes, uint64_t limit,
                           struct fault *f);

#endif
