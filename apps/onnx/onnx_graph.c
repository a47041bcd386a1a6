#include "apps/onnx/onnx_graph.h"

#include "base/mem.h"
#include "base/protobuf.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Field numbers of onnx.proto, by message. */
enum {
    MODEL_IR = 1,
    MODEL_PRODUCER,
    MODEL_VERSION,
    MODEL_GRAPH = 7,
    MODEL_OPSET,
    MODEL_NOTE = 14
};
enum { OPSET_VERSION = 2 };
enum { NOTE_KEY = 1, NOTE_VALUE };
enum {
    GRAPH_NODE = 1,
    GRAPH_NAME,
    GRAPH_ARRAY = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT
};
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20
};
enum { ARRAY_DIM = 1, ARRAY_TYPE, ARRAY_NAME = 8, ARRAY_RAW };
enum { VALUE_NAME = 1, VALUE_TYPE };
enum {
    TYPE_TENSOR = 1,
    TENSOR_ELEMENT = 1,
    TENSOR_SHAPE,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM
};

static size_t type_bytes(enum onnx_type type)
{
    switch (type) {
    case ONNX_UINT8:
        return 1;
    case ONNX_FLOAT:
        return sizeof(float);
    default:
        return sizeof(double);
    }
}

void onnx_graph_init(struct onnx_graph *g)
{
    assert(g);
    memset(g, 0, sizeof(*g));
}

void onnx_graph_deinit(struct onnx_graph *g)
{
    if (!g)
        return;
    text_deinit(&g->nodes);
    text_deinit(&g->inputs);
    text_deinit(&g->outputs);
    text_deinit(&g->notes);
    for (size_t i = 0; i < g->arrays; i++)
        mem_free(g->array[i].data);
    memset(g, 0, sizeof(*g));
}

/* ---- values -------------------------------------------------------------- */

static void put_value(struct text *out, unsigned field, const char *name,
                      enum onnx_type type, const struct onnx_dims *dims)
{
    struct text shape = {0}, tensor = {0}, kind = {0}, value = {0};

    assert(dims->n <= ONNX_DIMS_MAX);
    for (size_t i = 0; i < dims->n; i++) {
        struct text dim = {0};

        if (dims->at[i] < 0)
            protobuf_string(&dim, DIM_PARAM, "N");
        else
            protobuf_int(&dim, DIM_VALUE, dims->at[i]);
        protobuf_message(&shape, SHAPE_DIM, &dim);
    }
    protobuf_int(&tensor, TENSOR_ELEMENT, type);
    protobuf_message(&tensor, TENSOR_SHAPE, &shape);
    protobuf_message(&kind, TYPE_TENSOR, &tensor);
    protobuf_string(&value, VALUE_NAME, name);
    protobuf_message(&value, VALUE_TYPE, &kind);
    protobuf_message(out, field, &value);
}

void onnx_input(struct onnx_graph *g, const char *name, enum onnx_type type,
                const struct onnx_dims *dims)
{
    put_value(&g->inputs, GRAPH_INPUT, name, type, dims);
}

void onnx_output(struct onnx_graph *g, const char *name, enum onnx_type type,
                 const struct onnx_dims *dims)
{
    put_value(&g->outputs, GRAPH_OUTPUT, name, type, dims);
}

void *onnx_array(struct onnx_graph *g, enum onnx_type type,
                 const struct onnx_dims *dims, char name[ONNX_NAME_MAX])
{
    struct onnx_array *a = &g->array[g->arrays];
    uint64_t values = 1;

    assert(g->arrays < ONNX_ARRAYS_MAX);
    assert(dims->n <= ONNX_DIMS_MAX);
    for (size_t i = 0; i < dims->n; i++) {
        assert(dims->at[i] > 0);
        values *= (uint64_t)dims->at[i];
    }
    *a = (struct onnx_array){
        .type = type, .dims = *dims, .bytes = values * type_bytes(type)};
    snprintf(a->name, sizeof(a->name), "array%zu", g->arrays);
    snprintf(name, ONNX_NAME_MAX, "%s", a->name);
    a->data = mem_calloc((size_t)values, type_bytes(type));
    g->no_memory |= !a->data;
    g->arrays += a->data != NULL;
    return a->data;
}

/* ---- nodes --------------------------------------------------------------- */

static void put_attribute(struct text *node, const struct onnx_attribute *a)
{
    struct text t = {0};

    protobuf_string(&t, ATTRIBUTE_NAME, a->name);
    if (a->kind == ONNX_INT)
        protobuf_int(&t, ATTRIBUTE_INT, a->i[0]);
    else if (a->kind == ONNX_REAL)
        protobuf_float(&t, ATTRIBUTE_FLOAT, a->f);
    for (size_t k = 0; a->kind == ONNX_INTS && k < a->n; k++)
        protobuf_int(&t, ATTRIBUTE_INTS, a->i[k]);
    protobuf_int(&t, ATTRIBUTE_TYPE, a->kind);
    protobuf_message(node, NODE_ATTRIBUTE, &t);
}

void onnx_add(struct onnx_graph *g, const struct onnx_node *node,
              const char *out, char name[ONNX_NAME_MAX])
{
    struct text t = {0};
    char own[ONNX_NAME_MAX];

    for (size_t i = 0; i < sizeof(node->in) / sizeof(*node->in); i++) {
        if (!node->in[i])
            break;
        protobuf_string(&t, NODE_INPUT, node->in[i]);
    }
    snprintf(own, sizeof(own), "value%u_%.32s", g->values, node->op);
    protobuf_string(&t, NODE_OUTPUT, out ? out : own);
    protobuf_string(&t, NODE_NAME, own);
    protobuf_string(&t, NODE_OP, node->op);
    for (size_t i = 0; i < node->attributes; i++)
        put_attribute(&t, &node->attribute[i]);
    protobuf_message(&g->nodes, GRAPH_NODE, &t);
    g->values++;
    if (name)
        snprintf(name, ONNX_NAME_MAX, "%s", out ? out : own);
}

void onnx_note(struct onnx_graph *g, const char *key, const char *value)
{
    struct text t = {0};

    protobuf_string(&t, NOTE_KEY, key);
    protobuf_string(&t, NOTE_VALUE, value);
    protobuf_message(&g->notes, MODEL_NOTE, &t);
}

/* ---- writing ------------------------------------------------------------- */

/* An array's field up to its bytes, the last of its members. */
static void array_head(const struct onnx_array *a, struct text *out)
{
    struct text t = {0};

    for (size_t i = 0; i < a->dims.n; i++)
        protobuf_int(&t, ARRAY_DIM, a->dims.at[i]);
    protobuf_int(&t, ARRAY_TYPE, a->type);
    protobuf_string(&t, ARRAY_NAME, a->name);
    protobuf_head(&t, ARRAY_RAW, a->bytes);
    protobuf_head(out, GRAPH_ARRAY, text_length(&t) + a->bytes);
    text_join(out, &t);
}

static void put_model(const struct onnx_graph *g, const char *version,
                      struct text *out)
{
    struct text opset = {0};

    protobuf_int(out, MODEL_IR, ONNX_IR);
    protobuf_string(out, MODEL_PRODUCER, "mltune");
    protobuf_string(out, MODEL_VERSION, version);
    protobuf_int(&opset, OPSET_VERSION, ONNX_OPSET);
    protobuf_message(out, MODEL_OPSET, &opset);
    text_add(out, text_so_far(&g->notes), text_length(&g->notes));
}

/* The graph's members but its arrays. */
static void put_graph(const struct onnx_graph *g, const char *name,
                      struct text *out)
{
    const struct text *const parts[] = {&g->nodes, &g->inputs, &g->outputs};

    protobuf_string(out, GRAPH_NAME, name);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        text_add(out, text_so_far(parts[i]), text_length(parts[i]));
}

static uint64_t arrays_size(const struct onnx_graph *g, bool *lost)
{
    uint64_t size = 0;

    for (size_t i = 0; i < g->arrays; i++) {
        struct text head = {0};

        array_head(&g->array[i], &head);
        size += text_length(&head) + g->array[i].bytes;
        *lost |= text_lost(&head);
        text_deinit(&head);
    }
    return size;
}

/* Numbers are little-endian there, as on every machine that this runs on. */
static bool write_array(const struct onnx_array *a, FILE *out)
{
    struct text head = {0};
    bool lost;

    array_head(a, &head);
    fwrite(text_so_far(&head), 1, text_length(&head), out);
    fwrite(a->data, 1, (size_t)a->bytes, out);
    lost = text_lost(&head);
    text_deinit(&head);
    return !lost;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "raw_data is little-endian");

enum err onnx_graph_write(const struct onnx_graph *g, const char *name,
                          const char *version, FILE *out, struct fault *f)
{
    struct text model = {0}, graph = {0};
    bool lost = g->no_memory || text_lost(&g->nodes) || text_lost(&g->inputs) ||
                text_lost(&g->outputs) || text_lost(&g->notes);
    uint64_t arrays = arrays_size(g, &lost), size;
    enum err err = ERR_OK;

    put_model(g, version, &model);
    put_graph(g, name, &graph);
    size = text_length(&graph) + arrays;
    protobuf_head(&model, MODEL_GRAPH, size);
    size += text_length(&model);
    if (lost || text_lost(&model) || text_lost(&graph)) {
        err = fault_set(f, ERR_NOMEM, "onnx: out of memory");
    } else if (size > ONNX_BYTES_MAX) {
        err = fault_set(f, ERR_LIMIT,
                        "onnx: a file holds at most 2 GiB, this model takes "
                        "%" PRIu64 " bytes",
                        size);
    } else {
        fwrite(text_so_far(&model), 1, text_length(&model), out);
        fwrite(text_so_far(&graph), 1, text_length(&graph), out);
        for (size_t i = 0; i < g->arrays; i++)
            lost |= !write_array(&g->array[i], out);
        if (lost)
            err = fault_set(f, ERR_NOMEM, "onnx: out of memory");
        else if (ferror(out))
            err = fault_set(f, ERR_IO, "onnx: could not be written");
    }
    text_deinit(&model);
    text_deinit(&graph);
    return err;
}
