/* NumPy's array files (.npy): two-dimensional arrays of f32, i32, f64
 * and i64.
 *
 * Written as format version 1.0, little-endian, in C order; read in versions
 * 1.0 to 3.0 with the same restrictions, and arrays of one dimension as one
 * column. A file is written under a temporary name (`PATH.tmp`), synced, and
 * renamed: it is whole or it is not there.
 *
 * Source: numpy.lib.format, "NPY format".
 */
#ifndef BASE_NPY_IO_H
#define BASE_NPY_IO_H

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum npy_type { NPY_F32, NPY_I32, NPY_F64, NPY_I64 };

struct npy_info {
    enum npy_type type;
    uint64_t rows, cols; /* product times the type's size < 2^62 */
};

/* "float32", "int32", "float64", "int64". Static storage. */
const char *npy_type_name(enum npy_type type);
size_t npy_type_bytes(enum npy_type type);

struct npy_writer;

/* Begins @path. Errors: ERR_IO, ERR_NOMEM, with the path in @f. */
enum err npy_create(const char *path, const struct npy_info *info,
                    struct npy_writer **out, struct fault *f);

/* Appends @bytes of values in row order. Errors: ERR_IO; the file is to be
 * aborted then. More bytes than the shape has is a programmer's error. */
enum err npy_write(struct npy_writer *w, const void *values, size_t bytes,
                   struct fault *f);

/* Finishes the file under its name; asserts that all values were written.
 * Releases @w, also on error (then no file is left). @bytes (may be NULL): the
 * file's size. */
enum err npy_commit(struct npy_writer *w, uint64_t *bytes, struct fault *f);

/* Gives the file up. Accepts NULL. */
void npy_abort(struct npy_writer *w);

struct npy_reader;

/* Opens @path and checks its header and length. Errors: ERR_IO, ERR_NOMEM,
 * ERR_FORMAT (not such a file, damaged, truncated, too long, big-endian,
 * Fortran order, another type, more dimensions), with path and place in @f. */
enum err npy_open(const char *path, struct npy_info *info,
                  struct npy_reader **out, struct fault *f);

/* The next @bytes of values. Errors: ERR_IO, ERR_FORMAT (past the end). */
enum err npy_read(struct npy_reader *r, void *values, size_t bytes,
                  struct fault *f);
void npy_close(struct npy_reader *r);

/* The header alone, from the first @size bytes of a file; @offset is where the
 * values begin. What npy_open does after reading. Errors: ERR_FORMAT. */
enum { NPY_HEADER_MAX = 4096, NPY_OWN_HEADER_MAX = 256 };
enum err npy_parse_header(const unsigned char *bytes, size_t size,
                          struct npy_info *info, size_t *offset,
                          struct fault *f);

/* The header that npy_create writes, padded so that the values begin at a
 * multiple of 64: @out[NPY_OWN_HEADER_MAX]; returns its length. */
size_t npy_put_header(char *out, const struct npy_info *info);

#endif
