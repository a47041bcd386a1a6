/* A graph out of a data setting (apps/data/data.h). */
#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/data/data_path.h"

/* A file named itself may look like a table of two numbers. */
static bool is_edges(const struct data_found *fd, size_t i)
{
    return fd->kind[i] == DATA_EDGES ||
           (fd->files.single && fd->kind[i] == DATA_CSV);
}

static enum err read_file(const char *path, struct edges *g, struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = edges_read(g, s, data_memory_limit(), f);
    data_stream_close(s);
    return err;
}

/* All lists, one after another; a file and its compressed copy are one. */
static enum err read_files(const struct data_found *fd, struct edges *g,
                           struct fault *f)
{
    const char *last = NULL;
    enum err err = ERR_OK;

    for (size_t i = 0; i < fd->files.count && !err; i++) {
        const char *path = fd->files.path[i];

        if (!is_edges(fd, i) || (last && data_path_same_stem(path, last)))
            continue;
        last = path;
        err = read_file(path, g, f);
    }
    return err;
}

static enum err no_edges(const char *spec, const struct data_found *fd,
                         struct fault *f)
{
    char text[DATA_LIST_MAX];

    return fault_set(f, ERR_UNSUPPORTED,
                     "%s: expected a list of edges (two node ids on a line), "
                     "found %s",
                     fd->files.single ? fd->files.path[0] : spec,
                     fd->files.single
                         ? data_kind_text(fd->kind[0])
                         : data_found_list(fd, DATA_KIND_COUNT, text));
}

enum err data_load_edges(const char *spec, const char *folder,
                         struct edges *out, struct fault *f)
{
    struct edges g = {0};
    struct data_found fd;
    enum err err;

    if (gen_is(spec))
        return gen_edges(spec, data_memory_limit(), out, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = read_files(&fd, &g, f);
    if (!err && g.count == 0)
        err = no_edges(spec, &fd, f);
    data_found_deinit(&fd);
    if (err)
        edges_deinit(&g);
    else
        *out = g;
    return err;
}
