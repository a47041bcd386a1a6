/* Images with labels, and the parser of the IDX format (LeCun's MNIST files).
 *
 * An IDX file is two zero bytes, the type (0x08: unsigned bytes, the only one
 * read here), the number of dimensions, the dimensions as big-endian 32-bit
 * numbers, and the bytes, nothing behind them. One dimension: labels; two to
 * four: images, one along the first dimension.
 */
#ifndef APPS_DATA_IDX_H
#define APPS_DATA_IDX_H

#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IDX_DIMS_MAX = 4 };

struct idx_array {
    uint32_t dims;
    uint64_t dim[IDX_DIMS_MAX]; /* unused ones are 1 */
    uint8_t *bytes;             /* [dim[0] * ... * dim[3]]: owned */
};

struct images {
    uint64_t count;
    uint64_t rows, cols, depth; /* depth: channels of a pixel */
    uint8_t *pixel;             /* [count][depth][rows][cols]: owned */
    uint8_t *label;             /* [count]: owned */
    unsigned classes;           /* largest label + 1 */
};

void idx_array_deinit(struct idx_array *a);
void images_deinit(struct images *im);

/* Values an image. */
uint64_t images_width(const struct images *im);

/* Whether @bytes (the beginning of a file) start an IDX file; then *@dims is
 * the number of its dimensions. */
bool idx_sniff(const void *bytes, size_t len, unsigned *dims);

/* Reads the whole of @s. Errors: those of the stream; ERR_FORMAT with the byte
 * offset in @f; ERR_UNSUPPORTED (a type other than 0x08); ERR_LIMIT (memory
 * beyond @limit_bytes); ERR_NOMEM. Memory grows with what was really read, not
 * with what the header says. */
enum err idx_read(struct data_stream *s, uint64_t limit_bytes,
                  struct idx_array *out, struct fault *f);

/* Joins images and labels. On success both arrays' bytes are transferred to
 * @out and the arrays are zeroed; a fourth dimension is taken for the channels
 * of a pixel. Errors: ERR_FORMAT (counts differ, no image, wrong dimensions),
 * naming the two files; ERR_NOMEM. */
enum err images_join(struct idx_array *pixels, const char *pixels_name,
                     struct idx_array *labels, const char *labels_name,
                     struct images *out, struct fault *f);

#endif
