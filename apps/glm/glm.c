#include "apps/glm/glm.h"

#include "apps/formats/data_stream.h"
#include "apps/glm/glm_app.h"
#include "apps/samples/samples_load.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum {
    CHUNK_BYTES_MIN = 1024,
    CHUNK_BYTES_MAX = 65536,
    CHUNKS_A_WORKER = 16, /* so that what workers own differs little */
    SLOPES_CHUNK_BYTES = 4096,
    SAGA_PARTS = 10
};

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\","
    " \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("glm", "sparse samples (libsvm), images (idx, cifar) or a"
                    " table (csv)") ","
    SAMPLES_SCHEMA ","
    "\"loss\": {\"enum\": [\"auto\", \"squared\", \"logistic\", \"hinge\","
    " \"softmax\"], \"default\": \"auto\", \"x-task\": {\"squared\":"
    " \"numbers\", \"logistic\": \"classes\", \"hinge\": \"classes\","
    " \"softmax\": \"classes\"}, \"description\":"
    " \"auto: logistic for two classes, softmax for more, squared for numbers;"
    " labels of libsvm are classes where they are whole and at most 256\"},"
    "\"lambda\": {\"type\": \"number\", \"default\": 0, \"minimum\": 0,"
    " \"description\": \"weight of the penalty; biases are left out\"},"
    "\"l1_ratio\": {\"type\": \"number\", \"default\": 0, \"minimum\": 0,"
    " \"maximum\": 1, \"description\":"
    " \"of the penalty: 0 is lambda/2 |w|^2, 1 is lambda |w|, between both\"},"
    "\"solver\": {\"enum\": [\"sgd\", \"saga\", \"svrg\", \"local\"],"
    " \"default\": \"sgd\","
    " \"description\": \"sgd: mini-batches under ps.update_rule; saga: steps"
    " that remember each sample's slope; svrg: steps from slopes that every few"
    " passes are taken anew; local: mini-batches on a worker's own copy of the"
    " weights\"},"
    "\"inner_passes\": {\"type\": \"integer\", \"default\": 2,"
    " \"minimum\": 1, \"maximum\": 1000, \"description\":"
    " \"svrg: passes of steps between two in which slopes are taken\"},"
    "\"local_batch\": {\"type\": \"integer\", \"default\": 64,"
    " \"minimum\": 1, \"maximum\": 1000000000, \"description\":"
    " \"local: samples a step\"},"
    "\"order\": {\"enum\": [\"samples\", \"parts\"],"
    " \"description\": \"samples: a clock's samples are drawn anew each pass;"
    " parts: dealt out once, so that the rows of a clock are known before it"
    " begins (all that solvers but sgd take)\"},"
    "\"clock\": {\"anyOf\": [{\"enum\": [\"batch\", \"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000000}],"
    " \"default\": \"batch\", \"description\":"
    " \"what a clock is: a mini-batch a worker (in parts: a tenth of a pass), a"
    " pass over the data, or a pass cut into that many\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {
    "learning_rate", "momentum", "batch_size", "staleness", "warmup", NULL};

/* ---- opening ------------------------------------------------------------- */

static void glm_close(void *app)
{
    struct glm *m = app;

    if (!m)
        return;
    for (unsigned i = 0; m->work && i < m->workers; i++)
        glm_work_deinit(&m->work[i]);
    mem_free(m->work);
    glm_data_deinit(m);
    mem_free(m);
}

static bool says(const struct settings *s, const char *member, const char *word)
{
    const char *said = json_string_value(json_object_get(s->json, member));

    return said && strcmp(said, word) == 0;
}

static const char *const solvers[] = {[GLM_SGD] = "sgd",
                                      [GLM_SAGA] = "saga",
                                      [GLM_SVRG] = "svrg",
                                      [GLM_LOCAL] = "local"};

static enum glm_solver find_solver(const struct settings *s)
{
    enum glm_solver solver = GLM_LOCAL;

    while (solver > GLM_SGD && !says(s, "solver", solvers[solver]))
        solver--;
    return solver;
}

static enum err read_settings(struct glm *m, const struct settings *s,
                              const struct mlt_app_config *config,
                              struct fault *f)
{
    m->lambda = settings_number(s, "lambda", 0);
    m->l1_ratio = settings_number(s, "l1_ratio", 0);
    m->solver = find_solver(s);
    m->inner_passes = (uint64_t)settings_number(s, "inner_passes", 2);
    m->local_batch = (uint64_t)settings_number(s, "local_batch", 64);
    m->in_parts = m->solver != GLM_SGD || says(s, "order", "parts");
    m->parts = s->clocks;
    m->seed = s->seed;
    m->evaluate = s->evaluate;
    m->predict = s->predict != NULL;
    m->workers = config->workers;
    if (m->solver != GLM_SGD && says(s, "order", "samples"))
        return fault_set(f, ERR_INVAL,
                         "/app/order: the solver %s expected \"parts\": each "
                         "worker goes through samples of its own",
                         solvers[m->solver]);
    m->data = mem_strdup(s->data);
    return m->data ? ERR_OK : fault_set(f, ERR_NOMEM, "glm: out of memory");
}

static enum err open_glm(struct glm *m, const struct mlt_app_config *config,
                         struct fault *f)
{
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    err = read_settings(m, &s, config, f);
    if (!err)
        err = glm_data_load(m, &s, f);
    settings_deinit(&s);
    if (err || m->evaluate)
        return err;
    if (m->in_parts && m->parts == 0)
        m->parts = SAGA_PARTS;
    if (m->parts > m->train.count)
        m->parts = m->train.count;
    return ERR_OK;
}

static int glm_open(const struct mlt_app_config *config,
                    struct mlt_app_info *info, void **app,
                    struct mlt_error *error)
{
    struct glm *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};
    bool numbers;

    assert(config->workers >= 1);
    if (!m || open_glm(m, config, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "glm: out of memory");
        glm_close(m);
        return settings_fault(&f, error);
    }
    numbers = m->loss == GLM_SQUARED;
    *info = (struct mlt_app_info){
        .samples = m->train.count,
        .validation_samples = m->evaluate ? m->train.count : m->test.count,
        .order =
            m->in_parts && !m->evaluate ? MLT_ORDER_PARTS : MLT_ORDER_SAMPLES,
        .parts = m->evaluate ? 1 : m->parts,
        .metric = numbers ? "rmse" : "accuracy",
        .metric_higher_better = !numbers,
        .metric_reduction = numbers ? MLT_SQRT_MEAN : MLT_MEAN,
        .loss_floor = 0,
        .data = m->shape.summary,
    };
    *app = m;
    return 0;
}

/* ---- tables -------------------------------------------------------------- */

/* Small enough that cutting at chunks deals rows out evenly. */
static uint32_t chunk_bytes(const struct glm *m)
{
    uint64_t bytes = glm_rows(m) * m->outputs * sizeof(float);
    uint32_t chunk = CHUNK_BYTES_MAX;

    while (chunk > CHUNK_BYTES_MIN &&
           bytes / chunk < CHUNKS_A_WORKER * (uint64_t)m->workers)
        chunk /= 2;
    return chunk;
}

static int declare_table(const struct glm *m, struct mlt_ps *ps,
                         struct mlt_table_options opt, mlt_table *table,
                         struct mlt_error *error)
{
    opt.size = sizeof(opt);
    opt.width = m->outputs;
    opt.type = MLT_F32;
    return mlt_ps_table(ps, &opt, table, error);
}

static int declare_all(struct glm *m, struct mlt_ps *ps,
                       struct mlt_error *error)
{
    const bool sums = m->solver != GLM_SGD && !m->evaluate;
    struct mlt_table_options opt = {.name = "weights",
                                    .rows = glm_rows(m),
                                    .access = MLT_SHARED,
                                    .rule = sums ? "add" : NULL,
                                    .flags = sums ? MLT_NO_MOMENTUM : 0,
                                    .chunk_bytes = chunk_bytes(m)};
    int err = declare_table(m, ps, opt, &m->weights, error);

    if (err || !glm_remembers(m))
        return err;
    opt.name = "mean_gradient";
    opt.flags |= MLT_NOT_SAVED;
    err = declare_table(m, ps, opt, &m->mean, error);
    if (err)
        return err;
    opt.name = "slopes";
    opt.rows = m->train.count;
    opt.access = MLT_EXCLUSIVE; /* written in place: no rule acts */
    opt.chunk_bytes = SLOPES_CHUNK_BYTES;
    return declare_table(m, ps, opt, &m->slopes, error);
}

/* Says which rows each worker touches in each part. */
static int expect_part(struct glm *m, struct mlt_ps *ps, unsigned index,
                       uint64_t part, struct glm_work *k)
{
    uint64_t first, n = glm_part_samples(m, index, part, &first);
    unsigned touch = MLT_READS | MLT_UPDATES;
    int err = 0;

    if (n == 0)
        return 0;
    glm_work_begin(m, k, n);
    for (uint64_t i = 0; i < n; i++)
        glm_work_touch(k, &m->train, first + i * m->parts);
    err = mlt_ps_expect(ps, m->weights, index, part, touch, k->rows, k->row);
    if (!err && glm_remembers(m))
        err = mlt_ps_expect(ps, m->mean, index, part, touch, k->rows, k->row);
    return err;
}

static int expect_all(struct glm *m, struct mlt_ps *ps, struct mlt_error *error)
{
    struct fault f = {0};
    int err = 0;

    for (unsigned index = 0; index < m->workers && !err; index++)
        for (uint64_t part = 0; part < m->parts && !err; part++)
            err = expect_part(m, ps, index, part, &m->work[0]);
    if (!err)
        return 0;
    fault_set(&f, (enum err)err, "glm: out of memory");
    return settings_fault(&f, error);
}

static enum err make_work(struct glm *m, struct fault *f)
{
    enum err err = data_memory_check("glm", glm_work_bytes(m) * m->workers,
                                     data_memory_limit(), f);

    if (err)
        return err;
    m->work = mem_calloc(m->workers, sizeof(*m->work));
    if (!m->work)
        return fault_set(f, ERR_NOMEM, "glm: out of memory");
    for (unsigned i = 0; i < m->workers && !err; i++)
        err = glm_work_init(m, &m->work[i], f);
    return err;
}

static int glm_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct glm *m = app;
    struct fault f = {0};
    int err;

    m->ps = ps;
    if (make_work(m, &f))
        return settings_fault(&f, error);
    err = declare_all(m, ps, error);
    return err || !m->in_parts || m->evaluate ? err : expect_all(m, ps, error);
}

/* All weights begin at zero: the losses are convex. */
static int glm_init(void *app, struct mlt_worker *w)
{
    (void)app;
    (void)w;
    return 0;
}

/* ---- clocks -------------------------------------------------------------- */

/* A worker's samples of a clock: a list, a run, or every step-th. */
struct glm_list {
    const uint64_t *sample;
    uint64_t first, count, step;
};

static uint64_t list_at(const struct glm_list *l, uint64_t i)
{
    return l->sample ? l->sample[i] : l->first + i * l->step;
}

static struct glm_list list_of(const struct glm *m, const struct mlt_worker *w,
                               const struct mlt_clock_ctx *ctx)
{
    struct glm_list l = {ctx->samples, ctx->first, ctx->count, 1};

    if (m->in_parts && !m->evaluate && ctx->type != MLT_CLOCK_TESTING) {
        l.sample = NULL;
        l.step = m->parts;
        l.count = glm_part_samples(m, mlt_worker_index(w), ctx->part, &l.first);
    }
    return l;
}

/* k->change are gradients of the worker's part of the mean loss; its samples
 * are @part of the clock's. They become those of the penalised loss. Returns
 * the penalty that the rows bear, a sample. */
static double add_penalty(const struct glm *m, struct glm_work *k,
                          uint64_t samples, float part, float step)
{
    double sum = 0;

    for (size_t i = 0; i < k->rows; i++) {
        uint64_t row = k->row[i];
        struct glm_penalty p;

        if (row == m->columns)
            continue;
        p = glm_penalty_share(m, k, row, samples);
        for (unsigned c = 0; c < m->outputs; c++) {
            size_t at = row * m->outputs + c;

            sum += glm_penalty_of(k->weight[at], p);
            k->change[at] =
                part * glm_penalty_gradient(k->weight[at], k->change[at] / part,
                                            step, p);
        }
    }
    return sum;
}

static void clear_change(const struct glm *m, struct glm_work *k)
{
    for (size_t i = 0; i < k->rows; i++)
        memset(k->change + k->row[i] * m->outputs, 0,
               m->outputs * sizeof(float));
}

static int take_rows(const struct glm *m, struct mlt_worker *w,
                     struct glm_work *k, const struct glm_set *set,
                     const struct glm_list *l)
{
    glm_work_begin(m, k, l->count);
    for (uint64_t i = 0; i < l->count; i++)
        glm_work_touch(k, set, list_at(l, i));
    return glm_work_read(m, w, k, m->weights, k->weight);
}

static int train(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                 const struct glm_list *l, uint64_t clock_samples)
{
    float scale = 1 / (float)clock_samples;
    double sum = 0;
    int err = take_rows(m, w, k, &m->train, l);

    if (err)
        return err;
    clear_change(m, k);
    for (uint64_t i = 0; i < l->count; i++) {
        uint64_t s = list_at(l, i);

        glm_scores(m, k, &m->train, s);
        sum += glm_loss_at(m->loss, m->outputs, k->z, m->train.y[s], k->d);
        glm_add_gradient(m, k, &m->train, s, scale, k->change);
    }
    if (m->lambda > 0)
        sum += (double)l->count *
               add_penalty(m, k, l->count, (float)l->count * scale,
                           (float)mlt_tunable(w, "learning_rate", 0));
    glm_work_add(m, w, k, m->weights, k->change, 1);
    mlt_report(w, sum, l->count);
    return 0;
}

/* The term of the metric, or the loss of a sample whose scores are in k->z. */
static double score_of(const struct glm *m, const struct glm_work *k, float y,
                       bool metric)
{
    double error;

    if (!metric)
        return glm_loss_at(m->loss, m->outputs, k->z, y, NULL);
    if (m->loss != GLM_SQUARED)
        return glm_loss_hits(m->loss, m->outputs, k->z, (unsigned)y);
    error = ((double)k->z[0] - (double)y) / glm_target_factor(m);
    return error * error;
}

static int look(const struct glm *m, struct mlt_worker *w, struct glm_work *k,
                const struct glm_set *set, const struct glm_list *l,
                bool metric)
{
    double sum = 0;
    int err = take_rows(m, w, k, set, l);

    if (err)
        return err;
    for (uint64_t i = 0; i < l->count; i++) {
        uint64_t s = list_at(l, i);

        glm_scores(m, k, set, s);
        sum += score_of(m, k, set->y[s], metric);
    }
    mlt_report(w, sum, l->count);
    return 0;
}

static int glm_run_clock(void *app, struct mlt_worker *w,
                         const struct mlt_clock_ctx *ctx)
{
    const struct glm *m = app;
    struct glm_work *k = &m->work[mlt_worker_index(w)];
    struct glm_list l = list_of(m, w, ctx);
    bool testing = ctx->type == MLT_CLOCK_TESTING;

    if (l.count == 0)
        return 0;
    if (testing || m->evaluate)
        return look(m, w, k, testing && !m->evaluate ? &m->test : &m->train, &l,
                    testing);
    switch (m->solver) {
    case GLM_SAGA:
        return glm_saga_clock(m, w, ctx);
    case GLM_SVRG:
        return glm_svrg_clock(m, w, ctx);
    case GLM_LOCAL:
        return glm_local_clock(m, w, ctx);
    case GLM_SGD:
        break;
    }
    return train(m, w, k, &l, ctx->clock_samples);
}

const struct mlt_app_ops app_glm = {
    .version = MLT_APP_VERSION,
    .name = "glm",
    .summary = "linear and logistic regression of sparse samples and tables; "
               "validation accuracy, or RMSE",
    .schema = schema,
    .tunables = tunables,
    .open = glm_open,
    .declare = glm_declare,
    .init = glm_init,
    .run_clock = glm_run_clock,
    .save = glm_save,
    .load = glm_load,
    .close = glm_close,
    .columns = glm_columns,
    .predict = glm_predict,
    .truth = glm_truth,
};
