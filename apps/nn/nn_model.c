/* nn: the saved model: beside the tables network.json (apps/nn/nn_network.h),
 * and of tables classes.txt, columns.txt and scaling.npy. */
#include "apps/nn/nn_app.h"
#include "apps/nn/nn_network.h"
#include "apps/samples/columns.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const char file_name[] = "network.json";

/* ---- saving -------------------------------------------------------------- */

/* Layers as text: laid out for the file, on one line for model.json. */
static enum err save_network(const struct nn *m, const char *dir, char *out,
                             size_t size, struct fault *f)
{
    const struct nn_network network = {.desc = m->desc,
                                       .input = m->input,
                                       .outputs = m->outputs,
                                       .mean = m->normal.mean,
                                       .deviation = m->normal.deviation};
    json_t *o = nn_network_json(&network);
    char *pretty = o ? json_write(o, 2) : NULL;
    char *line = o ? json_write(o, 0) : NULL;
    char path[FILE_PATH_MAX];
    enum err err = ERR_OK;

    json_decref(o);
    if (!pretty || !line)
        err = fault_set(f, ERR_NOMEM, "nn: out of memory");
    else if (strlen(line) >= size)
        err = fault_set(f, ERR_LIMIT, "nn: model.json has no room");
    else
        err = file_join(path, dir, file_name, f);
    if (!err)
        err = file_write_line(path, pretty, f);
    if (!err)
        memcpy(out, line, strlen(line) + 1);
    mem_free(pretty);
    mem_free(line);
    return err;
}

int nn_save(void *app, const char *dir, char *json, size_t size,
            struct mlt_error *error)
{
    const struct nn *m = app;
    struct fault f = {0};
    enum err err = samples_save_classes(&m->train, dir, &f);

    if (!err)
        err = columns_save(&m->train, dir, &f);
    if (!err)
        err = scaling_save(&m->scaling, dir, &f);
    if (!err)
        err = save_network(m, dir, json, size, &f);
    return err ? settings_fault(&f, error) : 0;
}

/* ---- loading ------------------------------------------------------------- */

static enum err check_input(const struct nn *m, const struct nn_network *n,
                            const char *path, struct fault *f)
{
    struct nn_shape a = n->input, b = m->input;

    if (a.channels != b.channels || a.height != b.height || a.width != b.width)
        return fault_set(f, ERR_FORMAT,
                         "%s: the network takes samples of %u x %u x %u, the "
                         "data are %u x %u x %u (channels, height, width)",
                         path, a.channels, a.height, a.width, b.channels,
                         b.height, b.width);
    if (m->train.pixel && !n->mean)
        return fault_set(f, ERR_FORMAT,
                         "%s: the network was trained on a table, the data "
                         "are images",
                         path);
    return ERR_OK;
}

static enum err take_network(struct nn *m, const struct nn_network *n,
                             const char *path, struct fault *f)
{
    enum err err = check_input(m, n, path, f);

    if (err)
        return err;
    if (n->desc.loss != m->desc.loss)
        return fault_set(f, ERR_FORMAT, "%s: /loss: expected %s, found %s",
                         path, nn_loss_name(m->desc.loss),
                         nn_loss_name(n->desc.loss));
    if (m->outputs > n->outputs)
        return fault_set(f, ERR_FORMAT,
                         "%s: the network knows %u classes, the data have %u",
                         path, n->outputs, m->outputs);
    m->desc = n->desc;
    m->outputs = n->outputs;
    if (m->train.pixel &&
        nn_normal_init(&m->normal, n->input.channels, n->mean, n->deviation))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    return ERR_OK;
}

static enum err read_text(const char *path, char **out, size_t *len,
                          struct fault *f)
{
    char *text = mem_alloc(JSON_TEXT_MAX + 1);
    FILE *file = fopen(path, "rbe");
    enum err err = ERR_OK;

    if (!file)
        err = fault_set(f, ERR_NOENT,
                        "%s: expected the description of a saved network, "
                        "found no such file",
                        path);
    else if (!text)
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    else
        *len = fread(text, 1, JSON_TEXT_MAX + 1, file);
    if (!err && ferror(file))
        err = fault_set(f, ERR_IO, "%s: cannot be read", path);
    if (file)
        fclose(file);
    if (err)
        mem_free(text);
    else
        *out = text;
    return err;
}

static enum err read_network(struct nn *m, const char *dir, struct fault *f)
{
    struct nn_network n = {.mean = NULL};
    struct fault own = {0};
    char path[FILE_PATH_MAX], *text = NULL;
    size_t len = 0;
    enum err err = file_join(path, dir, file_name, f);

    if (!err)
        err = read_text(path, &text, &len, f);
    if (err)
        return err;
    err = nn_network_parse(text, len, &n, &own);
    mem_free(text);
    if (err)
        return fault_set(f, err, "%s: %s", path, own.text);
    err = take_network(m, &n, path, f);
    nn_network_deinit(&n);
    return err;
}

static enum err load(struct nn *m, const char *dir, struct fault *f)
{
    enum err err = samples_load_classes(&m->train, m->data, dir, f);

    m->outputs = m->desc.loss == NN_SQUARED ? 1 : m->train.classes;
    if (!err)
        err = read_network(m, dir, f);
    if (!err)
        err = columns_check(&m->train, m->data, dir, f);
    if (!err)
        err = scaling_load(dir, &m->train, &m->scaling, f);
    if (!err)
        err = nn_check_target(m, dir, f);
    if (err)
        return err;
    scaling_apply(&m->scaling, &m->train);
    if (m->desc.loss == NN_CROSS_ENTROPY)
        err = class_columns_init(&m->columns, dir, m->outputs, f);
    return err ? err : nn_prepare(m, f);
}

int nn_load(void *app, const char *dir, struct mlt_error *error)
{
    struct fault f = {0};

    return load(app, dir, &f) ? settings_fault(&f, error) : 0;
}
