#include "apps/formats/data_cifar.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES_10 = 10, CLASSES_100 = 100, COARSE = 20 };
enum { LABELS_MAX = 2, FIRST_BYTES = 36 * (LABELS_MAX + CIFAR_PIXELS) };

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

/* Where the next image's pixels go. */
static uint8_t *end_of(const struct images *im)
{
    return im->pixel + im->count * CIFAR_PIXELS;
}

/* A whole file, behind the images that there are: its records become images
 * where they lie, so memory is taken once. */
static enum err read_file(struct data_stream *s, uint64_t limit_bytes,
                          struct images *im, size_t *len, size_t *room,
                          struct fault *f)
{
    const char *name = data_stream_name(s);
    size_t got;
    enum err err;

    *room = data_stream_portion(s, FIRST_BYTES);
    for (*len = 0;; *room *= 2) {
        uint8_t *grown;

        err = data_memory_check(name, *room, limit_bytes, f);
        if (err)
            return err;
        grown = mem_realloc(im->pixel, im->count * CIFAR_PIXELS + *room);
        if (!grown)
            return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
        im->pixel = grown;
        err = data_stream_read(s, end_of(im) + *len, *room - *len, &got, f);
        if (err)
            return err;
        *len += got;
        if (*len < *room)
            return ERR_OK;
    }
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

static enum err check_labels(const char *name, const uint8_t *file, size_t len,
                             size_t labels, struct fault *f)
{
    size_t at;

    for (at = 0; at < len; at += labels + CIFAR_PIXELS) {
        if (labels_fit(file + at, labels))
            continue;
        if (labels == 1)
            return fault_set(f, ERR_FORMAT,
                             "%s: byte %zu: expected a label below %d, found "
                             "%u",
                             name, at, CLASSES_10, file[at]);
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %zu: expected labels below %d and %d, found "
                         "%u and %u",
                         name, at, COARSE, CLASSES_100, file[at], file[at + 1]);
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

/* The @len bytes that were read behind the images become images: each record's
 * pixels move up by the labels before them. */
static enum err take_records(const char *name, size_t len, size_t labels,
                             struct images *im, struct fault *f)
{
    const uint8_t *file = end_of(im);
    size_t record = labels + CIFAR_PIXELS, at;
    uint8_t *label = mem_realloc(im->label, im->count + len / record);

    if (!label)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
    im->label = label;
    for (at = 0; at < len; at += record) {
        label[im->count] = file[at + labels - 1];
        memmove(end_of(im), file + at + labels, CIFAR_PIXELS);
        im->count++;
    }
    im->rows = im->cols = CIFAR_SIDE;
    im->depth = CIFAR_CHANNELS;
    im->classes = labels == 1 ? CLASSES_10 : CLASSES_100;
    return ERR_OK;
}

/* What reading asked for too much is given back, unless it is little. */
static enum err shrink(const char *name, struct images *im, struct fault *f)
{
    uint8_t *pixel = mem_realloc(im->pixel, im->count * CIFAR_PIXELS);

    if (!pixel)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
    im->pixel = pixel;
    return ERR_OK;
}

enum err cifar_read(struct data_stream *s, uint64_t limit_bytes,
                    struct images *out, struct fault *f)
{
    const char *name = data_stream_name(s);
    size_t labels = 0, len, room;
    enum err err = read_file(s, limit_bytes, out, &len, &room, f);

    if (!err)
        err = find_labels(name, len, &labels, f);
    if (!err)
        err = check_labels(name, end_of(out), len, labels, f);
    if (!err)
        err = check_kind(name, out, labels == 1 ? CLASSES_10 : CLASSES_100, f);
    if (!err)
        err = take_records(name, len, labels, out, f);
    if (!err && room - len > len / 64)
        err = shrink(name, out, f);
    return err;
}
