#include "ps/disk/numbering_io.h"

#include "base/crc32c.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>

enum err numbering_store(struct manifest *m, const struct table *table,
                         uint32_t worker, const char *path, struct fault *f)
{
    size_t n = numbering_bytes(m, worker);
    unsigned char *bytes = mem_alloc(n + 1);
    enum err err;

    assert(worker < m->workers);
    if (!bytes)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    numbering_put(m, table, worker, bytes);
    m->part[worker].rows_seal = crc32c(0, bytes, n);
    err = file_write_shared(path, bytes, n, f);
    mem_free(bytes);
    return err;
}

static enum err load_one(struct numbering *n, const struct manifest *m,
                         uint32_t worker, const char *path, struct fault *f)
{
    uint64_t bytes = numbering_bytes(m, worker);
    char *text;
    size_t len;
    enum err err = file_read(path, bytes, &text, &len, f);

    if (err == ERR_LIMIT)
        return fault_set(f, ERR_FORMAT,
                         "%s: more than the %" PRIu64 " bytes that the "
                         "manifest's tables take",
                         path, bytes);
    if (err)
        return err;
    err =
        numbering_take(n, m, worker, (const unsigned char *)text, len, path, f);
    mem_free(text);
    return err;
}

enum err numbering_load(struct numbering *n, const struct manifest *m,
                        const char *dir, struct fault *f)
{
    enum err err = numbering_init(n, m);

    if (err)
        return fault_set(f, err, "restore %s: %s", dir, err_text(err));
    for (uint32_t i = 0; i < m->workers && manifest_placed(m) && !err; i++) {
        char file[MANIFEST_FILE_MAX], path[FILE_PATH_MAX];

        manifest_rows_file(m, i, file);
        err = file_join(path, dir, file, f);
        if (!err)
            err = load_one(n, m, i, path, f);
    }
    return err;
}
