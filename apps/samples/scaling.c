#include "apps/samples/scaling.h"

#include "base/file_io.h"
#include "base/mem.h"
#include "base/npy_io.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char scaling_file[] = "scaling.npy";

void scaling_deinit(struct scaling *s)
{
    mem_free(s->mean);
    mem_free(s->factor);
    memset(s, 0, sizeof(*s));
}

static enum err scaling_init(struct scaling *s, uint64_t columns,
                             struct fault *f)
{
    *s = (struct scaling){.columns = columns,
                          .mean = mem_calloc(columns + 1, sizeof(double)),
                          .factor = mem_calloc(columns + 1, sizeof(double))};
    if (s->mean && s->factor)
        return ERR_OK;
    scaling_deinit(s);
    fault_set(f, ERR_NOMEM, "scaling: out of memory");
    return ERR_NOMEM;
}

/* Mean and 1 / standard deviation of one column, in two passes: squares of
 * large values with a small spread would cancel. A spread below what a float
 * of that size resolves is none. */
static void measure(const float *value, uint64_t n, uint64_t stride,
                    double *mean, double *factor)
{
    double sum = 0, squares = 0, deviation;
    uint64_t i;

    for (i = 0; i < n; i++)
        sum += (double)value[i * stride];
    *mean = sum / (double)n;
    for (i = 0; i < n; i++) {
        double d = (double)value[i * stride] - *mean;

        squares += d * d;
    }
    deviation = sqrt(squares / (double)n);
    *factor = deviation > 1e-9 * fabs(*mean) ? 1 / deviation : 0;
}

enum err scaling_of(const struct samples *train, struct scaling *out,
                    struct fault *f)
{
    uint64_t columns = samples_values(train), j;
    struct scaling s;
    enum err err;

    if (!train->value) {
        memset(out, 0, sizeof(*out));
        return ERR_OK;
    }
    err = scaling_init(&s, columns, f);
    if (err)
        return err;
    for (j = 0; j < columns; j++)
        measure(train->value + j, train->count, columns, &s.mean[j],
                &s.factor[j]);
    s.factor[columns] = 1;
    if (train->target)
        measure(train->target, train->count, 1, &s.mean[columns],
                &s.factor[columns]);
    *out = s;
    return ERR_OK;
}

void scaling_apply(const struct scaling *scaling, struct samples *s)
{
    uint64_t n = scaling->columns, i, j;

    if (!scaling->mean || s->count == 0)
        return;
    assert(s->value && scaling->factor && samples_values(s) == n);
    for (i = 0; i < s->count; i++) {
        float *row = s->value + i * n;

        for (j = 0; j < n; j++)
            row[j] = (float)(((double)row[j] - scaling->mean[j]) *
                             scaling->factor[j]);
        if (s->target)
            s->target[i] = (float)(((double)s->target[i] - scaling->mean[n]) *
                                   scaling->factor[n]);
    }
}

enum err scaling_save(const struct scaling *s, const char *dir, struct fault *f)
{
    struct npy_info info = {NPY_F64, 2, s->columns + 1};
    size_t bytes = (size_t)info.cols * sizeof(double);
    char path[FILE_PATH_MAX];
    struct npy_writer *w;
    enum err err;

    if (!s->mean)
        return ERR_OK;
    err = file_join(path, dir, scaling_file, f);
    if (!err)
        err = npy_create(path, &info, &w, f);
    if (err)
        return err;
    err = npy_write(w, s->mean, bytes, f);
    if (!err)
        err = npy_write(w, s->factor, bytes, f);
    if (err) {
        npy_abort(w);
        return err;
    }
    return npy_commit(w, NULL, f);
}

static bool all_finite(const double *v, uint64_t n)
{
    uint64_t i;

    for (i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            return false;
    }
    return true;
}

static enum err read_both(struct npy_reader *r, const struct npy_info *info,
                          const char *path, struct scaling *out,
                          struct fault *f)
{
    size_t bytes = (size_t)info->cols * sizeof(double);
    enum err err = scaling_init(out, info->cols - 1, f);

    if (!err)
        err = npy_read(r, out->mean, bytes, f);
    if (!err)
        err = npy_read(r, out->factor, bytes, f);
    if (!err && (!all_finite(out->mean, info->cols) ||
                 !all_finite(out->factor, info->cols)))
        err = fault_set(f, ERR_FORMAT, "%s: expected finite numbers", path);
    if (err)
        scaling_deinit(out);
    return err;
}

enum err scaling_columns(const char *dir, uint64_t *columns, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct npy_reader *r;
    struct npy_info info;
    enum err err = file_join(path, dir, scaling_file, f);

    assert(columns);
    *columns = 0;
    if (err || access(path, F_OK) != 0)
        return err;
    err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    npy_close(r);
    if (info.cols < 2)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected the scaling of columns, found %" PRIu64
                         " numbers a row",
                         path, info.cols);
    *columns = info.cols - 1;
    return ERR_OK;
}

enum err scaling_read(const char *dir, uint64_t columns, struct scaling *out,
                      struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct npy_reader *r;
    struct npy_info info;
    enum err err = file_join(path, dir, scaling_file, f);

    if (!err)
        err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    if (info.type != NPY_F64 || info.rows != 2 || info.cols != columns + 1)
        err = fault_set(
            f, ERR_FORMAT,
            "%s: expected 2 x %" PRIu64 " float64 (columns of "
            "the data and the target), found %" PRIu64 " x %" PRIu64 " %s",
            path, columns + 1, info.rows, info.cols, npy_type_name(info.type));
    else
        err = read_both(r, &info, path, out, f);
    npy_close(r);
    return err;
}

enum err scaling_load(const char *dir, const struct samples *s,
                      struct scaling *out, struct fault *f)
{
    if (s->value)
        return scaling_read(dir, samples_values(s), out, f);
    *out = (struct scaling){.columns = 0};
    return ERR_OK;
}
