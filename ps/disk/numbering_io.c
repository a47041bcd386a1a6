#include "ps/disk/numbering_io.h"

#include "base/mem.h"
#include "branches/crc32c.h"
#include "branches/disk_io.h"

#include <inttypes.h>
#include <stdio.h>

enum { PATH_BYTES = 4096 };

enum err numbering_store(struct manifest *m, const struct table *table,
                         uint32_t worker, const char *path, struct fault *f)
{
    size_t n = numbering_bytes(m, worker);
    unsigned char *bytes = mem_alloc(n + 1);
    struct disk_out out;
    enum err err;

    if (!bytes)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    numbering_put(m, table, worker, bytes);
    m->part[worker].rows_seal = crc32c(0, bytes, n);
    err = disk_out_open(&out, disk_system(), path, f);
    if (!err) {
        err = disk_out_put(&out, bytes, n, f);
        if (err)
            disk_out_abort(&out);
        else
            err = disk_out_commit(&out, f);
    }
    mem_free(bytes);
    return err;
}

static enum err load_one(struct numbering *n, const struct manifest *m,
                         uint32_t worker, const char *path, struct fault *f)
{
    struct disk_in in;
    unsigned char *bytes = NULL;
    enum err err = disk_in_open(&in, disk_system(), path, f);

    if (err)
        return err;
    if (in.bytes != numbering_bytes(m, worker))
        err = fault_set(f, ERR_FORMAT,
                        "%s: %" PRIu64 " bytes, but the manifest's tables take "
                        "%" PRIu64,
                        path, in.bytes, numbering_bytes(m, worker));
    if (!err && !(bytes = mem_alloc(in.bytes + 1)))
        err = fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    if (!err)
        err = disk_in_read(&in, bytes, in.bytes, f);
    if (!err)
        err = numbering_take(n, m, worker, bytes, in.bytes, path, f);
    mem_free(bytes);
    disk_in_close(&in);
    return err;
}

enum err numbering_load(struct numbering *n, const struct manifest *m,
                        const char *dir, struct fault *f)
{
    enum err err = numbering_init(n, m);

    if (err)
        return fault_set(f, err, "restore %s: %s", dir, err_text(err));
    for (uint32_t i = 0; i < m->workers && manifest_placed(m) && !err; i++) {
        char file[MANIFEST_FILE_MAX], path[PATH_BYTES];

        manifest_rows_file(m, i, file);
        if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= PATH_BYTES)
            return fault_set(f, ERR_INVAL, "%.80s...: path is too long", dir);
        err = load_one(n, m, i, path, f);
    }
    return err;
}
