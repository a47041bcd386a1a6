#include "apps/onnx/onnx_model.h"

#include "apps/samples/columns.h"
#include "apps/samples/encoding_file.h"
#include "apps/samples/samples.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

static const char input_name[] = "input";

/* ---- notes --------------------------------------------------------------- */

/* The list @names (transferred; NULL: no memory) as JSON. */
static enum err note_list(struct onnx_graph *g, const char *key, json_t *names,
                          struct fault *f)
{
    char *text = names ? json_write(names, 0) : NULL;

    json_decref(names);
    if (!text)
        return fault_set(f, ERR_NOMEM, "onnx: out of memory");
    onnx_note(g, key, text);
    mem_free(text);
    return ERR_OK;
}

static enum err note_columns(struct onnx_graph *g, const char *dir,
                             uint64_t columns, struct fault *f)
{
    char **name = NULL;
    json_t *list;
    int failed = 0;
    enum err err = columns_load(dir, columns, &name, f);

    if (err || !name)
        return err;
    list = json_array();
    for (uint64_t i = 0; i < columns; i++)
        failed |= json_array_append_new(list, json_string(name[i]));
    columns_free(name, columns);
    return note_list(g, "columns", json_whole(list, failed), f);
}

/* How columns become the inputs that the graph takes. */
static enum err note_encoding(struct onnx_graph *g, const char *dir,
                              struct fault *f)
{
    char *text;
    enum err err = encoding_text(dir, &text, f);

    if (text)
        onnx_note(g, "encoding", text);
    mem_free(text);
    return err;
}

static enum err note_classes(struct onnx_graph *g, const char *dir,
                             unsigned classes, struct fault *f)
{
    char *name[SAMPLES_CLASSES_MAX] = {NULL}, number[16];
    unsigned names = 0;
    json_t *list;
    int failed = 0;
    enum err err = samples_class_names(dir, name, &names, f);

    if (err)
        return err;
    list = json_array();
    for (unsigned i = 0; i < classes; i++) {
        snprintf(number, sizeof(number), "%u", i);
        failed |= json_array_append_new(
            list, json_string(i < names ? name[i] : number));
    }
    for (unsigned i = 0; i < names; i++)
        mem_free(name[i]);
    return note_list(g, "classes", json_whole(list, failed), f);
}

/* ---- what comes in ------------------------------------------------------- */

/* What @type the value @at becomes. */
static void cast(struct onnx_graph *g, enum onnx_type type, const char *out,
                 char at[ONNX_NAME_MAX])
{
    const struct onnx_node node = {
        .op = "Cast",
        .in = {at},
        .attribute = {{.name = "to", .kind = ONNX_INT, .i = {type}}},
        .attributes = 1};

    onnx_add(g, &node, out, at);
}

static void combine(struct onnx_graph *g, const char *op, const char *with,
                    char at[ONNX_NAME_MAX])
{
    const struct onnx_node node = {.op = op, .in = {at, with}};

    onnx_add(g, &node, NULL, at);
}

/* @op with the doubles @value[n]. */
static void with_doubles(struct onnx_graph *g, const char *op, uint64_t n,
                         const double *value, char at[ONNX_NAME_MAX])
{
    const struct onnx_dims dims = {1, {(int64_t)n}};
    char name[ONNX_NAME_MAX];
    double *to = onnx_array(g, ONNX_DOUBLE, &dims, name);

    if (to)
        memcpy(to, value, n * sizeof(*to));
    combine(g, op, name, at);
}

/* In double, as training scales: a large mean would cancel. */
enum err onnx_table_input(struct onnx_graph *g, const char *dir,
                          const struct scaling *s, char at[ONNX_NAME_MAX],
                          struct fault *f)
{
    const struct onnx_dims dims = {2, {-1, (int64_t)s->columns}};
    enum err err;

    assert(s->columns > 0);
    onnx_input(g, input_name, ONNX_FLOAT, &dims);
    snprintf(at, ONNX_NAME_MAX, "%s", input_name);
    cast(g, ONNX_DOUBLE, NULL, at);
    with_doubles(g, "Sub", s->columns, s->mean, at);
    with_doubles(g, "Mul", s->columns, s->factor, at);
    cast(g, ONNX_FLOAT, NULL, at);
    err = note_columns(g, dir, s->columns, f);
    return err ? err : note_encoding(g, dir, f);
}

static void with_channels(struct onnx_graph *g, const char *op, uint32_t n,
                          const float *value, char at[ONNX_NAME_MAX])
{
    const struct onnx_dims dims = {3, {n, 1, 1}};
    char name[ONNX_NAME_MAX];
    float *to = onnx_array(g, ONNX_FLOAT, &dims, name);

    if (to)
        memcpy(to, value, n * sizeof(*to));
    combine(g, op, name, at);
}

void onnx_image_input(struct onnx_graph *g, uint32_t channels, uint32_t height,
                      uint32_t width, const float scale[], const float offset[],
                      char at[ONNX_NAME_MAX])
{
    const struct onnx_dims dims = {4, {-1, channels, height, width}};

    onnx_input(g, input_name, ONNX_UINT8, &dims);
    snprintf(at, ONNX_NAME_MAX, "%s", input_name);
    cast(g, ONNX_FLOAT, NULL, at);
    with_channels(g, "Mul", channels, scale, at);
    with_channels(g, "Add", channels, offset, at);
}

void onnx_dense(struct onnx_graph *g, const char *weight, const char *bias,
                char at[ONNX_NAME_MAX])
{
    const struct onnx_node node = {
        .op = "Gemm",
        .in = {at, weight, bias},
        .attribute = {{.name = "transB", .kind = ONNX_INT, .i = {1}}},
        .attributes = 1};

    onnx_add(g, &node, NULL, at);
}

/* ---- what goes out ------------------------------------------------------- */

/* Of equal scores the first is the class, as with `mltune predict`. */
enum err onnx_class_output(struct onnx_graph *g, const char *dir,
                           unsigned classes, const char *at, struct fault *f)
{
    const struct onnx_dims one = {1, {-1}}, all = {2, {-1, classes}};
    const struct onnx_node best = {
        .op = "ArgMax",
        .in = {at},
        .attribute = {{.name = "axis", .kind = ONNX_INT, .i = {1}},
                      {.name = "keepdims", .kind = ONNX_INT, .i = {0}}},
        .attributes = 2};
    const struct onnx_node softmax = {
        .op = "Softmax",
        .in = {at},
        .attribute = {{.name = "axis", .kind = ONNX_INT, .i = {1}}},
        .attributes = 1};

    onnx_add(g, &best, "class", NULL);
    onnx_add(g, &softmax, "probabilities", NULL);
    onnx_output(g, "class", ONNX_INT64, &one);
    onnx_output(g, "probabilities", ONNX_FLOAT, &all);
    return note_classes(g, dir, classes, f);
}

void onnx_value_output(struct onnx_graph *g, double mean, double factor,
                       const char *at)
{
    const struct onnx_dims dims = {2, {-1, 1}};
    char now[ONNX_NAME_MAX];

    assert(factor > 0);
    snprintf(now, sizeof(now), "%s", at);
    cast(g, ONNX_DOUBLE, NULL, now);
    with_doubles(g, "Div", 1, &factor, now);
    with_doubles(g, "Add", 1, &mean, now);
    cast(g, ONNX_FLOAT, "value", now);
    onnx_output(g, "value", ONNX_FLOAT, &dims);
}
