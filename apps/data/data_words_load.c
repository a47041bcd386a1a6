/* Texts out of a data setting (apps/data/data.h). */
#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/data/data_path.h"

#include <string.h>

/* A file named itself may look like anything that is written. */
static bool is_text(const struct data_found *fd, size_t i)
{
    return fd->kind[i] == DATA_TEXT ||
           (fd->files.single && fd->kind[i] != DATA_BINARY &&
            fd->kind[i] != DATA_IDX && fd->kind[i] != DATA_CIFAR &&
            fd->kind[i] != DATA_EMPTY);
}

static enum err read_file(const char *path, const struct words_options *o,
                          struct text_words *w, struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = words_read(w, s, o, data_memory_limit(), f);
    data_stream_close(s);
    return err;
}

/* All texts, one after another; a file and its compressed copy are one. */
static enum err read_files(const struct data_found *fd,
                           const struct words_options *o, struct text_words *w,
                           size_t *texts, struct fault *f)
{
    const char *last = NULL;
    enum err err = ERR_OK;

    for (size_t i = 0; i < fd->files.count && !err; i++) {
        const char *path = fd->files.path[i];

        if (!is_text(fd, i) || (last && data_path_same_stem(path, last)))
            continue;
        last = path;
        ++*texts;
        err = read_file(path, o, w, f);
    }
    return err;
}

static enum err no_text(const char *spec, const struct data_found *fd,
                        struct fault *f)
{
    char text[DATA_LIST_MAX];

    return fault_set(f, ERR_UNSUPPORTED, "%s: expected a text, found %s",
                     fd->files.single ? fd->files.path[0] : spec,
                     fd->files.single
                         ? data_kind_text(fd->kind[0])
                         : data_found_list(fd, DATA_KIND_COUNT, text));
}

enum err data_load_words(const char *spec, const char *folder,
                         const struct words_options *o, struct text_words *w,
                         struct fault *f)
{
    struct data_found fd;
    size_t texts = 0;
    enum err err;

    if (gen_is(spec))
        return gen_text(spec, data_memory_limit(), w, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = read_files(&fd, o, w, &texts, f);
    if (!err && texts == 0)
        err = no_text(spec, &fd, f);
    data_found_deinit(&fd);
    return err;
}
