#include "ps/disk/reopen_io.h"

#include "base/file_io.h"
#include "ps/disk/manifest_io.h"
#include "ps/disk/restore_io.h"
#include "ps/server/ps.h"

#include <assert.h>

/* What mlt_ps_table said, in our words. */
static enum err as_fault(int code, const struct mlt_error *e, const char *dir,
                         struct fault *f)
{
    if (code == 0)
        return ERR_OK;
    return fault_set(f, code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP,
                     "%s: %s", dir, e->text);
}

static uint32_t chunk_bytes(const struct manifest_table *t)
{
    uint64_t bytes = t->chunk_rows * t->row_bytes;

    return bytes <= UINT32_MAX ? (uint32_t)bytes : 0;
}

static enum err declare(const struct manifest *m, struct mlt_ps *ps,
                        const char *dir, struct fault *f)
{
    struct mlt_error e = {0};
    int code;

    assert(m->tables > 0);
    for (uint32_t i = 0; i < m->tables; i++) {
        const struct manifest_table *t = &m->table[i];
        const struct mlt_table_options o = {
            .size = sizeof(o),
            .name = t->name,
            .rows = t->rows,
            .width = t->width,
            .type = t->type,
            .access = t->access,
            .rule = t->rule[0] ? t->rule : NULL,
            .flags = t->flags,
            .chunk_bytes = chunk_bytes(t),
        };
        struct fault why = {0};

        if (ps_table_stored(ps, &o, t->row_bytes, &why))
            return fault_set(f, why.code, "%s: %s", dir, why.text);
    }
    code = mlt_ps_start(ps, &e);
    return as_fault(code, &e, dir, f);
}

static enum err open_server(const struct manifest *m, uint64_t limit_bytes,
                            const char *dir, struct mlt_ps **out,
                            struct fault *f)
{
    struct mlt_ps_options o = MLT_PS_OPTIONS;
    struct mlt_error e = {0};
    enum err err;

    o.workers = m->workers;
    o.memory_limit = limit_bytes;
    err = as_fault(mlt_ps_new(&o, out, &e), &e, dir, f);
    return err ? err : declare(m, *out, dir, f);
}

enum err ps_reopen(const char *dir, branch_id id, uint64_t limit_bytes,
                   struct mlt_ps **out, struct fault *f)
{
    struct manifest m = {0};
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, MANIFEST_NAME, f);

    assert(out && id > 0);
    *out = NULL;
    if (!err)
        err = manifest_load(path, &m, f);
    if (!err)
        err = open_server(&m, limit_bytes, dir, out, f);
    manifest_deinit(&m);
    if (!err)
        err = ps_restore(*out, id, dir, f);
    if (err) {
        mlt_ps_free(*out);
        *out = NULL;
    }
    return err;
}
