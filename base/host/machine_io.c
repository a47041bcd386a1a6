#include "base/host/machine_io.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, OPENS_MAX = 10 /* while memory is out */ };

/* ---- files of the kernel's ------------------------------------------------
 */

/* One that is not there and one that there was no memory for are alike to
 * whoever asks for a limit: so it is tried again. */
static FILE *open_at(const char *root, const char *path)
{
    char whole[PATH_MAX];
    int n = snprintf(whole, sizeof(whole), "%s%s", root, path);
    FILE *file = NULL;

    if (n <= 0 || n >= PATH_MAX)
        return NULL;
    for (int i = 0; !file && i < OPENS_MAX; i++) {
        file = fopen(whole, "re");
        if (!file && errno != ENOMEM)
            break;
    }
    return file;
}

/* The number behind the word @key in the file (the first number, where @key is
 * empty), or UINT64_MAX: there is none, it is negative, it is "max". */
static uint64_t number_in(const char *root, const char *path, const char *key)
{
    FILE *file = open_at(root, path);
    uint64_t value = UINT64_MAX;
    size_t len = strlen(key);
    char line[256];

    if (!file)
        return UINT64_MAX;
    while (fgets(line, sizeof(line), file)) {
        const char *at = line + len;

        if (strncmp(line, key, len) != 0 || (len && !strchr(": \t", *at)))
            continue;
        at += strspn(at, ": \t");
        if (*at == '-' || sscanf(at, "%" SCNu64, &value) != 1)
            value = UINT64_MAX;
        break;
    }
    fclose(file);
    return value;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t times(uint64_t n, uint64_t unit)
{
    return n > UINT64_MAX / unit ? UINT64_MAX : n * unit;
}

/* ---- groups ----------------------------------------------------------------
 */

/* A hierarchy of groups: VERSION2 has all controllers in one. */
enum hierarchy { VERSION2, MEMORY1, CPU1 };

/* The group of one hierarchy that this process is in. */
struct group {
    char mount[PATH_MAX]; /* where the hierarchy begins */
    char path[PATH_MAX];  /* the group's folder, at or below that */
};

/* Whether @list, of words between commas, has @word. */
static bool lists(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *s = list; (s = strstr(s, word)); s += len)
        if ((s == list || s[-1] == ',') && (!s[len] || strchr(",\n", s[len])))
            return true;
    return false;
}

/* mountinfo writes a blank as \040, and the like. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        unsigned c;

        if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
            *to++ = (char)c;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* Whether the line of mountinfo is @which; where it is, and which folder of the
 * hierarchy is mounted there. */
static bool read_mount(char *line, enum hierarchy which, char **mount,
                       char **from)
{
    static const char *const controller[] = {
        [MEMORY1] = "memory", [CPU1] = "cpu"};
    char *rest = strstr(line, " - "), *type, *options;
    char *word = line;

    if (!rest)
        return false;
    *rest = '\0';
    rest += 3;
    type = strsep(&rest, " ");
    strsep(&rest, " "); /* the source */
    options = rest ? rest : "";
    if (which == VERSION2
            ? strcmp(type, "cgroup2") != 0
            : strcmp(type, "cgroup") != 0 || !lists(options, controller[which]))
        return false;
    for (int i = 0; i < 3; i++)
        strsep(&word, " ");
    *from = strsep(&word, " ");
    *mount = strsep(&word, " ");
    if (!*from || !*mount)
        return false;
    unescape(*from);
    unescape(*mount);
    return true;
}

/* Whether the line "5:cpu,cpuacct:/a/b" is of @which; the path in it. */
static bool read_membership(char *line, enum hierarchy which, char **path)
{
    char *number = strsep(&line, ":"), *controllers = strsep(&line, ":");

    if (!controllers || !line)
        return false;
    line[strcspn(line, "\n")] = '\0';
    *path = line;
    if (which == VERSION2)
        return strcmp(number, "0") == 0 && !*controllers;
    return lists(controllers, which == MEMORY1 ? "memory" : "cpu");
}

static bool find_membership(const char *root, enum hierarchy which,
                            char out[PATH_MAX])
{
    FILE *file = open_at(root, "/proc/self/cgroup");
    char line[LINE_MAX_BYTES];
    bool found = false;
    char *path;

    while (file && !found && fgets(line, sizeof(line), file))
        if (read_membership(line, which, &path)) {
            snprintf(out, PATH_MAX, "%s", path);
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

/* The part of @path below @from, where a part of the hierarchy is mounted:
 * containers that share the names of their host. What lies elsewhere cannot be
 * looked at but from the mount on. */
static const char *below(const char *path, const char *from)
{
    size_t len = strcmp(from, "/") == 0 ? 0 : strlen(from);

    if (strncmp(path, from, len) != 0 || (path[len] && path[len] != '/') ||
        strstr(path, "/..") || strcmp(path, "/") == 0)
        return "";
    return path + len;
}

static bool find_group(const char *root, enum hierarchy which,
                       struct group *out)
{
    char line[LINE_MAX_BYTES], path[PATH_MAX];
    FILE *file;
    char *mount, *from;
    bool found = false;
    int n;

    if (!find_membership(root, which, path))
        return false;
    file = open_at(root, "/proc/self/mountinfo");
    while (file && !found && fgets(line, sizeof(line), file)) {
        if (!read_mount(line, which, &mount, &from))
            continue;
        n = snprintf(out->mount, PATH_MAX, "%s", mount);
        found = n < PATH_MAX;
        n = snprintf(out->path, PATH_MAX, "%s%s", mount, below(path, from));
        found &= n < PATH_MAX;
    }
    if (file)
        fclose(file);
    return found;
}

/* The group above; false: there is none. */
static bool go_up(struct group *g)
{
    char *slash;

    if (strcmp(g->path, g->mount) == 0)
        return false;
    slash = strrchr(g->path, '/');
    if (!slash || slash < g->path + strlen(g->mount))
        return false;
    *slash = '\0';
    return true;
}

static uint64_t figure(const char *root, const struct group *g,
                       const char *name, const char *key)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", g->path, name);

    return n < PATH_MAX ? number_in(root, path, key) : UINT64_MAX;
}

/* ---- memory -----------------------------------------------------------------
 */

static uint64_t limit_of(const char *root, const struct group *g,
                         enum hierarchy which)
{
    if (which == MEMORY1)
        return figure(root, g, "memory.limit_in_bytes", "");
    return least(figure(root, g, "memory.max", ""),
                 figure(root, g, "memory.high", ""));
}

/* Bytes of the group that are in use, and not only as files' cached copies. */
static uint64_t used_of(const char *root, const struct group *g,
                        enum hierarchy which)
{
    uint64_t used = figure(
        root, g, which == MEMORY1 ? "memory.usage_in_bytes" : "memory.current",
        "");
    uint64_t cached =
        figure(root, g, "memory.stat",
               which == MEMORY1 ? "total_inactive_file" : "inactive_file");

    if (cached == UINT64_MAX || used == UINT64_MAX)
        return used;
    return used > cached ? used - cached : 0;
}

/* What one group leaves; UINT64_MAX: it has no limit. */
static uint64_t left_of(const char *root, const struct group *g,
                        enum hierarchy which)
{
    uint64_t limit = limit_of(root, g, which), used;

    if (limit == UINT64_MAX)
        return UINT64_MAX;
    used = used_of(root, g, which);
    if (used == UINT64_MAX)
        return limit;
    return limit > used ? limit - used : 0;
}

typedef uint64_t figure_of(const char *root, const struct group *g,
                           enum hierarchy which);

/* The smallest of what @look says of the groups on the way up. */
static uint64_t least_of(const char *root, figure_of *look)
{
    uint64_t bytes = UINT64_MAX;
    struct group g;

    for (enum hierarchy which = VERSION2; which <= MEMORY1; which++) {
        if (!find_group(root, which, &g))
            continue;
        do
            bytes = least(bytes, look(root, &g, which));
        while (go_up(&g));
    }
    return bytes;
}

uint64_t machine_memory_limit(const char *root)
{
    /* Version 1 writes none as a number that no machine has. */
    uint64_t limit = least_of(root, limit_of);

    return limit < (uint64_t)INT64_MAX / 2 ? limit : UINT64_MAX;
}

uint64_t machine_memory(const char *root)
{
    uint64_t bytes = times(number_in(root, "/proc/meminfo", "MemTotal"), 1024);

    return least(bytes, machine_memory_limit(root));
}

uint64_t machine_memory_left(const char *root)
{
    uint64_t bytes =
        times(number_in(root, "/proc/meminfo", "MemAvailable"), 1024);

    return least(bytes, least_of(root, left_of));
}

uint64_t machine_memory_held(const char *root)
{
    uint64_t bytes = times(number_in(root, "/proc/self/status", "VmRSS"), 1024);

    return bytes == UINT64_MAX ? 0 : bytes;
}

/* Of the process's own group alone: that is where the kernel counts a victim,
 * whichever group above it was at its limit. A group above counts others' too,
 * as `memory.events` of our own does those of groups below it. The root of a
 * hierarchy has none; kernels before 5.2 have no `.local`.
 */
uint64_t machine_oom_kills(const char *root)
{
    static const char *const file[] = {
        [VERSION2] = "memory.events.local", [MEMORY1] = "memory.oom_control"};
    uint64_t kills = 0, n;
    struct group g;

    for (enum hierarchy which = VERSION2; which <= MEMORY1; which++) {
        if (!find_group(root, which, &g))
            continue;
        n = figure(root, &g, file[which], "oom_kill");
        if (n == UINT64_MAX && which == VERSION2)
            n = figure(root, &g, "memory.events", "oom_kill");
        if (n != UINT64_MAX)
            kills += n;
    }
    return kills;
}

/* ---- processors -------------------------------------------------------------
 */

/* Processors that the group's quota allows; UINT64_MAX: it has none. */
static uint64_t quota_of(const char *root, const struct group *g,
                         enum hierarchy which)
{
    uint64_t quota = UINT64_MAX, period = 0;
    char path[PATH_MAX];
    FILE *file;

    if (which == CPU1) {
        quota = figure(root, g, "cpu.cfs_quota_us", "");
        period = figure(root, g, "cpu.cfs_period_us", "");
    } else if (snprintf(path, sizeof(path), "%s/cpu.max", g->path) < PATH_MAX &&
               (file = open_at(root, path))) {
        if (fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            quota = UINT64_MAX;
        fclose(file);
    }
    if (quota == UINT64_MAX || period == 0 || period == UINT64_MAX)
        return UINT64_MAX;
    return quota / period + (quota % period > 0);
}

unsigned machine_cores(const char *root)
{
    static const enum hierarchy all[] = {VERSION2, CPU1};
    uint64_t cores = 1;
    struct group g;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (uint64_t)CPU_COUNT(&set);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (!find_group(root, all[i], &g))
            continue;
        do
            cores = least(cores, quota_of(root, &g, all[i]));
        while (go_up(&g));
    }
    return cores > 0 ? (unsigned)cores : 1;
}
