/* CIFAR batches in the binary form (Krizhevsky 2009).
 *
 * Records of one label byte (CIFAR-10) or two (CIFAR-100: coarse and fine, of
 * which the fine one is taken), then 3 x 32 x 32 pixels: red, green, blue, each
 * row by row. Which of the two it is, the length says, in doubt CIFAR-10.
 */
#ifndef APPS_DATA_CIFAR_H
#define APPS_DATA_CIFAR_H

#include "apps/formats/data_idx.h"
#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CIFAR_SIDE = 32,
    CIFAR_CHANNELS = 3,
    CIFAR_PIXELS = CIFAR_CHANNELS * CIFAR_SIDE * CIFAR_SIDE
};

/* Whether @bytes (the beginning of a file) can be such records: the labels
 * that are in sight are below 10, or 20 and 100. */
bool cifar_sniff(const void *bytes, size_t len);

/* Appends the images of @s to @out, which is zeroed or has images of such files
 * already. On error @out is fit for images_deinit only. Errors: those of the
 * stream; ERR_FORMAT with file and byte (no whole records, a label too large,
 * CIFAR-10 behind CIFAR-100 or the reverse); ERR_LIMIT (memory beyond
 * @limit_bytes); ERR_NOMEM. */
enum err cifar_read(struct data_stream *s, uint64_t limit_bytes,
                    struct images *out, struct fault *f);

#endif
