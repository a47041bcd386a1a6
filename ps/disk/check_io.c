#include "ps/disk/check_io.h"

#include "base/file_io.h"
#include "branches/snapshot_io.h"
#include "ps/disk/manifest_io.h"
#include "ps/disk/numbering_io.h"

#include <assert.h>
#include <inttypes.h>

static enum err check_part(const struct manifest *m, uint32_t worker,
                           const char *dir, struct fault *f)
{
    char name[MANIFEST_FILE_MAX], path[FILE_PATH_MAX];
    struct snapshot_file *file = NULL;
    enum err err;

    manifest_file(m, worker, name);
    err = file_join(path, dir, name, f);
    if (!err)
        err = snapshot_open(path, NULL, &file, f);
    if (err)
        return err;
    err = snapshot_verify(file, f);
    if (!err && snapshot_seal(file) != m->part[worker].seal)
        err = fault_set(f, ERR_FORMAT,
                        "%s: seal %08" PRIx32 ", but the manifest says "
                        "%08" PRIx32,
                        path, snapshot_seal(file), m->part[worker].seal);
    snapshot_close(file);
    return err;
}

enum err checkpoint_check(const char *dir, struct fault *f)
{
    struct manifest m = {0};
    struct numbering rows = {0};
    char path[FILE_PATH_MAX];
    enum err err;

    assert(dir);
    err = file_join(path, dir, MANIFEST_NAME, f);
    if (!err)
        err = manifest_load(path, &m, f);
    if (!err && manifest_missing(&m) < m.workers)
        err = fault_set(f, ERR_FORMAT,
                        "%s: the manifest of a part of a checkpoint", path);
    for (uint32_t i = 0; i < m.workers && !err; i++)
        err = check_part(&m, i, dir, f);
    if (!err) {
        err = numbering_load(&rows, &m, dir, f);
        numbering_deinit(&rows);
    }
    manifest_deinit(&m);
    return err;
}
