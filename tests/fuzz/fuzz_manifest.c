/* Any bytes: the manifest reader refuses them with name and place, or reads
 * what it would write again to the letter. Each input is tried as it is, and
 * with its checksum made right, so that what lies behind it is reached. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "ps/disk/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_FUZZ_END = 23 }; /* ,"crc32c":"01234567"}\n */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All that a reader does with a manifest. */
static void manifest_use(const struct manifest *m)
{
    uint64_t next = 0, first, count;
    char say[MANIFEST_TEXT_MAX], file[MANIFEST_FILE_MAX];

    for (uint32_t t = 0; t < m->tables; t++) {
        manifest_say(&m->table[t], say);
        next = 0;
        for (uint32_t w = 0; w < m->workers && w < 64; w++) {
            manifest_rows(m, t, w, &first, &count);
            if (m->table[t].access != MLT_LOCAL && first != next)
                abort();
            next = first + count;
            if (next > m->table[t].rows)
                abort();
        }
    }
    if (manifest_missing(m) < m->workers)
        manifest_file(m, manifest_missing(m), file);
}

static enum err manifest_try(const char *text, size_t size)
{
    struct manifest m;
    struct fault f = {0};
    enum err err = manifest_decode(text, size, "fuzz", &m, &f);
    char *back;

    if (err) {
        if (f.code != err || !strstr(f.text, "fuzz"))
            abort();
        return err;
    }
    manifest_use(&m);
    back = manifest_encode(&m);
    if (!back || strlen(back) != size || memcmp(back, text, size) != 0)
        abort();
    mem_free(back);
    manifest_deinit(&m);
    return ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + MANIFEST_FUZZ_END + 1);
    size_t body = size > MANIFEST_FUZZ_END ? size - MANIFEST_FUZZ_END : 0;

    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    manifest_try(text, size);
    snprintf(text + body, MANIFEST_FUZZ_END + 1,
             ",\"crc32c\":\"%08" PRIx32 "\"}\n", crc32c(0, text, body));
    manifest_try(text, body + MANIFEST_FUZZ_END);
    free(text);
    return 0;
}
