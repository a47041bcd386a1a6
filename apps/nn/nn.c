#include "apps/nn/nn.h"

#include "apps/formats/data_stream.h"
#include "apps/nn/nn_app.h"
#include "apps/nn/nn_preset.h"
#include "apps/samples/samples_load.h"
#include "base/log.h"
#include "base/mem.h"
#include "mltune/device.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOMENTS_CHUNK_BYTES = 4096 };

/* clang-format off */
static const char schema[] =
    /* Of small tables a step of sgd makes too little: docs/algorithms.md. */
    "{\"type\": \"object\", \"x-table-rule\": \"adam\","
    " \"x-table-patience\": true,"
    " \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("nn", "images (idx, cifar) or a table (csv)") ","
    SAMPLES_SCHEMA ","
    "\"preset\": {\"type\": \"string\","
    " \"enum\": [\"mlp\", \"lenet5\", \"cifar-quick\"],"
    " \"x-presets\": {\"mlp\": " NN_PRESET_MLP ", \"lenet5\": " NN_PRESET_LENET5
    ", \"cifar-quick\": " NN_PRESET_CIFAR_QUICK "}, \"description\":"
    " \"a built-in network, instead of layers\"},"
    "\"layers\": {\"type\": \"array\", \"description\":"
    " \"the network, from the input on: dense (units, init), conv (channels,"
    " kernel, stride, padding, init), max_pool and avg_pool (kernel, stride,"
    " padding), relu, tanh, norm (rate, epsilon), dropout (rate)\"},"
    "\"loss\": {\"type\": \"string\", \"enum\": [\"cross_entropy\","
    " \"squared\"], \"default\": \"cross_entropy\","
    /* Numbers of tables: where sgd ends, most is still to come. */
    " \"x-update-rule\": {\"squared\": \"adam\"},"
    " \"x-task\": {\"cross_entropy\": \"classes\", \"squared\": \"numbers\"},"
    " \"description\":"
    " \"of the outputs: softmax and cross-entropy of the class, or half the"
    " squared error of a number (csv)\"},"
    "\"clock\": {\"anyOf\": [{\"enum\": [\"batch\", \"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000000}],"
    " \"default\": \"batch\", \"description\":"
    " \"what a clock is: a mini-batch a worker, a pass over the data, or a pass"
    " cut into that many\"},"
    "\"device\": {\"type\": \"string\", \"default\": \"cpu\","
    " \"pattern\": \"^(cpu|auto|auto:fake|auto:cuda:[0-9]{1,2}|host|fake|"
    "cuda:[0-9]{1,2})$\","
    " \"description\": \"where the network computes: cpu; cuda:0, the first"
    " GPU (one worker on one node, consistency bsp); auto: that where it is"
    " there and has room, else cpu; auto:cuda:1: another (host and fake are"
    " for tests)\"},"
    "\"lambda\": {\"type\": \"number\", \"default\": 0, \"minimum\": 0,"
    " \"description\": \"weight decay: weight of the penalty lambda/2 |w|^2,"
    " biases left out\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {
    "learning_rate", "momentum",        "batch_size", "staleness",
    "dropout",       "label_smoothing", "clip_norm",  "weight_decay",
    "update_rule",   "warmup",          NULL};

void nn_check_settings(const json_t *settings, const char *pointer,
                       struct problems *problems)
{
    struct nn_desc d;

    nn_desc_read(settings, pointer, &d, problems);
}

static bool has_dropout(const struct nn_desc *d)
{
    for (unsigned l = 0; l < d->count; l++)
        if (d->layer[l].kind == NN_DROPOUT)
            return true;
    return false;
}

const char *nn_idle_tunable(const json_t *settings, const char *tunable)
{
    const char *device = json_string_value(json_object_get(settings, "device"));
    const char *loss = json_string_value(json_object_get(settings, "loss"));
    bool dropout = strcmp(tunable, "dropout") == 0;
    bool smoothing = strcmp(tunable, "label_smoothing") == 0;
    struct problems problems = {0};
    struct nn_desc d;
    bool known;

    if (!dropout && !smoothing && strcmp(tunable, "clip_norm") != 0 &&
        strcmp(tunable, "update_rule") != 0)
        return NULL;
    if (device && strcmp(device, "cpu") != 0)
        return "with a device";
    if (smoothing && loss && strcmp(loss, "cross_entropy") != 0)
        return "with loss squared";
    nn_desc_read(settings, "/app", &d, &problems);
    known = problems.errors == 0 && !problems.no_memory;
    problems_deinit(&problems);
    return dropout && known && !has_dropout(&d) ? "without a dropout layer"
                                                : NULL;
}

/* ---- what a clock needs -------------------------------------------------- */

static void lane_deinit(struct nn_lane *lane)
{
    nn_device_free(lane->device);
    nn_net_free(lane->net);
    mem_free(lane->outputs);
    mem_free(lane->label);
    mem_free(lane->target);
    mem_free(lane->row);
    mem_free(lane->gradient);
}

static void free_lanes(struct nn *m)
{
    for (unsigned i = 0; m->lane && i < m->workers; i++)
        lane_deinit(&m->lane[i]);
    mem_free(m->lane);
    m->lane = NULL;
}

static void point_into_rows(const struct nn *m, struct nn_lane *lane)
{
    size_t at = 0;

    for (unsigned l = 0; l < m->desc.count; l++) {
        lane->params[l].row = lane->row + at;
        lane->grads[l].row = lane->gradient + at;
        at += m->desc.layer[l].rows;
    }
}

static size_t all_rows(const struct nn_desc *d)
{
    size_t n = 0;

    for (unsigned l = 0; l < d->count; l++)
        n += d->layer[l].rows;
    return n;
}

static enum err lane_init(const struct nn *m, struct nn_lane *lane,
                          struct fault *f)
{
    size_t rows = all_rows(&m->desc);
    bool squared = m->desc.loss == NN_SQUARED;
    enum err err = nn_net_new(m->desc.layer, m->desc.count, m->desc.loss,
                              m->block, &lane->net, f);

    if (err)
        return err;
    if (squared)
        lane->target = mem_calloc(m->block, sizeof(*lane->target));
    else
        lane->label = mem_calloc(m->block, sizeof(*lane->label));
    lane->row = mem_calloc(rows + 1, sizeof(*lane->row));
    lane->gradient = mem_calloc(rows + 1, sizeof(*lane->gradient));
    if ((!lane->target && !lane->label) || !lane->row || !lane->gradient)
        return fault_set(f, ERR_NOMEM, "nn: out of memory");
    point_into_rows(m, lane);
    return ERR_OK;
}

static enum err make_lanes(struct nn *m, struct fault *f)
{
    uint64_t bytes = nn_net_bytes(m->desc.layer, m->desc.count, m->block);
    enum err err;

    bytes = bytes > UINT64_MAX / m->workers ? UINT64_MAX : bytes * m->workers;
    err = data_memory_check("activations", bytes, data_memory_limit(), f);
    if (err)
        return err;
    m->lane = mem_calloc(m->workers, sizeof(*m->lane));
    if (!m->lane)
        return fault_set(f, ERR_NOMEM, "nn: out of memory");
    for (unsigned i = 0; !err && i < m->workers; i++)
        err = lane_init(m, &m->lane[i], f);
    return err;
}

static size_t block_of(const struct nn_desc *d)
{
    for (unsigned l = 0; l < d->count; l++)
        if (d->layer[l].kind == NN_NORM)
            return NN_BLOCK_NORM;
    return NN_BLOCK;
}

enum err nn_prepare(struct nn *m, struct fault *f)
{
    enum err err = nn_desc_shape(&m->desc, "/app", m->input, m->outputs, f);

    if (err)
        return err;
    if (nn_desc_parameters(&m->desc) == 0)
        return fault_set(f, ERR_INVAL,
                         "/app/layers: expected at least one dense or conv "
                         "layer, found nothing that learns");
    m->block = block_of(&m->desc);
    return make_lanes(m, f);
}

/* ---- opening ------------------------------------------------------------- */

static void nn_close(void *app)
{
    struct nn *m = app;

    if (!m)
        return;
    free_lanes(m);
    nn_data_deinit(m);
    mem_free(m);
}

/* The first fault of the description in words, and how many there are. */
static enum err read_network(struct nn *m, const struct settings *s,
                             struct fault *f)
{
    struct problems problems = {0};
    const struct problem *p;
    enum err err = ERR_OK;

    nn_desc_read(s->json, "/app", &m->desc, &problems);
    p = problems.item;
    if (problems.no_memory)
        err = fault_set(f, ERR_NOMEM, "nn: out of memory");
    else if (problems.errors > 1)
        err = fault_set(f, ERR_INVAL,
                        "%s: expected %s, found %s%s%s (and %zu more: mltune "
                        "validate)",
                        p->pointer, p->expected, p->found, *p->hint ? "; " : "",
                        p->hint, problems.errors - 1);
    else if (problems.errors == 1)
        err =
            fault_set(f, ERR_INVAL, "%s: expected %s, found %s%s%s", p->pointer,
                      p->expected, p->found, *p->hint ? "; " : "", p->hint);
    problems_deinit(&problems);
    return err;
}

/* A model is evaluated on the processor. */
static void take_device(struct nn *m, const struct settings *s)
{
    const char *name = json_string_value(json_object_get(s->json, "device"));

    snprintf(m->device, sizeof(m->device), "%s",
             name && !s->evaluate ? name : "cpu");
}

static enum err open_nn(struct nn *m, const struct mlt_app_config *config,
                        uint64_t *clocks, struct fault *f)
{
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    m->lambda = settings_number(&s, "lambda", 0);
    m->evaluate = s.evaluate;
    m->predict = s.predict != NULL;
    take_device(m, &s);
    m->seed = s.seed;
    m->workers = config->workers;
    *clocks = s.evaluate ? 1 : s.clocks;
    err = read_network(m, &s, f);
    if (!err)
        err = nn_data_load(m, &s, f);
    if (!err && !m->evaluate)
        err = nn_prepare(m, f);
    settings_deinit(&s);
    return err;
}

static int nn_open(const struct mlt_app_config *config,
                   struct mlt_app_info *info, void **app,
                   struct mlt_error *error)
{
    struct nn *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};
    uint64_t clocks = 0;
    bool squared;

    assert(config->workers >= 1);
    if (!m || open_nn(m, config, &clocks, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "nn: out of memory");
        nn_close(m);
        return settings_fault(&f, error);
    }
    squared = m->desc.loss == NN_SQUARED;
    *info = (struct mlt_app_info){
        .samples = m->train.count,
        .validation_samples = m->evaluate ? m->train.count : m->test.count,
        .order = MLT_ORDER_SAMPLES,
        .parts = clocks < m->train.count ? clocks : m->train.count,
        .metric = squared ? "rmse" : "accuracy",
        .metric_higher_better = !squared,
        .metric_reduction = squared ? MLT_SQRT_MEAN : MLT_MEAN,
        .loss_floor = 0,
        .data = m->train.summary,
    };
    *app = m;
    return 0;
}

/* ---- tables -------------------------------------------------------------- */

/* Of a row, in front: the weights. */
static uint32_t decayed_values(const struct nn_layer *layer)
{
    return layer->kind == NN_NORM
               ? 0
               : (uint32_t)(layer->row_units * layer->fan_in);
}

static int declare_layer(struct nn *m, struct mlt_ps *ps, unsigned l,
                         struct mlt_error *error)
{
    const struct nn_layer *layer = &m->desc.layer[l];
    char name[64];
    struct mlt_table_options o = {
        .size = sizeof(o),
        .name = name,
        .rows = layer->rows,
        .width = layer->row_width,
        .type = MLT_F32,
        .access = MLT_SHARED,
        .flags = MLT_OWN_CLOCK,
        .undecayed = layer->row_width - decayed_values(layer),
    };
    int err = 0;

    snprintf(name, sizeof(name), "layer%u_%s", l, nn_kind_name(layer->kind));
    if (layer->rows)
        err = mlt_ps_table(ps, &o, &m->weights[l], error);
    if (err || !layer->moments)
        return err;
    snprintf(name, sizeof(name), "layer%u_moments", l);
    o.rows = 1;
    o.width = layer->moments;
    o.undecayed = 0;
    o.rule = "add";
    o.chunk_bytes = MOMENTS_CHUNK_BYTES;
    return mlt_ps_table(ps, &o, &m->moments[l], error);
}

/* Layers whose tables lie on the device. */
static int put_layers(struct nn *m, struct mlt_ps *ps, struct mlt_error *error)
{
    int err = 0;

    for (unsigned l = 0; !err && l < m->desc.count; l++) {
        if (m->desc.layer[l].rows)
            err = mlt_ps_on_device(ps, m->weights[l], error);
        if (!err && m->desc.layer[l].moments)
            err = mlt_ps_on_device(ps, m->moments[l], error);
    }
    return err;
}

/* Sub-batches as on the processor where the kernels are its own, and where a
 * layer looks at all of one. */
static int make_device(struct nn *m, struct mlt_ps *ps, struct mlt_error *error)
{
    struct nn_lane *lane = &m->lane[0];
    struct space_stream *st = mlt_ps_stream(ps);
    bool own = st->space->ops->nn && m->block != NN_BLOCK_NORM;
    const struct nn_device_shape shape = {
        .layer = m->desc.layer,
        .count = m->desc.count,
        .loss = m->desc.loss,
        .block = own ? 0 : m->block,
        .input = m->input,
        .outputs = m->outputs,
        .scale = m->train.pixel ? m->normal.scale : NULL,
        .offset = m->normal.offset};
    struct fault f = {0};

    if (nn_device_new(st, &shape, &lane->device, &f))
        return settings_fault(&f, error);
    m->block = nn_device_block(lane->device);
    lane->outputs = mem_calloc(m->block * m->outputs, sizeof(*lane->outputs));
    if (lane->outputs)
        return put_layers(m, ps, error);
    fault_set(&f, ERR_NOMEM, "nn: out of memory");
    return settings_fault(&f, error);
}

/* The processor computes after all. */
static void leave_device(struct nn *m, struct mlt_ps *ps)
{
    struct nn_lane *lane = &m->lane[0];

    nn_device_free(lane->device);
    mem_free(lane->outputs);
    lane->device = NULL;
    lane->outputs = NULL;
    m->block = block_of(&m->desc);
    mlt_ps_device_close(ps);
}

/* Where "auto" finds no device, or none with room for the network's values and
 * parameters, the processor computes. */
static int find_device(struct nn *m, struct mlt_ps *ps, struct mlt_error *error)
{
    static const char or_cpu[] = "auto:";
    const char *name =
        strcmp(m->device, "auto") == 0 ? "auto:cuda:0" : m->device;
    bool any = strncmp(name, or_cpu, strlen(or_cpu)) == 0;
    struct mlt_error why = {0};
    bool found;
    int err;

    if (strcmp(name, "cpu") == 0)
        return 0;
    err = mlt_ps_device(ps, any ? name + strlen(or_cpu) : name, 0, &why);
    found = !err;
    if (!err)
        err = make_device(m, ps, &why);
    if (!err)
        err = mlt_ps_device_plan(ps, &why);
    if (err && any) {
        log_event(found ? LOG_WARN : LOG_INFO, "device",
                  "device=cpu why=\"%s\"", why.text);
        leave_device(m, ps);
        return 0;
    }
    if (err)
        *error = why;
    return err;
}

static int nn_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct nn *m = app;
    int err = 0;

    m->ps = ps;
    for (unsigned l = 0; !err && l < m->desc.count; l++)
        err = declare_layer(m, ps, l, error);
    return err ? err : find_device(m, ps, error);
}

static void init_layer(const struct nn *m, struct mlt_worker *w, unsigned l,
                       float *values)
{
    const struct nn_layer *layer = &m->desc.layer[l];
    uint64_t first, count;

    mlt_owned_rows(m->ps, m->weights[l], mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        nn_layer_init(layer, l, m->seed, (uint32_t)r, values);
        mlt_init_row(w, m->weights[l], r, values);
    }
    if (!layer->moments)
        return;
    mlt_owned_rows(m->ps, m->moments[l], mlt_worker_index(w), &first, &count);
    if (count > 0) {
        nn_moments_init(layer, values);
        mlt_init_row(w, m->moments[l], 0, values);
    }
}

/* A row for the widest layer. */
static int nn_init(void *app, struct mlt_worker *w)
{
    const struct nn *m = app;
    uint32_t widest = 1;
    float *values;

    for (unsigned l = 0; l < m->desc.count; l++) {
        const struct nn_layer *layer = &m->desc.layer[l];

        if (layer->row_width > widest)
            widest = layer->row_width;
        if (layer->moments > widest)
            widest = layer->moments;
    }
    values = mem_calloc(widest, sizeof(*values));
    if (!values)
        return ERR_NOMEM;
    for (unsigned l = 0; l < m->desc.count; l++)
        if (m->desc.layer[l].rows)
            init_layer(m, w, l, values);
    mem_free(values);
    return 0;
}

const struct mlt_app_ops app_nn = {
    .version = MLT_APP_VERSION,
    .name = "nn",
    .summary = "feed-forward network of described layers; validation accuracy",
    .schema = schema,
    .tunables = tunables,
    .open = nn_open,
    .declare = nn_declare,
    .init = nn_init,
    .run_clock = nn_run_clock,
    .save = nn_save,
    .load = nn_load,
    .close = nn_close,
    .columns = nn_columns,
    .predict = nn_predict,
    .truth = nn_truth,
    .keep = nn_save,
};
