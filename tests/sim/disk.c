#include "tests/sim/disk.h"

#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILES_MAX = 1024,
    NAMES_MAX = 256,
    CHANGES_MAX = 4096, /* of names, not flushed */
    OPEN_FILES_MAX = 32,
    SECTOR = 512,
    PATH_ROOM = 160,
    FIRST_FD = 100000 /* no descriptor of the system's */
};

/* A write that is not flushed; or, of @bytes NULL, a new length. */
struct pending {
    unsigned char *bytes; /* owned */
    uint64_t offset, n;
};

struct content {
    unsigned char *bytes; /* owned */
    uint64_t n, room;
};

struct file {
    bool used, folder;
    struct content now, flushed;
    struct pending *pending; /* owned: in order */
    size_t pendings, pendings_room;
};

struct name {
    char path[PATH_ROOM]; /* "": none */
    int file;
};

/* One change of names: what was at @from is gone (""), what is at @to is
 * @file (-1: nothing). */
struct change {
    char folder[PATH_ROOM];
    char from[PATH_ROOM], to[PATH_ROOM];
    int file, exchanged; /* exchanged: what then is at @from; -1 */
};

static struct {
    struct file file[FILES_MAX];
    int files; /* numbers used so far */
    struct name now[NAMES_MAX], flushed[NAMES_MAX];
    struct change change[CHANGES_MAX];
    size_t changes;
    struct {
        int file; /* -1: closed */
        uint64_t at;
        bool append;
        char path[PATH_ROOM]; /* of a folder that is to be flushed */
    } open[OPEN_FILES_MAX];
    struct rng rng;
    struct sim_disk_faults faults;
    struct sim_disk_stats stats;
    unsigned process; /* since the faults were set */
    uint64_t used;
    bool dead;         /* the process that calls was killed */
    const char *about; /* path of the call that is made; borrowed for it */
} disk;

/* ---- contents ------------------------------------------------------------ */

static void content_resize(struct content *c, uint64_t n)
{
    if (n > c->room) {
        c->room = n + n / 2 + 4096;
        c->bytes = realloc(c->bytes, c->room);
        if (!c->bytes)
            abort();
    }
    if (n > c->n)
        memset(c->bytes + c->n, 0, n - c->n);
    c->n = n;
}

static void content_put(struct content *c, uint64_t offset, const void *bytes,
                        uint64_t n)
{
    if (offset + n > c->n)
        content_resize(c, offset + n);
    if (n)
        memcpy(c->bytes + offset, bytes, n);
}

static void content_copy(struct content *to, const struct content *from)
{
    to->n = 0;
    content_resize(to, from->n);
    if (from->n)
        memcpy(to->bytes, from->bytes, from->n);
}

static void pending_add(struct file *f, uint64_t offset, const void *bytes,
                        uint64_t n)
{
    struct pending *p;

    if (f->pendings == f->pendings_room) {
        f->pendings_room = f->pendings_room ? 2 * f->pendings_room : 16;
        f->pending =
            realloc(f->pending, f->pendings_room * sizeof(*f->pending));
        if (!f->pending)
            abort();
    }
    p = &f->pending[f->pendings++];
    *p = (struct pending){NULL, offset, n};
    if (!bytes)
        return;
    p->bytes = malloc(n + 1);
    if (!p->bytes)
        abort();
    memcpy(p->bytes, bytes, n);
}

static void pending_clear(struct file *f)
{
    for (size_t i = 0; i < f->pendings; i++)
        free(f->pending[i].bytes);
    f->pendings = 0;
}

/* All that was written so far is on the disk. */
static void file_flush(struct file *f)
{
    for (size_t i = 0; i < f->pendings; i++) {
        const struct pending *p = &f->pending[i];

        if (p->bytes)
            content_put(&f->flushed, p->offset, p->bytes, p->n);
        else
            content_resize(&f->flushed, p->n);
    }
    pending_clear(f);
}

/* ---- names --------------------------------------------------------------- */

static struct name *find_in(struct name *names, const char *path)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (names[i].path[0] && strcmp(names[i].path, path) == 0)
            return &names[i];
    return NULL;
}

static struct name *find(const char *path)
{
    return find_in(disk.now, path);
}

static void set_name(struct name *names, const char *path, int file)
{
    struct name *n = find_in(names, path);

    for (int i = 0; i < NAMES_MAX && !n && file >= 0; i++)
        if (!names[i].path[0])
            n = &names[i];
    if (file < 0 && !n)
        return;
    assert(n);
    n->file = file;
    snprintf(n->path, sizeof(n->path), "%s", file < 0 ? "" : path);
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* What is below @from is below @to then, as with folders that get another name.
 */
static void move_below(struct name *names, const char *from, const char *to)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        char rest[PATH_ROOM], path[2 * PATH_ROOM];

        if (!names[i].path[0] || !is_below(names[i].path, from))
            continue;
        snprintf(rest, sizeof(rest), "%s", names[i].path + strlen(from));
        snprintf(path, sizeof(path), "%s%s", to, rest);
        assert(strlen(path) < PATH_ROOM);
        memcpy(names[i].path, path, strlen(path) + 1);
    }
}

static void parent_of(const char *path, char out[PATH_ROOM])
{
    const char *slash = strrchr(path, '/');

    assert(slash && strlen(path) < PATH_ROOM);
    memcpy(out, path, (size_t)(slash - path));
    out[slash - path] = '\0';
}

static void apply(struct name *names, const struct change *c)
{
    if (c->from[0] && c->exchanged >= 0) { /* two folders: all below, too */
        static const char aside[] = "/aside";

        move_below(names, c->from, aside);
        move_below(names, c->to, c->from);
        move_below(names, aside, c->to);
    } else if (c->from[0]) {
        move_below(names, c->from, c->to);
    }
    if (c->from[0])
        set_name(names, c->from, c->exchanged);
    if (c->to[0])
        set_name(names, c->to, c->file);
}

static void add_change(const char *from, const char *to, int file,
                       int exchanged)
{
    struct change *c = &disk.change[disk.changes];

    assert(disk.changes < CHANGES_MAX);
    disk.changes++;
    *c = (struct change){.file = file, .exchanged = exchanged};
    snprintf(c->from, sizeof(c->from), "%s", from);
    snprintf(c->to, sizeof(c->to), "%s", to);
    parent_of(to[0] ? to : from, c->folder);
    apply(disk.now, c);
}

/* Changes in @folder are on the disk, and those before them: a file system has
 * one log of them. */
static void names_flush(const char *folder)
{
    size_t upto = disk.changes;

    while (upto > 0 && strcmp(disk.change[upto - 1].folder, folder) != 0)
        upto--;
    for (size_t i = 0; i < upto; i++)
        apply(disk.flushed, &disk.change[i]);
    memmove(disk.change, disk.change + upto,
            (disk.changes - upto) * sizeof(disk.change[0]));
    disk.changes -= upto;
}

static int file_new(bool folder)
{
    int i = 0;

    /* Numbers of files that nobody has a name of, not even on the disk, are
     * used again. */
    for (i = 0; i < FILES_MAX && disk.file[i].used; i++)
        ;
    assert(i < FILES_MAX);
    disk.file[i].used = true;
    disk.file[i].folder = folder;
    if (i >= disk.files)
        disk.files = i + 1;
    return i;
}

static void file_free(struct file *f)
{
    pending_clear(f);
    disk.used -= f->now.n;
    free(f->now.bytes);
    free(f->flushed.bytes);
    free(f->pending);
    memset(f, 0, sizeof(*f));
}

/* Files without any name, open descriptor, or change that speaks of them. */
static void collect(void)
{
    static bool seen[FILES_MAX];

    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < NAMES_MAX; i++) {
        if (disk.now[i].path[0])
            seen[disk.now[i].file] = true;
        if (disk.flushed[i].path[0])
            seen[disk.flushed[i].file] = true;
    }
    for (size_t i = 0; i < disk.changes; i++) {
        if (disk.change[i].file >= 0)
            seen[disk.change[i].file] = true;
        if (disk.change[i].exchanged >= 0)
            seen[disk.change[i].exchanged] = true;
    }
    for (int i = 0; i < OPEN_FILES_MAX; i++)
        if (disk.open[i].file >= 0)
            seen[disk.open[i].file] = true;
    for (int i = 0; i < disk.files; i++)
        if (disk.file[i].used && !seen[i])
            file_free(&disk.file[i]);
}

/* ---- faults -------------------------------------------------------------- */

static bool chance(double p)
{
    return p > 0 && rng_uniform(&disk.rng) < p;
}

static bool may_fail(void)
{
    const struct sim_disk_faults *f = &disk.faults;

    disk.stats.calls++;
    return !f->below || strncmp(disk.about, f->below, strlen(f->below)) == 0;
}

/* Whether it is the call that is told to. */
static bool is_told(enum sim_disk_call call)
{
    const struct sim_disk_faults *f = &disk.faults;
    uint64_t n;

    if (disk.process != f->process)
        return false;
    n = ++disk.stats.called[call];
    return f->nth > 0 && f->call == call &&
           (n == f->nth || (f->forever && n > f->nth));
}

static bool fails_now(enum sim_disk_call call, const char *path)
{
    bool told = !disk.dead && is_told(call);

    disk.about = path;
    if (!told && !disk.dead && (!may_fail() || !chance(disk.faults.error)))
        return false;
    disk.stats.failed += !disk.dead;
    errno = told ? disk.faults.with : EIO;
    return true;
}

/* @bytes more are wanted. */
static bool has_no_room(uint64_t bytes)
{
    const struct sim_disk_faults *f = &disk.faults;

    if (bytes == 0 || (!(f->room > 0 && disk.used + bytes > f->room) &&
                       !(may_fail() && chance(f->full))))
        return false;
    disk.stats.full++;
    errno = ENOSPC;
    return true;
}

/* ---- the calls ----------------------------------------------------------- */

static int fd_new(int file)
{
    for (int i = 0; i < OPEN_FILES_MAX; i++) {
        if (disk.open[i].file >= 0)
            continue;
        disk.open[i].file = file;
        disk.open[i].at = 0;
        disk.open[i].append = false;
        disk.open[i].path[0] = '\0';
        return FIRST_FD + i;
    }
    abort();
}

static struct file *file_of(int fd)
{
    assert(fd >= FIRST_FD && fd < FIRST_FD + OPEN_FILES_MAX);
    assert(disk.open[fd - FIRST_FD].file >= 0);
    return &disk.file[disk.open[fd - FIRST_FD].file];
}

static const char *path_of(int fd)
{
    return disk.open[fd - FIRST_FD].path;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static int make(const char *path, bool folder)
{
    char above[PATH_ROOM];
    struct name *in;
    int file;

    parent_of(path, above);
    in = find(above);
    if (!in || !disk.file[in->file].folder)
        return refuse(ENOENT);
    if (has_no_room(1))
        return -1;
    file = file_new(folder);
    add_change("", path, file, -1);
    return file;
}

static int sim_open(const char *path, int flags, mode_t mode)
{
    struct name *n = find(path);
    int file = n ? n->file : -1, fd;

    (void)mode;
    if (fails_now(SIM_DISK_OPEN, path))
        return -1;
    if (!n && !(flags & O_CREAT))
        return refuse(ENOENT);
    if (n && (flags & O_CREAT) && (flags & O_EXCL))
        return refuse(EEXIST);
    if (n && disk.file[file].folder && (flags & O_ACCMODE) != O_RDONLY)
        return refuse(EISDIR);
    if (!n)
        file = make(path, false);
    if (file < 0)
        return -1;
    if (flags & O_TRUNC && disk.file[file].now.n > 0) {
        disk.used -= disk.file[file].now.n;
        content_resize(&disk.file[file].now, 0);
        pending_add(&disk.file[file], 0, NULL, 0);
    }
    fd = fd_new(file);
    disk.open[fd - FIRST_FD].append = flags & O_APPEND;
    snprintf(disk.open[fd - FIRST_FD].path, PATH_ROOM, "%s", path);
    return fd;
}

ssize_t sim_disk_read_at(int fd, void *buffer, size_t n, uint64_t offset)
{
    struct content *c = &file_of(fd)->now;
    uint64_t left = offset < c->n ? c->n - offset : 0;

    if (fails_now(SIM_DISK_READ, path_of(fd)))
        return -1;
    n = n < left ? n : left;
    if (n)
        memcpy(buffer, c->bytes + offset, n);
    return (ssize_t)n;
}

static ssize_t sim_read(int fd, void *buffer, size_t n)
{
    ssize_t got = sim_disk_read_at(fd, buffer, n, disk.open[fd - FIRST_FD].at);

    if (got > 0)
        disk.open[fd - FIRST_FD].at += (uint64_t)got;
    return got;
}

static ssize_t sim_write_at(int fd, const void *buffer, size_t n,
                            uint64_t offset)
{
    struct file *f = file_of(fd);
    uint64_t more = offset + n > f->now.n ? offset + n - f->now.n : 0;

    if (fails_now(SIM_DISK_WRITE, path_of(fd)) || has_no_room(more))
        return -1;
    content_put(&f->now, offset, buffer, n);
    disk.used += more;
    pending_add(f, offset, buffer, n);
    return (ssize_t)n;
}

static ssize_t sim_write(int fd, const void *buffer, size_t n)
{
    int i = fd - FIRST_FD;
    uint64_t at = disk.open[i].append ? file_of(fd)->now.n : disk.open[i].at;
    ssize_t put = sim_write_at(fd, buffer, n, at);

    if (put > 0)
        disk.open[i].at = at + (uint64_t)put;
    return put;
}

static int sim_size(int fd, uint64_t *bytes)
{
    if (file_of(fd)->folder)
        return refuse(EISDIR);
    if (fails_now(SIM_DISK_SIZE, path_of(fd)))
        return -1;
    *bytes = file_of(fd)->now.n;
    return 0;
}

static int sim_resize(int fd, uint64_t bytes)
{
    struct file *f = file_of(fd);

    if (fails_now(SIM_DISK_TRUNCATE, path_of(fd)) ||
        has_no_room(bytes > f->now.n ? bytes - f->now.n : 0))
        return -1;
    disk.used += bytes - f->now.n;
    content_resize(&f->now, bytes);
    pending_add(f, 0, NULL, bytes);
    return 0;
}

/* One that fails may have lost what was to be flushed, for good: the pages
 * count as clean then (as on Linux). */
static int sim_fsync(int fd)
{
    struct file *f = file_of(fd);

    disk.stats.flushes++;
    if (fails_now(SIM_DISK_SYNC, path_of(fd))) {
        if (!disk.dead)
            pending_clear(f);
        return -1;
    }
    if (f->folder)
        names_flush(disk.open[fd - FIRST_FD].path);
    else
        file_flush(f);
    return 0;
}

static int sim_close(int fd)
{
    file_of(fd);
    disk.open[fd - FIRST_FD].file = -1;
    collect();
    return 0;
}

static bool has_entries(const char *path)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (disk.now[i].path[0] && is_below(disk.now[i].path, path))
            return true;
    return false;
}

static int sim_rename(const char *from, const char *to)
{
    struct name *a = find(from), *b = find(to);

    if (fails_now(SIM_DISK_RENAME, to))
        return -1;
    if (!a)
        return refuse(ENOENT);
    if (b && disk.file[b->file].folder && has_entries(to))
        return refuse(ENOTEMPTY);
    add_change(from, to, a->file, -1);
    collect();
    return 0;
}

static int sim_exchange(const char *a, const char *b)
{
    struct name *at = find(a), *to = find(b);

    if (fails_now(SIM_DISK_RENAME, a))
        return -1;
    if (!at || !to)
        return refuse(ENOENT);
    add_change(a, b, at->file, to->file);
    return 0;
}

static int sim_link(const char *from, const char *to)
{
    struct name *a = find(from);

    if (fails_now(SIM_DISK_RENAME, to))
        return -1;
    if (!a || find(to))
        return refuse(a ? EEXIST : ENOENT);
    add_change("", to, a->file, -1);
    return 0;
}

static int take_away(const char *path, bool folder)
{
    struct name *n = find(path);

    if (fails_now(SIM_DISK_UNLINK, path))
        return -1;
    if (!n)
        return refuse(ENOENT);
    if (disk.file[n->file].folder != folder)
        return refuse(folder ? ENOTDIR : EISDIR);
    if (folder && has_entries(path))
        return refuse(ENOTEMPTY);
    add_change("", path, -1, -1);
    collect();
    return 0;
}

static int sim_unlink(const char *path)
{
    return take_away(path, false);
}

static int sim_rmdir(const char *path)
{
    return take_away(path, true);
}

static int sim_mkdir(const char *path, mode_t mode)
{
    (void)mode;
    if (fails_now(SIM_DISK_MKDIR, path))
        return -1;
    if (find(path))
        return refuse(EEXIST);
    return make(path, true) < 0 ? -1 : 0;
}

const struct disk_ops *sim_disk_ops(void)
{
    static const struct disk_ops ops = {.open = sim_open,
                                        .read = sim_read,
                                        .write = sim_write,
                                        .write_at = sim_write_at,
                                        .size = sim_size,
                                        .resize = sim_resize,
                                        .fsync = sim_fsync,
                                        .close = sim_close,
                                        .rename = sim_rename,
                                        .exchange = sim_exchange,
                                        .link = sim_link,
                                        .unlink = sim_unlink,
                                        .mkdir = sim_mkdir,
                                        .rmdir = sim_rmdir};

    return &ops;
}

/* ---- ends of processes and machines -------------------------------------- */

void sim_disk_kill(void)
{
    disk.dead = true;
}

void sim_disk_process_ends(void)
{
    disk.dead = false;
    disk.process++;
    for (int i = 0; i < OPEN_FILES_MAX; i++)
        disk.open[i].file = -1;
    collect();
}

/* Any of the write's sectors. */
static void keep_sectors(struct file *f, const struct pending *p)
{
    uint64_t at = p->offset;

    while (at < p->offset + p->n) {
        uint64_t end = (at / SECTOR + 1) * SECTOR;

        if (end > p->offset + p->n)
            end = p->offset + p->n;
        if (rng_below(&disk.rng, 2))
            content_put(&f->flushed, at, p->bytes + (at - p->offset), end - at);
        else
            disk.stats.lost_sectors++;
        at = end;
    }
}

enum fate { LOSES_ALL, KEEPS_ALL, KEEPS_FIRST, TORN, FATES };

static void lose_content(struct file *f)
{
    enum fate fate = (enum fate)rng_below(&disk.rng, FATES);
    size_t keep = f->pendings;

    if (fate == LOSES_ALL)
        keep = 0;
    else if (fate == KEEPS_FIRST && f->pendings)
        keep = rng_below(&disk.rng, f->pendings);
    for (size_t i = 0; i < f->pendings; i++) {
        const struct pending *p = &f->pending[i];

        if (i >= keep)
            disk.stats.lost_sectors++;
        else if (!p->bytes)
            content_resize(&f->flushed, p->n);
        else if (fate == TORN)
            keep_sectors(f, p);
        else
            content_put(&f->flushed, p->offset, p->bytes, p->n);
    }
    pending_clear(f);
    disk.used -= f->now.n;
    content_copy(&f->now, &f->flushed);
    disk.used += f->now.n;
}

void sim_disk_power_cut(void)
{
    size_t keep = rng_below(&disk.rng, disk.changes + 1);

    sim_disk_process_ends();
    disk.stats.lost_names += disk.changes - keep;
    for (size_t i = 0; i < keep; i++)
        apply(disk.flushed, &disk.change[i]);
    disk.changes = 0;
    memcpy(disk.now, disk.flushed, sizeof(disk.now));
    for (int i = 0; i < disk.files; i++)
        if (disk.file[i].used)
            lose_content(&disk.file[i]);
    collect();
}

/* ---- for the simulator --------------------------------------------------- */

void sim_disk_set_faults(const struct sim_disk_faults *faults)
{
    static const struct sim_disk_faults none;

    disk.faults = faults ? *faults : none;
    disk.process = 0;
    memset(disk.stats.called, 0, sizeof(disk.stats.called));
}

const char *sim_disk_call_name(enum sim_disk_call call)
{
    static const char *const names[SIM_DISK_CALLS] = {
        "open",   "read",  "write",    "sync", "rename",
        "unlink", "mkdir", "truncate", "size"};

    assert((unsigned)call < SIM_DISK_CALLS);
    return names[call];
}

struct sim_disk_stats sim_disk_stats(void)
{
    return disk.stats;
}

bool sim_disk_has(const char *path)
{
    return find(path) != NULL;
}

void sim_disk_each(const char *path, void (*visit)(void *ctx, const char *path),
                   void *ctx)
{
    static char names[NAMES_MAX][PATH_ROOM];
    size_t n = 0, skip = strlen(path) + 1;

    for (int i = 0; i < NAMES_MAX; i++)
        if (disk.now[i].path[0] && is_below(disk.now[i].path, path) &&
            !strchr(disk.now[i].path + skip, '/'))
            memcpy(names[n++], disk.now[i].path, PATH_ROOM);
    for (size_t i = 0; i < n; i++)
        visit(ctx, names[i]);
}

bool sim_disk_remove(const char *path)
{
    struct name *n = find(path);
    bool all = true;

    if (!n)
        return true;
    if (!disk.file[n->file].folder)
        return sim_unlink(path) == 0;
    for (bool more = true; more && all;) {
        const char *first = NULL;
        char copy[PATH_ROOM];

        for (int i = 0; i < NAMES_MAX && !first; i++)
            if (disk.now[i].path[0] && is_below(disk.now[i].path, path) &&
                !has_entries(disk.now[i].path))
                first = disk.now[i].path;
        more = first != NULL;
        if (!more)
            break;
        memcpy(copy, first, PATH_ROOM);
        n = find(copy);
        all = (disk.file[n->file].folder ? sim_rmdir : sim_unlink)(copy) == 0;
    }
    return all && sim_rmdir(path) == 0;
}

void sim_disk_flip(const char *path, double at)
{
    struct name *n = find(path);
    struct file *f = n ? &disk.file[n->file] : NULL;
    uint64_t byte;

    if (!f || f->folder || f->now.n == 0)
        return;
    file_flush(f);
    byte = (uint64_t)(at * (double)f->now.n) % f->now.n;
    f->now.bytes[byte] ^= (unsigned char)(1u << rng_below(&disk.rng, 8));
    content_copy(&f->flushed, &f->now);
}

void sim_disk_init(uint64_t seed)
{
    static const char *const folders[] = {SIM_DISK_STATE, SIM_DISK_SNAPSHOTS};

    memset(&disk, 0, sizeof(disk));
    rng_init(&disk.rng, rng_mix(seed, 77));
    for (int i = 0; i < OPEN_FILES_MAX; i++)
        disk.open[i].file = -1;
    for (size_t i = 0; i < 2; i++)
        add_change("", folders[i], file_new(true), -1);
    for (size_t i = 0; i < disk.changes; i++)
        apply(disk.flushed, &disk.change[i]);
    disk.changes = 0;
    disk_replace(sim_disk_ops());
    sim_disk_vfs_init();
}

void sim_disk_deinit(void)
{
    sim_disk_vfs_deinit();
    disk_replace(NULL);
    for (int i = 0; i < disk.files; i++)
        if (disk.file[i].used)
            file_free(&disk.file[i]);
}
