#include "cli/service/upload_list.h"

#include "base/clock_io.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LINE_BYTES_MAX = DESK_UPLOAD_MAX + 24 + TOKENS_NAME_MAX + 1,
    LIST_BYTES_MAX = UPLOADS_MAX * LINE_BYTES_MAX
};

enum err upload_paths_of(const struct upload_place *p, const char *name,
                         struct upload_paths *out, struct fault *f)
{
    char hidden[DESK_UPLOAD_MAX + 16];
    enum err err = file_join(out->whole, p->data, name, f);

    assert(*name && *name != '.' && !strchr(name, '/'));
    snprintf(hidden, sizeof(hidden), ".%s.upload", name);
    return err ? err : file_join(out->part, p->data, hidden, f);
}

int64_t upload_bytes_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

bool upload_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* A line of the list. */
struct listed {
    const char *name;
    uint64_t announced; /* UPLOAD_SIZE_UNKNOWN */
    const char *owner;  /* the token that began it; "": it has no name */
};

void upload_sum_deinit(struct upload_sum *sum)
{
    text_deinit(&sum->list);
}

/* Who edits the file may have written any number. */
static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    *sum = bytes > UINT64_MAX - *sum ? UINT64_MAX : *sum + bytes;
}

static void list_upload(struct upload_sum *sum, const struct listed *l)
{
    text_printf(&sum->list, "%s", l->name);
    if (l->announced != UPLOAD_SIZE_UNKNOWN)
        text_printf(&sum->list, " %" PRIu64, l->announced);
    if (l->announced != UPLOAD_SIZE_UNKNOWN && *l->owner)
        text_printf(&sum->list, " %s", l->owner);
    text_printf(&sum->list, "\n");
    sum->names++;
}

/* Whether the file @path, which is not whole yet, is there, with its facts, and
 * may yet be gone on with. */
static bool is_under_way(const char *path, struct stat *st)
{
    return lstat(path, st) == 0 && S_ISREG(st->st_mode) &&
           st->st_mtime + UPLOAD_IDLE_S >= clock_wall() / 1000000000;
}

/* What is there of it, and since when; -1: nothing, any more. */
static int64_t bytes_of_part(const char *path, int64_t *since_s)
{
    struct stat st;

    if (!is_under_way(path, &st)) {
        if (upload_bytes_of(path) >= 0)
            disk_system()->unlink(path);
        return -1;
    }
    *since_s = st.st_mtime;
    return st.st_size;
}

/* One of the owner's that is not whole. */
static void count_open(struct upload_sum *sum, const char *name,
                       int64_t since_s)
{
    if (sum->open++ > 0 && since_s >= sum->idlest_s)
        return;
    sum->idlest_s = since_s;
    snprintf(sum->idlest, sizeof(sum->idlest), "%s", name);
}

static void add_upload(const struct upload_place *p, const struct listed *l,
                       struct upload_sum *sum)
{
    struct upload_paths at;
    int64_t whole, part, since_s = 0;
    uint64_t bytes = 0;

    if (upload_paths_of(p, l->name, &at, NULL) != ERR_OK)
        return;
    whole = upload_bytes_of(at.whole);
    part = bytes_of_part(at.part, &since_s);
    if (whole >= 0)
        add_bytes(&bytes, (uint64_t)whole);
    if (part >= 0)
        add_bytes(&bytes, l->announced != UPLOAD_SIZE_UNKNOWN &&
                                  l->announced > (uint64_t)part
                              ? l->announced
                              : (uint64_t)part);
    add_bytes(&sum->bytes, bytes);
    if (*l->owner && strcmp(l->owner, sum->owner) == 0)
        add_bytes(&sum->own, bytes);
    if (part >= 0 && strcmp(l->owner, sum->owner) == 0)
        count_open(sum, l->name, since_s);
    if (part >= 0 && whole < 0 &&
        (sum->rested_bytes == 0 || since_s < sum->rested_s)) {
        sum->rested_s = since_s;
        sum->rested_bytes = bytes;
        snprintf(sum->rested, sizeof(sum->rested), "%s", l->name);
    }
    if (whole >= 0 || part >= 0)
        list_upload(sum, l);
}

/* The line @l is of the very file that is asked for. */
static void find_upload(const struct upload_place *p, const struct listed *l,
                        struct upload_sum *sum)
{
    struct upload_paths at;
    struct stat st;
    bool others = l->announced != UPLOAD_SIZE_UNKNOWN &&
                  strcmp(l->owner, sum->owner) != 0 &&
                  upload_paths_of(p, l->name, &at, NULL) == ERR_OK;

    sum->announced = l->announced;
    sum->others = others && is_under_way(at.part, &st);
    sum->left = others && !sum->others;
    snprintf(sum->holder, sizeof(sum->holder), "%s", l->owner);
}

/* Whether a line can be the name of an upload: who edits the file may err. */
static bool is_name(const char *line)
{
    return *line && *line != '.' && !strchr(line, '/') &&
           strlen(line) <= DESK_UPLOAD_MAX;
}

/* Takes @line apart, whose words are cut off each other. */
static struct listed line_of(char *line)
{
    struct listed l = {strsep(&line, " "), UPLOAD_SIZE_UNKNOWN, ""};
    const char *bytes = strsep(&line, " ");

    if (bytes && *bytes >= '0' && *bytes <= '9')
        l.announced = strtoull(bytes, NULL, 10);
    if (l.announced != UPLOAD_SIZE_UNKNOWN && line && token_name_valid(line))
        l.owner = line;
    return l;
}

enum err upload_list_sum(const struct upload_place *p, const char *path,
                         const struct desk_request *r, bool all,
                         struct upload_sum *out, struct fault *f)
{
    char *list = NULL, *rest;
    size_t len;
    enum err err = ERR_OK;

    *out = (struct upload_sum){.owner = token_name_valid(r->by) ? r->by : "",
                               .announced = UPLOAD_SIZE_UNKNOWN};
    if (upload_exists(path))
        err = file_read(path, LIST_BYTES_MAX, &list, &len, f);
    if (err)
        return err;
    rest = list;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        struct listed l = line_of(line);

        if (is_name(l.name) && strcmp(l.name, r->upload) == 0)
            find_upload(p, &l, out);
        else if (all && is_name(l.name))
            add_upload(p, &l, out);
    }
    mem_free(list);
    return text_lost(&out->list)
               ? fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM))
               : ERR_OK;
}

enum err upload_list_write(const char *list_path, const struct upload_sum *sum,
                           struct fault *f)
{
    if (text_lost(&sum->list))
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    return file_write(list_path, text_so_far(&sum->list),
                      text_length(&sum->list), f);
}

enum err upload_list_add(const char *list_path, const struct desk_request *r,
                         uint64_t size, struct upload_sum *sum, struct fault *f)
{
    const struct listed l = {r->upload, size,
                             token_name_valid(r->by) ? r->by : ""};

    list_upload(sum, &l);
    return upload_list_write(list_path, sum, f);
}

enum err uploads_of(const char *state, const char *owner, uint64_t *out,
                    struct fault *f)
{
    char path[FILE_PATH_MAX], *list = NULL, *rest;
    size_t len;
    enum err err = file_join(path, state, "uploads", f);

    *out = 0;
    if (!err && upload_exists(path))
        err = file_read(path, LIST_BYTES_MAX, &list, &len, f);
    rest = list;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        struct listed l = line_of(line);

        if (l.announced != UPLOAD_SIZE_UNKNOWN && strcmp(l.owner, owner) == 0)
            add_bytes(out, l.announced);
    }
    mem_free(list);
    return err;
}
