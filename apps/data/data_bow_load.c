/* Bags of words and vocabularies by data setting (apps/data/data.h). */
#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/data/data_path.h"
#include "base/mem.h"

#include <string.h>

static bool is_bow(enum data_kind kind)
{
    return kind == DATA_LDAC || kind == DATA_DOCWORD;
}

/* The only bag of words among the files. */
static enum err choose(const char *spec, const struct data_found *fd,
                       size_t *out, struct fault *f)
{
    static const char expected[] =
        "a bag of words (LDA-C lines, or UCI's docword)";
    char text[DATA_LIST_MAX];
    size_t n = 0, i;

    for (i = 0; i < fd->files.count; i++) {
        if (!is_bow(fd->kind[i]))
            continue;
        *out = i;
        n++;
    }
    if (n == 1)
        return ERR_OK;
    if (n > 1)
        return fault_set(f, ERR_INVAL,
                         "%s: which file is meant? Name one of %s", spec,
                         data_found_list(fd, DATA_KIND_COUNT, text));
    if (fd->files.single)
        return fault_set(f, ERR_UNSUPPORTED, "%s: expected %s, found %s",
                         fd->files.path[0], expected,
                         data_kind_text(fd->kind[0]));
    return fault_set(f, ERR_UNSUPPORTED, "%s: expected %s, found %s", spec,
                     expected, data_found_list(fd, DATA_KIND_COUNT, text));
}

enum err data_load_bow(const char *spec, const char *folder, struct corpus *out,
                       struct fault *f)
{
    struct data_found fd;
    struct data_stream *s;
    size_t i = 0;
    enum err err;

    if (gen_is(spec))
        return gen_bow(spec, data_memory_limit(), out, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = choose(spec, &fd, &i, f);
    if (!err)
        err = data_stream_open(fd.files.path[i], &s, f);
    if (!err) {
        err = bow_read(s, data_memory_limit(), out, f);
        data_stream_close(s);
    }
    data_found_deinit(&fd);
    return err;
}

enum err data_load_vocabulary(const char *spec, const char *folder,
                              struct vocabulary *out, struct fault *f)
{
    char *path = data_path_join(folder, spec);
    struct data_stream *s;
    enum err err;

    if (!path)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    err = data_stream_open(path, &s, f);
    mem_free(path);
    if (err)
        return err;
    err = vocabulary_read(s, data_memory_limit(), out, f);
    data_stream_close(s);
    return err;
}
