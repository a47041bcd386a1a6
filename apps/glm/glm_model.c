/* glm: the saved model, evaluating and predicting with it. Beside the table
 * weights.npy there is loss.txt, of classes classes.txt, and of tables
 * columns.txt, encoding.json and scaling.npy. */
#include "apps/glm/glm_app.h"
#include "apps/samples/columns.h"
#include "apps/settings.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/npy_io.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOSS_BYTES_MAX = 64 };

static const char loss_file[] = "loss.txt";

static enum err save_loss(const struct glm *m, const char *dir, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, loss_file, f);

    return err ? err : file_write_line(path, glm_loss_name(m->loss), f);
}

int glm_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    const struct glm *m = app;
    char lambda[TEXT_NUMBER_MAX], ratio[TEXT_NUMBER_MAX];
    struct fault f = {0};
    int n;

    text_number(m->lambda, lambda);
    text_number(m->l1_ratio, ratio);
    n = snprintf(json, size,
                 "{\"loss\":\"%s\",\"classes\":%u,\"columns\":%" PRIu32
                 ",\"lambda\":%s,\"l1_ratio\":%s}",
                 glm_loss_name(m->loss), m->classes, m->columns, lambda, ratio);
    if (n < 0 || (size_t)n >= size) {
        fault_set(&f, ERR_LIMIT, "glm: model.json has no room");
        return settings_fault(&f, error);
    }
    if (save_loss(m, dir, &f) || samples_save_classes(&m->shape, dir, &f) ||
        columns_save(&m->shape, dir, &f) || scaling_save(&m->scaling, dir, &f))
        return settings_fault(&f, error);
    return 0;
}

enum err glm_model_loss(const char *dir, enum glm_loss *out, struct fault *f)
{
    char path[FILE_PATH_MAX], *text = NULL;
    size_t len = 0;
    enum err err = file_join(path, dir, loss_file, f);

    if (!err)
        err = file_read(path, LOSS_BYTES_MAX, &text, &len, f);
    if (err)
        return err;
    text[strcspn(text, "\r\n")] = '\0';
    *out = glm_loss_find(text);
    if (*out == GLM_LOSS_COUNT)
        err =
            fault_set(f, ERR_FORMAT,
                      "%s: expected squared, logistic, hinge or softmax", path);
    mem_free(text);
    return err;
}

/* ---- loading ------------------------------------------------------------- */

static enum err check_weights(struct glm *m, const char *path,
                              uint32_t *columns, struct fault *f)
{
    struct npy_reader *reader;
    struct npy_info info;
    enum err err = npy_open(path, &info, &reader, f);
    bool many = m->loss == GLM_SOFTMAX;

    if (err)
        return err;
    npy_close(reader);
    if (info.type != NPY_F32 || info.rows < 2 ||
        info.rows > (uint64_t)SPARSE_COLUMNS_MAX + 1 ||
        (many ? info.cols < 2 || info.cols > SAMPLES_CLASSES_MAX
              : info.cols != 1))
        return fault_set(f, ERR_FORMAT,
                         "%s: expected the weights of a model of the loss %s, "
                         "found %" PRIu64 " rows of %" PRIu64,
                         path, glm_loss_name(m->loss), info.rows, info.cols);
    *columns = (uint32_t)(info.rows - 1);
    m->outputs = (unsigned)info.cols;
    m->classes = many ? m->outputs : m->loss == GLM_SQUARED ? 0 : 2;
    return ERR_OK;
}

static enum err check_labels(const struct glm *m, struct fault *f)
{
    for (uint64_t i = 0; m->classes && i < m->train.count; i++)
        if (m->train.y[i] >= (float)m->classes)
            return fault_set(f, ERR_FORMAT,
                             "%s: expected labels of the model's %u classes, "
                             "found class %g",
                             m->data, m->classes, (double)m->train.y[i]);
    return ERR_OK;
}

static enum err load(struct glm *m, const char *dir, struct fault *f)
{
    char path[FILE_PATH_MAX];
    uint32_t columns = 0;
    enum err err = file_join(path, dir, "weights.npy", f);

    if (!err)
        err = check_weights(m, path, &columns, f);
    if (!err)
        err = glm_data_fit(m, dir, columns, f);
    if (!err && !m->predict)
        err = check_labels(m, f);
    if (!err && m->classes)
        err = class_columns_init(&m->columns_said, dir, m->classes, f);
    return err;
}

int glm_load(void *app, const char *dir, struct mlt_error *error)
{
    struct fault f = {0};

    return load(app, dir, &f) ? settings_fault(&f, error) : 0;
}

/* ---- predicting ---------------------------------------------------------- */

int glm_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error)
{
    static const struct mlt_column value = {"value", NULL, 0};
    struct glm *m = app;
    struct fault f = {0};

    if (m->loss == GLM_SQUARED) {
        *column = &value;
        *count = 1;
        return 0;
    }
    if (m->columns_said.count == 0 &&
        class_columns_of(&m->columns_said, m->shape.class_name, m->classes, &f))
        return settings_fault(&f, error);
    *column = m->columns_said.column;
    *count = m->columns_said.count;
    return 0;
}

/* The samples that are predicted: where it trains, those of the validation. */
static const struct glm_set *predicted(const struct glm *m)
{
    return m->evaluate ? &m->train : &m->test;
}

/* A score of two classes is that of the second, the first's being 0. */
static void fill(const struct glm *m, const struct glm_work *k, double *out)
{
    const float both[2] = {0, k->z[0]};

    if (m->loss == GLM_SQUARED)
        *out = (double)k->z[0] / glm_target_factor(m) + glm_target_mean(m);
    else if (m->loss == GLM_SOFTMAX)
        class_columns_fill(k->z, m->outputs, out);
    else
        class_columns_fill(both, 2, out);
}

int glm_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out)
{
    const struct glm *m = app;
    struct glm_work *k = &m->work[mlt_worker_index(w)];
    const struct glm_set *set = predicted(m);
    size_t width = m->loss == GLM_SQUARED ? 1 : m->classes + 1;
    int err;

    assert(first + count <= set->count);
    glm_work_begin(m, k, count);
    for (uint64_t i = 0; i < count; i++)
        glm_work_touch(k, set, first + i);
    err = glm_work_read(m, w, k, m->weights, k->weight);
    for (uint64_t i = 0; i < count && !err; i++) {
        glm_scores(m, k, set, first + i);
        fill(m, k, out + i * width);
    }
    return err;
}

int glm_truth(void *app, uint64_t first, uint64_t count, double *out)
{
    const struct glm *m = app;

    assert(!m->predict && first + count <= predicted(m)->count);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (double)predicted(m)->y[first + i] / glm_target_factor(m) +
                 glm_target_mean(m);
    return 0;
}
