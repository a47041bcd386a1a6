/* Any bytes, compressed or not: the IDX loader refuses them with a reason, or
 * gives an array whose plain form is exactly header and bytes. */
#include "apps/formats/data_idx.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, FUZZ_HEADER_MAX = 4 + 4 * IDX_DIMS_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n, struct idx_array *a,
                         struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (err)
        return err;
    err = idx_read(s, FUZZ_LIMIT, a, f);
    data_stream_close(s);
    return err;
}

static void round_trip(const struct idx_array *a)
{
    size_t total = a->dim[0] * a->dim[1] * a->dim[2] * a->dim[3];
    size_t head = 4 + 4 * (size_t)a->dims, i;
    uint8_t *bytes = malloc(FUZZ_HEADER_MAX + total);
    struct idx_array again;

    if (!bytes)
        abort();
    memcpy(bytes, (const uint8_t[]){0, 0, 8, (uint8_t)a->dims}, 4);
    for (i = 0; i < head - 4; i++)
        bytes[4 + i] = (uint8_t)(a->dim[i / 4] >> (24 - 8 * (i % 4)));
    memcpy(bytes + head, a->bytes, total);
    if (read_all(bytes, head + total, &again, NULL) ||
        memcmp(again.dim, a->dim, sizeof(a->dim)) != 0 ||
        memcmp(again.bytes, a->bytes, total) != 0)
        abort();
    idx_array_deinit(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct idx_array a = {0};
    struct fault fault = {0};

    if (read_all(data, size, &a, &fault) == ERR_OK)
        round_trip(&a);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    idx_array_deinit(&a);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
