#include "apps/data/data_path.h"

#include "apps/formats/data_root.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void data_files_deinit(struct data_files *files)
{
    size_t i;

    for (i = 0; i < files->count; i++)
        mem_free(files->path[i]);
    mem_free(files->path);
    memset(files, 0, sizeof(*files));
}

char *data_path_join(const char *folder, const char *spec)
{
    size_t size = strlen(spec) + 1;
    char *path;

    if (*spec == '/' || !folder || !*folder)
        return mem_strdup(spec);
    size += strlen(folder) + 1;
    path = mem_alloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, spec);
    return path;
}

const char *data_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

size_t data_path_stem_len(const char *path)
{
    const char *base = data_path_base(path);
    size_t n = strlen(base);

    if (n > 3 &&
        (strcmp(base + n - 3, ".gz") == 0 || strcmp(base + n - 3, ".xz") == 0))
        n -= 3;
    return n;
}

bool data_path_same_stem(const char *a, const char *b)
{
    size_t n = data_path_stem_len(a);

    return n == data_path_stem_len(b) &&
           strncmp(data_path_base(a), data_path_base(b), n) == 0;
}

/* What is not there any more, or a link to nothing, is no file. */
static enum err is_regular(const char *path, bool *out, struct fault *f)
{
    struct fault why = {0};
    struct stat st;
    enum err err = data_look(path, &st, &why);

    *out = !err && S_ISREG(st.st_mode);
    return err == ERR_INVAL ? fault_set(f, err, "%s", why.text) : ERR_OK;
}

/* Takes @path over, also on error. */
static enum err add(struct data_files *files, char *path)
{
    if (!path)
        return ERR_NOMEM;
    if (mem_grow((void **)&files->path, &files->capacity, sizeof(char *),
                 files->count + 1)) {
        mem_free(path);
        return ERR_NOMEM;
    }
    files->path[files->count++] = path;
    return ERR_OK;
}

/* Takes @path over, also on error; one that is no file is left out. */
static enum err add_file(struct data_files *files, char *path, struct fault *f)
{
    bool file = true;
    enum err err = path ? is_regular(path, &file, f) : ERR_OK;

    if (err || !file) {
        mem_free(path);
        return err;
    }
    err = add(files, path);
    return err ? fault_set(f, err, "out of memory") : ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum err add_folder(struct data_files *files, const char *path,
                           struct fault *f)
{
    struct dirent *entry;
    int fd = -1;
    enum err err = data_open(path, true, &fd, f);
    DIR *dir = err ? NULL : fdopendir(fd);

    if (!err && !dir) {
        err = fault_errno(f, ERR_IO, errno, "open the folder %s", path);
        close(fd);
    }
    if (err || !dir)
        return err;
    while (!err && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            err = add_file(files, data_path_join(path, entry->d_name), f);
    closedir(dir);
    if (!err && files->count > 0)
        qsort(files->path, files->count, sizeof(char *), by_name);
    return err;
}

static bool has_wildcard(const char *spec)
{
    return strpbrk(spec, "*?[") != NULL;
}

/* Parts of the path with wildcards: what is looked at multiplies with each, and
 * with each way back up (`*` `/` `..`) it never ends. */
static size_t wild_parts(const char *spec)
{
    size_t parts = 0;
    bool wild = false;

    for (;; spec++) {
        if (*spec && strchr("*?[", *spec))
            wild = true;
        if (*spec != '/' && *spec)
            continue;
        parts += wild;
        wild = false;
        if (!*spec)
            return parts;
    }
}

/* @folder as a pattern that matches itself, then @spec. */
static char *join_pattern(const char *folder, const char *spec)
{
    char *escaped, *pattern, *to;

    if (*spec == '/' || !folder || !*folder)
        return mem_strdup(spec);
    escaped = mem_alloc(2 * strlen(folder) + 1);
    if (!escaped)
        return NULL;
    for (to = escaped; *folder; folder++) {
        if (strchr("*?[]\\", *folder))
            *to++ = '\\';
        *to++ = *folder;
    }
    *to = '\0';
    pattern = data_path_join(escaped, spec);
    mem_free(escaped);
    return pattern;
}

/* ---- a glob's look at the folders ---------------------------------------- */

/* glob(3) hands its folder readers no context of ours. */
static _Thread_local size_t names_read;

/* The next name but "." and "..": were they matched by ".*", a glob would climb
 * out of its folder and come back, each time through all that lies there. */
static struct dirent *next_name(void *dir)
{
    struct dirent *entry;

    do
        entry = names_read < DATA_GLOB_NAMES_MAX ? readdir(dir) : NULL;
    while (entry && ++names_read &&
           (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
    return entry;
}

static void *open_names(const char *path)
{
    if (names_read < DATA_GLOB_NAMES_MAX)
        return opendir(path);
    errno = EMFILE;
    return NULL;
}

static void close_names(void *dir)
{
    closedir(dir);
}

/* A folder that cannot be read has no match; a look that is over ends. */
static int ends_look(const char *path, int errnum)
{
    (void)path;
    (void)errnum;
    return names_read >= DATA_GLOB_NAMES_MAX;
}

static enum err add_glob(struct data_files *files, const char *pattern,
                         struct fault *f)
{
    glob_t found = {.gl_opendir = open_names,
                    .gl_readdir = next_name,
                    .gl_closedir = close_names,
                    .gl_stat = stat,
                    .gl_lstat = lstat};
    enum err err = ERR_OK;
    size_t i;
    int rc;

    names_read = 0;
    rc = glob(pattern, GLOB_ALTDIRFUNC, ends_look, &found);
    if (names_read >= DATA_GLOB_NAMES_MAX)
        err = fault_set(f, ERR_INVAL,
                        "%s: its folders have more than %d names; name the "
                        "files more closely",
                        pattern, DATA_GLOB_NAMES_MAX);
    else if (rc == GLOB_NOMATCH)
        err = fault_set(f, ERR_NOENT, "%s: no file matches", pattern);
    else if (rc != 0)
        err = fault_set(f, rc == GLOB_NOSPACE ? ERR_NOMEM : ERR_IO,
                        "%s: the folders cannot be read", pattern);
    for (i = 0; i < found.gl_pathc && !err; i++)
        err = add_file(files, mem_strdup(found.gl_pathv[i]), f);
    globfree(&found);
    return err;
}

/* ---- files of a setting -------------------------------------------------- */

static enum err find_at(struct data_files *files, char *path, const char *spec,
                        const char *folder, struct fault *f)
{
    struct fault why = {0};
    struct stat st;
    char *pattern;
    enum err err = data_look(path, &st, &why);

    if (!err) {
        files->single = !S_ISDIR(st.st_mode);
        if (!files->single)
            return add_folder(files, path, f);
        err = add(files, mem_strdup(path));
        return err ? fault_set(f, err, "%s: out of memory", path) : ERR_OK;
    }
    if (err == ERR_INVAL || !has_wildcard(spec))
        return fault_set(f, err, "%s", why.text);
    if (wild_parts(spec) > DATA_WILD_PARTS_MAX)
        return fault_set(f, ERR_INVAL,
                         "%s: %zu parts of it have wildcards; at most %d may",
                         spec, wild_parts(spec), DATA_WILD_PARTS_MAX);
    pattern = join_pattern(folder, spec);
    if (!pattern)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    err = add_glob(files, pattern, f);
    mem_free(pattern);
    return err;
}

enum err data_files_find(const char *spec, const char *folder,
                         struct data_files *out, struct fault *f)
{
    struct data_files files = {0};
    char *path = data_path_join(folder, spec);
    enum err err;

    if (!path)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    err = find_at(&files, path, spec, folder, f);
    if (!err && files.count == 0)
        err = fault_set(f, ERR_NOENT, "%s: no file in it", path);
    mem_free(path);
    if (err) {
        data_files_deinit(&files);
        return err;
    }
    *out = files;
    return ERR_OK;
}
