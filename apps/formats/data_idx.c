#include "apps/formats/data_idx.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    IDX_UBYTE = 0x08,
    IDX_FIRST_BYTES = 1 << 20, /* read before the array starts to double */
};

void idx_array_deinit(struct idx_array *a)
{
    mem_free(a->bytes);
    memset(a, 0, sizeof(*a));
}

void images_deinit(struct images *im)
{
    mem_free(im->pixel);
    mem_free(im->label);
    memset(im, 0, sizeof(*im));
}

uint64_t images_width(const struct images *im)
{
    return im->rows * im->cols * im->depth;
}

static bool known_type(uint8_t type)
{
    return type == 0x08 || type == 0x09 || (type >= 0x0B && type <= 0x0E);
}

bool idx_sniff(const void *bytes, size_t len, unsigned *dims)
{
    const uint8_t *b = bytes;

    if (len < 4 || b[0] != 0 || b[1] != 0 || !known_type(b[2]) || b[3] < 1 ||
        b[3] > IDX_DIMS_MAX)
        return false;
    *dims = b[3];
    return true;
}

/* @n bytes of the header, or an error that says where they end. */
static enum err header_bytes(struct data_stream *s, uint8_t *to, size_t n,
                             struct fault *f)
{
    uint64_t at = data_stream_offset(s);
    size_t got;
    enum err err = data_stream_read(s, to, n, &got, f);

    if (err || got == n)
        return err;
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %" PRIu64 ": expected %zu bytes of an IDX "
                     "header, found the end of the file",
                     data_stream_name(s), at + got, n - got);
}

static enum err read_magic(struct data_stream *s, uint32_t *dims,
                           struct fault *f)
{
    uint8_t b[4];
    enum err err = header_bytes(s, b, sizeof(b), f);

    if (err)
        return err;
    if (b[0] != 0 || b[1] != 0 || !known_type(b[2]))
        return fault_set(f, ERR_FORMAT,
                         "%s: byte 0: expected an IDX header (00 00 08 and the "
                         "number of dimensions), found %02x %02x %02x %02x",
                         data_stream_name(s), b[0], b[1], b[2], b[3]);
    if (b[2] != IDX_UBYTE)
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: byte 2: expected IDX type 08 (unsigned bytes), "
                         "found type %02x",
                         data_stream_name(s), b[2]);
    if (b[3] < 1 || b[3] > IDX_DIMS_MAX)
        return fault_set(f, ERR_FORMAT,
                         "%s: byte 3: expected 1 to %d dimensions, found %u",
                         data_stream_name(s), IDX_DIMS_MAX, b[3]);
    *dims = b[3];
    return ERR_OK;
}

/* The dimensions and their product, none of them 0. */
static enum err read_dims(struct data_stream *s, struct idx_array *a,
                          uint64_t *total, struct fault *f)
{
    unsigned i;
    enum err err;

    *total = 1;
    for (i = 0; i < IDX_DIMS_MAX; i++)
        a->dim[i] = 1;
    for (i = 0; i < a->dims; i++) {
        uint64_t at = data_stream_offset(s);
        uint8_t b[4];

        err = header_bytes(s, b, sizeof(b), f);
        if (err)
            return err;
        a->dim[i] = (uint64_t)b[0] << 24 | (uint64_t)b[1] << 16 |
                    (uint64_t)b[2] << 8 | b[3];
        if (a->dim[i] == 0 || a->dim[i] > UINT64_MAX / 2 / *total)
            return fault_set(f, ERR_FORMAT,
                             "%s: byte %" PRIu64 ": expected a dimension of at "
                             "least 1 (and a size below 2^63), found %" PRIu64,
                             data_stream_name(s), at, a->dim[i]);
        *total *= a->dim[i];
    }
    return ERR_OK;
}

static enum err short_data(struct data_stream *s, uint64_t missing,
                           struct fault *f)
{
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %" PRIu64 ": expected %" PRIu64
                     " more bytes that the IDX header announces, found the end "
                     "of the file",
                     data_stream_name(s), data_stream_offset(s), missing);
}

static enum err read_bytes(struct data_stream *s, uint64_t total,
                           struct idx_array *a, struct fault *f)
{
    uint64_t capacity = total < IDX_FIRST_BYTES ? total : IDX_FIRST_BYTES;
    uint64_t len = 0;
    size_t got;
    enum err err;

    while (len < total) {
        uint8_t *grown;

        if (len == capacity)
            capacity = capacity > total / 2 ? total : 2 * capacity;
        grown = mem_realloc(a->bytes, capacity);
        if (!grown)
            return fault_set(f, ERR_NOMEM, "%s: out of memory",
                             data_stream_name(s));
        a->bytes = grown;
        err = data_stream_read(s, a->bytes + len, capacity - len, &got, f);
        if (err)
            return err;
        if (got == 0)
            return short_data(s, total - len, f);
        len += got;
    }
    return ERR_OK;
}

static enum err expect_end(struct data_stream *s, struct fault *f)
{
    uint64_t at = data_stream_offset(s);
    uint8_t byte;
    size_t got;
    enum err err = data_stream_read(s, &byte, 1, &got, f);

    if (err || got == 0)
        return err;
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %" PRIu64 ": expected the end of the IDX data "
                     "that the header announces, found more",
                     data_stream_name(s), at);
}

enum err idx_read(struct data_stream *s, uint64_t limit_bytes,
                  struct idx_array *out, struct fault *f)
{
    struct idx_array a = {0};
    uint64_t total;
    enum err err;

    err = read_magic(s, &a.dims, f);
    if (!err)
        err = read_dims(s, &a, &total, f);
    if (!err)
        err = data_memory_check(data_stream_name(s), total, limit_bytes, f);
    if (!err)
        err = read_bytes(s, total, &a, f);
    if (!err)
        err = expect_end(s, f);
    if (err) {
        idx_array_deinit(&a);
        return err;
    }
    *out = a;
    return ERR_OK;
}

static unsigned largest_label(const struct idx_array *labels)
{
    unsigned largest = 0;
    uint64_t i;

    for (i = 0; i < labels->dim[0]; i++)
        largest = labels->bytes[i] > largest ? labels->bytes[i] : largest;
    return largest;
}

/* From channels last to channels first. */
static enum err make_planar(struct images *im)
{
    uint64_t width = images_width(im), points = im->rows * im->cols;
    uint64_t i, p, c;
    uint8_t *one;

    if (im->depth == 1)
        return ERR_OK;
    one = mem_alloc(width);
    if (!one)
        return ERR_NOMEM;
    for (i = 0; i < im->count; i++) {
        uint8_t *image = im->pixel + i * width;

        memcpy(one, image, width);
        for (p = 0; p < points; p++) {
            for (c = 0; c < im->depth; c++)
                image[c * points + p] = one[p * im->depth + c];
        }
    }
    mem_free(one);
    return ERR_OK;
}

enum err images_join(struct idx_array *pixels, const char *pixels_name,
                     struct idx_array *labels, const char *labels_name,
                     struct images *out, struct fault *f)
{
    struct images made;

    if (pixels->dims < 2)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected images (an IDX file of 2 to 4 "
                         "dimensions), found 1 dimension",
                         pixels_name);
    if (labels->dims != 1)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected labels (an IDX file of 1 dimension), "
                         "found %" PRIu32 " dimensions",
                         labels_name, labels->dims);
    if (pixels->dim[0] != labels->dim[0])
        return fault_set(f, ERR_FORMAT,
                         "%s: expected as many images as %s has labels "
                         "(%" PRIu64 "), found %" PRIu64,
                         pixels_name, labels_name, labels->dim[0],
                         pixels->dim[0]);
    made = (struct images){.count = pixels->dim[0],
                           .rows = pixels->dim[1],
                           .cols = pixels->dim[2],
                           .depth = pixels->dim[3],
                           .pixel = pixels->bytes,
                           .label = labels->bytes,
                           .classes = largest_label(labels) + 1};
    if (make_planar(&made))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", pixels_name);
    *out = made;
    memset(pixels, 0, sizeof(*pixels));
    memset(labels, 0, sizeof(*labels));
    return ERR_OK;
}
