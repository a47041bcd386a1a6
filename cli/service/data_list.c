#include "cli/service/data_list.h"

#include "base/file_io.h"

#include <assert.h>
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct data_listing {
    json_t *files; /* NULL: no memory */
    struct stat state;
    bool more;
};

static int not_hidden(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void add(struct data_listing *l, const char *name, const struct stat *st)
{
    json_t *one = json_pack(
        "{s:s, s:b, s:I}", "name", name, "folder", S_ISDIR(st->st_mode),
        "bytes", (json_int_t)(S_ISREG(st->st_mode) ? st->st_size : 0));

    if (json_array_append_new(l->files, one) == 0)
        return;
    json_decref(l->files);
    l->files = NULL;
}

/* A file, or a folder that is not the service's own. */
static bool is_data(const struct data_listing *l, const char *path,
                    struct stat *out)
{
    if (lstat(path, out) != 0)
        return false;
    if (S_ISDIR(out->st_mode))
        return out->st_dev != l->state.st_dev || out->st_ino != l->state.st_ino;
    return S_ISREG(out->st_mode);
}

/* @path is @name within the data folder, "" itself. */
static void list_folder(struct data_listing *l, const char *path,
                        const char *name, int depth)
{
    struct dirent **entry = NULL;
    int n = scandir(path, &entry, not_hidden, alphasort);

    for (int i = 0; i < n; i++) {
        char at[FILE_PATH_MAX], called[FILE_PATH_MAX];
        const char *last = entry[i]->d_name;
        struct stat st;
        bool fits = file_join(at, path, last, NULL) == ERR_OK &&
                    snprintf(called, sizeof(called), "%s%s%s", name,
                             *name ? "/" : "", last) < (int)sizeof(called);

        if (fits && l->files && is_data(l, at, &st)) {
            l->more |= json_array_size(l->files) >= DATA_LIST_MAX;
            if (!l->more)
                add(l, called, &st);
            if (!l->more && l->files && S_ISDIR(st.st_mode) && depth > 0)
                list_folder(l, at, called, depth - 1);
        }
        free(entry[i]); /* scandir's own */
    }
    if (n >= 0)
        free(entry);
}

void data_list(const struct upload_place *p, struct response *out)
{
    struct data_listing l = {.files = json_array()};

    assert(p && p->data && p->state && out);
    if (stat(p->state, &l.state) != 0)
        l.state = (struct stat){.st_ino = 0};
    if (l.files)
        list_folder(&l, p->data, "", DATA_LIST_DEPTH);
    response_json(
        out, 200,
        l.files ? json_pack("{s:o, s:b}", "files", l.files, "more", l.more)
                : NULL);
}
