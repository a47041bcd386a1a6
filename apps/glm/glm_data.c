/* glm: samples out of the settings (glm_app.h). */
#include "apps/data/data.h"
#include "apps/glm/glm_app.h"
#include "apps/samples/columns.h"
#include "apps/samples/data_info.h"
#include "apps/samples/samples_load.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double default_fraction = 0.1;

void glm_data_deinit(struct glm *m)
{
    glm_set_deinit(&m->train);
    glm_set_deinit(&m->test);
    samples_deinit(&m->shape);
    samples_deinit(&m->unpacked);
    scaling_deinit(&m->scaling);
    class_columns_deinit(&m->columns_said);
    mem_free(m->rarity);
    mem_free(m->data);
}

double glm_target_factor(const struct glm *m)
{
    return m->loss == GLM_SQUARED && m->scaling.mean
               ? m->scaling.factor[m->scaling.columns]
               : 1;
}

double glm_target_mean(const struct glm *m)
{
    return m->loss == GLM_SQUARED && m->scaling.mean
               ? m->scaling.mean[m->scaling.columns]
               : 0;
}

static bool is_auto(const struct settings *s)
{
    const json_t *loss = json_object_get(s->json, "loss");

    return !loss || strcmp(json_string_value(loss), "auto") == 0;
}

/* The loss that the settings name, or the model's. */
static enum err read_loss(struct glm *m, const struct settings *s,
                          struct fault *f)
{
    const char *name = json_string_value(json_object_get(s->json, "loss"));

    if (s->model)
        return glm_model_loss(s->model, &m->loss, f);
    m->loss = is_auto(s) ? GLM_LOSS_COUNT : glm_loss_find(name);
    if (is_auto(s) || m->loss < GLM_LOSS_COUNT)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "/app/loss: expected auto, squared, logistic, hinge or "
                     "softmax, found \"%s\"",
                     name);
}

/* What the loss needs of the classes, @name being what messages call them. */
static enum err check_classes(struct glm *m, const char *name, struct fault *f)
{
    if (m->loss == GLM_LOSS_COUNT)
        m->loss = m->classes == 2 ? GLM_LOGISTIC : GLM_SOFTMAX;
    if (m->classes < 2)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected labels of at least two classes, found "
                         "only one",
                         name);
    if (m->loss == GLM_SOFTMAX || m->classes == 2)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: expected labels of two classes for the loss %s, "
                     "found %u (softmax takes any number)",
                     name, glm_loss_name(m->loss), m->classes);
}

/* ---- sparse samples ------------------------------------------------------ */

/* Numbers are classes where the loss is not squared; where it is left to us,
 * where they are whole and not too many. */
static bool takes_classes(const struct glm *m, size_t labels,
                          const double label[])
{
    if (m->loss != GLM_LOSS_COUNT)
        return m->loss != GLM_SQUARED;
    for (size_t k = 0; k < labels && labels <= SAMPLES_CLASSES_MAX; k++)
        if (label[k] != floor(label[k]))
            return false;
    return labels <= SAMPLES_CLASSES_MAX;
}

/* Labels of @s as classes: their numbers in ascending order, by name. */
static enum err name_classes(const struct sparse *s, const double label[],
                             size_t labels, struct samples *out,
                             struct fault *f)
{
    char text[TEXT_NUMBER_MAX];
    bool lost;

    *out = (struct samples){.count = s->count,
                            .classes = (unsigned)labels,
                            .channels = 1,
                            .height = 1,
                            .width = 1};
    out->label = mem_alloc(s->count + 1);
    out->class_name = mem_calloc(labels, sizeof(char *));
    lost = !out->label || !out->class_name;
    for (size_t k = 0; k < labels && !lost; k++) {
        text_number(label[k], text);
        out->class_name[k] = mem_strdup(text);
        lost = !out->class_name[k];
    }
    if (lost) {
        samples_deinit(out);
        return fault_set(f, ERR_NOMEM, "labels: out of memory");
    }
    for (uint64_t i = 0; i < s->count; i++) {
        size_t k = 0;

        while (label[k] != s->label[i])
            k++;
        out->label[i] = (uint8_t)k;
    }
    return ERR_OK;
}

/* The classes of @s, unless it has none to say. */
static enum err classes_of(struct glm *m, const struct sparse *s,
                           const char *name, struct samples *out,
                           struct fault *f)
{
    double label[SAMPLES_CLASSES_MAX];
    size_t labels = sparse_labels(s, SAMPLES_CLASSES_MAX, label);

    if (m->predict || !takes_classes(m, labels, label)) {
        m->loss = m->loss == GLM_LOSS_COUNT ? GLM_SQUARED : m->loss;
        return ERR_OK;
    }
    if (labels > SAMPLES_CLASSES_MAX)
        return fault_set(f, ERR_LIMIT,
                         "%s: expected labels of at most %d classes, found "
                         "more (the loss squared takes numbers)",
                         name, SAMPLES_CLASSES_MAX);
    return name_classes(s, label, labels, out, f);
}

static void put_labels(const struct samples *from, struct sparse *s)
{
    for (uint64_t i = 0; from->label && i < s->count; i++)
        s->label[i] = from->label[i];
}

static enum err match_classes(struct glm *m, const struct settings *s,
                              struct sparse *test, struct fault *f)
{
    const char *name = s->test ? s->test : s->data;
    struct samples classes = {0};
    enum err err;

    if (!m->shape.class_name || test->count == 0)
        return ERR_OK;
    err = classes_of(m, test, name, &classes, f);
    if (!err)
        err = samples_rename(&classes, name, m->shape.class_name,
                             m->shape.classes, f);
    if (!err)
        put_labels(&classes, test);
    samples_deinit(&classes);
    return err;
}

static enum err load_test(const struct settings *s, struct sparse *test,
                          struct fault *f)
{
    struct sparse first = {0}, second = {0};
    enum err err = data_load_sparse(s->test, s->folder, &first, &second, f);
    bool own = second.count > 0;

    if (err)
        return err;
    sparse_deinit(test);
    *test = own ? second : first;
    sparse_deinit(own ? &first : &second);
    return ERR_OK;
}

static enum err choose_test(const struct settings *s, struct sparse *train,
                            struct sparse *test, struct fault *f)
{
    double fraction =
        s->test_fraction < 0 ? default_fraction : s->test_fraction;

    if (s->test)
        return load_test(s, test, f);
    if (s->test_fraction < 0 && test->count > 0)
        return ERR_OK;
    sparse_deinit(test);
    if (sparse_split(train, fraction, s->seed, test))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    return train->count
               ? ERR_OK
               : fault_set(f, ERR_INVAL, "%s: no sample is left for training",
                           s->data);
}

/* To evaluate: the data's own test set where it has one, else all of it. */
static void take_all(struct sparse *train, struct sparse *test)
{
    if (test->count > 0) {
        sparse_deinit(train);
        *train = *test;
        memset(test, 0, sizeof(*test));
    }
}

static enum err shape_sparse(struct glm *m, const struct settings *s,
                             struct sparse *train, struct sparse *test,
                             struct fault *f)
{
    enum err err = classes_of(m, train, s->data, &m->shape, f);

    m->columns =
        train->columns > test->columns ? train->columns : test->columns;
    m->classes = m->shape.classes;
    if (!err && m->shape.label && !m->evaluate)
        err = check_classes(m, s->data, f);
    if (!err)
        err = match_classes(m, s, test, f);
    if (!err && !m->evaluate)
        put_labels(&m->shape, train);
    return err;
}

static enum err load_sparse(struct glm *m, const struct settings *s,
                            struct fault *f)
{
    struct sparse train = {0}, test = {0};
    enum err err = data_load_sparse(s->data, s->folder, &train, &test, f);

    m->sparse = true;
    if (!err && s->evaluate)
        take_all(&train, &test);
    else if (!err)
        err = choose_test(s, &train, &test, f);
    if (!err)
        err = shape_sparse(m, s, &train, &test, f);
    if (!err)
        err = glm_set_of_sparse(&train, &m->train, f);
    if (!err && !s->evaluate)
        err = glm_set_of_sparse(&test, &m->test, f);
    sparse_deinit(&train);
    sparse_deinit(&test);
    return err;
}

/* ---- dense samples ------------------------------------------------------- */

static enum err take_training(struct glm *m, const struct settings *s,
                              struct samples *train, struct samples *test,
                              struct fault *f)
{
    enum err err = scaling_of(train, &m->scaling, f);

    if (!err && train->target && !(glm_target_factor(m) > 0))
        err = fault_set(f, ERR_FORMAT,
                        "%s: expected numbers that differ in the label "
                        "column, found one value only",
                        s->data);
    if (err)
        return err;
    samples_take_shape(&m->shape, train);
    scaling_apply(&m->scaling, train);
    scaling_apply(&m->scaling, test);
    if (m->loss != GLM_SQUARED)
        err = check_classes(m, s->data, f);
    if (!err)
        err = glm_set_of_samples(train, &m->train, f);
    return err ? err : glm_set_of_samples(test, &m->test, f);
}

static enum err load_dense(struct glm *m, const struct settings *s,
                           struct fault *f)
{
    struct samples train = {0}, test = {0};
    enum err err = samples_load(s, m->loss == GLM_SQUARED, &train, &test, f);

    m->classes = train.classes;
    m->columns = (uint32_t)samples_values(&train);
    if (!err && m->evaluate) {
        m->unpacked = train;
        memset(&train, 0, sizeof(train));
        m->train.count = m->unpacked.count;
    } else if (!err) {
        err = take_training(m, s, &train, &test, f);
    }
    samples_deinit(&train);
    samples_deinit(&test);
    return err;
}

/* ---- either -------------------------------------------------------------- */

static enum err find_rarity(struct glm *m, struct fault *f)
{
    uint64_t *have = mem_calloc(glm_rows(m), sizeof(*have));

    m->rarity = mem_calloc(glm_rows(m), sizeof(*m->rarity));
    if (!m->rarity || !have) {
        mem_free(have);
        return fault_set(f, ERR_NOMEM, "glm: out of memory");
    }
    for (uint64_t e = 0; e < m->train.begin[m->train.count]; e++)
        have[m->train.index[e]]++;
    for (uint32_t j = 0; j < m->columns; j++)
        if (have[j] > 0)
            m->rarity[j] = (float)m->train.count / (float)have[j];
    m->rarity[m->columns] = 1;
    mem_free(have);
    return ERR_OK;
}

enum err glm_data_load(struct glm *m, const struct settings *s, struct fault *f)
{
    struct data_glimpse seen;
    enum err err = read_loss(m, s, f);

    if (!err)
        err = data_glance(s->data, s->folder, &seen, f);
    if (err)
        return err;
    err = seen.kind == DATA_LIBSVM || seen.kind == DATA_LDAC
              ? load_sparse(m, s, f)
              : load_dense(m, s, f);
    if (err)
        return err;
    m->outputs = glm_loss_outputs(m->loss, m->classes);
    return m->evaluate ? ERR_OK : find_rarity(m, f);
}

/* ---- evaluating ---------------------------------------------------------- */

static enum err fit_sparse(struct glm *m, const char *dir, uint32_t columns,
                           struct fault *f)
{
    uint64_t unknown = glm_set_narrow(&m->train, columns);

    if (unknown)
        log_event(LOG_WARN, "unknown_columns", "entries=%" PRIu64 " data=%s",
                  unknown, m->data);
    m->columns = columns;
    if (!m->shape.label)
        return ERR_OK;
    if (samples_load_classes(&m->shape, m->data, dir, f))
        return f->code;
    for (uint64_t i = 0; i < m->train.count; i++)
        m->train.y[i] = m->shape.label[i];
    return ERR_OK;
}

static enum err fit_dense(struct glm *m, const char *dir, struct fault *f)
{
    struct samples *s = &m->unpacked;
    enum err err = samples_load_classes(s, m->data, dir, f);

    if (!err)
        err = columns_check(s, m->data, dir, f);
    if (!err)
        err = scaling_load(dir, s, &m->scaling, f);
    if (err)
        return err;
    scaling_apply(&m->scaling, s);
    err = glm_set_of_samples(s, &m->train, f);
    samples_deinit(s);
    return err;
}

enum err glm_data_fit(struct glm *m, const char *dir, uint32_t columns,
                      struct fault *f)
{
    if (m->sparse)
        return fit_sparse(m, dir, columns, f);
    if (columns != m->columns)
        return fault_set(f, ERR_FORMAT,
                         "%s: the model takes %u values, the data have %u", dir,
                         columns, m->columns);
    return fit_dense(m, dir, f);
}
