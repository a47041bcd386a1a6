#include "apps/formats/data_cifar.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES_10 = 10, CLASSES_100 = 100, COARSE = 20 };
enum { LABELS_MAX = 2, FIRST_BYTES = 1 << 20 };

/* A whole file. */
struct file_bytes {
    uint8_t *bytes; /* owned */
    size_t len, capacity;
};

static bool labels_fit(const uint8_t *record, size_t labels)
{
    return labels == 1 ? record[0] < CLASSES_10
                       : record[0] < COARSE && record[1] < CLASSES_100;
}

bool cifar_sniff(const void *bytes, size_t len)
{
    const uint8_t *b = bytes;
    size_t labels;

    for (labels = 1; labels <= LABELS_MAX; labels++) {
        size_t record = labels + CIFAR_PIXELS, at = 0;

        while (at + labels <= len && labels_fit(b + at, labels))
            at += record;
        if (at > 0 && at + labels > len)
            return true;
    }
    return false;
}

static enum err read_file(struct data_stream *s, uint64_t limit_bytes,
                          struct file_bytes *out, struct fault *f)
{
    const char *name = data_stream_name(s);
    size_t got;
    enum err err;

    do {
        size_t need =
            out->len ? 2 * out->len : data_stream_portion(s, FIRST_BYTES);

        err = data_memory_check(name, need, limit_bytes, f);
        if (err)
            return err;
        if (mem_grow((void **)&out->bytes, &out->capacity, 1, need))
            return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
        err = data_stream_read(s, out->bytes + out->len,
                               out->capacity - out->len, &got, f);
        if (err)
            return err;
        out->len += got;
    } while (out->len == out->capacity);
    return ERR_OK;
}

/* Label bytes of a record in a file of @len bytes. */
static enum err find_labels(const char *name, size_t len, size_t *labels,
                            struct fault *f)
{
    for (*labels = 1; *labels <= LABELS_MAX; (*labels)++) {
        if (len > 0 && len % (*labels + CIFAR_PIXELS) == 0)
            return ERR_OK;
    }
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %zu: expected whole CIFAR records of %d or %d "
                     "bytes, found the end of the file",
                     name, len, 1 + CIFAR_PIXELS, LABELS_MAX + CIFAR_PIXELS);
}

static enum err check_labels(const char *name, const struct file_bytes *file,
                             size_t labels, struct fault *f)
{
    size_t at;

    for (at = 0; at < file->len; at += labels + CIFAR_PIXELS) {
        if (labels_fit(file->bytes + at, labels))
            continue;
        if (labels == 1)
            return fault_set(f, ERR_FORMAT,
                             "%s: byte %zu: expected a label below %d, found "
                             "%u",
                             name, at, CLASSES_10, file->bytes[at]);
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %zu: expected labels below %d and %d, found "
                         "%u and %u",
                         name, at, COARSE, CLASSES_100, file->bytes[at],
                         file->bytes[at + 1]);
    }
    return ERR_OK;
}

static enum err check_kind(const char *name, const struct images *im,
                           unsigned classes, struct fault *f)
{
    if (im->count == 0 || im->classes == classes)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected CIFAR-%u like the file before, found "
                     "CIFAR-%u",
                     name, im->classes, classes);
}

static enum err append(const char *name, const struct file_bytes *file,
                       size_t labels, struct images *im, struct fault *f)
{
    size_t record = labels + CIFAR_PIXELS;
    uint64_t count = im->count + file->len / record;
    uint8_t *pixel = mem_realloc(im->pixel, count * CIFAR_PIXELS), *label;
    size_t at;

    if (pixel)
        im->pixel = pixel;
    label = mem_realloc(im->label, count);
    if (label)
        im->label = label;
    if (!pixel || !label)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
    for (at = 0; at < file->len; at += record) {
        memcpy(pixel + im->count * CIFAR_PIXELS, file->bytes + at + labels,
               CIFAR_PIXELS);
        label[im->count++] = file->bytes[at + labels - 1];
    }
    im->rows = im->cols = CIFAR_SIDE;
    im->depth = CIFAR_CHANNELS;
    im->classes = labels == 1 ? CLASSES_10 : CLASSES_100;
    return ERR_OK;
}

enum err cifar_read(struct data_stream *s, uint64_t limit_bytes,
                    struct images *out, struct fault *f)
{
    const char *name = data_stream_name(s);
    struct file_bytes file = {0};
    size_t labels = 0;
    enum err err = read_file(s, limit_bytes, &file, f);

    if (!err)
        err = find_labels(name, file.len, &labels, f);
    if (!err)
        err = check_labels(name, &file, labels, f);
    if (!err)
        err = check_kind(name, out, labels == 1 ? CLASSES_10 : CLASSES_100, f);
    if (!err)
        err = data_memory_check(
            name, (out->count + 1) * CIFAR_PIXELS + file.len, limit_bytes, f);
    if (!err)
        err = append(name, &file, labels, out, f);
    mem_free(file.bytes);
    return err;
}
