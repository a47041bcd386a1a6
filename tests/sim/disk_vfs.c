/* SQLite on the simulated disk: its file system (sqlite3_vfs), the default one
 * while the disk is there.
 *
 * Files are those of disk.c; memory that connections share (the index of the
 * write-ahead log) is the process's own and is gone with it. One connection at
 * a time, so a lock is always granted. As SQLite's own for Unix, the first
 * flush of a journal that it has made flushes the folder, too.
 *
 * Source: sqlite.org/vfs.html and the contract in sqlite3.h.
 */
#include "tests/sim/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_MAX = 64, PATH_MAX_BYTES = 512, VFS_SECTOR = 512 };

struct vfs_file {
    sqlite3_file base;
    int fd;
    bool new_journal; /* its name is not flushed */
    bool doomed;      /* to be removed when it is closed */
    char path[PATH_MAX_BYTES];
    void *shared[SHARED_MAX]; /* pages of its log's index; owned: nobody else
                               * has the same journal open */
};

static sqlite3_vfs vfs;
static sqlite3_vfs *before;

static struct vfs_file *of(sqlite3_file *f)
{
    return (struct vfs_file *)f;
}

/* ---- a file -------------------------------------------------------------- */

static int file_close(sqlite3_file *f)
{
    sim_disk_ops()->close(of(f)->fd);
    if (of(f)->doomed)
        sim_disk_ops()->unlink(of(f)->path);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    ssize_t got = sim_disk_read_at(of(f)->fd, out, (size_t)n, (uint64_t)at);

    if (got < 0)
        return SQLITE_IOERR_READ;
    if (got == n)
        return SQLITE_OK;
    memset((char *)out + got, 0, (size_t)(n - got));
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *bytes, int n,
                      sqlite3_int64 at)
{
    if (sim_disk_ops()->write_at(of(f)->fd, bytes, (size_t)n, (uint64_t)at) ==
        n)
        return SQLITE_OK;
    return errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return sim_disk_ops()->resize(of(f)->fd, (uint64_t)n) == 0
               ? SQLITE_OK
               : SQLITE_IOERR_TRUNCATE;
}

static int file_sync(sqlite3_file *f, int flags)
{
    struct vfs_file *own = of(f);

    (void)flags;
    if (sim_disk_ops()->fsync(own->fd) != 0)
        return SQLITE_IOERR_FSYNC;
    if (!own->new_journal)
        return SQLITE_OK;
    own->new_journal = false;
    /* SQLite's own goes on where that fails. */
    disk_flush_parent(sim_disk_ops(), own->path, NULL);
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *out)
{
    uint64_t n = 0;

    if (sim_disk_ops()->size(of(f)->fd, &n) != 0)
        return SQLITE_IOERR_FSTAT;
    *out = (sqlite3_int64)n;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *f, int level)
{
    (void)f;
    (void)level;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *f, int *out)
{
    (void)f;
    *out = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *f)
{
    (void)f;
    return VFS_SECTOR;
}

static int file_traits(sqlite3_file *f)
{
    (void)f;
    return 0; /* as of a disk that promises nothing */
}

static int shared_map(sqlite3_file *f, int page, int bytes, int extend,
                      void volatile **out)
{
    void **shared = of(f)->shared;

    assert(page >= 0 && page < SHARED_MAX);
    if (!shared[page] && extend) {
        shared[page] = calloc(1, (size_t)bytes);
        if (!shared[page])
            abort();
    }
    *out = shared[page];
    return SQLITE_OK;
}

static int shared_lock(sqlite3_file *f, int offset, int n, int flags)
{
    (void)f;
    (void)offset;
    (void)n;
    (void)flags;
    return SQLITE_OK;
}

static void shared_barrier(sqlite3_file *f)
{
    (void)f;
}

static int shared_unmap(sqlite3_file *f, int remove)
{
    void **shared = of(f)->shared;

    (void)remove;
    for (int i = 0; i < SHARED_MAX; i++) {
        free(shared[i]);
        shared[i] = NULL;
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = shared_map,
    .xShmLock = shared_lock,
    .xShmBarrier = shared_barrier,
    .xShmUnmap = shared_unmap,
};

/* ---- the file system ----------------------------------------------------- */

static int vfs_open(sqlite3_vfs *v, const char *path, sqlite3_file *f,
                    int flags, int *out)
{
    static unsigned temporary;
    struct vfs_file *own = of(f);
    char name[PATH_MAX_BYTES];
    bool is_new;

    (void)v;
    memset(own, 0, sizeof(*own));
    snprintf(name, sizeof(name), SIM_DISK_STATE "/sqlite-%u", temporary++);
    if (!path)
        path = name;
    is_new = !sim_disk_has(path);
    own->fd = sim_disk_ops()->open(
        path, O_RDWR | (flags & SQLITE_OPEN_CREATE ? O_CREAT : 0), 0600);
    if (own->fd < 0)
        return errno == ENOSPC ? SQLITE_FULL : SQLITE_CANTOPEN;
    snprintf(own->path, sizeof(own->path), "%s", path);
    own->new_journal =
        is_new && flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL |
                           SQLITE_OPEN_SUPER_JOURNAL);
    own->doomed = flags & SQLITE_OPEN_DELETEONCLOSE;
    own->base.pMethods = &methods;
    if (out)
        *out = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *path, int sync)
{
    (void)v;
    if (sim_disk_ops()->unlink(path) != 0)
        return errno == ENOENT ? SQLITE_IOERR_DELETE_NOENT
                               : SQLITE_IOERR_DELETE;
    if (sync && disk_flush_parent(sim_disk_ops(), path, NULL) != ERR_OK)
        return SQLITE_IOERR_DIR_FSYNC;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *v, const char *path, int flags, int *out)
{
    int fd = -1;
    uint64_t n = 0;

    (void)v;
    *out = sim_disk_has(path);
    /* "Exists" means to SQLite that it is not empty, either. */
    if (*out && flags == SQLITE_ACCESS_EXISTS) {
        fd = sim_disk_ops()->open(path, O_RDONLY, 0);
        if (fd < 0)
            return SQLITE_IOERR_ACCESS;
        *out = sim_disk_ops()->size(fd, &n) != 0 || n > 0;
        sim_disk_ops()->close(fd);
    }
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *v, const char *path, int n, char *out)
{
    (void)v;
    sqlite3_snprintf(n, out, "%s", path);
    return SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    memset(out, 5, (size_t)n); /* the same in every run */
    return n;
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
    (void)v;
    return us;
}

static int vfs_time(sqlite3_vfs *v, sqlite3_int64 *ms)
{
    (void)v;
    *ms = 212000000000000; /* some day; nothing hangs on it */
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    (void)n;
    (void)out;
    return errno;
}

void sim_disk_vfs_init(void)
{
    before = sqlite3_vfs_find(NULL);
    vfs = (sqlite3_vfs){.iVersion = 2,
                        .szOsFile = sizeof(struct vfs_file),
                        .mxPathname = PATH_MAX_BYTES,
                        .zName = "simulated",
                        .xOpen = vfs_open,
                        .xDelete = vfs_delete,
                        .xAccess = vfs_access,
                        .xFullPathname = vfs_full_path,
                        .xRandomness = vfs_random,
                        .xSleep = vfs_sleep,
                        .xGetLastError = vfs_last_error,
                        .xCurrentTimeInt64 = vfs_time};
    if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
        abort();
}

void sim_disk_vfs_deinit(void)
{
    sqlite3_vfs_unregister(&vfs);
    if (before)
        sqlite3_vfs_register(before, 1);
}
