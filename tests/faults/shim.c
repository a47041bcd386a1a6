/* Faults: a library for LD_PRELOAD that lets the N-th call of one kind fail, in
 * one role of mltune, over the whole program and the libraries that it uses.
 *
 *   FAULT=KIND:N[:MODE]  the N-th call (from 1); N = 0 only counts. MODE:
 * `once` (the default) in the first process that comes so far, `always` all
 * from the N-th on, in each process; `hang` the N-th never returns; `kill` is
 * `once`, and the call ends its process by SIGKILL before it does anything
 *   FAULT=KIND:N@CHAIN[/DEEP][:MODE]  the N-th of the calls that come the way
 * CHAIN, a number that FAULT_CHAINS gave; so N is the same whatever other
 * threads call. DEEP, from there too, spares a look at the stacks of other
 * calls FAULT_ROLE=VERB      in processes `mltune VERB` alone; or those of the
 * program VERB.py
 *   FAULT_ROOT=DIR       files: only those below DIR, or named relative to it
 *   FAULT_MARK=FILE      gets a line and a stack for the first call that failed
 *   FAULT_CLOCK=K        the monotonic clock runs K times as fast, so that what
 *                        rests between tries need not be waited for
 *   FAULT_MACHINE=DIR    meminfo, and the control groups, are those below DIR
 *   FAULT_COUNT=FILE     gets the number of calls when such a process ends
 *   FAULT_CHAINS=FILE    the same for each way to a call: `CHAIN CALLS NEAR
 * DEEP`, a line each, where N is 0. CHAIN is made of the return addresses of
 * the whole stack, within their modules: it is the same in each process of one
 * build. NEAR is made of the innermost alone: ways that differ far away have
 * the same. DEEP is made of the caller and the depth of its stack in bytes:
 * what costs nothing to see. 0: it differed
 *
 * Kinds: alloc (of the program itself), liballoc (of its libraries), map,
 * write, sync, rename, mkdir, open, unlink, truncate, send (over a socket),
 * spawn (of a process). What a library does after exec and before its
 * constructors is not counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    ALLOC,
    LIBALLOC,
    MAP,
    WRITE,
    SYNC,
    RENAME,
    MKDIR,
    OPEN,
    UNLINK,
    TRUNCATE,
    SEND,
    SPAWN,
    KINDS
};

static const struct {
    const char *name;
    int error;
} kinds[KINDS] = {
    {"alloc", ENOMEM}, {"liballoc", ENOMEM}, {"map", ENOMEM},
    {"write", ENOSPC}, {"sync", EIO},        {"rename", EIO},
    {"mkdir", ENOSPC}, {"open", EMFILE},     {"unlink", EIO},
    {"truncate", EIO}, {"send", EPIPE},      {"spawn", EAGAIN},
};

static bool armed, always, hangs, kills;
static enum kind kind;
static long nth;
static uint64_t only;      /* the chain whose calls count; 0: all do */
static uint64_t only_deep; /* it alone is looked at; 0: all are */
static _Atomic long calls;
static _Atomic bool fired;
static uintptr_t program_from, program_to;
static const char *root, *mark, *count_file, *chains_file;
/* Calls of this library's own. It is asked before the address sanitizer, which
 * has its own way to what a thread has, is ready; and dlsym, which the compiler
 * takes for one that never calls back, does: free. */
static __thread volatile int inside __attribute__((tls_model("initial-exec")));

#define NEXT(name) next_of((void **)&next_##name, #name)

/* ---- the library's own allocations, while the next ones are looked up -------
 */

static char arena[64 * 1024] __attribute__((aligned(16)));
static _Atomic size_t arena_used;

static void *arena_take(size_t n)
{
    size_t at = atomic_fetch_add(&arena_used, (n + 31) & ~(size_t)15);

    if (at + n + 16 > sizeof(arena))
        abort();
    memcpy(arena + at, &n, sizeof(n));
    return arena + at + 16;
}

static bool in_arena(const void *p)
{
    return (const char *)p >= arena && (const char *)p < arena + sizeof(arena);
}

static void next_of(void **slot, const char *name)
{
    if (*slot)
        return;
    inside++;
    *slot = dlsym(RTLD_NEXT, name);
    inside--;
    if (!*slot)
        abort();
}

/* ---- deciding --------------------------------------------------------------
 */

static void say(int fd, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n > 0)
        (void)!syscall(SYS_write, fd, line,
                       (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static int append_to(const char *file)
{
    return (int)syscall(SYS_openat, AT_FDCWD, file,
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void tell(void)
{
    void *frame[48];
    int fd = append_to(mark);

    if (fd < 0)
        return;
    say(fd, "pid=%d %s:%ld\n", (int)getpid(), kinds[kind].name, nth);
    backtrace_symbols_fd(frame, backtrace(frame, 48), fd);
    syscall(SYS_close, fd);
}

/* ---- ways to a call ---------------------------------------------------------
 */

enum { DEPTH = 128, NEAR = 8, CHAINS = 1 << 16 };

/* Ways that were come, where they are counted: an open hash table. */
static struct {
    _Atomic uint64_t chain; /* 0: free */
    _Atomic long calls;
    _Atomic uint64_t near;
    _Atomic uint64_t deep;
    _Atomic bool deeps; /* it differed */
} ways[CHAINS];

static uint64_t mix(uint64_t hash, uint64_t with)
{
    hash = (hash ^ with) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

/* Where @address is, whatever its module was loaded at; 0 within this library,
 * and where nobody knows. */
static uint64_t place(void *address)
{
    struct dl_find_object module;
    const char *name;
    uint64_t hash = 0;

    if (_dl_find_object(address, &module) != 0 ||
        ((char *)module.dlfo_map_start <= (char *)ways &&
         (char *)ways < (char *)module.dlfo_map_end))
        return 0;
    name = module.dlfo_link_map->l_name;
    for (name = strrchr(name, '/') ? strrchr(name, '/') : name; *name; name++)
        hash = mix(hash, (unsigned char)*name);
    return mix(hash,
               (uint64_t)((char *)address - (char *)module.dlfo_map_start));
}

static bool is_among(const void *address, void *const frame[], int n)
{
    for (int i = 0; i < n; i++)
        if (frame[i] == address)
            return true;
    return false;
}

/* The way to this call, never 0; through a recursion the same however deep. */
static uint64_t chain_here(uint64_t *near)
{
    void *frame[DEPTH];
    int n = backtrace(frame, DEPTH);
    uint64_t hash = 0, at;
    int places = 0;

    *near = 0;
    for (int i = 0; i < n; i++) {
        if (is_among(frame[i], frame, i) || (at = place(frame[i])) == 0)
            continue;
        hash = mix(hash, at);
        if (places++ < NEAR)
            *near = hash;
    }
    return hash | 1;
}

static void *main_thread;
extern void *__libc_stack_end;

/* Who calls, at @caller, from how deep a stack, at @frame; never 0. */
static uint64_t deep_here(void *caller, void *frame)
{
    void *thread = __builtin_thread_pointer();
    void *top = thread == main_thread ? __libc_stack_end : thread;
    uint64_t at = (uint64_t)caller - (uint64_t)program_from;
    bool own =
        (uintptr_t)caller >= program_from && (uintptr_t)caller < program_to;

    /* Of a library's module the place in its page is the same everywhere. */
    return mix(mix(0, own ? at : (uint64_t)caller % 4096),
               (uint64_t)((char *)top - (char *)frame)) |
           1;
}

static void count_way(uint64_t chain, uint64_t near, uint64_t deep)
{
    for (size_t i = 0; i < CHAINS; i++) {
        size_t at = (chain / 2 + i) % CHAINS;
        uint64_t there = 0;

        if (atomic_compare_exchange_strong(&ways[at].chain, &there, chain) ||
            there == chain) {
            atomic_fetch_add(&ways[at].calls, 1);
            atomic_store(&ways[at].near, near);
            there = atomic_exchange(&ways[at].deep, deep);
            if (there && there != deep)
                atomic_store(&ways[at].deeps, true);
            return;
        }
    }
    abort(); /* CHAINS is too small */
}

/* Whether this call counts; where ways are asked for, it is counted there. */
static bool counts(uint64_t deep)
{
    uint64_t chain, near;

    /* Once one has failed, and all that follow are to, any does. */
    if (!chains_file && (!only || (always && atomic_load(&fired))))
        return true;
    if (only_deep && deep != only_deep)
        return false;
    inside++;
    chain = chain_here(&near);
    if (chains_file)
        count_way(chain, near, deep);
    inside--;
    return !only || chain == only;
}

/* Of processes that run side by side the first one alone. */
static void kill_once(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, mark,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return;
    syscall(SYS_close, fd);
    tell();
    syscall(SYS_kill, getpid(), SIGKILL);
}

static bool fails_at(enum kind k, uint64_t deep)
{
    long n;
    int saved = errno;

    if (!armed || k != kind || inside)
        return false;
    if (!counts(deep)) {
        errno = saved;
        return false;
    }
    n = atomic_fetch_add(&calls, 1) + 1;
    if (nth == 0 || n < nth || (n > nth && !always))
        return false;
    inside++;
    if (kills)
        kill_once();
    if (!atomic_exchange(&fired, true) && mark && !kills)
        tell();
    inside--;
    while (hangs)
        syscall(SYS_pause);
    errno = saved;
    if (kills)
        return false;
    errno = kinds[k].error;
    return true;
}

static bool fails(enum kind k)
{
    return fails_at(k, 1);
}

static bool fails_alloc(void *caller, void *frame)
{
    uintptr_t at = (uintptr_t)caller;

    if (!armed || inside)
        return false;
    return fails_at(at >= program_from && at < program_to ? ALLOC : LIBALLOC,
                    deep_here(caller, frame));
}

/* Of the call that a function of this library's takes the place of. */
#define ALLOC_FAILS()                                                          \
    fails_alloc(__builtin_return_address(0), __builtin_frame_address(0))

static bool is_ours(const char *path)
{
    return armed && path &&
           (*path != '/' || (root && strncmp(path, root, strlen(root)) == 0));
}

static bool is_file(int fd)
{
    struct stat st;

    return armed && fstat(fd, &st) == 0 &&
           (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

/* ---- allocations ------------------------------------------------------------
 */

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static void *(*next_memalign)(size_t, size_t);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);

void *malloc(size_t n)
{
    if (!next_malloc && inside)
        return arena_take(n);
    NEXT(malloc);
    return ALLOC_FAILS() ? NULL : next_malloc(n);
}

void *calloc(size_t count, size_t size)
{
    if (!next_calloc && inside)
        return arena_take(count * size); /* static storage is zero */
    NEXT(calloc);
    return ALLOC_FAILS() ? NULL : next_calloc(count, size);
}

void *realloc(void *p, size_t n)
{
    NEXT(realloc);
    NEXT(malloc);
    if (in_arena(p)) {
        size_t had;
        void *q = next_malloc(n);

        memcpy(&had, (char *)p - 16, sizeof(had));
        if (q)
            memcpy(q, p, had < n ? had : n);
        return q;
    }
    return ALLOC_FAILS() ? NULL : next_realloc(p, n);
}

void *reallocarray(void *p, size_t count, size_t size)
{
    size_t n;

    if (__builtin_mul_overflow(count, size, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    NEXT(realloc);
    return ALLOC_FAILS() ? NULL : next_realloc(p, n);
}

void free(void *p)
{
    if (!p || in_arena(p) || (!next_free && inside))
        return; /* what is freed while free itself is looked up is left */
    NEXT(free);
    next_free(p);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    NEXT(posix_memalign);
    return ALLOC_FAILS() ? ENOMEM : next_posix_memalign(out, align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    NEXT(aligned_alloc);
    return ALLOC_FAILS() ? NULL : next_aligned_alloc(align, n);
}

void *memalign(size_t align, size_t n)
{
    NEXT(memalign);
    return ALLOC_FAILS() ? NULL : next_memalign(align, n);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap);
    return fails(MAP) ? MAP_FAILED
                      : next_mmap(at, n, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd,
             off_t offset)
{
    NEXT(mmap);
    return fails(MAP) ? MAP_FAILED
                      : next_mmap(at, n, protection, flags, fd, offset);
}

/* ---- files ------------------------------------------------------------------
 */

#define OF_FD(type, name, k, parameters, arguments)                            \
    static type(*next_##name) parameters;                                      \
    type name parameters                                                       \
    {                                                                          \
        NEXT(name);                                                            \
        return is_file(fd) && fails(k) ? -1 : next_##name arguments;           \
    }

OF_FD(ssize_t, write, WRITE, (int fd, const void *p, size_t n), (fd, p, n))
OF_FD(ssize_t, writev, WRITE, (int fd, const struct iovec *v, int n),
      (fd, v, n))
OF_FD(ssize_t, pwrite, WRITE, (int fd, const void *p, size_t n, off_t at),
      (fd, p, n, at))
OF_FD(ssize_t, pwrite64, WRITE, (int fd, const void *p, size_t n, off_t at),
      (fd, p, n, at))
OF_FD(int, fsync, SYNC, (int fd), (fd))
OF_FD(int, fdatasync, SYNC, (int fd), (fd))
OF_FD(int, ftruncate, TRUNCATE, (int fd, off_t n), (fd, n))
OF_FD(int, ftruncate64, TRUNCATE, (int fd, off_t n), (fd, n))

#define OF_PATH(name, k, parameters, arguments)                                \
    static int(*next_##name) parameters;                                       \
    int name parameters                                                        \
    {                                                                          \
        NEXT(name);                                                            \
        return is_ours(path) && fails(k) ? -1 : next_##name arguments;         \
    }

OF_PATH(rename, RENAME, (const char *path, const char *to), (path, to))
OF_PATH(renameat2, RENAME,
        (int from, const char *path, int dir, const char *to, unsigned flags),
        (from, path, dir, to, flags))
OF_PATH(link, RENAME, (const char *path, const char *to), (path, to))
OF_PATH(mkdir, MKDIR, (const char *path, mode_t mode), (path, mode))
OF_PATH(unlink, UNLINK, (const char *path), (path))
OF_PATH(rmdir, UNLINK, (const char *path), (path))
OF_PATH(__open_2, OPEN, (const char *path, int flags), (path, flags))
OF_PATH(__open64_2, OPEN, (const char *path, int flags), (path, flags))

/* ---- messages and processes -------------------------------------------------
 */

#define OF_SOCKET(name, parameters, arguments)                                 \
    static ssize_t(*next_##name) parameters;                                   \
    ssize_t name parameters                                                    \
    {                                                                          \
        NEXT(name);                                                            \
        return fails(SEND) ? -1 : next_##name arguments;                       \
    }

OF_SOCKET(send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
OF_SOCKET(sendto,
          (int fd, const void *p, size_t n, int flags,
           const struct sockaddr *to, socklen_t len),
          (fd, p, n, flags, to, len))
OF_SOCKET(sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))

static int (*next_posix_spawn)(pid_t *, const char *,
                               const posix_spawn_file_actions_t *,
                               const posix_spawnattr_t *, char *const *,
                               char *const *);

int posix_spawn(pid_t *pid, const char *path,
                const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[])
{
    NEXT(posix_spawn);
    return fails(SPAWN) ? EAGAIN
                        : next_posix_spawn(pid, path, actions, attributes,
                                           arguments, environment);
}

static pid_t (*next_fork)(void);

pid_t fork(void)
{
    NEXT(fork);
    return fails(SPAWN) ? -1 : next_fork();
}

/* ---- files that are opened --------------------------------------------------
 */

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

#define OPEN_AS(name)                                                          \
    static int (*next_##name)(const char *, int, ...);                         \
    int name(const char *path, int flags, ...)                                 \
    {                                                                          \
        va_list ap;                                                            \
        mode_t mode;                                                           \
                                                                               \
        va_start(ap, flags);                                                   \
        mode = mode_of(flags, ap);                                             \
        va_end(ap);                                                            \
        NEXT(name);                                                            \
        return is_ours(path) && fails(OPEN) ? -1                               \
                                            : next_##name(path, flags, mode);  \
    }
OPEN_AS(open)
OPEN_AS(open64)

#define OPENAT_AS(name)                                                        \
    static int (*next_##name)(int, const char *, int, ...);                    \
    int name(int dir, const char *path, int flags, ...)                        \
    {                                                                          \
        va_list ap;                                                            \
        mode_t mode;                                                           \
                                                                               \
        va_start(ap, flags);                                                   \
        mode = mode_of(flags, ap);                                             \
        va_end(ap);                                                            \
        NEXT(name);                                                            \
        return is_ours(path) && fails(OPEN)                                    \
                   ? -1                                                        \
                   : next_##name(dir, path, flags, mode);                      \
    }
OPENAT_AS(openat)
OPENAT_AS(openat64)

/* Where a made-up machine has the file @path of the kernel's; else @path. */
static const char *in_machine(const char *path, char out[PATH_MAX])
{
    static const char *const seen[] = {"/proc/self/cgroup", "/proc/meminfo",
                                       "/proc/self/mountinfo",
                                       "/sys/fs/cgroup/"};
    const char *machine = getenv("FAULT_MACHINE");

    for (size_t i = 0; machine && i < sizeof(seen) / sizeof(*seen); i++)
        if (strncmp(path, seen[i], strlen(seen[i])) == 0 &&
            snprintf(out, PATH_MAX, "%s%s", machine, path) < PATH_MAX)
            return out;
    return path;
}

#define FOPEN_AS(name)                                                         \
    static FILE *(*next_##name)(const char *, const char *);                   \
    FILE *name(const char *path, const char *mode)                             \
    {                                                                          \
        char other[PATH_MAX];                                                  \
                                                                               \
        NEXT(name);                                                            \
        return is_ours(path) && fails(OPEN)                                    \
                   ? NULL                                                      \
                   : next_##name(in_machine(path, other), mode);               \
    }
FOPEN_AS(fopen)
FOPEN_AS(fopen64)

/* ---- the clock
 * -------------------------------------------------------------- */

static long clock_speed = 1;
static struct timespec clock_from;

int clock_gettime(clockid_t id, struct timespec *t)
{
    const long second = 1000000000;
    long passed;
    int failed = (int)syscall(SYS_clock_gettime, id, t);

    if (failed || id != CLOCK_MONOTONIC || clock_speed <= 1)
        return failed;
    passed = (t->tv_sec - clock_from.tv_sec) * second + t->tv_nsec -
             clock_from.tv_nsec;
    passed = passed * clock_speed + clock_from.tv_nsec;
    t->tv_sec = clock_from.tv_sec + passed / second;
    t->tv_nsec = passed % second;
    return 0;
}

/* ---- who we are
 * -------------------------------------------------------------- */

static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            program_from = info->dlpi_addr + p->p_vaddr;
            program_to = program_from + p->p_memsz;
        }
    }
    return 1; /* the first object is the program */
}

/* Whether this process is `mltune @role`. */
static bool is_role(const char *role)
{
    char text[512];
    const char *name, *verb;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline",
                          O_RDONLY | O_CLOEXEC);
    long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof(text) - 1);

    if (fd >= 0)
        syscall(SYS_close, fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    name = strrchr(text, '/');
    name = name ? name + 1 : text;
    verb = text + strlen(text) + 1;
    if (verb >= text + n)
        return false;
    if (strcmp(name, "mltune") == 0)
        return strcmp(verb, role) == 0;
    name = strrchr(verb, '/');
    name = name ? name + 1 : verb;
    return strncmp(name, role, strlen(role)) == 0 &&
           strcmp(name + strlen(role), ".py") == 0;
}

static bool read_fault(const char *text)
{
    size_t len = strcspn(text, ":");
    char *end;

    for (kind = 0; kind < KINDS; kind++)
        if (strlen(kinds[kind].name) == len &&
            strncmp(kinds[kind].name, text, len) == 0)
            break;
    if (kind == KINDS || text[len] != ':')
        return false;
    nth = strtol(text + len + 1, &end, 10);
    if (*end == '@')
        only = strtoull(end + 1, &end, 16);
    if (*end == '/')
        only_deep = strtoull(end + 1, &end, 16);
    always = strcmp(end, ":always") == 0;
    hangs = strcmp(end, ":hang") == 0;
    kills = strcmp(end, ":kill") == 0;
    return true;
}

__attribute__((constructor)) static void arm(void)
{
    const char *role = getenv("FAULT_ROLE"), *fault = getenv("FAULT");
    const char *speed = getenv("FAULT_CLOCK");
    void *frame[4];

    if (!role || !is_role(role))
        return;
    if (speed) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &clock_from);
        clock_speed = atol(speed);
    }
    if (!fault)
        return;
    root = getenv("FAULT_ROOT");
    mark = getenv("FAULT_MARK");
    count_file = getenv("FAULT_COUNT");
    chains_file = getenv("FAULT_CHAINS");
    if (!read_fault(fault)) {
        static const char text[] = "FAULT is not understood\n";

        (void)!syscall(SYS_write, 2, text, sizeof(text) - 1);
        _exit(2);
    }
    /* In the first process that comes so far: this one is not. */
    if (!always && mark && syscall(SYS_access, mark, F_OK) == 0)
        return;
    inside++;
    backtrace(frame, 4); /* loads what it needs now */
    inside--;
    dl_iterate_phdr(find_program, NULL);
    main_thread = __builtin_thread_pointer();
    armed = true;
}

__attribute__((destructor)) static void disarm(void)
{
    int fd;

    if (!armed)
        return;
    armed = false;
    if (count_file && (fd = append_to(count_file)) >= 0) {
        say(fd, "%ld\n", atomic_load(&calls));
        syscall(SYS_close, fd);
    }
    if (chains_file && (fd = append_to(chains_file)) >= 0) {
        for (size_t i = 0; i < CHAINS; i++)
            if (ways[i].chain)
                say(fd, "%llx %ld %llx %llx\n",
                    (unsigned long long)ways[i].chain,
                    atomic_load(&ways[i].calls),
                    (unsigned long long)ways[i].near,
                    ways[i].deeps ? 0ULL : (unsigned long long)ways[i].deep);
        syscall(SYS_close, fd);
    }
}
