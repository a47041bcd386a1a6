#include "apps/samples/samples.h"

#include "apps/formats/data_stream.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = SAMPLES_NAME_BYTES_MAX + 1 };

static const char classes_file[] = "classes.txt";

static void free_names(char **name, uint64_t n)
{
    uint64_t c;

    for (c = 0; name && c < n; c++)
        mem_free(name[c]);
    mem_free((void *)name);
}

/* Errors: ERR_NOMEM; *@out is NULL then. */
static enum err copy_names(char *const *name, uint64_t n, char ***out)
{
    char **copy = name ? mem_calloc(n, sizeof(char *)) : NULL;
    uint64_t c;

    *out = NULL;
    if (!name)
        return ERR_OK;
    if (!copy)
        return ERR_NOMEM;
    for (c = 0; c < n; c++) {
        copy[c] = mem_strdup(name[c]);
        if (!copy[c]) {
            free_names(copy, c);
            return ERR_NOMEM;
        }
    }
    *out = copy;
    return ERR_OK;
}

static void free_columns(struct samples *s)
{
    if (s->columns)
        encoding_deinit(s->columns);
    mem_free(s->columns);
    s->columns = NULL;
}

/* Errors: ERR_NOMEM; *@out is NULL then. */
static enum err copy_columns(const struct encoding *e, struct encoding **out)
{
    struct encoding *copy = e ? mem_alloc(sizeof(*copy)) : NULL;

    *out = NULL;
    if (!e)
        return ERR_OK;
    if (!copy || encoding_copy(e, copy)) {
        mem_free(copy);
        return ERR_NOMEM;
    }
    *out = copy;
    return ERR_OK;
}

void samples_deinit(struct samples *s)
{
    mem_free(s->pixel);
    mem_free(s->value);
    mem_free(s->label);
    mem_free(s->target);
    free_names(s->class_name, s->classes);
    free_names(s->column_name, samples_values(s));
    free_columns(s);
    mem_free(s->summary);
    memset(s, 0, sizeof(*s));
}

void samples_take_shape(struct samples *shape, struct samples *s)
{
    *shape = (struct samples){.channels = s->channels,
                              .height = s->height,
                              .width = s->width,
                              .classes = s->classes,
                              .class_name = s->class_name,
                              .column_name = s->column_name,
                              .columns = s->columns,
                              .summary = s->summary};
    s->class_name = s->column_name = NULL;
    s->columns = NULL;
    s->summary = NULL;
}

void samples_encoded(struct samples *s, float *value, uint64_t inputs,
                     char **name)
{
    assert(inputs > 0 && inputs <= UINT32_MAX);
    assert(s->height == 1 && s->width == 1 && !s->pixel);
    free_names(s->column_name, samples_values(s));
    free_columns(s);
    if (s->value != value)
        mem_free(s->value);
    s->value = value;
    s->channels = (uint32_t)inputs;
    s->column_name = name;
}

uint64_t samples_values(const struct samples *s)
{
    return (uint64_t)s->channels * s->height * s->width;
}

void samples_of_images(struct images *im, struct samples *out)
{
    *out = (struct samples){.count = im->count,
                            .channels = (uint32_t)im->depth,
                            .height = (uint32_t)im->rows,
                            .width = (uint32_t)im->cols,
                            .pixel = im->pixel,
                            .label = im->label,
                            .classes = im->classes};
    memset(im, 0, sizeof(*im));
}

/* ---- splitting ----------------------------------------------------------- */

/* Moves item @from to @to[@at]; absent arrays have none. */
static void move_item(void *to, const void *source, uint64_t at, uint64_t from,
                      size_t bytes)
{
    if (source)
        memmove((char *)to + at * bytes, (const char *)source + from * bytes,
                bytes);
}

static void move_sample(struct samples *to, const struct samples *s,
                        uint64_t at, uint64_t from)
{
    uint64_t values = samples_values(s);

    move_item(to->pixel, s->pixel, at, from, values);
    move_item(to->value, s->value, at, from, values * sizeof(float));
    move_item(to->label, s->label, at, from, 1);
    move_item(to->target, s->target, at, from, sizeof(float));
}

static int alloc_like(void *out, const void *like, size_t bytes)
{
    void *p = like ? mem_alloc(bytes) : NULL;

    memcpy(out, &p, sizeof(p));
    return like && !p ? -1 : 0;
}

/* Empty samples with room for @count like those of @s. */
static enum err samples_like(const struct samples *s, uint64_t count,
                             struct samples *out)
{
    uint64_t values = samples_values(s);

    *out = *s;
    out->count = 0;
    out->pixel = out->label = NULL;
    out->value = out->target = NULL;
    out->column_name = NULL;
    out->columns = NULL;
    out->summary = NULL;
    if (copy_names(s->class_name, s->classes, &out->class_name) ||
        copy_names(s->column_name, values, &out->column_name) ||
        copy_columns(s->columns, &out->columns)) {
        samples_deinit(out);
        return ERR_NOMEM;
    }
    if (count == 0)
        return ERR_OK;
    if (alloc_like((void *)&out->pixel, s->pixel, count * values) ||
        alloc_like((void *)&out->value, s->value,
                   count * values * sizeof(float)) ||
        alloc_like((void *)&out->label, s->label, count) ||
        alloc_like((void *)&out->target, s->target, count * sizeof(float))) {
        samples_deinit(out);
        return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err samples_split(struct samples *s, double fraction, uint64_t seed,
                       struct samples *test)
{
    uint64_t below = (uint64_t)(fraction * 0x1p64), count = 0, kept = 0, i;
    struct samples made;

    assert(fraction >= 0 && fraction < 1);
    for (i = 0; i < s->count; i++)
        count += rng_mix(seed, i) < below;
    if (samples_like(s, count, &made))
        return ERR_NOMEM;
    for (i = 0; i < s->count; i++) {
        if (rng_mix(seed, i) < below)
            move_sample(&made, s, made.count++, i);
        else
            move_sample(s, s, kept++, i);
    }
    s->count = kept;
    *test = made;
    return ERR_OK;
}

/* ---- classes ------------------------------------------------------------- */

static bool find_name(const char *text, char *const *name, unsigned n,
                      uint8_t *out)
{
    unsigned c;

    for (c = 0; c < n; c++) {
        if (strcmp(name[c], text) == 0) {
            *out = (uint8_t)c;
            return true;
        }
    }
    return false;
}

enum err samples_rename(struct samples *s, const char *file, char *const *name,
                        unsigned classes, struct fault *f)
{
    uint8_t number[SAMPLES_CLASSES_MAX] = {0};
    char **copy;
    unsigned c;
    uint64_t i;

    assert(classes <= SAMPLES_CLASSES_MAX);
    if (!s->class_name || !name) {
        s->classes = s->classes > classes ? s->classes : classes;
        return ERR_OK;
    }
    for (c = 0; c < s->classes; c++) {
        if (!find_name(s->class_name[c], name, classes, &number[c]))
            return fault_set(f, ERR_FORMAT,
                             "%s: expected only classes that the training data "
                             "have, found \"%.60s\"",
                             file, s->class_name[c]);
    }
    if (copy_names(name, classes, &copy))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", file);
    for (i = 0; i < s->count; i++)
        s->label[i] = number[s->label[i]];
    free_names(s->class_name, s->classes);
    s->class_name = copy;
    s->classes = classes;
    return ERR_OK;
}

enum err samples_save_classes(const struct samples *s, const char *dir,
                              struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct disk_out w;
    unsigned c;
    enum err err;

    if (!s->class_name)
        return ERR_OK;
    err = file_join(path, dir, classes_file, f);
    if (!err)
        err = disk_out_open(&w, NULL, path, DISK_SHARED, f);
    if (err)
        return err;
    for (c = 0; c < s->classes && !err; c++) {
        err = disk_out_put(&w, s->class_name[c], strlen(s->class_name[c]), f);
        if (!err)
            err = disk_out_put(&w, "\n", 1, f);
    }
    return disk_out_end(&w, err, f);
}

/* Lines of @file as names; *@n of them. */
static enum err read_names(FILE *file, const char *path, char **name,
                           unsigned *n, struct fault *f)
{
    char line[LINE_BYTES];

    for (*n = 0; fgets(line, sizeof(line), file); (*n)++) {
        char *end = strchr(line, '\n');

        if (!end || end == line || *n == SAMPLES_CLASSES_MAX)
            return fault_set(f, ERR_FORMAT,
                             "%s: line %u: expected the name of a class, at "
                             "most %d of them",
                             path, *n + 1, SAMPLES_CLASSES_MAX);
        *end = '\0';
        name[*n] = mem_strdup(line);
        if (!name[*n])
            return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    if (ferror(file) || *n == 0)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected names of classes, found "
                         "none",
                         path);
    return ERR_OK;
}

enum err samples_class_names(const char *dir, char *name[SAMPLES_CLASSES_MAX],
                             unsigned *n, struct fault *f)
{
    char path[FILE_PATH_MAX];
    FILE *in;
    enum err err = file_join(path, dir, classes_file, f);

    assert(name && n);
    memset((void *)name, 0, SAMPLES_CLASSES_MAX * sizeof(*name));
    *n = 0;
    if (err)
        return err;
    in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? ERR_OK
                               : fault_errno(f, ERR_IO, errno, "read %s", path);
    err = read_names(in, path, name, n, f);
    fclose(in);
    if (!err)
        return ERR_OK;
    for (unsigned c = 0; c < SAMPLES_CLASSES_MAX; c++)
        mem_free(name[c]);
    *n = 0;
    return err;
}

enum err samples_load_classes(struct samples *s, const char *file,
                              const char *dir, struct fault *f)
{
    char *name[SAMPLES_CLASSES_MAX];
    char path[FILE_PATH_MAX];
    unsigned n, c;
    enum err err = samples_class_names(dir, name, &n, f);

    if (!err && n == 0 && s->class_name) {
        err = file_join(path, dir, classes_file, f);
        if (!err)
            err = fault_set(f, ERR_NOENT,
                            "%s: expected the names of the model's classes, "
                            "found no such file (evaluate the folder as it was "
                            "saved)",
                            path);
    }
    if (!err && n > 0)
        err = samples_rename(s, file, name, n, f);
    for (c = 0; c < n; c++)
        mem_free(name[c]);
    return err;
}
