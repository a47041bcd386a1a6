#include "apps/samples/columns.h"

#include "apps/samples/encoding_file.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char columns_file[] = "columns.txt";

enum { LINE_BYTES = SAMPLES_COLUMN_BYTES_MAX + 2 };

enum err columns_compare(const char *file, const char *wanted,
                         const char *found, struct fault *f)
{
    if (strcmp(wanted, found) == 0)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected the columns of the training data in their "
                     "order, found \"%.60s\" where those have \"%.60s\"",
                     file, found, wanted);
}

enum err columns_same(const struct samples *train, const char *file,
                      const struct samples *test, struct fault *f)
{
    uint64_t n = samples_values(train), c;
    enum err err = ERR_OK;

    if (!train->column_name || !test->column_name)
        return ERR_OK;
    assert(samples_values(test) == n);
    for (c = 0; c < n && !err; c++)
        err = columns_compare(file, train->column_name[c], test->column_name[c],
                              f);
    return err;
}

static enum err save_names(const struct samples *s, const char *dir,
                           struct fault *f)
{
    uint64_t n = samples_values(s), c;
    char path[FILE_PATH_MAX];
    struct disk_out w;
    enum err err;

    err = file_join(path, dir, columns_file, f);
    if (!err)
        err = disk_out_open(&w, NULL, path, DISK_SHARED, f);
    if (err)
        return err;
    for (c = 0; c < n && !err; c++) {
        const char *name = s->column_name[c];

        err = disk_out_put(&w, name, strlen(name), f);
        if (!err)
            err = disk_out_put(&w, "\n", 1, f);
    }
    return disk_out_end(&w, err, f);
}

enum err columns_save(const struct samples *s, const char *dir, struct fault *f)
{
    enum err err = s->column_name ? save_names(s, dir, f) : ERR_OK;

    return err || !s->columns ? err : encoding_save(s->columns, dir, f);
}

static enum err compare(const struct samples *s, const char *file, FILE *in,
                        const char *path, struct fault *f)
{
    uint64_t n = samples_values(s), c;
    char line[LINE_BYTES];

    for (c = 0; c < n; c++) {
        char *end = fgets(line, sizeof(line), in) ? strchr(line, '\n') : NULL;

        if (ferror(in))
            return fault_errno(f, ERR_IO, errno, "read %s", path);
        if (!end)
            break;
        *end = '\0';
        if (columns_compare(file, line, s->column_name[c], f))
            return ERR_FORMAT;
    }
    if (c == n && fgetc(in) == EOF)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected the names of as many columns as %s has, a "
                     "line each",
                     path, file);
}

enum err columns_check(const struct samples *s, const char *file,
                       const char *dir, struct fault *f)
{
    char path[FILE_PATH_MAX];
    FILE *in;
    enum err err = file_join(path, dir, columns_file, f);

    if (err || !s->column_name)
        return err;
    in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? ERR_OK
                               : fault_errno(f, ERR_IO, errno, "read %s", path);
    err = compare(s, file, in, path, f);
    fclose(in);
    return err;
}

void columns_free(char **name, uint64_t columns)
{
    for (uint64_t c = 0; name && c < columns; c++)
        mem_free(name[c]);
    mem_free((void *)name);
}

static enum err read_names(FILE *in, const char *path, uint64_t columns,
                           char **name, struct fault *f)
{
    char line[LINE_BYTES];

    for (uint64_t c = 0; c < columns; c++) {
        char *end = fgets(line, sizeof(line), in) ? strchr(line, '\n') : NULL;

        if (ferror(in))
            return fault_errno(f, ERR_IO, errno, "read %s", path);
        if (!end)
            return fault_set(f, ERR_FORMAT,
                             "%s: expected %" PRIu64 " names of columns, a "
                             "line each, found %" PRIu64,
                             path, columns, c);
        *end = '\0';
        name[c] = mem_strdup(line);
        if (!name[c])
            return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    return ERR_OK;
}

enum err columns_load(const char *dir, uint64_t columns, char ***name,
                      struct fault *f)
{
    char path[FILE_PATH_MAX], **made;
    FILE *in;
    enum err err = file_join(path, dir, columns_file, f);

    assert(columns > 0 && name);
    if (err)
        return err;
    in = fopen(path, "re");
    if (!in && errno == ENOENT) {
        *name = NULL;
        return ERR_OK;
    }
    if (!in)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    made = mem_calloc(columns, sizeof(char *));
    err = made ? read_names(in, path, columns, made, f)
               : fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    fclose(in);
    if (err)
        columns_free(made, columns);
    else
        *name = made;
    return err;
}
