#include "ps/disk/backup_io.h"

#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "branches/snapshot_io.h"
#include "ps/disk/keys_io.h"
#include "ps/disk/manifest_io.h"
#include "ps/disk/numbering_io.h"
#include "ps/server/forks.h"
#include "ps/server/peers.h"
#include "ps/server/saving.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARD_PREFIX "shard-"
#define ROWS_PREFIX "rows-"

struct backup {
    const struct ps_shape *shape; /* borrowed */
    branch_id branch;
    unsigned shards;
    struct snapshot_job **job; /* [shards] owned */
    char *dir, *tmp;           /* owned; this node's */
    char *top;                 /* owned; of several nodes: the checkpoint's */
    struct manifest manifest;  /* with this node's parts, once written */
    pthread_t thread;
    bool started;
    int fd; /* readable when the thread has finished */
    _Atomic bool done;

    /* The thread's until it is done. */
    uint64_t bytes;
    struct fault fault; /* code ERR_OK: written */
};

/* ---- what there is ------------------------------------------------------- */

/* @entry: of the branch that is written. */
static enum err describe(struct backup *b, const struct branch_entry *entry,
                         uint64_t run, uint64_t number)
{
    const struct ps_shape *shape = b->shape;
    enum err err = manifest_init(&b->manifest, (uint32_t)shape->tables,
                                 shape->nodes, shape->all_workers);

    assert(entry && entry->type == BRANCH_KEPT);
    if (err)
        return err;
    b->manifest.run = run;
    b->manifest.number = number;
    b->manifest.branch = entry->of;
    b->manifest.clock = entry->clocks;
    for (uint32_t t = 0; t < shape->tables; t++)
        manifest_describe(&shape->table[t], &b->manifest.table[t]);
    return ERR_OK;
}

/* ---- the folder ---------------------------------------------------------- */

static bool is_ours(const char *name)
{
    return strncmp(name, SHARD_PREFIX, strlen(SHARD_PREFIX)) == 0 ||
           strncmp(name, ROWS_PREFIX, strlen(ROWS_PREFIX)) == 0 ||
           keys_file_is_ours(name) ||
           strncmp(name, MANIFEST_NAME, strlen(MANIFEST_NAME)) == 0;
}

/* Where this node's part of the snapshot @dir is, of a path that fits. */
static enum err node_folder(const struct ps_shape *shape, const char *dir,
                            char out[FILE_PATH_MAX], struct fault *f)
{
    int n = shape->nodes > 1
                ? snprintf(out, FILE_PATH_MAX, "%s/node-%u", dir, shape->node)
                : snprintf(out, FILE_PATH_MAX, "%s", dir);

    if (n >= FILE_PATH_MAX)
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", dir);
    return ERR_OK;
}

/* ---- the thread ---------------------------------------------------------- */

/* Where @file, as the manifest names it, is written: in its node's folder. */
static enum err file_path(const struct backup *b, const char *file,
                          char out[FILE_PATH_MAX], struct fault *f)
{
    const char *slash = strchr(file, '/');

    return file_join(out, b->tmp, slash ? slash + 1 : file, f);
}

static enum err write_rows(struct backup *b, uint32_t worker, struct fault *f)
{
    char file[MANIFEST_FILE_MAX], path[FILE_PATH_MAX];
    enum err err;

    if (!manifest_placed(&b->manifest))
        return ERR_OK;
    manifest_rows_file(&b->manifest, worker, file);
    err = file_path(b, file, path, f);
    if (!err)
        err = numbering_store(&b->manifest, b->shape->table, worker, path, f);
    if (!err)
        b->bytes += numbering_bytes(&b->manifest, worker);
    return err;
}

static enum err write_shards(struct backup *b, struct fault *f)
{
    assert(b->shards == b->shape->workers);
    for (unsigned i = 0; i < b->shards; i++) {
        uint32_t worker = b->shape->node * b->shape->workers + i;
        struct manifest_part *part = &b->manifest.part[worker];
        char file[MANIFEST_FILE_MAX], path[FILE_PATH_MAX];
        enum err err;

        manifest_file(&b->manifest, worker, file);
        err = file_path(b, file, path, f);
        if (!err)
            err = snapshot_job_write(b->job[i], path, NULL, &part->bytes, f);
        if (!err)
            err = write_rows(b, worker, f);
        if (err)
            return err;
        part->seal = snapshot_job_seal(b->job[i]);
        part->there = true;
        b->bytes += part->bytes;
    }
    return ERR_OK;
}

/* Of one node: between several there are no keys. */
static enum err write_keys(struct backup *b, struct fault *f)
{
    uint32_t first = b->shape->node * b->shape->workers;
    enum err err = ERR_OK;

    for (uint32_t t = 0; t < b->shape->tables && !err; t++) {
        struct keys *k = b->shape->worker[0].view[t].keys;

        if (k)
            err = keys_store(k, t, b->manifest.part[first].seal, b->tmp,
                             &b->bytes, f);
    }
    return err;
}

static enum err write_folder(struct backup *b, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err;

    folder_clear(b->tmp, is_ours); /* of a process that was killed */
    if (b->top)
        folder_clear(b->dir, is_ours); /* of one, too: begin has looked */
    err = folder_new(b->tmp, FOLDER_SHARED, f);
    if (err)
        return err;
    err = write_shards(b, f);
    if (!err)
        err = write_keys(b, f);
    if (!err)
        err = file_join(path, b->tmp, MANIFEST_NAME, f);
    if (!err) /* flushes the folder, too */
        err = manifest_store(&b->manifest, path, f);
    if (!err)
        err = file_rename(b->tmp, b->dir, f);
    if (err)
        folder_clear(b->tmp, is_ours);
    return err;
}

/* After a failure, what has its name already: first what makes others believe
 * in it. */
static void take_back(const struct backup *b)
{
    char path[FILE_PATH_MAX];

    if (file_join(path, b->dir, MANIFEST_NAME, NULL) == ERR_OK)
        file_remove(path);
    if (b->top && file_join(path, b->top, MANIFEST_NAME, NULL) == ERR_OK)
        file_remove(path);
    folder_clear(b->dir, is_ours);
}

/* Adds the parts of node @node. ERR_NOENT: it has not written them, but maybe
 * those of another checkpoint, which it will replace. */
static enum err join_node(struct backup *b, uint32_t node, struct fault *f)
{
    struct manifest m;
    char name[32 + sizeof(MANIFEST_NAME)], path[FILE_PATH_MAX];
    enum err err;

    assert(node < b->shape->nodes);
    assert(node != b->shape->node);
    snprintf(name, sizeof(name), "node-%u/" MANIFEST_NAME, node);
    err = file_join(path, b->top, name, f);
    if (!err && access(path, F_OK) != 0 && errno == ENOENT)
        return ERR_NOENT;
    if (!err)
        err = manifest_load(path, &m, f);
    if (err) /* just now it may have begun to replace what it had */
        return err == ERR_IO && access(path, F_OK) != 0 && errno == ENOENT
                   ? ERR_NOENT
                   : err;
    if (m.run != b->manifest.run || m.number != b->manifest.number)
        err = ERR_NOENT;
    else
        err = manifest_join(&b->manifest, &m, path, f);
    manifest_deinit(&m);
    return err;
}

/* Written in this node's folder, so that two nodes do not write one file. */
static enum err write_whole(const struct backup *b, struct fault *f)
{
    char whole[FILE_PATH_MAX], path[FILE_PATH_MAX];
    enum err err = file_join(whole, b->dir, MANIFEST_NAME ".whole", f);

    assert(b->top);
    if (!err)
        err = file_join(path, b->top, MANIFEST_NAME, f);
    if (!err)
        err = manifest_store(&b->manifest, whole, f);
    if (!err)
        err = file_rename(whole, path, f);
    if (!err)
        err = disk_flush_folder(NULL, b->top, f);
    return err ? err : disk_flush_parent(NULL, b->top, f);
}

/* The checkpoint's manifest, if all nodes have written their part. */
static enum err complete(struct backup *b, struct fault *f)
{
    assert(b->top && b->shape->nodes > 1);
    for (uint32_t i = 0; i < b->shape->nodes; i++) {
        enum err err = i == b->shape->node ? ERR_OK : join_node(b, i, f);

        if (err)
            return err == ERR_NOENT ? ERR_OK : err;
    }
    return write_whole(b, f);
}

static void *backup_main(void *arg)
{
    struct backup *b = arg;
    uint64_t one = 1;
    ssize_t n;

    if (write_folder(b, &b->fault) == ERR_OK) {
        enum err err = disk_flush_parent(NULL, b->dir, &b->fault);

        if (!err && b->top)
            err = complete(b, &b->fault);
        if (err)
            take_back(b);
        else
            b->fault.code = ERR_OK;
    }
    n = write(b->fd, &one, sizeof(one));
    assert(n == sizeof(one));
    (void)n;
    atomic_store(&b->done, true);
    return NULL;
}

/* ---- begin, end ---------------------------------------------------------- */

static void backup_free(struct backup *b)
{
    if (b->started)
        pthread_join(b->thread, NULL);
    for (unsigned i = 0; b->job && i < b->shards; i++)
        snapshot_job_free(b->job[i]);
    if (b->fd >= 0)
        close(b->fd);
    mem_free(b->job);
    mem_free(b->dir);
    mem_free(b->tmp);
    mem_free(b->top);
    manifest_deinit(&b->manifest);
    mem_free(b);
}

static enum err new_jobs(struct backup *b)
{
    assert(b->shards > 0);
    b->job = mem_calloc(b->shards, sizeof(*b->job));
    if (!b->job)
        return ERR_NOMEM;
    for (unsigned i = 0; i < b->shards; i++) {
        char label[64]; /* for people: the manifest is what is believed */
        struct snapshot_labels labels = {.run = label};
        int n = snprintf(label, sizeof(label), "mltune shard %u of %u",
                         b->shape->worker[i].number, b->shape->all_workers);
        enum err err;

        labels.run_bytes = (uint32_t)n;
        err = snapshot_job_new(b->shape->worker[i].store, b->branch, &labels,
                               &b->job[i]);
        if (err)
            return err;
    }
    return ERR_OK;
}

static enum err new_names(struct backup *b, const char *dir)
{
    size_t n = strlen(dir);

    while (n > 1 && dir[n - 1] == '/')
        n--;
    b->dir = mem_alloc(n + 1);
    b->tmp = mem_alloc(n + sizeof(".tmp"));
    if (!b->dir || !b->tmp)
        return ERR_NOMEM;
    memcpy(b->dir, dir, n);
    b->dir[n] = '\0';
    snprintf(b->tmp, n + sizeof(".tmp"), "%s.tmp", b->dir);
    return ERR_OK;
}

/* Whether this node's part in the checkpoint's folder is of this very run: then
 * another node may be about to count on it. */
static enum err own_part(const struct backup *b, bool *ours, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct manifest m;
    enum err err = file_join(path, b->dir, MANIFEST_NAME, f);

    *ours = false;
    if (!err && access(path, F_OK) == 0) {
        err = manifest_load(path, &m, f);
        if (err == ERR_NOMEM)
            return err;
        *ours = !err && m.run == b->manifest.run;
        if (!err)
            manifest_deinit(&m);
    }
    return ERR_OK;
}

/* Errors: ERR_EXIST, what would be written is there already. */
static enum err check_new(const struct backup *b, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    bool ours = false;
    enum err err = ERR_OK;

    if (!b->top)
        return stat(b->dir, &st) != 0
                   ? ERR_OK
                   : fault_set(f, ERR_EXIST, "snapshot %s: is there already",
                               b->dir);
    err = file_join(path, b->top, MANIFEST_NAME, f);
    if (!err && stat(path, &st) == 0)
        return fault_set(f, ERR_EXIST, "snapshot %s: is there already", path);
    if (!err)
        err = own_part(b, &ours, f);
    if (!err && ours)
        err = fault_set(f, ERR_EXIST, "snapshot %s: is there already", b->dir);
    return err;
}

static enum err begin(struct backup *b, struct mlt_ps *ps, const char *dir,
                      struct fault *f)
{
    enum err err = new_names(b, dir);
    int errnum;

    if (!err)
        err = describe(b, forks_find(ps, b->branch), ps_number(ps),
                       ps_saving(ps)->backups);
    if (!err)
        err = new_jobs(b);
    if (err)
        return fault_set(f, err, "snapshot %s: %s", dir, err_text(err));
    err = check_new(b, f);
    if (err)
        return err;
    b->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (b->fd < 0)
        return fault_errno(f, ERR_IO, errno, "snapshot %s", dir);
    errnum = pthread_create(&b->thread, NULL, backup_main, b);
    if (errnum)
        return fault_errno(f, ERR_IO, errnum, "snapshot %s: start a thread",
                           dir);
    b->started = true;
    return ERR_OK;
}

/* For the end of the server: gives the snapshot in progress up. */
static void stop(struct mlt_ps *ps)
{
    ps_snapshot_cancel(ps);
    ps_snapshot_end(ps, NULL, NULL);
}

static enum err check_branch(const struct branch_entry *entry, branch_id branch,
                             struct fault *f)
{
    if (!entry)
        return fault_set(f, ERR_NOENT, "snapshot: there is no branch %u",
                         branch);
    if (entry->type != BRANCH_KEPT)
        return fault_set(f, ERR_INVAL, "snapshot: branch %u is not kept",
                         branch);
    return ERR_OK;
}

void ps_snapshot_count(struct mlt_ps *ps)
{
    ps_saving(ps)->backups++;
}

enum err ps_snapshot_begin(struct mlt_ps *ps, branch_id branch, const char *dir,
                           struct fault *f)
{
    const struct ps_shape *shape = ps_shape(ps);
    struct ps_saving *saving = ps_saving(ps);
    char own[FILE_PATH_MAX];
    struct backup *b;
    enum err err;

    assert(shape->worker);
    assert(dir);
    if (saving->backup)
        return fault_set(f, ERR_BUSY, "another snapshot is being written");
    err = check_branch(forks_find(ps, branch), branch, f);
    if (err)
        return err;
    b = mem_calloc(1, sizeof(*b));
    if (!b)
        return fault_set(f, ERR_NOMEM, "snapshot %s: out of memory", dir);
    b->shape = shape;
    b->branch = branch;
    b->shards = shape->workers;
    b->fd = -1;
    err = node_folder(shape, dir, own, f);
    if (!err && shape->all_workers > MANIFEST_WORKERS_MAX)
        err = fault_set(f, ERR_LIMIT, "snapshot: of at most %d workers",
                        MANIFEST_WORKERS_MAX);
    if (!err && shape->nodes > 1)
        err = folder_ensure(dir, FOLDER_SHARED, f);
    if (!err && shape->nodes > 1 && !(b->top = mem_strdup(dir)))
        err = fault_set(f, ERR_NOMEM, "snapshot %s: out of memory", dir);
    if (!err)
        err = begin(b, ps, own, f);
    if (err) {
        backup_free(b);
        return err;
    }
    saving->backup = b;
    saving->branch = branch;
    saving->stop = stop;
    return ERR_OK;
}

bool ps_snapshot_done(const struct mlt_ps *ps)
{
    const struct backup *b = ps_saving_now(ps)->backup;

    return b && atomic_load(&b->done);
}

int ps_snapshot_fd(const struct mlt_ps *ps)
{
    const struct backup *b = ps_saving_now(ps)->backup;

    return b ? b->fd : -1;
}

void ps_snapshot_cancel(struct mlt_ps *ps)
{
    struct backup *b = ps_saving(ps)->backup;

    for (unsigned i = 0; b && i < b->shards; i++)
        snapshot_job_cancel(b->job[i]);
}

enum err ps_snapshot_end(struct mlt_ps *ps, uint64_t *bytes, struct fault *f)
{
    struct ps_saving *saving = ps_saving(ps);
    struct backup *b = saving->backup;
    struct fault fault;

    if (!b)
        return fault_set(f, ERR_NOENT, "no snapshot was begun");
    pthread_join(b->thread, NULL);
    b->started = false;
    fault = b->fault;
    if (bytes && fault.code == ERR_OK)
        *bytes = b->bytes;
    backup_free(b);
    saving->backup = NULL;
    if (fault.code != ERR_OK && f)
        *f = fault;
    return fault.code;
}
