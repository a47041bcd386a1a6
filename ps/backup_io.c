/* Snapshots of a node: a folder with one file a shard, written by a thread of
 * its own while training goes on.
 *
 * Written as DIR.tmp and renamed when all files are whole and on the disk. Each
 * file says which shard of how many it is and which tables it has, so that what
 * does not fit is refused before any of it is believed.
 */
#include "base/text.h"
#include "branches/snapshot_io.h"
#include "ps/core.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

#define SHARD_PREFIX "shard-"

struct backup {
    const struct mlt_ps *ps; /* borrowed; only what never changes is read */
    branch_id branch;
    unsigned shards;
    struct snapshot_job **job; /* [shards] owned */
    char *dir, *tmp;           /* owned */
    pthread_t thread;
    bool started;
    int fd; /* readable when the thread has finished */
    _Atomic bool done;

    /* The thread's until it is done. */
    uint64_t bytes;
    struct fault fault; /* code ERR_OK: written */
};

/* ---- labels -------------------------------------------------------------- */

static void describe_table(struct text *t, const struct table *table)
{
    text_printf(t, " %s:%u:%u:%u:%s:%u", table->name, (unsigned)table->access,
                (unsigned)table->type, table->width,
                table->rule ? table->rule->name : "-", table->slots);
}

/* What a file of shard @index has to say; NULL when out of memory. */
static char *shard_label(const struct mlt_ps *ps, unsigned index)
{
    struct text t = {0};

    text_printf(&t, "mltune shard %u of %u:", ps->node * ps->workers + index,
                ps->all_workers);
    for (size_t i = 0; i < ps->tables; i++)
        describe_table(&t, &ps->table[i]);
    return text_take(&t);
}

static enum err shard_path(char out[PATH_BYTES], const char *dir,
                           unsigned index, struct fault *f)
{
    int n = snprintf(out, PATH_BYTES, "%s/" SHARD_PREFIX "%u", dir, index);

    if (n >= PATH_BYTES)
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", dir);
    return ERR_OK;
}

/* ---- the folder ---------------------------------------------------------- */

/* Removes a folder of shards and nothing else; what is not there is no error.
 */
static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d)) != NULL)
        if (strncmp(e->d_name, SHARD_PREFIX, strlen(SHARD_PREFIX)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

/* Where this node's part of the snapshot @dir is, of a path that fits. */
static enum err node_folder(const struct mlt_ps *ps, const char *dir,
                            char out[PATH_BYTES], struct fault *f)
{
    int n = ps->nodes > 1
                ? snprintf(out, PATH_BYTES, "%s/node-%u", dir, ps->node)
                : snprintf(out, PATH_BYTES, "%s", dir);

    if (n >= PATH_BYTES)
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", dir);
    return ERR_OK;
}

static enum err flush_folder(const char *dir, struct fault *f)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0, errnum = errno;

    if (fd >= 0)
        close(fd);
    return failed ? fault_errno(f, ERR_IO, errnum, "flush %s", dir) : ERR_OK;
}

static enum err flush_parent(const char *dir, struct fault *f)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(dir, '/');
    size_t n = slash ? (size_t)(slash - dir) : 0;

    if (!slash)
        return flush_folder(".", f);
    if (n == 0)
        return flush_folder("/", f);
    memcpy(parent, dir, n);
    parent[n] = '\0';
    return flush_folder(parent, f);
}

/* ---- the thread ---------------------------------------------------------- */

static enum err write_shards(struct backup *b, struct fault *f)
{
    for (unsigned i = 0; i < b->shards; i++) {
        char path[PATH_BYTES];
        uint64_t bytes = 0;
        enum err err = shard_path(path, b->tmp, i, f);

        if (!err)
            err = snapshot_job_write(b->job[i], path, NULL, &bytes, f);
        if (err)
            return err;
        b->bytes += bytes;
    }
    return ERR_OK;
}

static enum err write_folder(struct backup *b, struct fault *f)
{
    enum err err;

    remove_folder(b->tmp); /* of a process that was killed */
    if (mkdir(b->tmp, 0777) != 0)
        return fault_errno(f, ERR_IO, errno, "create %s", b->tmp);
    err = write_shards(b, f);
    if (!err)
        err = flush_folder(b->tmp, f);
    if (!err && rename(b->tmp, b->dir) != 0)
        err = fault_errno(f, ERR_IO, errno, "rename %s to %s", b->tmp, b->dir);
    if (err)
        remove_folder(b->tmp);
    return err ? err : flush_parent(b->dir, f);
}

static void *backup_main(void *arg)
{
    struct backup *b = arg;
    uint64_t one = 1;
    ssize_t n;

    if (write_folder(b, &b->fault) == ERR_OK)
        b->fault.code = ERR_OK;
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
    mem_free(b);
}

static enum err new_jobs(struct backup *b)
{
    b->job = mem_calloc(b->shards, sizeof(*b->job));
    if (!b->job)
        return ERR_NOMEM;
    for (unsigned i = 0; i < b->shards; i++) {
        struct snapshot_labels labels = {0};
        char *label = shard_label(b->ps, i);
        enum err err;

        if (!label)
            return ERR_NOMEM;
        labels.run = label;
        labels.run_bytes = (uint32_t)strlen(label);
        err = snapshot_job_new(b->ps->worker[i].store, b->branch, &labels,
                               &b->job[i]);
        mem_free(label);
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

static enum err begin(struct backup *b, const char *dir, struct fault *f)
{
    struct stat st;
    enum err err = new_names(b, dir);
    int errnum;

    if (!err)
        err = new_jobs(b);
    if (err)
        return fault_set(f, err, "snapshot %s: %s", dir, err_text(err));
    if (stat(b->dir, &st) == 0)
        return fault_set(f, ERR_EXIST, "snapshot %s: is there already", b->dir);
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

enum err ps_snapshot_begin(struct mlt_ps *ps, branch_id branch, const char *dir,
                           struct fault *f)
{
    const struct branch_entry *entry = core_branch(ps, branch);
    char own[PATH_BYTES];
    struct backup *b;
    enum err err;

    if (ps->backup)
        return fault_set(f, ERR_BUSY, "another snapshot is being written");
    if (!entry)
        return fault_set(f, ERR_NOENT, "snapshot: there is no branch %u",
                         branch);
    if (entry->type != BRANCH_KEPT)
        return fault_set(f, ERR_INVAL, "snapshot: branch %u is not kept",
                         branch);
    b = mem_calloc(1, sizeof(*b));
    if (!b)
        return fault_set(f, ERR_NOMEM, "snapshot %s: out of memory", dir);
    b->ps = ps;
    b->branch = branch;
    b->shards = ps->workers;
    b->fd = -1;
    err = node_folder(ps, dir, own, f);
    if (!err && ps->nodes > 1 && mkdir(dir, 0777) != 0 && errno != EEXIST)
        err = fault_errno(f, ERR_IO, errno, "create %s", dir);
    if (!err)
        err = begin(b, own, f);
    if (err)
        backup_free(b);
    else
        ps->backup = b;
    return err;
}

bool ps_snapshot_done(const struct mlt_ps *ps)
{
    return ps->backup && atomic_load(&ps->backup->done);
}

int ps_snapshot_fd(const struct mlt_ps *ps)
{
    return ps->backup ? ps->backup->fd : -1;
}

void ps_snapshot_cancel(struct mlt_ps *ps)
{
    if (ps->backup)
        for (unsigned i = 0; i < ps->backup->shards; i++)
            snapshot_job_cancel(ps->backup->job[i]);
}

enum err ps_snapshot_end(struct mlt_ps *ps, uint64_t *bytes, struct fault *f)
{
    struct backup *b = ps->backup;
    struct fault fault;

    if (!b)
        return fault_set(f, ERR_NOENT, "no snapshot was begun");
    pthread_join(b->thread, NULL);
    b->started = false;
    fault = b->fault;
    if (bytes && fault.code == ERR_OK)
        *bytes = b->bytes;
    backup_free(b);
    ps->backup = NULL;
    if (fault.code != ERR_OK && f)
        *f = fault;
    return fault.code;
}

bool backup_uses(const struct mlt_ps *ps, branch_id id)
{
    return ps->backup && ps->backup->branch == id;
}

void backup_stop(struct mlt_ps *ps)
{
    if (!ps->backup)
        return;
    ps_snapshot_cancel(ps);
    ps_snapshot_end(ps, NULL, NULL);
}

/* ---- restoring ----------------------------------------------------------- */

static enum err check_label(const struct mlt_ps *ps, unsigned index,
                            const struct snapshot_file *file, const char *path,
                            struct fault *f)
{
    const struct snapshot_labels *got = snapshot_labels(file);
    char *want = shard_label(ps, index);
    bool same;

    if (!want)
        return fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    same = got->run_bytes == strlen(want) &&
           memcmp(got->run, want, got->run_bytes) == 0;
    if (!same)
        fault_set(f, ERR_FORMAT,
                  "%s: written for \"%.*s\", but this is \"%.150s\"", path,
                  got->run_bytes < 150 ? (int)got->run_bytes : 150,
                  (const char *)got->run, want);
    mem_free(want);
    return same ? ERR_OK : ERR_FORMAT;
}

static enum err restore_shard(struct mlt_ps *ps, unsigned index, branch_id id,
                              const char *dir, struct fault *f)
{
    struct snapshot_file *file = NULL;
    char path[PATH_BYTES];
    enum err err = shard_path(path, dir, index, f);

    if (!err)
        err = snapshot_open(path, NULL, &file, f);
    if (err)
        return err;
    err = check_label(ps, index, file, path, f);
    if (!err)
        err = snapshot_restore(file, ps->worker[index].store, id, f);
    snapshot_close(file);
    return err;
}

enum err ps_restore(struct mlt_ps *ps, branch_id id, const char *dir,
                    struct fault *f)
{
    char own[PATH_BYTES];
    enum err err;
    unsigned i;

    if (ps_has(ps, id))
        return fault_set(f, ERR_EXIST, "restore: branch %u is there already",
                         id);
    if (core_reserve_branch(ps) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "restore %s: out of memory", dir);
    err = node_folder(ps, dir, own, f);
    if (err)
        return err;
    for (i = 0; i < ps->workers; i++) {
        err = restore_shard(ps, i, id, own, f);
        if (err) {
            core_drop_in_first(ps, i, id);
            return err;
        }
    }
    core_add_branch(ps, id, BRANCH_KEPT);
    return ERR_OK;
}
