/* Any text as what a configuration calls its data: a generator that is refused
 * with its name, or whose values are all in range; else a file, a folder or a
 * glob, in a folder of a few files. */
#include "apps/data/data_find.h"
#include "apps/data/gen.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPEC_FUZZ_MAX = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char spec_folder[64];

static void put(const char *name, const char *text)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", spec_folder, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void forget(void)
{
    static const char *const names[] = {
        "a.csv", "b.csv.gz", "c [1].txt", ".hidden", "sub/d.csv", "sub", ""};
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", spec_folder, names[i]);
        remove(path);
    }
}

static void prepare(void)
{
    char path[128];

    if (spec_folder[0])
        return;
    strcpy(spec_folder, "/tmp/fuzz_spec-XXXXXX");
    must(mkdtemp(spec_folder) != NULL);
    atexit(forget);
    put("a.csv", "x,y\n1,2\n");
    put("b.csv.gz", "none");
    put("c [1].txt", "words\n");
    put(".hidden", "");
    snprintf(path, sizeof(path), "%s/sub", spec_folder);
    must(mkdir(path, 0700) == 0);
    put("sub/d.csv", "1,2\n");
}

static void check_gen(const char *spec)
{
    const struct gen_kind *kind = NULL;
    double value[GEN_KEYS_MAX];
    struct fault f = {0};
    enum err err = gen_parse(spec, &kind, value, &f);

    if (err) {
        must(err == ERR_INVAL && f.code == err && f.text[0]);
        return;
    }
    for (size_t i = 0; i < kind->keys; i++)
        must(isfinite(value[i]) && value[i] >= kind->key[i].min &&
             value[i] <= kind->key[i].max &&
             (!kind->key[i].whole || value[i] == floor(value[i])));
}

/* What is found exists, once, in order. */
static void check_files(const char *spec)
{
    struct data_found found;
    struct fault f = {0};
    char list[DATA_LIST_MAX];
    enum err err = data_find(spec, spec_folder, &found, &f);

    if (err) {
        must(f.code == err && f.text[0]);
        return;
    }
    must(found.files.count > 0);
    for (size_t i = 0; i < found.files.count; i++) {
        const char *path = found.files.path[i];

        must(access(path, F_OK) == 0);
        must(i == 0 || strcmp(found.files.path[i - 1], path) < 0);
        must(data_path_same_stem(path, path));
        must(data_path_stem_len(path) <= strlen(data_path_base(path)));
    }
    must(strlen(data_found_list(&found, DATA_KIND_COUNT, list)) <
         DATA_LIST_MAX);
    data_found_deinit(&found);
}

/* Whether all that it can stand for is in its folder: others' files come and
 * go. A part that begins with a dot may match "..". */
static bool stays(const char *spec)
{
    if (spec[0] == '/' || strstr(spec, ".."))
        return false;
    for (const char *part = spec; *part;) {
        size_t n = strcspn(part, "/");

        if (part[0] == '.' && strcspn(part, "*?[") < n)
            return false;
        part += n + (part[n] == '/');
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    char spec[SPEC_FUZZ_MAX + 1];

    if (size == 0 || size > SPEC_FUZZ_MAX || memchr(data, 0, size))
        return 0;
    prepare();
    memcpy(spec, data, size);
    spec[size] = '\0';
    if (gen_is(spec))
        check_gen(spec);
    else if (stays(spec))
        check_files(spec);
    must(mem_outstanding() == before);
    return 0;
}
