/* The first bytes of any file, under any name: its kind, and where nothing
 * reads that, words for why not and what to do. Behind the first zero byte is
 * the file. */
#include "apps/data/data_kind.h"
#include "apps/data/data_refusal.h"
#include "tests/fuzz/must.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t name_len = strnlen((const char *)data, size);
    size_t len = name_len < size ? size - name_len - 1 : 0;
    char name[64] = "", *bytes = malloc(len + !len); /* exactly */
    enum data_kind kind;
    unsigned dims = 99;

    must(bytes != NULL);
    if (name_len < size)
        memcpy(bytes, data + name_len + 1, len);
    memcpy(name, data, name_len < 63 ? name_len : 63);
    for (int whole = 0; whole < 2; whole++) {
        kind = data_kind_of(name, bytes, len, whole, &dims);
        must((unsigned)kind < DATA_KIND_COUNT);
        must(*data_kind_name(kind) && *data_kind_text(kind));
        must(kind == DATA_IDX ? dims != 99 : dims == 0);
    }
    for (kind = DATA_RATINGS; kind < DATA_KIND_COUNT; kind++) {
        struct data_refusal r = data_refusal_of(kind, bytes, len);

        must(r.why && *r.why && r.advice);
    }
    (void)data_looks_like_table(bytes, len);
    free(bytes);
    return 0;
}
