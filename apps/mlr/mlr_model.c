/* mlr: the saved model, evaluating and predicting with it. Beside the table
 * weights.npy there are, of tables, classes.txt, columns.txt and scaling.npy.
 */
#include "apps/mlr/mlr_app.h"
#include "apps/samples/columns.h"
#include "apps/settings.h"
#include "base/file_io.h"
#include "base/npy_io.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int mlr_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    const struct mlr *m = app;
    char lambda[TEXT_NUMBER_MAX];
    struct fault f = {0};
    int n;

    text_number(m->lambda, lambda);
    n = snprintf(json, size,
                 "{\"classes\":%u,\"shape\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32
                 "],\"lambda\":%s}",
                 m->classes, m->shape.channels, m->shape.height, m->shape.width,
                 lambda);
    if (n < 0 || (size_t)n >= size) {
        fault_set(&f, ERR_LIMIT, "mlr: model.json has no room");
        return settings_fault(&f, error);
    }
    if (samples_save_classes(&m->shape, dir, &f) ||
        columns_save(&m->shape, dir, &f) || scaling_save(&m->scaling, dir, &f))
        return settings_fault(&f, error);
    return 0;
}

static enum err check_model(struct mlr *m, const char *path, struct fault *f)
{
    struct npy_reader *reader;
    struct npy_info info;
    enum err err = npy_open(path, &info, &reader, f);

    if (err)
        return err;
    npy_close(reader);
    if (info.type != NPY_F32 || info.cols != m->width + 1 ||
        info.rows < m->classes || info.rows > MLR_CLASSES_MAX)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected samples of %" PRIu64 " values in at "
                         "most %" PRIu64 " classes, as the model was trained "
                         "on, found %zu values and %u classes",
                         path, info.cols ? info.cols - 1 : 0, info.rows,
                         m->width, m->classes);
    m->classes = (unsigned)info.rows;
    return ERR_OK;
}

/* A table as the model saw its own: the same classes, the same scaling. */
static enum err take_table(struct mlr *m, const char *dir, struct fault *f)
{
    struct scaling scaling = {0};
    enum err err;

    if (!m->unpacked.value)
        return ERR_OK;
    err = samples_load_classes(&m->unpacked, m->data, dir, f);
    if (!err)
        err = columns_check(&m->unpacked, m->data, dir, f);
    if (!err)
        err = scaling_load(dir, &m->unpacked, &scaling, f);
    if (err)
        return err;
    scaling_apply(&scaling, &m->unpacked);
    scaling_deinit(&scaling);
    return mlr_packed_init(&m->train, &m->unpacked, f);
}

static enum err take_columns(struct mlr *m, const char *dir, struct fault *f)
{
    return class_columns_init(&m->columns, dir, m->classes, f);
}

int mlr_load(void *app, const char *dir, struct mlt_error *error)
{
    struct fault f = {0};
    char path[FILE_PATH_MAX];

    if (!file_join(path, dir, "weights.npy", &f) &&
        !check_model(app, path, &f) && !take_table(app, dir, &f))
        take_columns(app, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

/* ---- predicting ---------------------------------------------------------- */

int mlr_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error)
{
    struct mlr *m = app;
    struct fault f = {0};

    assert(!m->evaluate || m->columns.count > 0);
    if (m->columns.count == 0 &&
        class_columns_of(&m->columns, m->shape.class_name, m->classes, &f))
        return settings_fault(&f, error);
    *column = m->columns.column;
    *count = m->columns.count;
    return 0;
}

/* The samples that are predicted: where it trains, those of the validation. */
static const struct mlr_packed *predicted(const struct mlr *m)
{
    return m->evaluate ? &m->train : &m->test;
}

static void score_block(const struct mlr *m, struct mlr_scratch *s,
                        uint64_t first, size_t n)
{
    const struct mlr_packed *set = predicted(m);
    const struct mlr_block b = {.n = n,
                                .width = m->width,
                                .classes = m->classes,
                                .pixel = s->pixel[0],
                                .weight = s->weight,
                                .z = s->z};

    for (size_t i = 0; i < n; i++) {
        if (set->value)
            s->value[i] = set->value + (first + i) * m->width;
        else
            s->pixel[0][i] = set->pixel + (first + i) * m->stride;
    }
    if (set->value)
        mlr_values_scores(&b, s->value);
    else
        mlr_scores(&b);
}

int mlr_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out)
{
    const struct mlr *m = app;
    struct mlr_scratch *s = &m->scratch[mlt_worker_index(w)];
    int err = mlr_take_weights(m, w, s);

    assert(first + count <= predicted(m)->count);
    for (uint64_t at = 0; at < count && !err; at += MLR_BLOCK) {
        size_t n = count - at < MLR_BLOCK ? (size_t)(count - at) : MLR_BLOCK;

        score_block(m, s, first + at, n);
        for (size_t i = 0; i < n; i++)
            class_columns_fill(s->z + i * m->classes, m->classes,
                               out + (at + i) * m->columns.count);
    }
    return err;
}

int mlr_truth(void *app, uint64_t first, uint64_t count, double *out)
{
    const struct mlr *m = app;

    assert(!m->predict && first + count <= predicted(m)->count);
    for (uint64_t i = 0; i < count; i++)
        out[i] = predicted(m)->label[first + i];
    return 0;
}
