/* Any bytes, compressed or not: the ratings loader refuses them with a reason
 * that names the file, or gives ratings that, written out plainly, read back
 * the same. What it takes for ratings by sight it must be able to begin to
 * read. */
#include "apps/data/data_kind.h"
#include "apps/formats/data_ratings.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, FUZZ_LINE = 96 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n, struct ratings *r,
                         struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (err)
        return err;
    err = ratings_read(r, s, FUZZ_LIMIT, f);
    data_stream_close(s);
    return err;
}

static void round_trip(const struct ratings *r)
{
    char *text = malloc(r->count * FUZZ_LINE), *p = text;
    struct ratings again = {0};
    uint64_t i;

    if (!text)
        abort();
    for (i = 0; i < r->count; i++) {
        if (r->user[i] >= r->users.count || r->item[i] >= r->items.count ||
            !isfinite(r->value[i]))
            abort();
        p += snprintf(p, FUZZ_LINE, "%" PRId64 ",%" PRId64 ",%.9g\n",
                      r->users.id[r->user[i]], r->items.id[r->item[i]],
                      (double)r->value[i]);
    }
    if (read_all(text, (size_t)(p - text), &again, NULL) ||
        again.count != r->count ||
        memcmp(again.user, r->user, r->count * sizeof(*r->user)) != 0 ||
        memcmp(again.item, r->item, r->count * sizeof(*r->item)) != 0)
        abort();
    for (i = 0; i < r->count; i++) {
        if (again.value[i] != r->value[i])
            abort();
    }
    ratings_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct ratings r = {0};
    struct fault fault = {0};
    unsigned dims;

    data_kind_of("fuzz", data,
                 size < DATA_SNIFF_BYTES ? size : DATA_SNIFF_BYTES,
                 size < DATA_SNIFF_BYTES, &dims);
    if (read_all(data, size, &r, &fault) == ERR_OK)
        round_trip(&r);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    ratings_deinit(&r);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
