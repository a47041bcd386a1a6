#include "tuner/shell/state_io.h"

#include "base/mem.h"
#include "tuner/history/record.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SUFFIX_CHARS = 6,
    SLUG_CHARS_MAX = 40, /* ids stay readable in a table */
    ID_TRIES_MAX = 100,
    LOCK_BYTES_MAX = 4096, /* a number, and how it ended once or twice */
};

enum err state_make(const char *dir, char out[FILE_PATH_MAX], struct fault *f)
{
    enum err err = folder_absolute(dir, out, f);

    if (!err)
        err = folder_make(out, f);
    if (err)
        fault_wrap(f, "state folder");
    return err;
}

enum err state_find(const char *dir, char out[FILE_PATH_MAX], struct fault *f)
{
    char db[FILE_PATH_MAX];
    enum err err = file_join(db, dir, "mltune.db", f);

    assert(dir);
    if (err)
        return err;
    if (access(db, F_OK) == 0)
        return folder_absolute(dir, out, f);
    if (errno == ENOENT || errno == ENOTDIR)
        return fault_set(f, ERR_NOENT,
                         "state folder %s holds no runs: mltune run begins "
                         "the first one, --state names another folder",
                         dir);
    return fault_errno(f, ERR_IO, errno, "state folder %s", dir);
}

static bool id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

bool run_id_valid(const char *id)
{
    size_t n = strlen(id);

    assert(id);
    if (n < 1 || n > RUN_ID_MAX)
        return false;
    while (n-- > 0)
        if (!id_char(id[n]))
            return false;
    return true;
}

/* "My model (v2)" -> "my-model-v2": runs of other characters become one '-',
 * none at the ends; "run" when nothing is left. */
static size_t slug(char out[SLUG_CHARS_MAX + 1], const char *name)
{
    size_t n = 0;

    for (; *name && n < SLUG_CHARS_MAX; name++) {
        char c = *name;

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (!id_char(c))
            c = '-';
        if (c == '-' && (n == 0 || out[n - 1] == '-'))
            continue;
        out[n++] = c;
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    if (n == 0) {
        memcpy(out, "run", 3);
        n = 3;
    }
    out[n] = '\0';
    return n;
}

static enum err make_id(char id[RUN_ID_MAX + 1], const char *name,
                        struct fault *f)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t random;
    size_t n = slug(id, name);

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return fault_errno(f, ERR_IO, errno, "random number for a run's id");
    id[n++] = '-';
    for (int i = 0; i < SUFFIX_CHARS; i++, random /= 36)
        id[n++] = digits[random % 36];
    id[n] = '\0';
    assert(run_id_valid(id));
    return ERR_OK;
}

static enum err run_path(char out[FILE_PATH_MAX], const char *state,
                         const char *id, const char *file, struct fault *f)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s/runs/%s%s", state, id, file);

    if (n < 0 || n >= FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s...", state);
    return ERR_OK;
}

/* Makes STATE/runs/ID under an id that nobody has. */
static enum err make_unique(struct run_folder *run, const char *state,
                            const char *name, struct fault *f)
{
    for (int i = 0; i < ID_TRIES_MAX; i++) {
        enum err err = make_id(run->id, name, f);

        if (!err)
            err = run_path(run->path, state, run->id, "", f);
        if (err)
            return err;
        err = folder_new(run->path, FOLDER_PRIVATE, f);
        if (err != ERR_EXIST)
            return err;
    }
    return fault_set(f, ERR_EXIST, "no free run id in %s/runs", state);
}

static enum err lock(struct run_folder *run, const char *path, struct fault *f)
{
    enum err err;

    err = file_lock(path, &run->lock_fd, f);
    if (err == ERR_BUSY)
        fault_set(f, ERR_BUSY, "run %s is running: its tuner lives", run->id);
    return err;
}

enum err run_folder_new(struct run_folder *run, const char *state,
                        const char *name, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, state, "runs", f);

    assert(state);
    assert(name);
    run->lock_fd = -1;
    if (!err)
        err = folder_make(path, f);
    if (!err)
        err = make_unique(run, state, name, f);
    if (!err)
        err = file_join(path, run->path, "snapshots", f);
    if (!err)
        err = folder_make(path, f);
    if (!err)
        err = file_join(path, run->path, "lock", f);
    if (err)
        return err;
    return lock(run, path, f);
}

enum err run_folder_open(struct run_folder *run, const char *state,
                         const char *id, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err;

    assert(state);
    assert(id);
    run->lock_fd = -1;
    assert(run_id_valid(id));
    snprintf(run->id, sizeof(run->id), "%s", id);
    err = run_path(run->path, state, id, "", f);
    if (!err)
        err = run_path(path, state, id, "/lock", f);
    if (err)
        return err;
    if (access(run->path, F_OK) != 0)
        return fault_set(f, ERR_NOENT, "the folder of run %s is gone: %s", id,
                         run->path);
    return lock(run, path, f);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static unsigned long number_of(const char *name)
{
    return strtoul(name, NULL, 10);
}

void snapshots_sweep(const char *dir, const char *const keep[], size_t n,
                     bool written_now)
{
    char path[FILE_PATH_MAX];
    unsigned long newest = 0;
    struct dirent *e;
    DIR *d;

    for (size_t i = 0; i < n; i++)
        if (number_of(name_of(keep[i])) > newest)
            newest = number_of(name_of(keep[i]));
    d = newest ? opendir(dir) : NULL;
    while (d && (e = readdir(d))) {
        bool wanted = e->d_name[0] == '.' ||
                      (written_now && number_of(e->d_name) > newest) ||
                      file_join(path, dir, e->d_name, NULL) != ERR_OK;

        for (size_t i = 0; i < n && !wanted; i++)
            wanted = strcmp(e->d_name, name_of(keep[i])) == 0;
        if (!wanted)
            folder_remove(path, NULL);
    }
    if (d)
        closedir(d);
}

unsigned long snapshots_newest(const char *dir)
{
    unsigned long newest = 0;
    struct dirent *e;
    DIR *d = opendir(dir);

    while (d && (e = readdir(d))) {
        size_t digits = strspn(e->d_name, "0123456789");

        if (!e->d_name[digits] && number_of(e->d_name) > newest)
            newest = number_of(e->d_name);
    }
    if (d)
        closedir(d);
    return newest;
}

void run_folder_beat(const struct run_folder *run)
{
    assert(run->lock_fd >= 0);
    (void)futimens(run->lock_fd, NULL); /* one that fails is one missed */
}

int64_t run_folder_beaten(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];
    struct stat s;

    if (run_path(path, state, id, "/lock", NULL) != ERR_OK ||
        stat(path, &s) != 0)
        return 0;
    return (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
}

/* Of the letters that names of reasons have: whoever reads it shows it. */
static bool is_word(const char *text, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t n = strlen(text);

    return n < size && strspn(text, letters) == n;
}

void run_folder_tell_end(const struct run_folder *run, const char *status,
                         const char *reason)
{
    struct run_end end;

    assert(run->lock_fd >= 0);
    if (run_status_names_end(status) && is_word(reason, sizeof(end.reason)))
        (void)dprintf(run->lock_fd, "%s %s\n", status, reason);
}

/* The last line of @text, if it is whole, is an end. */
static bool read_end(char *text, struct run_end *out)
{
    char *last, *space;
    size_t n = strlen(text);

    if (n == 0 || text[n - 1] != '\n')
        return false;
    text[n - 1] = '\0';
    last = strrchr(text, '\n');
    space = last ? strchr(last, ' ') : NULL;
    if (!space)
        return false;
    *space = '\0';
    if (!run_status_names_end(last + 1) ||
        !is_word(space + 1, sizeof(out->reason)))
        return false;
    snprintf(out->status, sizeof(out->status), "%s", last + 1);
    snprintf(out->reason, sizeof(out->reason), "%s", space + 1);
    return true;
}

bool run_folder_told_end(const char *state, const char *id, struct run_end *out)
{
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    bool told;

    if (run_path(path, state, id, "/lock", NULL) != ERR_OK ||
        file_locked(path, NULL) ||
        file_read(path, LOCK_BYTES_MAX, &text, &len, NULL) != ERR_OK)
        return false;
    told = read_end(text, out);
    mem_free(text);
    return told;
}

void run_folder_close(struct run_folder *run)
{
    if (run->lock_fd > 0)
        close(run->lock_fd);
    run->lock_fd = -1;
}

bool run_folder_alive(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];

    return run_path(path, state, id, "/lock", NULL) == ERR_OK &&
           file_locked(path, NULL);
}

pid_t run_folder_owner(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];
    pid_t pid = 0;

    if (run_path(path, state, id, "/lock", NULL) == ERR_OK)
        file_locked(path, &pid);
    return pid;
}

/* One that is being made has no lock yet, and what it writes once it has would
 * be swept from under it. */
static bool was_locked(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];

    return run_path(path, state, id, "/lock", NULL) == ERR_OK &&
           access(path, F_OK) == 0;
}

void state_sweep(const char *state)
{
    char path[FILE_PATH_MAX];
    struct dirent *e;
    DIR *dir;

    if (file_join(path, state, "runs", NULL) != ERR_OK)
        return;
    dir = opendir(path);
    while (dir && (e = readdir(dir)))
        if (run_id_valid(e->d_name) && was_locked(state, e->d_name) &&
            !run_folder_alive(state, e->d_name) &&
            run_path(path, state, e->d_name, "", NULL) == ERR_OK)
            folder_sweep(path);
    if (dir)
        closedir(dir);
}
