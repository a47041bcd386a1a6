#include "base/files_read.h"

#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    bool begun, missed; /* there was no memory for one */
    struct file_read *file;
    size_t len, capacity;
} noted;

static void drop_all(void)
{
    for (size_t i = 0; i < noted.len; i++)
        mem_free(noted.file[i].path);
    mem_free(noted.file);
    noted.file = NULL;
    noted.len = noted.capacity = 0;
    noted.missed = false;
}

static void set_begun(bool begun)
{
    drop_all();
    noted.begun = begun;
}

void files_read_begin(void)
{
    set_begun(true);
}

void files_read_end(void)
{
    set_begun(false);
}

static void add(const char *path, uint64_t bytes, uint32_t sum)
{
    char *own = mem_strdup(path);

    if (!own || mem_grow((void **)&noted.file, &noted.capacity,
                         sizeof(*noted.file), noted.len + 1)) {
        mem_free(own);
        noted.missed = true;
        return;
    }
    noted.file[noted.len++] = (struct file_read){own, bytes, sum};
}

void files_read_note(const char *path, uint64_t bytes, uint32_t sum)
{
    assert(path);
    if (noted.begun)
        add(path, bytes, sum);
}

/* By path; of one path the note of most bytes first. */
static int order(const void *left, const void *right)
{
    const struct file_read *a = left, *b = right;
    int by_path = strcmp(a->path, b->path);

    if (by_path)
        return by_path;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

enum err files_read_list(const struct file_read **out, size_t *n)
{
    struct file_read *file = noted.file;
    size_t len = 0;

    assert(noted.begun);
    if (noted.len > 0)
        qsort(file, noted.len, sizeof(*file), order);
    for (size_t i = 0; i < noted.len; i++)
        if (len > 0 && strcmp(file[i].path, file[len - 1].path) == 0)
            mem_free(file[i].path);
        else
            file[len++] = file[i];
    noted.len = len;
    *out = file;
    *n = len;
    return noted.missed ? ERR_NOMEM : ERR_OK;
}
