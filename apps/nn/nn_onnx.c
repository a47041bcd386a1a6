#include "apps/nn/nn_onnx.h"

#include "apps/nn/nn_network.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/npy_io.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* The way through the network. */
struct way {
    const char *dir;
    struct onnx_graph *g;
    char at[ONNX_NAME_MAX]; /* the value that the next layer gets */
    bool flat;              /* it is [N][values], else [N][c][h][w] */
};

/* ---- arrays of the folder ------------------------------------------------ */

/* The table DIR/NAME.npy of @rows x @width; the caller's (mem_free). */
static enum err read_table(const char *dir, const char *name, uint64_t rows,
                           uint64_t width, float **out, struct fault *f)
{
    char path[FILE_PATH_MAX], file[64];
    struct npy_reader *r;
    struct npy_info info;
    float *value = NULL;
    enum err err;

    snprintf(file, sizeof(file), "%s.npy", name);
    err = file_join(path, dir, file, f);
    if (!err)
        err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    if (info.type != NPY_F32 || info.rows != rows || info.cols != width)
        err = fault_set(f, ERR_FORMAT,
                        "%s: expected %" PRIu64 " x %" PRIu64
                        " float32, found %" PRIu64 " x %" PRIu64 " %s",
                        path, rows, width, info.rows, info.cols,
                        npy_type_name(info.type));
    if (!err) {
        value = mem_alloc((size_t)(rows * width) * sizeof(*value));
        err = value ? npy_read(r, value,
                               (size_t)(rows * width) * sizeof(*value), f)
                    : fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    npy_close(r);
    if (err)
        mem_free(value);
    else
        *out = value;
    return err;
}

/* The parameters of layer @l, number @number. */
static enum err read_layer(const char *dir, const struct nn_layer *l,
                           unsigned number, float **out, struct fault *f)
{
    char name[48];

    snprintf(name, sizeof(name), "layer%u_%s", number, nn_kind_name(l->kind));
    return read_table(dir, name, l->rows, l->row_width, out, f);
}

/* ---- shapes -------------------------------------------------------------- */

static void make_flat(struct way *w)
{
    const struct onnx_node node = {.op = "Flatten", .in = {w->at}};

    if (!w->flat)
        onnx_add(w->g, &node, NULL, w->at);
    w->flat = true;
}

static void make_planes(struct way *w, struct nn_shape s)
{
    const struct onnx_dims dims = {1, {4}};
    char name[ONNX_NAME_MAX];
    const struct onnx_node node = {.op = "Reshape", .in = {w->at, name}};
    int64_t *to;

    if (!w->flat)
        return;
    to = onnx_array(w->g, ONNX_INT64, &dims, name);
    if (to) {
        to[0] = -1;
        to[1] = s.channels;
        to[2] = s.height;
        to[3] = s.width;
    }
    onnx_add(w->g, &node, NULL, w->at);
    w->flat = false;
}

/* ---- layers -------------------------------------------------------------- */

/* @from[places][channels] as @to[channels][places]. */
static void channels_first(size_t places, size_t channels, const float *from,
                           float *to)
{
    for (size_t p = 0; p < places; p++)
        for (size_t c = 0; c < channels; c++)
            to[c * places + p] = from[p * channels + c];
}

/* Weights [units][channels][places] and biases [units] of rows that have them
 * channels last. */
static void turn_rows(const struct nn_layer *l, const float *row, float *weight,
                      float *bias)
{
    size_t channels = l->in.channels, places = l->fan_in / channels, u = 0;

    for (uint32_t r = 0; r < l->rows; r++, row += l->row_width) {
        uint32_t outputs = nn_row_outputs(l, r);

        for (uint32_t k = 0; k < outputs; k++, u++) {
            channels_first(places, channels, row + k * l->fan_in,
                           weight + u * l->fan_in);
            bias[u] = row[l->row_units * l->fan_in + k];
        }
    }
    assert(u == l->units);
}

/* The names of both in the graph. */
struct parameters {
    char weight[ONNX_NAME_MAX], bias[ONNX_NAME_MAX];
};

static enum err put_rows(struct way *w, const struct nn_layer *l,
                         unsigned number, const struct onnx_dims *dims,
                         struct parameters *out, struct fault *f)
{
    const struct onnx_dims column = {1, {l->units}};
    float *row = NULL, *weight, *bias;
    enum err err = read_layer(w->dir, l, number, &row, f);

    if (err)
        return err;
    weight = onnx_array(w->g, ONNX_FLOAT, dims, out->weight);
    bias = onnx_array(w->g, ONNX_FLOAT, &column, out->bias);
    if (weight && bias)
        turn_rows(l, row, weight, bias);
    else
        err = fault_set(f, ERR_NOMEM, "onnx: out of memory");
    mem_free(row);
    return err;
}

static enum err put_dense(struct way *w, const struct nn_layer *l,
                          unsigned number, struct fault *f)
{
    const struct onnx_dims dims = {2, {l->units, (int64_t)l->fan_in}};
    struct parameters p;
    enum err err = put_rows(w, l, number, &dims, &p, f);

    if (err)
        return err;
    make_flat(w);
    onnx_dense(w->g, p.weight, p.bias, w->at);
    return ERR_OK;
}

/* Kernel, strides and padding of @l, at @node's end. */
static void add_window(const struct nn_layer *l, struct onnx_node *node)
{
    const int64_t k = l->kernel, s = l->stride, p = l->padding;
    const struct onnx_attribute window[] = {
        {.name = "kernel_shape", .kind = ONNX_INTS, .i = {k, k}, .n = 2},
        {.name = "strides", .kind = ONNX_INTS, .i = {s, s}, .n = 2},
        {.name = "pads", .kind = ONNX_INTS, .i = {p, p, p, p}, .n = 4}};

    memcpy(node->attribute + node->attributes, window, sizeof(window));
    node->attributes += sizeof(window) / sizeof(*window);
}

static enum err put_conv(struct way *w, const struct nn_layer *l,
                         unsigned number, struct fault *f)
{
    const struct onnx_dims dims = {
        4, {l->units, l->in.channels, l->kernel, l->kernel}};
    struct parameters p;
    struct onnx_node node = {.op = "Conv", .in = {w->at, p.weight, p.bias}};
    enum err err = put_rows(w, l, number, &dims, &p, f);

    if (err)
        return err;
    make_planes(w, l->in);
    add_window(l, &node);
    onnx_add(w->g, &node, NULL, w->at);
    return ERR_OK;
}

/* count_include_pad is 0 where nothing is said, as here. */
static void put_pool(struct way *w, const struct nn_layer *l)
{
    struct onnx_node node = {.op = l->kind == NN_MAX_POOL ? "MaxPool"
                                                          : "AveragePool",
                             .in = {w->at}};

    make_planes(w, l->in);
    add_window(l, &node);
    onnx_add(w->g, &node, NULL, w->at);
}

/* Scale, shift, mean, variance, each [channels]. */
static enum err put_channels(struct way *w, size_t channels,
                             const float *from[4], char name[4][ONNX_NAME_MAX],
                             struct fault *f)
{
    const struct onnx_dims dims = {1, {(int64_t)channels}};

    for (int k = 0; k < 4; k++) {
        float *to = onnx_array(w->g, ONNX_FLOAT, &dims, name[k]);

        if (!to)
            return fault_set(f, ERR_NOMEM, "onnx: out of memory");
        /* A variance that late shares took below 0 counts as 0. */
        for (size_t c = 0; c < channels; c++)
            to[c] = k == 3 && from[k][c] < 0 ? 0 : from[k][c];
    }
    return ERR_OK;
}

static enum err put_norm(struct way *w, const struct nn_layer *l,
                         unsigned number, struct fault *f)
{
    size_t channels = l->in.channels;
    char table[48], name[4][ONNX_NAME_MAX];
    struct onnx_node node = {
        .op = "BatchNormalization",
        .in = {w->at, name[0], name[1], name[2], name[3]},
        .attribute = {{.name = "epsilon", .kind = ONNX_REAL, .f = l->epsilon}},
        .attributes = 1};
    float *own = NULL, *moments = NULL;
    enum err err = read_layer(w->dir, l, number, &own, f);

    snprintf(table, sizeof(table), "layer%u_moments", number);
    if (!err)
        err = read_table(w->dir, table, 1, l->moments, &moments, f);
    if (!err) {
        const float *from[4] = {own, own + channels, moments,
                                moments + channels};

        assert(own && moments);
        err = put_channels(w, channels, from, name, f);
    }
    mem_free(own);
    mem_free(moments);
    if (err)
        return err;
    make_planes(w, l->in);
    onnx_add(w->g, &node, NULL, w->at);
    return ERR_OK;
}

static void put_plain(struct way *w, const char *op)
{
    const struct onnx_node node = {.op = op, .in = {w->at}};

    onnx_add(w->g, &node, NULL, w->at);
}

static enum err put_layer(struct way *w, const struct nn_layer *l,
                          unsigned number, struct fault *f)
{
    switch (l->kind) {
    case NN_DENSE:
        return put_dense(w, l, number, f);
    case NN_CONV:
        return put_conv(w, l, number, f);
    case NN_MAX_POOL:
    case NN_AVG_POOL:
        put_pool(w, l);
        return ERR_OK;
    case NN_RELU:
        put_plain(w, "Relu");
        return ERR_OK;
    case NN_TANH:
        put_plain(w, "Tanh");
        return ERR_OK;
    case NN_NORM:
        return put_norm(w, l, number, f);
    case NN_DROPOUT: /* drops nothing outside of training */
        return ERR_OK;
    default:
        return fault_set(f, ERR_UNSUPPORTED,
                         "layer %u (%s): it has no form in ONNX here", number,
                         nn_kind_name(l->kind));
    }
}

/* ---- the whole ----------------------------------------------------------- */

/* As apps/nn/nn_data.c normalises: by channel, deviation 0 counts as 1. */
static enum err image_input(struct way *w, const struct nn_network *n,
                            struct fault *f)
{
    uint32_t channels = n->input.channels;
    float *scale = mem_calloc(channels, 2 * sizeof(*scale));
    float *offset = scale + channels;

    if (!scale)
        return fault_set(f, ERR_NOMEM, "onnx: out of memory");
    for (uint32_t c = 0; c < channels; c++) {
        double factor = n->deviation[c] > 0 ? 1 / n->deviation[c] : 1;

        scale[c] = (float)(factor / 255);
        offset[c] = (float)(-n->mean[c] * factor);
    }
    onnx_image_input(w->g, channels, n->input.height, n->input.width, scale,
                     offset, w->at);
    mem_free(scale);
    return ERR_OK;
}

static enum err build(struct way *w, struct nn_network *n,
                      struct scaling *scaling, struct fault *f)
{
    struct nn_desc *d = &n->desc;
    uint64_t last = scaling->columns;
    enum err err;

    if (n->mean) {
        err = image_input(w, n, f);
    } else {
        err = scaling_read(w->dir, nn_shape_size(n->input), scaling, f);
        if (!err)
            err = onnx_table_input(w->g, w->dir, scaling, w->at, f);
        w->flat = true;
        last = scaling->columns;
    }
    for (unsigned l = 0; l < d->count && !err; l++)
        err = put_layer(w, &d->layer[l], l, f);
    if (err)
        return err;
    make_flat(w);
    if (d->loss == NN_CROSS_ENTROPY)
        return onnx_class_output(w->g, w->dir, n->outputs, w->at, f);
    if (!scaling->mean || !(scaling->factor[last] > 0))
        return fault_set(f, ERR_FORMAT,
                         "%s/scaling.npy: expected the scaling of the number "
                         "that is predicted",
                         w->dir);
    onnx_value_output(w->g, scaling->mean[last], scaling->factor[last], w->at);
    return ERR_OK;
}

static enum err read_network(const char *dir, struct nn_network *out,
                             struct fault *f)
{
    char path[FILE_PATH_MAX], *text = NULL;
    struct fault own = {0};
    size_t len = 0;
    enum err err = file_join(path, dir, "network.json", f);

    if (!err)
        err = file_read(path, JSON_TEXT_MAX, &text, &len, f);
    if (err)
        return err;
    err = nn_network_parse(text, len, out, &own);
    mem_free(text);
    if (err)
        return fault_set(f, err, "%s: %s", path, own.text);
    err = nn_desc_shape(&out->desc, "", out->input, out->outputs, &own);
    if (!err)
        return ERR_OK;
    nn_network_deinit(out);
    return fault_set(f, ERR_FORMAT, "%s: %s", path, own.text);
}

enum err nn_onnx(const struct onnx_source *source, struct onnx_graph *g,
                 struct fault *f)
{
    struct nn_network network = {.mean = NULL};
    struct scaling scaling = {0};
    struct way w = {.dir = source->dir, .g = g};
    enum err err = read_network(source->dir, &network, f);

    if (err)
        return err;
    err = build(&w, &network, &scaling, f);
    scaling_deinit(&scaling);
    nn_network_deinit(&network);
    return err;
}
