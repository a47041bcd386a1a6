/* Sparse samples out of a data setting (apps/data/data.h). */
#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/data/data_path.h"

#include <string.h>

static bool any_sparse(const struct data_found *fd)
{
    for (size_t i = 0; i < fd->files.count; i++)
        if (fd->kind[i] == DATA_LIBSVM)
            return true;
    return false;
}

/* A file named itself, or beside others, may look like counts of words, or like
 * labels alone. */
static bool is_sparse(const struct data_found *fd, size_t i)
{
    return fd->kind[i] == DATA_LIBSVM ||
           ((fd->files.single || any_sparse(fd)) &&
            (fd->kind[i] == DATA_LDAC || fd->kind[i] == DATA_DOCWORD));
}

/* a9a.t is how libsvm's site calls the test set of a9a. */
static bool is_test(const char *path)
{
    const char *base = data_path_base(path);
    size_t n = data_path_stem_len(path);

    return data_is_test_name(path) ||
           (n > 2 && strncmp(base + n - 2, ".t", 2) == 0);
}

static enum err read_file(const char *path, struct sparse *s, struct fault *f)
{
    struct data_stream *stream;
    enum err err = data_stream_open(path, &stream, f);

    if (err)
        return err;
    err = libsvm_read(s, stream, data_memory_limit(), f);
    data_stream_close(stream);
    return err;
}

/* The files, each into its half; a file and its compressed copy are one. */
static enum err read_files(const struct data_found *fd, struct sparse half[2],
                           struct fault *f)
{
    const char *last = NULL;
    enum err err = ERR_OK;

    for (size_t i = 0; i < fd->files.count && !err; i++) {
        const char *path = fd->files.path[i];

        if (!is_sparse(fd, i) || (last && data_path_same_stem(path, last)))
            continue;
        last = path;
        err = read_file(path, &half[!fd->files.single && is_test(path)], f);
    }
    return err;
}

static enum err no_samples(const char *spec, const struct data_found *fd,
                           struct fault *f)
{
    char text[DATA_LIST_MAX];

    return fault_set(f, ERR_UNSUPPORTED,
                     "%s: expected sparse samples (libsvm lines), found %s",
                     fd->files.single ? fd->files.path[0] : spec,
                     fd->files.single
                         ? data_kind_text(fd->kind[0])
                         : data_found_list(fd, DATA_KIND_COUNT, text));
}

enum err data_load_sparse(const char *spec, const char *folder,
                          struct sparse *train, struct sparse *test,
                          struct fault *f)
{
    struct sparse half[2] = {{0}, {0}};
    struct data_found fd;
    size_t first;
    enum err err;

    if (gen_is(spec))
        return gen_libsvm(spec, data_memory_limit(), train, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = read_files(&fd, half, f);
    if (!err && half[0].count + half[1].count == 0)
        err = no_samples(spec, &fd, f);
    data_found_deinit(&fd);
    if (err) {
        sparse_deinit(&half[0]);
        sparse_deinit(&half[1]);
        return err;
    }
    first = half[0].count == 0;
    *train = half[first];
    *test = first ? half[0] : half[1];
    return ERR_OK;
}
