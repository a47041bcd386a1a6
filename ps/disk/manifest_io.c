#include "ps/disk/manifest_io.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "branches/disk_io.h"

#include <inttypes.h>
#include <string.h>

enum err manifest_store(const struct manifest *m, const char *path,
                        struct fault *f)
{
    char *text = manifest_encode(m);
    struct disk_out out;
    enum err err;

    if (!text)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    err = disk_out_open(&out, disk_system(), path, f);
    if (!err) {
        err = disk_out_put(&out, text, strlen(text), f);
        if (err)
            disk_out_abort(&out);
        else
            err = disk_out_commit(&out, f);
    }
    mem_free(text);
    return err;
}

enum err manifest_load(const char *path, struct manifest *out, struct fault *f)
{
    struct disk_in in;
    char *text = NULL;
    enum err err = disk_in_open(&in, disk_system(), path, f);

    if (err)
        return err;
    if (in.bytes > JSON_TEXT_MAX)
        err = fault_set(f, ERR_FORMAT, "%s: %" PRIu64 " bytes are too long",
                        path, in.bytes);
    if (!err && !(text = mem_alloc(in.bytes + 1)))
        err = fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    if (!err)
        err = disk_in_read(&in, text, in.bytes, f);
    if (!err)
        err = manifest_decode(text, in.bytes, path, out, f);
    mem_free(text);
    disk_in_close(&in);
    return err;
}
