/* Any bytes, compressed or not, with every 0xff standing for 1,024 zeros so
 * that whole records fit into small inputs: the CIFAR loader refuses them with
 * a reason that names the file, or gives images whose records are the bytes.
 *
 * Of what an input stands for the first 36 records are taken: more of the same
 * reach nothing new, and memory of over 128 KB has the sanitizer map and unmap
 * pages, which took two thirds of the time. */
#include "apps/formats/data_cifar.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    FUZZ_LIMIT = 64 << 20,
    FUZZ_RUN = 1024,
    FUZZ_BYTES_MAX = 36 * (2 + CIFAR_PIXELS)
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* They end where their memory does. */
static const uint8_t *expand(const uint8_t *data, size_t size, size_t *out)
{
    static uint8_t *room; /* [FUZZ_BYTES_MAX] */
    uint8_t *bytes;
    size_t i, n = 0;

    for (i = 0; i < size && n + FUZZ_RUN <= FUZZ_BYTES_MAX; i++)
        n += data[i] == 0xff ? FUZZ_RUN : 1;
    if (!room)
        room = calloc(FUZZ_BYTES_MAX, 1);
    if (!room)
        abort();
    bytes = room + FUZZ_BYTES_MAX - n;
    *out = n;
    while (n > 0) {
        size_t run = *data++ == 0xff ? FUZZ_RUN : 1;

        memset(room + FUZZ_BYTES_MAX - n, run == 1 ? data[-1] : 0, run);
        n -= run;
    }
    return bytes;
}

static enum err read_all(const void *bytes, size_t n, struct images *im,
                         struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (err)
        return err;
    err = cifar_read(s, FUZZ_LIMIT, im, f);
    data_stream_close(s);
    return err;
}

static void compare(const struct images *im, const uint8_t *bytes, size_t n)
{
    size_t labels = im->classes == 10 ? 1 : 2;
    size_t record = labels + CIFAR_PIXELS, i;

    if (im->count * record != n || !cifar_sniff(bytes, n))
        abort();
    for (i = 0; i < im->count; i++) {
        const uint8_t *at = bytes + i * record;

        if (im->label[i] != at[labels - 1] || im->label[i] >= im->classes ||
            memcmp(im->pixel + i * CIFAR_PIXELS, at + labels, CIFAR_PIXELS) !=
                0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct images im = {0};
    struct fault fault = {0};
    size_t n;
    const uint8_t *bytes = expand(data, size, &n);

    /* Compressed input begins otherwise: only plain bytes can be compared. */
    if (read_all(bytes, n, &im, &fault) == ERR_OK) {
        if (bytes[0] != 0x1f && bytes[0] != 0xfd)
            compare(&im, bytes, n);
    } else if (!strstr(fault.text, "fuzz")) {
        abort();
    }
    images_deinit(&im);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
