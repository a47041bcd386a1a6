#include "tuner/shell/folders_io.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file that a whole snapshot of several nodes has (ps/disk/manifest.h). */
#define SNAPSHOT_MANIFEST "manifest.json"

/* The part of it that a node of ours among several has written. */
#define PART_MANIFEST "node-0/" SNAPSHOT_MANIFEST

void folders_init(struct folders *d, const char *model_dir,
                  enum folders_writer writer)
{
    assert(model_dir);
    *d = (struct folders){.model_dir = model_dir, .writer = writer};
}

/* An empty folder @dir.tmp: in @tmp, and instead of @path. */
static enum err make_tmp(const char *dir, char tmp[FILE_PATH_MAX],
                         char path[PROTO_PATH_MAX], struct fault *f)
{
    int n = snprintf(tmp, FILE_PATH_MAX, "%s.tmp", dir);
    enum err err;

    if (n < 0 || n >= FILE_PATH_MAX || n >= PROTO_PATH_MAX) {
        tmp[0] = '\0';
        return fault_set(f, ERR_LIMIT, "path is too long: %.200s", dir);
    }
    err = folder_remove(tmp, f);
    if (!err)
        err = folder_make(tmp, f);
    if (!err)
        memcpy(path, tmp, (size_t)n + 1);
    return err;
}

enum err folders_redirect(struct folders *d, struct msg *m, struct fault *f)
{
    enum err err;

    assert(m->op > 0);
    if (m->kind == MSG_SAVE) {
        d->model_op = m->op;
        return make_tmp(d->model_dir, d->model_tmp, m->save.path, f);
    }
    if (m->kind != MSG_SNAPSHOT)
        return ERR_OK;
    d->snapshot_op = m->op;
    if (d->writer == FOLDERS_NODE)
        return ERR_OK;
    snprintf(d->snapshot_dir, sizeof(d->snapshot_dir), "%s", m->snapshot.path);
    err = make_tmp(d->snapshot_dir, d->snapshot_tmp, m->snapshot.path, f);
    /* A single mlt_node_run wants to make it. */
    if (!err && d->writer == FOLDERS_PROGRAM)
        err = folder_remove(d->snapshot_tmp, f);
    return err;
}

void folders_drop_model(struct folders *d)
{
    if (d->model_tmp[0])
        folder_remove(d->model_tmp, NULL);
    d->model_tmp[0] = '\0';
    d->model_op = 0;
}

void folders_drop_snapshot(struct folders *d)
{
    if (d->snapshot_tmp[0])
        folder_remove(d->snapshot_tmp, NULL);
    d->snapshot_tmp[0] = '\0';
    d->snapshot_op = 0;
}

enum err folders_publish_model(struct folders *d, struct fault *f)
{
    enum err err;

    assert(d->model_tmp[0]);
    err = folder_publish(d->model_tmp, d->model_dir, f);
    folders_drop_model(d);
    return err;
}

/* The manifest comes from the node that finds the parts of all. Where a shared
 * disk shows nobody the last one in time, none does: then it is not whole. */
static enum err check_manifest(const struct folders *d, struct fault *f)
{
    char path[FILE_PATH_MAX], part[FILE_PATH_MAX];
    enum err err = file_join(path, d->snapshot_tmp, SNAPSHOT_MANIFEST, f);

    if (!err)
        err = file_join(part, d->snapshot_tmp, PART_MANIFEST, f);
    if (err)
        return err;
    if (d->writer == FOLDERS_PROGRAMS && access(part, F_OK) != 0)
        return ERR_OK; /* files of its own, and no manifest */
    if (access(path, F_OK) != 0)
        err = fault_errno(f, ERR_IO, errno,
                          "all nodes have written their parts, but %s", path);
    return err;
}

enum err folders_publish_snapshot(struct folders *d, struct fault *f)
{
    enum err err = ERR_OK;

    if (d->writer == FOLDERS_NODES || d->writer == FOLDERS_PROGRAMS)
        err = check_manifest(d, f);
    if (d->writer != FOLDERS_NODE && !err)
        err = folder_publish(d->snapshot_tmp, d->snapshot_dir, f);
    folders_drop_snapshot(d);
    return err;
}
