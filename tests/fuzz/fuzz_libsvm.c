/* Any bytes, compressed or not: the reader of sparse samples refuses them with
 * a reason that names the file, or gives samples whose indexes ascend below its
 * columns and that, written out plainly, read back the same. */
#include "apps/data/data_kind.h"
#include "apps/formats/data_libsvm.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, FUZZ_NUMBER = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n, struct sparse *s,
                         struct fault *f)
{
    struct data_stream *stream;
    enum err err = data_stream_memory("fuzz", bytes, n, &stream, f);

    if (err)
        return err;
    err = libsvm_read(s, stream, FUZZ_LIMIT, f);
    data_stream_close(stream);
    return err;
}

static char *write_sample(const struct sparse *s, uint64_t i, char *p)
{
    uint64_t least = 0;

    if (!isfinite(s->label[i]))
        abort();
    p += snprintf(p, FUZZ_NUMBER, "%.17g", s->label[i]);
    for (uint64_t e = s->begin[i]; e < s->begin[i + 1]; e++) {
        if (s->index[e] < least || s->index[e] >= s->columns ||
            s->index[e] < s->lowest || !isfinite(s->value[e]))
            abort();
        least = (uint64_t)s->index[e] + 1;
        p += snprintf(p, FUZZ_NUMBER, " %" PRIu32 ":%.9g", s->index[e],
                      (double)s->value[e]);
    }
    *p++ = '\n';
    return p;
}

static void round_trip(const struct sparse *s)
{
    char *text = malloc((s->count + s->entries) * FUZZ_NUMBER), *p = text;
    struct sparse again = {0};

    if (!text)
        abort();
    for (uint64_t i = 0; i < s->count; i++)
        p = write_sample(s, i, p);
    if (read_all(text, (size_t)(p - text), &again, NULL) ||
        again.count != s->count || again.entries != s->entries ||
        memcmp(again.label, s->label, s->count * sizeof(*s->label)) != 0 ||
        memcmp(again.begin, s->begin, s->count * sizeof(*s->begin)) != 0)
        abort();
    for (uint64_t e = 0; e < s->entries; e++)
        if (again.index[e] != s->index[e] || again.value[e] != s->value[e])
            abort();
    sparse_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct sparse s = {0};
    struct fault fault = {0};
    unsigned dims;

    data_kind_of("fuzz", data,
                 size < DATA_SNIFF_BYTES ? size : DATA_SNIFF_BYTES,
                 size < DATA_SNIFF_BYTES, &dims);
    if (read_all(data, size, &s, &fault) == ERR_OK)
        round_trip(&s);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    sparse_deinit(&s);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
