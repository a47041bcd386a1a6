#include "apps/data/data_find.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LISTED_MAX = 6 }; /* files that a message names */

void data_found_deinit(struct data_found *fd)
{
    data_files_deinit(&fd->files);
    mem_free(fd->kind);
    mem_free(fd->dims);
}

enum err data_found_sniff(struct data_found *fd, struct fault *f)
{
    size_t i;

    fd->kind = mem_calloc(fd->files.count, sizeof(*fd->kind));
    fd->dims = mem_calloc(fd->files.count, sizeof(*fd->dims));
    if (!fd->kind || !fd->dims)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (i = 0; i < fd->files.count; i++) {
        struct fault ignored;
        bool single = fd->files.single;
        enum err err = data_kind_of_file(fd->files.path[i], &fd->kind[i],
                                         &fd->dims[i], single ? f : &ignored);

        if (err == ERR_NOMEM || (err && single))
            return err == ERR_NOMEM ? fault_set(f, err, "out of memory") : err;
        if (err)
            fd->kind[i] = DATA_BINARY;
    }
    return ERR_OK;
}

enum err data_find(const char *spec, const char *folder, struct data_found *out,
                   struct fault *f)
{
    struct data_found fd = {0};
    enum err err = data_files_find(spec, folder, &fd.files, f);

    if (!err)
        err = data_found_sniff(&fd, f);
    if (err) {
        data_found_deinit(&fd);
        return err;
    }
    *out = fd;
    return ERR_OK;
}

const char *data_found_list(const struct data_found *fd, enum data_kind kind,
                            char out[DATA_LIST_MAX])
{
    size_t i, n = 0, listed = 0;

    *out = '\0';
    for (i = 0; i < fd->files.count && n < DATA_LIST_MAX - 20; i++) {
        if (kind != DATA_KIND_COUNT && fd->kind[i] != kind)
            continue;
        if (listed++ == LISTED_MAX) {
            snprintf(out + n, DATA_LIST_MAX - n, ", ...");
            break;
        }
        n += (size_t)snprintf(out + n, DATA_LIST_MAX - n, "%s%.60s (%s)",
                              n ? ", " : "", data_path_base(fd->files.path[i]),
                              data_kind_name(fd->kind[i]));
    }
    return out;
}
