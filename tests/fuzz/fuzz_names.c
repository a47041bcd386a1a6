/* Any bytes as the names of classes and of columns that a model folder has:
 * refused with words, or names that are as many lines of what there is. */
#include "apps/samples/columns.h"
#include "apps/samples/samples.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COLUMNS_MAX = 40 };

static char folder[] = "/tmp/mltune-fuzz-names-XXXXXX";
static int file = -1;

static void name_of(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", folder, name);
}

static void remove_folder(void)
{
    char path[128];

    name_of(path, "classes.txt");
    unlink(path);
    name_of(path, "columns.txt");
    unlink(path);
    rmdir(folder);
}

/* One file under both names. */
static void make_folder(void)
{
    char path[128], other[128];

    must(mkdtemp(folder) && atexit(remove_folder) == 0);
    name_of(path, "classes.txt");
    name_of(other, "columns.txt");
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(file >= 0 && link(path, other) == 0);
}

/* The names, one after the other, are what @data begins with; behind a zero
 * byte in a line nothing is of its name. */
static void check_names(char *const name[], uint64_t n, const uint8_t *data,
                        size_t size)
{
    const uint8_t *at = data, *end = data + size;

    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *line = at;

        while (at < end && *at != '\n')
            at++;
        must(at < end || line < end);
        must(strlen(name[i]) <= (size_t)(at - line));
        must(memcmp(name[i], line, strlen(name[i])) == 0);
        at += at < end;
    }
}

static void read_classes(const uint8_t *data, size_t size)
{
    char *name[SAMPLES_CLASSES_MAX];
    struct fault f = {0};
    unsigned n;

    if (samples_class_names(folder, name, &n, &f)) {
        must(f.text[0] && n == 0);
        return;
    }
    must(n >= 1 && n <= SAMPLES_CLASSES_MAX);
    check_names(name, n, data, size);
    for (unsigned i = 0; i < n; i++)
        mem_free(name[i]);
}

static void read_columns(const uint8_t *data, size_t size)
{
    uint64_t columns = 1 + (size > 0 ? data[size - 1] : 0) % COLUMNS_MAX;
    char **name = NULL;
    struct fault f = {0};

    if (columns_load(folder, columns, &name, &f)) {
        must(f.text[0] && !name);
        return;
    }
    must(name != NULL);
    check_names(name, columns, data, size);
    columns_free(name, columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();

    if (file < 0)
        make_folder();
    must(ftruncate(file, 0) == 0);
    must(pwrite(file, data, size, 0) == (ssize_t)size);
    read_classes(data, size);
    read_columns(data, size);
    must(mem_outstanding() == before);
    return 0;
}
