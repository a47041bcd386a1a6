/* What a data set holds (apps/data.h). */
#include "apps/data.h"
#include "apps/data_find.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void describe_ratings(const struct ratings *r, struct data_info *out)
{
    double sum = 0;
    uint64_t i;

    assert(r->count > 0 && r->value);
    out->samples = r->count;
    out->users = r->users.count;
    out->items = r->items.count;
    out->min = out->max = (double)r->value[0];
    for (i = 0; i < r->count; i++) {
        double v = (double)r->value[i];

        out->min = fmin(out->min, v);
        out->max = fmax(out->max, v);
        sum += v;
    }
    out->mean = sum / (double)r->count;
}

static void describe_images(const struct images *train,
                            const struct images *test, struct data_info *out)
{
    uint64_t i;

    out->samples = train->count;
    out->test_samples = test->count;
    out->rows = train->rows;
    out->cols = train->cols;
    out->depth = train->depth;
    out->classes =
        train->classes > test->classes ? train->classes : test->classes;
    for (i = 0; i < train->count; i++)
        out->class_samples[train->label[i]]++;
}

static enum err load_and_describe(const char *spec, const char *folder,
                                  struct data_info *out, struct fault *f)
{
    struct ratings r = {0};
    struct images train = {0}, test = {0};
    enum err err;

    if (out->kind == DATA_RATINGS) {
        err = data_load_ratings(spec, folder, &r, f);
        if (!err)
            describe_ratings(&r, out);
        ratings_deinit(&r);
        return err;
    }
    err = data_load_images(spec, folder, &train, &test, f);
    if (!err)
        describe_images(&train, &test, out);
    images_deinit(&train);
    images_deinit(&test);
    return err;
}

/* Kind of the whole setting: that of the file; of many files, what loads. */
static enum data_kind kind_of_found(const struct data_found *fd)
{
    bool ratings = false, pixels = false;
    size_t i;

    for (i = 0; i < fd->files.count; i++) {
        ratings |= fd->kind[i] == DATA_RATINGS;
        pixels |= fd->kind[i] == DATA_IDX && fd->dims[i] > 1;
    }
    if (pixels)
        return DATA_IDX;
    return ratings ? DATA_RATINGS : fd->kind[0];
}

enum err data_describe(const char *spec, const char *folder,
                       struct data_info *out, struct fault *f)
{
    struct data_info info = {0};
    const struct gen_kind *kind;
    double value[GEN_KEYS_MAX];
    struct data_found fd;
    enum err err;

    if (gen_is(spec)) {
        err = gen_parse(spec, &kind, value, f);
        if (err)
            return err;
        info.kind = kind->kind;
    } else {
        err = data_find(spec, folder, &fd, f);
        if (err)
            return err;
        info.kind = kind_of_found(&fd);
        info.files = fd.files.count;
        data_found_deinit(&fd);
    }
    info.readable = info.kind == DATA_RATINGS || info.kind == DATA_IDX;
    if (info.readable)
        err = load_and_describe(spec, folder, &info, f);
    if (!err)
        *out = info;
    return err;
}

static json_t *class_counts(const struct data_info *info)
{
    json_t *counts = json_array();
    unsigned i;

    for (i = 0; counts && i < info->classes; i++)
        json_array_append_new(counts,
                              json_integer((json_int_t)info->class_samples[i]));
    return counts;
}

json_t *data_info_json(const struct data_info *info)
{
    const char *kind = data_kind_name(info->kind);

    if (info->kind == DATA_RATINGS)
        return json_pack(
            "{s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "kind", kind,
            "readable", 1, "files", (json_int_t)info->files, "ratings",
            (json_int_t)info->samples, "users", (json_int_t)info->users,
            "items", (json_int_t)info->items, "min", info->min, "max",
            info->max, "mean", info->mean);
    if (info->kind == DATA_IDX)
        return json_pack(
            "{s:s, s:b, s:I, s:I, s:I, s:[I, I, I], s:i, s:o}", "kind", kind,
            "readable", 1, "files", (json_int_t)info->files, "samples",
            (json_int_t)info->samples, "test_samples",
            (json_int_t)info->test_samples, "shape", (json_int_t)info->rows,
            (json_int_t)info->cols, (json_int_t)info->depth, "classes",
            (int)info->classes, "class_samples", class_counts(info));
    return json_pack("{s:s, s:b, s:s, s:I}", "kind", kind, "readable", 0,
                     "holds", data_kind_text(info->kind), "files",
                     (json_int_t)info->files);
}
