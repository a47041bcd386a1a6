#include "ps/disk/model_io.h"

#include "base/disk_io.h"
#include "base/npy_io.h"
#include "ps/disk/keys_io.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/server/forks.h"
#include "ps/server/peers.h"
#include "ps/server/rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static struct npy_info shape_of(const struct table *t)
{
    static const enum npy_type types[] = {
        [MLT_F32] = NPY_F32, [MLT_I32] = NPY_I32, [MLT_F64] = NPY_F64};

    return (struct npy_info){types[t->type], t->rows, t->width};
}

/* @end: "npy", or "keys.npy". */
static enum err table_path(char path[PATH_BYTES], const char *dir,
                           const struct table *t, const char *end,
                           struct fault *f)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s.%s", dir, t->name, end);

    assert(dir);
    if (n >= PATH_BYTES)
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", dir);
    return ERR_OK;
}

/* ---- saving -------------------------------------------------------------- */

static enum err write_row(const struct mlt_ps *ps, branch_id branch,
                          mlt_table table, uint64_t row, struct npy_writer *w,
                          struct fault *f)
{
    struct place p = place_of(ps, table, row);
    const unsigned char *chunk =
        store_chunk(p.shard->store, branch, table, p.chunk);

    return npy_write(w, chunk + p.offset,
                     ps_shape(ps)->table[table].value_bytes, f);
}

static enum err put_rows(const struct mlt_ps *ps, branch_id branch,
                         mlt_table table, struct disk_part *file, size_t head,
                         struct fault *f)
{
    const struct table *t = &ps_shape(ps)->table[table];
    enum err err = ERR_OK;

    for (uint64_t row = 0; row < t->rows && !err; row++) {
        struct place p;

        if (!ps_is_here(ps, table, row))
            continue;
        p = place_of(ps, table, row);
        err = disk_part_put(
            file, head + row * t->value_bytes,
            store_chunk(p.shard->store, branch, table, p.chunk) + p.offset,
            t->value_bytes, f);
    }
    return err;
}

/* Each of several nodes writes its rows into the file that all share. */
static enum err save_part(const struct mlt_ps *ps, branch_id branch,
                          mlt_table table, const char *path, uint64_t *bytes,
                          struct fault *f)
{
    const struct table *t = &ps_shape(ps)->table[table];
    const struct worker_view *v = &ps_shape(ps)->worker[0].view[table];
    char header[NPY_OWN_HEADER_MAX];
    struct npy_info info = shape_of(t);
    size_t n = npy_put_header(header, &info);
    struct disk_part file;
    enum err err = disk_part_open(&file, NULL, path, DISK_SHARED,
                                  n + t->rows * t->value_bytes, f);

    if (err)
        return err;
    err = disk_part_put(&file, 0, header, n, f);
    if (!err)
        err = put_rows(ps, branch, table, &file, n, f);
    *bytes = v->node_count * t->value_bytes + (ps_shape(ps)->node == 0 ? n : 0);
    return disk_part_end(&file, err, f);
}

static enum err save_table(const struct mlt_ps *ps, branch_id branch,
                           mlt_table table, const char *path, uint64_t *bytes,
                           struct fault *f)
{
    const struct table *t = &ps_shape(ps)->table[table];
    struct npy_info info = shape_of(t);
    struct npy_writer *w;
    enum err err = npy_create(path, &info, &w, f);

    if (err)
        return err;
    for (uint64_t row = 0; row < t->rows && !err; row++)
        err = write_row(ps, branch, table, row, w, f);
    if (!err)
        return npy_commit(w, bytes, f);
    npy_abort(w);
    return err;
}

static struct keys *keys_of(const struct mlt_ps *ps, mlt_table table)
{
    return ps_shape(ps)->worker[0].view[table].keys;
}

/* Of one node: between several there are no keys. */
static enum err save_keys(const struct mlt_ps *ps, mlt_table table,
                          const char *dir, uint64_t *sum, struct fault *f)
{
    char path[PATH_BYTES];
    uint64_t written = 0;
    enum err err;

    if (!keys_of(ps, table))
        return ERR_OK;
    err = table_path(path, dir, &ps_shape(ps)->table[table], "keys.npy", f);
    if (!err)
        err = keys_save(keys_of(ps, table), path, &written, f);
    *sum += written;
    return err;
}

enum err ps_save(struct mlt_ps *ps, branch_id branch, const char *dir,
                 uint64_t *bytes, struct fault *f)
{
    uint64_t sum = 0;

    assert(dir);
    if (!ps_has(ps, branch))
        return fault_set(f, ERR_NOENT, "save: there is no branch %u", branch);
    if (device_flush(ps, branch))
        return fault_set(f, ERR_IO,
                         "save: branch %u did not come from its "
                         "device",
                         branch);
    for (mlt_table t = 0; t < ps_shape(ps)->tables; t++) {
        char path[PATH_BYTES];
        uint64_t written = 0;
        enum err err;

        if (!ps_table_info(ps, t).saved)
            continue;
        err = table_path(path, dir, &ps_shape(ps)->table[t], "npy", f);
        if (!err)
            err = (ps_shape(ps)->nodes > 1 ? save_part : save_table)(
                ps, branch, t, path, &written, f);
        sum += written;
        if (!err)
            err = save_keys(ps, t, dir, &sum, f);
        if (err)
            return err;
    }
    if (bytes)
        *bytes = sum;
    return ERR_OK;
}

/* ---- loading ------------------------------------------------------------- */

static enum err check_shape(const struct table *t, const struct npy_info *got,
                            const char *path, struct fault *f)
{
    struct npy_info want = shape_of(t);

    if (got->type == want.type && got->rows == want.rows &&
        got->cols == want.cols)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: shape (%llu, %llu) %s, but table %s has (%llu, %llu) "
                     "%s",
                     path, (unsigned long long)got->rows,
                     (unsigned long long)got->cols, npy_type_name(got->type),
                     t->name, (unsigned long long)want.rows,
                     (unsigned long long)want.cols, npy_type_name(want.type));
}

static enum err read_row(struct mlt_ps *ps, mlt_table table, uint64_t row,
                         struct npy_reader *r, struct fault *f)
{
    const struct table *t = &ps_shape(ps)->table[table];
    struct mlt_worker *shard = place_of(ps, table, row).shard;
    unsigned char *bytes = view_write(shard, &shard->view[table],
                                      table_number(t, row), &shard->counters);

    memset(bytes + t->value_bytes, 0, t->row_bytes - t->value_bytes);
    return npy_read(r, bytes, t->value_bytes, f);
}

static enum err load_keys(const struct mlt_ps *ps, mlt_table table,
                          const char *dir, struct fault *f)
{
    char path[PATH_BYTES];
    enum err err;

    if (!keys_of(ps, table))
        return ERR_OK;
    err = table_path(path, dir, &ps_shape(ps)->table[table], "keys.npy", f);
    return err ? err : keys_open(keys_of(ps, table), path, f);
}

static enum err load_table(struct mlt_ps *ps, mlt_table table, const char *path,
                           struct fault *f)
{
    struct npy_info info;
    struct npy_reader *r;
    enum err err = npy_open(path, &info, &r, f);

    if (err)
        return err;
    err = check_shape(&ps_shape(ps)->table[table], &info, path, f);
    for (uint64_t row = 0; row < info.rows && !err; row++)
        err = read_row(ps, table, row, r, f);
    npy_close(r);
    return err;
}

enum err ps_load(struct mlt_ps *ps, const char *dir, struct fault *f)
{
    const struct branch_entry *active = forks_find(ps, ps_active(ps));

    assert(dir);
    if (!active || active->type == BRANCH_KEPT)
        return fault_set(f, ERR_INVAL,
                         "load: the active branch cannot be written");
    if (device_forget(ps, active->id))
        return fault_set(f, ERR_IO, "load: the branch's device failed");
    for (mlt_table t = 0; t < ps_shape(ps)->tables; t++) {
        char path[PATH_BYTES];
        enum err err;

        if (!ps_table_info(ps, t).saved)
            continue;
        err = table_path(path, dir, &ps_shape(ps)->table[t], "npy", f);
        if (!err)
            err = load_table(ps, t, path, f);
        if (!err)
            err = load_keys(ps, t, dir, f);
        if (err)
            return err;
    }
    return ERR_OK;
}

int mlt_ps_save(struct mlt_ps *ps, const char *dir, struct mlt_error *err)
{
    struct fault f = {0};

    if (ps_active(ps) == BRANCH_NONE)
        fault_set(&f, ERR_INVAL, "save: no branch is active");
    else if (forks_failed(ps, ps_active(ps)))
        fault_set(&f, ERR_INVAL,
                  "save: a run failed in the active branch, or in what it was "
                  "forked from");
    else
        ps_save(ps, ps_active(ps), dir, NULL, &f);
    return f.code ? ps_give_error(err, &f) : ERR_OK;
}
