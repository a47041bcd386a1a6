#include "tests/unit/memory_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 64, NAMES_MAX = 8, OPEN_MAX_ = 8, FOLDER = NODES_MAX };

struct content {
    unsigned char *bytes;
    size_t n;
};

struct node {
    bool used;
    struct content now, flushed;
};

struct name {
    char text[128];
    int node; /* -1: no such file */
};

static struct {
    struct node node[NODES_MAX];
    struct name now[NAMES_MAX], flushed[NAMES_MAX];
    struct {
        int node; /* -1: closed */
        size_t at;
    } open[OPEN_MAX_];
    unsigned calls, fail_at;
    int error;
    bool forever, failed;
    size_t portion;
    bool interrupted;
} disk;

static void content_set(struct content *c, const void *bytes, size_t n)
{
    unsigned char *copy = malloc(n + 1);

    if (!copy)
        abort();
    if (n)
        memcpy(copy, bytes, n);
    free(c->bytes);
    *c = (struct content){copy, n};
}

void memory_disk_free(void)
{
    for (int i = 0; i < NODES_MAX; i++) {
        free(disk.node[i].now.bytes);
        free(disk.node[i].flushed.bytes);
    }
    memset(&disk, 0, sizeof(disk));
}

void memory_disk_reset(void)
{
    memory_disk_free();
    for (int i = 0; i < NAMES_MAX; i++)
        disk.now[i].node = disk.flushed[i].node = -1;
    for (int i = 0; i < OPEN_MAX_; i++)
        disk.open[i].node = -1;
}

void memory_disk_fail(unsigned nth, int error, bool forever)
{
    disk.calls = 0;
    disk.fail_at = nth;
    disk.error = error;
    disk.forever = forever;
    disk.failed = false;
}

bool memory_disk_failed(void)
{
    return disk.failed;
}

void memory_disk_be_slow(size_t n)
{
    disk.portion = n;
}

/* Has this call to fail? Sets errno. */
static bool fails(void)
{
    disk.calls++;
    if (disk.fail_at == 0 || disk.calls < disk.fail_at ||
        (disk.calls > disk.fail_at && !disk.forever))
        return false;
    disk.failed = true;
    errno = disk.error;
    return true;
}

static bool interrupts(void)
{
    if (disk.portion == 0)
        return false;
    disk.interrupted = !disk.interrupted;
    errno = EINTR;
    return disk.interrupted;
}

static struct name *find(struct name *names, const char *text)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (names[i].node >= 0 && strcmp(names[i].text, text) == 0)
            return &names[i];
    return NULL;
}

static struct name *name_new(const char *text)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        if (disk.now[i].node >= 0)
            continue;
        snprintf(disk.now[i].text, sizeof(disk.now[i].text), "%s", text);
        return &disk.now[i];
    }
    abort();
}

/* Nodes are never used twice: a test is short. */
static int node_new(void)
{
    for (int i = 0; i < NODES_MAX; i++) {
        if (disk.node[i].used)
            continue;
        disk.node[i].used = true;
        return i;
    }
    abort();
}

static int fd_new(int node)
{
    for (int i = 0; i < OPEN_MAX_; i++) {
        if (disk.open[i].node >= 0)
            continue;
        disk.open[i].node = node;
        disk.open[i].at = 0;
        return i;
    }
    abort();
}

static int memory_open(const char *path, int flags, mode_t mode)
{
    struct name *name = find(disk.now, path);

    (void)mode;
    if (interrupts() || fails())
        return -1;
    if (flags & O_DIRECTORY)
        return fd_new(FOLDER);
    if (!name && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (!name) {
        name = name_new(path);
        name->node = node_new();
    }
    if (flags & O_TRUNC)
        disk.node[name->node].now.n = 0;
    return fd_new(name->node);
}

static size_t portion_of(size_t n)
{
    return disk.portion && n > disk.portion ? disk.portion : n;
}

static ssize_t memory_read(int fd, void *buffer, size_t n)
{
    struct content *c = &disk.node[disk.open[fd].node].now;
    size_t left = c->n - disk.open[fd].at;

    if (interrupts() || fails())
        return -1;
    n = portion_of(n < left ? n : left);
    if (n)
        memcpy(buffer, c->bytes + disk.open[fd].at, n);
    disk.open[fd].at += n;
    return (ssize_t)n;
}

static ssize_t memory_write(int fd, const void *buffer, size_t n)
{
    struct content *c = &disk.node[disk.open[fd].node].now;

    if (interrupts() || fails())
        return -1;
    n = portion_of(n);
    c->bytes = realloc(c->bytes, c->n + n + 1);
    if (!c->bytes)
        abort();
    memcpy(c->bytes + c->n, buffer, n);
    c->n += n;
    return (ssize_t)n;
}

static int memory_size(int fd, uint64_t *bytes)
{
    if (fails())
        return -1;
    *bytes = disk.node[disk.open[fd].node].now.n;
    return 0;
}

static int memory_fsync(int fd)
{
    int node = disk.open[fd].node;

    if (interrupts() || fails())
        return -1;
    if (node == FOLDER)
        memcpy(disk.flushed, disk.now, sizeof(disk.now));
    else
        content_set(&disk.node[node].flushed, disk.node[node].now.bytes,
                    disk.node[node].now.n);
    return 0;
}

/* The descriptor is gone also when it fails, as on Linux. */
static int memory_close(int fd)
{
    disk.open[fd].node = -1;
    return fails() ? -1 : 0;
}

static int memory_rename(const char *from, const char *to)
{
    struct name *name = find(disk.now, from), *old = find(disk.now, to);

    if (fails())
        return -1;
    if (!name) {
        errno = ENOENT;
        return -1;
    }
    if (old)
        old->node = -1;
    snprintf(name->text, sizeof(name->text), "%s", to);
    return 0;
}

static int memory_unlink(const char *path)
{
    struct name *name = find(disk.now, path);

    if (fails())
        return -1;
    if (!name) {
        errno = ENOENT;
        return -1;
    }
    name->node = -1;
    return 0;
}

const struct disk_ops *memory_disk(void)
{
    static const struct disk_ops ops = {
        memory_open,  memory_read,  memory_write,  memory_size,
        memory_fsync, memory_close, memory_rename, memory_unlink};

    return &ops;
}

void memory_disk_power_cut(bool names)
{
    for (int i = 0; i < OPEN_MAX_; i++)
        disk.open[i].node = -1;
    if (names)
        memcpy(disk.now, disk.flushed, sizeof(disk.now));
    for (int i = 0; i < NODES_MAX; i++)
        if (disk.node[i].used)
            content_set(&disk.node[i].now, disk.node[i].flushed.bytes,
                        disk.node[i].flushed.n);
    disk.fail_at = 0;
}

void memory_disk_put(const char *name, const void *bytes, size_t n)
{
    struct name *old = find(disk.now, name);

    if (!old) {
        old = name_new(name);
        old->node = node_new();
    }
    content_set(&disk.node[old->node].now, bytes, n);
    content_set(&disk.node[old->node].flushed, bytes, n);
    memcpy(disk.flushed, disk.now, sizeof(disk.now));
}

const unsigned char *memory_disk_get(const char *name, size_t *n)
{
    struct name *found = find(disk.now, name);

    if (!found)
        return NULL;
    *n = disk.node[found->node].now.n;
    return disk.node[found->node].now.bytes;
}

unsigned memory_disk_files(void)
{
    unsigned n = 0;

    for (int i = 0; i < NAMES_MAX; i++)
        n += disk.now[i].node >= 0;
    return n;
}

unsigned memory_disk_open(void)
{
    unsigned n = 0;

    for (int i = 0; i < OPEN_MAX_; i++)
        n += disk.open[i].node >= 0;
    return n;
}
