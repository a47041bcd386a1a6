#include "apps/samples/data_samples.h"

#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/samples/columns.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum err samples_same_shape(const struct samples *train, const char *name,
                            const struct samples *test, struct fault *f)
{
    if (test->count == 0 ||
        (test->channels == train->channels && test->height == train->height &&
         test->width == train->width && !test->pixel == !train->pixel))
        return test->count ? columns_same(train, name, test, f) : ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected %s of %" PRIu32 " x %" PRIu32 " x %" PRIu32
                     " values as in the training data, found %s of %" PRIu32
                     " x %" PRIu32 " x %" PRIu32,
                     name, train->pixel ? "images" : "rows", train->channels,
                     train->height, train->width,
                     test->pixel ? "images" : "rows", test->channels,
                     test->height, test->width);
}

/* ---- tables -------------------------------------------------------------- */

static bool is_table(const struct data_found *fd, size_t i)
{
    switch (fd->kind[i]) {
    case DATA_CSV:
    case DATA_RATINGS: /* a table of few columns looks like ratings */
        return true;
    case DATA_EDGES:
    case DATA_DOCWORD:
    case DATA_TEXT:
        return fd->files.single;
    default:
        return false;
    }
}

static enum err read_table_file(const char *path, struct csv_table *t,
                                struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = csv_table_read(t, s, data_memory_limit(), f);
    data_stream_close(s);
    return err;
}

/* The tables of one half; @out stays zeroed where there is none. */
static enum err read_half(const struct data_found *fd, bool all, bool test,
                          const struct csv_options *csv, struct samples *out,
                          struct fault *f)
{
    struct csv_table *t = csv_table_new(csv);
    const char *last = NULL;
    size_t i;
    enum err err = t ? ERR_OK : fault_set(f, ERR_NOMEM, "out of memory");

    for (i = 0; i < fd->files.count && !err; i++) {
        const char *path = fd->files.path[i];

        if (!is_table(fd, i) || (!all && data_is_test_name(path) != test) ||
            (last && data_path_same_stem(path, last)))
            continue;
        last = path;
        err = read_table_file(path, t, f);
    }
    if (!err && last)
        err = csv_table_take(t, out, f);
    csv_table_free(t);
    return err;
}

static enum err read_tables(const char *spec, const struct data_found *fd,
                            const struct csv_options *csv,
                            struct samples *train, struct samples *test,
                            struct fault *f)
{
    struct samples a = {0}, b = {0};
    struct csv_options second = *csv;
    bool all = fd->files.single;
    enum err err = read_half(fd, all, false, csv, &a, f);

    if (!second.like)
        second.like = a.columns;
    if (!err && !all)
        err = read_half(fd, false, true, &second, &b, f);
    if (!err && a.count == 0) {
        a = b;
        memset(&b, 0, sizeof(b));
    }
    if (!err)
        err = samples_same_shape(&a, spec, &b, f);
    if (!err)
        err = samples_rename(&b, spec, a.class_name, a.classes, f);
    if (err) {
        samples_deinit(&a);
        samples_deinit(&b);
        return err;
    }
    *train = a;
    *test = b;
    return ERR_OK;
}

/* ---- either -------------------------------------------------------------- */

static bool any_images(const struct data_found *fd)
{
    size_t i;

    for (i = 0; i < fd->files.count; i++) {
        if (fd->kind[i] == DATA_IDX || fd->kind[i] == DATA_CIFAR)
            return true;
    }
    return false;
}

static bool any_tables(const struct data_found *fd)
{
    size_t i;

    for (i = 0; i < fd->files.count; i++) {
        if (is_table(fd, i))
            return true;
    }
    return false;
}

static enum err load_images(const char *spec, const char *folder, bool targets,
                            struct samples *train, struct samples *test,
                            struct fault *f)
{
    struct images a = {0}, b = {0};
    enum err err;

    if (targets)
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: expected a table with numbers to predict, found "
                         "images",
                         spec);
    err = data_load_images(spec, folder, &a, &b, f);
    if (err)
        return err;
    a.classes = b.classes = a.classes > b.classes ? a.classes : b.classes;
    samples_of_images(&a, train);
    samples_of_images(&b, test);
    return ERR_OK;
}

/* A table that cannot be read may be what it looks like at first sight. */
static enum err hint(const struct data_found *fd, enum err err, struct fault *f)
{
    size_t n = f ? strlen(f->text) : 0;

    if (f && (err == ERR_FORMAT || err == ERR_UNSUPPORTED) &&
        fd->kind[0] == DATA_RATINGS)
        snprintf(f->text + n, sizeof(f->text) - n,
                 " (or is it ratings: user, item, rating? app mf reads "
                 "those)");
    return err;
}

enum err data_load_samples(const char *spec, const char *folder,
                           const struct csv_options *csv, struct samples *train,
                           struct samples *test, struct fault *f)
{
    char text[DATA_LIST_MAX];
    struct data_found fd;
    enum err err;

    if (gen_is(spec))
        return load_images(spec, folder, csv->targets, train, test, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    if (any_images(&fd))
        err = load_images(spec, folder, csv->targets, train, test, f);
    else if (any_tables(&fd))
        err = hint(&fd, read_tables(spec, &fd, csv, train, test, f), f);
    else
        err = fault_set(f, ERR_UNSUPPORTED,
                        "%s: expected images (IDX or CIFAR files) or a table "
                        "(CSV), found %s",
                        spec,
                        fd.files.single
                            ? data_kind_text(fd.kind[0])
                            : data_found_list(&fd, DATA_KIND_COUNT, text));
    data_found_deinit(&fd);
    return err;
}
